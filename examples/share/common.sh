# shellcheck shell=sh
# What pmccontrol, pmcstat, cpustat, cputrack and perfmon share: refusals with the tree's own sentence,
# PMCs that end with the tool however it ends, and waiting that a signal interrupts at once.
# A tool sets usage_status, error_status and usage (one line) before it sources this.
# shellcheck disable=SC2154,SC2034 # what the tool sets, what the tool reads

tool=${0##*/}
PMC=${PMC:-/pmc}
tab=$(printf '\t')
made='' helpers='' scratch='' serial=0 ticked='' ended='' awaited='' refusal=''
set -f
# This is a part of the tool: its words are those of the tool.
[ "${1-}" != --help ] || set -- -h

fail() {
    printf '%s: %s\n' "$tool" "$*" >&2
    exit "$error_status"
}

misuse() {
    printf '%s: %s\nusage: %s\n(%s -h lists the options)\n' "$tool" "$*" "$usage" "$tool" >&2
    exit "$usage_status"
}

# Nobody reads any more, which a shell that ignores SIGPIPE learns from a write, or a disk is full.
unwritable() {
    fail 'the output cannot be written'
}

# The refusals of getopts, which was called with a silent option string.
bad_option() {
    if [ "$1" = : ]; then
        misuse "option -$2 needs an argument"
    fi
    misuse "there is no option -$2"
}

need_tree() {
    [ -r "$PMC/info/version" ] ||
        fail "$PMC is not a mounted pmcfs: mount it there, or say where it is with PMC=DIR"
}

# One that a shell can count with.
is_number() {
    case $1 in '' | *[!0-9]* | ???????????????????*) return 1 ;; esac
}

# Decimal fractions as sleep(1) takes them.
is_seconds() {
    case $1 in '' | . | *[!0-9.]* | *.*.*) return 1 ;; esac
}

is_positive() {
    is_seconds "$1" || return 1
    case $1 in *[1-9]*) ;; *) return 1 ;; esac
}

# need_count OPTION TEXT WHAT
need_count() {
    is_number "$2" && [ "$2" -gt 0 ] && return 0
    misuse "$1 $2: not $3 above 0"
}

# need_seconds OPTION TEXT
need_seconds() {
    is_positive "$2" || misuse "$1 $2: not a number of seconds above 0"
}

# milliseconds SECONDS, with or without a fraction
milliseconds() {
    awk -v s="$1" 'BEGIN { printf "%d\n", s * 1000 + 0.5 }'
}

# ---- the tree ----

# list DIRECTORY: what is in it, a name a line. Names in the tree have no blanks.
list() {
    (cd "$1" && set +f && for entry in *; do
        [ ! -e "$entry" ] || printf '%s\n' "$entry"
    done)
}

# Why the last write to FILE was refused: the sentence, and behind it the errno and the id.
reason() {
    line=
    if [ -r "${1%/*}/error" ]; then
        IFS= read -r line <"${1%/*}/error"
    else
        IFS= read -r line 2>/dev/null <"$PMC/info/last_error"
    fi
    case $line in
    *': '*)
        head=${line%%: *}
        printf '%s (%s)\n' "${line#*: }" "${head% *}"
        ;;
    *) [ -e "$PMC/info/version" ] && printf 'no reason is known\n' || printf 'the tree at %s has ended\n' "$PMC" ;;
    esac
}

# try_put FILE TEXT: one command to one file; what was said against it is in refusal.
try_put() {
    refusal=
    printf '%s\n' "$2" 2>/dev/null >"$1" && return 0
    refusal=$(reason "$1")
    return 1
}

put() {
    try_put "$@" || fail "$refusal"
}

