# shellcheck shell=bash disable=SC2016
# Records of context switches (steps) and of exits, log-csw and log-exit: both add up to the count.

# sum FILE TYPE [KEY=VALUE]: the counts of all records of a type (with this field).
sum() {
    awk -v type="$2" -v only="${3:-}" '
        $2 == type && (only == "" || index($0 " ", " " only " ")) {
            for (i = 3; i <= NF; i++)
                if ($i ~ /^count=/)
                    sum += substr($i, 7)
        }
        END { print sum + 0 }' "$1"
}

# lines FILE TYPE [KEY=VALUE]: the number of records of a type (with this field).
lines() {
    awk -v type="$2" -v only="${3:-}" '
        $2 == type && (only == "" || index($0 " ", " " only " ")) { n++ } END { print n + 0 }' "$1"
}

# sampled NAME: reads the complete log after it has ended.
sampled() {
    timeout 60 cat "$M/$1/samples" >"$T/$1.log" || die "samples does not end"
}

# adds_up NAME: switch and exit records add up to the count, and no record was lost.
adds_up() {
    sampled "$1"
    is "$(status "$1" kernel_lost)" 0 "records lost"
    is "$(sum "$T/$1.log" csw)" "$(count "$1")" "sum of steps"
    is "$(sum "$T/$1.log" exit)" "$(count "$1")" "sum of exits"
}

# exact_ones NAME N: the log has N exact exits; a reload makes exits inexact.
exact_ones() {
    [[ $VARIANT == asan ]] || is "$(lines "$T/$1.log" exit exact=yes)" "$2" "exact ones"
}

# run NAME COMMAND…: runs the command as the target of a PMC with start=exec.
run() {
    M=$M sh -c 'echo self >"$M/$0/target" && exec "$@"' "$@"
}

# The kernel reports the last values of a thread at its exit (exactly since Linux 6.16).
exits_are_exact() {
    python3 -c 'import os, sys; sys.exit(tuple(map(int, os.uname().release.split(".")[:2])) < (6, 16))'
}

t_steps_and_exits_of_a_hundred_short_children_add_up_exactly() {
    exits_are_exact || skip "the kernel does not report last values"
    with_tracefs
    mount_pmcfs
    pmc a event=page-faults start=exec descendants=on log-csw=on log-exit=on
    run a sh -c 'for i in $(seq 100); do sh -c "exit 0"; done'
    eventually 10 '[[ $(state a) == exited ]]'
    adds_up a
    between "$(lines "$T/a.log" exit)" 101 103 "processes"
    [[ $VARIANT == asan ]] || is "$(lines "$T/a.log" exit exact=no) $(lines "$T/a.log" exit pid=-)" '0 0' "not exact, rests"
    between "$(lines "$T/a.log" csw last=yes)" 101 103 "last steps"
}

t_children_at_once_add_up_exactly() {
    exits_are_exact || skip "the kernel does not report last values"
    with_tracefs
    mount_pmcfs
    pmc a event=page-faults event=context-switches start=exec descendants=on log-exit=on
    run a sh -c 'for i in $(seq 40); do sh -c "true & true & wait" & done; wait'
    eventually 10 '[[ $(state a) == exited ]]'
    sampled a
    [[ $VARIANT == asan ]] || is "$(lines "$T/a.log" exit exact=no)" 0 "exits that are not exact" # a reload came between
    mapfile -t counts <"$M/a/count"
    is "$(awk '$2 == "exit" { sub(/.*count=/, ""); split($1, v, ","); a += v[1]; b += v[2] }
        END { print a, b }' "$T/a.log")" "${counts[*]}" "sums of both events"
}

t_threads_add_up_and_each_has_its_steps() {
    exits_are_exact || skip "the kernel does not report last values"
    with_tracefs
    mount_pmcfs
    target_start p
    tell p threads 4
    pmc a event=page-faults log-csw=on log-exit=on "target=${PID_OF[p]}"
    tell p each 100
    tell p threads 4
    tell p each 50
    tell p end 4
    target_end p
    eventually 10 '[[ $(state a) == exited ]]'
    adds_up a
    is "$(lines "$T/a.log" exit "pid=${PID_OF[p]}")" 1 "processes"
    exact_ones a 1
    is "$(awk '$2 == "csw" && $4 != "tid=-" { print $4 }' "$T/a.log" | sort -u | wc -l)" 9 "threads"
}

t_a_thread_that_executes_and_becomes_the_first_is_counted_once() {
    exits_are_exact || skip "the kernel does not report last values"
    with_tracefs
    mount_pmcfs
    pmc a event=page-faults start=exec descendants=on log-csw=on log-exit=on
    run a /usr/bin/python3 -c '
import os, threading, time
def other():
    time.sleep(0.01); bytearray(1 << 20); time.sleep(0.01)
    os.execv("/bin/sh", ["sh", "-c", ":"])
threading.Thread(target=other).start()
time.sleep(100)'
    eventually 10 '[[ $(state a) == exited ]]'
    adds_up a
    is "$(grep -c ' exit pid=[0-9]' "$T/a.log")" 1 "processes"
    exact_ones a 1
}

