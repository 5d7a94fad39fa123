# shellcheck shell=bash disable=SC2016,SC2012
# Spellings of events, INTERFACE section 5, and what events/ lists.

t_software_events_in_their_spellings() {
    mount_pmcfs
    pmc a
    for text in page-faults PAGE_FAULTS page.faults perf::PERF_COUNT_SW_PAGE_FAULTS faults \
        context-switches cpu-clock task-clock minor-faults major-faults cpu-migrations \
        page-faults:u 'page-faults,usr'; do
        accepted "$M/a/event" "$text"
        is "$(cat "$M/a/event")" "$text" 'reads back as written'
    done
    accepted "$M/a/event" perf::PERF_COUNT_SW_PAGE_FAULTS
    attach a self
}

t_an_unknown_name_is_refused_with_near_misses() {
    mount_pmcfs
    pmc a
    refused EINVAL CS01 "$M/a/event" contxt-switches
    like "$(cat "$M/a/error")" '"contxt-switches".*context-switches'
    refused EINVAL CS01 "$M/a/event" xyzzyplughxyzzy
    refused EINVAL CS01 "$M/a/event" nopmu/event/
    refused EINVAL CS01 "$M/a/event" sched:no_such_point
}

t_an_unknown_qualifier_is_refused() {
    mount_pmcfs
    pmc a
    refused EINVAL CS03 "$M/a/event" page-faults,frobnicate
    refused EINVAL CS03 "$M/a/event" page-faults:zz
    refused EOPNOTSUPP E35 "$M/a/event" task-clock,cmask=2
}

t_a_processor_event_without_a_pmu_says_why() {
    [[ ! -d /sys/bus/event_source/devices/cpu ]] || skip "this machine has a PMU"
    mount_pmcfs
    pmc a
    for text in cycles instructions instructions:u r01c2 perf::PERF_COUNT_HW_CPU_CYCLES cycles,usr; do
        refused EOPNOTSUPP P09 "$M/a/event" $text
    done
    [[ ! -d $M/events/cpu ]] || die "events/cpu lists what cannot be counted"
}

t_the_pmu_form_from_the_machines_own_files() {
    [[ -e /sys/bus/event_source/devices/msr/events/tsc ]] || skip "no msr PMU in this machine"
    mount_pmcfs
    pmc a event=msr/tsc/ target=cpu0
    local before
    before=$(count a)
    sleep 0.1
    between "$(($(count a) - before))" 1000000 100000000000
    pmc b event=msr/event=0/ target=cpu0
    [[ $(count b) -gt 0 ]] || die "counted nothing"
    refused EINVAL 'CS0[134]' "$M/a/event" msr/nonsense/
    [[ -e $M/events/msr/tsc ]] || die "not listed"
}

t_tracepoints() {
    with_tracefs
    mount_pmcfs
    target_start p
    pmc a event=sched:sched_switch "target=${PID_OF[p]}"
    tell p sleep 50
    between "$(count a)" 50 500
    [[ -e $M/events/tracepoint/sched:sched_switch ]] || die "not listed"
}

t_tracepoints_without_tracefs_mounted_work_or_say_why() {
    [[ ! -e /sys/kernel/tracing/events ]] || umount /sys/kernel/tracing || skip "tracefs is mounted and in use"
    mount_pmcfs
    pmc a
    [[ $(result write "$M/a/event" sched:sched_switch) == ok ]] ||
        like "$(cat "$M/a/error")" '^EOPNOTSUPP P09 event: .*tracefs'
}

t_a_tracepoint_needs_the_right_to_kernel_mode() {
    with_tracefs
    mount_pmcfs
    as "$ALICE" mkdir "$M/a"
    is "$(result_as "$ALICE" write "$M/a/event" sched:sched_switch)" EPERM
    like "$(cat "$M/a/error")" '^EPERM P18 event: '
}

