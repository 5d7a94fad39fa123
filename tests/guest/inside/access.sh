# shellcheck shell=dash disable=SC2034,SC2086,SC2154 # PID_p is set by run
# Two users and root, under Debian's perf_event_paranoid=3.

N=$((5 * MILLION))

t_the_kernel_itself_refuses_users_here() {
    is "$(cat /proc/sys/kernel/perf_event_paranoid)" 3
    # shellcheck disable=SC2016 # for the inner shell
    ! as $ALICE sh -c 'echo take 1 | hold task $$' 2>/dev/null | grep -qx 1 || die "alice may open events herself"
}

t_a_user_counts_her_own_process() {
    mount_pmcfs
    run p as $ALICE load cpu 0
    USER=$ALICE pmc i "event=instructions target=$PID_p"
    near "$(counted i tell p work $N)" $N 10
    like "$(status i event)" ':u$' "resolved event"
}

t_a_user_may_not_count_kernel_mode() {
    mount_pmcfs
    kernel_mode='^EPERM P18 event: "instructions[:,](k|os)" counts kernel mode, and that needs CAP_PERFMON'
    USER=$ALICE
    pmc i
    refused EPERM "$M/i/event" instructions:k "$kernel_mode"
    refused EPERM "$M/i/event" instructions,os "$kernel_mode"
    refused EPERM "$M/i/config" 'event=instructions kernel=on' '^EPERM P18 config: kernel=on counts kernel mode, and that needs CAP_PERFMON'
    accepted "$M/i/event" instructions
}

t_a_user_may_not_count_the_process_of_another() {
    mount_pmcfs
    run p as $BOB load cpu 0
    run r load cpu 0
    USER=$ALICE
    pmc i event=instructions:u
    refused EPERM "$M/i/target" "$PID_p" "^EPERM E40 target: you may not observe process $PID_p: .*user"
    refused EPERM "$M/i/target" "$PID_r" "^EPERM E40 target: you may not observe process $PID_r: .*user"
    refused EPERM "$M/i/target" cpu1 '^EPERM X07 target: counting CPUs or cgroups needs CAP_PERFMON'
}

t_a_user_may_not_count_a_kernel_thread() {
    mount_pmcfs
    kthread=$(sed -n 's/^\([0-9]*\) (kthreadd) .*/\1/p' /proc/[0-9]*/stat)
    is "$(cat "/proc/$kthread/cmdline")" ''
    USER=$ALICE pmc i event=context-switches
    USER=$ALICE
    refused EPERM "$M/i/target" "$kthread" "^EPERM E40 target: you may not observe process $kthread: "
    refused EPERM "$M/i/target" "tid:$kthread" "^EPERM E40 target: you may not observe process $kthread: "
    is "$(cat "$M/i/target")" ''
    USER=
    accepted "$M/i/target" "$kthread"
    is "$(cat "$M/i/target")" "$kthread"
}
