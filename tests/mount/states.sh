# shellcheck shell=bash disable=SC2016,SC2094
# States and verbs, the initial count, and the exchange.

t_a_stopped_pmc_does_not_count_and_start_continues() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    tell p faults 100
    ctl a stop
    local before
    before=$(count a)
    tell p faults 1000
    is "$(count a)" "$before"
    ctl a start
    tell p faults 100
    between "$(count a)" $((before + 100)) $((before + 900))
}

t_pm12_reset_goes_back_to_the_initial_count() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults count=7 "target=${PID_OF[p]}"
    tell p faults 100
    refused EBUSY E06 "$M/a/ctl" reset
    ctl a stop
    ctl a reset
    is "$(count a)" 7
    is "$(status a enabled_ns)" 0
    is "$(cat "$M/a/target")" "${PID_OF[p]}"
}

t_reset_forgets_exited_targets() {
    mount_pmcfs
    target_start p
    target_start q
    pmc a event=page-faults "target=${PID_OF[p]}" "target=${PID_OF[q]}"
    target_end p
    eventually 5 '[[ $(wc -l <"$M/a/target") == 1 ]]'
    grep -q "pid:${PID_OF[p]}" "$M/a/detail"
    ctl a stop
    ctl a reset
    ! grep -q "pid:${PID_OF[p]}" "$M/a/detail" || die "still in detail"
}

t_c15_counts_are_64_bits_modulo() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults count=18446744073709551615 "target=${PID_OF[p]}"
    tell p faults 100
    between "$(count a)" 99 100000
}

t_h11_c13_counts_go_beyond_the_width_of_the_hardware() {
    mount_sim sim_cpus=1,sim_class=narrow:2:32
    pmc a event=r3e8 count=4294967290 target=cpu0
    local last=4294967290 now
    for _ in {1..20}; do
        now=$(count a)
        between "$now" "$last" 4400000000
        last=$now
    done
    [[ $last -gt 4294967296 ]] || die "did not pass 2^32: $last"
    ctl a stop
    accepted "$M/a/count" 1099511627776123
    is "$(count a)" 1099511627776123
}

t_c03_c06_cf12_cf14_a_set_counts_in_its_order() {
    mount_pmcfs
    target_start p
    pmc a event=context-switches event=page-faults count=1000000,2000000 "target=${PID_OF[p]}"
    tell p faults 500
    tell p sleep 10
    mapfile -t values <"$M/a/count"
    is "${#values[@]}" 2
    between "${values[0]}" 1000010 1001000
    between "${values[1]}" 2000500 2009000
    is "$(paste "$M/a/event" "$M/a/count" | cut -f1 | xargs)" "context-switches page-faults"
}
