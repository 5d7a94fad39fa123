# shellcheck shell=bash disable=SC2016
# The errors of hwpmc (E, X) at the file that corresponds: errno, id, and that nothing has changed.
# shellcheck source=tests/mount/reference_lib.sh
. "${BASH_SOURCE[0]%/*}/reference_lib.sh"

t_e03_a_row_of_process_pmcs_is_not_disabled() {
    mount_sim 'sim_cpus=0-1\,3,sim_rows=2'
    pmc a row=1 event=cycles
    for cpu in 0 1 3; do
        steady EBUSY E03 "$M/admin/cpu$cpu/1" disabled
    done
    rmdir "$M/a"
    accepted "$M/admin/cpu3/1" disabled
}

t_e04_the_slot_of_a_system_pmc_is_not_administered() {
    mount_sim 'sim_cpus=0-1\,3,sim_rows=2'
    pmc a row=1 event=cycles target=cpu3
    steady EBUSY E04 "$M/admin/cpu3/1" disabled
    steady EBUSY E04 "$M/admin/cpu3/1" enabled
    accepted "$M/admin/cpu1/1" disabled
}

t_e05_two_pmcs_of_one_row_do_not_cover_one_process() {
    mount_sim sim_cpus=2,sim_rows=3
    target_start p
    pmc a row=0 event=cycles "target=${PID_OF[p]}"
    pmc b row=0 event=cycles
    steady EBUSY E05 "$M/b/target" "${PID_OF[p]}"
    pmc c event=loads "target=${PID_OF[p]}"
    pmc d event=loads
    steady EBUSY E05 "$M/d/target" "${PID_OF[p]}"
    rmdir "$M/a"
    attach b "${PID_OF[p]}"
}

t_e06_e07_a_running_count_is_not_written() {
    mount_sim
    target_start p
    pmc a event=page-faults target=cpu0
    pmc b event=cycles "target=${PID_OF[p]}"
    for name in a b; do
        steady EBUSY E06 "$M/$name/count" 5
        steady EBUSY E07 "$M/$name/config" count=5
        ctl $name stop
        accepted "$M/$name/count" 5
    done
}

t_e10_attached_already() {
    mount_sim
    target_start p
    pmc a event=cycles "target=${PID_OF[p]}"
    steady EEXIST E10 "$M/a/target" "${PID_OF[p]}"
    pmc b event=cycles target=cpu1
    steady EEXIST E10 "$M/b/target" cpu1
}

t_e11_a_bad_address_is_refused_by_the_kernel() {
    mount_sim
    pmc a event=cycles
    local before
    before=$(world)
    timeout 60 /usr/bin/python3 -B - "$M"/a/{config,event,mode,target,ctl,count} <<'P'
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for name in sys.argv[1:]:
    fd = os.open(name, os.O_RDWR)
    for call in libc.write, libc.read:
        assert call(fd, ctypes.c_void_p(8), 100) == -1, (name, call)
        assert ctypes.get_errno() == errno.EFAULT, (name, ctypes.get_errno())
P
    is "$(world)" "$before"
}

t_e12_e13_e16_e18_names_that_do_not_exist_are_enoent() {
    mount_sim 'sim_cpus=0-1\,3,sim_rows=2'
    for file in nopmc/config nopmc/ctl nopmc/target nopmc/count admin/cpu2/0 admin/cpu4/0 \
        admin/cpux/0 admin/cpu0/2 admin/cpu0/x admin/cpu-1/0 admin/tunables/none; do
        is "$(result write "$M/$file" disabled)" ENOENT "$file"
    done
}

t_e08_log_csw_or_log_exit_without_a_log() {
    mount_pmcfs
    target_start p
    for key in log-csw log-exit; do
        pmc a event=page-faults log=off $key=on
        steady EDESTADDRREQ E08 "$M/a/target" "${PID_OF[p]}"
        accepted "$M/a/config" autostart=off "target=${PID_OF[p]}"
        steady EDESTADDRREQ E08 "$M/a/ctl" start
        rmdir "$M/a"
    done
}

