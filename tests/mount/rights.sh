# shellcheck shell=bash disable=SC2016,SC2034,SC2154
# Rights: each rule with cases that it allows and cases that it refuses.

# shellcheck source=tests/mount/rights_lib.sh
. "${BASH_SOURCE[0]%/*}/rights_lib.sh"

# ---- attach: the kernel's answer, for openers and targets of all kinds ----

t_a_user_may_attach_only_to_processes_of_ones_own() {
    mount_pmcfs
    target_start mine "$ALICE"
    target_start bobs "$BOB"
    target_start roots
    alices a event=page-faults
    may as "$ALICE" -- mine
    may_not as "$ALICE" -- bobs
    may_not as "$ALICE" -- roots
}

t_a_process_of_the_same_user_in_another_group_is_refused() {
    mount_pmcfs
    target_by other setpriv --reuid "$ALICE" --regid "$BOB" --clear-groups -- "$HELPERS/target"
    alices a event=page-faults
    may_not as "$ALICE" -- other
    may setpriv --reuid "$ALICE" --regid "$BOB" --clear-groups -- other
}

t_a_user_namespace_is_observed_by_its_root_and_its_maker_and_nobody_else() {
    mount_pmcfs
    user_namespace
    alices a event=page-faults
    may "${INSIDE[@]}" -- bare
    may "${INSIDE[@]}" -- boxed
    may "${INSIDE_BARE[@]}" -- bare
    may_not "${INSIDE_BARE[@]}" -- boxed
    may as "$ALICE" -- boxed
    may as "$ALICE" -- bare
    chmod 777 "$M/a"
    may_not as "$BOB" -- boxed
    may_not as "$BOB" -- bare
}

t_root_of_a_user_namespace_observes_nothing_outside_of_it() {
    mount_pmcfs
    user_namespace
    target_start mine "$ALICE"
    target_by sibling setpriv --reuid "$ALICE" --regid "$ALICE" --clear-groups -- \
        unshare --user --map-root-user "$HELPERS/target"
    target_start roots
    alices a event=page-faults
    may_not "${INSIDE[@]}" -- mine
    may_not "${INSIDE[@]}" -- sibling
    may_not "${INSIDE[@]}" -- roots
}

t_root_of_a_user_namespace_has_no_more_than_its_user() {
    mount_sim
    user_namespace
    alices a event=page-faults
    is "$(result_by "${INSIDE[@]}" -- write "$M/a/target" cpu0)" EPERM
    is "$(result_by "${INSIDE[@]}" -- write "$M/a/event" cycles:k)" EPERM
    is "$(result_by "${INSIDE[@]}" -- write "$M/admin/tunables/mincount" 5)" EACCES
    is "$(result_by "${INSIDE[@]}" -- write "$M/admin/cpu0/0" disabled)" EACCES
    mkdir -m 755 "$M/roots"
    fails_with EPERM '"${INSIDE[@]}" rmdir $M/roots'
    fails_with EPERM '"${INSIDE[@]}" chmod 777 $M/roots'
    is "$(result_by "${INSIDE[@]}" -- write "$M/roots/event" page-faults)" EACCES
}

t_uid_0_of_a_container_observes_its_like_and_not_the_hosts_root() {
    mount_pmcfs
    target_by contained "${CONTAINED[@]}" "$HELPERS/target"
    target_by bare "${POWERLESS[@]}" "$HELPERS/target"
    target_start roots
    target_start bobs "$BOB"
    pmc a event=page-faults
    may "${CONTAINED[@]}" -- contained
    may "${CONTAINED[@]}" -- bare
    may "${POWERLESS[@]}" -- bare
    may_not "${POWERLESS[@]}" -- contained
    may_not "${CONTAINED[@]}" -- roots
    may_not "${CONTAINED[@]}" -- bobs
    is "$(result_by "${CONTAINED[@]}" -- write "$M/a/target" cpu0)" EPERM
}

