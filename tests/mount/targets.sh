# shellcheck shell=bash disable=SC2016,SC2094,SC2012,SC2034
# Targets: processes, threads, CPUs and cgroups.

t_a_running_process_with_all_its_threads() {
    mount_pmcfs
    target_start p
    tell p threads 8
    pmc a event=page-faults "target=${PID_OF[p]}"
    local start
    start=$(count a)
    tell p each 100
    between "$(($(count a) - start))" 800 900
    tell p threads 8
    tell p each 100
    tell p end 4
    between "$(($(count a) - start))" 2400 3200
    is "$(status a attach)" exact
}

t_a_threads_number_stands_for_its_process() {
    mount_pmcfs
    target_start p
    tell p threads 2
    local tid
    tid=$(ls "/proc/${PID_OF[p]}/task" | tail -1)
    pmc a event=page-faults "target=$tid"
    is "$(cat "$M/a/target")" "${PID_OF[p]}"
    tell p faults 100
    between "$(count a)" 100 300
}

t_self_is_the_writing_process() {
    mount_pmcfs
    pmc a event=page-faults
    bash -c "echo self >$M/a/target; grep -qx \$\$ $M/a/target; : {1..10000}"
    between "$(count a)" 1 1000000
    eventually 5 '[[ $(state a) == exited ]]'
}

t_c10_c14_cf17_cf18_one_thread_only() {
    mount_pmcfs
    target_start p
    tell p threads 2
    pmc a event=page-faults "target=tid:${PID_OF[p]}"
    is "$(cat "$M/a/target")" "tid:${PID_OF[p]}"
    tell p each 1000
    between "$(count a)" 0 100
    tell p faults 100
    between "$(count a)" 100 300
    tell p threads 1
    local before
    before=$(count a)
    tell p each 500
    between "$(($(count a) - before))" 0 100
}

t_tid_self_is_the_writing_thread() {
    mount_pmcfs
    pmc a event=page-faults
    bash -c "echo tid:self >$M/a/target; grep -qx tid:\$\$ $M/a/target"
}

t_all_exited_processes_of_a_command_are_named_in_error() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults
    accepted "$M/a/target" "$(echo {4194001..4194020} "${PID_OF[p]}" {4194021..4194040})"
    is "$(cat "$M/a/target")" "${PID_OF[p]}"
    for dead in {4194001..4194040}; do
        like "$(cat "$M/a/error")" "^ESRCH E44 target: .*$dead"
    done
    unlike "$(cat "$M/a/error")" "[ :]${PID_OF[p]}( |\$)"
    refused ESRCH E44 "$M/a/target" "$(echo {4194001..4194040})"
    like "$(cat "$M/a/error")" '4194001.*4194040$'
}

t_any_other_reason_refuses_the_complete_command() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults
    unchanged "$M/a" 'refused EINVAL E26 "$M/a/target" "${PID_OF[p]} cpu0"'
    unchanged "$M/a" 'refused EINVAL E27 "$M/a/target" "${PID_OF[p]} 0"'
    unchanged "$M/a" 'refused EINVAL E27 "$M/a/target" "${PID_OF[p]} 12x"'
    empty cat "$M/a/target"
}

t_cf20_the_events_of_a_detached_target_stay_in_the_count() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    tell p faults 100
    attach a "-${PID_OF[p]}"
    local before
    before=$(count a)
    between "$before" 100 300
    tell p faults 100
    is "$(count a)" "$before"
    attach a "${PID_OF[p]}"
    tell p faults 100
    between "$(count a)" $((before + 100)) $((before + 190))
}

t_cf19_cpus_and_all() {
    mount_pmcfs
    pmc a event=task-clock target=cpu0
    pmc b event=context-switches target=all
    is "$(cat "$M/a/target")" cpu0
    eventually 5 '(($(count a) > 0 && $(count b) > 0))'
    is "$(grep -c cpu: "$M/b/detail")" "$(nproc --all)"
    refused EINVAL E21 "$M/a/target" cpu99999999
    refused EEXIST E10 "$M/a/target" cpu0
}

t_a_cgroup_with_those_below_it() {
    with_cgroup2
    mount_pmcfs
    path=/pmcfs-test-$RANDOM$RANDOM
    mkdir "$CGROUP_ROOT$path" 2>/dev/null || skip "cgroups cannot be made here"
    mkdir "$CGROUP_ROOT$path/below"
    # A cgroup outlives the namespaces of the test.
    trap 'echo "${PID_OF[p]}" >"$CGROUP_ROOT/cgroup.procs"; rmdir "$CGROUP_ROOT$path"/below "$CGROUP_ROOT$path"' EXIT
    target_start p
    echo "${PID_OF[p]}" >"$CGROUP_ROOT$path/below/cgroup.procs"
    pmc a event=page-faults "target=cgroup:$path"
    is "$(cat "$M/a/target")" "cgroup:$path"
    is "$(cat "$M/a/mode")" system-counting
    tell p faults 1000
    between "$(count a)" 1000 2000
    refused ENOENT P33 "$M/a/target" cgroup:/pmcfs-no-such
    refused EINVAL E27 "$M/a/target" 'cgroup:../..'
    refused ENOENT P33 "$M/a/target" 'cgroup:/pmcfs\\040no\\012such'
    like "$(cat "$M/a/error")" 'cgroup "/pmcfs no\\012such":'
}

