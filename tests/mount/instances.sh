# shellcheck shell=bash disable=SC2012,SC2016,SC2034,SC2164
# instances/: creating, limiting and releasing the subtree of a container. boxes.sh tests it from inside a container.

ADMIN_ERROR='EPERM E39 '

# list DIRECTORY…: their entries, in one line.
list() { find "$@" -mindepth 1 -maxdepth 1 -printf '%f\n' | sort | xargs; }

# inside NAME USER PMC [SETTINGS…]: the user creates a PMC in the instance.
inside() {
    as "$2" mkdir "$M/instances/$1/$3"
    (($# == 3)) || is "$(result_as "$2" write "$M/instances/$1/$3/config" "${*:4}")" ok "$3: ${*:4}"
}

# quota_shows NAME USER REGEX: that user's last error there is EDQUOT with that sentence.
quota_shows() {
    like "$(as "$2" cat "$M/instances/$1/info/last_error")" "${FAILED}EDQUOT P11 .*$3"
}

# pid_from N: gives the next process a PID that does not occur in texts by chance.
pid_from() {
    echo "$1" 2>/dev/null >/proc/sys/kernel/ns_last_pid || skip 'numbers of processes cannot be chosen'
}

t_mkdir_creates_a_subtree_and_its_limits() {
    mount_sim
    instance one
    is "$(list "$M/instances/one")" 'README counts events info metrics.prom'
    is "$(list "$M/instances/one/info")" "$(list "$M/info")"
    is "$(list "$M/admin/instances")" one
    is "$(list "$M/admin/instances/one")" 'ctl kernel_mode lifetime max_fds max_log max_pmcs system_scope'
    is "$(cat "$M"/admin/instances/one/{ctl,kernel_mode,lifetime,max_fds,max_log,max_pmcs,system_scope} | xargs)" \
        'active 0 mount 0 0 0 0'
    is "$(stat -c %a "$M/instances" "$M/admin/instances" "$M/admin/instances/one" "$M/admin/instances/one/ctl" | xargs)" \
        '711 555 555 644'
    is "$(stat -c '%a %u %g' "$M/instances/one")" '1755 0 0'
    is "$(stat_value instances)" 1
    mkdir "$M/instances/one/a"
    is "$(list "$M/instances/one/a")" \
        'config count ctl detail error event metrics mode samples samples.folded samples.perf series status target'
    is "$(stat -c %h "$M/instances/one")" 5
}

t_an_instance_has_the_mode_of_mkdir_with_the_sticky_bit() {
    mount_sim
    (umask 0 && mkdir -m 770 "$M/instances/one")
    is "$(stat -c %a "$M/instances/one")" 1770
    chmod 0 "$M/instances/one"
    is "$(stat -c %a "$M/instances/one")" 1000
    chmod 7777 "$M/instances/one"
    is "$(stat -c %a "$M/instances/one")" 1777
}

t_only_the_superuser_creates_and_removes_instances() {
    mount_sim
    instance one
    fails_with EACCES "as $ALICE mkdir $M/instances/two"
    for command in 'mkdir two' 'rmdir one'; do
        # shellcheck disable=SC2086 # two words
        set -- $command
        fails_with EPERM "${POWERLESS[*]} $1 $M/instances/$2"
        like "$(cat "$M/info/last_error")" "${FAILED}${ADMIN_ERROR}instances/$2: $1: only the superuser"
    done
    is "$(ls "$M/instances")" one
    setpriv --bounding-set=-all,+perfmon --inh-caps=-all mkdir "$M/instances/two"
    stat "$M/instances/one" "$M/admin/instances/one/ctl" >/dev/null
    rmdir "$M/instances/one" "$M/instances/two"
    eventually 5 '[[ ! -e $M/instances/one && ! -e $M/admin/instances/one ]]'
    empty list "$M/instances" "$M/admin/instances"
}

t_the_owner_of_an_instance_may_chmod_it_and_not_chown_it() {
    mount_sim
    instance one "$ALICE"
    is "$(stat -c '%u %g' "$M/instances/one")" "$ALICE $ALICE"
    fails_with EPERM "as $BOB chmod 777 $M/instances/one"
    fails_with EPERM "as $ALICE chown $BOB $M/instances/one"
    fails_with EACCES "as $BOB mkdir $M/instances/one/b"
    inside one "$ALICE" a event=cycles
    as "$ALICE" chmod 700 "$M/instances/one"
    is "$(stat -c %a "$M/instances/one")" 1700
    fails_with EACCES "as $BOB cat $M/instances/one/counts"
    is "$(as "$ALICE" cut -f 1 "$M/instances/one/counts")" a
}

t_a_pmc_in_an_instance_is_removed_by_its_owner_or_the_instances_owner() {
    mount_sim
    instance one "$ALICE"
    as "$ALICE" chmod 777 "$M/instances/one"
    inside one "$BOB" b
    inside one 1002 c
    inside one "$ALICE" a
    fails_with EPERM "as $BOB rmdir $M/instances/one/a"
    fails_with EPERM "as $BOB mv $M/instances/one/c $M/instances/one/d"
    fails_with EPERM "as 1002 rmdir $M/instances/one/b"
    as "$BOB" mv "$M/instances/one/b" "$M/instances/one/e"
    as "$BOB" rmdir "$M/instances/one/e"
    as "$ALICE" rmdir "$M/instances/one/c"
    is "$(as "$ALICE" ls -d "$M"/instances/one/[a-e])" "$M/instances/one/a"
}

t_an_instance_cannot_be_renamed_and_its_pmcs_cannot_be_moved_out() {
    mount_sim
    instance one
    instance two
    mkdir "$M/instances/one/a" "$M/b"
    is "$(result rename "$M/instances/one" "$M/instances/three")" EPERM
    like "$(cat "$M/info/last_error")" "${FAILED}EPERM P25 instances/one: mv: an instance cannot be renamed"
    is "$(result rename "$M/instances/one/a" "$M/a")" EPERM
    like "$(cat "$M/instances/one/info/last_error")" "${FAILED}EPERM P25 a: mv: a PMC cannot be moved between instances"
    is "$(result rename "$M/instances/one/a" "$M/instances/two/a")" EPERM
    is "$(result rename "$M/b" "$M/instances/two/b")" EPERM
    is "$(result rename "$M/b" "$M/instances/b")" EPERM
    like "$(cat "$M/info/last_error")" "${FAILED}EPERM P25 b: mv: a PMC cannot be moved between instances: create it there"
    is "$(result rename "$M/instances/one/a" "$M/instances/one/c")" ok
    fails_with EPERM "mkdir $M/instances/one/info/x"
    fails_with EPERM "touch $M/admin/instances/one/x"
    fails_with EPERM "mkdir $M/admin/instances/x"
    fails_with EPERM "chmod 666 $M/admin/instances/one"
}

t_rmdir_needs_an_empty_instance_and_release_does_not() {
    mount_sim
    instance one
    mkdir "$M/instances/one/a" "$M/instances/one/b"
    fails_with ENOTEMPTY "rmdir $M/instances/one"
    like "$(cat "$M/info/last_error")" "${FAILED}ENOTEMPTY P35 instances/one: rmdir: instance one has 2 PMCs: .*\"release\""
    is "$(result write "$M/admin/instances/one/ctl" free)" EINVAL
    like "$(cat "$M/info/last_error")" "${FAILED}EINVAL X17 admin/instances/one/ctl: .*\"free\".* release"
    is "$(result_by "${POWERLESS[@]}" -- write "$M/admin/instances/one/ctl" release)" EPERM
    # Names that the kernel has cached are invalidated.
    stat "$M/instances/one" "$M/instances/one/a" "$M/admin/instances/one/ctl" >/dev/null
    accepted "$M/admin/instances/one/ctl" release
    empty list "$M/instances" "$M/admin/instances"
    eventually 5 '[[ ! -e $M/instances/one && ! -e $M/admin/instances/one ]]'
    eventually 5 '[[ $(stat_value pmcs) == 0 && $(stat_value descriptors) == 0 ]]'
    is "$(stat_value instances)" 0
    instance empty
    stat "$M/instances/empty/info/rows" >/dev/null
    accepted "$M/admin/instances/empty/ctl" release
    eventually 5 '[[ ! -e $M/instances/empty ]]'
    instance one
    [[ ! -e $M/instances/one/a && ! -e $M/instances/one/b ]]
}

t_the_name_of_a_released_instance_is_gone_when_the_write_returns() {
    mount_sim
    for _ in {1..30}; do
        instance one
        mkdir "$M/instances/one/a"
        # An open file keeps the names in the kernel.
        exec 5<"$M/instances/one/a/config" 6<"$M/admin/instances/one/max_pmcs"
        printf release >"$M/admin/instances/one/ctl"
        [[ ! -e $M/instances/one/a ]] || die 'its PMC is still there'
        [[ ! -e $M/instances/one ]] || die 'it is still there'
        [[ ! -e $M/admin/instances/one ]] || die 'its limits are still there'
        exec 5<&- 6<&-
    done
}

t_open_files_of_a_released_instance_are_enodev() {
    mount_sim
    instance one
    mkdir "$M/instances/one/a"
    result write "$M/instances/one/a/config" "event=cycles target=$$" >/dev/null
    # shellcheck disable=SC2094
    exec 5<"$M/instances/one/a/count" 6<"$M/instances/one/info/rows" 7<"$M/admin/instances/one/ctl" \
        8<"$M/instances/one/counts" 9>"$M/instances/one/a/ctl"
    cd "$M/instances/one/a"
    accepted "$M/admin/instances/one/ctl" release
    for fd in 5 6 7 8; do fails_with ENODEV "cat <&$fd"; done
    is "$("$HELPERS/io" fd 9 stop || :)" ENODEV
    is "$(ls . 2>/dev/null || :)" '' # or an error: ls(1) may report the ENOENT of a removed directory
    cd "$M/instances"
    like "$(ls one 2>&1 || :)" 'No such file or directory'
    cd "$T"
    exec 5<&- 6<&- 7<&- 8<&- 9<&-
}

t_limits_are_read_by_all_and_written_by_the_superuser() {
    mount_sim
    instance one "$ALICE"
    is "$(as "$ALICE" cat "$M/admin/instances/one/max_pmcs")" 0
    fails_with EACCES "as $ALICE sh -c 'echo 5 >$M/admin/instances/one/max_pmcs'"
    is "$(result_by "${POWERLESS[@]}" -- write "$M/admin/instances/one/max_pmcs" 5)" EPERM
    like "$(cat "$M/info/last_error")" "${FAILED}${ADMIN_ERROR}admin/instances/one/max_pmcs: only the superuser"
    is "$(cat "$M/admin/instances/one/max_pmcs")" 0
    limit one max_pmcs 5
    is "$(cat "$M/admin/instances/one/max_pmcs")" 5
    for pair in max_pmcs=-1 max_pmcs=x max_fds=99999999999 max_log=1k system_scope=2 kernel_mode=on lifetime=forever; do
        is "$(result write "$M/admin/instances/one/${pair%=*}" "${pair#*=}")" EINVAL "$pair"
        like "$(cat "$M/info/last_error")" "${FAILED}EINVAL P27 admin/instances/one/${pair%=*}: ${pair%=*} cannot be \"${pair#*=}\": write "
    done
    is "$(result write "$M/admin/instances/one/max_log" 1G)" EINVAL
    like "$(cat "$M/info/last_error")" 'write a number of bytes from 0'
    is "$(result write "$M/admin/instances/one/max_fds" '1 2')" EINVAL
    is "$(result write "$M/admin/instances/one/max_fds" ' ')" EINVAL
    is "$(cat "$M"/admin/instances/one/{kernel_mode,lifetime,max_fds,max_log,max_pmcs,system_scope} | xargs)" '0 mount 0 0 5 0'
}

t_max_pmcs_of_an_instance_is_edquot_and_other_instances_continue() {
    mount_sim sim_cpus=2,sim_rows=4,max_pmcs_per_user=4
    instance one "$ALICE"
    instance two "$ALICE"
    limit one max_pmcs 2
    inside one "$ALICE" a
    inside one "$ALICE" b
    fails_with EDQUOT "as $ALICE mkdir $M/instances/one/c"
    quota_shows one "$ALICE" "this instance's max_pmcs \(2 PMCs\)"
    inside two "$ALICE" a
    as "$ALICE" mkdir "$M/r"
    fails_with EDQUOT "as $ALICE mkdir $M/instances/two/b"
    quota_shows two "$ALICE" 'max_pmcs_per_user'
    as "$ALICE" rmdir "$M/instances/one/a" "$M/r"
    inside one "$ALICE" c
    limit one max_pmcs 0
    as "$ALICE" chmod 777 "$M/instances/one"
    inside one "$BOB" d
}

t_max_fds_of_an_instance_is_edquot_and_other_instances_continue() {
    mount_sim
    target_start p "$ALICE"
    target_start q "$BOB"
    instance one "$ALICE"
    instance two "$BOB"
    limit one max_fds 1
    inside one "$ALICE" a "event=page-faults target=${PID_OF[p]}"
    inside one "$ALICE" b event=page-faults
    is "$(result_as "$ALICE" write "$M/instances/one/b/target" "${PID_OF[p]}")" EDQUOT
    quota_shows one "$ALICE" "this instance's max_fds"
    inside two "$BOB" a "event=page-faults target=${PID_OF[q]}"
    as "$ALICE" mkdir "$M/r"
    is "$(result_as "$ALICE" write "$M/r/config" "event=page-faults target=${PID_OF[p]}")" ok
    as "$ALICE" rmdir "$M/instances/one/a"
    eventually 5 '[[ $(result_as "$ALICE" write "$M/instances/one/b/target" "${PID_OF[p]}") == ok ]]'
}

t_max_log_of_an_instance_is_edquot_and_other_instances_continue() {
    mount_sim
    target_start p "$ALICE"
    instance one "$ALICE"
    instance two "$ALICE"
    limit one max_log 100000
    inside one "$ALICE" a event=cycles period=100000 logsize=8192
    is "$(result_as "$ALICE" write "$M/instances/one/a/config" "logsize=4000000 target=${PID_OF[p]}")" EDQUOT
    quota_shows one "$ALICE" "this instance's max_log \(100000 bytes"
    inside two "$ALICE" a "event=cycles period=100000 logsize=4000000 target=${PID_OF[p]}"
}

t_cpus_are_counted_where_system_scope_is_1() {
    mount_sim sim_cpus=2,sim_rows=4,unprivileged_syspmcs=1
    instance one "$ALICE"
    inside one "$ALICE" a event=cycles
    is "$(result_as "$ALICE" write "$M/instances/one/a/target" cpu0)" EPERM
    like "$(as "$ALICE" cat "$M/instances/one/a/error")" '^EPERM X07 target: .*system_scope'
    limit one system_scope 1
    accepted "$M/admin/tunables/unprivileged_syspmcs" 0
    is "$(result_as "$ALICE" write "$M/instances/one/a/target" cpu0)" ok
    as "$ALICE" mkdir "$M/r"
    is "$(result_as "$ALICE" write "$M/r/config" 'event=cycles target=cpu1')" EPERM
    inside one "$ALICE" s 'event=cycles period=100000'
    is "$(result_as "$ALICE" write "$M/instances/one/s/target" cpu0)" EPERM 'sampling CPUs'
}

t_kernel_mode_is_counted_where_kernel_mode_is_1() {
    mount_sim sim_cpus=2,sim_rows=4,unprivileged_kernel=1
    instance one "$ALICE"
    as "$ALICE" mkdir "$M/instances/one/a"
    is "$(result_as "$ALICE" write "$M/instances/one/a/event" cycles:k)" EPERM
    like "$(as "$ALICE" cat "$M/instances/one/a/error")" '^EPERM P18 event: .*kernel_mode'
    is "$(result_as "$ALICE" write "$M/instances/one/a/config" 'event=cycles kernel=on')" EPERM
    is "$(as "$ALICE" grep kernel= "$M/instances/one/a/config")" kernel=off
    limit one kernel_mode 1
    is "$(result_as "$ALICE" write "$M/instances/one/a/event" cycles:k)" ok
    is "$(as "$ALICE" sed -n 's/^event //p' "$M/instances/one/a/status")" sim::cycles:k
}

t_root_has_no_superuser_rights_in_an_instance() {
    mount_sim sim_cpus=2,sim_rows=4,max_pmcs_per_user=3
    instance one
    mkdir "$M/instances/one/a" "$M/r"
    is "$(result write "$M/instances/one/a/event" cycles:k)" EPERM 'kernel mode'
    is "$(result write "$M/instances/one/a/config" 'event=cycles target=cpu0')" EPERM 'whole CPUs'
    limit one system_scope 1
    is "$(result write "$M/instances/one/a/config" 'event=cycles period=100000 target=cpu0')" EPERM 'sampling CPUs'
    is "$(result write "$M/r/config" 'event=cycles:k target=cpu0')" ok 'at the root it is'
    mkdir "$M/instances/one/b"
    fails_with EDQUOT "mkdir $M/instances/one/c"
    mkdir "$M/s" "$M/t"
    # An open descriptor gives no more: its rights are those of the open.
    exec 5>"$M/instances/one/b/config"
    is "$("$HELPERS/io" fd 5 'event=cycles:k' || :)" EPERM
    exec 5>&-
    accepted "$M/admin/tunables/unprivileged_proc_debug" 0
    target_start p "$ALICE"
    is "$(result write "$M/instances/one/b/config" "event=cycles:u target=${PID_OF[p]}")" EPERM 'others than self'
}

# all_of INSTANCE: prints the names and the texts of all files of the instance.
all_of() {
    (
        cd "$M/instances/$1"
        find .
        find . ! -name 'samples*' ! -path './events/*' -type f -exec grep -asH '' {} + || :
    )
}

t_no_file_of_an_instance_shows_pmcs_outside_of_it() {
    mount_sim sim_cpus=2,sim_rows=3
    pid_from 31300
    target_start secret 54321
    like "${PID_OF[secret]}" '^313'
    local pid=${PID_OF[secret]}
    instance secret_one 54321
    instance own "$ALICE"
    limit secret_one system_scope 1
    limit own system_scope 1
    inside secret_one 54321 secret_pmc "event=cycles target=$pid"
    inside secret_one 54321 secret_cpus "event=instructions target=all"
    pmc secret_root event=cycles "target=cpu0"
    chmod 777 "$M/secret_root"
    chmod 777 "$M/instances/secret_one"
    result_as 54321 write "$M/instances/secret_one/secret_pmc/target" 99999999 >/dev/null
    target_start mine "$ALICE"
    inside own "$ALICE" a "event=cycles target=${PID_OF[mine]}"
    # Refusals that have to do with others: rows that are taken, a process that is not one's own.
    inside own "$ALICE" b event=cycles
    result_as "$ALICE" write "$M/instances/own/b/target" cpu0 >"$T/refused"
    for n in 1 2 3; do
        inside own "$ALICE" "c$n"
        result_as "$ALICE" write "$M/instances/own/c$n/config" "event=cycles target=${PID_OF[mine]}" >>"$T/refused"
    done
    result_as "$ALICE" write "$M/instances/own/c1/target" "$pid" >>"$T/refused"
    grep -q E "$T/refused" || die 'nothing was refused'
    all_of own >"$T/printed"
    grep -q 'counts:a.cycles' "$T/printed"
    result_as "$ALICE" write "$M/instances/own/b/event" nonsense >/dev/null
    (as "$ALICE" cat "$M/instances/own/info/last_error" "$M"/instances/own/*/error) >>"$T/printed"
    # Sentences about alice's commands contain her words.
    sed -i "/E40 .*process $pid/d" "$T/printed"
    if grep -anE "secret|54321|\b$pid\b" "$T/printed"; then die 'something of others'; fi
    grep -q secret_root "$M/counts"
    grep -q 'instances/secret_one/secret_pmc' "$M/counts"
}

t_rows_of_others_are_foreign_where_they_are_taken_and_else_free() {
    mount_sim sim_cpus=2,sim_rows=2
    instance one
    instance two
    limit two system_scope 1
    pmc r event=cycles row=0 target=cpu0
    mkdir "$M/instances/two/t"
    accepted "$M/instances/two/t/config" "event=cycles row=1 target=$$"
    is "$(awk '{ print $1, $2, $5, $6, $7, $8, $9 }' "$M/instances/one/info/rows" | tail -4)" \
        '0 0 STANDALONE foreign 0 - -
0 1 FREE enabled 0 - -
1 0 STANDALONE enabled 0 - -
1 1 FREE enabled 0 - -'
    is "$(awk '{ print $1, $2, $5, $6, $7, $8, $9 }' "$M/info/rows" | tail -4)" \
        '0 0 STANDALONE enabled 1 r 0
0 1 THREAD enabled 1 instances/two/t 0
1 0 STANDALONE enabled 0 - -
1 1 THREAD enabled 1 instances/two/t 0'
    is "$(awk '$2 == 1 && $1 == 0 { print $5, $6, $7, $8 }' "$M/instances/two/info/rows")" 'THREAD enabled 1 t'
}

t_with_strict_rows_only_pmcs_of_different_instances_share_a_row() {
    mount_sim sim_cpus=1,sim_rows=2,strict_rows=1
    instance one
    instance two
    mkdir "$M/a" "$M/instances/one/a" "$M/instances/two/a"
    for pmc in "$M/a" "$M/instances/one/a" "$M/instances/two/a"; do
        accepted "$pmc/config" 'event=cycles row=0'
        sleep 300 &
        accepted "$pmc/target" $!
    done
    mkdir "$M/instances/one/b"
    sleep 300 &
    is "$(result write "$M/instances/one/b/config" "event=cycles row=0 target=$!")" EINVAL 'strict_rows'
}

t_the_roots_tables_list_only_pmcs_that_the_reader_may_read() {
    mount_sim sim_cpus=2,sim_rows=4,dirmode=0777
    target_start p "$ALICE"
    instance one "$ALICE"
    inside one "$ALICE" a "event=cycles target=${PID_OF[p]}"
    is "$(cut -f 1,2 "$M/counts")" "$(printf 'instances/one/a\tcycles')"
    grep -q '^pmcfs_count_total{pmc="a",event="cycles",scope="process",subtree="one"} [0-9]' "$M/metrics.prom"
    grep -q '^pmcfs_state{pmc="a",subtree="one",state="running"} 1' "$M/metrics.prom"
    # The instance's own file has the same lines, and nothing of the health of pmcfs.
    is "$(grep -v '^#' "$M/instances/one/metrics.prom" | sed 's/ [0-9.]*$//')" \
        "$(grep 'subtree="one"' "$M/metrics.prom" | sed 's/ [0-9.]*$//')"
    is "$(cut -f 1,2 "$M/instances/one/counts")" "$(printf 'a\tcycles')"
    as "$ALICE" chmod 755 "$M/instances/one/a"
    is "$(as "$BOB" cut -f 1 "$M/counts")" instances/one/a
    as "$ALICE" chmod 700 "$M/instances/one"
    empty as "$BOB" cat "$M/counts"
    is "$(as "$ALICE" cut -f 1 "$M/counts")" instances/one/a
    as "$ALICE" chmod 755 "$M/instances/one"
    as "$ALICE" chmod 700 "$M/instances/one/a"
    empty as "$BOB" cat "$M/counts" "$M/instances/one/counts"
}

t_statistics_are_those_of_the_instance() {
    mount_sim
    instance one
    mkdir "$M/a" "$M/b" "$M/instances/one/a"
    result write "$M/a/event" nonsense >/dev/null
    is "$(sed -n 's/^pmcs //p' "$M/instances/one/info/stats")" 1
    is "$(sed -n 's/^syscall_errors //p' "$M/instances/one/info/stats")" 0
    is "$(grep -cE '^(requests|works|parked|open_files|reloads|processes|descriptors_limit|instances) ' "$M/instances/one/info/stats" || :)" 0
    is "$(head -8 "$M/instances/one/info/stats" | cut -d ' ' -f 1)" "$(head -8 "$M/info/stats" | cut -d ' ' -f 1)"
    is "$(tail -1 "$M/info/stats")" 'instances 1'
    is "$(stat -f -c '%c %d' "$M/instances/one")" '0 0'
}

t_last_errors_are_of_one_instance() {
    mount_sim
    instance one
    instance two
    mkdir "$M/instances/one/a"
    is "$(result write "$M/instances/one/a/event" nonsense)" EINVAL
    like "$(cat "$M/instances/one/info/last_error")" "${FAILED}EINVAL CS01 a/event: "
    is "$(cat "$M/instances/two/info/last_error" "$M/info/last_error")" 'ok
ok'
}

t_the_same_directory_of_two_instances_has_two_inodes() {
    mount_sim
    instance one
    instance two
    mkdir "$M/instances/one/a"
    cd "$M/instances/one/events/software"
    for dir in "$M" "$M/instances/two"; do
        ls -R "$dir/events" "$dir/info" >/dev/null
        is "$(pwd -P)" "$M/instances/one/events/software"
        [[ ! . -ef $dir/events/software ]] || die 'one number for two directories'
    done
    is "$(head -1 page-faults)" 'event page-faults'
    is "$(stat -c %i ..)" "$(stat -c %i "$M/instances/one/events")"
    cd "$M/instances/one/a"
    is "$(pwd -P)" "$M/instances/one/a"
    cd "$T"
    is "$(ls -aiU "$M/instances/one/a" | awk '$2 == ".." { print $1 }')" "$(stat -c %i "$M/instances/one")"
    is "$(ls -aiU "$M/instances/one" | awk '$2 == ".." { print $1 }')" "$(stat -c %i "$M/instances")"
}

#@ reload
t_an_instance_survives_a_reload() {
    mount_sim
    target_start p "$ALICE"
    instance gone
    instance one "$ALICE"
    as "$ALICE" chmod 750 "$M/instances/one"
    local limits=(max_pmcs=7 max_fds=70 max_log=700000 system_scope=1 kernel_mode=1 lifetime=namespace) pair
    for pair in "${limits[@]}"; do limit one "${pair%=*}" "${pair#*=}"; done
    rmdir "$M/instances/gone"
    inside one "$ALICE" a "event=cycles target=${PID_OF[p]}"
    result_as "$ALICE" write "$M/instances/one/a/event" nonsense >/dev/null
    local inode before reloads
    inode=$(stat -c %i "$M/instances/one")
    before=$(as "$ALICE" cat "$M/instances/one/info/last_error" "$M/instances/one/a/config")
    exec 5<"$M/instances/one/a/ctl"
    reloads=$(reloads)
    kill -USR2 "$DAEMON"
    eventually 5 '(($(reloads) > reloads))'
    is "$(stat -c '%a %u %g %i' "$M/instances/one")" "1750 $ALICE $ALICE $inode"
    for pair in "${limits[@]}"; do is "$(cat "$M/admin/instances/one/${pair%=*}")" "${pair#*=}"; done
    is "$(as "$ALICE" cat "$M/instances/one/info/last_error" "$M/instances/one/a/config")" "$before"
    is "$(cat <&5)" running
    exec 5<&-
    instance two
    (($(stat -c %i "$M/instances/two") > inode)) || die 'a number was used again'
    is "$(result_as "$ALICE" write "$M/instances/one/a/event" instructions)" EBUSY
    accepted "$M/admin/instances/one/ctl" release
    is "$(ls "$M/instances")" two
}

# namespace NAME 'SHELL': starts a PID namespace, whose first process runs SHELL in the instance NAME, prints a line, which
# is ANSWER, and exits at a line of input.
namespace() {
    local in out
    mkfifo "$T/$1.in" "$T/$1.out"
    unshare --pid --fork --mount-proc --kill-child bash -c "cd '$M/instances/$1'; $2; echo ready; read -r _ || :" \
        <"$T/$1.in" >"$T/$1.out" &
    exec {in}>"$T/$1.in" {out}<"$T/$1.out"
    IN[$1]=$in OUT[$1]=$out PID_OF[$1]=$!
    read -r -t 60 -u "$out" ANSWER || die "nothing from the namespace of $1"
}

t_with_lifetime_namespace_an_instance_ends_with_its_namespace() {
    mount_sim
    instance one
    instance two
    limit one lifetime namespace
    limit two lifetime namespace
    mkdir "$M/instances/one/outside"
    namespace one 'mkdir a && echo event=cycles target=self >a/config; sh -c "mkdir b"'
    is "$ANSWER" ready
    namespace two 'mkdir a'
    is "$(ls -d "$M"/instances/*/[ab] | wc -l)" 3
    exec 5<"$M/instances/one/b/ctl"
    echo >&"${IN[one]}"
    eventually 10 '[[ $(ls "$M/instances") == two && $(ls "$M/admin/instances") == two ]]'
    fails_with ENODEV 'cat <&5'
    exec 5<&-
    eventually 5 '[[ $(stat_value pmcs) == 1 ]]'
    echo >&"${IN[two]}"
    eventually 10 '[[ $(ls "$M/instances") == "" ]]'
}

# The instance is not bound to a namespace that a process in the container creates and leaves.
t_a_namespace_within_a_container_does_not_end_its_instance() {
    mount_sim
    instance one
    instance two
    limit one lifetime namespace
    limit two lifetime namespace
    namespace one 'unshare --pid --fork unshare --pid --fork sh -c "mkdir a; :"'
    namespace two 'mkdir a'
    echo >&"${IN[two]}"
    eventually 10 '[[ $(ls "$M/instances") == one ]]'
    is "$(ls -d "$M/instances/one/a")" "$M/instances/one/a"
    echo >&"${IN[one]}"
    eventually 10 '[[ $(ls "$M/instances") == "" ]]'
}

t_an_instance_set_back_to_lifetime_mount_outlives_its_namespace() {
    mount_sim
    instance one
    limit one lifetime namespace
    namespace one 'mkdir a'
    limit one lifetime mount
    echo >&"${IN[one]}"
    wait "${PID_OF[one]}" || :
    sleep 0.2
    is "$(ls -d "$M/instances/one/a")" "$M/instances/one/a"
    is "$(stat_value instances)" 1
}

#@ reload
t_lifetime_namespace_survives_a_reload() {
    mount_sim
    instance one
    limit one lifetime namespace
    namespace one 'mkdir a'
    local reloads
    reloads=$(reloads)
    kill -USR2 "$DAEMON"
    eventually 5 '(($(reloads) > reloads))'
    is "$(ls "$M/instances")" one
    echo >&"${IN[one]}"
    eventually 10 '[[ $(ls "$M/instances") == "" ]]'
}

#@ slow
t_instances_can_be_released_while_they_are_used() {
    mount_sim
    target_start p "$ALICE"
    local end=$((SECONDS + 4)) worker
    # One process creates and releases, the others use existing instances, which may disappear at any moment.
    for worker in 1 2 3; do
        while ((SECONDS < end)); do
            as "$ALICE" mkdir "$M/instances/one/a$worker"
            "$HELPERS/io" write "$M/instances/one/a$worker/config" "event=cycles target=${PID_OF[p]}"
            cat "$M"/instances/one/{counts,metrics.prom,info/rows,info/stats} "$M/counts" "$M/info/rows"
            ls -lR "$M/instances" "$M/admin/instances"
            as "$ALICE" rmdir "$M/instances/one/a$worker"
        done >/dev/null 2>&1 &
        PID_OF[worker$worker]=$!
    done
    while ((SECONDS < end)); do
        mkdir "$M/instances/one"
        chown "$ALICE" "$M/instances/one"
        sleep 0.05
        "$HELPERS/io" write "$M/admin/instances/one/ctl" release >/dev/null
    done
    for worker in 1 2 3; do wait "${PID_OF[worker$worker]}" || :; done
    eventually 10 '[[ $(stat_value pmcs) == 0 && $(stat_value descriptors) == 0 ]]'
    is "$(stat_value instances)" 0
    target_end p
    eventually 5 '[[ $(stat_value processes) == 0 ]]'
}
