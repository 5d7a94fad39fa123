# shellcheck shell=bash disable=SC2016
# Row dispositions (R01-R08 and their consequences) and their concepts (H), on simulated PMUs of unusual shapes.
# shellcheck source=tests/mount/reference_lib.sh
. "${BASH_SOURCE[0]%/*}/reference_lib.sh"

t_h03_h04_scope_and_use_are_independent() {
    mount_sim
    target_start p
    pmc a event=cycles
    is "$(cat "$M/a/mode") $(status a scope)" 'process-counting process'
    pmc b event=cycles target=cpu1
    is "$(cat "$M/b/mode") $(status b scope)" 'system-counting system'
    # A process PMC counts while its target runs; a system PMC needs no process.
    is "$(count a)" 0
    between "$(count b)" 1 1000000000000
}

t_h06_one_owner_mixes_scopes_and_many_owners_are_there_at_once() {
    mount_sim
    pmc a event=cycles
    pmc b event=cycles mode=SC target=cpu0-1
    pmc c event=instructions
    as "$ALICE" mkdir "$M/d"
    is "$(result_as "$ALICE" write "$M/d/config" event=cycles)" ok
    is "$(dispositions | tr ' ' '\n' | sort | xargs)" 'FREE STANDALONE THREAD THREAD'
    # Alice's PMC shares the row of one of them.
    is "$(awk '$1 == 0 { print $7 }' "$M/info/rows" | sort | xargs)" '0 1 1 2'
}

t_h09_classes_of_different_width_and_size() {
    mount_sim 'sim_cpus=0-3\,6,sim_class=big:4:48:0-1,sim_class=little:2:32:2-3\,6'
    is "$(awk '$1 ~ /big|little/ { print $1, $3, $5, $NF }' "$M/info/classes" | xargs)" 'big 4 48 0-1 little 2 32 2-3,6'
    is "$(cat "$M/info/npmc")" 6
    pmc a event=little::cycles target=all
    is "$(awk -F'\t' '$2 ~ /cpu/ { print $2 }' "$M/a/detail" | xargs)" 'cpu:2 cpu:3 cpu:6'
    steady EINVAL P30 "$M/a/target" cpu0
    pmc b event=little::cycles
    empty awk '$4 == "big" && $5 != "FREE"' "$M/info/rows"
    # As many as the small class has, whatever the big one has left.
    steady EINVAL E19 "$M/b/event" 'little::cycles little::loads little::cycles'
    accepted "$M/b/event" 'big::cycles big::loads big::cycles'
}

t_h09_a_cpu_has_only_the_slots_of_its_class() {
    mount_sim 'sim_cpus=4,sim_class=big:4:48:0-1,sim_class=little:2:32:2-3'
    local cpu slots
    for cpu in 0 1 2 3; do
        slots=$(awk -v cpu=$cpu '$1 == cpu { print $2 }' "$M/info/rows" | xargs)
        is "$(cd "$M/admin/cpu$cpu" && printf '%s\n' * | sort -n | xargs)" "$slots" "admin/cpu$cpu"
    done
    is "$(result write "$M/admin/cpu2/0" disabled)" ENOENT
    is "$(row 0 0 disposition)" FREE
}

t_r01_r02_process_pmcs_count_up_and_down() {
    mount_sim 'sim_cpus=0-1\,3,sim_rows=2'
    for n in 1 2 3; do pmc a$n row=1 event=cycles; done
    for cpu in 0 1 3; do
        is "$(row $cpu 1 disposition) $(row $cpu 1 users)" 'THREAD 3'
    done
    rmdir "$M/a2"
    is "$(row 3 1 disposition) $(row 3 1 users)" 'THREAD 2'
    rmdir "$M/a1"
    accepted "$M/a3/config" 'row=any event=page-faults'
    is "$(dispositions)" 'FREE FREE'
}

t_r01_a_row_with_system_pmcs_is_not_for_processes() {
    mount_sim 'sim_cpus=0-1\,3,sim_rows=2'
    pmc s row=0 event=cycles target=cpu3
    pmc a
    steady EINVAL E19 "$M/a/config" 'row=0 event=cycles'
    accepted "$M/a/event" cycles
    is "$(dispositions)" 'STANDALONE THREAD'
}

t_r03_r04_ce05_system_pmcs_count_down_and_up() {
    mount_sim 'sim_cpus=0-1\,3,sim_rows=2'
    pmc a row=1 event=cycles target=cpu0
    pmc b row=1 event=cycles target=cpu3
    is "$(row 0 1 pmc) $(row 1 1 pmc) $(row 3 1 pmc)" 'a - b'
    pmc c mode=SC
    steady EINVAL E19 "$M/c/config" 'row=1 event=cycles target=cpu0'
    steady EINVAL E19 "$M/c/config" 'row=1 event=cycles target=cpu0-1'
    accepted "$M/c/config" 'row=1 event=cycles target=cpu1'
    rmdir "$M/a" "$M/b"
    is "$(dispositions)" 'FREE STANDALONE'
    rmdir "$M/c"
    is "$(dispositions)" 'FREE FREE'
}

t_r03_a_row_with_process_pmcs_is_not_for_system_scope() {
    mount_sim 'sim_cpus=0-1\,3,sim_rows=2'
    pmc a row=0 event=cycles
    pmc b mode=SC
    steady EINVAL E19 "$M/b/config" 'row=0 event=cycles target=cpu3'
    steady EINVAL E19 "$M/b/config" 'event=loads target=cpu0' # even rows only
    accepted "$M/b/config" 'event=cycles target=all'
    is "$(dispositions)" 'THREAD STANDALONE'
}

