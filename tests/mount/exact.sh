# shellcheck shell=bash disable=SC2016
# Counts compared with the kernel's own numbers for the same time: equal for exact events.

# Call it while the target is idle, because the PMC and /proc are read one after the other.
same_span() {
    is "$(($(count a) - COUNT0))" "$(($(faults_of "${PID_OF[p]}") - FAULTS0))" "page faults"
}

start_span() {
    tell p usage
    COUNT0=$(count a) FAULTS0=$(faults_of "${PID_OF[p]}")
}

t_page_faults_equal_those_of_proc() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    start_span
    for n in 1 10 1234 7; do
        tell p faults $n
        same_span
    done
}

t_page_faults_of_threads_before_and_after_the_attach_equal_those_of_proc() {
    mount_pmcfs
    target_start p
    tell p threads 8
    pmc a event=page-faults "target=${PID_OF[p]}"
    start_span
    tell p each 50
    tell p threads 8
    tell p each 50
    tell p end 4
    tell p each 50
    same_span
    is "$(status a attach)" exact
}

#@ slow
t_perf_stat_at_the_same_time_counts_the_same() {
    perf stat -x, -e page-faults true 2>"$T/perf" || skip "perf does not run here: $(tail -1 "$T/perf")"
    mount_pmcfs
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    tell p usage
    mkfifo "$T/control" "$T/ack"
    perf stat -x, -e page-faults -o "$T/perf" -p "${PID_OF[p]}" -D -1 --control "fifo:$T/control,$T/ack" &
    echo enable >"$T/control"
    read -r _ <"$T/ack"
    tell p usage
    local before
    before=$(count a)
    tell p faults 2500
    tell p usage
    local ours=$(($(count a) - before))
    kill -INT $!
    wait $! || :
    is "$ours" "$(sed -n 's/^\([0-9]*\),.*page-faults.*/\1/p' "$T/perf")"
}

#@ alone
t_task_clock_is_the_cpu_time_of_the_threads() {
    mount_pmcfs
    target_start p
    tell p threads 4
    pmc a event=task-clock "target=${PID_OF[p]}"
    local before after ours
    before=$(cat "/proc/${PID_OF[p]}"/task/*/schedstat | awk '{ s += $1 } END { printf "%d", s }')
    ours=$(count a)
    tell p spin 100
    tell p spineach 50
    ours=$(($(count a) - ours))
    after=$(cat "/proc/${PID_OF[p]}"/task/*/schedstat | awk '{ s += $1 } END { printf "%d", s }')
    between "$ours" $(((after - before) * 95 / 100 - 5000000)) $(((after - before) * 105 / 100 + 5000000))
}

t_page_faults_of_children_are_those_of_proc() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults descendants=on "target=${PID_OF[p]}"
    tell p child 10
    local before start sum
    sum() {
        local line
        line=$(<"/proc/${PID_OF[p]}/stat")
        # shellcheck disable=SC2086 # word splitting is intended
        set -- ${line##*) }
        echo $((${8} + ${9} + ${10} + ${11}))
    }
    before=$(sum) start=$(count a)
    tell p children 20 100
    sum=$(($(sum) - before))
    # Page faults during a child's exit are accounted after its counter has been closed.
    between "$(($(count a) - start))" $((sum - 40)) $((sum + 40))
}

t_cf23_members_of_a_set_are_read_at_one_instant() {
    mount_pmcfs
    pmc a event=task-clock event=cpu-clock event=task-clock
    /usr/bin/python3 -c 'while True: pass' &
    attach a $!
    for _ in {1..20}; do
        mapfile -t v <"$M/a/count"
        between "$((v[0] > v[2] ? v[0] - v[2] : v[2] - v[0]))" 0 2000000 "the same clock twice"
    done
}
