# shellcheck shell=dash disable=SC2034,SC2086,SC2154 # PID_p is set by run
# 64 bits, whatever the hardware's width: the counters here have 32.

N=$((10 * MILLION))

# The text of VALUE + N is compared, not computed: a shell's numbers are signed.
t_initial_counts_near_and_beyond_the_width() {
    mount_pmcfs
    run p load cpu 0
    pmc i "event=instructions:u"
    for initial in 4294967295 4294960000 281474976710655 9007199254740993; do
        accepted "$M/i/count" $initial
        is "$(count i)" $initial "initial count"
        attach i "$PID_p"
        tell p work $N
        ctl i stop
        near $(($(count i) - initial)) $N 5 "counted from $initial"
        attach i "-$PID_p"
        ctl i reset
        is "$(count i)" $initial "after reset"
    done
}

t_counts_are_modulo_2_to_the_64() {
    mount_pmcfs
    run p load cpu 0
    pmc i "event=instructions:u count=18446744073709551615 target=$PID_p"
    tell p work $N
    near "$(count i)" $N 5
}

t_a_count_beyond_the_hardware_width_is_exact() {
    local much=$((4400 * MILLION))
    mount_pmcfs
    run p load cpu 0
    pmc s
    accepted "$M/s/event" 'cycles:u instructions:u'
    attach s "$PID_p"
    tell p work $much
    # shellcheck disable=SC2046 # one word a member
    set -- $(count s)
    near "$2" $much 2
    between "$1" $((much / 10)) $((much * 10)) cycles
    is "$(status s partial)" no
}
