# shellcheck shell=bash disable=SC2016,SC2034,SC2154
# Not shown: other users' PMCs, the kernel's addresses, and hostile text as it is. No name is a path out of the tree.

# shellcheck source=tests/mount/rights_lib.sh
. "${BASH_SOURCE[0]%/*}/rights_lib.sh"
# shellcheck source=tests/mount/sampling_lib.sh
. "${BASH_SOURCE[0]%/*}/sampling_lib.sh"

# ---- other users ----

# all_that USER: writes the texts of all files that the user can read to $T/all-USER, with sentences of refusals.
all_that() {
    as "$1" find "$M" -path '*/samples*' -prune -o -type f -exec sh -c '
        for file; do echo "== ${file##*/}"; timeout 30 cat "$file"; done' sh {} + >"$T/all-$1" 2>/dev/null || :
    grep -q '^interface' "$T/all-$1" || die "user $1 reads nothing at all"
}

# silent_about USER WORD…: no file that the user can read contains one of the words.
silent_about() {
    local word
    for word in "${@:2}"; do
        ! grep -wF -e "$word" "$T/all-$1" || die "user $1 reads '$word'"
    done
}

# telling_start: creates a PMC of alice with recognizable words in its name, program and remark.
telling_start() {
    cp "$HELPERS/target" "$T/tellingprogram"
    echo 31413 >/proc/sys/kernel/ns_last_pid # a number that means nothing else
    target_by p setpriv --reuid "$ALICE" --regid "$ALICE" --clear-groups -- "$T/tellingprogram"
    alices tellingname event=Page_Faults log-exit=on count=7654321 "target=${PID_OF[p]}"
    alices tellingrow event=cycles row=1 "target=${PID_OF[p]}"
    as "$ALICE" sh -c "echo tellingtext >$M/tellingname/samples"
    tell p faults 100
    is "$(result_as "$ALICE" write "$M/tellingname/event" tellingerror)" EINVAL
    is "$(result_as "$ALICE" write "$M/tellingrow/config" tellingkey=1)" EINVAL
    TELLING=(tellingname tellingprogram tellingrow tellingtext tellingerror tellingkey Page_Faults "${PID_OF[p]}")
}

