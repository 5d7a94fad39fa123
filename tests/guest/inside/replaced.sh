# shellcheck shell=dash disable=SC2034,SC2046,SC2086,SC2119,SC2120,SC2154 # PID_p is set by run
# The serving process is killed while hardware counts, on a kernel that does not deliver a request again.

# shellcheck source=tests/guest/inside/sampling_lib.sh
. /tests/sampling_lib.sh

N=$((5 * MILLION))

# worker_kill: kills the serving process; the next one answers.
worker_kill() {
    local before
    before=$(stat restarts)
    kill -9 $(cat "/proc/$DAEMON/task/$DAEMON/children")
    is "$(stat restarts)" $((before + 1)) restarts
}

# all_rows: creates as many PMCs on p as there are counters.
all_rows() {
    for n in $(seq $ROWS); do
        event=instructions:u
        [ "$n" != 1 ] || event=cycles:u
        pmc "r$n" "event=$event target=$PID_p"
    done
}

t_counters_continue_on_their_rows_and_lose_nothing() {
    mount_pmcfs
    run p load cpu 0
    all_rows
    for i in 1 2 3 4 5 6 7 8 9 10; do
        worker_kill
        tell p work $N
        for n in $(seq 2 $ROWS); do
            near "$(count "r$n")" $((i * N)) 2 "r$n after $i"
            is "$(status "r$n" partial)" no "r$n partial"
        done
        is "$(dispositions)" "$ROWS THREAD"
    done
    is "$(count r2)" "$(count r7)" "two counters of the same"
    pmc more event=instructions:u
    refused EBUSY "$M/more/target" "$PID_p" 'EBUSY E05 target: '
    worker_kill
    release r3
    attach more "$PID_p"
    tell p work $N
    near "$(count more)" $N 2
}

t_events_without_a_worker_are_counted() {
    mount_pmcfs
    run p load cpu 0
    pmc i "event=instructions:u target=$PID_p"
    worker=$(cat "/proc/$DAEMON/task/$DAEMON/children")
    kill -STOP $worker
    tell p work $N
    kill -9 $worker
    tell p work $N
    near "$(count i)" $((2 * N)) 2
}

t_samples_of_the_hardware_are_in_the_log_once() {
    sampling
    run p load cpu 1
    pmc a "event=cycles:u period=$P target=$PID_p"
    pmc c "event=cycles:u target=$PID_p"
    for i in 1 2 3 4 5; do
        tell p work $((5 * N))
        worker_kill
    done
    ctl a stop
    log_of a
    is "$(status a kernel_lost)" 0 kernel_lost
    between "$(($(taken) + $(dropped replaced)))" $(($(count c) / P - 1)) $(($(count c) / P + 1)) samples
}

t_readers_and_makers_see_no_failure() {
    mount_pmcfs
    run p load cpu 0
    pmc i "event=instructions:u target=$PID_p"
    (
        n=0
        while [ ! -e "$T/end" ]; do
            if ! { cat "$M/i/count" && mkdir "$M/x" && io write "$M/x/event" cycles:u && rmdir "$M/x"; } >"$T/printed"; then
                echo "a call failed after $n: $(cat "$T/printed")" >"$T/bad"
                break
            fi
            n=$((n + 1))
        done
        echo "$n" >"$T/rounds"
    ) &
    client=$!
    for i in $(seq 20); do
        sleep 0.1
        worker_kill
    done
    touch "$T/end"
    wait $client
    [ ! -e "$T/bad" ] || die "$(cat "$T/bad")"
    [ "$(cat "$T/rounds")" -gt 20 ] || die "$(cat "$T/rounds") rounds"
    [ ! -e "$M/x" ] || die "x is left behind"
}
