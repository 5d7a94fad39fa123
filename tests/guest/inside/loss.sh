# shellcheck shell=dash disable=SC2154 # PID_p is set by run
# Counters that somebody else takes away: no loss is silent.

MS=$MILLION # a millisecond in nanoseconds, and (here) in instructions
N=$((200 * MS))

t_a_childs_counter_taken_for_15_ms() {
    local now missing
    mount_pmcfs
    run h hold cpu 1
    run p load cpu 1
    tell p stay
    pmc i "event=instructions:u descendants=on target=$PID_p"
    tell p bear $MS
    order p begin $N
    answer p
    sleep 0.03
    tell h flash 6 15
    count i >/dev/null # here at the latest it is noticed
    tell p finish
    now=$(count i)
    is "$(status i partial)" yes partial
    missing=$((N + MS - now))
    between $missing $((14 * MS)) $((150 * MS)) "instructions not counted"
    near "$(($(status i covered_ns) - $(status i running_ns) + 100 * MS))" $((missing + 100 * MS)) 10 \
        "time that is missing, and 100 ms"
    # Counting goes on.
    near "$(counted i tell p bear $((20 * MS)))" $((20 * MS)) 10
    is "$(state i)" running
}

t_what_is_lost_is_said_everywhere_until_reset() {
    mount_pmcfs
    run h hold cpu 1
    run p load cpu 1
    pmc i "event=instructions:u target=$PID_p"
    tell p spin
    sleep 0.02
    tell h flash 6 30
    count i >/dev/null
    sleep 0.02
    tell p halt
    is "$(status i partial)" yes status
    is "$(awk '$2 == "all" { print $7 }' "$M/i/detail")" yes detail
    like "$(grep pmcfs_partial "$M/metrics.prom")" 'pmc="i".* 1$' metrics
    [ "$(count i)" -gt 0 ] || die "nothing counted"
    ctl i stop
    ctl i reset
    is "$(status i partial)" no "partial after reset"
    is "$(count i)" 0
}

t_all_counters_taken_is_lost_and_comes_back_by_itself() {
    local before
    mount_pmcfs
    run h hold cpu 1
    run p load cpu 1
    pmc i "event=instructions:u target=$PID_p"
    tell p work $((5 * MS))
    before=$(count i)
    tell p spin
    sleep 0.01
    tell h take 7
    is "$ANSWER" 7
    sleep 0.01
    count i >/dev/null || :
    is "$(state i)" lost
    if cat "$M/i/count" 2>/dev/null; then die "a lost count can be read"; fi
    is "$(status i partial)" yes
    between "$(awk '$2 == "all" { print $3 }' "$M/i/detail")" "$before" $((1000 * MS)) "last value"
    tell h look
    is "${ANSWER%% *}" 7 "the other user's events on the hardware"
    tell h drop
    sleep 0.01
    count i >/dev/null || :
    sleep 0.01
    is "$(state i)" running
    tell p halt
    near "$(counted i tell p work $((20 * MS)))" $((20 * MS)) 10
}

t_start_tries_again_at_once() {
    mount_pmcfs
    run h hold cpu 1
    run p load cpu 1
    pmc i "event=instructions:u target=$PID_p"
    tell p spin
    tell h take 7
    sleep 0.01
    count i >/dev/null 2>&1 || :
    is "$(state i)" lost
    tell h drop
    ctl i start
    is "$(state i)" running
    tell p halt
    near "$(counted i tell p work $((20 * MS)))" $((20 * MS)) 10
}

t_what_was_never_taken_is_not_partial() {
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
    pmc i 'mode=SC'
    refused EINVAL "$M/i/config" 'event=instructions:u target=cpu1'
    tell h drop
    accepted "$M/i/config" 'event=instructions:u target=cpu1'
    between "$(counted i tell p work $MS)" $MS $((20 * MS))
}