t_programs_with_more_rights_than_their_user_are_refused() {
    mount_pmcfs
    set_id suid "$HELPERS/target"
    set_id sgid "$HELPERS/target" 2755
    set_id unreadable "$HELPERS/target" 711
    set_id caps "$HELPERS/target" 755
    setcap cap_net_raw+ep "$T/caps"
    alices a event=page-faults
    for kind in suid sgid unreadable caps; do
        # A shell executes the program, because setpriv could read every file until its exec.
        target_by $kind setpriv --reuid "$ALICE" --regid "$ALICE" --clear-groups -- sh -c "exec $T/$kind"
        may_not as "$ALICE" -- $kind
    done
    may env -- suid
}

t_every_thread_of_the_target_must_be_the_openers() {
    mount_pmcfs
    # One thread has changed its user with the raw system call, which affects only that thread.
    /usr/bin/python3 -c '
import ctypes, os, threading, time
call = ctypes.CDLL(None).syscall
def other():
    call(117, 1001, 1001, 1001)
    time.sleep(100)
threading.Thread(target=other, daemon=True).start()
time.sleep(.2)
call(106, 1000); call(119, 1000, 1000, 1000); call(117, 1000, 1000, 1000)
call(157, 4, 1, 0, 0, 0)
print("ready", flush=True)
time.sleep(100)' >"$T/ready" &
    PID_OF[mixed]=$!
    eventually 5 '[[ -s $T/ready ]]'
    alices a event=page-faults
    may_not as "$ALICE" -- mixed
}

t_x09_neither_zombies_nor_the_daemon_are_targets_for_anybody() {
    mount_pmcfs
    /usr/bin/python3 -c '
import os, sys, time
pid = os.fork()
if pid == 0:
    os._exit(0)
os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
print(pid, flush=True)
time.sleep(100)' >"$T/zombie" &
    eventually 5 '[[ -s $T/zombie ]]'
    alices a event=page-faults
    with perfmon
    for who in "as $ALICE --" "${WITH[*]} --" "env --"; do
        # shellcheck disable=SC2086 # word splitting is intended
        is "$(result_by $who write "$M/a/target" "$(<"$T/zombie")")" ESRCH "zombie by $who"
        # shellcheck disable=SC2086
        is "$(result_by $who write "$M/a/target" "$DAEMON")" EPERM "daemon by $who"
    done
    empty cat "$M/a/target"
}

# ---- the rights of the opener ----

t_a_set_uid_program_that_prints_into_a_descriptor_does_what_its_user_may() {
    mount_sim
    set_id io "$HELPERS/io"
    target_start mine "$ALICE"
    target_start bobs "$BOB"
    alices a event=page-faults
    # printed FILE TEXT: alice opens the file, and a set-user-ID program writes to it.
    printed() { as "$ALICE" sh -c "exec 5>'$M/a/$1'; exec '$T/io' fd 5 '$2'" || :; }
    for text in "target=${PID_OF[bobs]}" target=cpu0 'mode=SC target=all' kernel=on event=cycles:k \
        'mode=SS freq=99 target=cpu0'; do
        unchanged "$M/a" "is \"\$(printed config '$text')\" EPERM '$text'"
    done
    is "$(printed target "${PID_OF[bobs]}")" EPERM
    is "$(printed target all)" EPERM
    is "$(printed event cycles:k)" EPERM
    is "$(printed ctl start)" EPERM
    is "$(printed target "${PID_OF[mine]}")" ok
    is "$(printed config callchain=off)" ok
    is "$(printed ctl stop)" ok
    is "$(printed samples 'a remark')" ok
    is "$(grep -c ' user text=a\\040remark$' "$M/a/samples")" 1
    is "$(cat "$M/a/target")" "${PID_OF[mine]}"
}

t_the_superusers_targets_are_not_reopened_by_a_set_uid_writer() {
    mount_pmcfs
    set_id io "$HELPERS/io"
    target_start bobs "$BOB"
    alices a event=page-faults
    attach a "${PID_OF[bobs]}"
    ctl a stop
    for text in event=task-clock descendants=on; do
        unchanged "$M/a" "is \"\$(as $ALICE sh -c 'exec 5>$M/a/config; exec $T/io fd 5 $text' || :)\" EPERM '$text'"
    done
    accepted "$M/a/config" descendants=on
}

