# shellcheck shell=bash disable=SC2016
# samples.perf as perf itself reads it: perf report -i -, perf script -i -.

# hot_start: starts a program that only runs main -> outer -> burn; HOT is its PID.
hot_start() {
    [[ -x $T/hot ]] || cc -O0 -o "$T/hot" -x c - <<'C'
static volatile unsigned long x;
__attribute__((noipa)) void burn(unsigned long n) { while (n--) x += n; }
__attribute__((noipa)) void outer(void) { burn(1000000); x++; }
int main(void) { for (;;) outer(); }
C
    "$T/hot" &
    HOT=$!
}

# perf_reads REPORT|SCRIPT…: runs perf on standard input. Its messages in $T/printed must not be about the stream.
perf_reads() {
    HOME=$T timeout 40 perf "$1" -i - "${@:2}" 2>"$T/printed" || die "perf $1: $(cat "$T/printed")"
    unlike "$(cat "$T/printed")" 'rror|ailed|corrupt|unexpected|nvalid|ut of order' "perf $1 printed"
}

# sampled NAME N: waits until the log of the PMC has N more records.
sampled() {
    eventually 30 "(($(status "$1" log_records) + $2 <= \$(status $1 log_records)))"
}

# The samples of the text and of perf, in the same form: time tid cpu address period event.
text_samples() {
    sed -nE 's/^([0-9.]+) (sample|callchain) pid=[0-9]+ tid=([0-9]+) cpu=([0-9]+) ip=(k:)?0x([0-9a-f]+) event=([^ ]+) period=([0-9]+).*/\1 \3 \4 \6 \8 \7/p' "$1"
}

perf_samples() {
    perf_reads script -F tid,cpu,time,period,event,ip -G --ns <"$1" |
        sed -nE 's/^ *([0-9]+) \[0*([0-9]+)\] +([0-9.]+): +([0-9]+) +([^ ]+): +([0-9a-f]+) *$/\3 \1 \2 \6 \4 \5/p'
}

# The lines of perf's report: percent, program, object, mode, symbol.
report() {
    perf_reads report --stdio --no-children -g none | sed -nE 's/^ +([0-9]+)\.[0-9]+% +(.*[^ ]) *$/\1 \2/p'
}

t_perf_finds_the_callers_of_a_sample() {
    mount_pmcfs
    hot_start
    pmc p event=cpu-clock freq=997 callchain=on user=on kernel=off "target=$HOT"
    sampled p 100
    ctl p stop
    perf_reads script -F comm,ip,sym <"$M/p/samples.perf" >"$T/stacks"
    # one paragraph a sample: name, then frames with the innermost first
    local chains
    chains=$(sed -E 's/^\s+[0-9a-f]+ /,/' "$T/stacks" | tr -d '\n ' | grep -o 'hot,burn,outer,main' | wc -l)
    between "$chains" 50 100000 "chains burn, outer, main"
    kill "$HOT"
}

t_perf_reads_while_it_is_written() {
    mount_pmcfs
    hot_start
    pmc p event=cpu-clock freq=97 "target=$HOT"
    HOME=$T stdbuf -oL perf script -i - -F comm,ip,sym <"$M/p/samples.perf" >"$T/script" 2>"$T/printed" &
    local script=$!
    eventually 20 'grep -q "^ *hot .* burn" "$T/script"'
    local seen
    seen=$(wc -l <"$T/script")
    eventually 20 "((\$(wc -l <'$T/script') > $seen + 10))"
    is "$(state p)" running
    ctl p stop
    end_within 20 $script || die "perf script ended with $?: $(cat "$T/printed")"
    kill "$HOT"
}

#@ slow
t_a_reader_from_the_beginning_and_a_late_one_have_the_same_samples() {
    mount_pmcfs
    hot_start
    pmc p event=cpu-clock freq=997 autostart=off "target=$HOT"
    cat "$M/p/samples.perf" >"$T/early" &
    local early=$!
    ctl p start
    sampled p 100
    ctl p stop
    wait $early
    cat "$M/p/samples.perf" >"$T/late"
    perf_samples "$T/early" >"$T/a"
    perf_samples "$T/late" >"$T/b"
    between "$(wc -l <"$T/a")" 100 100000
    diff "$T/a" "$T/b" >&2
    kill "$HOT"
}

t_each_event_of_a_set_has_its_report() {
    mount_pmcfs
    hot_start
    pmc p event=cpu-clock event=task-clock period=1000000 "target=$HOT"
    sampled p 100
    ctl p stop
    perf_reads report --stdio <"$M/p/samples.perf" >"$T/table"
    is "$(grep -o "of event '.*'" "$T/table" | paste -sd,)" "of event 'cpu-clock',of event 'task-clock'"
    is "$(grep -cE '^ +(100|[6-9][0-9])\.[0-9]+% .*hot +hot +\[\.\] burn' "$T/table")" 2 'reports with 60 % of burn or more'
    kill "$HOT"
}

