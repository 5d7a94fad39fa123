# shellcheck shell=bash disable=SC2016,SC2034,SC2164
# SIGTERM in every situation: the tree goes, readers end, the daemon exits with 0 (unmount_pmcfs asks).

t_sigterm_when_idle() {
    mount_pmcfs
    unmount_pmcfs
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

t_sigterm_with_held_files() {
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
