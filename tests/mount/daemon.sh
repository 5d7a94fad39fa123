# shellcheck shell=bash disable=SC2016,SC2034,SC2054,SC2154
# What the daemon itself may do: capabilities, core dumps, tracing, descriptors.

# Bits of capabilities, as include/uapi/linux/capability.h numbers them.
declare -A BIT=([chown]=0 [dac_override]=1 [dac_read_search]=2 [fowner]=3 [fsetid]=4 [kill]=5 [setgid]=6
    [setuid]=7 [setpcap]=8 [net_bind_service]=10 [net_raw]=13 [ipc_lock]=14 [sys_chroot]=18
    [sys_ptrace]=19 [sys_admin]=21 [mknod]=27 [audit_write]=29 [setfcap]=31 [perfmon]=38)
USED='sys_admin perfmon sys_ptrace setuid setgid dac_read_search kill ipc_lock'
USUAL='chown dac_override fowner fsetid kill setgid setuid setpcap setfcap net_raw mknod sys_chroot
net_bind_service audit_write'

# mask NAME…: the capabilities as /proc/PID/status prints them, limited to those that exist on this host.
mask() {
    local name set=0
    for name in "$@"; do set=$((set | 1 << BIT[$name])); done
    printf '%016x' $((set & 16#$(proc_value CapBnd /proc/self/status)))
}

proc_value() { sed -n "s/^$1:[[:space:]]*//p" "$2"; }

# of_all_threads KEY: the values of all threads, each once.
of_all_threads() {
    cat /proc/"$DAEMON"/task/*/status | sed -n "s/^$1:[[:space:]]*//p" | sort -u
}

t_every_thread_has_the_capabilities_that_are_used() {
    mount_pmcfs
    target_start p "$ALICE"
    pmc a event=page-faults "target=${PID_OF[p]}"
    # shellcheck disable=SC2086 # word splitting is intended
    {
        is "$(of_all_threads CapEff)" "$(mask $USED)" effective
        is "$(of_all_threads CapPrm)" "$(mask $USED $USUAL)" permitted
        is "$(of_all_threads CapBnd)" "$(mask $USED $USUAL)" bounding
    }
    is "$(of_all_threads CapInh) $(of_all_threads CapAmb)" '0000000000000000 0000000000000000'
    is "$(of_all_threads NoNewPrivs)" 1
}

t_the_background_daemon_has_the_same_capabilities() {
    M=$T/d
    mkdir "$M"
    "$BIN" "$M" 2>"$T/printed"
    DAEMON=$(pgrep -f "pmcfs.* $M\$" | head -1)
    # shellcheck disable=SC2086 # word splitting is intended
    is "$(of_all_threads CapPrm) $(of_all_threads NoNewPrivs)" "$(mask $USED $USUAL) 1"
    umount "$M"
    DAEMON=0
}

# pmcfs cannot check a target with capabilities that it has dropped: it refuses this target to an opener who has them
# too. It never allows more than the kernel.
t_a_target_with_capabilities_that_pmcfs_dropped_is_refused() {
    mount_pmcfs
    local names usual
    names=${USUAL//[[:space:]]/,+}
    usual=(setpriv --bounding-set="-all,+$names")
    "${usual[@]}" sleep 60 &
    PID_OF[usual]=$!
    setpriv --bounding-set="-all,+$names,+net_admin" -- sleep 60 &
    PID_OF[more]=$!
    eventually 5 '[[ $(cat /proc/{${PID_OF[usual]},${PID_OF[more]}}/comm | xargs) == "sleep sleep" ]]'
    pmc a event=page-faults
    is "$(result_by "${usual[@]}" -- write "$M/a/target" "${PID_OF[usual]}")" ok 'as in a container'
    is "$(result_by "${usual[@]}" -- write "$M/a/target" "${PID_OF[more]}")" EPERM 'a process that has more'
    like "$(cat "$M/a/error")" 'it has capabilities that you lack, or runs in another user namespace$'
    is "$(result_by setpriv --bounding-set="-all,+$names,+net_admin" -- write "$M/a/target" "${PID_OF[more]}")" EPERM
    like "$(cat "$M/a/error")" 'it has capabilities that pmcfs has dropped$'
    attach a "${PID_OF[more]}"
    kill "${PID_OF[usual]}" "${PID_OF[more]}"
}

t_the_daemon_dumps_no_core() {
    mount_pmcfs
    between "$(awk '/^Max core file size/ { print $5 }' "/proc/$DAEMON/limits")" 0 1 'limit, soft'
    between "$(awk '/^Max core file size/ { print $6 }' "/proc/$DAEMON/limits")" 0 1 'limit, hard'
}

# Neither process has CAP_SYS_PTRACE, and the other process has every capability of pmcfs: only the dumpable flag
# protects pmcfs.
t_without_cap_sys_ptrace_nobody_traces_the_daemon() {
    local less=(setpriv --bounding-set=-sys_ptrace --)
    RUN_DAEMON+=("${less[@]}")
    mount_pmcfs
    "${less[@]}" sleep 60 &
    local other=$!
    eventually 5 "[[ \$(cat /proc/$other/comm) == sleep ]]"
    "${less[@]}" readlink "/proc/$other/ns/pid" >/dev/null || die 'no process is seen at all'
    ! "${less[@]}" readlink "/proc/$DAEMON/ns/pid" >/dev/null || die 'pmcfs can be traced'
    kill $other
}

t_no_descriptor_outlives_an_exec() {
    exec 20>"$T/inherited"
    mount_pmcfs
    exec 20>&-
    unlike "$(readlink /proc/"$DAEMON"/fd/*)" inherited 'of its parent'
    target_start p "$ALICE"
    pmc a event=page-faults event=task-clock "target=${PID_OF[p]}"
    pmc b event=cpu-clock freq=997 callchain=on descendants=on "target=${PID_OF[p]}"
    pmc c event=context-switches target=all interval=10
    timeout 0.3 cat "$M/b/samples" "$M/c/series" >/dev/null || :
    local fd flags seen=0
    for fd in /proc/"$DAEMON"/fdinfo/*; do
        ((${fd##*/} > 2)) || continue
        flags=$(proc_value flags "$fd" 2>/dev/null) || continue # closed since
        ((8#$flags & 8#2000000)) ||
            die "without CLOEXEC: $(readlink "${fd/fdinfo/fd}")"
        seen=$((seen + 1))
    done
    ((seen > 10)) || die "only $seen descriptors"
}

t_a_missing_capability_is_reported_and_the_rest_is_served() {
    RUN_DAEMON+=(setpriv --bounding-set=-ipc_lock,-net_raw --)
    mount_pmcfs
    grep -q 'without CAP_IPC_LOCK: all sampling PMCs share' "$T/daemon"
    grep -q 'without CAP_NET_RAW: only users with CAP_SYS_PTRACE can attach' "$T/daemon"
    is "$(grep -c 'without CAP_SYS_PTRACE' "$T/daemon")" 0
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    tell p faults 20
    between "$(count a)" 20 1000
}

t_a_missing_pmu_is_reported_in_the_foreground_only() {
    mount_pmcfs
    grep -q '^hardware_pmu no' "$M/info/backend" || skip 'this machine has a PMU'
    grep -q 'no usable PMU' "$T/daemon" || die 'not reported with -f'
    mkdir "$T/d"
    "$BIN" "$T/d" 2>"$T/printed"
    umount "$T/d"
    unlike "$(cat "$T/printed")" 'PMU'
}

t_missing_abilities_are_printed_before_going_to_the_background() {
    mkdir "$T/d"
    setpriv --bounding-set=-ipc_lock -- "$BIN" "$T/d" 2>"$T/printed"
    is "$(grep -c 'without CAP_IPC_LOCK: all sampling PMCs share' "$T/printed")" 1
    umount "$T/d"
}

# Without CAP_SETUID the daemon cannot check the rights of other users: it refuses them with a sentence.
t_without_setuid_others_than_root_are_refused() {
    RUN_DAEMON+=(setpriv --bounding-set=-setuid --)
    mount_pmcfs
    grep -q 'without CAP_SETUID: only root can attach' "$T/daemon"
    target_start p "$ALICE"
    as "$ALICE" mkdir "$M/a"
    is "$(result_as "$ALICE" write "$M/a/config" "event=page-faults target=${PID_OF[p]}")" EPERM
    like "$(as "$ALICE" cat "$M/a/error")" 'pmcfs lacks the capabilities to check your rights$'
    pmc b event=page-faults "target=${PID_OF[p]}"
}

t_without_sys_ptrace_only_root_without_further_capabilities_creates_pmcs() {
    RUN_DAEMON+=(setpriv --bounding-set=-sys_ptrace --)
    mount_pmcfs
    grep -q 'without CAP_SYS_PTRACE: only root processes that have no capability beyond those of pmcfs' "$T/daemon"
    setpriv --bounding-set=-all --inh-caps=-all mkdir "$M/a"
    like "$(mkdir "$M/b" 2>&1 || :)" 'Input/output error$'
    like "$(as "$ALICE" mkdir "$M/c" 2>&1 || :)" 'Input/output error$'
}

# The directory above the mountpoint gives root no permission, and pmcfs drops CAP_DAC_OVERRIDE.
t_a_mount_below_a_private_directory_of_a_user_works() {
    mkdir -p "$T/home/m"
    chown "$ALICE" "$T/home"
    chmod 700 "$T/home"
    "$BIN" "$T/home/m" 2>"$T/printed"
    grep -q interface "$T/home/m/info/version"
    umount "$T/home/m"
}
