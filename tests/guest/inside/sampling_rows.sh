# shellcheck shell=dash disable=SC2034,SC2046,SC2086,SC2119,SC2120,SC2154 # PID_p is set by run
# Rows of PMCs that sample: they are those of PMCs that count.

# shellcheck source=tests/guest/inside/sampling_lib.sh
. /tests/sampling_lib.sh

# samplers N CPU-OR-PID: creates the PMCs r1 to rN; the last of all rows samples cycles.
samplers() {
    for n in $(seq $1); do
        event=instructions:u
        [ $n != $ROWS ] || event=cycles:u
        pmc r$n "event=$event period=$P target=$2"
    done
}

t_a_sampler_has_a_row_like_any_other() {
    sampling
    run p load cpu 1
    pmc a "event=cycles:u period=$P target=$PID_p"
    pmc b "event=instructions freq=100 target=cpu1"
    pmc c "event=instructions:u target=$PID_p"
    is "$(status a row) $(status b row) $(status c row)" '6 0 1' rows
    is "$(dispositions)" '4 FREE 1 STANDALONE 2 THREAD'
    is "$(rows pmc 0 | xargs)" '- c - - - - a'
    is "$(rows pmc 1 | xargs)" 'b c - - - - a'
    ctl a stop
    ctl b stop
    is "$(dispositions)" '4 FREE 1 STANDALONE 2 THREAD' "stopped"
    release a b c
    is "$(dispositions)" '7 FREE'
}

t_as_many_samplers_as_counters_all_sample() {
    sampling
    run p load cpu 1
    samplers $ROWS $PID_p
    is "$(dispositions)" '7 THREAD'
    tell p work $N
    for n in $(seq $ROWS); do
        ctl r$n stop
        log_of r$n
        nothing_lost r$n
        near "$(taken " pid=$PID_p ")" $S 60 "samples of r$n"
        is "$(status r$n partial)" no
    done
}

t_one_sampler_more_is_refused_and_leaves_nothing() {
    local before fds
    sampling
    run p load cpu 1
    before=$(stat descriptors)
    samplers $ROWS $PID_p
    pmc more "event=instructions:u period=$P"
    fds=$(stat descriptors)
    for _ in 1 2 3; do
        refused EBUSY "$M/more/target" $PID_p 'EBUSY E05 target: '
    done
    is "$(stat descriptors)" "$fds" "descriptors after it was refused"
    is "$(status more log_records)" 1 "records of the refused PMC" # only its allocation
    release r3
    attach more $PID_p
    tell p work $N
    ctl more stop
    log_of more
    near "$(taken)" $S 60 "samples of the PMC that took its place"
    release more r1 r2 r4 r5 r6 r7
    is "$(dispositions)" '7 FREE'
    is "$(stat descriptors)" "$before" "descriptors in the end"
}
