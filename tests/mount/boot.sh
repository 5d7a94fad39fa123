# shellcheck shell=bash disable=SC2016,SC2034,SC2119,SC2120,SC2153
# Sections of the configuration create PMCs and instances at mount and at SIGHUP.

# mount_boot [OPTION…]: mounts with $T/conf; the files of $T/conf.d are read after it.
mount_boot() {
    mkdir -p "$T/conf.d"
    mount_pmcfs -c "$T/conf" "$@"
}

# reread: sends SIGHUP and waits until the configuration was read.
reread() {
    local n
    n=$(grep -c 'was reread' "$T/daemon" || :)
    kill -HUP "$DAEMON"
    eventually 10 '[[ $(grep -c "was reread" "$T/daemon") -gt '"$n"' ]]'
}

refused_at_start() { like "$(cat "$T/daemon")" "$1"; }

t_a_section_creates_a_pmc_that_counts_when_the_tree_is_there() {
    cat >"$T/conf" <<EOF
mincount = 2000
[pmc system]          ; a comment
event = page-faults,context-switches
target = all
metrics = cpu
owner = $ALICE:$BOB
mode-bits = 0750
[pmcfs]
notify_ms = 200
EOF
    mkdir "$T/pmc"
    "$BIN" -c "$T/conf" "$T/pmc" 2>"$T/printed"
    M=$T/pmc
    is "$(state system)" running
    is "$(tr '\n' ' ' <"$M/system/event")" 'page-faults context-switches '
    is "$(cat "$M/system/target")" all
    is "$(setting system metrics)" cpu
    is "$(stat -c '%u %g %a' "$M/system")" "$ALICE $BOB 750"
    is "$(cat "$M/admin/tunables/mincount" "$M/admin/tunables/notify_ms" | xargs)" '2000 200'
    unlike "$(cat "$T/printed")" conf
    umount "$M"
}

t_mode_and_owner_are_root_s_by_default() {
    echo '[pmc a]' >"$T/conf"
    mount_boot
    is "$(stat -c '%u %g %a' "$M/a")" '0 0 700'
    is "$(state a)" new
}

t_an_owner_is_written_as_for_chown() {
    cat >"$T/conf" <<EOF
[pmc a]
owner = nobody
[pmc b]
owner = nobody:
[pmc c]
owner = nobody:daemon
[pmc d]
owner = :daemon
[pmc e]
owner = 77:78
EOF
    mount_boot
    local uid gid daemon
    uid=$(id -u nobody) gid=$(id -g nobody) daemon=$(getent group daemon | cut -d: -f3)
    is "$(stat -c '%u:%g' "$M"/[a-e] | xargs)" "$uid:0 $uid:$gid $uid:$daemon 0:$daemon 77:78"
}

t_an_instance_gets_its_owner_and_limits() {
    cat >"$T/conf" <<EOF
[instance web]
owner = $ALICE:$ALICE
max_pmcs = 2
system-scope = 1
mode-bits = 0700
[instance plain]
EOF
    mount_boot
    is "$(stat -c '%u %g %a' "$M/instances/web")" "$ALICE $ALICE 1700"
    is "$(cat "$M"/admin/instances/web/{max_pmcs,system_scope} | xargs)" '2 1'
    [[ -d $M/instances/plain ]]
    as "$ALICE" mkdir "$M/instances/web/a" "$M/instances/web/b"
    fails_with EDQUOT 'as "$ALICE" mkdir "$M/instances/web/c"'
}

t_files_of_the_directory_are_read_in_order_of_their_names() {
    mkdir "$T/conf.d"
    printf '[pmc one]\nevent=page-faults\n' >"$T/conf"
    printf '[pmc two]\nevent=context-switches\n[pmcfs]\nmincount = 3000\n' >"$T/conf.d/20-b.conf"
    printf 'mincount = 4000\n[pmc one]\nevent = task-clock\n' >"$T/conf.d/10-a.conf"
    printf '[pmc three]\n' >"$T/conf.d/30-c.txt"
    printf '[pmc four]\n' >"$T/conf.d/.hidden.conf"
    mount_boot
    is "$(cat "$M/one/event" "$M/two/event" | xargs)" 'page-faults context-switches'
    [[ ! -e $M/three && ! -e $M/four ]]
    is "$(cat "$M/admin/tunables/mincount")" 3000
    refused_at_start "$T/conf.d/10-a.conf:2: \[pmc one\] EEXIST P23: .*$T/conf:1"
}

# Debian's inih truncates long names of sections and long lines.
t_long_names_and_continued_values_are_read_and_a_long_line_is_refused() {
    local name
    name=$(printf 'kubelet-pod%.0s' {1..11})
    cat >"$T/conf" <<EOF
[pmc $name]
event = page-faults,
  context-switches, migrations
target = cpu0 cpu0
filter = off
[pmc b]
event = $(printf 'page-faults,%.0s' {1..40})
[pmc c]
EOF
    mount_boot
    is "$(xargs <"$M/$name/event")" 'page-faults context-switches migrations'
    refused_at_start "conf:7: .*longer than 198 bytes"
    [[ -e $M/c ]] || die 'the next one'
}

