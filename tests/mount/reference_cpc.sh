# shellcheck shell=bash disable=SC2016
# cpc(3CPC): concepts (C), errors (CS, CE) and what its functions (CF) and libpctx's (CX) become in the tree.
# shellcheck source=tests/mount/reference_lib.sh
. "${BASH_SOURCE[0]%/*}/reference_lib.sh"

t_c02_c05_cf11_cs05_ce06_a_set_is_assigned_completely_or_not_at_all() {
    mount_sim 'sim_cpus=0-1\,3,sim_rows=3,sim_fixed=1'
    pmc a
    # `loads` fits even rows only, `fixed-instructions` the fixed one: a greedy choice would fail.
    accepted "$M/a/event" 'cycles loads fixed-instructions loads'
    is "$(status a row | tr ',' '\n' | sort | xargs)" '0 1 2 3'
    rmdir "$M/a"
    pmc a event=cycles
    steady EINVAL E19 "$M/a/event" 'cycles loads loads loads'
    steady EINVAL E19 "$M/a/event" 'cycles cycles cycles cycles'
}

t_c04_cf08_attributes_are_listed_and_the_counter_is_pinned() {
    mount_sim
    is "$(awk '$1 == "attr" { print $2 }' "$M/events/sim/cycles" | sort | xargs)" 'cmask edge inv k u'
    pmc a row=2 event=cycles
    is "$(status a row)" 2
    # If row= is written twice, the last value counts.
    accepted "$M/a/config" 'row=0 row=3'
    is "$(status a row) $(setting a row)" '3 3'
}

t_c07_c08_cf15_the_time_of_a_sample_and_the_time_on_the_hardware() {
    mount_sim
    pmc a event=cycles event=instructions target=cpu0
    local first second
    cat "$M/a/detail" >"$T/detail"
    is "$(awk -F'\t' 'NR > 2 { print $4, $5 }' "$T/detail" | sort -u | wc -l)" 1 'one instant for all'
    ((0 < $(awk -F'\t' 'NR == 3 { print $5 }' "$T/detail"))) || die 'no time on the hardware'
    first=$(sed -n '1s/# time_ns \([0-9]*\) .*/\1/p' "$T/detail")
    second=$(sed -n '1s/# time_ns \([0-9]*\) .*/\1/p' "$M/a/detail")
    ((0 < first && first < second)) || die "$first, then $second"
    ctl a stop
    is "$(status a running_ns)" "$(status a enabled_ns)"
    first=$(status a running_ns)
    sleep 0.02
    is "$(status a running_ns)" "$first" 'the time of what is stopped'
}

t_c11_ce04_ce11_counting_a_cpu_and_its_threads_at_once() {
    mount_sim
    target_start p
    pmc thread event=cycles "target=tid:${PID_OF[p]}"
    pmc cpu event=cycles target=all
    local before
    before=$(count thread)
    is "$(state thread) $(state cpu)" 'running running'
    ((before < $(count thread))) || die 'the thread does not count'
    # And the other way round.
    pmc later event=cycles "target=tid:${PID_OF[p]}"
    is "$(state later) $(state cpu)" 'running running'
    before=$(count cpu)
    ((before < $(count cpu) && 0 < $(count later))) || die 'one of them stands still'
}

time_and_value() { awk '$2 == "all" { print $4, $3 }' "$M/$1/detail"; }

t_c12_c22_a_reader_on_another_cpu_gets_the_complete_count() {
    mount_pmcfs
    pmc a event=cpu-clock target=cpu0
    local affinity time before now value
    affinity=$(grep ^Cpus_allowed: /proc/self/status)
    read -r time before < <(time_and_value a)
    sleep 0.1
    read -r now value < <(time_and_value a)
    # Idle or not.
    between $((now - time)) 100000000 100000000000 "ns"
    between "$(((value - before) * 1000 / (now - time)))" 990 1010 "thousandths of the time"
    is "$(grep ^Cpus_allowed: /proc/self/status)" "$affinity"
}

t_cf22_a_restart_loads_the_preset_and_continues() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults count=1000000 "target=${PID_OF[p]}"
    tell p faults 5000
    between "$(count a)" 1005000 1006000
    ctl a restart
    is "$(state a)" running
    between "$(count a)" 1000000 1001000
    tell p faults 2000
    between "$(count a)" 1002000 1004000
}

