# shellcheck shell=bash disable=SC2016,SC2034,SC2154
# The environment of pmcfs: full disks, out of memory, unmounting under load.

# clients_start: starts clients of all kinds, which work until the tree is gone; CLIENTS has their PIDs.
clients_start() {
    target_start p
    pmc a event=page-faults interval=10 "target=${PID_OF[p]}"
    pmc s event=cpu-clock freq=500 target=all
    (while cat "$M/a/count" && cat "$M/counts"; do :; done) >/dev/null 2>&1 &
    CLIENTS=($!)
    (while mkdir "$M/b" && echo event=page-faults target=self >"$M/b/config" && rmdir "$M/b"; do :; done) >/dev/null 2>&1 &
    CLIENTS+=($!)
    for file in a/series s/samples s/samples.perf; do
        cat "$M/$file" >/dev/null 2>&1 &
        CLIENTS+=($!)
    done
    sleep 0.3
}

clients_end() {
    local pid rc
    for pid in "${CLIENTS[@]}"; do
        rc=0
        end_within 10 "$pid" || rc=$?
        is "$((rc == 124))" 0 "client $pid is still there"
    done
}

daemon_has_exited() {
    local rc=0
    end_within 20 "$DAEMON" || rc=$?
    is "$rc" 0 "exit status of pmcfs"
    unset "DAEMON_OF[$M]"
    DAEMON=0
}

#@ slow
t_clients_and_daemon_exit_after_a_lazy_unmount_under_load() {
    mount_pmcfs
    clients_start
    umount -l "$M"
    kill "${CLIENTS[@]:2}" # the tree is gone by name only while streams of it are open
    clients_end
    daemon_has_exited
}

#@ slow
t_clients_exit_after_sigterm_under_load() {
    mount_pmcfs
    clients_start
    unmount_pmcfs
    clients_end
}

#@ slow
t_clients_and_daemon_exit_after_an_unmount_of_the_mount_above_under_load() {
    mkdir "$T/above"
    mount -t tmpfs tmpfs "$T/above"
    T=$T/above mount_pmcfs
    clients_start
    umount -l "$T/above"
    kill "${CLIENTS[@]:2}"
    clients_end
    daemon_has_exited
}

t_a_write_to_a_full_disk_is_a_failure() {
    local rc
    for option in --help --version; do
        rc=0
        "$BIN" $option >/dev/full 2>"$T/printed" || rc=$?
        is "$rc" 1 "exit status of $option"
        like "$(<"$T/printed")" 'No space left on device' "$option"
    done
}

# The messages of the daemon are lost and new programs cannot find it; it reports that and serves requests.
t_the_daemon_serves_when_run_and_its_messages_are_on_full_disks() {
    mount -t tmpfs -o size=4k,nr_inodes=2 tmpfs /run
    head -c 8192 /dev/zero >/run/full 2>/dev/null || :
    RUN_DAEMON=(sh -c 'exec "$@" 2>&1 >/dev/full' sh)
    mount_pmcfs
    [[ $VARIANT != plain ]] || like "$(<"$T/daemon")" 'upgrade will not find this mount.*/run/pmcfs.*No space left'
    pmc a event=page-faults target=self
    count a >/dev/null
    unmount_pmcfs
}

# A user who could put a lock there would get a signal from root.
#@ plain
t_a_directory_of_locks_that_others_can_write_is_not_used() {
    local kind
    mount -t tmpfs tmpfs /run
    mkdir "$T/elsewhere"
    for kind in owned writable linked; do
        rm -rf /run/pmcfs
        case $kind in
        owned) mkdir -m 700 /run/pmcfs && chown "$ALICE" /run/pmcfs ;;
        writable) mkdir /run/pmcfs && chmod 777 /run/pmcfs ;;
        linked) ln -s "$T/elsewhere" /run/pmcfs ;;
        esac
        mount_pmcfs
        like "$(<"$T/daemon")" '/run/pmcfs: (other users can write to it|Not a directory)' $kind
        pmc a event=page-faults target=self
        ! "$BIN" --upgrade "$M" 2>"$T/printed" || die "$kind: upgraded"
        count a >/dev/null
        empty ls /run/pmcfs/
        unmount_pmcfs
    done
}

# Without memory for the answer the request changes nothing and fails at once.
#@ plain
t_an_upgrade_where_run_is_full_is_refused() {
    mount -t tmpfs -o size=16k tmpfs /run
    mount_pmcfs
    head -c 65536 /dev/zero >/run/full 2>/dev/null || :
    ! "$BIN" --upgrade "$M" 2>"$T/printed" || die 'upgraded'
    like "$(<"$T/printed")" 'cannot send a request to process [0-9]*: No space left on device'
    rm /run/full
    "$BIN" --upgrade "$M"
}

# The daemon may allocate 200 KB more: then mkdir fails with ENOMEM and PMCs continue to count; without the limit mkdir
# succeeds again.
#@ slow plain
t_running_out_of_memory_fails_requests_only() {
    mount_pmcfs -o single,max_pmcs_per_user=100000
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    local made=0 size
    size=$(awk '$1 == "VmData:" { print $2 * 1024 }' "/proc/$SERVER/status")
    prlimit --pid "$SERVER" --data=$((size + 200000)):
    while mkdir "$M/m$made" 2>"$T/printed"; do
        made=$((made + 1))
        ((made < 5000)) || die "memory does not end"
    done
    like "$(<"$T/printed")" 'Cannot allocate memory'
    kill -0 "$SERVER" || die "pmcfs has ended"
    tell p faults 10
    between "$(count a)" 10 1000
    prlimit --pid "$SERVER" --data=unlimited:
    mkdir "$M/m$made"
    rmdir "$M"/m[0-9]*
    is "$(echo "$M"/m[0-9]*)" "$M/m[0-9]*"
}

# The kernel gives the device number of an unmounted tree to the next mount.
#@ slow
t_a_daemon_that_stops_does_not_unmount_a_later_mount() {
    mkdir "$T/place"
    for ((i = 0; i < 15; i++)); do
        "$BIN" "$T/place" 2>/dev/null
        mkdir "$T/place/a"
        echo page-faults >"$T/place/a/event"
        echo self >"$T/place/a/target"
        umount "$T/place"
        mount -t tmpfs over "$T/place"
        sleep 0.06
        umount "$T/place"
        "$BIN" "$T/place" 2>/dev/null
        umount "$T/place"
        "$BIN" "$T/place" 2>/dev/null
        sleep 0.06
        umount "$T/place"
    done
}
