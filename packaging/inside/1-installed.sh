# shellcheck shell=dash source=packaging/inside/lib.sh
# The first boot: the packages are installed, and pmcfs has not been started yet.

t_installing_mounts_nothing() {
    is "$(property UnitFileState)" disabled
    is "$(property ActiveState)" inactive
    is_gone
}

t_the_started_service_mounts_for_all() {
    systemctl start pmcfs
    is "$(findmnt -n -o FSTYPE /pmc)" fuse.pmcfs
    is "$(readlink "/proc/$(main_pid)/ns/mnt")" "$(readlink /proc/1/ns/mnt)" 'its mounts'
    is "$(ps -o ppid= -p "$(main_pid)" | tr -d ' ')" 1 'the parent of the main process'
    is "$(worker_pid | wc -l)" 1 'processes that it supervises'
    like "$(alice cat /pmc/info/version)" '^pmcfs '
}

t_the_unit_confines_it() {
    for pid in $(main_pid) $(worker_pid); do
        like "$(cat "/proc/$pid/status")" '^NoNewPrivs:[[:space:]]*1$'
        like "$(cat "/proc/$pid/status")" '^Seccomp:[[:space:]]*2$'
        for namespace in net uts; do
            [ "$(readlink "/proc/$pid/ns/$namespace")" != "$(readlink /proc/1/ns/$namespace)" ] ||
                die "process $pid has the $namespace namespace of all"
        done
    done
}

t_the_exposure_matches_the_unit() {
    systemd-analyze security --no-pager --threshold=52 pmcfs.service >"$T/security" || die "$(tail -n 1 "$T/security")"
}

t_the_unit_leaves_the_daemon_its_capabilities() {
    journal=$(journalctl -q -u pmcfs -o cat)
    like "$journal" '^Started pmcfs'
    unlike "$(echo "$journal" | grep -v 'no usable PMU')" 'without|cannot|refused'
    is "$(sed -n 's/^Max open files *\([0-9]*\) .*/\1/p' "/proc/$(main_pid)/limits")" 1048576
}

t_documents_are_in_the_packages() {
    cd /usr/share/doc || die "no documents"
    for file in pmcfs/README.md pmcfs/examples/prometheus/prometheus.yml pmcfs/examples/containers/compose.yaml \
        pmcfs-tools/TUTORIAL.md pmcfs-tools/examples/readers/stream.sh; do
        [ -s "$file" ] || [ -s "$file.gz" ] || die "$file is missing"
    done
}

t_users_count() {
    target_start t
    counter_start t event=page-faults "target=$PID"
    target_work
    [ "$(count t)" -gt 0 ] || die 'nothing was counted'
    kill "$PID"
    rmdir /pmc/t
}

t_users_sample_and_name_the_places() {
    $AS_ALICE sh -c 'while :; do :; done' &
    counter_start s event=cpu-clock freq=100 callchain=on "target=$!"
    like "$(alice head -n 100 /pmc/s/samples)" ' callchain '
    kill $!
    like "$(alice pmc-names /pmc/s)" '^sh;.*\[/usr/bin/dash\+0x[0-9a-f]+\]( |;).*[0-9]+$'
    rmdir /pmc/s
}

# What RestrictNamespaces= and SystemCallFilter= have to let through.
t_control_groups_are_found_in_their_namespaces() {
    mkdir -p /sys/fs/cgroup/some/below
    mkdir /pmc/g /pmc/n
    echo event=context-switches target=cgroup:/some/below >/pmc/g/config || die "$(cat /pmc/g/error)"
    # shellcheck disable=SC2016
    sh -c 'echo $$ >/sys/fs/cgroup/some/cgroup.procs && exec unshare -C sh -c "
        echo event=context-switches target=cgroup:/below >/pmc/n/config"' || die "$(cat /pmc/n/error)"
    # shellcheck disable=SC2016
    sh -c 'echo $$ >/sys/fs/cgroup/some/below/cgroup.procs; sleep 0.1; sleep 0.1'
    for name in g n; do [ "$(count $name)" -gt 0 ] || die "$name: nothing was counted"; done
    rmdir /pmc/g /pmc/n
}

t_users_count_in_user_namespaces() {
    # shellcheck disable=SC2016
    alice unshare -Ur --kill-child sh -c '
        sleep 60 & mkdir /pmc/u && echo event=page-faults target=$! >/pmc/u/config && kill $! && rmdir /pmc/u' ||
        die "$(cat /pmc/u/error)"
}

# The service has the network namespace in which the kernel sends uevents of CPUs.
t_a_cpu_that_goes_is_noticed() {
    grep -q '^online 0-1$' /pmc/info/cpus || die "$(cat /pmc/info/cpus)"
    mkdir /pmc/c
    echo event=context-switches target=all >/pmc/c/config || die "$(cat /pmc/c/error)"
    echo 0 >/sys/devices/system/cpu/cpu1/online
    eventually grep -q '^online 0$' /pmc/info/cpus
    echo 1 >/sys/devices/system/cpu/cpu1/online
    eventually grep -q '^online 0-1$' /pmc/info/cpus
    rmdir /pmc/c
}

has_mincount() { [ "$(cat /pmc/admin/tunables/mincount)" = "$1" ]; }

t_a_reload_reads_the_configuration() {
    echo 'mincount = 4321' >>/etc/pmcfs.conf
    systemctl reload pmcfs
    eventually has_mincount 4321
}

replaced() { [ "$(worker_pid)" ] && [ "$(worker_pid)" != "$1" ]; }

t_a_killed_worker_is_replaced_within_the_unit() {
    local main
    main=$(main_pid) worker=$(worker_pid)
    target_start t
    counter_start t event=page-faults "target=$PID"
    target_work
    before=$(count t)
    kill -KILL "$worker"
    is "$(count t)" "$before" 'the count'
    eventually replaced "$worker"
    is "$(main_pid)" "$main" 'the main process'
    is "$(property ActiveState) $(property NRestarts)" 'active 0'
    kill "$PID"
    rmdir /pmc/t
}

is_another() { [ "$(main_pid)" != "$1" ] && [ "$(property ActiveState)" = active ]; }

# The worker cannot unmount either, so a mount without a server remains.
t_a_killed_supervisor_is_started_again() {
    main=$(main_pid)
    kill -STOP "$(worker_pid)"
    kill -KILL "$main"
    eventually is_another "$main"
    like "$(cat /pmc/info/version)" '^pmcfs '
    is "$(findmnt -n /pmc | wc -l)" 1 'mounts on /pmc'
}

t_the_stopped_service_unmounts() {
    systemctl stop pmcfs
    is_gone
    is "$(property Result)" success
}

t_the_service_is_enabled_for_the_next_boot() {
    systemctl enable pmcfs
    is "$(property ActiveState)" inactive
}