t_c18_cf24_the_target_starts_and_stops_its_pmc() {
    mount_pmcfs -o dirmode=0777
    mkdir -m 700 "$M/a"
    accepted "$M/a/config" event=page-faults autostart=off
    chown "$ALICE" "$M/a"
    local out
    # The counted process starts and stops the PMC; another process attached it.
    cat >"$T/window.py" <<'P'
import mmap, os, sys
ctl = os.open(sys.argv[1] + "/a/ctl", os.O_WRONLY)
def touch(pages):
    m = mmap.mmap(-1, pages * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    m.madvise(mmap.MADV_NOHUGEPAGE)
    for i in range(pages): m[i * 4096] = 1
print(os.getpid(), flush=True)
sys.stdin.readline()
touch(2000)
os.write(ctl, b"start")
touch(300)
os.write(ctl, b"stop")
touch(2000)
print("done", flush=True)
sys.stdin.readline()
P
    coproc WINDOW { as "$ALICE" /usr/bin/python3 -B "$T/window.py" "$M"; }
    read -r -t 60 -u "${WINDOW[0]}" out
    attach a "$out"
    echo >&"${WINDOW[1]}"
    read -r -t 60 -u "${WINDOW[0]}" out
    is "$out $(state a)" 'done stopped'
    between "$(count a)" 300 700
}

t_cf05_the_reference_names_the_documents_of_this_processor() {
    mount_pmcfs
    local text
    text=$(cat "$M/info/cpuref")
    case $(sed -n 's/^vendor_id[^:]*: //p' /proc/cpuinfo | head -1) in
    GenuineIntel) like "$text" 'Intel' ;;
    AuthenticAMD) like "$text" "^AMD .*"$'\n'"AMD64 Architecture Programmer's Manual, Volume 2" ;;
    esac
    like "$text" 'software events and tracepoints: perf_event_open\(2\), perf-list\(1\)$'
}

t_cf08_attributes_of_the_machines_own_events_are_listed() {
    mount_sim
    is "$(sed -n 's/^attr //p' "$M/events/sim/cycles")" \
        $'u user mode\nk kernel mode\ncmask 0-255\ninv 0-1\nedge 0-1'
    mount_pmcfs
    [[ -e /sys/bus/event_source/devices/msr/format/event && -e $M/events/msr/tsc ]] || skip 'no msr PMU'
    is "$(grep ^attr "$M/events/msr/tsc")" 'attr event integer 64 bits'
}

t_cf06_cf07_cf09_events_of_all_and_of_one_counter() {
    mount_sim sim_cpus=2,sim_rows=3
    [[ -e $M/events/sim/cycles && -e $M/events/generic/PAPI_tot_ins ]] || die 'not listed'
    is "$(sed -n 's/^rows //p' "$M/events/sim/loads") $(sed -n 's/^rows //p' "$M/events/sim/cycles")" '0,2 0-2'
    pmc a event=cycles event=loads count=3,4
    is "$(sed -n '/^event=\|^count=/p' "$M/a/config" | xargs)" 'event=cycles event=loads count=3,4'
}

t_cs01_ce01_pm09_no_such_event() {
    mount_sim
    pmc a event=cycles
    local text
    for text in nosuch sim::nosuch PAPI_nosuch generic/nosuch 'cycles nosuch' r01c2,int r01c2,pc; do
        steady EINVAL CS01 "$M/a/event" "$text"
    done
}

t_cs02_cs06_a_missing_counter_and_a_counter_that_cannot_count_the_event() {
    mount_sim
    pmc a
    steady EINVAL E19 "$M/a/config" 'event=cycles row=4'
    like "$(<"$M/a/error")" 'has rows 0-3'
    steady EINVAL E19 "$M/a/config" 'event=cycles row=63'
    steady EINVAL P02 "$M/a/config" 'event=cycles row=64'
    steady EINVAL P02 "$M/a/config" 'event=cycles row=-1'
    steady EINVAL E19 "$M/a/config" 'event=loads row=1'
    like "$(<"$M/a/error")" 'row=1 .*"loads"'
    steady EINVAL E19 "$M/a/config" 'row=1 event=cycles event=instructions'
    like "$(<"$M/a/error")" 'row=1 is a single row, and "cycles instructions" .*2 events'
}

t_cs07_illegal_flags() {
    mount_sim
    pmc a event=cycles
    local text
    for text in notify=x notify=-1 user=maybe kernel=2 start=yes start=soon lifetime=short interval=0 interval=1x row=many \
        count=-1 count=x count=18446744073709551616 count=1,2 logsize=none depth=0; do
        steady EINVAL P02 "$M/a/config" $text
    done
}

t_cs08_requests_that_contradict_each_other() {
    mount_sim sim_cpus=2,sim_class=left:4:48,sim_class=right:4:48
    pmc a event=left::cycles
    steady EINVAL CS08 "$M/a/event" 'left::cycles right::cycles'
    accepted "$M/a/event" 'left::cycles page-faults'
}

t_cs11_hypervisor_mode_is_refused_by_name() {
    mount_pmcfs
    pmc a
    steady EINVAL CS03 "$M/a/event" page-faults:h
    steady EINVAL E24 "$M/a/config" hypervisor=on
}

t_cx2_cx5_a_running_process_continues_without_pmcfs() {
    mount_sim
    target_start p
    pmc a event=cycles "target=${PID_OF[p]}"
    rmdir "$M/a"
    tell p faults 1
    pmc a event=cycles "target=${PID_OF[p]}"
    unmount_pmcfs
    tell p faults 1
}