t_a_cgroup_given_by_its_directory_is_refused_with_its_path() {
    with_cgroup2
    mount_pmcfs
    pmc a event=page-faults
    refused ENOENT P33 "$M/a/target" "cgroup:$CGROUP_ROOT/pmcfs-no-such/x"
    like "$(cat "$M/a/error")" 'leave out the mount point and write cgroup:/pmcfs-no-such/x$'
    refused ENOENT P33 "$M/a/target" cgroup:/sys/fs/cgroup
    like "$(cat "$M/a/error")" 'write cgroup:/$'
    refused EINVAL E27 "$M/a/target" cgroup:pmcfs-no-such
    like "$(cat "$M/a/error")" 'write cgroup:/PATH'
}

t_pmcfs_itself_is_refused() {
    mount_pmcfs
    pmc a event=page-faults
    refused EPERM P16 "$M/a/target" "$DAEMON"
    refused EPERM P16 "$M/a/target" "tid:$(ls "/proc/$SERVER/task" | tail -1)"
}

t_pmcfs_is_left_out_below_the_superusers_target() {
    mkdir "$T/below"
    dash -c '"$@" & wait' dash "$BIN" -f "$T/below" >>"$T/daemon" 2>&1 &
    local parent=$!
    M=$T/below
    eventually 20 '[[ -e $M/info/version ]]'
    pmc a event=context-switches descendants=on "target=$parent"
    is "$(status a left_out)" 2
    for _ in {1..200}; do cat "$M/info/version" >"$T/version"; done
    between "$(count a)" 0 20 'switches of a program that only waits'
    umount "$M"
    wait "$parent"
}

t_v04_the_count_stays_after_death() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    tell p faults 100
    target_end p
    eventually 5 '[[ $(state a) == exited ]]'
    between "$(count a)" 100 1000
    empty cat "$M/a/target"
    refused ESRCH E45 "$M/a/target" "-${PID_OF[p]}"
    target_start q
    attach a "${PID_OF[q]}"
    is "$(state a)" running 'attaching starts what is exited'
}

t_a_reused_number_is_another_process() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    target_end p
    local before
    before=$(count a)
    mkfifo "$T/q.in" "$T/q.out"
    for _ in {1..50}; do
        echo $((PID_OF[p] - 1)) >/proc/sys/kernel/ns_last_pid
        "$HELPERS/target" <"$T/q.in" >"$T/q.out" &
        [[ $! != "${PID_OF[p]}" ]] || break
        kill -9 $!
    done
    [[ $! == "${PID_OF[p]}" ]] || skip "the number could not be had again"
    exec {in}>"$T/q.in" {out}<"$T/q.out"
    IN[q]=$in OUT[q]=$out PID_OF[q]=$!
    read -r -u "$out" _
    tell q faults 1000
    is "$(count a)" "$before"
    empty cat "$M/a/target"
    attach a "${PID_OF[q]}"
    tell q faults 100
    between "$(count a)" $((before + 100)) $((before + 900))
}

t_cx1_start_at_exec_counts_from_the_first_instruction() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults start=exec "target=${PID_OF[p]}"
    is "$(state a)" armed
    tell p faults 1000
    is "$(count a)" 0
    tell p exec
    eventually 5 '[[ $(state a) == running ]]'
    tell p faults 100
    between "$(count a)" 100 900
}

t_a_stop_disarms_what_waits_for_an_exec() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults start=exec "target=${PID_OF[p]}"
    ctl a stop
    tell p exec
    tell p faults 100
    is "$(state a) $(count a)" 'stopped 0'
    ctl a start
    tell p faults 100
    is "$(state a) $(count a)" 'armed 0'
    tell p exec
    tell p faults 100
    between "$(count a)" 100 900
    is "$(state a)" running
}

t_a_pmc_that_was_stopped_after_the_exec_counts_at_once() {
    mount_pmcfs
    target_start p
    local before
    pmc a event=page-faults start=exec "target=${PID_OF[p]}"
    tell p exec
    tell p faults 100
    is "$(state a)" running
    ctl a stop
    before=$(count a)
    ctl a start
    tell p faults 100
    between "$(count a)" $((before + 100)) $((before + 900))
    is "$(state a)" running
}

t_a_start_waits_for_an_exec_if_a_target_was_attached_before() {
    mount_pmcfs
    target_start p
    target_start q
    local before
    pmc a event=page-faults start=exec "target=${PID_OF[p]}"
    tell p exec
    tell p faults 100
    ctl a stop
    before=$(count a)
    attach a "${PID_OF[q]}"
    ctl a start
    tell p faults 100
    tell q faults 100
    is "$(state a) $(count a)" "armed $before"
    tell p exec
    tell p faults 100
    is "$(state a)" running
}

