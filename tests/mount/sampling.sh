# shellcheck shell=bash disable=SC2016
# Sampling on the real kernel: how many samples there are, of which program, and where. How the log is read is shown
# in samples.sh, what steps and exits add up to in csw.sh.

# shellcheck source=tests/mount/sampling_lib.sh
. "${BASH_SOURCE[0]%/*}/sampling_lib.sh"

# ---- how many ----

# per_time NAME NS SWITCHES: there is one sample for each NS that the clock event counted. If others have the CPU, a late
# timer gives one sample for several periods, and each context switch of the program may take one.
per_time() {
    local wanted
    wanted=$(($(value "$1") / $2))
    between "$(of "$1" samples)" $((wanted * 3 / 4 > $3 ? wanted * 3 / 4 - $3 : 1)) $((wanted + wanted / 30 + 1)) \
        "samples at $2 ns of $(value "$1") ns, with $3 context switches"
}

# Places in the file are computed from the addresses in the log and its map-in records, and compared with nm.
#@ alone slow
t_five_seconds_are_five_thousand_samples_in_the_hot_function() {
    mount_pmcfs
    local own all switches
    hot_start p 5000
    pmc_on a event=cpu-clock period=1000000
    hot_run p
    switches=$(switches p)
    hot_end p
    eventually 5 '[[ $(state a) == exited ]]'
    log a
    is "$(found a period)" 1000000 "periods"
    per_time a 1000000 "$switches"
    nm -S "$HELPERS/hot" >"$T/symbols"
    /usr/bin/python3 - "$T/symbols" "$T/a.log" >"$T/inside" <<'P'
import sys
symbol = next(l.split() for l in open(sys.argv[1]) if l.split()[-1] == "hot_inner")
start, size = int(symbol[0], 16), int(symbol[1], 16)
maps, inside, outside, kernel = [], 0, 0, 0
for line in open(sys.argv[2]):
    words = line.split()
    field = dict(w.split("=", 1) for w in words[2:])
    if words[1] == "map-in" and field["path"].endswith("/hot"):
        maps.append([int(field[k], 16) for k in ("start", "end", "offset")])
    if words[1] == "sample":
        ip = int(field["ip"], 16)
        place = [ip - m[0] + m[2] for m in maps if m[0] <= ip < m[1]]
        if ip >> 63:
            kernel += 1
        elif place and start <= place[0] < start + size:
            inside += 1
        else:
            outside += 1
print(inside * 1000 // (inside + outside), inside * 1000 // (inside + outside + kernel))
P
    read -r own all <"$T/inside"
    between "$own" 990 1000 "thousandths of the program's own in hot_inner"
    # The others of all are a busy machine's interrupts.
    between "$all" 900 1000 "thousandths of all"
}

t_l04_every_page_fault_is_a_sample() {
    mount_pmcfs
    target_start p
    pmc_on a event=page-faults period=1
    pmc_on b event=page-faults
    tell p faults 3000
    ctl a stop
    each_is_a_sample a
    between "$(value a)" 3000 3100
    is "$(value a)" "$(count b)" "what another counted"
    is "$(found a event) $(found a period) $(found a pid)" "page-faults 1 ${PID_OF[p]}"
    is "$(of a callchain)" 0
    empty awk '$2 == "sample" && !/^[0-9.]+ sample pid=[0-9]+ tid=[0-9]+ cpu=[0-9]+ ip=0x[0-9a-f]+ event=page-faults period=1$/' \
        "$T/a.log"
}

#@ slow
t_a_clock_is_not_faster_than_100_us_except_for_the_superuser() {
    mount_pmcfs
    target_start p "$ALICE"
    local event
    for event in cpu-clock task-clock; do
        is "$(as "$ALICE" mkdir "$M/$event"; result_as "$ALICE" write "$M/$event/config" "event=$event period=10000 target=${PID_OF[p]}")" ok
        is "$(status "$event" sampling)" "period 100000 (asked 10000, a clock and not the superuser's)"
        is "$(result_as "$ALICE" write "$M/$event/target" "-${PID_OF[p]}")" ok
        is "$(result_as "$ALICE" write "$M/$event/config" "period=off freq=50000 target=${PID_OF[p]}")" ok
        like "$(status "$event" sampling)" '^freq (10000|[0-9]{1,4}) .asked 50000, '
        is "$(result_as "$ALICE" write "$M/$event/target" "-${PID_OF[p]}")" ok
        is "$(result_as "$ALICE" write "$M/$event/config" "freq=off period=100000 target=${PID_OF[p]}")" ok
        is "$(status "$event" sampling)" 'period 100000'
    done
    pmc root event=cpu-clock period=20000 "target=${PID_OF[p]}"
    is "$(status root sampling)" 'period 20000'
    # Other events are as fast as they come.
    is "$(as "$ALICE" mkdir "$M/f"; result_as "$ALICE" write "$M/f/config" "event=page-faults period=1 target=${PID_OF[p]}")" ok
    is "$(status f sampling)" 'period 1'
}

#@ slow
t_a_rate_of_a_clock_is_kept() {
    mount_pmcfs
    target_start p
    pmc_on a event=task-clock freq=500
    tell p spin 2000
    ctl a stop
    log a
    per_time a 2000000 "$(switches p)"
    is "$(found a event)" task-clock
}

# ---- messages about the rate ----

t_a_depth_beyond_the_limit_is_clamped_and_reported() {
    mount_pmcfs
    local most
    most=$(cat /proc/sys/kernel/perf_event_max_stack)
    target_start p
    pmc_on a event=page-faults period=1 callchain=on depth=512
    is "$(status a sampling)" "period 1, depth $most (asked 512, callchaindepth)"
    pmc_on b event=page-faults period=1 callchain=on
    is "$(status b sampling)" "period 1, depth $most"
}

# ---- of which program ----

t_each_sample_of_a_set_names_its_event() {
    mount_pmcfs
    target_start p
    pmc_on a event=page-faults event=context-switches event=minor-faults period=1
    tell p faults 400
    tell p sleep 50
    ctl a stop
    log a
    is "$(found a event)" "context-switches minor-faults page-faults"
    for event in page-faults context-switches minor-faults; do
        is "$(of a samples "event=$event")" "$(value a $event)" "$event"
    done
    between "$(value a page-faults)" 400 600
    between "$(value a context-switches)" 50 5000
    is "$(status a kernel_lost)" 0
}

# Each event has a separate period on each CPU, so the program is pinned. Sanitizers and reloads may leave too little
# time for the samples of such a clock event. If the kernel allows 100,000 samples a second, the log cannot hold
# all of them, so it is read at the same time.
#@ slow plain alone
t_a_set_of_different_kinds_samples_each() {
    local reader
    with_tracefs
    mount_pmcfs -o logbuffersize=1024
    target_start p
    pinned p 0
    pmc_on a event=task-clock event=page-faults event=raw_syscalls:sys_enter period=1000
    cat "$M/a/samples" >"$T/a.log" &
    reader=$!
    tell p faults 5000
    tell p sleep 1500
    leaves_cpu p
    ctl a stop
    wait "$reader"
    # Such a clock samples as often as the kernel allows: it is throttled, or not; nothing else of the set is.
    for event in page-faults raw_syscalls:sys_enter; do
        is "$(of a samples "event=$event")" $(($(value a $event) / 1000)) "$event"
    done
    between "$(of a samples event=page-faults)" 5 5
    is "$(of a samples event=raw_syscalls:sys_enter)" 1
    between "$(of a samples event=task-clock)" 10 $(($(value a task-clock) / 1000))
    empty awk -F '\t' 'NR > 2 && $2 == "all" && ($4 == 0 || $4 != $5)' "$M/a/detail"
}

t_threads_present_and_later_are_sampled() {
    mount_pmcfs
    target_start p
    tell p threads 3
    pmc_on a event=page-faults period=1
    tell p each 100
    tell p threads 2
    tell p each 50
    ctl a stop
    each_is_a_sample a
    is "$(found a pid)" "${PID_OF[p]}"
    local tids tid n=0
    tids=$(found a tid)
    for tid in $tids; do
        ((tid != PID_OF[p])) || continue
        between "$(of a samples "tid=$tid")" 50 200 "of thread $tid"
        n=$((n + 1))
    done
    is $n 5 "threads: $tids"
}

t_descendants_present_and_later_are_sampled() {
    mount_pmcfs
    target_start p
    tell p stay 40
    local stayer
    stayer=$(pgrep -P "${PID_OF[p]}")
    pmc_on a event=page-faults period=1 descendants=on
    tell p bear
    tell p faults 70
    tell p child 300
    tell p children 5 100
    tell p bear
    ctl a stop
    each_is_a_sample a
    between "$(of a samples "pid=$stayer")" 80 140 "of the child that was there"
    is "$(found a pid | wc -w)" 8 "processes"
    is "$(of a fork "pid=${PID_OF[p]}")" 6 "forks"
    is "$(of a exit)" 6 "exits"
}

t_a_hundred_children_lose_nothing() {
    mount_pmcfs
    pmc a event=page-faults period=1 descendants=on start=exec
    short_children a
    eventually 10 '[[ $(state a) == exited ]]'
    each_is_a_sample a
    between "$(found a pid | wc -w)" 101 103 "processes"
    between "$(of a exec)" 101 103 "execs"
}

t_targets_come_and_go_while_it_runs() {
    mount_pmcfs
    target_start p
    target_start q
    pmc_on a event=page-faults period=1
    tell p faults 100
    tell q faults 1000
    attach a "${PID_OF[q]}"
    tell q faults 30
    tell p faults 20
    attach a "-${PID_OF[p]}"
    tell p faults 1000
    tell q faults 200
    is "$(state a)" running
    ctl a stop
    each_is_a_sample a
    between "$(of a samples "pid=${PID_OF[p]}")" 120 140
    between "$(of a samples "pid=${PID_OF[q]}")" 230 250
    is "$(of a attach)/$(of a detach)" 2/1
}

# ---- of CPUs ----

# A clock event has one sample for all periods in which the virtual machine did not run, so this test runs alone.
#@ alone
t_a_cpu_is_sampled_whoever_runs() {
    local before ms
    (($(nproc) > 1)) || skip "one CPU only"
    mount_pmcfs
    target_start p
    target_start q
    pinned p 0
    pinned q 1
    before=$(cut -d ' ' -f 1 "/proc/${PID_OF[p]}/schedstat")
    pmc a event=cpu-clock period=1000000 mode=system-sampling target=cpu0
    tell p spin 1000
    tell q spin 200
    ctl a stop
    ms=$((($(cut -d ' ' -f 1 "/proc/${PID_OF[p]}/schedstat") - before) / 1000000))
    log a
    is "$(found a cpu)" 0
    between "$(of a samples "pid=${PID_OF[p]}")" $((ms * 9 / 10)) $((ms * 11 / 10))
    is "$(of a samples "pid=${PID_OF[q]}")" 0 "of the program on the other"
}

#@ alone
t_every_fault_of_the_machine_is_a_sample() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults period=1 mode=system-sampling target=all
    tell p faults 2000
    ctl a stop
    each_is_logged a 1 # the kernel loses some while events of others open and close
    between "$(value a)" 2000 100000000
    # the lost record may have belonged to one program
    (($(status a kernel_lost))) ||
        between "$(of a samples "pid=${PID_OF[p]}")" $((2000 - $(value a) / 100)) 2100
}
