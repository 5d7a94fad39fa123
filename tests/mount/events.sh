# shellcheck shell=bash disable=SC2016,SC2012
# Spellings of events, and what events/ lists.

t_a_processor_event_without_a_pmu_is_refused_with_the_reason() {
    [[ ! -d /sys/bus/event_source/devices/cpu ]] || skip "this machine has a PMU"
    mount_pmcfs
    pmc a
    for text in cycles instructions instructions:u r01c2 perf_raw::r01c2 perf::PERF_COUNT_HW_CPU_CYCLES cycles,usr; do
        refused EOPNOTSUPP P09 "$M/a/event" $text
    done
    [[ ! -d $M/events/cpu ]] || die "events/cpu lists what cannot be counted"
}

t_f09_q20_the_pmu_form_from_the_machines_own_files() {
    [[ -e /sys/bus/event_source/devices/msr/events/tsc ]] || skip "no msr PMU in this machine"
    mount_pmcfs
    pmc a event=msr/tsc/ target=cpu0
    local before
    before=$(count a)
    sleep 0.1
    between "$(($(count a) - before))" 1000000 100000000000
    pmc b event=msr/event=0/ target=cpu0
    [[ $(count b) -gt 0 ]] || die "counted nothing"
    refused EINVAL CS01 "$M/a/event" msr/nonsense/
    [[ -e $M/events/msr/tsc ]] || die "not listed"
}

t_a_tracepoint_counts_and_is_listed() {
    with_tracefs
    mount_pmcfs
    target_start p
    pmc a event=sched:sched_switch "target=${PID_OF[p]}"
    tell p sleep 50
    between "$(count a)" 50 500
    [[ -e $M/events/tracepoint/sched:sched_switch ]] || die "not listed"
}

