# shellcheck shell=dash source=packaging/inside/lib.sh
# The second boot: the service is enabled. The next version is in /packaging/next.

t_the_service_is_not_killed_for_memory() {
    is "$(cat "/proc/$(main_pid)/oom_score_adj")" -1000
}

t_the_enabled_service_mounts_at_boot() {
    is "$(property ActiveState)" active
    is "$(findmnt -n -o FSTYPE /pmc)" fuse.pmcfs
    is "$(systemctl list-units --failed --no-legend)" ''
}

# cgroup:/PATH of a unit that is started three times: its count is the CPU time of the runs.
t_a_unit_that_is_restarted_keeps_its_count() {
    cat >/run/systemd/system/runs.service <<'E'
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'i=0; while [ $$i -lt 200000 ]; do i=$$((i + 1)); done; cat /proc/$$$$/schedstat >>/run/packaging/runs'
E
    systemctl daemon-reload
    mkdir /pmc/runs
    echo event=task-clock reattach=on target=cgroup:/system.slice/runs.service >/pmc/runs/config
    is "$(cat /pmc/runs/ctl)" waiting
    local spent
    for _ in 1 2 3; do
        systemctl start runs
        eventually grep -qx waiting /pmc/runs/ctl
        is "$(cat /pmc/runs/target)" 'cgroup:/system.slice/runs.service waiting'
    done
    is "$(dd if=/pmc/runs/samples iflag=nonblock bs=1M 2>/dev/null | grep -c ' attach ')" 3
    is "$(sed -n 's/^attach_error //p' /pmc/runs/status)" -
    spent=$(awk '{ n += $1 } END { printf "%.0f", n }' "$T/runs")
    # within a tenth
    is "$((($(count runs) * 5 + spent / 2) / spent))" 5 "fifths of the CPU time of the runs ($spent ns, and $(count runs) counted)"
    rmdir /pmc/runs
}

# The stream of the reader and the counts of its target continue, and earlier events are counted once.
t_a_reader_continues_during_an_upgrade() {
    local main version line before
    main=$(main_pid) version=$(cat /pmc/info/version)
    like "$(pmcfs --version)" "^$version$"
    target_start t
    counter_start t event=page-faults interval=100 "target=$PID"
    exec 3</pmc/t/count 4</pmc/t/series
    target_work
    before=$(count t)
    [ "$before" -gt 0 ] || die 'nothing was counted'
    read -r line <&4
    (while cat /pmc/t/count; do :; done >"$T/counts" 2>&1) &

    dpkg -i /packaging/next/pmcfs*.deb
    kill $!
    is "$(main_pid)" "$main" 'the main process'
    is "$(property ActiveState) $(property NRestarts)" 'active 0'
    is "$(property NeedDaemonReload)" no
    is "$(stat_value restarts)" 1
    cmp "/proc/$main/exe" /usr/sbin/pmcfs
    like "$(readlink "/proc/$main/exe")" '^/usr/sbin/pmcfs$'
    [ "$(cat /pmc/info/version)" != "$version" ] || die "$version serves"
    like "$(pmcfs --version)" "^$(cat /pmc/info/version)$"
    like "$(systemctl cat pmcfs)" '^# The next version'

    is "$(sort -u "$T/counts")" "$before" 'counts during the upgrade'
    is "$(count t)" "$before" 'the count'
    is "$(head -c 100 <&3)" "$before" 'the count of the file that is open'
    target_work
    [ "$(count t)" -gt "$before" ] || die 'nothing is counted any more'
    read -r line <&4
    like "$line" '[0-9]'
    kill "$PID"
    rmdir /pmc/t
}

t_the_administrators_configuration_is_kept() {
    is "$(cat /pmc/admin/tunables/mincount)" 4321
    grep -qx 'mincount = 4321' /etc/pmcfs.conf
}

# The packages are configured all the same.
t_a_refused_takeover_leaves_the_mount_and_is_logged() {
    mkdir /pmc/k
    echo 'nonsense = 1' >>/etc/pmcfs.conf
    dpkg -i /packaging/next/pmcfs*.deb >"$T/dpkg" 2>&1
    like "$(cat "$T/dpkg")" 'nonsense'
    like "$(cat "$T/dpkg")" '^/pmc: the earlier program goes on'
    [ -d /pmc/k ] || die 'the tree is another'
    like "$(dpkg -s pmcfs)" '^Status: install ok installed'
    sed -i '/nonsense/d' /etc/pmcfs.conf
    pmcfs --upgrade /pmc
    rmdir /pmc/k
}

t_a_restart_after_the_upgrade_mounts_again() {
    main=$(main_pid)
    systemctl restart pmcfs
    [ "$(main_pid)" != "$main" ] || die 'it is the same process'
    is "$(stat_value restarts)" 0
    systemctl stop pmcfs
    is_gone
}

t_a_line_in_fstab_is_for_the_next_boot() {
    systemctl disable pmcfs
    echo 'none  /pmc  fuse.pmcfs  defaults  0  0' >>/etc/fstab
    is_gone
}