t_lists_of_events_in_sections_may_have_blanks_and_braces() {
    cat >"$T/conf" <<EOF
[pmc a]
event = {page-faults, context-switches}
[pmc b]
event = { page-faults , context-switches } migrations
[pmc c]
event = page-faults ,context-switches
[pmc d]
event = {page-faults context-switches
[pmc e]
event = {page-faults minor-faults}:u
EOF
    mount_boot
    is "$(xargs <"$M/a/event")" 'page-faults context-switches'
    is "$(xargs <"$M/b/event")" 'page-faults context-switches migrations'
    is "$(xargs <"$M/c/event")" 'page-faults context-switches'
    is "$(xargs <"$M/e/event")" 'page-faults:u minor-faults:u'
    refused_at_start "conf:7: \[pmc d\] EINVAL "
}

t_a_refused_section_prevents_neither_the_mount_nor_other_sections() {
    cat >"$T/conf" <<EOF
[pmc a]
event = nosuchevent
[pmc b]
evnt = page-faults
[pmc c/d]
event = page-faults
[pmc counts]
[pmc e]
event = page-faults
target = 999999999
[pmc f]
owner = nosuchuser
[instance g]
max_pmcs = many
[nothing]
a = b
[pmc h]
event = page-faults
[pmc h2]
mode-bits = 999
[pmc h3]
lifetime = open
EOF
    mount_boot
    is "$(cd "$M" && echo */count)" h/count
    is "$(ls "$M/instances")" ''
    refused_at_start "conf:1: \[pmc a\] EINVAL CS01: .*nosuchevent"
    refused_at_start "conf:4: \[pmc b\] EINVAL E24: .*evnt.*did you mean event"
    refused_at_start "conf:5: \[pmc c/d\] EINVAL P22: .*A-Z"
    refused_at_start "conf:7: \[pmc counts\] EEXIST P23: "
    refused_at_start "conf:8: \[pmc e\] (ESRCH E44|EINVAL E27): "
    refused_at_start "conf:12: \[pmc f\] EINVAL P02: .*nosuchuser"
    refused_at_start "conf:14: \[instance g\] EINVAL P27: max_pmcs"
    refused_at_start "conf:15: no such section \[nothing\]"
    refused_at_start "conf:20: \[pmc h2\] EINVAL P02: mode-bits"
    refused_at_start "conf:22: \[pmc h3\] EINVAL P07: lifetime"
}

t_check_reports_what_would_be_refused_for_its_form() {
    local rc=0
    mkdir "$T/conf.d"
    cat >"$T/conf.d/a.conf" <<EOF
[pmc a]
evnt = page-faults
callchain = maybe
target = cpux
owner = nosuchuser
[pmc a/b]
[instance c]
max_pmcs = many
max_pmc = 3
[pmc d]
target = cpu0 tid:self
[pmc fine]
event = page-faults
target = all
EOF
    : >"$T/conf"
    "$BIN" --check -c "$T/conf" 2>"$T/printed" || rc=$?
    is "$rc" 1
    is "$(sed -n 's,^pmcfs: .*/conf.d/a.conf:\([0-9]*\): .*,\1,p' "$T/printed" | xargs)" '2 3 4 5 6 8 9 11'
    like "$(cat "$T/printed")" ':11: \[pmc d\] EINVAL P07: target=tid:self: '
    sed -i '1,11d' "$T/conf.d/a.conf"
    "$BIN" --check -c "$T/conf" || die 'a good one is refused'
}

t_sighup_creates_missing_pmcs_and_changes_no_existing_one() {
    printf '[pmc a]\nevent=page-faults\n[pmc gone]\n[instance i]\n' >"$T/conf"
    mount_boot
    rmdir "$M/gone"
    accepted "$M/a/event" context-switches
    cat >"$T/conf" <<EOF
[pmc a]
event = task-clock
mode-bits = 0777
[pmc gone]
[pmc new]
event = nosuchevent
[instance i]
max_pmcs = 3
EOF
    reread
    is "$(cat "$M/a/event")" context-switches
    is "$(stat -c %a "$M/a")" 700
    is "$(cat "$M/admin/instances/i/max_pmcs")" 0
    [[ -d $M/gone ]] || die 'removed, and not made again'
    [[ ! -e $M/new ]]
    like "$(tail -2 "$T/daemon")" 'conf:5: \[pmc new\] EINVAL CS01: '
    sed -i 's/nosuchevent/page-faults/' "$T/conf"
    reread
    is "$(cat "$M/new/event")" page-faults
}

t_sections_create_nothing_again_after_a_worker_s_death_or_an_upgrade() {
    SUPERVISED=1
    printf '[pmc a]\nevent=page-faults\ntarget=all\n[pmc gone]\n[instance gone]\n' >"$T/conf"
    mount_boot
    local before
    rmdir "$M/gone" "$M/instances/gone"
    before=$(sed -n 's/^created_ns //p' "$M/a/status"; count a)
    kill -KILL "$SERVER"
    eventually 10 '[[ $(cat /proc/$DAEMON/task/$DAEMON/children) != "$SERVER " ]]'
    [[ ! -e $M/gone && ! -e $M/instances/gone ]] || die 'after a death'
    between "$(count a)" "${before##*[!0-9]}" 1000000000
    "$BIN" --upgrade "$M"
    [[ ! -e $M/gone && ! -e $M/instances/gone ]] || die 'after an upgrade'
    between "$(count a)" "${before##*[!0-9]}" 1000000000
}
