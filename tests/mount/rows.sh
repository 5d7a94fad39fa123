# shellcheck shell=bash disable=SC2016,SC2086
# Rows and their administration, INTERFACE section 6, on a simulated PMU of 4 CPUs and 4 rows.

# row CPU ROW COLUMN-NAME
row() {
    awk -v cpu="$1" -v row="$2" -v name="$3" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $at["cpu"] == cpu && $at["row"] == row { print $at[name] }' "$M/info/rows"
}

dispositions() { awk 'NR > 1 && $1 == 0 { print $5 }' "$M/info/rows" | sort | uniq -c | xargs; }

t_h05_info_rows_has_a_line_per_cpu_and_row() {
    mount_sim
    is "$(head -1 "$M/info/rows")" 'cpu row name class disposition state users pmc uid pid event flags reload'
    is "$(tail -n +2 "$M/info/rows" | wc -l)" 16
    is "$(dispositions)" '4 FREE'
    is "$(awk 'NF != 13' "$M/info/rows")" ''
    like "$(cat "$M/info/npmc")" '^[0-9]+$'
}

t_a_process_pmc_makes_its_row_thread_and_release_frees_it() {
    mount_sim
    pmc a event=cycles
    is "$(dispositions)" '3 FREE 1 THREAD'
    grep -q ' THREAD .* a 0 ' "$M/info/rows"
    rmdir "$M/a"
    is "$(dispositions)" '4 FREE'
}

t_a_system_pmc_makes_its_row_standalone() {
    mount_sim
    pmc a event=cycles mode=SC target=cpu1
    is "$(dispositions)" '3 FREE 1 STANDALONE'
    rmdir "$M/a"
    is "$(dispositions)" '4 FREE'
}

# row_end PMC: the flags and the reload count where it is the oldest.
row_end() { awk -v pmc="$1" '$1 == 0 && $8 == pmc { print $12, $13 }' "$M/info/rows"; }

t_info_rows_has_flags_and_the_reload_count() {
    mount_sim
    pmc a event=cycles period=5000 callchain=on descendants=on
    pmc b event=cycles log-csw=on log-exit=on
    pmc c event=cycles freq=100
    is "$(row_end a)" 'descendants,callchain 5000'
    is "$(row_end b)" 'log-csw,log-exit -'
    is "$(row_end c)" '- -'
    accepted "$M/a/config" period=7000
    is "$(row_end a)" 'descendants,callchain 7000'
    is "$(awk 'NF != 13' "$M/info/rows")" ''
}

t_the_same_event_twice_takes_two_rows() {
    mount_sim
    pmc a event=cycles
    pmc b event=cycles
    is "$(dispositions)" '2 FREE 2 THREAD'
}

t_exhaust_then_release_in_reverse() {
    mount_sim
    for i in 1 2 3 4; do pmc s$i event=cycles mode=SC target=cpu0; done
    pmc s5 mode=SC
    refused EINVAL E19 "$M/s5/config" 'event=cycles target=cpu0'
    like "$(cat "$M/s5/error")" 'cycles'
    is "$(state s5)" new
    for i in 4 3 2 1; do rmdir "$M/s$i"; done
    is "$(dispositions)" '4 FREE'
    accepted "$M/s5/config" 'event=cycles target=cpu0'
}

t_process_pmcs_share_rows_and_the_limit_is_per_process() {
    mount_sim
    target_start p
    target_start q
    for i in 1 2 3 4 5 6; do pmc a$i event=cycles; done
    for i in 1 2 3 4; do attach a$i "${PID_OF[p]}"; done
    refused EBUSY E05 "$M/a5/target" "${PID_OF[p]}"
    attach a5 "${PID_OF[q]}"
    attach a6 "${PID_OF[q]}"
}

t_strict_rows_refuse_as_hwpmc_does() {
    mount_sim sim_cpus=4,sim_rows=4,strict_rows=1
    for i in 1 2 3 4; do pmc a$i event=cycles; done
    pmc a5
    refused EINVAL E19 "$M/a5/event" cycles
}

t_multiplex_takes_no_row() {
    mount_sim
    for i in {1..6}; do pmc a$i event=cycles multiplex=on; done
    is "$(dispositions)" '4 FREE'
}

t_a_given_row_is_asked_for() {
    mount_sim
    pmc a row=2 event=cycles
    is "$(row 0 2 disposition)" THREAD
    pmc b row=2 event=cycles mode=SC
    refused EINVAL E19 "$M/b/target" cpu0
    pmc c
    refused EINVAL 'E19|P02' "$M/c/config" 'row=77 event=cycles'
    refused EINVAL E19 "$M/c/config" 'row=1 event=cycles event=instructions'
    like "$(cat "$M/c/error")" 'row=1 is one row.*2 events'
}

t_a_given_row_of_a_class_without_rows_is_refused() {
    mount_sim
    local text
    pmc a
    for text in 'row=3 event=page-faults' 'event=page-faults row=3' 'event=page-faults multiplex=on row=0'; do
        unchanged "$M/a" "refused EINVAL E19 '$M/a/config' '$text'"
        like "$(cat "$M/a/error")" '"page-faults" is of class "software", which has no rows'
    done
    accepted "$M/a/config" 'row=any event=page-faults'
    unchanged "$M/a" 'refused EINVAL E19 "$M/a/config" row=3'
    pmc b row=2
    unchanged "$M/b" 'refused EINVAL E19 "$M/b/event" page-faults'
    accepted "$M/b/event" 'page-faults cycles' # the row is for those that have rows
    is "$(row 0 2 disposition)" THREAD
    unchanged "$M/b" 'refused EINVAL E19 "$M/b/event" page-faults'
}

