# shellcheck shell=dash disable=SC2034,SC2086,SC2154 # PID_p is set by run
# Another user of the counters, which asks the kernel and not pmcfs.

N=$((2 * MILLION))

# undisturbed HOLDER HOW-MANY: all its events are on the hardware and always were.
undisturbed() {
    tell "$1" look
    # shellcheck disable=SC2086 # word splitting is intended
    set -- "$2" $ANSWER
    is "$2" "$1" "events of the other user on the hardware"
    is "$5" "$4" "the other user's time on the hardware and time enabled"
}

t_another_user_is_undisturbed_before_during_and_after() {
    run h hold cpu 1
    tell h take 3
    is "$ANSWER" 3
    mount_pmcfs
    undisturbed h 3
    run p load cpu 1
    for n in 1 2 3; do pmc i$n "event=instructions:u target=$PID_p"; done
    pmc c "event=cycles:u target=$PID_p"
    accepted "$M/admin/probe" 1
    cat "$M"/events/*/cpu_cycles "$M/info/rows" >/dev/null
    tell p work $N
    undisturbed h 3
    for n in 1 2 3; do near "$(count i$n)" $N 10 i$n; done
    release i1 i2 i3 c
    undisturbed h 3
    end_all
    DAEMON=
    undisturbed h 3
}

t_the_start_does_not_disturb_a_user_of_all_counters() {
    run h hold cpu 1
    tell h take 7
    is "$ANSWER" 7
    run g hold cpu 0
    tell g take 7
    is "$ANSWER" 7
    mount_pmcfs
    undisturbed h 7
    undisturbed g 7
    like "$(cat "$M/info/backend")" 'hardware_pmu yes'
    is "$(cat "$M/info/npmc")" 7
    pmc s
    refused EINVAL "$M/s/event" 'cycles:u instructions:u' 'E19 event: .*foreign on cpu0'
    undisturbed h 7
    undisturbed g 7
    tell h drop
    tell g drop
    accepted "$M/admin/probe" 1
    is "$(cat "$M/admin/probe")" 0
    accepted "$M/s/event" 'cycles:u instructions:u'
}

t_counters_of_another_user_are_foreign() {
    mount_pmcfs
    is "$(rows state 1 | sort | uniq -c | xargs)" '7 enabled'
    run h hold cpu 1
    tell h take 4
    accepted "$M/admin/probe" 1
    is "$(rows state 1 | sort | uniq -c | xargs)" '3 enabled 4 foreign'
    is "$(rows state 0 | sort -u)" enabled
    undisturbed h 4
    tell h drop
    accepted "$M/admin/probe" 1
    is "$(rows state 1 | sort -u)" enabled
}

t_foreign_slots_are_not_given_away() {
    mount_pmcfs
    run h hold cpu 1
    tell h take 5
    accepted "$M/admin/probe" 1
    run p load cpu 1
    pmc a 'event=instructions:u mode=SC target=cpu1'
    pmc b mode=SC
    refused EINVAL "$M/b/config" 'event=instructions:u target=cpu1' E19
    accepted "$M/b/config" 'event=instructions:u target=cpu0'
    tell p work $N
    between "$(count a)" $N $((N * 20))
    undisturbed h 5
}

t_what_pmcfs_holds_is_not_foreign() {
    mount_pmcfs
    run p load cpu 1
    pmc a 'event=instructions:u mode=SC target=cpu1'
    pmc b "event=instructions:u target=$PID_p"
    accepted "$M/admin/probe" 1
    is "$(rows state 1 | sort -u)" enabled
    is "$(rows state 0 | sort -u)" enabled
}

t_counters_of_a_running_process_are_not_foreign() {
    mount_pmcfs
    run p load cpu 1
    for n in 1 2 3; do pmc i$n "event=instructions:u target=$PID_p"; done
    pmc s 'event=instructions:u mode=SC target=cpu1'
    tell p spin
    for n in 1 2 3; do accepted "$M/admin/probe" 1; done
    is "$(rows state 1 | sort -u)" enabled
    tell p halt
}
