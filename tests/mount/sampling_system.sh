# shellcheck shell=bash disable=SC2016
# Sampling of CPUs and cgroups: names and mappings of processes that started elsewhere.

# shellcheck source=tests/mount/sampling_lib.sh
. "${BASH_SOURCE[0]%/*}/sampling_lib.sh"

# hot_start_on CPU NAME: starts a hot.c that executes on that CPU, and may run on no other.
hot_start_on() {
    mkdir "$T/bin-$2"
    printf '#!/bin/sh\nexec taskset -c %s "%s" "$@"\n' "$1" "$HELPERS/hot" >"$T/bin-$2/hot"
    chmod 755 "$T/bin-$2/hot"
    HELPERS=$T/bin-$2 hot_start "$2" 300
}

# hottest NAME: the stack with most samples of hot.c.
hottest() { names "$M/$1" | grep -E '(^|;)hot' | sort -nk2 -t' ' | tail -n 1; }

t_a_program_that_executed_on_another_cpu_has_its_name() {
    (($(nproc) > 1)) || skip "one CPU only"
    mount_pmcfs
    pmc a event=cpu-clock freq=997 callchain=on kernel=off mode=system-sampling target=cpu0
    hot_start_on 1 p
    pinned p 0
    hot_run p
    ctl a stop
    log a
    between "$(of a samples "pid=${PID_OF[p]}")" 100 1000
    is "$(of a exec "pid=${PID_OF[p]}")" 3 "sh, taskset, hot"
    like "$(hottest a)" '^hot;(.*;)?main;hot_outer;hot_inner [0-9]+$'
    hot_end p
}

t_a_program_that_executed_outside_the_cgroup_has_its_name() {
    with_cgroup2
    group=$(mktemp -d "$CGROUP_ROOT/pmcfs-XXXXXX" 2>/dev/null) || skip "cgroups cannot be made here"
    # A cgroup outlives the namespaces of the test.
    trap '[[ ! ${PID_OF[p]:-} ]] || kill -KILL "${PID_OF[p]}" 2>/dev/null || :; until rmdir "$group"; do sleep 0.1; done' EXIT
    mount_pmcfs
    pmc a event=cpu-clock freq=997 callchain=on kernel=off mode=system-sampling "target=cgroup:${group#"$CGROUP_ROOT"}"
    hot_start p 300
    echo "${PID_OF[p]}" >"$group/cgroup.procs"
    hot_run p
    ctl a stop
    log a
    between "$(of a samples)" 100 1000
    is "$(of a samples "pid=${PID_OF[p]}")" "$(of a samples)" "samples of the cgroup"
    like "$(hottest a)" '^hot;(.*;)?main;hot_outer;hot_inner [0-9]+$'
    hot_end p
}

t_a_cgroup_is_sampled_again_when_it_is_created_again() {
    with_cgroup2
    group=$(mktemp -d "$CGROUP_ROOT/pmcfs-XXXXXX" 2>/dev/null) || skip "cgroups cannot be made here"
    trap 'kill -KILL "${PID_OF[@]}" 2>/dev/null || :; until rmdir "$group"; do sleep 0.1; done' EXIT
    rmdir "$group"
    mount_pmcfs
    pmc a event=cpu-clock freq=997 callchain=on kernel=off mode=system-sampling reattach=on \
        "target=cgroup:${group#"$CGROUP_ROOT"}"
    is "$(state a)" waiting
    local run
    for run in 1 2; do
        mkdir "$group"
        eventually 5 '[[ $(state a) == running ]]'
        hot_start "p$run" 300
        echo "${PID_OF[p$run]}" >"$group/cgroup.procs"
        hot_run "p$run"
        hot_end "p$run"
        ((run == 2)) || { rmdir "$group"; eventually 5 '[[ $(state a) == waiting ]]'; }
    done
    ctl a stop
    log a
    between "$(of a samples)" 200 2000
    between "$(of a samples "pid=${PID_OF[p2]}")" 100 1000 "samples of the second run"
    like "$(hottest a)" '^hot;(.*;)?main;hot_outer;hot_inner [0-9]+$'
    is "$(of a attach) $(of a detach)" '2 1'
}

