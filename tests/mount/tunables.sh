# shellcheck shell=bash disable=SC2016,SC2034
# Tunables: one value a file, the same names as mount options and in the configuration file.

t_all_tunables_are_there_with_their_defaults() {
    mount_pmcfs
    for name in callchaindepth logbuffersize nbuffers mincount \
        unprivileged_syspmcs unprivileged_proc_debug unprivileged_kernel strict_rows rootmode dirmode \
        readers max_pmcs max_pmcs_per_user max_events_per_process max_fds_per_user max_log_per_user \
        max_waiting_per_user max_covered_per_pmc attach_ms notify_ms threads; do
        cat "$M/admin/tunables/$name" >>"$T/values" || die "no $name"
    done
    for pair in callchaindepth=127 unprivileged_syspmcs=0 unprivileged_proc_debug=1 unprivileged_kernel=0 \
        strict_rows=0 rootmode=1777 dirmode=0700 max_pmcs_per_user=256 max_events_per_process=64 \
        max_covered_per_pmc=10000 notify_ms=20 mincount=1000; do
        is "$(head -1 "$M/admin/tunables/${pair%=*}")" "${pair#*=}" "${pair%=*}"
    done
}

t_a_write_out_of_range_names_the_range() {
    mount_pmcfs
    for pair in callchaindepth=513 nbuffers=0 mincount=0 notify_ms=0 notify_ms=99999999 strict_rows=2 attach_ms=x; do
        refused EINVAL '' "$M/admin/tunables/${pair%=*}" "${pair#*=}"
        like "$(cat "$M/info/last_error")" "${FAILED}EINVAL P27 admin/tunables/${pair%=*}: "
    done
    like "$(cat "$M/info/last_error")" 'attach_ms cannot be "x": write 10 to 60000 \(milliseconds\)$'
    accepted "$M/admin/tunables/notify_ms" 50
    is "$(cat "$M/admin/tunables/notify_ms")" 50
}

# Sizes of tables of hwpmc, which pmcfs does not have, and former tunables of pmcfs.
t_former_tunables_are_unknown_options() {
    mount_pmcfs
    local name
    for name in debugflags hashsize mtxpoolsize nsamples seccomp; do
        [[ ! -e $M/admin/tunables/$name ]] || die "$name is there"
        ! "$BIN" --check -o "$name=1" 2>"$T/printed" || die "$name is taken"
        like "$(cat "$T/printed")" "$name=1: unknown option"
    done
}

t_max_pmcs_is_enospc_and_per_user_edquot() {
    mount_pmcfs -o max_pmcs=6,max_pmcs_per_user=3
    for i in 1 2 3; do as "$ALICE" mkdir "$M/a$i"; done
    fails_with EDQUOT "as $ALICE mkdir $M/a4"
    like "$(as "$ALICE" cat "$M/info/last_error")" "${FAILED}EDQUOT P11 a4: mkdir: "
    for i in 1 2 3; do as "$BOB" mkdir "$M/b$i"; done
    fails_with ENOSPC "mkdir $M/c"
    like "$(cat "$M/info/last_error")" "${FAILED}ENOSPC P12 c: mkdir: "
    rmdir "$M/a1"
    as "$ALICE" mkdir "$M/a4"
}

t_max_events_per_process_is_not_for_the_superuser() {
    mount_pmcfs -o max_events_per_process=2
    target_start p "$ALICE"
    for i in 1 2 3; do as "$ALICE" sh -c "mkdir $M/a$i; echo page-faults >$M/a$i/event"; done
    for i in 1 2; do is "$(result_as "$ALICE" write "$M/a$i/target" "${PID_OF[p]}")" ok; done
    is "$(result_as "$ALICE" write "$M/a3/target" "${PID_OF[p]}")" EDQUOT
    for i in 1 2 3; do pmc r$i event=page-faults "target=${PID_OF[p]}"; done
}

