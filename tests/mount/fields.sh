# shellcheck shell=bash
# raw=on: perf script and samples print the fields of tracepoints; for the superuser only.

perf_script() {
    HOME=$T timeout 60 perf script -i - "$@" 2>"$T/printed" || die "perf script: $(cat "$T/printed")"
    unlike "$(cat "$T/printed")" 'rror|ailed|corrupt|unexpected|nvalid|ut of order|mismatch' "perf script printed"
}

# switches FILE: the number of switches of target that have their fields.
switches() {
    perf_script <"$1" | grep -c '^ *target .* sched:sched_switch: prev_comm=target prev_pid=[0-9]* .*prev_state=[A-Z+|]* ==> next_comm=' || :
}

#@ slow
t_fields_are_printed_by_name() {
    with_tracefs
    mount_pmcfs
    target_start p
    pmc a event=sched:sched_switch period=1 raw=on "target=${PID_OF[p]}"
    pmc without event=sched:sched_switch period=1 "target=${PID_OF[p]}"
    tell p sleep 30
    ctl a stop
    ctl without stop
    cat "$M/a/samples.perf" >"$T/perf.data"
    is "$(switches "$T/perf.data")" "$(grep -c ' sample ' "$M/a/samples")"
    between "$(switches "$T/perf.data")" 30 10000
    is "$(switches "$M/without/samples.perf")" 0
    HOME=$T timeout 60 perf script -i "$M/a/samples.perf" 2>"$T/printed" | grep -c prev_comm= >"$T/by_name"
    is "$(cat "$T/by_name")" "$(switches "$T/perf.data")" "read as a file"
}

# Other events of a set have no fields; formats of later sets come before their records.
t_fields_of_sets_and_of_later_events_are_printed() {
    with_tracefs
    mount_pmcfs
    target_start p
    pmc a event=sched:sched_switch,page-faults period=1 raw=on "target=${PID_OF[p]}"
    tell p sleep 10
    tell p faults 20
    ctl a stop
    accepted "$M/a/event" sched:sched_process_fork
    ctl a start
    tell p children 3
    ctl a stop
    cat "$M/a/samples.perf" >"$T/perf.data"
    between "$(switches "$T/perf.data")" 10 10000
    perf_script <"$T/perf.data" >"$T/script"
    between "$(grep -c ' page-faults: ' "$T/script")" 20 10000
    between "$(grep -c ' sched:sched_process_fork: comm=target pid=[0-9]* child_comm=target ' "$T/script")" 3 100
}

# perf reads formats once in a stream, and stops at a sample whose format it does not have.
t_an_open_reader_gets_later_events_without_fields() {
    with_tracefs
    mount_pmcfs
    target_start p
    local log
    pmc a event=sched:sched_switch period=1 raw=on "target=${PID_OF[p]}"
    exec {log}<"$M/a/samples.perf"
    tell p sleep 10
    ctl a stop
    cat <&$log >"$T/perf.data"
    accepted "$M/a/event" sched:sched_process_fork
    ctl a start
    tell p children 3
    ctl a stop
    cat <&$log >>"$T/perf.data"
    exec {log}<&-
    between "$(switches "$T/perf.data")" 10 10000
    perf_script <"$T/perf.data" >"$T/script"
    between "$(grep -c ' sched:sched_process_fork: ' "$T/script")" 3 100
    is "$(grep -c 'child_comm=' "$T/script" || :)" 0
    perf_script <"$M/a/samples.perf" >"$T/script"
    between "$(grep -c 'child_comm=' "$T/script")" 3 100 "for a new reader"
}

#@ slow
t_fields_are_printed_with_stacks() {
    with_tracefs
    mount_pmcfs
    target_start p
    local chain
    for chain in on dwarf; do
        pmc $chain event=sched:sched_switch period=1 raw=on callchain=$chain "target=${PID_OF[p]}"
    done
    tell p sleep 10
    for chain in on dwarf; do
        ctl $chain stop
        between "$(switches "$M/$chain/samples.perf")" 10 10000 "with $chain"
        perf_script -F comm,ip,sym <"$M/$chain/samples.perf" >"$T/script"
        between "$(grep -c ' schedule' "$T/script")" 10 100000 "frames with $chain"
    done
    between "$(grep -c ' main' "$T/script")" 10 10000 "callers with dwarf"
}