t_a_set_is_all_or_nothing() {
    mount_sim
    pmc a
    refused EINVAL 'E19|CS08' "$M/a/event" 'cycles instructions cycles instructions cycles'
    is "$(dispositions)" '4 FREE'
    accepted "$M/a/event" 'cycles instructions cycles instructions'
    is "$(dispositions)" '4 THREAD'
}

t_software_events_have_no_rows() {
    mount_sim
    for i in {1..6}; do pmc a$i event=page-faults; done
    is "$(dispositions)" '4 FREE'
}

t_op09_disabling_a_slot_and_enabling_it() {
    mount_sim
    is "$(cat "$M/admin/cpu1/0")" enabled
    accepted "$M/admin/cpu1/0" disabled
    accepted "$M/admin/cpu1/0" disabled
    is "$(cat "$M/admin/cpu1/0") $(row 1 0 state) $(row 0 0 disposition)" 'disabled disabled STANDALONE'
    pmc a event=cycles
    is "$(row 0 0 disposition)" STANDALONE 'the disabled row is skipped'
    accepted "$M/admin/cpu1/0" enabled
    is "$(row 0 0 disposition)" FREE
    for word in off disable 'disabled enabled'; do
        refused EINVAL '' "$M/admin/cpu1/0" "$word"
        like "$(cat "$M/info/last_error")" '^EINVAL E17 '
    done
}

t_rows_in_use_cannot_be_disabled() {
    mount_sim
    pmc a row=0 event=cycles
    refused EBUSY '' "$M/admin/cpu0/0" disabled
    like "$(cat "$M/info/last_error")" '^EBUSY E03 '
    pmc b row=1 event=cycles mode=SC target=cpu2
    refused EBUSY '' "$M/admin/cpu2/1" disabled
    like "$(cat "$M/info/last_error")" '^EBUSY E04 '
    accepted "$M/admin/cpu3/1" disabled
}

t_only_disabled_slots_left_is_eperm() {
    mount_sim
    for i in 0 1 2 3; do accepted "$M/admin/cpu0/$i" disabled; done
    pmc a mode=SC
    refused EPERM X08 "$M/a/config" 'event=cycles target=cpu0'
    accepted "$M/a/config" 'event=cycles target=cpu1'
}

t_what_does_not_exist_is_enoent() {
    mount_sim
    fails_with ENOENT "cat $M/admin/cpu0/4"
    fails_with ENOENT "cat $M/admin/cpu9/0"
}

t_administration_is_for_the_superuser() {
    mount_sim
    fails_with EACCES "as $ALICE sh -c 'echo disabled >$M/admin/cpu0/0'"
    is "$(result_by setpriv --bounding-set=-all --inh-caps=-all -- write "$M/admin/cpu0/0" disabled)" EPERM
    is "$(cat "$M/admin/cpu0/0")" enabled
}

t_rows_hide_what_the_reader_may_not_know() {
    mount_sim
    pmc a event=cycles
    as "$ALICE" cat "$M/info/rows" >"$T/rows"
    ! grep -q 'cycles' "$T/rows" || die "the event is shown to others: $(grep cycles "$T/rows")"
    grep -q other "$T/rows"
}

t_rows_name_the_maker_as_the_reader_knows_it() {
    mount_sim
    pmc a event=cycles
    is "$(row 0 0 pid)" - 'mkdir(1) is gone'
    python <<'P' || die "the maker is not shown"
import os, subprocess, sys
def pid():
    return [l.split()[9] for l in open(sys.argv[1] + "/info/rows") if l.split()[7] == "b"][0]
os.mkdir(sys.argv[1] + "/b")
with open(sys.argv[1] + "/b/event", "w") as f:
    f.write("cycles")
assert pid() == str(os.getpid()), pid()
inside = subprocess.run(["unshare", "--pid", "--fork", "awk", '$8 == "b" { print $10; exit }',
                         sys.argv[1] + "/info/rows"], capture_output=True, text=True)
assert inside.stdout == "-\n", inside
P
    is "$(row 0 1 pid)" -
}

t_h10_sparse_cpus() {
    mount_sim 'sim_cpus=0-1\,5,sim_rows=2'
    is "$(sed -n 's/^possible //p' "$M/info/cpus")" 0-1,5
    is "$(tail -n +2 "$M/info/rows" | cut -d' ' -f1 | sort -nu | xargs)" '0 1 5'
    pmc a event=cycles mode=SC target=cpu5
    refused ENXIO 'E37' "$M/a/target" cpu3
    accepted "$M/a/config" target=cpu0-1
    fails_with ENOENT "cat $M/admin/cpu3/0"
}

t_probing_again_is_harmless() {
    mount_sim
    accepted "$M/admin/probe" 1
    is "$(dispositions)" '4 FREE'
}

t_counts_of_the_simulated_pmu_grow_while_the_target_runs() {
    mount_sim
    pmc a event=cycles event=instructions mode=SC target=cpu0
    mapfile -t v <"$M/a/count"
    sleep 0.05
    mapfile -t w <"$M/a/count"
    [[ ${w[0]} -gt ${v[0]} && ${w[1]} -gt ${v[1]} ]] || die "did not grow: ${v[*]} ${w[*]}"
}

t_lost_hardware_is_seen() {
    mount_sim sim_cpus=4,sim_rows=4,sim_lose_after_ms=100
    pmc a event=cycles mode=SC target=cpu0
    sleep 0.3
    fails_with EIO "cat $M/a/count"
    is "$(state a)" lost
    like "$(cat "$M/a/error")" '^EIO P21 count: '
    grep -qx 'pmcfs_state{pmc="a",state="lost"} 1' "$M/metrics.prom"
    like "$(status a partial)" '^(1|yes)$'
    grep -q 'cpu:0' "$M/a/detail"
    ctl a start
    is "$(state a)" running
}