t_callchaindepth_is_within_the_kernels_limit() {
    local limit
    limit=$(cat /proc/sys/kernel/perf_event_max_stack)
    ((limit <= 512)) || limit=512
    mount_pmcfs -o callchaindepth=$((limit + 1))
    is "$(head -1 "$M/admin/tunables/callchaindepth")" "$limit"
    grep -q "callchaindepth.*1 to $limit (kernel.perf_event_max_stack)" "$T/daemon"
}

t_readers_is_a_group_that_exists() {
    mount_pmcfs
    for name in nosuchgroup 4294967295 -1 0x10 'a b'; do
        refused EINVAL '' "$M/admin/tunables/readers" "$name"
        like "$(cat "$M/info/last_error")" "${FAILED}EINVAL P27 admin/tunables/readers: "
    done
    like "$(result write "$M/admin/tunables/readers" nosuchgroup; cat "$M/info/last_error")" 'no such group'
    is "$(cat "$M/admin/tunables/readers")" -
    for name in 0 4294967294 daemon -; do
        accepted "$M/admin/tunables/readers" "$name"
        is "$(cat "$M/admin/tunables/readers")" "$name"
    done
    # A user without the right to write gets EACCES, not the reason.
    exec {file}>"$M/admin/tunables/readers"
    fails_with EACCES "as $ALICE sh -c 'echo nosuchgroup >$M/admin/tunables/readers'"
}

#@ slow
t_readers_read_pmcs_shared_with_another_group_too() {
    mount_pmcfs -o "readers=$BOB,dirmode=0777"
    local file mode
    as "$ALICE" mkdir "$M/a"
    is "$(result_as "$ALICE" write "$M/a/event" page-faults)" ok
    # of MODE: access by the group of the PMC, by a reader, and by a user of neither group
    of() {
        as "$ALICE" chmod "$1" "$M/a"
        for file in count detail status; do
            setpriv --reuid 1003 --regid 1003 --groups "$ALICE" -- cat "$M/a/$file" >/dev/null
            as "$BOB" cat "$M/a/$file" >/dev/null
            fails_with EACCES "as 1002 cat $M/a/$file"
        done
        for file in config event target ctl samples error; do
            fails_with EACCES "as $BOB cat $M/a/$file"
            fails_with EACCES "as 1002 cat $M/a/$file"
        done
        for file in event ctl count; do
            is "$(result_as "$BOB" write "$M/a/$file" x) $(result_as 1002 write "$M/a/$file" x)" 'EACCES EACCES'
        done
        is "$(as "$BOB" cut -f 1 "$M/counts") $(as 1002 cut -f 1 "$M/counts")" 'a '
    }
    for mode in 750 u-w u+w 754 770 776; do of $mode; done
    as "$ALICE" chmod 705 "$M/a"
    as "$BOB" ls "$M/a" >/dev/null
    as 1002 cat "$M/a/count" >/dev/null
    fails_with EACCES "setpriv --reuid 1003 --regid 1003 --groups $ALICE -- cat $M/a/count"
    as "$ALICE" chmod 776 "$M/a"
    # The names that the kernel has cached for a former reader are checked again.
    exec {held}<"$M/a"
    accepted "$M/admin/tunables/readers" -
    fails_with EACCES "as $BOB cat /dev/fd/$held/count"
    eventually 5 '[[ $(stat -c %a "$M/a" "$M/a/count" | xargs) == "776 666" ]]'
    as "$ALICE" chmod 755 "$M/a"
    as 1002 cat "$M/a/count" "$M/a/config" >/dev/null
}

t_readers_takes_effect_when_it_is_written() {
    mount_pmcfs
    mkdir -m 700 "$M/a"
    accepted "$M/a/event" page-faults
    fails_with EACCES "as $BOB cat $M/a/count"
    accepted "$M/admin/tunables/readers" "$BOB"
    eventually 5 'as "$BOB" cat "$M/a/count" >/dev/null 2>&1'
    accepted "$M/admin/tunables/readers" -
    eventually 5 '! as "$BOB" cat "$M/a/count" >/dev/null 2>&1'
}
