# shellcheck shell=bash disable=SC2016,SC2094
# The tree: names, operations on them, and files under info/.

t_the_root_has_its_files() {
    mount_pmcfs
    for name in README info events admin instances counts metrics.prom; do
        [[ -e $M/$name ]] || die "no $name"
    done
    for name in version backend cpu cpuref cpus npmc classes rows stats tsc last_error; do
        cat "$M/info/$name" >/dev/null
    done
}

t_a_pmc_has_its_files() {
    mount_pmcfs
    mkdir "$M/a"
    for name in config event mode target ctl count detail metrics series samples samples.perf \
        samples.folded status error; do
        [[ -f $M/a/$name ]] || die "no $name"
    done
    [[ ! -e $M/a/rdpmc ]] || die "rdpmc is there"
}

t_names_of_pmcs_are_checked() {
    mount_pmcfs
    for name in a 7 A.b_c:d@e+f-g "$(printf 'n%.0s' {1..255})"; do
        mkdir "$M/$name"
    done
    for name in .a -a _a 'a b' 'a=b' $'a\nb' 'ä' 'a,b'; do
        fails_with EINVAL "mkdir '$M/$name'"
    done
    fails_with ENAMETOOLONG "mkdir $M/$(printf 'n%.0s' {1..256})"
    like "$(cat "$M/info/last_error")" "${FAILED}ENAMETOOLONG P24 n{256}: mkdir: a name has at most 255 bytes"
}

# As long as the names of pods that kubelet writes, and longer.
t_a_name_of_255_bytes_is_accepted_everywhere() {
    mount_pmcfs
    local name
    name=$(printf 'n%.0s' {1..255})
    mkdir "$M/instances/$name" "$M/$name" "$M/instances/$name/$name"
    accepted "$M/instances/$name/$name/config" 'event=page-faults interval=20 target=self'
    refused EINVAL CS01 "$M/instances/$name/$name/event" nonsense
    grep -q "^instances/$name/$name"$'\t' "$M/counts"
    grep -q "pmc=\"$name\"" "$M/metrics.prom"
    mv "$M/$name" "$M/${name%n}m"
    rmdir "$M/${name%n}m" "$M/instances/$name/$name" "$M/instances/$name"
    is "$(ls "$M/instances")" ''
}

t_reserved_names_are_taken() {
    mount_pmcfs
    mkdir "$M/a"
    for name in a README info events admin instances counts metrics.prom metrics.json self; do
        fails_with EEXIST "mkdir $M/$name"
    done
    is "$(result rename "$M/a" "$M/metrics.om")" EEXIST
    is "$(state a)" new
}

t_mv_renames_a_pmc_and_keeps_it_counting() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    tell p faults 50
    mv "$M/a" "$M/b"
    [[ ! -e $M/a ]] || die "the old name is still there"
    tell p faults 50
    between "$(count b)" 100 100000
    mkdir "$M/c"
    is "$(result rename "$M/b" "$M/c")" EEXIST
    is "$(result rename "$M/b" "$M/.b")" EINVAL
}

# Short and long names are stored in different places.
t_a_listing_shows_the_present_names() {
    mount_pmcfs
    local long dir
    long=$(printf 'n%.0s' {1..24})
    mkdir "$M/instances/one"
    for dir in "$M" "$M/instances/one"; do
        mkdir "$dir/n1" "$dir/n2" "$dir/n3" "$dir/$long"
        mv "$dir/n1" "$dir/${long}1"
        mv "$dir/$long" "$dir/n4"
        rmdir "$dir/n2"
        mv "$dir/n3" "$dir/${long%n}"
    done
    for dir in "$M" "$M/instances/one"; do
        is "$(find "$dir" -maxdepth 1 -name 'n*' -printf '%f\n')" "${long}1"$'\n'"${long%n}"$'\n'n4
    done
}

t_files_are_not_made_or_removed_by_hand() {
    mount_pmcfs
    pmc a event=page-faults
    fails_with EPERM "touch $M/x"
    fails_with EPERM "touch $M/a/x"
    fails_with EPERM "mkdir $M/a/x"
    fails_with EPERM "rm $M/a/count"
    fails_with EPERM "ln $M/a/count $M/a/x"
    fails_with EPERM "ln -s count $M/a/x"
    fails_with EPERM "mv $M/a/count $M/a/x"
    fails_with EPERM "mkfifo $M/a/x"
    fails_with EPERM "rmdir $M/info"
    fails_with EPERM "rm -r $M/a"
    is "$(cat "$M/a/event")" page-faults
}