t_tracepoints_without_tracefs_work_or_are_refused_with_the_reason() {
    [[ ! -e /sys/kernel/tracing/events ]] || umount /sys/kernel/tracing || skip "tracefs is mounted and in use"
    mount_pmcfs
    pmc a
    [[ $(result write "$M/a/event" sched:sched_switch) == ok ]] ||
        like "$(cat "$M/a/error")" '^EOPNOTSUPP P09 event: .*tracefs'
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

t_kernel_raised_events_are_counted_completely_for_all_users() {
    mount_pmcfs
    target_start p "$ALICE"
    as "$ALICE" mkdir "$M/a"
    as "$ALICE" sh -c "echo event=context-switches target=${PID_OF[p]} >$M/a/config"
    tell p sleep 50
    between "$(count a)" 50 500
}

#@ slow
t_op19_a_listed_event_names_the_word_to_write_and_counts() {
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

#@ slow
t_every_listed_event_of_every_class_can_be_written() {
    mount_pmcfs
    mkdir "$M/a"
    local n=0 tracepoints=0
    while read -r file; do
        accepted "$M/a/event" "$(sed -n '1s/^event //p' "$file")"
        n=$((n + 1))
    done < <(find "$M/events" -type f ! -path '*/tracepoint/*')
    between "$n" 15 1000000 'events listed' # ten are software events, in two classes
    while read -r file && ((tracepoints < 20)); do
        accepted "$M/a/event" "$(sed -n '1s/^event //p' "$file")"
        tracepoints=$((tracepoints + 1))
    done < <(find "$M/events" -type f -path '*/tracepoint/*')
    [[ ! -e $M/events/tracepoint ]] || is "$tracepoints" 20 tracepoints
}

t_generic_names_map_to_what_this_machine_has() {
    mount_sim
    [[ $(ls "$M/events/generic") ]] || die "a simulated PMU has generic events"
    for file in "$M"/events/generic/*; do
        pmc a "event=$(sed -n '1s/^event //p' "$file")"
        rmdir "$M/a"
    done
    pmc a
    for text in PAPI_tot_ins tot_ins generic/tot_ins generic/PAPI_tot_ins generic/instructions; do
        accepted "$M/a/event" "$text"
        is "$(status a event)" sim::instructions "$text"
    done
    event_refused PAPI_tot_inz 'did you mean PAPI_tot_ins'
    event_refused generic/tot_inz 'did you mean tot_ins'
}

t_a_breakpoint_kind_that_the_processor_lacks_is_refused_by_name() {
    mount_pmcfs
    mkdir "$M/a"
    [[ $(result write "$M/a/event" mem:0x1000:rw) == ok ]] || skip 'no breakpoints here'
    [[ $(uname -m) == x86_64 ]] || skip 'only x86 is known to lack one'
    refused EOPNOTSUPP P09 "$M/a/event" mem:0x1000:r
    like "$(cat "$M/a/error")" 'lacks this length or access .*needs rw'
}

t_more_breakpoints_than_the_processor_has_are_refused_at_event() {
    mount_pmcfs
    target_start p
    pmc a
    [[ $(result write "$M/a/event" mem:0x1000:rw) == ok ]] || skip 'no breakpoints here'
    refused EINVAL E19 "$M/a/event" "$(printf 'mem:0x%x/8:w ' {4096..5376..64})"
    like "$(cat "$M/a/error")" 'breakpoint registers'
}

t_a_breakpoint_in_the_kernel_is_refused_with_its_reason() {
    mount_pmcfs
    target_start p
    pmc a
    [[ $(result write "$M/a/event" mem:0xffffffff81000000/4:rw:k) == ok ]] || skip 'no breakpoints here'
    refused EOPNOTSUPP P09 "$M/a/config" "event=mem:0xffffffff81000000/4:rw:u target=${PID_OF[p]}"
    like "$(cat "$M/a/error")" 'kernel address.*kernel=on'
    refused EOPNOTSUPP P09 "$M/a/config" "event=mem:0xffffffff81000001/4:rw kernel=on target=${PID_OF[p]}"
    like "$(cat "$M/a/error")" 'not aligned'
}

# event_refused TEXT REGEX: the text is refused as misspelt, with a matching sentence.
event_refused() {
    is "$(result write "$M/a/event" "$1")" EINVAL "$1"
    like "$(cat "$M/a/error")" "^EINVAL (X06|CS0[134]) event: .*$2" "$1"
}

#@ slow
t_the_wrong_part_of_a_spelling_is_named() {
    mount_pmcfs
    pmc a
    event_refused cycels '"cycels".*did you mean cycles'
    event_refused mgrations '"mgrations".*did you mean migrations'
    event_refused interupts 'did you mean interrupts'
    event_refused PERF_COUNT_SW_PAGE_FALTS 'did you mean PERF_COUNT_SW_PAGE_FAULTS'
    event_refused PAPI_tot_inz '"PAPI_tot_inz".*PAPI_tot_ins'
    event_refused generic/tot_inz '"tot_inz".*did you mean tot_ins'
    event_refused generic/ 'no generic event "".*events/generic'
    event_refused page-faults,usrr 'no event "usrr"'
    event_refused page-faults,cmsk=1 '"cmsk".*did you mean cmask'
    event_refused page-faults,cmask=two 'cmask takes a number, not "two"'
    event_refused page-faults:ux 'no modifier "ux"'
    event_refused page-faults/u '"page-faults" is an event, not a PMU.*page-faults:u'
    event_refused software/page-faults/ "without '/': page-faults"
    event_refused event=page-faults '"event=page-faults" is a setting, not an event: write it to config'
    event_refused page-faults,period=1000 '"period=1000" is a setting'
    event_refused r01c2z 'no event "r01c2z"'
    event_refused mem 'mem:0xADDRESS'
    event_refused mem:0x1000:rwz '"rwz" is not a valid access'
    event_refused mem:0x1000/3 '"3" is not a valid length'
    event_refused sky::INST_RETIRED 'no PMU "sky".*skl'
    event_refused nopmu/event=1/ 'no PMU "nopmu"'
    # Names as paths below events/, as `ls events/software` suggests them.
    event_refused software/page-faults 'written without ./..*: page-faults$'
    event_refused software/page-faults:u 'written without ./..*: page-faults:u$'
    event_refused software/ 'written without ./..*: page-faults$'
    event_refused tracepoint/ 'written without ./..*: sched:sched_switch$'
}

#@ slow
t_the_wrong_part_of_a_tracepoint_is_named() {
    with_tracefs
    mount_pmcfs
    pmc a
    event_refused sched:sched_swich 'no tracepoint "sched_swich" in group "sched".*sched_switch'
    event_refused sched:switch '"switch" in group "sched".*sched_switch'
    event_refused shed:sched_switch '"shed".*sched:sched_switch'
    event_refused sched_switch '"sched_switch".*did you mean sched:sched_switch'
    event_refused sched.sched_switch 'did you mean sched:sched_switch'
    event_refused sched/sched_switch 'no PMU "sched".*tracepoints are written GROUP:NAME'
    event_refused sched:sched_switch:x 'no modifier "x"'
    event_refused probe:nosuch 'no tracepoint "nosuch" in group "probe"'
    event_refused probe:x 'no tracepoint "x" in group "probe"'
    event_refused nosuch:bar:u 'no tracepoint "bar" in group "nosuch"'
    unlike "$(cat "$M/a/error")" 'hardware'
}

t_patterns_and_terms_of_tracepoints_are_not_supported() {
    mount_pmcfs
    pmc a
    for pattern in 'sched:*' 'sched:sched_sw*' 'sched:sched_sw?tch' 'page-[f]aults' '*:*'; do
        event_refused "$pattern" 'is a pattern, and patterns are not supported'
    done
    for filter in 'sched:sched_switch/pid==1/' 'sched:sched_switch/filter=pid==1/' 'nosuch:x/a=1/'; do
        event_refused "$filter" "(filters are not part of an event: write \"${filter%%/*}\" here and filter=|filter=EXPRESSION)"
    done
}

t_the_wrong_part_of_the_pmu_form_is_named() {
    [[ -e /sys/bus/event_source/devices/msr/events/tsc ]] || skip "no msr PMU in this machine"
    mount_pmcfs
    pmc a
    event_refused mrs/tsc/ 'no PMU "mrs".*did you mean msr'
    event_refused msr/tcs/ 'msr has no event or term "tcs".*did you mean tsc'
    event_refused msr/evnt=1/ 'msr has no term "evnt".*did you mean event'
    event_refused msr/event=1g/ '"1g" is not a valid value for event'
    event_refused msr/tsc "no closing '/'.*: write msr/tsc/\$"
    event_refused msr/tsc:u "no closing '/'.*: write msr/tsc/u\$"
    event_refused msr/tsc,period=5/ 'write period=N to config'
    event_refused msr/tsc/u 'cannot be counted for user or kernel mode alone.*write msr/tsc/'
    event_refused tsc:u 'cannot be counted for user or kernel mode alone.*write msr/tsc/'
}

t_a_pmu_of_other_machines_is_refused_as_absent() {
    mount_pmcfs
    pmc a
    for pmu in amd_l3 arm_cmn_0 nvidia_scf_pmu_0; do
        [[ ! -e /sys/bus/event_source/devices/$pmu ]] || continue
        refused EOPNOTSUPP P09 "$M/a/event" "$pmu/event=1/"
        like "$(cat "$M/a/error")" "no PMU \"$pmu\" .it belongs to other hosts"
    done
}

t_a_pmu_that_only_traces_is_refused() {
    [[ -e /sys/bus/event_source/devices/uprobe ]] || skip "no uprobe PMU in this machine"
    mount_pmcfs
    pmc a
    refused EOPNOTSUPP P09 "$M/a/event" uprobe/x/
    [[ ! -e $M/events/uprobe ]] || die 'listed'
    ! grep -q '^uprobe ' "$M/info/classes" || die 'a class'
}

t_a_value_with_a_unit_shows_the_unit() {
    mount_sim
    grep -q '^unit Joules$' "$M"/events/*/package || die 'the simulated PMU has none'
    local scale
    scale=$(sed -n 's/^scale //p' "$M"/events/*/package)
    pmc a event=package target=cpu0
    like "$(count a)" '^[0-9]+$' 'the raw integer'
    like "$(status a unit)" 'Joules'
    like "$(awk -F'\t' '$1 == "package" { print $8, $9; exit }' "$M/a/detail")" "^Joules $scale\$"
    like "$(grep '^pmcfs_count_total{' "$M/metrics.prom")" 'unit="Joules"'
    like "$(cut -f 3 "$M/counts")" '^[0-9]+$' 'counts: the raw integer'
}

# The suffixes of generic_events(3CPC).
generic_names() {
    printf '%s\n' tot_cyc tot_ins tot_iis br_{ins,cn,ucn,tkn,ntk,prc,msp} bru_idl btac_m ld_ins sr_ins \
        lst_ins lsu_idl syc_ins csr_{fal,suc,tot} mem_{rcy,wcy,scy} \
        l{1,2,3}_{dc{a,h,m,r,w},ic{a,h,m,r,w},tc{a,h,m,r,w},ldm,stm} ca_{snp,shr,cln,inv,itv} prf_dm \
        tlb_{dm,im,sd,tl,tm} fp_{ins,ops,stal} f{ad,ml,dv,sq,ma,nv}_ins fpu_idl fxu_idl int_ins vec_ins \
        stl_{icy,ccy} ful_{icy,ccy} res_stl hw_int
}

# Each is listed and accepted, or neither, and then the name is in the sentence. One program writes all, because a reload
# opens all events once to see which can be counted.
#@ slow
t_all_generic_names_are_known_with_and_without_their_prefix() {
    mount_pmcfs
    pmc a
    is "$(generic_names | wc -l)" 104
    # shellcheck disable=SC2046 # word splitting is intended
    python $(generic_names) <<'P'
import errno, os, re, sys
root = sys.argv[1]
for name in sys.argv[2:]:
    for spelling in name, "PAPI_" + name:
        listed = os.path.exists(root + "/events/generic/PAPI_" + name)
        fd = os.open(root + "/a/event", os.O_WRONLY)
        try:
            os.write(fd, spelling.encode())
            assert listed, spelling + " counts and is not listed"
        except OSError as e:
            text = open(root + "/a/error").read()
            assert e.errno == errno.EOPNOTSUPP, text
            assert not listed, spelling + " is listed and does not count"
            assert re.match(r'EOPNOTSUPP P09 event: (PAPI_%s \(.+\)|"%s") cannot be counted here: ' % (name, spelling), text), text
        os.close(fd)
P
}

forbid_perf() { forbid_call 298 241; }

t_a_seccomp_filter_is_named_as_the_reason() {
    forbid_perf
    mount_pmcfs
    pmc a
    refused EOPNOTSUPP P09 "$M/a/event" page-faults
    like "$(cat "$M/a/error")" '"page-faults": a seccomp filter of its container or service'
    refused EOPNOTSUPP P09 "$M/a/event" cycles
    like "$(cat "$M/a/error")" 'a seccomp filter of its container or service'
    like "$(cat "$M/info/backend")" 'hardware_pmu no: .*a seccomp filter of its container or service'
    [[ ! -e $M/events/software/page-faults ]] || die 'listed'
}

t_lockdown_is_named_as_a_reason() {
    mount -t tmpfs tmpfs /sys/kernel/security 2>/dev/null || skip 'no place for securityfs'
    echo 'none integrity [confidentiality]' >/sys/kernel/security/lockdown
    forbid_perf
    mount_pmcfs
    pmc a
    refused EOPNOTSUPP P09 "$M/a/event" page-faults
    like "$(cat "$M/a/error")" 'the kernel is locked down \(confidentiality\)'
}

t_the_value_of_perf_event_paranoid_is_shown() {
    echo 4 >"$T/paranoid"
    mount --bind "$T/paranoid" /proc/sys/kernel/perf_event_paranoid || skip 'no sysctl here'
    mount_pmcfs
    like "$(cat "$M/info/backend")" 'perf_event_paranoid 4'
}

t_neither_mode_is_refused_for_every_event() {
    mount_pmcfs
    pmc a
    for text in page-faults context-switches task-clock minor-faults; do
        refused EINVAL P07 "$M/a/config" "event=$text user=off kernel=off"
        like "$(cat "$M/a/error")" "user=off and kernel=off: .$text. would count nothing"
    done
    accepted "$M/a/config" event=page-faults
    refused EINVAL P07 "$M/a/config" 'kernel=off user=off'
    # One of them off is accepted. A modifier of the event (:u) overrides both.
    accepted "$M/a/config" user=off
    refused EINVAL P07 "$M/a/config" kernel=off
    accepted "$M/a/config" 'event=page-faults:u user=off kernel=off'
    as "$ALICE" mkdir "$M/b"
    is "$(result_as "$ALICE" write "$M/b/config" 'event=page-faults user=off')" EINVAL
    like "$(cat "$M/b/error")" '^EINVAL P07 config: .*you may not count it .that needs CAP_PERFMON'
}

t_a_colon_or_two_commas_with_nothing_after_them_are_refused() {
    mount_pmcfs
    pmc a
    for text in 'page-faults,,' 'page-faults,usr,,' 'page-faults,,task-clock'; do
        event_refused "$text" "',' at the end of .* needs a word after it"
    done
    event_refused page-faults: "':' at the end of .* needs a word after it"
    mount_sim
    pmc a
    for text in 'cycles,,' 'cycles,usr,,' 'sim/cycles/,,'; do
        event_refused "$text" "',' at the end of .* needs a word after it"
    done
    event_refused cycles: "':' at the end of .* needs a word after it"
}