t_a_descriptor_of_the_superusers_that_is_passed_on_works() {
    mount_sim
    target_start bobs "$BOB"
    alices a event=page-faults
    alices b event=page-faults
    exec {target}>"$M/a/target" {config}>"$M/b/config" {ctl}>"$M/a/ctl" {tunable}>"$M/admin/tunables/mincount"
    is "$(result_as "$ALICE" fd "$target" "${PID_OF[bobs]}")" ok
    is "$(result_as "$ALICE" fd "$config" 'mode=SC target=cpu0')" ok
    is "$(result_as "$ALICE" fd "$ctl" stop)" ok
    is "$(result_as "$ALICE" fd "$tunable" 5)" ok
    is "$(state a) $(cat "$M/b/target") $(cat "$M/admin/tunables/mincount")" 'stopped cpu0 5'
}

t_readers_of_a_passed_descriptor_read_what_its_opener_may() {
    mount_pmcfs
    target_start mine "$ALICE"
    alices a event=page-faults period=10 "target=${PID_OF[mine]}"
    tell mine faults 100
    as "$ALICE" sh -c 'echo stop >"$1"' sh "$M/a/ctl"
    for file in status count detail samples samples.perf samples.folded error config target; do
        [[ $file != count ]] || continue # of a sampler it is EINVAL
        fails_with EACCES "as $BOB cat '$M/a/$file'"
        exec {held}<"$M/a/$file"
        as "$BOB" cat <&"$held" >"$T/read"
        exec {held}<&-
        [[ $file == error || -s $T/read ]] || die "bob read nothing of $file through a descriptor"
    done
}

t_chown_passes_on_the_targets_and_no_rights() {
    mount_pmcfs
    target_start bobs "$BOB"
    target_start other "$BOB"
    pmc a event=page-faults "target=${PID_OF[bobs]}"
    chown "$ALICE:$ALICE" "$M/a"
    tell bobs faults 100
    between "$(as "$ALICE" cat "$M/a/count")" 100 1000
    is "$(result_as "$ALICE" write "$M/a/target" "${PID_OF[other]}")" EPERM
    is "$(result_as "$ALICE" write "$M/a/ctl" stop)" ok
    is "$(result_as "$ALICE" write "$M/a/event" task-clock)" EPERM
    is "$(result_as "$ALICE" write "$M/a/ctl" start)" ok
    fails_with EPERM "as $ALICE chown $BOB $M/a"
}

# ---- the superuser ----

t_one_capability_makes_the_superuser() {
    mount_sim
    target_start bobs "$BOB"
    for capability in perfmon sys_admin; do
        with $capability
        mkdir "$M/a"
        chown "$ALICE:$ALICE" "$M/a"
        for text in event=cycles:k "target=${PID_OF[bobs]}"; do
            is "$(result_by "${WITH[@]}" -- write "$M/a/config" "$text")" ok "$capability: $text"
        done
        "${WITH[@]}" rmdir "$M/a"
    done
}

t_no_other_capability_makes_the_superuser() {
    mount_sim
    target_start bobs "$BOB"
    alices a event=page-faults
    for capability in sys_rawio dac_override net_admin bpf syslog; do
        with $capability
        for text in event=cycles:k target=cpu0; do
            is "$(result_by "${WITH[@]}" -- write "$M/a/config" "$text")" EPERM "$capability: $text"
        done
        is "$(result_by "${WITH[@]}" -- write "$M/a/target" "${PID_OF[bobs]}")" EPERM "$capability: process"
    done
    # The kernel's check needs CAP_SYS_PTRACE only.
    with sys_ptrace
    is "$(result_by "${WITH[@]}" -- write "$M/a/target" cpu0)" EPERM
    is "$(result_by "${WITH[@]}" -- write "$M/a/target" "${PID_OF[bobs]}")" ok
}

t_e39_administration_is_checked_again_at_the_write() {
    mount_sim
    for file in admin/tunables/mincount admin/cpu0/0 admin/probe; do
        text=1
        [[ $file != admin/cpu0/0 ]] || text=disabled
        is "$(result_by "${POWERLESS[@]}" -- write "$M/$file" $text)" EPERM "$file by uid 0 without capabilities"
        like "$(cat "$M/info/last_error")" "${FAILED}EPERM [A-Z0-9]+ $file: .*superuser"
        is "$(result_as "$ALICE" write "$M/$file" $text)" EACCES "$file by a user"
        accepted "$M/$file" $text
    done
}

