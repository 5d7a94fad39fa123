# shellcheck shell=bash disable=SC2016
# Access: permission bits, the opener's rights, the check of an attach, the superuser.

# alices NAME [SETTINGS]: creates a PMC as alice; a refusal of the settings is not checked here.
alices() {
    as "$ALICE" mkdir "$M/$1"
    (($# == 1)) || result_as "$ALICE" write "$M/$1/config" "${*:2}" >/dev/null
}

t_files_have_the_documented_modes_and_a_pmc_has_those_of_chmod() {
    mount_pmcfs
    is "$(stat -c %a "$M" "$M/info" "$M/info/stats" "$M/events" "$M/admin" "$M/admin/tunables/mincount" "$M/counts" | xargs)" '1777 555 444 555 755 644 444'
    alices a
    is "$(stat -c '%a %u %g' "$M/a")" '700 1000 1000'
    is "$(stat -c %a "$M/a/config" "$M/a/count" "$M/a/status" "$M/a/ctl" | xargs)" '600 600 400 600'
    chmod 6777 "$M/a"
    is "$(stat -c %a "$M/a/event")" 666
}

t_the_present_mode_is_accepted_everywhere() {
    mount_pmcfs
    pmc a event=page-faults
    mkdir "$M/instances/one"
    local path
    for path in . README info info/cpu events/software admin admin/tunables/mincount a a/count instances instances/one{,/info}; do
        chmod "$(stat -c %a "$M/$path")" "$M/$path"
    done
    for path in . README info admin/tunables/mincount a/count instances instances/one/info; do
        fails_with EPERM "chmod 700 $M/$path"
    done
}

t_the_files_of_admin_are_all_of_one_mode_and_a_fixed_tunable_is_refused_at_write() {
    mount_sim
    mkdir "$M/instances/one"
    is "$(find "$M/admin" -type f -printf '%m %u %g\n' | sort -u)" '644 root root'
    is "$(result write "$M/admin/tunables/callchaindepth" 5)" EPERM
    like "$(cat "$M/info/last_error")" "${FAILED}EPERM P32 admin/tunables/callchaindepth: "
}

t_chmod_and_chown_need_the_right() {
    mount_pmcfs
    alices a
    fails_with EPERM "as $BOB chmod 777 $M/a"
    fails_with EPERM "as $ALICE chown $BOB $M/a"
    chown "$BOB:$BOB" "$M/a"
    is "$(stat -c '%u %g' "$M/a" "$M/a/count" | sort -u)" '1001 1001'
    as "$BOB" sh -c "echo page-faults >$M/a/event"
    fails_with EACCES "as $ALICE cat $M/a/count"
    chown "$ALICE" "$M/a/count"
    is "$(stat -c %u "$M/a")" "$ALICE" 'chown of a file is that of the PMC'
}

t_chmod_and_chown_of_a_pmc_change_its_ctime() {
    mount_pmcfs
    pmc a event=page-faults
    local made moded
    made=$(stat -c %z "$M/a")
    chmod 750 "$M/a"
    moded=$(stat -c %z "$M/a")
    [[ $moded > $made ]] || fail "$moded after chmod, $made before"
    chown "$BOB" "$M/a"
    [[ $(stat -c %z "$M/a") > $moded ]] || fail "$moded after chmod, $(stat -c %z "$M/a") after chown"
}

# acting_as 'PYTHON': runs it with become(user), write(file or descriptor, text), child(function), the tree M and the
# program io.
acting_as() {
    python "$T/io" <<P
import errno, os, sys
M, io = sys.argv[1:]
def become(user):
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
def write(file, text):
    fd = file if isinstance(file, int) else os.open(file, os.O_WRONLY)
    try:
        os.write(fd, str(text).encode())
        return "ok"
    except OSError as e:
        return errno.errorcode[e.errno]
def child(does):
    ours, its = os.pipe()
    if os.fork() == 0:
        os.write(its, does().encode())
        os._exit(0)
    os.close(its)
    os.wait()
    return os.read(ours, 99).decode()
$1
P
}

# A process that has changed its user is not dumpable: only root may observe it. `self` works all the same.
t_self_works_for_a_process_that_changed_its_user() {
    mount_pmcfs
    for name in a b c d; do alices $name event=page-faults; done
    is "$(acting_as '
become(1000)
print(write(M + "/a/target", "self"), write(M + "/b/ctl", "start"), write(M + "/c/target", os.getpid()),
    write(M + "/d/target", "tid:self"))
bytearray(b"x" * 4096 * 500)
for name in "abcd": print(int(open(M + "/" + name + "/count").read()) >= 500)
print(write(M + "/a/ctl", "stop"), write(M + "/a/config", "descendants=on"), write(M + "/a/ctl", "start"))' |
        xargs)" 'ok ok ok ok True True True True ok ok ok'
}

t_self_is_refused_to_other_processes_with_the_descriptor() {
    mount_pmcfs
    alices a event=page-faults
    cp "$HELPERS/io" "$T/io"
    chmod 711 "$T/io"
    is "$(acting_as '
def opened_before():
    os.setgroups([]); os.setegid(1000); os.seteuid(1000)
    fd = os.open(M + "/a/target", os.O_WRONLY)
    early = write(fd, "self") # it can become root again
    os.seteuid(0); os.setegid(0)
    become(1000)
    return early + " " + child(lambda: write(fd, "self")) + " " + write(fd, "self")
print(child(opened_before))
def executes():
    become(1000)
    fd = os.open(M + "/a/target", os.O_WRONLY)
    os.set_inheritable(fd, True)
    os.execv(io, [io, "fd", str(fd), "self"])
sys.stdout.flush()
if os.fork() == 0: executes()
os.wait()' | xargs)" 'EPERM EPERM ok EPERM'
    like "$(cat "$M/a/error")" '^EPERM E40 target: .*self means the process that opened this file: open and write'
}

t_descendants_one_may_not_observe_are_left_out() {
    mount_pmcfs
    # A process of alice with a child of bob: made by root, which then becomes alice.
    /usr/bin/python3 -c '
import os, sys, time
pid = os.fork()
if pid == 0:
    os.setgroups([]); os.setgid(1001); os.setuid(1001)
    time.sleep(100); os._exit(0)
os.setgroups([]); os.setgid(1000); os.setuid(1000)
os.execv("/bin/sleep", ["sleep", "100"])' &
    eventually 5 '[[ $(</proc/$!/comm) == sleep ]]'
    alices a event=page-faults descendants=on
    is "$(result_as "$ALICE" write "$M/a/target" $!)" ok
    grep -q '^left_out 1' "$M/a/status" || grep -qi 'left.out.*1' "$M/a/status"
}

t_the_exit_of_the_first_thread_is_not_an_exec() {
    mount_pmcfs
    mkfifo "$T/go"
    python3 -c 'import threading, ctypes, mmap, sys
def other():
    for n in range(2):
        open(sys.argv[1]).read()
        with mmap.mmap(-1, 4096 * 1000) as m:
            for page in range(1000): m[page * 4096] = 1
        open(sys.argv[1] + str(n), "w").close()
threading.Thread(target=other).start()
ctypes.CDLL(None)[sys.argv[2]](0)' "$T/go" pthread_exit &
    pmc a event=page-faults
    attach a $!
    local before
    echo >"$T/go"
    eventually 10 "[[ -e $T/go0 ]] && grep -q '^State:.Z' /proc/$!/status && ((\$(count a) > 1000))"
    is "$(state a) $(status a partial)" 'running no'
    before=$(count a)
    echo >"$T/go"
    eventually 10 '[[ $(state a) == exited ]]'
    between "$(count a)" $((before + 1000)) $((before + 2000))
}

# parent_and_child: starts a process of alice, PARENT, whose child is a target.c: `tell child …` commands it.
parent_and_child() {
    set_id suid-target "$HELPERS/target"
    mkfifo -m 666 "$T/child.in" "$T/child.out"
    setpriv --reuid "$ALICE" --regid "$ALICE" --clear-groups -- /usr/bin/python3 -c '
import os, sys, time
pid = os.fork()
if pid == 0:
    os.dup2(os.open(sys.argv[1] + ".in", os.O_RDONLY), 0)
    os.dup2(os.open(sys.argv[1] + ".out", os.O_WRONLY), 1)
    os.execv(sys.argv[2], ["target"])
time.sleep(100)' "$T/child" "$HELPERS/target" &
    PARENT=$!
    local in out line
    exec {in}>"$T/child.in" {out}<"$T/child.out"
    # shellcheck disable=SC2034,SC2154 # lib.sh has them
    IN[child]=$in OUT[child]=$out
    read -r -t 60 -u "$out" line || die 'the child did not start'
    PID_OF[child]=${line#ready }
}

# Only plain: a reload between the kernel's records about the child forgets the child.
#@ plain
t_a_child_that_runs_a_set_uid_program_is_counted_again_for_the_superuser() {
    mount_pmcfs
    parent_and_child
    pmc a event=page-faults descendants=on
    attach a "$PARENT"
    tell child faults 1000
    between "$(count a)" 1000 2000
    is "$(status a partial)" no
    tell child run "$T/suid-target"
    eventually 5 '[[ $(status a partial) == yes && $(status a attach) ]]'
    local before
    before=$(count a)
    eventually 5 'tell child faults 100; (($(count a) >= before + 100))'
    before=$(count a)
    tell child faults 5000
    between "$(count a)" $((before + 5000)) $((before + 6000))
    is "$(state a)" running
    is "$(status a partial)" yes
    ctl a restart
    is "$(status a partial)" no
}

#@ plain
t_a_child_that_runs_a_set_uid_program_is_left_out_for_others() {
    mount_pmcfs
    parent_and_child
    alices a event=page-faults descendants=on
    is "$(result_as "$ALICE" write "$M/a/target" "$PARENT")" ok
    tell child faults 1000
    tell child run "$T/suid-target"
    eventually 5 '[[ $(status a partial) == yes ]]'
    eventually 5 'grep -qi "left.out.*1" "$M/a/status"'
    local before
    before=$(count a)
    ((before >= 1000))
    tell child faults 5000
    between "$(count a)" "$before" $((before + 500))
    is "$(state a)" running
}

t_the_quota_of_descriptors_counts_descriptors_that_stay_open() {
    mount_pmcfs -o max_fds_per_user=5
    target_start p "$ALICE"
    for n in {1..6}; do alices "a$n" event=page-faults; done
    for n in {1..5}; do is "$(result_as "$ALICE" write "$M/a$n/target" "${PID_OF[p]}")" ok; done
    is "$(result_as "$ALICE" write "$M/a6/target" "${PID_OF[p]}")" EDQUOT
    like "$(cat "$M/a6/error")" '^EDQUOT P11 target: the (target|command) needs 1 file descriptors, and the quota has 0 left'
    as "$ALICE" rmdir "$M/a1"
    is "$(result_as "$ALICE" write "$M/a6/target" "${PID_OF[p]}")" ok
    pmc roots event=page-faults
    attach roots "${PID_OF[p]}"
}

t_self_is_refused_to_a_privileged_program() {
    mount_pmcfs
    alices a event=page-faults
    for kind in suid sgid caps unreadable; do cp "$HELPERS/io" "$T/$kind-io"; done
    chmod 4755 "$T/suid-io"
    chmod 2755 "$T/sgid-io"
    setcap cap_net_raw+ep "$T/caps-io"
    chmod 711 "$T/unreadable-io"
    for kind in suid sgid caps unreadable; do
        for word in self tid:self; do
            is "$(as "$ALICE" sh -c "exec 5>$M/a/target; $T/$kind-io fd 5 $word")" EPERM "$kind: $word"
            like "$(cat "$M/a/error")" '^EPERM E40 target: .*self'
        done
        is "$(as "$ALICE" sh -c "exec 5>$M/a/ctl; $T/$kind-io fd 5 start")" EPERM "$kind: start"
    done
    empty cat "$M/a/target"
    is "$(result_as "$ALICE" write "$M/a/ctl" start)" ok
}

# A capability that is permitted but not effective can be made effective again at any time.
t_self_is_refused_to_a_writer_with_permitted_capabilities() {
    mount_pmcfs
    alices a event=page-faults
    is "$(acting_as '
import ctypes, struct
libc = ctypes.CDLL(None)
libc.prctl(8, 1, 0, 0, 0) # PR_SET_KEEPCAPS
become(1000)
permitted = write(M + "/a/target", "self")
assert libc.capset(struct.pack("Ii", 0x20080522, 0), bytes(24)) == 0
print(permitted, write(M + "/a/target", "self"))')" 'EPERM ok'
}

t_chown_to_a_user_at_max_pmcs_is_edquot() {
    mount_pmcfs -o max_pmcs_per_user=1
    alices a
    pmc b
    fails_with EDQUOT "chown $ALICE $M/b"
    is "$(stat -c %u "$M/b")" 0
    rmdir "$M/a"
    chown "$ALICE" "$M/b"
}

#@ slow
t_one_user_does_not_hold_all_descriptors() {
    RUN_DAEMON+=(prlimit --nofile=200:200 setpriv --bounding-set=-sys_resource --)
    mount_pmcfs -o max_events_per_process=1000
    target_start p "$ALICE"
    local got=ok n
    for ((n = 0; n < 60 && $(stat_value descriptors) <= 120; n++)); do
        alices "a$n" event=page-faults
        got=$(result_as "$ALICE" write "$M/a$n/target" "${PID_OF[p]}")
        [[ $got == ok ]] || break
    done
    is "$got" EDQUOT
    like "$(cat "$M/a$n/error")" '^EDQUOT P11 target: .*quarter of RLIMIT_NOFILE .50 descriptors'
    between "$(stat_value descriptors)" 25 100
    pmc b event=page-faults
    attach b "${PID_OF[p]}"
}

t_missed_tasks_are_reported_everywhere_until_reset() {
    mount_pmcfs
    target_start p "$ALICE"
    set_id suid-target "$HELPERS/target"
    pmc a event=page-faults
    attach a "${PID_OF[p]}"
    tell p run "$T/suid-target"
    eventually 5 '[[ $(status a partial) == yes ]]'
    is "$(tail -n 1 "$M/a/detail" | cut -f 7)" yes
    ctl a detach
    is "$(status a partial)" yes
    is "$(tail -n 1 "$M/a/detail" | cut -f 7)" yes
    grep -q '^pmcfs_partial{.*pmc="a".*} 1$' "$M/metrics.prom"
    ctl a reset
    is "$(status a partial)" no
}