t_a_killed_process_is_exact_too() {
    exits_are_exact || skip "the kernel does not report last values"
    with_tracefs
    mount_pmcfs
    target_start p
    tell p threads 6
    pmc a event=page-faults log-csw=on log-exit=on "target=${PID_OF[p]}"
    tell p each 30
    kill -KILL "${PID_OF[p]}"
    eventually 10 '[[ $(state a) == exited ]]'
    adds_up a
    exact_ones a 1
}

t_exits_add_up_for_processes_that_exit_while_stopped() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults descendants=on log-csw=on log-exit=on "target=${PID_OF[p]}"
    tell p faults 500
    ctl a stop
    target_end p
    eventually 10 '[[ $(state a) == exited ]]'
    adds_up a
    target_start q
    pmc b event=page-faults log-exit=on "target=${PID_OF[q]}"
    tell q faults 500
    ctl b stop
    exec {held}<"$M/b/samples"
    local counted
    counted=$(count b)
    rmdir "$M/b"
    timeout 40 cat <&$held >"$T/b.log"
    is "$(sum "$T/b.log" exit)" "$counted" "sum of exits of a released PMC"
}

t_switch_records_restart_with_the_count() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults log-csw=on log-exit=on "target=${PID_OF[p]}"
    tell p faults 500
    ctl a stop
    ctl a reset
    local before
    before=$(timeout 40 cat "$M/a/samples" | sum /dev/stdin csw)
    ctl a start
    tell p faults 60
    target_end p
    eventually 10 '[[ $(state a) == exited ]]'
    sampled a
    is "$(($(sum "$T/a.log" csw) - before))" "$(count a)" "sum of steps since"
    is "$(sum "$T/a.log" exit)" "$(count a)" "sum of exits since"
    between "$(count a)" 60 200
}

# Each CPU has separate groups: a process that exits on one CPU adds less time to the groups of the others.
t_times_are_complete_after_children_on_every_cpu() {
    with_tracefs
    mount_pmcfs
    local key value enabled running estimate
    for key in log-csw log-exit; do
        pmc $key event=task-clock event=page-faults start=exec descendants=on $key=on
        run $key sh -c 'for cpu in $(seq 0 $(($(nproc) - 1))); do
            taskset -c "$cpu" sh -c "i=0; while [ \$i -lt 20000 ]; do i=\$((i + 1)); done"; done'
        eventually 10 "[[ \$(state $key) == exited ]]"
        read -r value enabled running estimate < <(awk -F'\t' \
            '$1 == "task-clock" && $2 == "all" { print $3, $4, $5, $6 }' "$M/$key/detail")
        is "$enabled $estimate" "$running $value" "$key: enabled_ns and estimate"
        is "$(status $key covered_ns)" "$running" "$key: covered_ns"
        is "$(awk -F'\t' '$1 == "page-faults" && $2 == "all" { print $3 - $6 }' "$M/$key/detail")" 0 "faults"
    done
}

t_the_remainder_at_a_detach_is_logged() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults log-csw=on log-exit=on "target=${PID_OF[p]}"
    tell p faults 500
    ctl a detach
    adds_up a
    is "$(lines "$T/a.log" exit exact=yes)" 0 "processes that ended"
}

t_a_process_that_is_attached_again_starts_at_zero() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults log-csw=on log-exit=on "target=${PID_OF[p]}"
    tell p faults 300
    ctl a detach
    attach a "${PID_OF[p]}"
    tell p faults 20
    target_end p
    eventually 10 '[[ $(state a) == exited ]]'
    adds_up a
}

t_exits_of_a_clock_event_add_up_and_are_not_exact() {
    mount_pmcfs
    pmc a event=task-clock start=exec descendants=on log-csw=on log-exit=on
    run a sh -c 'for i in 1 2 3; do sh -c "exit 0"; done'
    eventually 10 '[[ $(state a) == exited ]]'
    adds_up a
    is "$(lines "$T/a.log" exit exact=yes)" 0 "exact ones"
}

t_children_of_a_target_without_descendants_have_no_exit() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults log-csw=on log-exit=on "target=${PID_OF[p]}"
    tell p children 10 50
    target_end p
    eventually 10 '[[ $(state a) == exited ]]'
    adds_up a
    is "$(awk '$2 == "exit" && $3 != "pid=-"' "$T/a.log" | wc -l)" 1 "processes that ended"
}
