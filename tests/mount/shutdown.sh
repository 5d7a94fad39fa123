# shellcheck shell=bash disable=SC2016,SC2034,SC2164
# SIGTERM in every situation: the tree goes, readers end, the daemon exits with 0 (unmount_pmcfs checks).

# waiting_readers N: starts N readers of the series of PMC a; READERS has their PIDs. Each has received its first line.
waiting_readers() {
    mount_pmcfs "${@:2}"
    target_start p
    pmc a event=page-faults interval=60000 "target=${PID_OF[p]}"
    READERS=()
    local i
    for ((i = 0; i < $1; i++)); do
        cat "$M/a/series" >"$T/series$i" 2>/dev/null &
        READERS+=($!)
        eventually 10 "[[ -s $T/series$i ]]"
    done
}

readers_end() {
    local pid
    for pid in "${READERS[@]}"; do
        end_within 5 "$pid" || [[ $? != 124 ]] || die "a reader is still blocked"
    done
}

# daemon_exits: waits until the daemon exits with status 0 and the tree is unmounted. Sets DAEMON to 0.
daemon_exits() {
    local rc=0
    end_within 20 "$DAEMON" || rc=$?
    is "$rc" 0 "exit status of pmcfs"
    ! mountpoint -q "$M" || die "still mounted"
    daemon_is_gone
}

daemon_is_gone() {
    unset "DAEMON_OF[$M]"
    DAEMON=0
}

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

# A notification about the name of a released instance waits for the lock of the directory, which mkdir(2) and lookups
# hold until they are answered.
#@ slow plain
t_sigterm_while_names_vanish_leaves_no_request_without_an_answer() {
    local client i
    for i in {1..25}; do
        mount_pmcfs
        (while mkdir "$M/instances/i" && echo release >"$M/admin/instances/i/ctl"; do :; done) >/dev/null 2>&1 &
        client=$!
        sleep 0.2
        unmount_pmcfs
        eventually 10 "[[ ! -d /proc/$client ]]"
    done
}

t_sigterm_with_blocked_readers() {
    waiting_readers 3
    unmount_pmcfs
    readers_end
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
    waiting_readers 3 -o single
    kill -KILL "$DAEMON"
    readers_end
    daemon_is_gone
    umount -l "$M"
}

t_sigkill_of_the_supervisor_with_blocked_readers_blocks_nobody() {
    SUPERVISED=1 waiting_readers 3
    kill -KILL "$DAEMON"
    readers_end
    daemon_is_gone
    eventually 5 "! mountpoint -q $M"
}

# Readers and the daemon exit after another program has unmounted the tree.
umount_with_blocked_readers() {
    waiting_readers 3
    "$@" "$M"
    ! mountpoint -q "$M" || die "still mounted"
    kill "${READERS[@]}" # after umount -l the tree lives while one of them has a file open
    readers_end
    daemon_exits
}

t_lazy_umount_with_blocked_readers() {
    umount_with_blocked_readers umount -l
}

t_fusermount_with_blocked_readers() {
    umount_with_blocked_readers fusermount3 -u -z
}

# umount -f aborts the connection, then finds the tree busy: the readers and the daemon exit.
t_forced_umount_with_blocked_readers() {
    waiting_readers 1
    umount -f "$M" 2>/dev/null || :
    readers_end
    daemon_exits
}

t_fusermount() {
    mount_pmcfs
    pmc a event=page-faults target=self
    fusermount3 -u "$M"
    daemon_exits
}

#@ reload
t_sigint_during_reloads() {
    mount_pmcfs
    target_start p
    for i in {1..20}; do pmc "a$i" event=page-faults "target=${PID_OF[p]}"; done
    cat "$M/a1/series" >/dev/null 2>&1 &
    (while cat "$M/counts"; do :; done) >/dev/null 2>&1 &
    for _ in {1..20}; do kill -USR2 "$DAEMON"; done
    kill -INT "$DAEMON"
    kill -USR2 "$DAEMON" || :
    daemon_exits
    tell p faults 1
}

# A reader still waits for the dead daemon, and a process has its working directory in the tree.
t_a_new_mount_replaces_a_stale_one_in_use() {
    waiting_readers 1 -o single
    (cd "$M/a" && exec sleep 30) &
    eventually 5 "[[ \$(readlink /proc/$!/cwd) == */a ]]"
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