t_a_file_for_a_setting_or_an_unknown_tunable_is_refused_with_the_right_place() {
    mount_pmcfs
    pmc a event=cpu-clock
    fails_with EPERM "touch $M/a/freq"
    like "$(cat "$M/info/last_error")" "${FAILED}EPERM P25 a/freq: create: a PMC has no file \"freq\": write freq=VALUE to config$"
    fails_with EPERM "touch $M/admin/tunables/max_pmc"
    like "$(cat "$M/info/last_error")" "${FAILED}EPERM P25 admin/tunables/max_pmc: create: no tunable \"max_pmc\": ls admin"
}

t_rmdir_succeeds_in_every_state() {
    mount_pmcfs
    target_start p
    pmc new
    pmc allocated event=page-faults
    pmc armed event=page-faults start=exec "target=${PID_OF[p]}"
    pmc running event=page-faults "target=${PID_OF[p]}"
    pmc stopped event=page-faults "target=${PID_OF[p]}"
    ctl stopped stop
    for name in new allocated armed running stopped; do
        is "$(state $name)" $name
        exec {held}<"$M/$name/count"
        rmdir "$M/$name"
        exec {held}<&-
        [[ ! -e $M/$name ]] || die "$name is still there"
    done
    tell p faults 1
}

t_df_and_stat_show_pmcfs() {
    mount_pmcfs
    df "$M" >/dev/null
    mkdir "$M/a"
    is "$(stat -f -c '%b %f %a %c %d %l' "$M")" '0 0 0 0 0 255' 'blocks, inodes, length of names'
    is "$(findmnt -no FSTYPE "$M")" fuse.pmcfs
    local line option
    line=$(grep " $M " /proc/self/mountinfo)
    for option in allow_other default_permissions nosuid nodev noexec; do
        like "$line" "[ ,]$option(,| |\$)"
    done
}

t_op07_t10_c01_cf01_x16_info_agrees_with_the_kernel() {
    mount_pmcfs
    is "$(cat "$M/info/version")" "$("$BIN" --version | head -1)
interface 3"
    like "$(cat "$M/info/backend")" '^perf'
    is "$(sed -n 's/^online //p' "$M/info/cpus")" "$(cat /sys/devices/system/cpu/online)"
    is "$(sed -n 's/^possible //p' "$M/info/cpus")" "$(cat /sys/devices/system/cpu/possible)"
    like "$(cat "$M/info/npmc")" '^[0-9]+$'
    like "$(cat "$M/info/tsc")" '^rate_hz [0-9]+
value [0-9]+$'
    grep -q '^software ' "$M/info/classes"
    [[ $(cat "$M/info/cpu") ]] || die "info/cpu is empty"
    local name
    name=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)
    like "$(cat "$M/info/cpu")" "${name//[^A-Za-z0-9 ]/.}"
}

t_op06_t10_stats_start_with_hwpmcs_eight() {
    mount_pmcfs
    is "$(head -8 "$M/info/stats" | cut -d' ' -f1 | xargs)" "intr_ignored intr_processed intr_bufferfull syscalls syscall_errors buffer_requests buffer_requests_failed log_sweeps"
    local before
    before=$(stat_value syscall_errors)
    fails_with EINVAL "mkdir $M/.x"
    [[ $(stat_value syscall_errors) -gt $before ]] || die "a failed operation was not counted"
    ! grep -vE '^[a-z0-9_]+ [0-9]+$' "$M/info/stats" || die "not 'name value'"
}

t_every_file_can_be_read_and_the_walk_terminates() {
    mount_pmcfs
    pmc a event=page-faults target=self
    timeout 40 find "$M" -path "$M/events" -prune -o -type f -exec cat {} + >"$T/all"
    timeout 40 find "$M/events/software" -type f -exec cat {} + >>"$T/all"
    timeout 40 grep -r page-faults "$M/a" "$M/counts" >/dev/null
    # Status 1: files are shorter than their size, as in sysfs.
    timeout 40 tar -cf "$T/tar" -C "$M" a info admin README 2>/dev/null || (($? == 1))
}

#@ slow
t_listing_while_others_come_and_go_shows_each_once() {
    mount_pmcfs
    for i in {1..300}; do mkdir "$M/p$i"; done
    for round in 1 2 3; do
        (for i in {1..100}; do mkdir "$M/new$round.$i"; done; for i in {1..100}; do rmdir "$M/new$round.$i"; done) &
        for _ in 1 2 3 4 5; do
            is "$(find "$M" -mindepth 1 -maxdepth 1 -name 'p*' | sort | uniq -d)" ""
            is "$(find "$M" -mindepth 1 -maxdepth 1 -name 'p*' | wc -l)" 300
        done
        wait $!
    done
}