t_fields_are_the_superusers() {
    with_tracefs
    mount_pmcfs -o unprivileged_kernel=1
    target_start p "$ALICE"
    as "$ALICE" mkdir "$M/a"
    is "$(result_as "$ALICE" write "$M/a/config" "event=sched:sched_switch period=1 raw=on")" EPERM
    like "$(cat "$M/a/error")" '^EPERM P18 config: raw=on records fields of tracepoints'
    is "$(result_as "$ALICE" write "$M/a/config" "event=sched:sched_switch period=1 target=${PID_OF[p]}")" ok
    is "$(result_as "$ALICE" write "$M/a/ctl" detach)" ok
    is "$(result_as "$ALICE" write "$M/a/config" raw=on)" EPERM
    # After a chown to alice she reads the samples without the fields, and cannot start a new sequence.
    pmc r event=sched:sched_switch period=1 raw=on "target=${PID_OF[p]}"
    chown "$ALICE:$ALICE" "$M/r"
    tell p sleep 20
    is "$(result_as "$ALICE" write "$M/r/ctl" stop)" ok
    as "$ALICE" cat "$M/r/samples.perf" >"$T/perf.data"
    is "$(switches "$T/perf.data")" 0
    perf_script <"$T/perf.data" >"$T/script"
    between "$(grep -c ' sched:sched_switch: ' "$T/script")" 20 10000
    between "$(switches "$M/r/samples.perf")" 20 10000 "for root"
    as "$ALICE" cat "$M/r/samples" >"$T/alices"
    between "$(grep -c ' event=sched:sched_switch period=1$' "$T/alices")" 20 10000
    is "$(grep -c prev_comm= "$T/alices" || :)" 0
    between "$(grep -c prev_comm= "$M/r/samples")" 20 10000 "for root, as text"
    is "$(result_as "$ALICE" write "$M/r/ctl" detach)" ok
    is "$(result_as "$ALICE" write "$M/r/target" "${PID_OF[p]}")" EPERM
    is "$(result_as "$ALICE" write "$M/r/config" "raw=off target=${PID_OF[p]}")" ok
}

# fields_of FILE NAME…: the values of these fields in each line of samples.
fields_of() {
    awk -v names="${*:2}" '$2 == "sample" {
        n = split(names, name, " "); line = ""
        for (i = 1; i <= n; i++)
            for (f = 9; f <= NF; f++)
                if (index($f, name[i] "=") == 1)
                    line = line $f " "
        print line
    }' "$1"
}

t_samples_has_the_fields_as_text() {
    with_tracefs
    mount_pmcfs
    target_start p
    pmc a event=sched:sched_switch period=1 raw=on "target=${PID_OF[p]}"
    pmc without event=sched:sched_switch period=1 "target=${PID_OF[p]}"
    tell p sleep 30
    ctl a stop
    ctl without stop
    like "$(grep -m1 ' sample ' "$M/a/samples")" ' event=sched:sched_switch period=1 prev_comm=target prev_pid=[0-9]+ prev_prio=[0-9]+ prev_state=[0-9]+ next_comm=[^ ]+ next_pid=[0-9]+ next_prio=-?[0-9]+$'
    fields_of "$M/a/samples" prev_comm prev_pid prev_prio next_comm next_pid next_prio >"$T/text"
    between "$(wc -l <"$T/text")" 30 10000
    perf_script -F trace <"$M/a/samples.perf" >"$T/script"
    sed 's/ prev_state=[^ ]* ==>//; s/^ *//; s/ *$/ /' "$T/script" >"$T/expected"
    cmp "$T/text" "$T/expected" || die "differs from perf script: $(diff "$T/text" "$T/expected" | head -n 4)"
    unlike "$(cat "$M/without/samples")" 'prev_comm='
}

# Arrays of numbers, pointers, and strings of any length.
t_fields_of_every_kind() {
    with_tracefs
    mount_pmcfs
    target_start p
    cp /bin/true "$T/a b=c;"
    pmc calls event=raw_syscalls:sys_enter period=1 raw=on "target=${PID_OF[p]}"
    pmc sleeps event=syscalls:sys_enter_clock_nanosleep period=1 raw=on "target=${PID_OF[p]}"
    pmc execs event=sched:sched_process_exec period=1 raw=on mode=system-sampling target=all
    tell p sleep 20
    "$T/a b=c;"
    ctl calls stop
    ctl sleeps stop
    ctl execs stop
    perf_script -F trace <"$M/calls/samples.perf" | sed 's/^ *//; s/ *$//' >"$T/expected"
    sed -n 's/.* period=1 id=\([0-9]*\) args=\(0x[0-9a-f]*,\)*\(0x[0-9a-f]*\)$/&/; s/.* id=\([^ ]*\) args=\(.*\)/NR \1 (\2)/p' "$M/calls/samples" |
        sed 's/0x//g; s/,/, /g' >"$T/text"
    between "$(wc -l <"$T/text")" 20 10000
    cmp "$T/text" "$T/expected" || die "differs from perf script: $(diff "$T/text" "$T/expected" | head -n 4)"
    between "$(grep -c ' __syscall_nr=[0-9]* which_clock=[0-9]* flags=[0-9]* rqtp=0x[0-9a-f]* rmtp=0x[0-9a-f]*$' "$M/sleeps/samples")" 20 1000
    is "$(grep -cF " filename=$T/a\\040b\\075c; pid=" "$M/execs/samples")" 1 "a string with blanks"
}

#@ slow
t_fields_as_text_with_frames_and_in_sets() {
    with_tracefs
    mount_pmcfs
    target_start p
    pmc a event=sched:sched_switch,page-faults period=1 raw=on callchain=on "target=${PID_OF[p]}"
    tell p sleep 10
    tell p faults 20
    ctl a stop
    accepted "$M/a/event" sched:sched_process_fork
    ctl a start
    tell p children 3
    ctl a stop
    cp "$M/a/samples" "$T/log"
    between "$(grep -c ' callchain .* event=sched:sched_switch .* ips=[^ ]* prev_comm=target .* next_prio=' "$T/log")" 10 10000
    between "$(grep -c ' callchain .* event=page-faults period=1 ips=[^ ]*$' "$T/log")" 20 10000
    between "$(grep -c ' event=sched:sched_process_fork .* child_comm=target child_pid=[0-9]*$' "$T/log")" 3 100
}
