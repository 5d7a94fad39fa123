# shellcheck shell=bash disable=SC2016,SC2034
# The program: options, exit statuses, ways to be mounted.

# Installs pmcfs in this mount namespace, because mount(8) uses a fixed PATH.
installed() {
    mount -t tmpfs tmpfs /usr/local/sbin
    cp "$BIN" /usr/local/sbin/pmcfs
}

# daemon_pid DIRECTORY: the PID of the daemon that serves it.
daemon_pid() { pgrep -f "pmcfs.* $1( |\$)" | head -1; }

unmount_and_wait() {
    local pid
    pid=$(daemon_pid "$1")
    umount "$1"
    eventually 10 "! kill -0 $pid 2>/dev/null"
}

t_version_and_help() {
    like "$("$BIN" --version)" '^pmcfs [0-9]+\.[0-9]+\.[0-9]+'
    "$BIN" --help >"$T/help"
    for word in -f -o -c --check --print-tables -V --version -h --help '--print-tables tunables'; do
        grep -qe "$word" "$T/help" || die "--help does not mention $word"
    done
}

t_usage_errors_are_2() {
    local rc
    for arguments in '' '--nonsense' 'a b c' '-o' '-c'; do
        rc=0
        # shellcheck disable=SC2086 # word splitting is intended
        "$BIN" $arguments >"$T/printed" 2>&1 || rc=$?
        is "$rc" 2 "status of: pmcfs $arguments"
        [[ -s $T/printed ]] || die "nothing printed"
    done
}

t_a_failure_to_mount_is_one_sentence_and_1() {
    local rc=0
    "$BIN" "$T/nowhere" >"$T/printed" 2>&1 || rc=$?
    is "$rc $(wc -l <"$T/printed")" "1 1"
    like "$(cat "$T/printed")" "$T/nowhere"
    rc=0
    touch "$T/file"
    "$BIN" "$T/file" >"$T/printed" 2>&1 || rc=$?
    is "$rc $(wc -l <"$T/printed")" "1 1"
    rc=0
    mkdir "$T/dir"
    as "$ALICE" "$BIN" "$T/dir" >"$T/printed" 2>&1 || rc=$?
    is "$rc $(wc -l <"$T/printed")" "1 1"
    rc=0
    setpriv --bounding-set=-all "$BIN" "$T/dir" >"$T/printed" 2>&1 || rc=$?
    is "$rc $(wc -l <"$T/printed")" "1 1" "without capabilities: $(cat "$T/printed")"
}

t_the_command_returns_when_the_tree_is_usable() {
    mkdir "$T/d"
    "$BIN" "$T/d" >"$T/printed" 2>&1
    grep -q interface "$T/d/info/version"
    is "$(grep -vc 'without CAP_' "$T/printed" || :)" 0 'nothing else is printed'
    unmount_and_wait "$T/d"
}

t_the_background_daemon_holds_nothing_of_the_caller() {
    mkdir "$T/d"
    "$BIN" "$T/d" >/dev/null 2>&1
    local pid
    pid=$(daemon_pid "$T/d")
    is "$(readlink "/proc/$pid/cwd")" /
    is "$(readlink "/proc/$pid/fd/0")" /dev/null
    unmount_and_wait "$T/d"
}

t_umount_stops_the_daemon() {
    mount_pmcfs
    umount "$M"
    local rc=0
    end_within 10 "$DAEMON" || rc=$?
    is "$rc" 0
    unset "DAEMON_OF[$M]"
    DAEMON=0
}

t_sigint_unmounts() {
    mkdir "$T/d"
    "$BIN" "$T/d" >/dev/null 2>&1
    kill -INT "$(daemon_pid "$T/d")"
    eventually 10 "! mountpoint -q $T/d"
}

t_mount_8_mounts_it_with_its_usual_options() {
    installed
    mkdir "$T/d"
    mount -t fuse.pmcfs none "$T/d"
    is "$(findmnt -no FSTYPE "$T/d")" fuse.pmcfs
    unmount_and_wait "$T/d"
    mount -t fuse.pmcfs -o rw,nofail,noauto,_netdev,x-systemd.automount,mincount=77,allow_other,default_permissions pmcfs "$T/d"
    is "$(cat "$T/d/admin/tunables/mincount")" 77
    unmount_and_wait "$T/d"
}