t_op09_r05_r06_r07_a_disabled_slot_makes_its_row_standalone() {
    mount_sim 'sim_cpus=0-1\,3,sim_rows=2'
    local before
    before=$(world)
    accepted "$M/admin/cpu3/0" enabled
    is "$(cat "$M/admin/cpu3/0") $(world)" "enabled $before"
    accepted "$M/admin/cpu3/0" disabled
    before=$(world)
    accepted "$M/admin/cpu3/0" disabled
    is "$(cat "$M/admin/cpu3/0") $(world)" "disabled $before"
    is "$(row 3 0 state) $(row 0 0 state) $(row 0 0 disposition)" 'disabled enabled STANDALONE'
    pmc a
    steady EINVAL 'E19' "$M/a/config" 'row=0 event=cycles'
    # The other CPUs' slots are still there for system scope.
    pmc b row=0 event=cycles target=cpu1
    accepted "$M/admin/cpu3/0" enabled
    is "$(row 3 0 state) $(row 0 0 disposition)" 'enabled STANDALONE'
    rmdir "$M/b"
    is "$(dispositions)" 'FREE FREE'
}

t_r08_attach_and_start_change_no_disposition() {
    mount_sim 'sim_cpus=0-1\,3,sim_rows=2'
    target_start p
    pmc a event=cycles autostart=off
    pmc b event=cycles mode=SC target=cpu3 autostart=off
    local before
    before=$(dispositions)
    attach a "${PID_OF[p]}"
    for verb in start stop start; do
        ctl a $verb
        is "$(dispositions)" "$before" "after $verb"
    done
    ctl a detach
    target_end p
    is "$(dispositions)" "$before"
}

t_rows_shared_by_owners_clash_at_attach() {
    mount_sim sim_cpus=2,sim_rows=1
    target_start p "$ALICE"
    as "$ALICE" mkdir "$M/a"
    is "$(result_as "$ALICE" write "$M/a/config" "event=cycles target=${PID_OF[p]}")" ok
    pmc b event=cycles
    is "$(row 0 0 users)" 2
    steady EBUSY E05 "$M/b/target" "${PID_OF[p]}"
    as "$ALICE" rmdir "$M/a"
    attach b "${PID_OF[p]}"
}

t_op13_rows_are_all_free_after_every_kind_of_end() {
    mount_sim 'sim_cpus=0-1\,3,sim_rows=3'
    target_start p
    pmc a event=wide "target=${PID_OF[p]}"
    pmc b event=cycles target=all
    pmc c event=wide
    local before
    before=$(dispositions)
    is "$(tr ' ' '\n' <<<"$before" | sort | xargs)" 'STANDALONE THREAD THREAD'
    target_end p
    eventually 5 '[[ $(state a) == exited ]]'
    is "$(dispositions)" "$before" 'a row belongs to its PMC until release'
    for name in b a c; do rmdir "$M/$name"; done
    is "$(dispositions)" 'FREE FREE FREE'
}

t_op05_c17_cf02_cf03_cf04_info_has_the_values_of_getcpuinfo() {
    mount_sim 'sim_cpus=0-1\,3,sim_rows=5'
    is "$(cat "$M/info/npmc")" 5
    is "$(sed -n 's/^possible //p' "$M/info/cpus")" '0-1,3'
    like "$(grep '^sim ' "$M/info/classes")" '^sim rows 5 width 48 capabilities interrupt,user,system[a-z,]* cpus 0-1,3$'
    [[ $(<"$M/info/cpu") ]] || die 'info/cpu is empty'
}

t_op06_the_drivers_numbers_follow_what_happens() {
    mount_pmcfs
    target_start p
    local -A before
    local name
    for name in intr_processed syscalls syscall_errors buffer_requests log_sweeps; do
        before[$name]=$(stat_value $name)
    done
    pmc a event=page-faults period=1 "target=${PID_OF[p]}"
    tell p faults 300
    eventually 5 'tell p faults 10; ((before[log_sweeps] < $(stat_value log_sweeps)))'
    ctl a stop
    is "$(result write "$M/a/ctl" nonsense)" EINVAL
    grew() { echo $(($(stat_value "$1") - before[$1])); }
    between "$(grew intr_processed)" 300 100000
    between "$(grew syscalls)" 4 300000
    between "$(grew syscall_errors)" 1 10
    between "$(grew buffer_requests)" 300 100000
}

# Only plain: without memory for records nothing is saved for a reload.
#@ plain
t_b04_records_that_a_log_without_memory_refuses_are_counted() {
    mount_pmcfs -o max_log_per_user=600
    is "$(stat_value buffer_requests_failed)" 0
    pmc a event=page-faults
    is "$(result fill "$M/a/samples" 900 x)" ENOMEM
    between "$(stat_value buffer_requests_failed)" 1 10
}

t_op08_the_values_of_getpmcinfo() {
    mount_sim 'sim_cpus=0-1\,3,sim_rows=2'
    pmc a row=1 event=cycles target=cpu3
    accepted "$M/admin/cpu1/0" disabled
    is "$(awk '$1 == 3 && $2 == 1 { $10 = "PID"; print }' "$M/info/rows")" '3 1 sim-1 sim STANDALONE enabled 1 a 0 PID cycles - -'
    is "$(awk '$1 == 1 && $2 == 0' "$M/info/rows")" '1 0 sim-0 sim STANDALONE disabled 0 - - - - - -'
}
