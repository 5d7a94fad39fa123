# shellcheck shell=dash disable=SC2034,SC2086,SC2154 # PID_p is set by run
# Counters that somebody else takes away: no loss is silent.

MS=$MILLION # a millisecond in nanoseconds, and (here) in instructions
N=$((200 * MS))

# missing_is_true NAME: after a loss of about 15 ms the PMC is partial, and the time missing is what the missing
# instructions took, one nanosecond each. The program executed EXECUTED instructions.
missing_is_true() {
    local lost short
    short=$((EXECUTED - $(count "$1")))
    lost=$(($(status "$1" covered_ns) - $(status "$1" running_ns)))
    is "$(status "$1" partial)" yes partial
    between $short $((14 * MS)) $N "instructions not counted"
    between $((lost - short + 10 * MS)) $((9 * MS)) $((11 * MS)) "error of the missing time, and 10 ms"
}

t_a_childs_counter_taken_for_15_ms() {
    mount_pmcfs
    run h hold here 0
    run p load cpu 0
    tell p stay
    pmc i "event=instructions:u descendants=on target=$PID_p"
    tell p child $MS
    order h flash 6 15 30 "$M/i/count"
    tell p child $N
    answer h
    between "$ANSWER" $((14 * MS)) $((20 * MS)) "time taken by the other user"
    EXECUTED=$((N + MS))
    missing_is_true i
    # Counting continues.
    is "$(state i)" running
    near "$(counted i tell p child $((20 * MS)))" $((20 * MS)) 10
    near "$(counted i tell p work $((20 * MS)))" $((20 * MS)) 10
}

# taken_for_15_ms HOW: the counter of the main thread (work) or of a thread created after the attach (each).
taken_for_15_ms() {
    mount_pmcfs
    run h hold here 0
    run p load cpu 0
    pmc i "event=instructions:u target=$PID_p"
    tell p threads 1
    order h flash 6 15 30 "$M/i/count"
    tell p "$1" $N
    answer h
    EXECUTED=$N
    missing_is_true i
    near "$(counted i tell p "$1" $((20 * MS)))" $((20 * MS)) 10
}

t_the_targets_own_counter_taken_for_15_ms() { taken_for_15_ms work; }

t_a_threads_counter_taken_for_15_ms() { taken_for_15_ms each; }

# lost_and_back HOW: the counter of the main thread (work) or of a thread created after the attach (each).
lost_and_back() {
    local before
    mount_pmcfs
    run h hold cpu 0
    run p load cpu 0
    pmc i "event=instructions:u target=$PID_p"
    tell p threads 1
    tell p "$1" $((5 * MS))
    before=$(count i)
    tell h take 7
    is "$ANSWER" 7
    tell p "$1" $((20 * MS))
    count i >/dev/null 2>&1 || : # the first look
    is "$(state i)" lost
    if cat "$M/i/count" 2>/dev/null; then die "a lost count can be read"; fi
    is "$(status i partial)" yes
    between "$(awk '$2 == "all" { print $3 }' "$M/i/detail")" $((before - 1)) $((before + 10 * MS)) "last value"
    tell h look
    is "${ANSWER%% *}" 7 "the other user's events on the hardware"
    tell h drop
    count i >/dev/null 2>&1 || :
    tell p "$1" $((20 * MS))
    count i >/dev/null 2>&1 || :
    tell p "$1" $((20 * MS))
    is "$(state i)" running
    near "$(counted i tell p "$1" $((20 * MS)))" $((20 * MS)) 10
}

t_all_counters_taken_is_lost_and_comes_back_by_itself() { lost_and_back work; }

t_all_counters_of_a_later_thread_taken_is_lost_and_comes_back() { lost_and_back each; }

t_start_tries_again_at_once() {
    mount_pmcfs
    run h hold cpu 0
    run p load cpu 0
    pmc i "event=instructions:u target=$PID_p"
    tell h take 7
    tell p work $((20 * MS))
    count i >/dev/null 2>&1 || :
    is "$(state i)" lost
    tell h drop
    ctl i start
    is "$(state i)" running
    near "$(counted i tell p work $((20 * MS)))" $((20 * MS)) 10
}

t_events_that_were_never_removed_are_not_partial() {
    mount_pmcfs
    run h hold cpu 0
    tell h take 7
    run p load cpu 1
    tell p threads 2
    pmc i "event=instructions:u descendants=on target=$PID_p"
    tell p each $((10 * MS))
    tell p child $((10 * MS))
    tell p work $((10 * MS))
    is "$(status i partial)" no
    near "$(count i)" $((40 * MS)) 30
}

t_a_cpus_counter_that_is_taken_already() {
    mount_pmcfs
    run h hold cpu 1
    tell h take 7
    run p load cpu 1
    pmc i 'event=instructions:u target=cpu1'
    tell p work $((5 * MS))
    is "$(state i)" lost
    tell h look
    is "${ANSWER%% *}" 7 "the other user's events on the hardware"
    tell h drop
    count i >/dev/null 2>&1 || :
    is "$(state i)" running
    between "$(counted i tell p work $((5 * MS)))" $((5 * MS)) $((20 * MS))
}
