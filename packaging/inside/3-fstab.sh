# shellcheck shell=dash source=packaging/inside/lib.sh
# The third boot: the service is disabled, a line in /etc/fstab mounts. At its end the packages go.

t_the_line_in_fstab_mounts_at_boot() {
    is "$(property ActiveState)" inactive
    is "$(systemctl is-active pmc.mount)" active
    is "$(findmnt -n -o FSTYPE /pmc)" fuse.pmcfs
    is "$(systemctl list-units --failed --no-legend)" ''
    like "$(alice cat /pmc/info/version)" '^pmcfs '
}

t_an_upgrade_takes_over_what_fstab_mounted() {
    mkdir /pmc/k "$T/bound"
    mount --bind /pmc "$T/bound"
    dpkg -i /packaging/next/pmcfs*.deb
    umount "$T/bound"
    is "$(stat_value restarts)" 1 'one for each tree, however often it is mounted'
    [ -d /pmc/k ] || die 'the tree is another'
    is "$(property ActiveState)" inactive
    is "$(systemctl is-active pmc.mount)" active
}

ended() { [ -z "$(pgrep pmcfs)" ]; }

t_umount_stops_a_mount_of_fstab() {
    umount /pmc
    eventually ended
    is_gone
}

t_the_removed_package_stops_the_service() {
    sed -i /pmcfs/d /etc/fstab
    systemctl daemon-reload
    systemctl start pmcfs
    mkdir /pmc/k
    exec 3</pmc/k/count
    dpkg -r pmcfs pmcfs-tools
    is_gone
    [ -e /etc/pmcfs.conf ] || die 'the configuration is gone'
    for file in /usr/sbin/pmcfs /lib/systemd/system/pmcfs.service /usr/bin/pmc-names; do
        [ ! -e $file ] || die "$file is there"
    done
    is "$(property LoadState)" not-found
}

# Compared with the machine before they came.
t_the_purged_packages_leave_nothing() {
    dpkg -P pmcfs pmcfs-tools
    (cd / && sh /packaging/inside/list.sh) >"$T/after"
    for list in /packaging/before "$T/after"; do [ -s "$list" ] || die "$list is empty"; done
    is "$(diff /packaging/before "$T/after")" '' 'what was not there before'
}