t_nothing_of_anothers_pmcs_is_in_any_file() {
    mount_sim
    telling_start
    all_that "$ALICE"
    for word in tellingname tellingerror Page_Faults "${PID_OF[p]}"; do
        grep -qwF "$word" "$T/all-$ALICE" || die "alice herself does not read '$word'"
    done
    as "$BOB" mkdir "$M/bobs"
    all_that "$BOB"
    silent_about "$BOB" "${TELLING[@]}"
    ! grep -qw "76543[0-9][0-9]" "$T/all-$BOB" || die 'the count is shown'
    empty as "$BOB" cat "$M/counts"
    as "$BOB" cat "$M/metrics.prom" >"$T/metrics-$BOB"
    grep -q '^pmcfs_' "$T/metrics-$BOB" || die 'bob reads no metrics'
    is "$(grep -o 'pmc="[^"]*"' "$T/metrics-$BOB" | sort -u)" 'pmc="bobs"' "PMCs in the metrics"
    is "$(as "$BOB" sed -n 's/^[0-9]* 1 .* [1-9] \(other .*\)$/\1/p' "$M/info/rows" | sort -u)" \
        'other other other other - -'
}

t_refusals_reveal_nothing_about_other_users() {
    mount_sim sim_cpus=2,sim_rows=2
    telling_start
    as "$BOB" mkdir "$M/bobs"
    # refusal USER FILE TEXT: collects the sentences for the search.
    refusal() {
        local got
        got=$(result_as "$BOB" write "$M/bobs/$1" "$2")
        [[ $got != ok ]] || die "accepted: $2"
        as "$BOB" cat "$M/bobs/error" "$M/info/last_error" >>"$T/all-$BOB"
    }
    : >"$T/all-$BOB"
    refusal config "event=cycles target=${PID_OF[p]}"
    refusal config "event=page-faults target=tid:${PID_OF[p]}"
    accepted "$M/admin/tunables/unprivileged_syspmcs" 1
    refusal config 'event=cycles row=1 mode=SC target=cpu0'
    ! as "$BOB" mkdir "$M/tellingname" 2>"$T/printed" || die 'made'
    like "$(cat "$T/printed")" 'File exists'
    ! as "$BOB" rmdir "$M/tellingname" 2>/dev/null || die 'removed'
    like "$(result_as "$BOB" rename "$M/tellingname" "$M/x")" EPERM
    as "$BOB" cat "$M/bobs/error" >>"$T/all-$BOB"
    # This PID was written by bob.
    silent_about "$BOB" tellingprogram tellingrow tellingtext tellingerror Page_Faults "$ALICE"
    [[ $(grep -c . "$T/all-$BOB") -ge 7 ]] || die 'no sentences'
}

t_each_user_reads_only_the_last_error_of_ones_own() {
    mount_pmcfs
    alices a
    is "$(result_as "$ALICE" write "$M/a/event" tellingerror)" EINVAL
    like "$(as "$ALICE" cat "$M/info/last_error")" tellingerror
    is "$(as "$BOB" cat "$M/info/last_error")" ok
    is "$(cat "$M/info/last_error")" ok
    fails_with EINVAL "as $BOB mkdir $M/.x"
    like "$(as "$BOB" cat "$M/info/last_error")" "${FAILED}EINVAL P22 .x: mkdir: "
    like "$(as "$ALICE" cat "$M/info/last_error")" tellingerror
    fails_with EACCES "as $BOB cat $M/a/error"
}

t_a_pmc_with_mode_755_is_shown_to_others() {
    mount_sim
    telling_start
    as "$ALICE" chmod 755 "$M/tellingname"
    all_that "$BOB"
    grep -qw tellingname "$T/all-$BOB"
    silent_about "$BOB" tellingrow tellingkey
    like "$(as "$BOB" cat "$M/counts")" '^tellingname'
    is "$(as "$BOB" cat "$M/counts" | wc -l)" 1
}

# ---- the kernel's addresses ----

# A program of alice with samples in the kernel only.
switches_start() { target_start p "$ALICE"; }

# A frame of the kernel with its name.
KERNEL_NAME=';[a-z_][a-z_0-9.]*_\[k\]'

# kernel_words FILE: the number of 8-byte words that look like addresses of the kernel, without markers of call chains.
kernel_words() {
    /usr/bin/python3 -c '
import struct, sys
data = open(sys.argv[1], "rb").read()
words = struct.unpack("<%dQ" % (len(data) // 8), data[:len(data) // 8 * 8])
print(sum(0xffff800000000000 <= w < 0xffffffffff600000 for w in words))' "$1"
}

t_addresses_of_the_kernel_are_in_no_form_of_the_log() {
    mount_pmcfs
    switches_start
    alices a event=context-switches period=1 callchain=on "target=${PID_OF[p]}"
    pmc r event=context-switches period=1 callchain=on "target=${PID_OF[p]}"
    tell p sleep 100
    for name in a r; do
        ctl $name stop
        for form in samples samples.perf samples.folded; do
            cat "$M/$name/$form" >"$T/$name.$form"
        done
    done
    # Root's log has them, so that there is something to look for.
    grep -q 'k:0xffff[89a-f]' "$T/r.samples"
    [[ $(kernel_words "$T/r.samples.perf") -gt 50 ]] || die "$(kernel_words "$T/r.samples.perf") words"
    # On x86 every program has the page [vsyscall] at such an address.
    ! grep '0xffff[89a-f]' <(grep -v ' path=\[vsyscall\]$' "$T/a.samples") || die 'in the text'
    is "$(grep -c 'k:' "$T/a.samples" || :)" 0
    is "$(kernel_words "$T/a.samples.perf")" 0 'in perf.data'
    ! grep -E '\[kernel|0xffff[89a-f]' "$T/a.samples.folded" || die 'in the stacks'
    between "$(status a hidden)" 50 10000 hidden
    like "$(grep ' drop ' "$T/a.samples" | tail -n 1)" 'where=hidden'
}

t_unprivileged_kernel_shows_addresses_and_no_names() {
    mount_pmcfs
    switches_start
    accepted "$M/admin/tunables/unprivileged_kernel" 1
    alices a event=context-switches period=1 callchain=on "target=${PID_OF[p]}"
    tell p sleep 50
    accepted "$M/a/ctl" stop
    grep -q 'k:0xffff[89a-f]' <(as "$ALICE" cat "$M/a/samples")
    is "$(status a hidden)" 0
    like "$(as "$ALICE" cat "$M/a/samples.folded")" ';\[kernel\+0xffff[0-9a-f]*\]'
    unlike "$(as "$ALICE" cat "$M/a/samples.folded")" "$KERNEL_NAME"
}

t_tracepoints_are_not_for_all_and_have_no_raw_data() {
    with_tracefs
    mount_pmcfs
    [[ -e $M/events/tracepoint/sched:sched_switch ]] || skip 'no tracepoints'
    target_start p "$ALICE"
    alices a
    is "$(result_as "$ALICE" write "$M/a/event" sched:sched_switch)" EPERM
    like "$(cat "$M/a/error")" '^EPERM P18 '
    pmc b event=sched:sched_switch period=1 "target=${PID_OF[p]}"
    tell p sleep 50
    ctl b stop
    cat "$M/b/samples.perf" >"$T/b.perf"
    # perf.data in pipe format: a header of 16 bytes, then records; in HEADER_ATTR sample_type is at 8 + 24.
    /usr/bin/python3 - "$T/b.perf" <<'P'
import struct, sys
data, at = open(sys.argv[1], "rb").read(), 16
seen = 0
while at < len(data):
    kind, misc, size = struct.unpack_from("<IHH", data, at)
    if kind == 64:
        seen += 1
        assert not struct.unpack_from("<Q", data, at + 8 + 24)[0] & 1 << 10, "PERF_SAMPLE_RAW"
    at += size
assert seen
P
}

# ---- text that others chose ----

# Text of a hostile program: a newline, a key, a terminal command, a separator of stacks, invalid UTF-8.
HOSTILE=$'a\nb=c \e[2J;\xff\\'
HOSTILE_SHOWN='a\\012b\\075c\\040\\033\[2J;\\377\\134'

# one_line_each FILE: every line of a log starts with a time and a type, and has only printable bytes.
one_line_each() {
    is "$(grep -cvE '^[0-9]+\.[0-9]{9} [a-z-]+( [a-z]+=[^ ]*)*$' "$1" || :)" 0 "lines of ${1##*/} that are not records"
    ! LC_ALL=C grep -nP '[^\x20-\x7e]' "$1" || die "bytes that are not printable in ${1##*/}"
}

# hostile_start: starts a shell, p, that at a line of input executes target.c with this name and path.
hostile_start() {
    mkdir "$T/$HOSTILE"
    cp "$HELPERS/target" "$T/$HOSTILE/$HOSTILE"
    mkfifo "$T/p.in" "$T/p.out"
    bash -c 'read -r _; exec "$1"' bash "$T/$HOSTILE/$HOSTILE" <"$T/p.in" >"$T/p.out" &
    PID_OF[p]=$!
    exec {in}>"$T/p.in" {out}<"$T/p.out"
    IN[p]=$in OUT[p]=$out
}

t_a_hostile_name_and_path_break_no_line() {
    mount_pmcfs
    hostile_start
    pmc a event=page-faults period=1 callchain=on log-exit=on "target=${PID_OF[p]}"
    echo >&"${IN[p]}"
    read -r -t 60 -u "${OUT[p]}" _
    tell p faults 100
    printf '%s' $'x\ny=\e[1m;\xff' >"/proc/${PID_OF[p]}/comm" 2>/dev/null || :
    tell p faults 100
    target_end p
    eventually 5 '[[ $(state a) == exited ]]'
    log a
    one_line_each "$T/a.log"
    between "$(of a exec "pid=${PID_OF[p]}")" 1 1 'exec'
    like "$(grep ' exec ' "$T/a.log")" "path=.*/$HOSTILE_SHOWN/$HOSTILE_SHOWN\$"
    like "$(grep ' map-in .*012b' "$T/a.log" | head -n 1)" "path=.*/$HOSTILE_SHOWN/$HOSTILE_SHOWN\$"
    cat "$M/a/samples.folded" >"$T/folded"
    is "$(grep -cvE '^[^ ]+ [0-9]+$' "$T/folded" || :)" 0 'lines that are not STACK N'
    ! LC_ALL=C grep -nP '[^\x20-\x7e]' "$T/folded" || die 'bytes that are not printable'
    like "$(grep '012b' "$T/folded" | head -n 1)" '^a\\012b\\075c\\040\\033\[2J\\073'
    for file in detail status target counts config error; do
        path=$M/a/$file
        [[ $file != counts ]] || path=$M/counts
        ! LC_ALL=C grep -nP '[^\x20-\x7e\t]' "$path" || die "$file"
    done
}

t_a_hostile_remark_is_one_line() {
    mount_pmcfs
    pmc a event=page-faults
    printf '%s' "$HOSTILE"$'\n1.000000000 sample pid=1' >"$T/text"
    cat "$T/text" >"$M/a/samples"
    log a
    one_line_each "$T/a.log"
    is "$(of a user) $(of a sample)" '1 0'
    like "$(grep ' user ' "$T/a.log")" "text=$HOSTILE_SHOWN\\\\0121.000000000\\\\040sample\\\\040pid\\\\0751\$"
}

t_no_label_of_the_metrics_is_forged() {
    mount_pmcfs
    pmc a
    for text in 'page-faults"} 1' 'page-faults\nTYPE x counter' $'page-faults\e[2J' $'page-faults\xff' \
        'page-faults{a="b"}'; do
        like "$(result write "$M/a/event" "$text")" '^E(INVAL|NOENT|OPNOTSUPP)$' "writing '$text'"
        like "$(cat "$M/a/error")" '^E[A-Z]+ (CS|E|P|X)[0-9]+ event: '
        empty cat "$M/a/event"
    done
    for name in 'a"b' $'a\nb' 'a\b' 'a b' 'a=b' $'a\xff' 'a{b}'; do
        fails_with EINVAL 'mkdir "$M/$name"'
    done
    # The strangest accepted name is shown as it is written.
    local odd=A._:@+-z
    pmc "$odd" event=page-faults
    accepted "$M/a/event" page-faults
    is "$(sed -n 's/^pmcfs_state{pmc="\(A[^"]*\)",state="allocated"} 1$/\1/p' "$M/metrics.prom")" "$odd"
    rmdir "$M/$odd"
    ! LC_ALL=C grep -nP '[^\x20-\x7e]' "$M/metrics.prom" "$M/info/last_error" "$M/a/error" ||
        die 'bytes that do not print'
    is "$(grep -c '^pmcfs_count_total' "$M/metrics.prom")" 1
}

# ---- names as paths ----

t_no_name_leads_out_of_the_tree() {
    mount_pmcfs
    mkdir "$M/a" "$T/outside"
    for name in ... ..x .x -x '..%2f' '~' a/b a/../info/x info/x events/x admin/x admin/tunables/x; do
        ! mkdir "$M/$name" 2>/dev/null || die "made $name"
    done
    like "$(result rename "$M/a" "$T/outside/a")" EXDEV
    like "$(result rename "$T/outside" "$M/b")" EXDEV
    for to in "$M/info/a" "$M/admin/a" "$M/events/a" "$M/a/b"; do
        like "$(result rename "$M/a" "$to")" '^E(PERM|ACCES|EXIST|INVAL|NOENT|NOTDIR)$'
    done
    ! ln -s /etc/passwd "$M/link" 2>/dev/null || die 'a link in the tree'
    ! mknod "$M/a/null" c 1 3 2>/dev/null || die 'a device'
    is "$(find "$M" -maxdepth 1 -name '[!A-Zceim]*' -printf '%f\n' | sort | xargs)" "a admin ${M##*/}"
    is "$(find "$T/outside" | wc -l)" 1
}
