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

t_all_cpus() {
    mount_pmcfs
    run p load cpu 0
    pmc i "event=instructions:u target=all"
    between "$(counted i tell p work $N)" $N $((3 * N))
}
