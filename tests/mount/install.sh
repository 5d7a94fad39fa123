# shellcheck shell=bash
# The installed programs run; configuration, manual pages, systemd unit and tools are in their places.

#@ slow plain
t_the_installed_program_reads_the_installed_configuration() {
    local prefix=$T/usr source=${TEST_FILE%/tests/*}
    meson setup --prefix="$prefix" --buildtype=plain -Dtests=false "$T/build" "$source" >"$T/printed" 2>&1 ||
        die "meson: $(tail -3 "$T/printed")"
    ninja -C "$T/build" install >"$T/printed" 2>&1 || die "ninja: $(tail -3 "$T/printed")"
    local file tool
    for file in sbin/pmcfs etc/pmcfs.conf share/man/man8/pmcfs.8 share/man/man5/pmcfs.5 \
        share/man/man5/pmcfs-log.5 share/man/man7/pmcfs-access.7 \
        share/man/man7/pmcfs-compat.7 lib/systemd/system/pmcfs.service; do
        [[ -f $prefix/$file ]] || die "$file is not installed"
    done
    [[ -d $prefix/etc/pmcfs.conf.d ]] || die "its directory is not installed"
    grep -q "^ExecStart=$prefix/sbin/pmcfs " "$prefix/lib/systemd/system/pmcfs.service" ||
        die "the unit starts another program: $(grep Exec "$prefix/lib/systemd/system/pmcfs.service")"
    if [[ -e $T/build/examples/pmc-names/pmc-names ]]; then
        [[ -x $prefix/bin/pmc-names && -f $prefix/share/man/man1/pmc-names.1 ]] || die 'pmc-names is not installed'
    fi
    if [[ -e $T/build/examples/pmctop/pmctop ]]; then
        [[ -x $prefix/bin/pmctop && -f $prefix/share/man/man1/pmctop.1 ]] || die 'pmctop is not installed'
    fi
    for tool in pmc-flamegraph pmc-plot; do
        [[ -f $prefix/share/man/man1/$tool.1 ]] || die "$tool.1 is not installed"
        like "$("$prefix/bin/$tool" -h)" "^usage: $tool "
    done
    like "$("$prefix/sbin/pmcfs" --help)" "$prefix/etc/pmcfs.conf" 'the help names the configuration'
    "$prefix/sbin/pmcfs" --check || die 'the installed configuration is refused'
    echo 'mincount = 4321' >>"$prefix/etc/pmcfs.conf"
    BIN=$prefix/sbin/pmcfs
    mount_pmcfs
    is "$(cat "$M/admin/tunables/mincount")" 4321
    for name in cpustat cputrack perfmon pmccontrol pmcstat; do
        like "$(PMC=$M "$prefix/bin/$name" -h)" "^usage: $name " "the installed $name"
        [[ -f $prefix/share/man/man1/$name.1 ]] || die "no manual of $name is installed"
        like "$(bash -c '. "$1" && complete -p "$2"' bash "$prefix/share/bash-completion/completions/$name" "$name")" _pmcfs_tools
    done
    like "$(head -1 "$prefix/share/zsh/site-functions/_pmcfs-tools")" '^#compdef pmcstat '
    ln -s "$prefix/bin/pmcstat" link
    PMC=$M ./link -p page-faults -o "$T/printed" true || die "pmcstat by a link: $(cat "$T/printed")"
    unmount_pmcfs
    echo 'nonsense = 1' >>"$prefix/etc/pmcfs.conf"
    ! "$BIN" --check >"$T/printed" 2>&1 || die 'a wrong configuration was accepted'
    grep -q "^[^ ]*pmcfs: $prefix/etc/pmcfs.conf:[0-9]*: .*nonsense" "$T/printed" || die "$(cat "$T/printed")"
}