t_e09_st1_sampling_without_a_log() {
    mount_pmcfs
    target_start p
    pmc a event=cpu-clock freq=99 log=off
    steady EDESTADDRREQ E09 "$M/a/target" "${PID_OF[p]}"
    pmc b event=cpu-clock mode=SS log=off autostart=off
    accepted "$M/b/target" cpu0
    steady EDESTADDRREQ E09 "$M/b/ctl" start
    accepted "$M/b/config" log=on
    accepted "$M/b/ctl" start
    pmc c event=cpu-clock mode=TS log=off
    steady EDESTADDRREQ E09 "$M/c/target" self
}

t_e02_a_log_that_is_on_is_accepted_as_it_is() {
    mount_pmcfs
    target_start p
    pmc a event=cpu-clock freq=99 "target=${PID_OF[p]}"
    accepted "$M/a/samples" before
    accepted "$M/a/config" log=on # a setting given the value it has
    is "$(state a)" running
    ctl a stop
    is "$(timeout 40 grep -c ' user text=before$' "$M/a/samples")" 1
}

t_x13_e14_e15_e31_the_log_where_there_is_none() {
    mount_sim
    pmc a event=cycles log=off
    steady EINVAL E14 "$M/a/ctl" close
    steady EINVAL E15 "$M/a/ctl" flush
    steady EINVAL E31 "$M/a/samples" hello
    accepted "$M/a/config" log=on
    accepted "$M/a/ctl" flush
    accepted "$M/a/samples" hello
    # A PMC without an event has a log too.
    pmc b
    accepted "$M/b/samples" hello
}

#@ slow
t_e17_e20_e24_x06_x17_words_that_do_not_exist() {
    mount_sim
    pmc a event=cycles
    for text in off 1 free enabled/disabled; do
        steady EINVAL E17 "$M/admin/cpu0/0" "$text"
    done
    for text in counting process 4 -1 ts-sampling; do
        steady EINVAL E20 "$M/a/mode" "$text"
        steady EINVAL E20 "$M/a/config" "mode=$text"
    done
    for text in flags=1 descendant=on 0x10=on event=cycles\ precise=2; do
        steady EINVAL E24 "$M/a/config" "$text"
    done
    steady EINVAL E24 "$M/a/config" descendents=on
    like "$(<"$M/a/error")" 'descendents.*descendants'
    steady EINVAL X06 "$M/a/event" nosuch::cycles
    steady EINVAL X06 "$M/a/event" nosuch/cycles/
    like "$(<"$M/a/error")" 'nosuch'
    for text in begin 'start now' attach; do
        steady EINVAL X17 "$M/a/ctl" "$text"
    done
}

t_e19_no_row_left() {
    mount_sim 'sim_cpus=0-1\,3,sim_rows=3'
    pmc s1 event=loads target=cpu0
    pmc s2 event=loads target=all
    pmc s3
    steady EINVAL E19 "$M/s3/config" 'event=loads target=cpu0'
    like "$(<"$M/s3/error")" '"loads".*row 0.*row 2'
    steady EINVAL E19 "$M/s3/config" 'event=wide target=cpu0'
    steady EINVAL E19 "$M/s3/config" 'event=page-faults event=cycles event=instructions target=cpu0'
    like "$(<"$M/s3/error")" 'for "cycles instructions": it needs 2 .*row 1 is free'
    steady EINVAL E19 "$M/s3/event" 'cycles cycles cycles cycles'
    accepted "$M/s3/config" 'event=cycles target=cpu0'
}

t_e21_a_cpu_number_that_cannot_exist() {
    mount_sim 'sim_cpus=0-1\,3'
    pmc a event=cycles mode=SC
    for text in cpu4 cpu8192 cpu3-4 cpu4294967296; do
        steady EINVAL E21 "$M/a/target" "$text"
    done
    like "$(result write "$M/a/target" cpu4; cat "$M/a/error")" 'EINVAL E21 target: .*highest number is 3'
}

