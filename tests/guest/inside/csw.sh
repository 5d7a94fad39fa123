# shellcheck shell=dash disable=SC2034,SC2086,SC2154 # PID_p is set by run
# Switch and exit records. Without values of inherited counters from the kernel they are lower bounds, but add up.

N=$((20 * MILLION))

# sum TYPE [PATTERN]: prints the sum of the counts of all records of a type whose line matches.
sum() {
    awk -v type="$1" -v pattern="${2:-.}" '$2 == type && $0 ~ pattern {
        for (i = 3; i <= NF; i++) if ($i ~ /^count=/) sum += substr($i, 7) } END { printf "%d", sum }' "$T/log"
}

ended() { [ "$(state "$1")" = exited ]; }

# adds_up NAME: in the complete log nothing is reported twice or missing.
adds_up() {
    eventually 20 ended "$1"
    timeout 60 cat "$M/$1/samples" >"$T/log" || die "samples does not end"
    is "$(status "$1" kernel_lost)" 0 "records lost"
    is "$(sum csw)" "$(count "$1")" "sum of steps"
    is "$(sum exit)" "$(count "$1")" "sum of exits"
    is "$(grep -c ' exit .*pid=- .*exact=yes' "$T/log")" 0 "remainders marked exact"
}

t_instructions_of_an_existing_thread_are_logged() {
    mount_pmcfs
    run p load cpu 0
    pmc i "event=instructions:u log-csw=on log-exit=on target=$PID_p"
    tell p work $N
    tell p work $N
    order p quit
    adds_up i
    near "$(sum exit "pid=$PID_p ")" $((2 * N)) 10 "logged for the process"
    near "$(sum csw "tid=$PID_p ")" $((2 * N)) 10 "steps of the thread"
}

t_a_child_that_stays_is_logged_from_the_next_read() {
    local child
    mount_pmcfs
    run p load cpu 0
    pmc i "event=instructions:u descendants=on log-csw=on log-exit=on target=$PID_p"
    tell p stay
    child=$ANSWER
    sleep 0.5
    tell p bear $N
    tell p bear $N
    order p quit
    adds_up i
    near "$(sum csw "tid=$child ")" $((2 * N)) 20 "steps of the child"
    near "$(sum exit "pid=$child ")" $((2 * N)) 20 "exit of the child"
}

t_short_children_are_never_logged_with_more_than_they_counted() {
    mount_pmcfs
    run p load cpu 0
    pmc i "event=instructions:u descendants=on log-csw=on log-exit=on target=$PID_p"
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        tell p child $MILLION
    done
    order p quit
    adds_up i
    awk -v most=$((MILLION + MILLION / 5)) -v p="pid=$PID_p" '
        $2 == "exit" && $3 != p && $3 != "pid=-" { n++; sub(/count=/, "", $4); if ($4 + 0 > most) exit 1 }
        END { if (n != 10) exit 2 }' "$T/log" || die "$(cat "$T/log")"
}

t_page_faults_of_short_children_add_up() {
    mount_pmcfs
    pmc f "event=page-faults start=exec descendants=on log-csw=on log-exit=on"
    sh -c "echo self >$M/f/target && exec sh -c 'for i in 1 2 3 4 5 6 7 8 9 10; do /bin/busybox true; done'"
    adds_up f
    between "$(grep -c ' exit pid=[0-9]' "$T/log")" 11 12 "processes that ended"
}

t_threads_are_logged_one_by_one() {
    mount_pmcfs
    run p load
    tell p threads 4
    pmc i "event=instructions:u log-csw=on log-exit=on target=$PID_p"
    tell p each $((5 * MILLION))
    tell p each $((5 * MILLION))
    order p quit
    adds_up i
    near "$(sum exit "pid=$PID_p ")" $((40 * MILLION)) 30 "logged for the process"
    between "$(awk '$2 == "csw" { tid[$4] } END { for (t in tid) n++; print n }' "$T/log")" 5 6 "threads with steps"
}

# The kernel credits the time of an exited child on other CPUs only up to their last change of state.
t_children_that_wandered_over_the_cpus_leave_no_gap() {
    local child order cpus
    mount_pmcfs
    run p load cpu 0
    pmc i "event=instructions:u descendants=on log-csw=on log-exit=on target=$PID_p"
    for order in "2 1 2 1" "1 2 1 2" "2 1 2 1" "1 2 1 2"; do
        tell p stay
        child=$ANSWER
        for cpus in $order; do
            taskset -p $cpus "$child" >/dev/null
            tell p bear $((5 * MILLION))
        done
        kill -9 "$child"
    done
    order p quit
    adds_up i
    between "$(count i)" $((80 * MILLION)) $((88 * MILLION))
    is "$(status i partial)" no
    # the times enabled and running of all targets
    # shellcheck disable=SC2046 # word splitting is intended
    set -- $(awk '$2 == "all" { print $4, $5 }' "$M/i/detail")
    between "$1" "$2" $(($2 + 2 * MILLION)) "time enabled"
}

# Counters that others need are not taken from them.
t_following_takes_no_counter_from_anybody() {
    mount_pmcfs
    run p load cpu 0
    pmc a "event=instructions:u log-csw=on target=$PID_p"
    for i in 1 2 3 4 5; do
        pmc b$i "event=r0$((i + 2)) target=$PID_p"
    done
    is "$(counted a tell p work $N | awk -v n=$N '{ print ($1 >= n && $1 < n + n / 100) }')" 1
    for i in a b1 b2 b3 b4 b5; do
        is "$(status $i partial)" no "$i partial"
    done
    order p quit
    eventually 20 ended a
    timeout 60 cat "$M/a/samples" >"$T/log"
    is "$(sum csw)" "$(count a)" "sum of steps"
}
