# shellcheck shell=bash disable=SC2016,SC2154
# The times of a counter, for each kind of target, compared with the clock.

# shellcheck source=tests/mount/rights_lib.sh
. "${BASH_SOURCE[0]%/*}/rights_lib.sh"

CPUS=$(getconf _NPROCESSORS_ONLN)

now_ns() { echo "${EPOCHREALTIME/[.,]/}000"; }

# hogs N [COMMAND…]: N busy processes, in HOGS, which COMMAND executes.
hogs() {
    HOGS=()
    for ((i = 0; i < $1; i++)); do
        "${@:2}" sh -c 'while :; do :; done' &
        HOGS+=($!)
    done
}
in_group() { exec sh -c 'echo $$ >"$1"; shift; exec "$@"' sh "$GROUP/cgroup.procs" "$@"; }

# times_are_right TARGET EVENT CPUS: EVENT counts the nanoseconds of the target. The PMC is started three times; at each
# check its times are at most the time of CPUS CPUs, and match the count of EVENT.
times_are_right() {
    local start on=0 kept=0
    mkdir "$M/t"
    accepted "$M/t/config" "event=$2 autostart=off target=$1 ${4:-}"
    is "$(status t enabled_ns)" 0 "$1: enabled_ns before the first start"
    for round in 1 2 3; do
        start=$(now_ns)
        ctl t start
        eventually 20 '(($(status t enabled_ns) > kept))' # it has had a CPU
        between "$(status t enabled_ns)" "$kept" $((kept + $3 * ($(now_ns) - start))) "$1, start $round: enabled_ns"
        sleep 0.1
        ctl t stop
        on=$((on + $(now_ns) - start))
        kept=$(status t enabled_ns)
        between "$kept" 0 $(($3 * on)) "$1, stop $round: enabled_ns"
        between "$kept" $(($(count t) * 9 / 10 - 5000000)) $(($(count t) * 11 / 10 + 5000000)) "$1, stop $round: enabled_ns"
        is "$(status t running_ns)" "$kept" "$1, stop $round: running_ns"
        is "$(status t gap_ns)" 0 "$1, stop $round: gap_ns"
        sleep 0.1
        is "$(status t enabled_ns)" "$kept" "$1, stopped: enabled_ns"
        is "$(status t running_ns)" "$kept" "$1, stopped: running_ns"
    done
    ((kept > 0)) || die "$1: it never ran"
    rmdir "$M/t"
}

#@ slow
t_times_of_processes_and_threads_match_their_counts() {
    mount_pmcfs
    hogs 1
    times_are_right "${HOGS[0]}" task-clock 1
    times_are_right "tid:${HOGS[0]}" task-clock 1
    bash -c 'while :; do :; done & while :; do :; done' &
    times_are_right $! task-clock "$CPUS" descendants=on
    kill "${HOGS[@]}" $!
}

#@ slow
t_times_of_cpus_match_their_counts() {
    mount_pmcfs
    times_are_right cpu0 cpu-clock 1
    times_are_right all cpu-clock "$CPUS"
}

#@ slow
t_times_of_a_busy_cgroup_match_its_count() {
    mount_pmcfs
    cgroup_make
    hogs "$CPUS" in_group
    eventually 10 '(($(wc -l <"$GROUP/cgroup.procs") == CPUS))'
    for _ in 1 2 3; do
        times_are_right "cgroup:$GROUP_NAME" task-clock "$CPUS"
    done
    times_are_right cgroup:/ task-clock "$CPUS"
    kill "${HOGS[@]}"
}

#@ slow
t_a_cgroup_that_is_idle_at_the_start_has_no_time() {
    mount_pmcfs
    cgroup_make
    hogs 1 in_group
    eventually 10 '[[ $(<"$GROUP/cgroup.procs") ]]'
    kill -STOP "${HOGS[0]}"
    eventually 10 'grep -q "^State:.T" "/proc/${HOGS[0]}/status"'
    pmc a event=task-clock "target=cgroup:$GROUP_NAME"
    sleep 0.2
    is "$(status a enabled_ns)" 0
    local start
    start=$(now_ns)
    kill -CONT "${HOGS[0]}"
    eventually 20 '(($(status a enabled_ns) > 0))'
    between "$(status a enabled_ns)" 1 $(($(now_ns) - start))
    ctl a stop
    is "$(status a running_ns)" "$(status a enabled_ns)"
}

#@ slow
t_cpus_used_of_a_busy_cgroup_is_at_most_the_cpus() {
    mount_pmcfs
    cgroup_make
    hogs "$CPUS" in_group
    eventually 10 '(($(wc -l <"$GROUP/cgroup.procs") == CPUS))'
    pmc a event=task-clock "target=cgroup:$GROUP_NAME"
    eventually 20 '(($(count a) > 100000000))'
    ctl a stop
    between "$(awk '$1 == "cpus-used" { print int($2 * 1000) }' "$M/a/metrics")" 1 $((CPUS * 1000))
}
