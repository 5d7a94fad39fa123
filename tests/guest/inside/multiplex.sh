# shellcheck shell=dash disable=SC2034,SC2086,SC2154 # PID_p is set by run
# Counters are multiplexed only with multiplex=on.

N=$((600 * MILLION))

t_counters_are_not_shared_without_multiplex() {
    mount_pmcfs
    run p load cpu 0
    for n in 1 2 3 4 5 6; do pmc i$n "event=instructions:u target=$PID_p"; done
    pmc i7 event=instructions:u
    refused EBUSY "$M/i7/target" "$PID_p"
    tell p work $((10 * MILLION))
    for n in 1 2 3 4 5 6; do
        is "$(status i$n enabled_ns)" "$(status i$n running_ns)" "i$n on the hardware all the time"
    done
}

t_more_events_than_counters_give_estimates() {
    local line
    mount_pmcfs
    run p load cpu 0
    for n in 1 2 3 4 5 6 7 8 9 10; do pmc i$n "event=instructions:u multiplex=on target=$PID_p"; done
    is "$(dispositions)" '7 FREE' "rows"
    tell p work $N
    for n in 1 2 3 4 5 6 7 8 9 10; do
        near "$(count i$n)" $N 50 "estimate of i$n"
        line=$(awk '$2 == "all" { print $3, $4, $5, $6 }' "$M/i$n/detail")
        # shellcheck disable=SC2086 # word splitting is intended
        set -- $line
        [ "$1" -lt $((N * 9 / 10)) ] || die "i$n: the raw value $1 is that of all the time"
        [ "$3" -lt "$2" ] || die "i$n ran all the time: $line"
        near "$4" "$(count i$n)" 1 "estimate in detail"
    done
}

t_count_is_refused_while_there_is_no_estimate() {
    mount_pmcfs
    run p load cpu 0
    pmc i 'event=instructions:u multiplex=on'
    attach i "$PID_p"
    if value=$(cat "$M/i/count" 2>&1); then die "it gave $value before it ran"; fi
    like "$value" 'temporarily unavailable'
}