t_e26_a_process_for_a_system_pmc() {
    mount_sim
    target_start p
    pmc a event=cycles target=cpu0
    for text in "${PID_OF[p]}" self "tid:${PID_OF[p]}" "-${PID_OF[p]}" 4194001; do # before E44
        steady EINVAL E26 "$M/a/target" "$text"
    done
    pmc b event=cycles mode=SC
    steady EINVAL E26 "$M/b/target" 4194001
}

t_e27_illegal_words_and_numbers_of_processes() {
    mount_sim
    pmc a event=cycles
    for text in 0 -0 1.5 0x10 99999999999 tid: tid:0 tid:x cpu cpux cpu1-0 cpu0-x cgroup: selfish - --1 1,x; do
        steady EINVAL E27 "$M/a/target" "$text"
    done
}

t_e28_detaching_a_target_that_is_not_attached() {
    mount_sim
    target_start p
    target_start q
    pmc a event=cycles "target=${PID_OF[p]}"
    ctl a stop
    steady EINVAL E28 "$M/a/target" "-${PID_OF[q]}"
    pmc b event=cycles target=cpu0
    steady EINVAL E28 "$M/b/target" -cpu1
}

t_e34_the_slots_of_an_offline_cpu() {
    mount_sim 'sim_cpus=0-1\,3,sim_offline=3'
    steady ENXIO E34 "$M/admin/cpu3/0" disabled
    steady ENXIO E34 "$M/admin/cpu3/0" enabled
    steady ENXIO E34 "$M/admin/cpu3/0" nonsense
}

t_e35_the_class_lacks_the_capability() {
    mount_pmcfs
    pmc a event=page-faults
    for text in page-faults,edge task-clock,inv page-faults,cmask=1 context-switches,any; do
        steady EOPNOTSUPP E35 "$M/a/event" "$text"
    done
}

t_e36_what_raises_no_interrupt_is_not_sampled() {
    mount_sim
    pmc a event=wide
    is "$(sed -n 's/^sampling //p' "$M/events/sim/wide")" no
    for text in period=1000 freq=99 mode=TS; do
        steady EOPNOTSUPP E36 "$M/a/config" $text
    done
    steady EOPNOTSUPP E36 "$M/a/mode" SS
    pmc b event=cycles freq=99
    steady EOPNOTSUPP E36 "$M/b/event" wide
    pmc c
    steady EOPNOTSUPP E36 "$M/c/config" 'event=package freq=99 target=cpu0'
}

t_e37_ce07_absent_and_offline_cpus() {
    mount_sim 'sim_cpus=0-1\,3-4,sim_offline=4'
    pmc a event=cycles mode=SC
    steady ENXIO E37 "$M/a/target" cpu2
    steady ENXIO E37 "$M/a/target" cpu4
    steady ENXIO E37 "$M/a/target" 'cpu0 cpu2'
    steady ENXIO E37 "$M/a/target" cpu0-2
    attach a all
    is "$(grep -c 'cpu:' "$M/a/detail")" 3
}

t_e44_ce09_cx9_no_such_process() {
    mount_sim
    pmc a event=cycles
    steady ESRCH E44 "$M/a/target" 4194001
    steady ESRCH E44 "$M/a/target" tid:4194001
    steady ESRCH E44 "$M/a/target" -4194001
}

t_x02_ce10_ce12_stopped_before_any_start() {
    mount_sim
    target_start p
    pmc a event=cycles autostart=off "target=${PID_OF[p]}"
    steady EINVAL X02 "$M/a/ctl" stop
    pmc b event=cycles mode=SC
    steady EINVAL X02 "$M/b/ctl" stop
}

#@ slow
t_e22_e23_x04_x05_settings_that_a_mode_refuses() {
    mount_sim
    pmc a event=cycles mode=TC
    pmc b event=cycles mode=SC
    steady EINVAL E22 "$M/a/target" cpu0
    steady EINVAL E22 "$M/a/target" all
    [[ $(<"$M/a/error") == *'or another mode to mode' ]]
    accepted "$M/a/target" $$
    steady EINVAL E22 "$M/a/target" cpu0
    [[ $(<"$M/a/error") == *'or first "detach" to ctl' ]]
    accepted "$M/a/ctl" detach
    steady EINVAL E23 "$M/b/ctl" start
    steady EINVAL E23 "$M/b/ctl" restart
    for name in a b; do
        steady EINVAL X04 "$M/$name/config" callchain=user
        steady EINVAL P07 "$M/$name/config" callchain=on
        like "$(<"$M/$name/error")" 'callchain.*counting|counting.*callchain'
    done
    for key in descendants log-csw log-exit; do
        steady EINVAL X05 "$M/b/config" $key=on
        like "$(<"$M/b/error")" "$key.*system|system.*$key"
    done
}

