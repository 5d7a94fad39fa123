# shellcheck shell=bash
# Sampling, continued: several samplers of the same event of the same program; one mode of a clock.

# shellcheck source=tests/mount/sampling_lib.sh
. "${BASH_SOURCE[0]%/*}/sampling_lib.sh"

# The kernel prepares a sample of a software event once for all its events, with the id of one of them.
#@ slow
t_all_samplers_of_one_event_get_every_sample() {
    mount_pmcfs
    target_start p
    local name names=(a b c d) event
    for event in page-faults context-switches; do
        for name in "${names[@]}"; do
            pmc_on "$name" event=$event period=1
        done
        tell p faults 200
        tell p sleep 50
        for name in "${names[@]}"; do
            ctl "$name" stop
            each_is_a_sample "$name"
            is "$(found "$name" event) $(found "$name" period)" "$event 1"
            between "$(value "$name")" 50 5000
            rmdir "$M/$name"
        done
    done
}

t_two_samplers_of_one_event_with_different_chains() {
    mount_pmcfs
    target_start p
    pmc_on a event=context-switches period=1 callchain=on depth=4
    pmc_on b event=context-switches period=1
    pmc_on c event=context-switches period=3 callchain=kernel depth=2
    tell p sleep 60
    for name in a b c; do
        ctl $name stop
    done
    each_is_a_sample a
    each_is_a_sample b
    log c
    is "$(of a callchain)/$(of b callchain)/$(of c sample)" "$(value a)/0/0"
    is "$(found c period)" 3
    between "$(of c callchain)" $(($(value c) / 3 - 2)) $(($(value c) / 3))
}

#@ slow
t_a_program_and_a_cpu_are_sampled_for_the_same_event() {
    with_tracefs
    mount_pmcfs
    target_start p
    pinned p 0
    pmc_on a event=page-faults period=1
    pmc s event=page-faults period=1 mode=system-sampling target=cpu0
    pmc_on b event=page-faults event=raw_syscalls:sys_enter period=1
    tell p faults 500
    for name in a s b; do
        ctl $name stop
    done
    each_is_a_sample a
    each_is_logged s 1 # the kernel loses some while events of others open and close
    log b
    is "$(of b samples event=page-faults)" "$(value b page-faults)"
}

t_a_sample_that_could_belong_to_two_events_is_counted_as_lost() {
    mount_pmcfs
    target_start p
    pmc_on a event=page-faults event=context-switches period=1
    pmc_on b event=page-faults event=context-switches period=1
    tell p faults 200
    for name in a b; do
        ctl $name stop
        log $name
        is "$(($(of $name samples) + $(status $name kernel_lost)))" \
            "$(($(value $name page-faults) + $(value $name context-switches)))" "$name: samples and losses"
    done
}

# Kernels sometimes lose samples while other events open and close: those of a process are counted as lost, those of a
# CPU are few.
#@ slow
t_samples_are_delivered_or_counted_while_other_events_open_and_close() {
    mount_pmcfs
    target_start p
    target_start d
    pinned p 0
    local name
    for _ in {1..4}; do
        pmc_on a event=page-faults period=1
        pmc s event=page-faults period=1 logsize=8000000 mode=system-sampling target=cpu0
        echo "disturb 0 100" >&"${IN[d]}"
        for _ in {1..3}; do
            tell p faults 3000
        done
        read -r -t 60 -u "${OUT[d]}" _ || die "d does not answer"
        for name in a s; do
            ctl $name stop
        done
        each_is_logged s 1
        each_is_logged a
        is "$(($(of a samples) + $(status a kernel_lost)))" "$(value a)" "samples and losses"
        rmdir "$M/a" "$M/s"
    done
}

#@ slow
t_samples_before_a_stop_are_delivered_or_counted() {
    mount_pmcfs
    target_start p
    pmc_on a event=page-faults period=1
    for _ in {1..40}; do
        tell p faults 1500
        ctl a stop
        ctl a start
    done
    ctl a stop
    log a
    is "$(($(of a samples) + $(status a kernel_lost)))" "$(value a)" "samples and losses"
}

# Samples while the event itself is enabled and disabled. The kernel counts the fault during which it disables an event,
# but in a few percent of cases writes no sample and reports no loss: at most one for each stop.
#@ slow
t_a_stop_hides_one_sample_at_most() {
    local stops=41 counted
    mount_pmcfs
    target_start p
    pmc_on a event=page-faults period=1
    echo "faults 60000" >&"${IN[p]}"
    for ((i = 1; i < stops; i++)); do
        ctl a stop
        ctl a start
    done
    read -r -t 60 -u "${OUT[p]}" _ || die "p does not answer"
    ctl a stop
    log a
    counted=$(value a)
    between "$(($(of a samples) + $(status a kernel_lost)))" $((counted - stops)) "$counted" "samples and losses"
}

t_a_clock_is_sampled_in_one_mode_when_the_other_is_off() {
    mount_pmcfs
    for off in kernel user; do
        pmc $off event=cpu-clock freq=997 start=exec $off=off
        M=$M sh -c 'echo self >"$M/$1/target" && exec dd if=/dev/zero of=/dev/null bs=64 count=500000' sh $off 2>/dev/null
        log $off
        between "$(of $off samples)" 5 100000 "samples with $off=off"
    done
    is "$(found kernel ip | tr ' ' '\n' | grep -c '^0xffff')" 0 "in the kernel"
    is "$(found user ip | tr ' ' '\n' | grep -vc '^0xffff')" 0 "in the program"
    is "$(status kernel hidden)" 0
    fails_with EINVAL "echo 'event=cpu-clock freq=99 user=off kernel=off' >'$M/kernel/config'"
    like "$(cat "$M/kernel/error")" '^EINVAL P07 '
    as "$ALICE" mkdir "$M/hers"
    is "$(result_as "$ALICE" write "$M/hers/config" 'event=cpu-clock freq=99 user=off')" EINVAL "without the kernel"
    like "$(cat "$M/hers/error")" '^EINVAL P07 .*CAP_PERFMON'
}
