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

t_one_thread_alone() {
    mount_pmcfs
    run p load cpu 0
    tell p threads 2
    pmc i "event=instructions:u target=tid:$PID_p"
    tell p each $N
    between "$(count i)" 0 $((N / 10)) "others' instructions"
    near "$(counted i tell p work $N)" $N 5
}

t_children_only_with_descendants() {
    mount_pmcfs
    run p load cpu 0
    pmc with "event=instructions:u descendants=on target=$PID_p"
    pmc without "event=instructions:u target=$PID_p"
    tell p child $N
    near "$(count with)" $N 20
    between "$(count without)" 0 $((N / 20)) "a child's instructions"
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

t_several_targets() {
    mount_pmcfs
    run p load cpu 0
    run q load cpu 0
    pmc i event=instructions:u
    attach i "$PID_p $PID_q"
    tell p work $N
    tell q work $((2 * N))
    near "$(count i)" $((3 * N)) 5
    near "$(awk -v t="pid:$PID_p" '$2 == t { print $3 }' "$M/i/detail")" $N 10 "the first one's"
    near "$(awk -v t="pid:$PID_q" '$2 == t { print $3 }' "$M/i/detail")" $((2 * N)) 10 "the other's"
    near "$(awk '$2 == "all" { print $3 }' "$M/i/detail")" $((3 * N)) 5 all
}

t_a_count_stays_when_the_target_exits() {
    mount_pmcfs
    run p load cpu 0
    pmc i "event=instructions:u target=$PID_p"
    tell p work $N
    order p quit
    eventually 5 grep -q exited "$M/i/ctl"
    near "$(count i)" $N 10
}

t_from_exec_on() {
    mount_pmcfs
    run p load cpu 0
    pmc i "event=instructions:u start=exec target=$PID_p"
    tell p work $N
    is "$(state i)" armed
    is "$(count i)" 0
    tell p exec
    near "$(counted i tell p work $N)" $N 10
}

t_one_cpu() {
    mount_pmcfs
    run p load cpu 1
    pmc i "event=instructions:u target=cpu1"
    near "$(counted i tell p work $N)" $N 100
}

t_all_cpus() {
    mount_pmcfs
    run p load cpu 0
    pmc i "event=instructions:u target=all"
    between "$(counted i tell p work $N)" $N $((3 * N))
}