t_x08_only_disabled_slots_would_fit() {
    mount_sim 'sim_cpus=0-1\,3,sim_rows=3'
    accepted "$M/admin/cpu3/0" disabled
    pmc a event=loads target=cpu3
    is "$(status a row)" 2 'a disabled row is skipped'
    rmdir "$M/a"
    accepted "$M/admin/cpu3/2" disabled
    pmc a
    steady EPERM X08 "$M/a/config" 'event=loads target=cpu3'
    accepted "$M/a/config" 'event=loads target=cpu0'
}

t_h08_x19_x20_x21_open_files_of_a_released_pmc_are_enodev() {
    mount_sim
    pmc a event=cycles
    local fds=() name fd
    for name in config event mode target ctl count; do
        exec {fd}<>"$M/a/$name"
        fds+=("$fd")
    done
    rmdir "$M/a"
    for fd in "${fds[@]}"; do
        is "$(result fd "$fd" start)" ENODEV
        fails_with ENODEV "cat <&$fd"
    done
    # The same name again is another PMC.
    pmc a event=loads
    for fd in "${fds[@]}"; do
        is "$(result fd "$fd" 1)" ENODEV
    done
    is "$(state a) $(cat "$M/a/event")" 'allocated loads'
}

# If several errors are present, the order of the reference system decides which is reported.

t_order_of_checks_at_admin() {
    mount_sim 'sim_cpus=0-1\,3,sim_offline=3,sim_rows=2'
    pmc a row=0 event=cycles
    BY=("${POWERLESS[@]}")
    steady EPERM E39 "$M/admin/cpu3/0" nonsense
    BY=()
    steady ENXIO E34 "$M/admin/cpu3/0" nonsense
    steady ENXIO E34 "$M/admin/cpu3/0" 'several words'
    steady EINVAL E17 "$M/admin/cpu0/0" nonsense
    steady EBUSY E03 "$M/admin/cpu0/0" disabled
}

t_e40_order_of_checks_at_attach() {
    mount_sim
    target_start bobs "$BOB"
    target_start mine "$ALICE"
    as "$ALICE" mkdir "$M/a" "$M/b"
    is "$(result_as "$ALICE" write "$M/a/config" "row=0 event=cycles target=${PID_OF[mine]}")" ok
    is "$(result_as "$ALICE" write "$M/b/config" 'row=0 event=cycles')" ok
    accepted "$M/b/target" "${PID_OF[bobs]}"
    BY=(as "$ALICE")
    steady EINVAL E27 "$M/b/target" "${PID_OF[bobs]} 0"
    steady ESRCH E44 "$M/b/target" 4194001
    steady EPERM E40 "$M/b/target" "${PID_OF[bobs]}" # before E10
    steady EEXIST E10 "$M/a/target" "${PID_OF[mine]}"
    steady EBUSY E05 "$M/b/target" "${PID_OF[mine]}"
}

t_order_of_checks_at_allocate() {
    mount_sim 'sim_cpus=0-1\,3,sim_rows=2'
    as "$ALICE" mkdir "$M/a"
    BY=(as "$ALICE")
    steady EINVAL E20 "$M/a/config" 'mode=none event=cycles target=cpu9 descendants=on'
    steady EINVAL E22 "$M/a/config" 'mode=TC event=cycles target=cpu2'
    steady EINVAL E21 "$M/a/config" 'mode=SC event=cycles target=cpu9'
    steady ENXIO E37 "$M/a/config" 'mode=SC event=cycles target=cpu2'
    steady EPERM X07 "$M/a/config" 'mode=SC event=cycles target=cpu1'
}
