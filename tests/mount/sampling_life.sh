# shellcheck shell=bash disable=SC2016
# Sampling, continued: call chains, hidden samples, stops and new settings, reloads, exits, and remaining records.

# shellcheck source=tests/mount/sampling_lib.sh
. "${BASH_SOURCE[0]%/*}/sampling_lib.sh"

# frames NAME: a line per call chain, its frames separated by blanks, the innermost first.
frames() { sed -n 's/.* callchain .* ips=//p' "$T/$1.log" | tr , ' '; }

# chains NAME AWK-CONDITION: the number of call chains for which it is true.
chains() { frames "$1" | awk "$2 { n++ } END { print n + 0 }"; }

# ---- call chains ----

t_f05_a_chain_of_the_program_leads_to_its_main() {
    mount_pmcfs
    hot_start p 300
    pmc_on a event=task-clock period=1000000 callchain=user
    hot_run p
    hot_end p
    eventually 5 '[[ $(state a) == exited ]]'
    log a
    # One late timer gives one sample for several periods, so there may be fewer: sampling.sh shows how many there are.
    between "$(of a callchain)" 100 $(($(value a) / 1000000 + 10))
    is "$(of a sample)" 0 "without a chain"
    is "$(chains a '/k:/')" 0 "with the kernel"
    # hot_inner, hot_outer, main and what calls it
    between "$(chains a 'NF >= 4')" $(($(of a callchain) * 9 / 10)) "$(of a callchain)" "of four frames"
    like "$(frames a | awk '{ print $(NF < 3 ? NF : 3) }' | sort | uniq -c | sort -rn | head -n 1)" ' 0x[0-9a-f]+$'
}

t_a_chain_of_the_kernel_has_nothing_of_the_program() {
    mount_pmcfs
    target_start p
    pmc_on a event=context-switches period=1 callchain=kernel
    tell p sleep 50
    ctl a stop
    each_is_a_sample a
    between "$(of a callchain)" 50 5000
    is "$(chains a 'NF < 3')" 0 "of less than three frames"
    is "$(frames a | tr ' ' '\n' | grep -cv '^k:0xf' || :)" 0 "frames not of the kernel"
}

t_f04_l16_a_chain_of_both_goes_from_the_kernel_to_the_program() {
    mount_pmcfs
    target_start p
    pmc_on a event=context-switches period=1 callchain=on
    tell p sleep 50
    ctl a stop
    each_is_a_sample a
    is "$(chains a '$1 !~ /^k:0xf/ || $NF !~ /^0x/')" 0 "not from the kernel to the program"
    is "$(chains a '/ 0x.* k:/')" 0 "that go back"
}

t_a_chain_is_as_deep_as_asked() {
    mount_pmcfs
    target_start p
    pmc_on a event=context-switches period=1 callchain=on depth=2
    tell p sleep 20
    ctl a stop
    is "$(status a sampling)" 'period 1, depth 2'
    each_is_a_sample a
    is "$(frames a | awk '{ print NF }' | sort -u | paste -sd' ')" 2
    accepted "$M/a/config" depth=5
    ctl a start
    tell p sleep 20
    ctl a stop
    each_is_a_sample a
    # An involuntary switch has few kernel frames.
    is "$(frames a | awk 'NF > n { n = NF } END { print n }')" 5
}

# ---- hidden samples ----

# alices NAME SETTINGS…: creates a PMC of alice with her program p as its target.
alices() {
    [[ ${PID_OF[p]:-} ]] || target_start p "$ALICE"
    as "$ALICE" mkdir "$M/$1"
    is "$(result_as "$ALICE" write "$M/$1/config" "${*:2} target=${PID_OF[p]}")" ok
}

t_frames_of_the_kernel_are_cut() {
    mount_pmcfs
    alices a event=cpu-clock freq=997 callchain=on
    pmc b event=cpu-clock freq=997 callchain=on "target=${PID_OF[p]}"
    tell p spin 200
    tell p faults 20000
    ctl a stop
    ctl b stop
    log a
    log b
    is "$(chains a '/k:/')" 0 "chains with the kernel"
    between "$(of a callchain)" 100 100000
    unlike "$(grep -E ' (sample|callchain) ' "$T/a.log")" 'k:|0xffff[0-9a-f]{12}' "addresses of the kernel"
    between "$(chains b '/k:/')" 1 100000 "that the superuser sees"
}

