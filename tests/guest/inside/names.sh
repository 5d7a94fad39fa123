# shellcheck shell=dash disable=SC2034,SC2086,SC2154 # PID_p is set by run
# All the ways to name an event on the real PMU.

N=$((5 * MILLION))

t_every_spelling_of_instructions_counts_the_same() {
    mount_pmcfs
    run p load cpu 0
    for event in instructions:u arm_ac57::INST_RETIRED:u inst_retired:u armv8_pmuv3/inst_retired/u \
        armv8_pmuv3/event=0x8/u armv8_pmuv3/event=0x8,long=1/u r08:u r8,usr perf_raw::r0008:u instructions,usr \
        armv8_pmuv3/instructions/u tot_ins:u INST-RETIRED,usr \
        ARMV8_PMUV3/Inst-Retired/,usr ARM-AC57::Inst.Retired,usr generic/instructions,usr \
        Generic/Tot_Ins/u papi.tot.ins,usr perf::INSTRUCTIONS,usr armv8_pmuv3/CONFIG=0x8/,usr \
        perf::PERF_COUNT_HW_INSTRUCTIONS:u perf::INSTRUCTIONS:u; do
        pmc i "event=$event target=$PID_p"
        is "$(cat "$M/i/event")" "$event" "event as written"
        near "$(counted i tell p work $N)" $N 10 "$event"
        release i
    done
    for event in generic/instructions PAPI_tot_ins PAPI_TOT_INS; do
        pmc i "event=$event kernel=off target=$PID_p"
        near "$(counted i tell p work $N)" $N 10 "$event"
        release i
    done
}

t_every_spelling_of_cycles_counts_the_same() {
    local one
    mount_pmcfs
    run p load cpu 0
    pmc one "event=cycles:u target=$PID_p"
    one=$(counted one tell p work $N)
    for event in arm_ac57::CPU_CYCLES:u armv8_pmuv3/cpu_cycles/u r11:u perf::CYCLES:u armv8_pmuv3/cycles/u \
        PAPI_tot_cyc:u; do
        pmc c "event=$event target=$PID_p"
        near "$(counted c tell p work $N)" "$one" 20 "$event"
        release c
    done
}

t_every_listed_event_counts() {
    local event
    mount_pmcfs
    run p load cpu 0
    for file in "$M"/events/armv8_pmuv3/*; do
        event=$(sed -n 's/^event //p' "$file")
        pmc e "event=$event target=$PID_p"
        [ "$(counted e tell p work $N)" -gt 0 ] || die "$event is listed and counts nothing"
        release e
    done
}

t_every_listed_generic_event_counts() {
    local event
    mount_pmcfs
    run p load cpu 0
    for file in "$M"/events/generic/*; do
        event=$(sed -n 's/^event //p' "$file")
        case $event in generic/*clock | generic/*faults | generic/*switches | generic/*migrations) continue ;; esac
        grep -q '^description .*(here: ' "$file" || die "$event does not say what it is here"
        pmc e "event=$event target=$PID_p"
        [ "$(counted e tell p work $N)" -gt 0 ] || die "$event is listed and counts nothing"
        release e
    done
}

t_missing_events_are_reported_as_missing() {
    mount_pmcfs
    pmc e
    refused EOPNOTSUPP "$M/e/event" branch-misses 'branch-misses'
    refused EOPNOTSUPP "$M/e/event" PAPI_l1_dcm 'PAPI_l1_dcm \(level 1 data cache misses\)'
    refused EOPNOTSUPP "$M/e/event" power/energy-pkg/ 'no PMU "power"'
    refused EOPNOTSUPP "$M/e/event" arm_ac57::L1D_CACHE_REFILL 'L1D_CACHE_REFILL'
    refused EINVAL "$M/e/event" arm_ac57::INST_RETIRE 'inst_retired'
}

t_a_raw_number_needs_no_table() {
    mount_pmcfs
    run p load cpu 0
    pmc e "event=r3ff target=$PID_p"
    is "$(counted e tell p work $N)" 0
}

t_kernel_mode_only() {
    mount_pmcfs
    run p load cpu 0
    pmc k "event=instructions:k target=$PID_p"
    between "$(counted k tell p work $N)" 1 $((N / 2))
}