t_h02_only_the_owner_and_the_superuser_release_and_rename() {
    mount_pmcfs
    mkdir -m 777 "$M/a"
    chown "$ALICE:$ALICE" "$M/a"
    fails_with EPERM "as $BOB rmdir $M/a"
    fails_with EPERM "as $BOB mv $M/a $M/b"
    as "$BOB" mkdir "$M/b"
    for rename in "$M/a $M/b" "$M/b $M/a"; do
        # shellcheck disable=SC2086 # word splitting is intended
        like "$(result_as "$BOB" rename $rename)" '^E(PERM|EXIST|NOTEMPTY)$'
    done
    is "$(stat -c %u "$M/a" "$M/b" | xargs)" "$ALICE $BOB"
    as "$ALICE" mv "$M/a" "$M/c"
    rmdir "$M/c" "$M/b"
}

# ---- tunables: operations that each value allows and refuses ----

t_t12_unprivileged_proc_debug() {
    mount_pmcfs
    target_start mine "$ALICE"
    target_start bobs "$BOB"
    target_by bare "${POWERLESS[@]}" "$HELPERS/target"
    alices a event=page-faults
    pmc b event=page-faults
    accepted "$M/admin/tunables/unprivileged_proc_debug" 0
    with perfmon
    is "$(result_as "$ALICE" write "$M/a/target" "${PID_OF[mine]}")" EPERM
    like "$(cat "$M/a/error")" '^EPERM E40 target: .*unprivileged_proc_debug'
    is "$(result_as "$ALICE" write "$M/a/target" "tid:${PID_OF[mine]}")" EPERM
    is "$(result_by "${POWERLESS[@]}" -- write "$M/b/target" "${PID_OF[bare]}")" EPERM
    is "$(result_as "$ALICE" write "$M/a/target" self)" ok
    is "$(result_by "${WITH[@]}" -- write "$M/a/target" "${PID_OF[mine]}")" ok
    accepted "$M/admin/tunables/unprivileged_proc_debug" 1
    is "$(result_by "${POWERLESS[@]}" -- write "$M/b/target" "${PID_OF[bare]}")" ok
    is "$(result_as "$ALICE" write "$M/a/target" "${PID_OF[bobs]}")" EPERM
}

t_t11_x07_unprivileged_syspmcs_opens_cpus_and_not_kernel_mode_nor_samples() {
    mount_sim
    target_start bobs "$BOB"
    alices a event=cycles
    is "$(result_as "$ALICE" write "$M/a/target" cpu0)" EPERM
    accepted "$M/admin/tunables/unprivileged_syspmcs" 1
    is "$(result_as "$ALICE" write "$M/a/target" cpu0)" ok
    is "$(status a event)" sim::cycles:u
    alices b
    is "$(result_as "$ALICE" write "$M/b/config" 'event=cycles:k target=cpu1')" EPERM
    is "$(result_as "$ALICE" write "$M/b/config" 'event=cycles freq=99 mode=SS target=cpu1')" EPERM
    is "$(result_as "$ALICE" write "$M/b/config" "event=page-faults target=${PID_OF[bobs]}")" EPERM
    accepted "$M/admin/tunables/unprivileged_syspmcs" 0
    is "$(result_as "$ALICE" write "$M/a/target" cpu1)" EPERM
    is "$(cat "$M/a/target")" cpu0
}

t_c21_cs09_ce03_unprivileged_kernel_opens_kernel_mode_and_nothing_else() {
    mount_sim
    target_start mine "$ALICE"
    target_start bobs "$BOB"
    alices a event=cycles
    is "$(result_as "$ALICE" write "$M/a/config" kernel=on)" EPERM
    is "$(status a event)" sim::cycles:u
    accepted "$M/admin/tunables/unprivileged_kernel" 1
    is "$(result_as "$ALICE" write "$M/a/config" kernel=on)" ok
    is "$(result_as "$ALICE" write "$M/a/event" cycles:k)" ok
    is "$(result_as "$ALICE" write "$M/a/target" "${PID_OF[bobs]}")" EPERM
    is "$(result_as "$ALICE" write "$M/a/target" cpu0)" EPERM
    is "$(result_as "$ALICE" write "$M/a/target" "${PID_OF[mine]}")" ok
    accepted "$M/admin/tunables/unprivileged_kernel" 0
    alices b
    is "$(result_as "$ALICE" write "$M/b/event" cycles:k)" EPERM
}

