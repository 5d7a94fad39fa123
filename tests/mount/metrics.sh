# shellcheck shell=bash disable=SC2016
# Values derived from counts: NAME/metrics, metric/NAME in event, events/metric.

sim() { mount_pmcfs -o backend=sim,sim_cpus=4,sim_rows=8; }

# metric PMC NAME: its value, in millionths.
metric() { awk -v name="$2" '$1 == name {printf "%.0f\n", 1000000 * $2}' "$M/$1/metrics"; }
metric_names() { cut -d ' ' -f 1 "$M/$1/metrics" | xargs; }
listed() { find "$M/events/metric" -type f -printf '%f\n' | sort; }
metric_values() { cut -d ' ' -f 2 "$M/$1/metrics" | sort -u | xargs; }

t_a_metric_in_event_is_replaced_by_the_events_that_it_needs() {
    sim
    pmc a
    accepted "$M/a/event" metric/ipc
    is "$(cat "$M/a/event")" $'instructions\ncycles'
    is "$(paste "$M/a/event" "$M/a/count")" $'instructions\t0\ncycles\t0'
    accepted "$M/a/event" 'page-faults Metric/CPI:u metric/ipc:u' # an event of two metrics is listed once
    is "$(xargs <"$M/a/event")" 'page-faults cycles:u instructions:u'
    accepted "$M/a/config" $'event=metric/ipc,usr event=cycles count=1,2,3\n'
    is "$(xargs <"$M/a/event")" 'instructions,usr cycles,usr cycles'
    refused EINVAL CS01 "$M/a/event" metric/ip
    like "$(cat "$M/a/error")" 'did you mean ipc'
    refused EINVAL CS01 "$M/a/event" metric/
    refused EINVAL CS03 "$M/a/event" metric/ghz:u # the metric defines its mode
    refused EOPNOTSUPP P09 "$M/a/event" metric/frontend-stalls
    is "$(xargs <"$M/a/event")" 'instructions,usr cycles,usr cycles'
}

t_a_copied_config_has_the_same_metrics() {
    sim
    pmc a event=metric/ipc event=page-faults event=metric/branch-miss-ratio
    is "$(grep event= "$M/a/config" | xargs)" \
        'event=instructions event=cycles event=page-faults event=branch-misses event=branches event=metric/ipc event=metric/branch-miss-ratio'
    pmc b
    cat "$M/a/config" >"$M/b/config"
    cmp "$M/a/config" "$M/b/config"
    like "$(cat "$M/b/series")" $'branches\tmetric/ipc\tmetric/branch-miss-ratio'
    accepted "$M/b/config" 'mode=SC' # another change keeps them
    like "$(cat "$M/b/config")" 'event=metric/ipc'
    accepted "$M/b/event" cycles
    ! grep metric/ "$M/b/config" "$M/b/series"
}

t_a_metric_that_is_appended_again_is_listed_once() {
    sim
    pmc a event=metric/ipc
    for metric in metric/ipc metric/cpi metric/ipc; do
        echo "$metric" >>"$M/a/event"
    done
    is "$(grep event= "$M/a/config" | xargs)" 'event=instructions event=cycles event=metric/ipc event=metric/cpi'
}

t_metrics_are_derived_from_plain_events_too() {
    sim
    pmc a event=PAPI_tot_ins event=cycles event=task-clock event=page-faults
    is "$(metric_names a)" \
        'ipc cpi ghz cpus-used PAPI_tot_ins/s PAPI_tot_ins/cpu-s cycles/s cycles/cpu-s page-faults/s page-faults/cpu-s'
    is "$(metric_values a)" - 'nothing was counted'
    accepted "$M/a/target" $$
    eventually 5 '[[ $(head -n 1 "$M/a/count") -gt 100000000 ]]'
    accepted "$M/a/ctl" stop
    is "$(cut -d ' ' -f 1,2 "$M/a/metrics" | head -n 3 | xargs)" 'ipc 2.000000 cpi 0.500000 ghz 1.000000'
    between "$(metric a page-faults/cpu-s)" 1900000000 2100000000
    is "$(grep page-faults/ "$M/a/metrics" | cut -d ' ' -f 3 | xargs)" '1/s 1/CPU-s'
    is "$(grep -c partial "$M/a/metrics" || :)" 0
}