# Every option that mount(8) documents for all file systems, also those that it does not pass on.
#@ slow
t_the_options_of_mount_8_are_known() {
    for option in async sync atime noatime diratime nodiratime relatime norelatime strictatime nostrictatime \
        lazytime nolazytime dirsync auto noauto defaults dev nodev exec noexec suid nosuid iversion noiversion \
        mand nomand loud silent symfollow nosymfollow _netdev nofail user nouser users nousers owner noowner \
        group nogroup rw ro x-systemd.automount X-mount.mkdir context=a:b; do
        "$BIN" --check -o "$option" >"$T/printed" 2>&1 || die "$option: $(cat "$T/printed")"
        [[ ! -s $T/printed ]] || die "$option: $(cat "$T/printed")"
    done
    installed
    mkdir "$T/d"
    mount -t fuse.pmcfs -o nosymfollow,silent,mand,iversion pmcfs "$T/d"
    is "$(flags_of "$T/d")" rw,relatime,nosymfollow
    unmount_and_wait "$T/d"
}

# flags_of DIRECTORY: mount flags, except those that are always set.
flags_of() { findmnt -no OPTIONS "$1" | sed 's/,nosuid,nodev,noexec//; s/,user_id.*//'; }

t_a_remount_is_refused_in_a_sentence() {
    installed
    mkdir "$T/d"
    mount -t fuse.pmcfs pmcfs "$T/d"
    [[ -e /sys/fs/selinux/enforce ]] || ! "$BIN" -o 'ro,context="a:b:c0,c1",noatime' "$T" 2>"$T/printed" || die "accepted"
    like "$(<"$T/printed")" 'the kernel refuses context="a:b:c0,c1", which needs SELinux'
    ! mount -o remount,ro "$T/d" 2>"$T/printed" || die "accepted"
    is "$(grep -c 'a mount of pmcfs cannot be remounted: unmount it and mount it again' "$T/printed")" 1
    is "$(flags_of "$T/d")" rw,relatime
    mkdir "$T/d/a"
    unmount_and_wait "$T/d"
}

t_a_line_of_fstab_mounts_it() {
    installed
    mkdir "$T/d"
    echo "pmcfs $T/d fuse.pmcfs allow_other,default_permissions,nofail 0 0" >"$T/fstab"
    mount -T "$T/fstab" "$T/d"
    grep -q interface "$T/d/info/version"
    unmount_and_wait "$T/d"
}

t_a_second_mount_on_the_same_directory_is_refused() {
    mount_pmcfs
    local rc=0
    "$BIN" -f "$M" >"$T/printed" 2>&1 || rc=$?
    is "$rc $(wc -l <"$T/printed")" "1 1"
    like "$(cat "$T/printed")" "$M"
    grep -q interface "$M/info/version"
}

t_two_mounts_side_by_side_are_independent() {
    mount_pmcfs
    local first=$M
    mount_pmcfs
    mkdir "$M/a"
    [[ ! -e $first/a ]]
}

t_a_stale_mount_is_taken_over() {
    mount_pmcfs -o single
    kill -KILL "$DAEMON"
    wait "$DAEMON" || :
    DAEMON=0
    ! ls "$M" 2>"$T/printed" || die "the tree is still there"
    "$BIN" -f "$M" >>"$T/daemon" 2>&1 &
    DAEMON_OF["$M"]=$!
    # The kernel caches names of the dead mount, so a file is read.
    eventually 10 'cat "$M/info/version" >/dev/null 2>&1'
    is "$(grep -c " $M " /proc/self/mountinfo)" 1 "mounts on the directory"
}

t_check_names_file_and_line() {
    printf '# comment\nmincount = 500\nnonsense = 1\nnotify_ms = 0\n' >"$T/conf"
    local rc=0
    "$BIN" --check -c "$T/conf" >"$T/printed" 2>&1 || rc=$?
    is "$rc" 1
    grep -q "$T/conf:3: .*nonsense" "$T/printed"
    grep -q "$T/conf:4: .*notify_ms" "$T/printed"
    sed -i 3,4d "$T/conf"
    "$BIN" --check -c "$T/conf"
}

