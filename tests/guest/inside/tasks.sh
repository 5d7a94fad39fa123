# shellcheck shell=dash disable=SC2034,SC2086,SC2154 # PID_p is set by run
# Threads, children and several targets on hardware events.

N=$((5 * MILLION))

t_threads_present_and_later() {
    mount_pmcfs
    run p load cpu 0
    tell p threads 3
    pmc i "event=instructions:u target=$PID_p"
    near "$(counted i tell p each $N)" $((3 * N)) 10
    run q load cpu 0
    pmc j "event=instructions:u target=$PID_q"
    tell q threads 4
    near "$(counted j tell q each $N)" $((4 * N)) 10
}

t_one_thread_only() {
    mount_pmcfs
    run p load cpu 0
    tell p threads 2
    pmc i "event=instructions:u target=tid:$PID_p"
    tell p each $N
    between "$(count i)" 0 $((N / 10)) "others' instructions"
    near "$(counted i tell p work $N)" $N 5
}

t_a_child_that_lives_before_the_attach() {
    mount_pmcfs
    run p load cpu 0
    tell p stay
    pmc i "event=instructions:u descendants=on target=$PID_p"
    near "$(counted i tell p bear $N)" $N 10
    tell p child $N
    near "$(count i)" $((2 * N)) 20
}

t_start_exec_counts_from_the_exec() {
    mount_pmcfs
    run p load cpu 0
    pmc i "event=instructions:u start=exec target=$PID_p"
    tell p work $N
    is "$(state i)" armed
    is "$(count i)" 0
    tell p exec
    near "$(counted i tell p work $N)" $N 10
}

t_all_cpus() {
    mount_pmcfs
    run p load cpu 0
    pmc i "event=instructions:u target=all"
    between "$(counted i tell p work $N)" $N $((3 * N))
}

uptime_ns() { awk '{ printf "%.0f\n", $1 * 1e9 }' /proc/uptime; }

# In this machine an instruction takes a nanosecond, so that the counts are also times of the group.
t_a_cgroup_with_a_hardware_set_has_the_times_of_its_tasks() {
    local group=/sys/fs/cgroup/busy round start on=0 kept=0 ran
    mount_pmcfs
    run p load cpu 0
    mkdir $group
    echo $PID_p >$group/cgroup.procs
    tell p spin
    pmc i 'event=cycles,instructions autostart=off target=cgroup:/busy'
    is "$(status i enabled_ns)" 0 'before the first start'
    for round in 1 2 3; do
        start=$(uptime_ns)
        ctl i start
        sleep 0.2
        between "$(status i enabled_ns)" $kept $((kept + $(uptime_ns) - start + 20 * MILLION)) "started, $round"
        ctl i stop
        on=$((on + $(uptime_ns) - start + 20 * MILLION))
        kept=$(status i enabled_ns)
        between $kept $((on / 3)) $on "enabled_ns of $round rounds"
        # Two clock events have these times. At each switch the kernel stops them one after the other.
        ran=$(status i running_ns)
        between $ran $((kept - MILLION)) $kept "running_ns of $round rounds"
        near "$(count i | sed -n 2p)" $kept 50 "instructions of $round rounds"
        near "$(count i | sed -n 1p)" $kept 50 "cycles of $round rounds"
        sleep 0.2
        is "$(status i enabled_ns) $(status i running_ns)" "$kept $ran" "stopped, $round"
    done
    tell p halt
    release i
    echo $PID_p >/sys/fs/cgroup/cgroup.procs
    rmdir $group
}