t_dirmode_limits_the_mode_of_mkdir_and_not_of_chmod() {
    mount_pmcfs -o dirmode=0750
    (umask 0 && as "$ALICE" mkdir "$M/a" && as "$ALICE" mkdir -m 711 "$M/b")
    is "$(stat -c %a "$M/a" "$M/b" | xargs)" '750 711'
    accepted "$M/admin/tunables/dirmode" 0700
    (umask 0 && as "$ALICE" mkdir "$M/c")
    is "$(stat -c %a "$M/c" "$M/a" | xargs)" '700 750' 'new ones only'
    fails_with EACCES "as $BOB cat $M/c/status"
    accepted "$M/admin/tunables/dirmode" 0777
    (umask 0 && as "$ALICE" mkdir "$M/d")
    as "$BOB" cat "$M/d/status" >/dev/null
    is "$(stat -c %a "$M/d/event" "$M/d/status" "$M/d/samples.perf" | xargs)" '666 444 444' 'w where one writes'
    as "$ALICE" chmod 705 "$M/d"
    is "$(stat -c %a "$M/d/event" "$M/d/status" | xargs)" '604 404'
}

t_rootmode_decides_who_may_create_pmcs() {
    mount_pmcfs -o rootmode=0755
    fails_with EACCES "as $ALICE mkdir $M/a"
    mkdir "$M/a"
    chown "$ALICE" "$M/a"
    fails_with EACCES "as $ALICE mv $M/a $M/b"
    fails_with EACCES "as $ALICE rmdir $M/a"
    is "$(result_as "$ALICE" write "$M/a/event" page-faults)" ok
    accepted "$M/admin/tunables/rootmode" 1777
    as "$ALICE" mv "$M/a" "$M/b"
    as "$ALICE" rmdir "$M/b"
}

t_pm13_readers_read_counts_and_write_nothing() {
    mount_pmcfs -o "readers=$BOB"
    target_start mine "$ALICE"
    alices a event=page-faults "target=${PID_OF[mine]}"
    for file in count detail status; do
        as "$BOB" cat "$M/a/$file" >"$T/$file" || die "a reader may not read $file"
    done
    as "$BOB" cat "$M/counts" | grep -q ^a
    as "$BOB" cat "$M/metrics.prom" | grep -q 'pmc="a"'
    for file in config event mode target ctl series samples samples.perf samples.folded error; do
        fails_with EACCES "as $BOB cat $M/a/$file"
    done
    for file in config event target ctl count samples; do
        is "$(result_as "$BOB" write "$M/a/$file" x)" EACCES "writing $file"
    done
    fails_with EPERM "as $BOB rmdir $M/a"
    # 1002 is in no such group.
    fails_with EACCES "as 1002 cat $M/a/count"
    empty as 1002 cat "$M/counts"
    # Supplementary groups count too.
    fails_with EACCES "setpriv --reuid 1002 --regid 1002 --groups $BOB -- cat $M/a/ctl"
    setpriv --reuid 1002 --regid 1002 --groups "$BOB" -- cat "$M/a/count" >/dev/null
}

# ---- cgroups ----

t_a_cgroup_needs_the_right_to_count_cpus() {
    cgroup_make
    chmod 755 "$GROUP"
    chown "$ALICE" "$GROUP/cgroup.procs" # a set-user-ID program of alice's would run there
    mount_pmcfs
    alices a event=context-switches
    is "$(result_as "$ALICE" write "$M/a/target" "cgroup:$GROUP_NAME")" EPERM
    like "$(cat "$M/a/error")" '^EPERM X07 target: .*unprivileged_syspmcs'
    is "$(result_as "$ALICE" write "$M/a/target" cgroup:/there/is/none)" EPERM
    is "$(result_as "$ALICE" write "$M/a/target" "-cgroup:$GROUP_NAME")" EPERM
    is "$(result_as "$ALICE" write "$M/a/target" -cgroup:/there/is/none)" EPERM
    accepted "$M/admin/tunables/unprivileged_syspmcs" 1
    is "$(result_as "$ALICE" write "$M/a/target" "cgroup:$GROUP_NAME")" ok
    accepted "$M/admin/tunables/unprivileged_syspmcs" 0
    is "$(result_as "$ALICE" write "$M/a/target" "-cgroup:$GROUP_NAME")" EPERM
    is "$(result_as "$ALICE" write "$M/a/ctl" detach)" ok
    empty cat "$M/a/target"
    alices c
    is "$(result_as "$ALICE" write "$M/c/config" "event=page-faults period=1 mode=SS target=cgroup:/")" EPERM
}