t_the_rate_of_an_event_has_its_unit_and_scale() {
    sim
    local scale
    scale=$(sed -n 's/^scale //p' "$M"/events/*/package)
    pmc a event=package event=cpu-clock target=cpu0
    eventually 5 '(($(head -n 1 "$M/a/count") > 1000000))'
    ctl a stop
    awk -v count="$(head -n 1 "$M/a/count")" -v ns="$(tail -n 1 "$M/a/count")" -v scale="$scale" '
        { wanted = count * scale * 1e9 / ns }
        $1 == "package/s" { by_clock = $3 == "Joules/s" && $2 > 1 }
        $1 == "package/cpu-s" { seen = by_clock && $3 == "Joules/CPU-s" && $2 > 0.999 * wanted && $2 < 1.001 * wanted }
        END { if (!seen) print "expected", wanted; exit !seen }' "$M/a/metrics" ||
        die "$(cat "$M/a/metrics")"
}

t_an_event_with_modifiers_gives_no_metric() {
    sim
    pmc a event=instructions,cmask=2 event=cycles
    is "$(metric_names a)" 'instructions,cmask=2/s cycles/s'
    pmc b event=instructions:u event=cycles:k # of two modes
    is "$(metric_names b)" 'instructions:u/s cycles:k/s'
    pmc c event=instructions:u event=cycles:u event=instructions:k event=cycles:k
    is "$(metric_names c | cut -d ' ' -f 1-4)" 'ipc:u ipc:k cpi:u cpi:k'
    pmc d event=instructions:u event=cycles:u
    is "$(metric_names d | cut -d ' ' -f 1,2)" 'ipc cpi'
    pmc e event=metric/user-share target=$$
    eventually 5 '[[ $(head -n 1 "$M/e/count") -gt 1000000 ]]'
    between "$(metric e user-share)" 740000 760000
}

t_metrics_leave_the_initial_count_out() {
    sim
    pmc a event=instructions event=cycles count=1000000000000,5 target=$$
    eventually 5 '[[ $(tail -n 1 "$M/a/count") -gt 100000000 ]]'
    between "$(metric a ipc)" 1999999 2000001
}

t_series_has_a_column_for_each_metric() {
    sim
    pmc a event=metric/ipc event=task-clock event=metric/cpus-used interval=50 target=$$
    timeout 60 head -n 16 "$M/a/series" >"$T/series"
    is "$(head -n 1 "$T/series")" $'# seconds\tinstructions\tcycles\ttask-clock\tmetric/ipc\tmetric/cpus-used'
    is "$(grep -v '#' "$T/series" | cut -f 5 | sort -u)" 2.000000
    # The median, because a server that loses its CPU between the counter and the clock makes a line too large or small.
    between "$(grep -v '#' "$T/series" | cut -f 6 | sort -n | awk '{ value[NR] = $1 } END { print int(value[int((NR + 1) / 2)] * 1000) }')" \
        990 1010 'thousandths of a CPU'
}

t_events_metric_lists_the_metrics_of_this_host() {
    sim
    is "$(listed | xargs)" \
        'branch-miss-ratio branch-mpki cache-miss-ratio cpi cpus-used ghz ipc user-share'
    for name in $(listed); do
        pmc a "$(sed -n 's/^event /event=/p' "$M/events/metric/$name")"
        is "$(cut -d ' ' -f 1 "$M/events/metric/$name" | xargs)" 'event description formula needs unit'
        is "$(xargs <"$M/a/event")" "$(sed -n 's/^needs //p' "$M/events/metric/$name")" "$name"
        grep -q "^$name - $(sed -n 's/^unit //p' "$M/events/metric/$name")$" "$M/a/metrics"
        rmdir "$M/a"
    done
}

t_without_a_pmu_a_metric_of_the_processor_is_refused() {
    mount_pmcfs
    [[ ! -e $M/events/generic/cycles ]] || skip 'there is a PMU'
    pmc a
    refused EOPNOTSUPP P09 "$M/a/event" metric/ipc
    like "$(cat "$M/a/error")" '^EOPNOTSUPP P09 event: metric/ipc needs instructions: "instructions" cannot be counted here: '
    is "$(listed | xargs)" cpus-used
    fails_with ENOENT "cat $M/events/metric/ipc"
    pmc b
    fails_with ENODATA "cat $M/b/metrics"
}

#@ slow
t_cpus_used_divides_by_the_time_attached_and_running() {
    mount_pmcfs
    target_start p
    pmc a event=metric/cpus-used event=page-faults "target=${PID_OF[p]}"
    sleep 0.5
    tell p spin 300
    tell p faults 1000
    accepted "$M/a/ctl" stop
    # At most the time that it took by the clock, and not before it was attached.
    local used elapsed
    used=$(metric a cpus-used)
    between "$used" 1000 500000
    elapsed=$(($(head -n 1 "$M/a/count") * 1000 / used))
    between "$elapsed" 800000 60000000 'microseconds by the clock'
    sleep 0.3
    is "$(metric a cpus-used)" "$used" 'stopped: nothing goes on'
    accepted "$M/a/ctl" start
    sleep 0.2
    accepted "$M/a/ctl" stop
    [[ $(metric a cpus-used) -lt $used ]] || die 'a second run adds to the time'
    accepted "$M/a/ctl" reset
    is "$(metric_values a)" - 'reset'
}

#@ slow
t_rates_start_again_when_the_count_is_written() {
    mount_pmcfs -o backend=sim
    pmc a event=cycles "target=$$"
    sleep 1.5
    accepted "$M/a/ctl" stop
    accepted "$M/a/count" 5
    is "$(metric_values a)" - 'no event and no time'
    accepted "$M/a/ctl" start
    sleep 0.5 # a third of the time before, and longer than delays of a busy machine
    accepted "$M/a/ctl" stop
    between "$(metric a cycles/s)" 500000000000000 2000000000000000 # a billion, in millionths
    # The targets start again as well: the sum is theirs and the initial value.
    is "$(awk -F '\t' '$2 == "all" { all = $3 } $2 ~ /^pid/ { pid = $3 } END { printf "%d", all - pid }' \
        "$M/a/detail")" 5
}

# Rates and cpus-used divide by the same elapsed time.
rates_agree() { # PMC
    awk '{ value[$1] = $2; unit[$1] = $3 }
        END { wanted = value["page-faults/cpu-s"] * value["cpus-used"]; seen = value["page-faults/s"]
            exit !(seen > 0 && seen > 0.99 * wanted && seen < 1.01 * wanted && unit["page-faults/s"] == "1/s") }' \
        "$M/$1/metrics" || die "$(cat "$M/$1/metrics")"
}

#@ slow
t_a_rate_is_by_the_clock_however_little_the_program_ran() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults event=task-clock "target=${PID_OF[p]}"
    tell p spin 50
    tell p faults 1000
    sleep 1
    ctl a stop
    rates_agree a
    between "$(metric a page-faults/s)" 1000000 1100000000 # less than the count: a second has passed
    ctl a start
    tell p faults 100
    sleep 0.2
    rates_agree a
    ctl a stop
    rates_agree a
}

t_clocks_have_no_rate() {
    mount_pmcfs
    pmc a event=task-clock event=cpu-clock event=page-faults
    is "$(metric_names a)" 'cpus-used page-faults/s page-faults/cpu-s'
    pmc b event=page-faults
    is "$(metric_names b)" page-faults/s
}
