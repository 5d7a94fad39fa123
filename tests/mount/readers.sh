# shellcheck shell=bash
# examples/readers: the short programs in Python, C and shell, on a real mount.

READERS=${TEST_FILE%/tests/*}/examples/readers

# The program prints a line per second: the growth of both counts. The target works in between.
#@ slow
t_held_py_prints_the_growth_of_each_event() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults,context-switches "target=${PID_OF[p]}"
    /usr/bin/python3 "$READERS/held.py" "$M/a" 4 >"$T/growth" &
    local reader=$! total=0 line
    for line in 1 2 3; do
        eventually 20 "((\$(wc -l <'$T/growth') >= $line))"
        tell p faults 100
    done
    wait "$reader" || die "held.py failed"
    is "$(wc -l <"$T/growth")" 4
    while read -r faults switches; do
        like "$switches" '^[0-9]+$'
        total=$((total + faults))
    done <"$T/growth"
    ((total >= 200)) || die "held.py saw $total page faults: $(<"$T/growth")"
}

#@ slow
t_threshold_c_returns_when_notify_events_were_counted() {
    mount_pmcfs
    "${CC:-gcc}" -std=c11 -Wall -Wextra -Werror -o "$T/threshold" "$READERS/threshold.c" || die "it does not compile"
    target_start p
    pmc a event=page-faults notify=500 "target=${PID_OF[p]}"
    "$T/threshold" "$M/a" >"$T/counts" &
    local reader=$!
    until ! kill -0 $reader 2>/dev/null; do
        tell p faults 100
        sleep 0.1
    done
    wait $reader || die "threshold failed"
    (($(<"$T/counts") >= 500)) || die "it returned at $(<"$T/counts")"
}

#@ slow
t_threshold_c_fails_when_the_pmc_is_released() {
    mount_pmcfs
    "${CC:-gcc}" -std=c11 -o "$T/threshold" "$READERS/threshold.c"
    pmc a event=page-faults notify=500
    "$T/threshold" "$M/a" >"$T/counts" &
    local reader=$!
    sleep 0.5
    rmdir "$M/a"
    ! wait $reader || die "threshold succeeded: $(<"$T/counts")"
}

# Each line has the counts of an interval; their sums add up to the count of the stopped PMC.
#@ slow
t_stream_sh_prints_every_interval_until_the_pmc_is_stopped() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults,context-switches interval=100 "target=${PID_OF[p]}"
    : >"$T/lines"
    sh "$READERS/stream.sh" "$M/a" >"$T/lines" &
    local reader=$!
    eventually 20 "((\$(wc -l <'$T/lines') >= 1))"
    tell p faults 100
    eventually 20 "((\$(wc -l <'$T/lines') >= 3))"
    tell p faults 100
    sleep 0.5
    ctl a stop
    wait $reader || die "stream.sh failed"
    is "$(grep -cvE '^[0-9]+\.[0-9]{9}: [0-9]+ [0-9]+ \(sum [0-9]+\)$' "$T/lines" || :)" 0 "lines of another form in $(<"$T/lines")"
    (($(sed 's/.*(sum \(.*\))/\1/' "$T/lines" | paste -sd +) >= 200)) || die "too few events: $(<"$T/lines")"
}
