# shellcheck shell=bash
# Requests through io_uring: they get no more rights than the process has now, whatever its workers and personalities had.

need_uring() {
    ("$HELPERS/uring") || skip "the kernel forbids io_uring"
}

# uring STEP…: runs the steps, and prints their lines as one.
uring() { "$HELPERS/uring" "$@" | paste -s -d' '; }

t_everything_goes_through_io_uring() {
    need_uring
    mount_pmcfs
    is "$(uring mkdir "$M/u" open "$M/u/event" w write page-faults close open "$M/u/target" w write self close \
        mode "$M/u/event" open "$M/u/event" r read close)" 'ok ok ok ok ok ok ok 100600 ok page-faults ok'
    is "$(uring open "$M/u/ctl" r read rmdir "$M/u" open "$M/u/ctl" r)" 'ok exited ok ENOENT'
    is "$(as "$ALICE" "$HELPERS/uring" mkdir "$M/v" open "$M/v/config" w write 'event=task-clock target=cpu0' \
        rmdir "$M/v" | paste -s -d' ')" 'ok ok EPERM ok'
}

# After a short read io_uring repeats the read for the rest of its buffer, at the same offset.
t_a_text_is_read_once_and_then_at_its_end() {
    need_uring
    mount_pmcfs
    pmc a event=page-faults event=task-clock count=5,6
    local file size how
    for file in "$M"/a/{config,event,status,error} "$M"/{README,counts} "$M"/info/rows; do
        for size in 8192 100 7; do
            for how in workers inline; do
                cmp <("$HELPERS/uring" $how open "$file" r whole "$size" | sed 1d) "$file" ||
                    die "$file by $size, $how"
            done
        done
    done
}

t_a_stream_delivers_each_record_once_and_immediately() {
    need_uring
    mount_pmcfs
    target_start p
    pmc a event=page-faults log-exit=on "target=${PID_OF[p]}"
    "$HELPERS/uring" workers open "$M/a/samples" r whole 4096 >printed.workers &
    local readers=($!)
    "$HELPERS/uring" inline open "$M/a/samples" r whole 4096 >printed.inline &
    readers+=($!)
    eventually 10 'grep -q " process " printed.workers && grep -q " process " printed.inline'
    echo hello >"$M/a/samples"
    eventually 10 'grep -q hello printed.workers && grep -q hello printed.inline'
    target_end p
    wait "${readers[@]}"
    is "$(sed 1,2d printed.workers)" "$(sed 1d "$M/a/samples")"
    is "$(sed 1,2d printed.inline)" "$(sed 1d "$M/a/samples")"
}

# A worker created by the superuser still exists after the process gives up its rights.
t_a_worker_has_no_more_rights_than_its_process() {
    need_uring
    mount_pmcfs
    as "$ALICE" mkdir "$M/a"
    as "$ALICE" sh -c "echo task-clock >$M/a/event"
    mkdir "$M/r"
    echo task-clock >"$M/r/event"
    is "$(uring open "$M/r/target" w write cpu0 close)" 'ok ok ok' 'the superuser'
    ctl r detach
    is "$(uring workers become "$ALICE" none open "$M/a/target" w write cpu0)" 'ok EPERM' 'another user since'
    is "$(uring workers become 0 none open "$M/r/target" w write cpu0)" 'ok EPERM' 'without capabilities since'
    empty cat "$M/a/target" "$M/r/target"
}

t_a_personality_has_no_rights_of_its_user() {
    need_uring
    mount_pmcfs
    as "$ALICE" mkdir "$M/a"
    as "$ALICE" sh -c "echo task-clock >$M/a/event"
    mkdir "$M/r"
    echo task-clock >"$M/r/event"
    # uid 0 with all capabilities, used by a thread that no longer has them
    is "$(uring personality become "$ALICE" none open "$M/r/target" w write cpu0)" 'ok EPERM'
    empty cat "$M/r/target"
}

t_a_worker_has_no_groups_that_its_process_gave_up() {
    need_uring
    mount_pmcfs -o readers=1234
    pmc private event=page-faults
    chmod 700 "$M/private"
    local user=(setpriv --reuid "$ALICE" --regid "$ALICE" --groups 1234 --inh-caps +setgid --ambient-caps +setgid)
    like "$("${user[@]}" "$HELPERS/uring" workers open "$M/counts" r read)" private
    is "$("${user[@]}" "$HELPERS/uring" workers regroup 1235 open "$M/counts" r read)" ok
}

# The personality has the same user and other rights, but another group.
t_a_uring_personality_of_another_group_does_not_read_by_its_users_groups() {
    need_uring
    mount_pmcfs -o readers=1234
    pmc private event=page-faults
    chmod 700 "$M/private"
    local user=(setpriv --reuid "$ALICE" --regid "$ALICE" --clear-groups --inh-caps +setgid --ambient-caps +setgid)
    like "$("${user[@]}" "$HELPERS/uring" gid 1235 regroup 1234 open "$M/counts" r read)" private
    is "$("${user[@]}" "$HELPERS/uring" personality gid 1235 regroup 1234 open "$M/counts" r read)" ok
}
