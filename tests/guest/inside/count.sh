# shellcheck shell=dash disable=SC2034,SC2086,SC2154 # PID_p is set by run
# Counting on the real counters.

N=$((20 * MILLION))

t_instructions_of_a_known_loop_are_counted() {
    mount_pmcfs
    run p load cpu 0
    pmc i "event=instructions:u target=$PID_p"
    near "$(counted i tell p work $N)" $N 1
    near "$(counted i tell p work $N)" $N 1 "once more"
}

t_cycles_are_plausible() {
    mount_pmcfs
    run p load cpu 0
    pmc c "event=cycles:u target=$PID_p"
    between "$(counted c tell p work $N)" $((N / 10)) $((N * 10))
}

t_a_set_is_read_together() {
    mount_pmcfs
    run p load cpu 0
    pmc s
    accepted "$M/s/event" 'cycles:u instructions:u instructions:u'
    attach s "$PID_p"
    tell p work $N
    # shellcheck disable=SC2046 # one word a member
    set -- $(count s)
    is $# 3 lines
    is "$2" "$3" "two equal events of a set"
    near "$2" $N 1
    between "$1" $((N / 10)) $((N * 10)) cycles
}

t_reads_during_the_work_never_decrease() {
    local last=0 now
    mount_pmcfs
    run p load cpu 0
    pmc i "event=instructions:u target=$PID_p"
    order p work $((5 * N))
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        now=$(count i)
        [ "$now" -ge $last ] || die "$now after $last"
        last=$now
        sleep 0.005
    done
    answer p
    near "$(count i)" $((5 * N)) 20
}
