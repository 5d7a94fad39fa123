# shellcheck shell=dash disable=SC2154 # PID_p is set by run
# Metrics of hardware counts, compared with the counts of the same read.

# follows PMC METRIC NUMERATOR-LINE DIVISOR-LINE SCALE: the metric is the ratio of these lines of `count`, times SCALE.
follows() {
    is "$(awk -v name="$2" '$1 == name {print $2}' "$M/$1/metrics")" \
        "$(sed -n "$3p;$4p" "$M/$1/count" | xargs | awk -v scale="$5" '{printf "%.6f\n", $1 / $2 * scale}')" "$2"
}

t_ratios_match_the_counts_of_the_same_read() {
    mount_pmcfs
    run p load cpu 0
    pmc a "event=metric/ipc event=metric/ghz target=$PID_p"
    is "$(xargs <"$M/a/event")" 'instructions cycles cycles:uk task-clock'
    tell p work $((50 * MILLION))
    ctl a stop
    [ "$(head -n 1 "$M/a/count")" -ge $((50 * MILLION)) ] || die "$(cat "$M/a/count")"
    follows a ipc 1 2 1
    follows a cpi 2 1 1
    follows a ghz 3 4 1
    ! grep partial "$M/a/metrics"
}

t_metrics_that_this_processor_has() {
    mount_pmcfs
    for name in ipc cpi ghz user-share; do
        [ -e "$M/events/metric/$name" ] || die "no $name"
    done
    for name in "$M"/events/metric/*; do
        pmc x "$(sed -n 's/^event /event=/p' "$name")"
        is "$(xargs <"$M/x/event")" "$(sed -n 's/^needs //p' "$name")"
        rmdir "$M/x"
    done
    pmc a
    refused EOPNOTSUPP "$M/a/event" metric/branch-mpki P09
}

t_precise_samples_are_refused_on_this_processor() {
    mount_pmcfs
    pmc a
    for text in cycles:p cycles:uppp cycles,precise instructions:pu armv8_pmuv3/cpu_cycles/pp metric/ipc:p; do
        refused EOPNOTSUPP "$M/a/event" "$text" 'P09 .*precise samples'
    done
}