# A tracepoint's own format is not in the stream: perf shows thread, place and time under its name.
t_a_tracepoint_is_shown_under_its_name() {
    with_tracefs
    mount_pmcfs
    target_start p
    pmc p event=sched:sched_switch period=1 callchain=on "target=${PID_OF[p]}"
    tell p sleep 50
    ctl p stop
    perf_reads script -F comm,event,sym <"$M/p/samples.perf" >"$T/script"
    between "$(grep -c '^target .*sched:sched_switch' "$T/script")" 40 10000 switches
    perf_reads report --stdio <"$M/p/samples.perf" | grep -q "of event 'sched:sched_switch'"
}

#@ slow
t_samples_of_all_settings_of_a_pmc_are_read() {
    mount_pmcfs
    hot_start
    pmc p event=cpu-clock freq=997 "target=$HOT"
    sampled p 50
    ctl p stop
    accepted "$M/p/config" 'callchain=on freq=499'
    ctl p start
    sampled p 50
    ctl p stop
    accepted "$M/p/event" task-clock
    ctl p start
    sampled p 50
    ctl p stop
    text_samples <(cat "$M/p/samples") >"$T/a"
    cat "$M/p/samples.perf" >"$T/perf.data"
    perf_samples "$T/perf.data" >"$T/b"
    between "$(wc -l <"$T/a")" 150 100000 samples
    diff "$T/a" "$T/b" >&2
    is "$(perf_reads report --stdio <"$T/perf.data" | grep -o "of event '.*'" | paste -sd,)" \
        "of event 'cpu-clock',of event 'cpu-clock',of event 'task-clock'"
    kill "$HOT"
}

#@ slow
t_samples_of_children_have_their_program_and_function() {
    mount_pmcfs
    hot_start
    kill "$HOT" # only the executable is needed
    pmc p event=cpu-clock freq=997 callchain=on descendants=on start=exec
    bash -c 'echo self >"$1/target" && exec bash -c "ulimit -t 1; $2; :"' - "$M/p" "$T/hot"
    eventually 10 '[[ $(state p) == exited ]]'
    local line
    read -r line < <(report <"$M/p/samples.perf")
    like "$line" '^[0-9]+ +hot +hot +\[\.\] burn$'
}

#@ slow
t_records_that_a_reader_missed_are_reported() {
    mount_pmcfs
    hot_start
    pmc p event=cpu-clock freq=4000 logsize=65536 "target=$HOT"
    local fd
    exec {fd}<"$M/p/samples.perf"
    dd bs=16 count=1 <&$fd >"$T/perf.data" 2>/dev/null
    sampled p 4000
    ctl p stop
    cat <&$fd >>"$T/perf.data"
    exec {fd}<&-
    local lost
    lost=$(perf_reads script --show-lost-events <"$T/perf.data" |
        sed -n 's/.*PERF_RECORD_LOST lost //p' | paste -sd+)
    between "$((lost))" 1000 100000 lost
    # The maps that addresses need were kept.
    perf_reads script -F ip,sym <"$T/perf.data" | awk '{ print $2 }' | sort | uniq -c | sort -rn |
        sed -n 1p >"$T/most"
    like "$(cat "$T/printed")" 'Processed .* lost [0-9]+ chunks'
    like "$(cat "$T/most")" ' burn$'
    is "$(perf_reads report --stdio <"$T/perf.data" | sed -n 's/^# Total Lost Samples: //p')" "$((lost))" "in perf report"
    kill "$HOT"
}

t_kernel_addresses_are_resolved() {
    [[ $(awk '$3 == "_text" { print $1; exit }' /proc/kallsyms) =~ [1-9a-f] ]] ||
        skip "kernel addresses are hidden in this machine"
    mount_pmcfs
    pmc p event=cpu-clock freq=997
    dd if=/dev/zero of=/dev/null bs=1M count=100000000 2>/dev/null &
    attach p $!
    sampled p 100
    ctl p stop
    kill $!
    local line
    read -r line < <(report <"$M/p/samples.perf")
    like "$line" '^[0-9]+ +dd +\[kernel.kallsyms\] +\[k\] [a-z_0-9.]+$'
}

t_a_log_without_samples_is_read() {
    mount_pmcfs
    pmc p event=cpu-clock freq=997 target=self
    ctl p stop
    HOME=$T perf report --stdio -i - <"$M/p/samples.perf" >"$T/table" 2>"$T/printed"
    unlike "$(cat "$T/printed")" 'failed|corrupt|unexpected|nvalid' 'perf printed'
    pmc n
    HOME=$T perf report --stdio -i - <"$M/n/samples.perf" >"$T/table" 2>"$T/printed"
    like "$(cat "$T/printed")" 'has no samples'
    perf_reads script <"$M/n/samples.perf" >"$T/script"
    empty cat "$T/script"
}

#@ slow
t_the_time_of_day_is_known() {
    mount_pmcfs
    hot_start
    pmc p event=cpu-clock freq=97 "target=$HOT"
    sampled p 10
    ctl p stop
    local before now
    now=$(date +%s)
    perf_reads script -F +tod -i - <"$M/p/samples.perf" >"$T/script"
    before=$(date -d "$(sed -nE '1s/.* ([0-9-]+ [0-9:]+)\..*/\1/p' "$T/script")" +%s)
    between $((now - before)) 0 60 'seconds since the first sample'
    kill "$HOT"
}
