# shellcheck shell=bash disable=SC2016,SC2034,SC2164
# SIGTERM in every situation: the tree goes, readers end, the daemon exits with 0 (unmount_pmcfs asks).

t_sigterm_with_running_pmcs() {
    mount_pmcfs
    target_start p
    for i in 1 2 3; do pmc "a$i" event=page-faults event=task-clock "target=${PID_OF[p]}"; done
    pmc b event=context-switches target=all
    unmount_pmcfs
    tell p faults 1
}

t_sigterm_while_busy() {
    mount_pmcfs
    pmc a event=page-faults target=self
    for _ in 1 2 3; do
        (while cat "$M/a/count" "$M/counts" "$M/metrics.prom"; do :; done) >/dev/null 2>&1 &
    done
    (while mkdir "$M/b" && [[ -e $M/b/count ]] && rmdir "$M/b"; do :; done) >/dev/null 2>&1 &
    sleep 0.3
    unmount_pmcfs
}

t_sigterm_with_blocked_readers() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults interval=60000 "target=${PID_OF[p]}"
    local readers=()
    for i in 1 2 3; do
        timeout 30 cat "$M/a/series" >"$T/series$i" &
        readers+=($!)
    done
    sleep 0.5
    unmount_pmcfs
    for pid in "${readers[@]}"; do
        end_within 5 "$pid" || [[ $? != 124 ]] || die "a reader is still blocked"
    done
}

t_sg4_x18_sigterm_with_held_files() {
    mount_pmcfs
    pmc a event=page-faults
    exec {count}<"$M/a/count" {ctl}>"$M/a/ctl" {stats}<"$M/info/stats"
    cd "$M/a"
    unmount_pmcfs
    ! cat <&"$count" 2>/dev/null || die "a file of the dead tree was read"
}

t_sigterm_with_a_bind_mount() {
    mount_pmcfs
    pmc a event=page-faults
    mkdir "$T/bound"
    mount --bind "$M" "$T/bound"
    unmount_pmcfs
    umount "$T/bound"
}

t_sigterm_twice() {
    mount_pmcfs
    kill -TERM "$DAEMON"
    unmount_pmcfs
}

t_sigkill_with_blocked_readers_blocks_nobody() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults interval=60000 "target=${PID_OF[p]}"
    local readers=()
    for _ in 1 2 3; do
        cat "$M/a/series" >/dev/null 2>&1 &
        readers+=($!)
    done
    sleep 0.5
    kill -KILL "$DAEMON"
    for pid in "${readers[@]}"; do
        end_within 5 "$pid" || [[ $? != 124 ]] || die "a reader is still blocked"
    done
    unset "DAEMON_OF[$M]"
    DAEMON=0
    umount -l "$M"
}

# Those who read at the time, and the daemon, end: the tree was unmounted by somebody else.
umount_with_blocked_readers() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults interval=60000 "target=${PID_OF[p]}"
    local readers=() rc=0 daemon=$DAEMON
    for _ in 1 2 3; do
        cat "$M/a/series" >/dev/null 2>&1 &
        readers+=($!)
    done
    sleep 0.5
    "$@" "$M"
    ! mountpoint -q "$M" || die "still mounted"
    kill "${readers[@]}" # it is gone by name only while somebody has a file open
    for pid in "${readers[@]}"; do
        end_within 5 "$pid" || [[ $? != 124 ]] || die "a reader is still blocked"
    done
    unset "DAEMON_OF[$M]"
    DAEMON=0
    end_within 10 "$daemon" || rc=$?
    is "$rc" 0 "exit status of pmcfs"
}

t_lazy_umount_with_blocked_readers() {
    umount_with_blocked_readers umount -l
}

t_fusermount_with_blocked_readers() {
    umount_with_blocked_readers fusermount3 -u -z
}

# It breaks the connection, then finds the tree busy: the readers end, and so does the daemon.
t_forced_umount_with_blocked_readers() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults interval=60000 "target=${PID_OF[p]}"
    cat "$M/a/series" >/dev/null 2>&1 &
    local reader=$! rc=0
    sleep 0.5
    umount -f "$M" 2>/dev/null || :
    end_within 5 "$reader" || [[ $? != 124 ]] || die "the reader is still blocked"
    end_within 10 "$DAEMON" || rc=$?
    is "$rc" 0 "exit status of pmcfs"
    ! mountpoint -q "$M" || die "still mounted"
    unset "DAEMON_OF[$M]"
    DAEMON=0
}

t_fusermount() {
    mount_pmcfs
    pmc a event=page-faults target=self
    fusermount3 -u "$M"
    local rc=0
    end_within 10 "$DAEMON" || rc=$?
    is "$rc" 0
    unset "DAEMON_OF[$M]"
    DAEMON=0
}

#@ reload
t_sigint_during_reloads() {
    mount_pmcfs
    target_start p
    for i in {1..20}; do pmc "a$i" event=page-faults "target=${PID_OF[p]}"; done
    cat "$M/a1/series" >/dev/null 2>&1 &
    (while cat "$M/counts"; do :; done) >/dev/null 2>&1 &
    local rc=0
    for _ in {1..20}; do kill -USR2 "$DAEMON"; done
    kill -INT "$DAEMON"
    kill -USR2 "$DAEMON" || :
    end_within 20 "$DAEMON" || rc=$?
    is "$rc" 0
    ! mountpoint -q "$M" || die "still mounted"
    unset "DAEMON_OF[$M]"
    DAEMON=0
    tell p faults 1
}

# With a reader that still waits for the dead one, and a process in that directory.
t_a_new_mount_over_the_stale_one() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults interval=60000 "target=${PID_OF[p]}"
    cat "$M/a/series" >/dev/null 2>&1 &
    (cd "$M/a" && exec sleep 30) &
    sleep 0.3
    kill -KILL "$DAEMON"
    wait "$DAEMON" || :
    DAEMON=0
    "$BIN" -f "$M" >>"$T/daemon" 2>&1 &
    DAEMON_OF["$M"]=$!
    eventually 10 'cat "$M/info/version" >/dev/null 2>&1'
    DAEMON=${DAEMON_OF[$M]}
    empty cat "$M/counts"
    pmc a event=page-faults "target=${PID_OF[p]}"
    unmount_pmcfs
}