# pmc_new SETTING…: its name is in new. Its settings are refused by status 1 and refusal. lifetime=owner
# removes it even when this shell is killed by a signal it cannot catch.
pmc_new() {
    serial=$((serial + 1))
    new=$tool-$$-$serial
    made="$made $new"
    mkdir "$PMC/$new" 2>/dev/null || fail "no PMC can be made: $(reason "$PMC/info/version")"
    try_put "$PMC/$new/config" "lifetime=owner $*" && return 0
    rmdir "$PMC/$new" 2>/dev/null
    return 1
}

pmc_remove() {
    for name in "$@"; do
        rmdir "$PMC/$name" 2>/dev/null
    done
}

# ---- the end ----

finish() {
    trap '' INT TERM HUP PIPE USR1 USR2
    for pid in $helpers; do
        kill "$pid" 2>/dev/null
    done
    # shellcheck disable=SC2086 # names without blanks
    pmc_remove $made
    [ -z "$scratch" ] || rm -rf "$scratch"
}

# need_scratch: a directory of the tool's own, in scratch, that goes with it.
need_scratch() {
    [ -z "$scratch" ] || return 0
    scratch=$(mktemp -d) || fail "no temporary directory can be made in ${TMPDIR:-/tmp}"
}

# The end of what is waited for, by ^C or when the time is up: results are still printed.
end_now() {
    ended=yes
    [ -z "$awaited" ] || kill "$awaited" 2>/dev/null
}

trap finish EXIT
trap end_now INT USR2
trap 'exit 143' TERM
trap 'exit 141' PIPE
trap 'exit 129' HUP
trap 'ticked=yes; tick' USR1

# What tools with an interval replace.
tick() { :; }

# ---- waiting ----

# timer SECONDS SIGNAL: sends this shell the signal once. Killed, it takes its sleep with it.
timer() {
    (
        started=$!
        trap '[ "$!" = "$started" ] || { kill "$!"; wait; }; exit' TERM
        sleep "$1" &
        wait "$!"
        kill -s "$2" "$$"
    ) >/dev/null 2>&1 3>&- 4<&- &
    helpers="$helpers $!"
}

# await PID: until this child ends, or end_now was called; tick is called meanwhile.
await() {
    awaited=$1 ticked=yes
    while [ "$ticked" ] && [ -z "$ended" ]; do
        ticked=
        wait "$1"
    done
    awaited=
}

# pause MILLISECONDS
pause() {
    [ "$1" -gt 0 ] && [ -z "$ended" ] || return 0
    sleep "$(printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)))" 3>&- 4<&- &
    helpers="$helpers $!"
    await "$!"
}

# launch NAMES COMMAND…: a child that makes itself the target of these PMCs, of NAME/tid: with its one thread
# alone, and becomes the command. With start=exec they count from its first instruction. Its PID is in child. fd 4 is the tool's own input, which
# a shell takes from what it starts in the background.
launch() {
    names=$1
    shift
    command -v "$1" >/dev/null || fail "cannot execute \"$1\": no such program"
    exec 4<&0
    (
        for name in $names; do
            case $name in */*) put "$PMC/${name%/*}/target" "${name#*/}self" ;; *) put "$PMC/$name/target" self ;; esac
        done
        exec "$@" 3>&-
    ) <&4 4<&- &
    child=$!
    helpers="$helpers $child"
    exec 4<&-
}

# never_began NAME: the command, which has ended, did not become a target of this PMC, or could not be executed.
# Its shell has said why. With descendants the tree may hear of the end a moment later: what waited for an exec
# then still does, while time counts from the exec on at once.
never_began() {
    case $(cat "$PMC/$1/ctl" 2>/dev/null) in
    new | allocated) ;;
    armed | exited) grep -qx 'enabled_ns 0' "$PMC/$1/status" ;;
    *) return 1 ;;
    esac
}

# stand_by NAME: a child, in watcher, that ends when all targets of this PMC have ended: its stream of values
# does. It has an interval.
stand_by() {
    cat "$PMC/$1/series" >/dev/null 2>&1 3>&- &
    watcher=$!
    helpers="$helpers $watcher"
}
