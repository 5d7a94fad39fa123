# shellcheck shell=bash
# shellcheck disable=SC2016
# filter=: tracepoints are counted and sampled only if their fields match the expression.

# runs NAME: twenty times true and ten times test(1), as children of a shell that attaches itself to NAME.
runs() {
    bash -c 'echo self >"$1/target" || exit 1
        exec bash -c "for i in {1..20}; do /bin/true; done; for i in {1..10}; do /usr/bin/test 1; done; :"' - "$M/$1"
    eventually 10 '[[ $(state '"$1"') == exited ]]'
}

# called NAME COMM: starts target.c under a name that no other process has. Filters compare the kernel's PIDs, which
# are others than those of this namespace, so tests filter by name.
called() {
    cp "$HELPERS/target" "$T/$2"
    talker_start "$1" "$T/$2"
    PID_OF[$1]=${GREETING#ready }
}

# executes NAME [SETTINGS…]: creates a PMC for the execs of a process and its children
executes() {
    pmc "$1" event=sched:sched_process_exec start=exec descendants=on "${@:2}"
}

t_only_events_that_match_the_filter_are_counted() {
    with_tracefs
    mount_pmcfs
    target_start p
    pmc all event=sched:sched_switch "target=${PID_OF[p]}"
    pmc waits event=sched:sched_switch 'filter=prev_state!=0' "target=${PID_OF[p]}"
    pmc yields event=sched:sched_switch 'filter=prev_state==0' "target=${PID_OF[p]}"
    pmc none event=sched:sched_switch 'filter=prev_pid==0&&next_pid==0' "target=${PID_OF[p]}"
    tell p sleep 20
    tell p spin 50
    target_end p # all counters stop at the same moment
    for name in all waits yields none; do eventually 10 "[[ \$(state $name) == exited ]]"; done
    between "$(count waits)" 20 10000 "waits"
    is "$(count all)" "$(($(count waits) + $(count yields)))" "both together"
    is "$(count none)" 0
}

# The first exec is that of the shell.
t_children_that_inherit_are_filtered_too() {
    with_tracefs
    mount_pmcfs
    executes all
    executes true 'filter=filename=="/bin/true"'
    executes tests 'filter=filename~"*/te?t"'
    runs all
    runs true
    runs tests
    is "$(count all) $(count true) $(count tests)" '31 20 10'
}

t_samples_and_exits_are_of_events_that_match_the_filter() {
    with_tracefs
    mount_pmcfs
    executes samples period=1 'filter=filename=="/bin/true"'
    executes exits log-exit=on 'filter=filename=="/bin/true"'
    runs samples
    runs exits
    is "$(count samples)" 20
    is "$(grep -c ' sample ' "$M/samples/samples")" 20
    is "$(awk '$2 == "exit" { for (i = 3; i <= NF; i++) if (sub(/^count=/, "", $i)) n += $i } END { print n }' \
        "$M/exits/samples")" 20 "of all exits"
}

t_a_filter_applies_after_stops_and_to_new_targets_and_can_be_changed() {
    with_tracefs
    mount_pmcfs
    local q=q$RANDOM$RANDOM
    target_start p
    called q "$q"
    pmc a event=sched:sched_switch 'filter=prev_pid==1' "target=${PID_OF[p]}"
    tell p sleep 10
    is "$(count a)" 0
    ctl a stop
    ctl a start
    attach a "${PID_OF[q]}"
    tell p sleep 10
    tell q sleep 10
    is "$(count a)" 0
    refused EBUSY P06 "$M/a/config" filter=off
    ctl a stop
    accepted "$M/a/config" "filter=prev_comm==\"$q\""
    ctl a start
    tell p sleep 10
    is "$(count a)" 0
    tell q sleep 10
    between "$(count a)" 10 1000
    ctl a stop
    accepted "$M/a/config" filter=off
    is "$(setting a filter)" off
}

t_a_cpus_tracepoint_is_filtered() {
    with_tracefs
    mount_pmcfs
    local p=p$RANDOM$RANDOM
    called p "$p"
    pmc a event=sched:sched_switch "filter=prev_comm==\"$p\"" target=all
    pmc b event=sched:sched_switch "target=${PID_OF[p]}"
    tell p sleep 30
    ctl b stop
    ctl a stop
    between "$(count a)" 30 10000
    between "$(count a)" "$(($(count b) - 1))" "$(($(count b) + 5))" "those of the process"
}

t_every_tracepoint_of_a_set_must_have_the_fields() {
    with_tracefs
    mount_pmcfs
    target_start p
    mkdir "$M/a"
    refused EINVAL P02 "$M/a/config" 'event=sched:sched_switch,sched:sched_process_exec filter=prev_pid==1'
    like "$(cat "$M/a/error")" 'for "sched:sched_process_exec": its fields are filename, pid, old_pid; '
    accepted "$M/a/config" 'event=sched:sched_switch,page-faults filter=prev_pid==1'
    attach a "${PID_OF[p]}"
    tell p faults 20
    tell p sleep 10
    is "$(sed -n 1p "$M/a/count")" 0
    between "$(sed -n 2p "$M/a/count")" 20 1000 "page faults, which have no fields"
}

t_a_filter_that_the_kernel_refuses_is_refused_with_the_fields() {
    with_tracefs
    mount_pmcfs
    mkdir "$M/a"
    refused EINVAL P02 "$M/a/config" 'event=sched:sched_switch filter=nextpid>10'
    like "$(cat "$M/a/error")" 'its fields are prev_comm, prev_pid, .*for blanks'
    refused EINVAL P02 "$M/a/config" 'event=sched:sched_switch filter=prev_pid=='
    refused EINVAL P01 "$M/a/config" 'event=sched:sched_switch filter=prev_pid == 1'
    refused EINVAL P02 "$M/a/config" 'event=page-faults filter=prev_pid==1'
    for filter in '(prev_pid==1' 'prev_pid==1)' 'prev_comm=="x'; do # not always by EINVAL
        refused EINVAL P02 "$M/a/config" "event=sched:sched_switch filter=$filter"
    done
    refused EINVAL P02 "$M/a/config" "filter=$(printf 'x%.0s' {1..1001})"
    like "$(cat "$M/a/error")" '1001 bytes, and at most 1000 are possible'
    empty cat "$M/a/event"
    # Written first it is looked at with the event.
    accepted "$M/a/config" 'filter=prev_pid==1'
    refused EINVAL P02 "$M/a/event" page-faults
    accepted "$M/a/event" sched:sched_switch
}

t_blanks_are_written_and_read_as_octal_numbers() {
    with_tracefs
    mount_pmcfs
    called p 'a b'
    pmc a 'event=sched:sched_switch' 'filter=prev_comm=="a\\040b"||prev_pid==1' "target=${PID_OF[p]}"
    is "$(setting a filter)" 'prev_comm=="a\040b"||prev_pid==1'
    mkdir "$M/b"
    cp "$M/a/config" "$M/b/config"
    is "$(setting b filter)" 'prev_comm=="a\040b"||prev_pid==1'
    tell p sleep 10
    between "$(count b)" 10 1000 "switches of \"a b\""
}

t_the_simulated_machine_has_no_filters() {
    mount_sim
    mkdir "$M/a"
    refused EOPNOTSUPP P09 "$M/a/config" 'event=cycles filter=x==1'
}