t_a_breakpoint_on_ones_own_memory() {
    mount_pmcfs
    pmc a
    python <<'P'
import ctypes, sys
root = sys.argv[1] + "/a/"
cell = ctypes.c_ulong(0)
def put(name, text):
    f = open(root + name, "w"); f.write(text); f.close()
try:
    put("event", "mem:%#x:w" % ctypes.addressof(cell))
    put("target", "self")
except OSError:
    text = open(root + "error").read()
    assert text.startswith("EOPNOTSUPP P09"), text
    raise SystemExit(0)
for i in range(100):
    cell.value = i
n = int(open(root + "count").read())
assert 100 <= n <= 400, n
P
}

t_kernel_mode_is_refused_not_zero() {
    mount_sim
    as "$ALICE" mkdir "$M/a"
    for text in event=cycles:k event=cycles,os 'event=cycles kernel=on'; do
        is "$(result_as "$ALICE" write "$M/a/config" "$text")" EPERM "$text"
        like "$(cat "$M/a/error")" '^EPERM P18 config: '
    done
    is "$(result_as "$ALICE" write "$M/a/config" 'event=cycles')" ok
    like "$(status a event)" ':u'
    pmc b event=cycles
    unlike "$(status b event)" ':u'
}

t_a_filter_that_would_make_a_false_zero_is_refused() {
    mount_pmcfs
    pmc a
    refused EINVAL CS03 "$M/a/event" context-switches:u
    like "$(cat "$M/a/error")" 'whole'
}

t_kernel_raised_events_are_counted_whole_for_everybody() {
    mount_pmcfs
    target_start p "$ALICE"
    as "$ALICE" mkdir "$M/a"
    as "$ALICE" sh -c "echo event=context-switches target=${PID_OF[p]} >$M/a/config"
    tell p sleep 50
    between "$(count a)" 50 500
}

t_a_set_lies_in_one_hardware_class() {
    mount_sim sim_cpus=2,sim_class=left:4:48,sim_class=right:4:48
    grep -q '^left ' "$M/info/classes"
    pmc a
    refused EINVAL CS08 "$M/a/event" 'left::cycles right::instructions'
    like "$(cat "$M/a/error")" 'cycles.*instructions'
    accepted "$M/a/event" 'left::cycles left::instructions'
}

t_a_set_may_mix_software_events_and_tracepoints() {
    with_tracefs
    mount_pmcfs
    target_start p
    pmc a event=page-faults event=sched:sched_switch event=task-clock "target=${PID_OF[p]}"
    tell p faults 100
    is "$(wc -l <"$M/a/count")" 3
}

t_a_listed_event_says_what_to_write_and_counts() {
    mount_pmcfs
    for file in "$M"/events/software/*; do
        like "$(head -1 "$file")" '^event [^ ]+$'
        for key in description scope sampling unit scale rows encoding; do
            grep -q "^$key\( \|$\)" "$file" || die "${file##*/} has no line '$key'"
        done
        pmc a "event=$(sed -n '1s/^event //p' "$file")"
        attach a self
        like "$(cat "$M/a/count")" '^[0-9]+$'
        rmdir "$M/a"
    done
}

t_every_listed_event_of_every_class_can_be_written() {
    mount_pmcfs
    mkdir "$M/a"
    local n=0
    while read -r file; do
        accepted "$M/a/event" "$(sed -n '1s/^event //p' "$file")"
    done < <(find "$M/events" -type f ! -path '*/tracepoint/*')
    while read -r file && ((n++ < 20)); do
        accepted "$M/a/event" "$(sed -n '1s/^event //p' "$file")"
    done < <(find "$M/events" -type f -path '*/tracepoint/*')
}

t_generic_names_map_to_what_this_machine_has() {
    mount_sim
    [[ $(ls "$M/events/generic") ]] || die "a simulated PMU has generic events"
    for file in "$M"/events/generic/*; do
        pmc a "event=$(sed -n '1s/^event //p' "$file")"
        rmdir "$M/a"
    done
}

t_more_breakpoints_than_the_processor_has_are_refused_at_event() {
    mount_pmcfs
    target_start p
    pmc a
    [[ $(result write "$M/a/event" mem:0x1000:rw) == ok ]] || skip 'no breakpoints here'
    refused EINVAL E19 "$M/a/event" "$(printf 'mem:0x%x/8:w ' {4096..5376..64})"
    like "$(cat "$M/a/error")" 'breakpoint registers'
}