t_a_user_without_kernel_mode_adds_no_target_to_a_recording_that_shows_it() {
    mount_pmcfs -o dirmode=0777
    target_start p "$ALICE"
    target_start q "$ALICE"
    pmc_on a event=page-faults period=1
    chown "$ALICE" "$M/a"
    is "$(result_as "$ALICE" write "$M/a/target" "${PID_OF[q]}")" EPERM
    like "$(cat "$M/a/error")" '^EPERM P18 target: .*kernel'
    is "$(cat "$M/a/target")" "${PID_OF[p]}"
    is "$(state a)" running
    tell q faults 100
    tell p faults 10
    ctl a stop
    log a
    is "$(of a samples "pid=${PID_OF[q]}")" 0
}

t_a_recording_started_by_another_user_does_not_show_the_kernel() {
    mount_pmcfs -o dirmode=0777
    target_start p "$ALICE"
    pmc a event=context-switches event=page-faults period=1
    chown "$ALICE" "$M/a"
    is "$(result_as "$ALICE" write "$M/a/target" "${PID_OF[p]}")" ok
    tell p sleep 50
    tell p faults 50
    ctl a stop
    log a
    is "$(of a samples event=context-switches)" 0 "samples in the kernel"
    between "$(status a hidden)" 50 5000
    between "$(of a samples event=page-faults)" 50 200
}

# ---- stops and settings ----

t_a_stop_and_a_start_keep_the_log() {
    mount_pmcfs
    target_start p
    pmc_on a event=page-faults period=1
    tell p faults 100
    ctl a stop
    tell p faults 1000
    log a
    between "$(of a samples)" 100 130
    ctl a start
    tell p faults 70
    ctl a stop
    each_is_a_sample a
    between "$(of a samples)" 170 230
    is "$(of a start)/$(of a stop)" 2/2
    is "$(awk '$2 == "stop" || $2 == "start" { off = $2 == "stop" } off && $2 == "sample"' "$T/a.log")" '' \
        "samples between a stop and a start"
}

t_settings_change_while_it_is_stopped() {
    mount_pmcfs
    target_start p
    pinned p 0
    pmc_on a event=page-faults period=1
    tell p faults 100
    for word in period=2 freq=100 callchain=on event=minor-faults; do
        refused EBUSY '[A-Z0-9]+' "$M/a/config" $word
    done
    ctl a stop
    accepted "$M/a/config" 'period=7 callchain=user'
    ctl a start
    tell p faults 700
    ctl a stop
    accepted "$M/a/config" 'period=off callchain=off freq=1000 event=task-clock'
    is "$(status a sampling)" 'freq 1000'
    ctl a start
    tell p spin 200
    ctl a stop
    log a
    between "$(of a sample "event=page-faults")" 100 150 "before"
    between "$(of a callchain "period=7")" 100 110 "then"
    # Where others have the CPU, one sample may stand for several periods.
    between "$(of a sample "event=task-clock")" 20 $(($(value a task-clock) / 1000000 + 10)) "and last"
    is "$(of a samples)" "$(($(of a sample period=1) + $(of a callchain period=7) + $(of a sample event=task-clock)))"
}

t_a_reset_forgets_the_count_and_keeps_the_log() {
    mount_pmcfs
    target_start p
    pmc_on a event=page-faults period=1
    tell p faults 100
    ctl a stop
    ctl a restart
    tell p faults 20
    ctl a stop
    log a
    between "$(value a)" 20 50
    between "$(of a samples)" 120 180
}

# ---- reloads ----

#@ reload slow
t_reloads_under_load_lose_nothing() {
    mount_pmcfs
    target_start p
    tell p threads 2
    pmc_on a event=page-faults period=1 descendants=on
    timeout 140 cat "$M/a/samples" >"$T/live" &
    local reader=$!
    for _ in {1..12}; do
        echo each 300 >&"${IN[p]}"
        kill -USR2 "$DAEMON"
        read -r -t 60 -u "${OUT[p]}" _
        ctl a flush # so that no buffer of the kernel overruns on a busy machine
        echo children 3 200 >&"${IN[p]}"
        kill -USR2 "$DAEMON"
        read -r -t 60 -u "${OUT[p]}" _
        ctl a flush
    done
    eventually 10 '(($(reloads) > RELOAD_FROM))'
    ctl a stop
    end_within 20 $reader || die "the reader that was there all the time did not end"
    each_is_a_sample a
    between "$(value a)" 14000 25000
    is "$(status a gap_ns)/$(status a partial)" 0/no
    is "$(of a fork)/$(of a exit)" 36/36
    cut -d' ' -f1 "$T/a.log" | sort -c -t. -k1,1n -k2,2n
    diff <(tail -n +2 "$T/a.log") <(tail -n +2 "$T/live") >&2
}

