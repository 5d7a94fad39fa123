# shellcheck shell=dash disable=SC2034,SC2154
# Setting the wall clock while pmcfs counts has no effect: pmcfs uses the monotonic clock.

step() { # SECONDS: from now
    date -s "@$(($(date +%s) + $1))" >/dev/null
}

t_a_step_of_the_clock_moves_no_time_of_a_count() {
    mount_pmcfs
    run p load
    pmc i "event=instructions:u interval=100 target=$PID_p"
    timeout 2 cat "$M/i/series" >"$T/series" &
    series=$!
    sleep 0.3
    step 3600
    sleep 0.3
    step -7200
    tell p work $((20 * MILLION))
    wait $series || :
    step 3600
    # Seconds since the first start: in order, none of them an hour away, none skipped.
    awk '/^#/ { if (/skipped/ && $3 > 5) exit 1; next } $1 < last || $1 > 60 { exit 1 } { last = $1; n++ } END { exit n < 5 }' \
        "$T/series" || die "the series: $(cat "$T/series")"
    between "$(status i covered_ns)" "$MILLION" $((60000 * MILLION)) covered_ns
}

t_a_step_of_the_clock_moves_no_record() {
    mount_pmcfs
    run p load
    pmc s "event=instructions:u period=1000000 target=$PID_p"
    for seconds in 3600 -3600 0; do
        tell p work $((20 * MILLION))
        step $seconds
    done
    ctl s stop
    cat "$M/s/samples" >"$T/samples"
    awk '$1 < last { exit 1 } $2 == "sample" { n++; if (first && $1 - first > 60) exit 1; first = first ? first : $1 } { last = $1 }
        END { exit n < 5 }' "$T/samples" || die "the log: $(cat "$T/samples")"
}