t_cgroups_are_named_from_the_writers_own_root() {
    cgroup_make
    mkdir "$GROUP/inner" "$GROUP/inner/below"
    mount_pmcfs
    pmc a event=context-switches
    # inside WORD: a process whose cgroup root is GROUP/inner writes it to target.
    inside() {
        sh -c 'echo $$ >"$1/cgroup.procs"; shift; exec unshare --cgroup "$@"' sh "$GROUP/inner" \
            "$HELPERS/io" write "$M/a/target" "$1" || :
    }
    for word in cgroup:/.. cgroup:/../ cgroup:/below/../.. "cgroup:$GROUP_NAME" cgroup:../inner; do
        like "$(inside "$word")" '^(ENOENT|EINVAL)$' "$word"
    done
    empty cat "$M/a/target"
    is "$(inside cgroup:/below)" ok
    is "$(grep -c . "$M/a/target")" 1
    accepted "$M/a/ctl" detach
    is "$(inside cgroup:/)" ok
    [[ $(cat "$M/a/detail") != *"$GROUP_NAME"* ]] || die 'names from outside'
}

# Moves a process between two cgroups, where the path of one contains the path of the other.
#@ slow
t_a_process_that_is_moved_names_no_cgroup_outside_its_namespace() {
    cgroup_make
    mkdir -p "$GROUP/victim" "$GROUP/box/p/q" "$GROUP/box$GROUP_NAME/box/p/q"
    mount_pmcfs
    pmc a event=context-switches
    sh -c 'echo $$ >"$1/cgroup.procs"; shift; exec unshare --cgroup "$@"' sh "$GROUP/box" python3 -I - "$M/a/target" \
        "cgroup:$GROUP_NAME/victim" "$GROUP/box/p/q/cgroup.procs" "$GROUP/box$GROUP_NAME/box/p/q/cgroup.procs" <<'P'
import os, sys, time
target, word, p, q = sys.argv[1:]
fd = os.open(target, os.O_WRONLY)
me = os.getpid()
mover = os.fork()
if mover == 0:
    places = os.open(p, os.O_WRONLY), os.open(q, os.O_WRONLY)
    while os.getppid() == me:
        for place in places:
            os.write(place, b"%d" % me)
    os._exit(0)
end = time.monotonic() + 4
won = False
while time.monotonic() < end and not won:
    try:
        won = os.write(fd, word.encode()) > 0
    except OSError:
        pass
os.kill(mover, 9)
sys.exit(won)
P
    empty cat "$M/a/target"
}

t_cgroup_paths_follow_no_links_and_no_mounts() {
    cgroup_make
    mkdir "$GROUP/over" "$GROUP/other"
    mount -t tmpfs tmpfs "$GROUP/over"
    ln -s "$GROUP/other" "$GROUP/over/link"
    ln -s / "$GROUP/over/root"
    mkdir "$GROUP/over/plain"
    mount_pmcfs
    pmc a event=context-switches
    for path in over over/link over/root over/plain over/root/etc cgroup.procs ../"${GROUP##*/}"/other; do
        like "$(result write "$M/a/target" "cgroup:$GROUP_NAME/$path")" '^(ENOENT|EINVAL)$' "$path"
    done
    # shellcheck disable=SC1003 # a NUL for io
    like "$(result write "$M/a/target" "cgroup:$GROUP_NAME\\0/other")" '^EINVAL$'
    empty cat "$M/a/target"
    accepted "$M/a/target" "cgroup:$GROUP_NAME/other"
    umount "$GROUP/over"
}
