# shellcheck shell=bash disable=SC2016
# examples/readers: the short programs in Python, C and shell, on a real mount.

READERS=${TEST_FILE%/tests/*}/examples/readers

# The program prints a line per second: the growth of both counts. The target works in between.
#@ slow
t_held_py_prints_the_growth_of_each_event() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults,context-switches "target=${PID_OF[p]}"
    is "$(/usr/bin/python3 "$READERS/held.py" "$M/a" 2 | tee "$T/growth" | wc -l)" 2
    is "$(grep -vcxE '[0-9]+ [0-9]+' "$T/growth" || :)" 0 "lines of another form"
    /usr/bin/python3 "$READERS/held.py" "$M/a" 1000 >"$T/growth" &
    local reader=$! line
    for line in 1 2 3; do
        eventually 20 "((\$(wc -l <'$T/growth') >= $line))"
        tell p faults 100
    done
    eventually 20 'awk "{ n += \$1 } END { exit n < 300 }" "$T/growth"'
    kill "$reader"
    between "$(awk '{ n += $1 } END { print n }' "$T/growth")" 300 "$(head -n 1 "$M/a/count")"
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
    eventually 20 "[[ \$(readlink /proc/$reader/fd/*) == *$M/a/* ]]"
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
