# shellcheck shell=dash disable=SC2034,SC2086,SC2154 # PID_p is set by run
# Rows and their administration on six programmable counters and a cycle counter.

N=$((2 * MILLION))

# all_with WHERE: creates as many PMCs on p as there are counters; the one of cycles is the WHERE-th.
all_with() {
    for n in $(seq $ROWS); do
        event=instructions:u
        [ "$n" != "$1" ] || event=cycles:u
        pmc "r$n" "event=$event"
    done
    for n in $(seq $ROWS); do attach "r$n" "$PID_p"; done
}

all_count() {
    tell p work $N
    for n in $(seq $ROWS); do
        between "$(count "r$n")" $((N / 10)) $((N * 10)) "r$n"
        is "$(status "r$n" partial)" no "r$n partial"
    done
}

t_as_many_as_the_machine_has_cycles_first() {
    mount_pmcfs
    run p load cpu 0
    all_with 1
    all_count
    is "$(dispositions)" '7 THREAD'
}

t_as_many_as_the_machine_has_cycles_between() {
    mount_pmcfs
    run p load cpu 0
    all_with 4
    all_count
}

t_one_more_is_busy_at_attach() {
    mount_pmcfs
    run p load cpu 0
    run q load cpu 0
    all_with 7
    pmc more event=instructions:u
    refused EBUSY "$M/more/target" "$PID_p" 'EBUSY E05 target: '
    attach more "$PID_q"
    all_count
}

t_one_more_is_refused_at_the_event_with_strict_rows() {
    mount_pmcfs strict_rows=1
    run p load cpu 0
    all_with 1
    pmc more
    refused EINVAL "$M/more/event" instructions:u 'EINVAL E19 event: '
    all_count
}

t_cycles_take_their_own_row_first() {
    mount_pmcfs
    pmc c event=cycles
    is "$(status c row)" 6
    pmc i event=instructions
    is "$(status i row)" 0
}

t_many_processes_each_with_all_counters() {
    mount_pmcfs
    for process in p q s; do
        run $process load cpu 0
        eval "pid=\$PID_$process"
        for n in 1 2 3 4 5 6; do pmc "$process$n" "event=instructions:u target=$pid"; done
        pmc "${process}7" "event=cycles:u target=$pid"
    done
    tell p work $N
    tell q work $((2 * N))
    tell s work $((3 * N))
    for n in 1 2 3 4 5 6; do
        near "$(count p$n)" $N 50 p$n
        near "$(count q$n)" $((2 * N)) 50 q$n
        near "$(count s$n)" $((3 * N)) 50 s$n
    done
    is "$(dispositions)" '7 THREAD'
}

t_system_scope_uses_every_counter_of_each_cpu() {
    mount_pmcfs
    for cpu in 0 1; do
        for n in 1 2 3 4 5 6; do pmc c$cpu.$n "event=instructions mode=SC target=cpu$cpu"; done
        pmc c$cpu.7 "event=cycles mode=SC target=cpu$cpu"
    done
    pmc more mode=SC
    refused EINVAL "$M/more/config" 'event=instructions target=cpu0' 'E19'
    run p load cpu 0
    tell p work $N
    for n in 1 2 3 4 5 6; do between "$(count c1.$n)" $N $((N * 50)) c1.$n; done
}

t_an_event_that_needs_two_rows() {
    mount_pmcfs
    run p load cpu 0
    for n in 1 2 3; do
        pmc w$n "event=armv8_pmuv3/event=0x8,long=1/u target=$PID_p"
        like "$(status w$n row)" '^[0-5],[0-5]$'
    done
    is "$(dispositions)" '1 FREE 6 THREAD'
    pmc w4 'event=instructions:u'
    refused EBUSY "$M/w4/target" "$PID_p" E05
    pmc c "event=cycles:u target=$PID_p"
    tell p work $N
    for n in 1 2 3; do near "$(count w$n)" $N 10 w$n; done
    release w2 c
    pmc i "event=instructions:u target=$PID_p"
    attach w4 "$PID_p"
    near "$(counted w4 tell p work $N)" $N 10
}

t_a_pmc_moves_at_attach() {
    mount_pmcfs
    run p load cpu 0
    all_with 7
    pmc other event=instructions:u
    release r5
    attach other "$PID_p"
    is "$(dispositions)" '7 THREAD'
    near "$(counted other tell p work $N)" $N 10
    near "$(count r1)" $N 20
}

t_a_set_of_all_counters_and_no_more() {
    mount_pmcfs
    run p load cpu 0
    six='instructions:u instructions:u instructions:u instructions:u instructions:u instructions:u'
    pmc s
    refused EINVAL "$M/s/event" "$six instructions:u" 'E19 event: '
    accepted "$M/s/event" "$six cycles:u"
    attach s "$PID_p"
    tell p work $N
    for value in $(count s); do between "$value" $((N / 10)) $((N * 10)) member; done
}

t_texts_about_rows_and_classes() {
    mount_pmcfs
    is "$(cat "$M/info/npmc")" 7
    is "$(sed -n '/^armv8_pmuv3 /p' "$M/info/classes" | cut -d' ' -f 1-5)" 'armv8_pmuv3 rows 7 width 32'
    like "$(cat "$M/info/backend")" '^perf'
    like "$(cat "$M/info/backend")" 'hardware_pmu yes: armv8_pmuv3, 6 general and 1 fixed'
    like "$(cat "$M/info/backend")" 'perf_event_paranoid 3'
    like "$(cat "$M/info/cpu")" 'Cortex-A57'
    is "$(head -n 1 "$M/info/rows")" 'cpu row name class disposition state users pmc uid pid event flags reload'
    is "$(rows row 0 | xargs)" '0 1 2 3 4 5 6'
    is "$(rows row 1 | xargs)" '0 1 2 3 4 5 6'
    is "$(rows state 1 | sort -u)" enabled
}
