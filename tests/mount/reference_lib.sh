# shellcheck shell=bash
# Shared by the reference_*.sh tests. Names of tests contain ids of tests/reference-ids.

# BY: the prefix of the write in `steady`, such as (as "$ALICE"); empty: root writes.
BY=()

# world: prints everything that a refused command could have changed.
world() {
    local ctl pmc
    for ctl in "$M"/*/ctl; do
        [[ -e $ctl ]] || continue
        pmc=${ctl%/ctl}
        echo "$pmc"
        cat "$pmc"/{config,event,mode,target,ctl}
        sed -n '/^row /p; /^targets /p' "$pmc/status"
        [[ $(<"$ctl") == running ]] || cat "$pmc/count" 2>&1 || :
    done
    cat "$M/info/rows"
    (cd "$M/admin" && head -n 1 cpu*/* tunables/* 2>&1) || : # the slots of an offline CPU cannot be read
}

# steady ERRNO ID FILE TEXT: the write must fail with ERRNO and a sentence with ID (a regex), and change nothing that
# world prints.
steady() {
    local before after got line=$M/info/last_error
    before=$(world)
    got=$("${BY[@]}" "$HELPERS/io" write "$3" "$4") && die "accepted '$4' in ${3#"$M/"}, expected $1 $2"
    is "$got" "$1" "writing '$4' to ${3#"$M/"}: errno"
    [[ $3 == "$M"/admin/* ]] || line=${3%/*}/error
    line=$(sed 's/^[0-9.]* //' "$line")
    [[ $line =~ ^$1\ ($2)\ ([a-z0-9]+/)*${3##*/}:\ .+[^.]$ ]] || die "writing '$4': error is '$line', expected '$1 $2 ${3##*/}: …'"
    after=$(world)
    is "$after" "$before" "everything after '$4' was refused"
}

# row CPU ROW COLUMN: prints one field of info/rows; COLUMN is a name of its first line.
row() {
    awk -v cpu="$1" -v row="$2" -v name="$3" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $at["cpu"] == cpu && $at["row"] == row { print $at[name] }' "$M/info/rows"
}

# dispositions: prints those of all rows on CPU 0, in the order of the rows.
dispositions() { awk 'NR > 1 && $1 == 0 { print $5 }' "$M/info/rows" | xargs; }

# ---- the log of a PMC ----

# log NAME: prints a log to its end; the PMC must not be running.
log() { timeout 40 cat "$M/$1/samples" || die "samples of $1 does not end"; }

# of TYPE [KEY=VALUE…]: prints the lines of its input that have this type and all these fields.
of() {
    awk -v type="$1" -v fields="${*:2}" 'BEGIN { n = split(fields, want, " ") }
        $2 == type { for (i = 1; i <= n; i++) if (!index($0 " ", " " want[i] " ")) next; print }'
}

# line REGEX: prints the number of the first line of $T/log that matches; there must be one.
line() { grep -nm1 -E -- "$1" "$T/log" | cut -d: -f1 | grep . || die "no line $1 in $(cut -c1-200 "$T/log")"; }

# in_order REGEX…: the first matching lines of $T/log must come in this order.
in_order() {
    local regex at before=0
    for regex in "$@"; do
        at=$(line "$regex")
        ((at > before)) || die "$regex comes in line $at, not after line $before of $(cut -c1-200 "$T/log")"
        before=$at
    done
}

ended() { eventually 10 "[[ \$(state $1) == exited ]]"; }

# run NAME COMMAND…: attaches a shell to the PMC, which then executes COMMAND; with start=exec only COMMAND is counted.
run() { sh -c "echo self >'$M/$1/target' && exec \"\$@\"" - "${@:2}"; }