t_c19_counting_continues_after_the_exec_of_an_ordinary_program() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    tell p exec
    tell p faults 100
    between "$(count a)" 100 1000
    is "$(state a)" running
}

t_no_thread_is_counted_twice() {
    mount_pmcfs
    target_start p
    tell p stay 10
    pmc a event=page-faults descendants=on
    local child
    child=$(cat "/proc/${PID_OF[p]}/task/${PID_OF[p]}/children")
    attach a "${PID_OF[p]}"
    like "$(result write "$M/a/target" "$child")" '^(ok|EEXIST)$'
    local before
    before=$(count a)
    tell p faults 1000
    tell p bear
    between "$(($(count a) - before))" 1010 1500
}

t_a_writer_that_pmcfs_cannot_see_is_refused() {
    local dir=$T/shared/inner
    # The daemon in a PID namespace below ours; its mount, but not its /proc, comes back to us.
    mkdir "$T/shared"
    mount -t tmpfs tmpfs "$T/shared"
    mount --make-shared "$T/shared"
    mkdir "$dir"
    unshare --pid --fork --kill-child --mount --propagation unchanged sh -c \
        "mount -t proc proc /proc && exec $BIN -f $dir" >>"$T/daemon" 2>&1 &
    eventually 10 "[[ -e $dir/info/version ]]"
    mkdir "$dir/a"
    accepted "$dir/a/event" page-faults
    refused EPERM P15 "$dir/a/target" $$
    refused EPERM P15 "$dir/a/target" self
}

t_a_number_is_one_of_the_writers_namespace() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults
    # In there, 1 is the shell itself, and our own numbers mean nothing.
    unshare --pid --fork --mount-proc sh -c "
        echo ${PID_OF[p]} >$M/a/target 2>/dev/null && exit 1
        echo 1 >$M/a/target && cat $M/a/target >$T/inside && cat $M/a/count >/dev/null"
    is "$(cat "$T/inside")" 1
}

t_a_refusal_names_a_process_by_the_writers_number() {
    mount_pmcfs -o max_covered_per_pmc=1
    pmc a event=page-faults descendants=on
    unshare --pid --fork --kill-child --mount-proc bash -c "
        sleep 60 & sleep 60 &
        for word in \$\$ self; do
            echo \$word >$M/a/target && exit 1
            cat $M/a/error
        done" >"$T/inside" 2>"$T/printed"
    is "$(grep -c 'process 1 has more than 1 descendants' "$T/inside")" 2
}

t_attaching_to_a_program_that_creates_threads_is_exact_or_marked() {
    mount_pmcfs
    /usr/bin/python3 -c '
import threading
while True:
    t = threading.Thread(target=lambda: None); t.start(); t.join()' &
    pmc a event=context-switches "target=$!"
    like "$(status a attach)" '^(exact|raced)$'
    eventually 5 '(($(count a) > 0))'
}

t_all_replaces_cpus_by_name() {
    mount_sim sim_cpus=2,sim_rows=4
    pmc a event=cpu-clock target=cpu0
    attach a all
    is "$(cat "$M/a/target") $(state a)" "all running"
    refused EEXIST E10 "$M/a/target" cpu0
    refused EINVAL E28 "$M/a/target" -cpu0
    attach a -all
    is "$(state a)" exited
}

t_the_other_threads_of_a_descendants_thread_are_reported_as_left_out() {
    mount_pmcfs
    target_start p
    tell p stay 10
    local parent=${PID_OF[p]} child
    child=$(cat "/proc/$parent/task/$parent/children")
    pmc a event=page-faults descendants=on "target=tid:${child% }"
    is "$(status a left_out)" 0
    attach a "$parent"
    is "$(status a left_out)" 1
    pmc b event=page-faults descendants=on "target=${child% }" "target=$parent"
    is "$(status b left_out)" 0
}

t_a_cgroup_is_written_as_it_reads_back() {
    with_cgroup2
    GROUP=$(mktemp -d "$CGROUP_ROOT/pmcfs=test.XXXXXX") || skip "cgroups cannot be made here"
    trap 'rmdir "$GROUP"' EXIT
    mount_pmcfs
    pmc a event=context-switches
    accepted "$M/a/target" "cgroup:/${GROUP##*/}"
    like "$(cat "$M/a/target")" '^cgroup:/pmcfs\\075test'
    cat "$M/a/config" >"$T/config"
    pmc b
    cat "$T/config" >"$M/b/config"
    is "$(cat "$M/b/target")" "$(cat "$M/a/target")"
    sed 's/^/-/' "$M/a/target" >"$T/back"
    cat "$T/back" >"$M/a/target"
    empty cat "$M/a/target"
    unmount_pmcfs "$M"
}