# ---- the end ----

t_the_stream_ends_after_the_last_descendant_exits() {
    mount_pmcfs
    mkfifo "$T/first" "$T/last"
    sh -c 'sh -c "read -r x <$1/last; exec true" - "$1" & read -r x <"$1/first"' - "$T" &
    local parent=$!
    eventually 5 "pgrep -P $parent >/dev/null"
    pmc a event=page-faults period=1 descendants=on "target=$parent"
    timeout 30 cat "$M/a/samples" >"$T/live" &
    local reader=$!
    echo >"$T/first"
    wait $parent
    eventually 5 "grep -q ' exit pid=$parent' '$T/live'"
    is "$(state a)" running
    kill -0 $reader
    echo >"$T/last"
    end_within 10 $reader || die "the stream did not end"
    is "$(state a)" exited
    each_is_a_sample a
    diff <(tail -n +2 "$T/a.log") <(tail -n +2 "$T/live") >&2
}

# ---- steps and exits ----

# A sampling PMC has no count, so there is nothing that steps and exits could add up to.
t_steps_and_exits_of_a_sampler_have_no_count() {
    mount_pmcfs
    target_start p
    pmc_on a event=page-faults period=1 descendants=on log-csw=on log-exit=on
    tell p children 4 100
    target_end p
    eventually 10 '[[ $(state a) == exited ]]'
    each_is_a_sample a
    is "$(of a exit)" 5 "exits"
    is "$(of a csw)" 0 "steps"
    unlike "$(grep ' exit ' "$T/a.log")" 'count='
}

# Two PMCs observe the same hundred processes: one samples each fault, one logs their counts. (On Linux 6.18, together
# with other tests, one of the counters missed one fault in some 400,000, but its count agreed with its samples. Not
# seen in 100 runs alone. The cause is unknown.)
#@ alone
t_the_samples_of_each_process_are_its_exact_exit() {
    python3 -c 'import os, sys; sys.exit(tuple(map(int, os.uname().release.split(".")[:2])) < (6, 16))' ||
        skip "the kernel does not report last values"
    with_tracefs
    mount_pmcfs
    pmc a event=page-faults period=1 descendants=on start=exec
    pmc b event=page-faults descendants=on start=exec log-csw=on log-exit=on
    short_children a b
    eventually 10 '[[ $(state a) == exited && $(state b) == exited ]]'
    each_is_a_sample a
    log b
    awk '$2 == "sample" { print $3 }' "$T/a.log" | sort | uniq -c | awk '{ print $2, "count=" $1 }' >"$T/sampled"
    awk '$2 == "exit" && $5 == "exact=yes" { print $3, $4 }' "$T/b.log" | sort >"$T/exits"
    between "$(wc -l <"$T/exits")" 101 103
    diff "$T/sampled" "$T/exits" >&2
}

# ---- memory ----

rss_kib() { awk '$1 == "VmRSS:" { print $2 }' "/proc/$SERVER/status"; }

#@ plain
t_memory_does_not_grow_with_time() {
    mount_pmcfs
    pmc a event=task-clock freq=5000 callchain=on descendants=on start=exec logsize=1048576
    timeout 140 cat "$M/a/samples" >"$T/live" &
    local reader=$!
    bash -c 'echo self >"$1/target" && exec bash -c "while [[ ! -e \$0 ]]; do /bin/true; done" "$2"' - "$M/a" "$T/over" &
    local early late
    eventually 5 '[[ $(state a) == running ]]'
    # On a busy host the programs get little CPU time.
    sleep 5
    eventually 10 '(($(stat -c %s "$T/live") > 1500000))'
    is "$(state a)" running
    early=$(rss_kib)
    sleep 15
    eventually 25 '(($(grep -c " exec " "$T/live") >= 500 && $(grep -c " callchain " "$T/live") >= 10000))'
    is "$(state a)" running
    late=$(rss_kib)
    : >"$T/over"
    between "$late" 1000 $((early + 3000)) "KiB at the end, $early after 5 s"
    end_within 20 $reader || die "the reader did not end"
}
