# shellcheck shell=bash disable=SC2016,SC2086
# Rows and their administration, on a simulated PMU of 4 CPUs and 4 rows.

# shellcheck source=tests/mount/reference_lib.sh
. "${BASH_SOURCE[0]%/*}/reference_lib.sh"

dispositions() { awk 'NR > 1 && $1 == 0 { print $5 }' "$M/info/rows" | sort | uniq -c | xargs; }

t_h05_info_rows_has_a_line_per_cpu_and_row() {
    mount_sim
    is "$(head -1 "$M/info/rows")" 'cpu row name class disposition state users pmc uid pid event flags reload'
    is "$(tail -n +2 "$M/info/rows" | wc -l)" 16
    is "$(dispositions)" '4 FREE'
    empty awk 'NF != 13' "$M/info/rows"
    like "$(cat "$M/info/npmc")" '^[0-9]+$'
}

# row_end PMC: flags and reload count of the row on CPU 0 that shows this PMC.
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
    empty awk 'NF != 13' "$M/info/rows"
}

t_strict_rows_refuse_as_hwpmc_does() {
    mount_sim sim_cpus=4,sim_rows=4,strict_rows=1
    for i in 1 2 3 4; do pmc a$i event=cycles; done
    pmc a5
    refused EINVAL E19 "$M/a5/event" cycles
}

t_strict_rows_apply_to_later_commands() {
    mount_sim sim_cpus=1,sim_rows=2
    sleep 60 &
    pmc a event=cycles row=0 "target=$!"
    pmc b
    accepted "$M/b/config" 'event=cycles row=0'
    accepted "$M/b/config" 'event=page-faults row=any'
    accepted "$M/admin/tunables/strict_rows" 1
    refused EINVAL E19 "$M/b/config" 'event=cycles row=0'
    accepted "$M/b/config" 'event=cycles row=1'
    accepted "$M/admin/tunables/strict_rows" 0
    accepted "$M/b/config" 'event=cycles row=0'
}

# Only the variant asan can see old rows: each step there loads the records. Plain shows that the attach moves the row.
t_a_pmc_that_makes_room_for_another_stays_on_its_new_row() {
    mount_sim sim_cpus=1,sim_rows=2
    sleep 60 &
    pmc a event=cycles "target=$!"
    local row
    row=$(awk '$8 == "a" { print $2 }' "$M/info/rows")
    pmc b event=cycles "row=$row" "target=$!"
    is "$(awk 'NR > 1 { print $8 }' "$M/info/rows" | sort | xargs)" 'a b'
    rmdir "$M/b"
    pmc c event=cycles "row=$row" target=cpu0
    is "$(awk -v row="$row" 'NR > 1 { print $2 == row, $5, $8 }' "$M/info/rows" | sort | xargs)" '0 THREAD a 1 STANDALONE c'
}

t_multiplex_takes_no_row() {
    mount_sim
    for i in {1..6}; do pmc a$i event=cycles multiplex=on; done
    is "$(dispositions)" '4 FREE'
}

t_a_given_row_of_a_class_without_rows_is_refused() {
    mount_sim
    local text
    pmc a
    for text in 'row=3 event=page-faults' 'event=page-faults row=3' 'event=page-faults multiplex=on row=0'; do
        unchanged "$M/a" "refused EINVAL E19 '$M/a/config' '$text'"
        like "$(cat "$M/a/error")" '"page-faults" belongs to class "software", which has no rows'
    done
    accepted "$M/a/config" 'row=any event=page-faults'
    unchanged "$M/a" 'refused EINVAL E19 "$M/a/config" row=3'
    pmc b row=2
    unchanged "$M/b" 'refused EINVAL E19 "$M/b/event" page-faults'
    accepted "$M/b/event" 'page-faults cycles' # row= applies to events that need a row
    is "$(row 0 2 disposition)" THREAD
    unchanged "$M/b" 'refused EINVAL E19 "$M/b/event" page-faults'
}

t_rows_hide_pmcs_that_the_reader_may_not_read() {
    mount_sim
    pmc a event=cycles
    as "$ALICE" cat "$M/info/rows" >"$T/rows"
    ! grep -q 'cycles' "$T/rows" || die "the event is shown to others: $(grep cycles "$T/rows")"
    grep -q other "$T/rows"
}

t_rows_show_the_creators_pid_in_the_readers_namespace() {
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
    pmc a event=cycles row=0 target=$$
    pmc b event=cycles row=1 mode=SC target=cpu0
    accepted "$M/admin/cpu0/3" disabled
    local before
    before=$(cat "$M/info/rows")
    is "$(dispositions)" '1 FREE 2 STANDALONE 1 THREAD'
    accepted "$M/admin/probe" 1
    is "$(cat "$M/info/rows")" "$before"
    like "$(cat "$M/admin/probe")" '^[0-9]+$'
    refused EINVAL '' "$M/admin/probe" 2
    is "$(cat "$M/info/rows")" "$before"
}

t_lost_hardware_is_eio_and_state_lost() {
    mount_sim sim_cpus=4,sim_rows=4,sim_lose_after_ms=1500
    pmc a event=cycles mode=SC target=cpu0
    eventually 10 '! cat "$M/a/count" >/dev/null 2>&1'
    fails_with EIO "cat $M/a/count"
    is "$(state a)" lost
    like "$(cat "$M/a/error")" '^EIO P21 count: '
    grep -qx 'pmcfs_state{pmc="a",state="lost"} 1' "$M/metrics.prom"
    is "$(status a partial)" yes
    grep -q 'cpu:0' "$M/a/detail"
    ctl a start
    is "$(state a)" running
}
