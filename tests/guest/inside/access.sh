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

t_the_kernels_mode_is_not_hers() {
    mount_pmcfs
    USER=$ALICE
    pmc i
    refused EPERM "$M/i/event" instructions:k
    refused EPERM "$M/i/event" instructions,os
    refused EPERM "$M/i/config" 'event=instructions kernel=on'
    accepted "$M/i/event" instructions
}

t_another_users_process_is_not_hers() {
    mount_pmcfs
    run p as $BOB load cpu 0
    run r load cpu 0
    USER=$ALICE
    pmc i event=instructions:u
    refused EPERM "$M/i/target" "$PID_p"
    refused EPERM "$M/i/target" "$PID_r"
    refused EPERM "$M/i/target" cpu1
}

t_a_kernel_thread_is_not_hers() {
    mount_pmcfs
    kthread=$(sed -n 's/^\([0-9]*\) (kthreadd) .*/\1/p' /proc/[0-9]*/stat)
    is "$(cat "/proc/$kthread/cmdline")" ''
    USER=$ALICE pmc i event=context-switches
    USER=$ALICE
    refused EPERM "$M/i/target" "$kthread"
    refused EPERM "$M/i/target" "tid:$kthread"
    is "$(cat "$M/i/target")" ''
    USER=
    accepted "$M/i/target" "$kthread"
    is "$(cat "$M/i/target")" "$kthread"
}