t_the_configuration_is_a_regular_file_of_bounded_size() {
    mkfifo "$T/fifo"
    mkdir "$T/d" "$T/pmc"
    truncate -s 2M "$T/huge"
    local what why
    for what in "fifo:it is not a regular file" "d:it is a directory" "huge:it is longer than 1 MiB"; do
        why=${what#*:} what=$T/${what%%:*}
        for arguments in --check "-f $T/pmc"; do
            # shellcheck disable=SC2086
            ! timeout 30 "$BIN" -c "$what" $arguments >"$T/printed" 2>&1 || die "accepted: $what"
            like "$(<"$T/printed")" "cannot read the configuration \"$what\": $why"
        done
    done
    ! timeout 30 "$BIN" --check -c /dev/zero >"$T/printed" 2>&1 || die 'accepted: a device'
    like "$(<"$T/printed")" 'it is not a regular file'
}

t_check_goes_from_line_to_line_and_names_a_section_once() {
    printf 'notify_ms = 0\n[other]\na = 1\nb = 2\nnothing\n[pmcfs]\nnonsense = 1\n' >"$T/conf"
    ! "$BIN" --check -c "$T/conf" >"$T/printed" 2>&1 || die "accepted"
    is "$(sed "s#.*$T/conf:\([0-9]*\): .*#\1#" "$T/printed" | tr '\n' ' ')" '1 2 7 5 ' "lines: $(cat "$T/printed")"
    ! grep using "$T/printed" || die "--check uses nothing"
}

t_a_too_large_log_is_reported_at_the_place_of_its_setting() {
    mkdir "$T/d"
    printf '# comment\nnbuffers = 1000\n' >"$T/conf"
    ! "$BIN" --check -c "$T/conf" >"$T/printed" 2>&1 || die "accepted"
    like "$(cat "$T/printed")" "$T/conf:2: .*nbuffers=1000 is more than 32 MiB$"
    echo >"$T/conf"
    mount_pmcfs -c "$T/conf" -o nbuffers=1000
    like "$(cat "$T/daemon")" ' -o: .*nbuffers=1000 is more than 32 MiB; using 256 and 32'
}

t_a_backend_that_does_not_exist_is_a_usage_error() {
    local rc=0
    mkdir "$T/d"
    "$BIN" -o backend=zzz "$T/d" >"$T/printed" 2>&1 || rc=$?
    is "$rc $(wc -l <"$T/printed")" '2 1'
    like "$(cat "$T/printed")" '-o: .*zzz.*perf or sim'
    printf '# comment\nbackend = zzz\nnotify_ms = 0\n' >"$T/conf"
    for arguments in --check "-f $T/d"; do
        rc=0
        # shellcheck disable=SC2086 # word splitting is intended
        "$BIN" -c "$T/conf" $arguments >"$T/printed" 2>&1 || rc=$?
        is "$rc" 2 "status of $arguments"
        grep -q "$T/conf:2: .*zzz.*perf or sim" "$T/printed"
        grep -q "$T/conf:3: .*notify_ms" "$T/printed"
    done
    ! mountpoint -q "$T/d" || die mounted
}

t_the_sample_configuration_is_all_defaults() {
    local conf=${TEST_FILE%/tests/*}/conf/pmcfs.conf
    "$BIN" --check -c "$conf"
    ! grep -vE '^(#|\[|$)' "$conf" || die "a key that is not commented"
    sed 's/^#\([a-z_]* *=\)/\1/' "$conf" >"$T/conf"
    "$BIN" --check -c "$T/conf"
}

t_a_configuration_that_cannot_be_read_is_a_failure() {
    mkdir "$T/d" "$T/conf"
    local rc
    for conf in "$T/conf" "$T/none"; do
        rc=0
        "$BIN" -c "$conf" "$T/d" >"$T/printed" 2>&1 || rc=$?
        is "$rc $(wc -l <"$T/printed")" '1 1' "status with $conf"
        like "$(cat "$T/printed")" "cannot read the configuration .$conf.: "
    done
    ! mountpoint -q "$T/d" || die mounted
}

t_sighup_follows_a_link_to_another_configuration() {
    mkdir "$T/one" "$T/two"
    echo 'mincount = 500' >"$T/one/conf"
    echo 'mincount = 700' >"$T/two/conf"
    ln -s one/conf "$T/conf"
    mount_pmcfs -c "$T/conf"
    is "$(cat "$M/admin/tunables/mincount")" 500
    ln -sfn two/conf "$T/conf"
    rm "$T/one/conf"
    kill -HUP "$DAEMON"
    eventually 5 '[[ $(cat "$M/admin/tunables/mincount") == 700 ]]'
}

t_sighup_changes_nothing_where_the_configuration_cannot_be_read() {
    echo 'mincount = 500' >"$T/conf"
    mount_pmcfs -c "$T/conf"
    accepted "$M/admin/tunables/attach_ms" 4000
    rm "$T/conf"
    kill -HUP "$DAEMON"
    eventually 5 'grep -q "cannot read the configuration" "$T/daemon"'
    sleep 0.2
    is "$(cat "$M/admin/tunables/mincount" "$M/admin/tunables/attach_ms" | xargs)" '500 4000'
    ! grep 'was reread' "$T/daemon" || die 'it was not'
}

# Group lookups can be slow (LDAP). A FIFO replaces /etc/group, so the test controls when they return.
t_a_hanging_look_up_of_a_group_holds_up_nothing_else() {
    echo 'readers = daemon' >"$T/conf"
    mount_pmcfs -c "$T/conf"
    pmc a event=page-faults interval=20
    attach a $$
    mkfifo "$T/group"
    mount --bind "$T/group" /etc/group
    echo 'readers = bin' >"$T/conf"
    kill -HUP "$DAEMON"
    sleep 0.5
    is "$(timeout 40 head -n 20 "$M/a/series" | wc -l)" 20 'lines of a series, by the main loop'
    while :; do : >/etc/group; done &
    local opens=$!
    eventually 10 'grep -q "readers" "$T/daemon"' # a FIFO is not a list of groups
    kill "$opens"
    eventually 5 'umount /etc/group 2>/dev/null'
    kill -HUP "$DAEMON"
    eventually 10 '[[ $(cat "$M/admin/tunables/readers") == bin ]]'
}

t_few_descriptors_are_emfile_with_both_numbers_before_anything_is_opened() {
    RUN_DAEMON=(prlimit --nofile=200:200 setpriv --bounding-set=-sys_resource --)
    mount_pmcfs
    target_start p
    tell p threads 200
    pmc a event=page-faults event=context-switches
    refused EMFILE P10 "$M/a/target" "${PID_OF[p]}"
    like "$(cat "$M/a/error")" 'needs [0-9]+ file descriptors .201 threads or CPUs, 2 for each, and [0-9]+ while attaching., and pmcfs has [0-9]+ left'
    empty cat "$M/a/target"
    target_start q
    attach a "${PID_OF[q]}"
}

t_no_descriptor_for_a_target_is_emfile_with_both_numbers() {
    RUN_DAEMON=(prlimit --nofile=64:64 setpriv --bounding-set=-sys_resource --)
    mount_pmcfs
    target_start p
    pmc a event=page-faults
    refused EMFILE P10 "$M/a/target" "${PID_OF[p]}"
    like "$(cat "$M/a/error")" 'the target needs 1 file descriptor, and pmcfs has 0 left of 64'
}

# With any number of descriptors, no descendant is missed without a message, and none is reported as exited.
t_no_descendant_is_missed_when_descriptors_run_out() {
    mount_pmcfs
    local free got used printed=0
    bash -c 'for _ in 1 2 3; do (sleep 101 & wait) & done; wait' &
    eventually 10 "((\$(pgrep -c -f ^sleep.101) == 3))"
    pmc a event=page-faults descendants=on
    attach a "$!"
    ctl a detach
    used=$(find "/proc/$DAEMON/fd" -mindepth 1 | wc -l)
    for free in {1..30}; do # the opening itself needs one for a moment
        prlimit --pid "$SERVER" --nofile=$((used + free)):
        got=$(result write "$M/a/target" "$!")
        prlimit --pid "$SERVER" --nofile=20000:
        if [[ $got == ok ]]; then
            is "$(status a threads)" 7 "covered with $free descriptors"
            ctl a detach
        else
            is "$got" EMFILE "attaching with $free descriptors"
            like "$(cat "$M/a/error")" '^EMFILE P10 target: .*descriptor'
            printed=$((printed + 1))
        fi
    done
    between "$printed" 10 30 'refused'
}

t_too_few_descriptors_are_reported_at_the_start() {
    local limit
    mkdir "$T/d"
    for limit in 1000 20000; do
        prlimit --nofile=$limit:$limit setpriv --bounding-set=-sys_resource -- "$BIN" "$T/d" 2>"$T/printed$limit"
        unmount_and_wait "$T/d"
    done
    like "$(cat "$T/printed1000")" 'without CAP_SYS_RESOURCE: at most 1000 file descriptors'
    is "$(grep -c descriptors "$T/printed20000" || :)" 0
}

t_the_limit_of_descriptors_is_raised() {
    RUN_DAEMON=(prlimit --nofile=64:4096 --)
    mount_pmcfs
    [[ $(awk '/Max open files/ { print $4 }' "/proc/$DAEMON/limits") -ge 4096 ]]
}

t_libpfms_environment_is_not_obeyed() {
    RUN_DAEMON=(env LIBPFM_VERBOSE=5 LIBPFM_DEBUG=5 LIBPFM_FORCE_PMU=ix86arch LIBPFM_DISABLED_PMUS=perf)
    mount_pmcfs
    pmc a event=perf::PERF_COUNT_SW_PAGE_FAULTS
    ls "$M/events" >/dev/null
    unmount_pmcfs
    ! grep -v '^pmcfs: ' "$T/daemon" || die 'libpfm4 has written there'
}

t_a_bind_mount_shows_the_same() {
    mount_pmcfs
    pmc a event=page-faults count=5
    mkdir "$T/bound"
    mount --bind "$M/a" "$T/bound"
    is "$(cat "$T/bound/count")" 5
    umount "$T/bound"
}