t_forks_and_exits_on_other_cpus_are_logged_once() {
    (($(nproc) > 1)) || skip "one CPU only"
    mount_pmcfs
    pmc a event=cpu-clock event=page-faults freq=99 mode=system-sampling target=cpu0
    attach a cpu1
    taskset -c 1 sh -c 'echo $$ >"$1"; /bin/true & echo $! >>"$1"; wait' sh "$T/pids"
    ctl a stop
    log a
    { read -r parent && read -r child; } <"$T/pids"
    is "$(of a fork "child=$child")" 1 "births"
    is "$(of a exec "pid=$child")" 1 "programs"
    is "$(of a exit "pid=$child") $(of a exit "pid=$parent")" '1 1' "ends"
}

#@ slow
t_a_program_that_executed_while_a_cpu_was_not_sampled_has_its_name() {
    (($(nproc) > 1)) || skip "one CPU only"
    mount_pmcfs
    pmc a event=cpu-clock freq=997 callchain=on kernel=off mode=system-sampling target=cpu0
    ctl a stop
    hot_start_on 1 p
    ctl a start
    hot_start_on 1 q
    ctl a stop
    log a
    is "$(of a exec "pid=${PID_OF[p]}")/$(of a exec "pid=${PID_OF[q]}")" 0/3
    ctl a start
    pinned p 0
    pinned q 0
    hot_run p
    hot_run q
    ctl a stop
    log a
    for name in q p; do
        between "$(of a samples "pid=${PID_OF[$name]}")" 100 1000
        hot_end $name
    done
    is "$(grep -E 'hot_inner [0-9]+$' <(names "$M/a") | grep -cvE '^hot;')" 0 "without a name"
}

# The last switch of a process comes after its EXIT record. A tracepoint: samples of context-switches have PIDs of another PID
# namespace while a test there samples them too. Alone, because the switches of a busy host can overflow the ring buffer.
#@ alone
t_the_last_sample_of_a_process_has_its_name() {
    with_tracefs
    mount_pmcfs
    cp /bin/true "$T/leaver"
    pmc a event=sched:sched_switch period=1 mode=system-sampling target=cpu0
    # on one CPU, whose records are in order however busy the others are
    taskset -c 0 sh -c 'for i in 1 2 3; do for j in 0 1 2 3 4 5 6 7 8 9; do "$1"; done; done; :' - "$T/leaver"
    ctl a stop
    log a
    local pids
    pids=$(awk -v path="path=$T/leaver" '$2 == "exec" && $4 == path { sub("pid=", "", $3); print $3 }' "$T/a.log" | xargs)
    is "$(wc -w <<<"$pids")" 30 "programs"
    is "$(grep -E "^:($(tr ' ' '|' <<<"$pids"));" "$M/a/samples.folded" || :)" '' "samples without a name"
    between "$(awk -F ';' '$1 == "leaver" { sub(/.* /, "", $NF); n += $NF } END { print n + 0 }' "$M/a/samples.folded")" 1 3000 "samples of leaver"
}

#@ slow alone
t_processes_that_exit_at_the_start_have_names() {
    with_tracefs
    mount_pmcfs
    cp /bin/true "$T/brief"
    taskset -c 0 sh -c 'while :; do "$1"; done' - "$T/brief" &
    pmc a event=sched:sched_switch period=1 mode=system-sampling target=cpu0 autostart=off
    for _ in {1..20}; do
        ctl a restart
        ctl a stop
        sed -n '/^:[1-9]/p' "$M/a/samples.folded" >>"$T/unnamed"
    done
    kill $!
    empty cat "$T/unnamed"
}
