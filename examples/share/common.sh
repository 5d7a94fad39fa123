# shellcheck shell=sh
# Common functions of pmccontrol, pmcstat, cpustat, cputrack and perfmon: error messages with the sentence of the tree,
# PMCs that are removed however the tool exits, and waits that a signal interrupts immediately.
# A tool sets usage_status, error_status and usage (one line) before it sources this file. A tool that starts commands
# saves the environment first, because a shell exports changed variables that the user had exported.
# shellcheck disable=SC2154,SC2034 # variables set or read by the tool

tool=${0##*/}
PMC=${PMC-}
unset CDPATH
tab=$(printf '\t')
created='' helpers='' child='' scratch='' serial=0 awaited='' status=0 refusal='' start_file='' clock_file=''
# Set by signals: the run is stopping, the command got an interrupt, await has to wait again, an interval is over.
stopping='' interrupt_sent='' wait_again='' tick_due=''
set -f
# This file is part of the tool, so it has the positional parameters of the tool.
version=0.3.0
case ${1-} in
--help) set -- -h ;;
--version) printf '%s %s\n' "$tool" "$version" && exit ;;
esac

# to_printable TEXT: sets printable to the text with "?" instead of control bytes, which must not go to the terminal.
to_printable() {
    printable=$1
    case $1 in *[[:cntrl:]]*) printable=$(printf '%s' "$1" | LC_ALL=C tr '[:cntrl:]' '?') ;; esac
}

fail() {
    to_printable "$*"
    printf '%s: %s\n' "$tool" "$printable" >&2
    exit "$error_status"
}

misuse() {
    to_printable "$*"
    printf '%s: %s\nusage: %s\n(%s -h lists the options)\n' "$tool" "$printable" "$usage" "$tool" >&2
    exit "$usage_status"
}

# Called if the reader of the output has exited (a write fails if SIGPIPE is ignored) or the disk is full.
unwritable() {
    fail 'cannot write the output: the disk is full, or the reader of the pipe has exited'
}

# check_writable OPTION FILE
check_writable() {
    (: >>"$2") 2>/dev/null || fail "$1 $2: cannot write to this file (check its directory and its permissions)"
}

show_help() {
    help || unwritable
    exit 0
}

# The refusals of getopts, which was called with a silent option string.
bad_option() {
    if [ "$1" = : ]; then
        misuse "option -$2 needs an argument"
    fi
    misuse "unknown option -$2"
}

# find_tree: sets PMC, if it is empty, to a mount of pmcfs that this user can read: /pmc if that is one, otherwise the
# first one. In a container a bind mount is one as well.
found=
find_tree() {
    [ -z "$PMC" ] || return 0
    while IFS= read -r place; do
        case $place in *\\*) place=$(printf '%b' "$(printf '%s\n' "$place" | sed 's/\\/\\0/g')") ;; esac
        [ -r "$place/info/version" ] || continue
        case $place/$PMC in /pmc/* | */) PMC=$place found=$place ;; esac
    done <<END
$(awk '{ for (i = 7; i <= NF && $i != "-"; i++); if ($(i + 1) == "fuse.pmcfs") print $5 }' /proc/self/mountinfo 2>/dev/null)
END
}

# Sets at_exec, the value of start= for a command. The simulated PMU reports no exec.
at_exec='exec'
need_tree() {
    find_tree
    if [ -r "$PMC/info/version" ]; then
        read -r backend <"$PMC/info/backend" && [ "$backend" != sim ] || at_exec=now
        case $found in
        '' | /pmc) ;;
        *) to_printable "$found" && printf '%s: using the pmcfs on %s, because none is mounted on /pmc\n' "$tool" "$printable" >&2 ;;
        esac
        return
    fi
    error_status=1
    fail "no pmcfs ${PMC:+that you may read }is mounted${PMC:+ on $PMC}: mount one as root with \`pmcfs ${PMC:-/pmc}\` or \`systemctl start pmcfs\`"
}

# A decimal number as the shell prints it: 010 would be octal.
is_number() {
    case $1 in '' | 0?* | *[!0-9]* | ???????????????????*) return 1 ;; esac
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
    misuse "$1 $2: give $3, 1 or more"
}

# need_seconds OPTION TEXT
need_seconds() {
    is_positive "$2" || misuse "$1 $2: give a number of seconds above 0, such as 0.5"
}

# milliseconds SECONDS, with or without a fraction
milliseconds() {
    awk -v s="$1" 'BEGIN { printf "%d\n", s * 1000 + 0.5 }'
}

# Functions for awk programs. shown: text as people read it, in one line and in valid UTF-8. \ooo becomes its byte, except
# control characters, characters that change the direction of writing, and bytes that are not UTF-8.
# shellcheck disable=SC2016,SC1003
text_functions='
function text_begin(    i, c) {
    for (i = 1; i < 256; i++) code[sprintf("%c", i)] = i
    c = "[\200-\277]"
    letter = "^(\302[\240-\277]|[\303-\337]" c "|\340[\240-\277]" c "|[\341\343-\354\356]" c c \
        "|\342(\200[\220-\247\257-\277]|\201[\200-\237]|[\202-\277]" c ")|\355[\200-\237]" c \
        "|\357([\200-\276]" c "|\277[\200-\275])|\360[\220-\277]" c c "|[\361-\363]" c c c \
        "|\364[\200-\217]" c c ")"
}
function shown(text,    at, bytes, digits, out) {
    if (text !~ /[^ -~]|\\/) return text
    while (at = match(text, /\\[0-3][0-7][0-7]/)) {
        digits = substr(text, at + 1, 3)
        bytes = bytes substr(text, 1, at - 1) \
            sprintf("%c", 64 * substr(digits, 1, 1) + 8 * substr(digits, 2, 1) + substr(digits, 3))
        text = substr(text, at + 4)
    }
    for (bytes = bytes text; bytes != ""; bytes = substr(bytes, RLENGTH + 1))
        if (match(bytes, /^[ -~]+/) || match(bytes, letter))
            out = out substr(bytes, 1, RLENGTH)
        else {
            out = out sprintf("\\%03o", code[substr(bytes, 1, 1)])
            RLENGTH = 1
        }
    return out
}
'

# ---- the tree ----

# list DIRECTORY: prints its names, one per line. Names in the tree have no blanks.
list() {
    (cd "$1" && set +f && for entry in *; do
        [ ! -e "$entry" ] || printf '%s\n' "$entry"
    done)
}

# list_events MARK: prints all events by class, with MARK after the name of a class.
list_events() {
    for class in $(list "$PMC/events"); do
        printf '%s\n' "$class$1" 2>/dev/null || unwritable
        list "$PMC/events/$class" | sed 's/^/\t/' 2>/dev/null || unwritable
    done
}

# Called if a PMC or the tree was removed or unmounted.
tree_gone() {
    [ ! -e "$PMC/info/version" ] || fail 'a PMC of this run was removed by another process'
    fail "the pmcfs on $PMC was unmounted"
}

# reason FILE: prints the sentence about the last refused write to FILE, then the errno and the id in parentheses.
reason() {
    line=
    if [ -r "${1%/*}/error" ]; then
        IFS= read -r line <"${1%/*}/error"
    else
        IFS= read -r line 2>/dev/null <"$PMC/info/last_error"
        line=${line#[0-9]*.[0-9]* }
    fi
    case $line in
    *': '*)
        head=${line%%: *}
        printf '%s (%s)\n' "${line#*: }" "${head% *}"
        ;;
    *) [ -e "$PMC/info/version" ] && printf 'pmcfs gave no reason\n' || printf 'the pmcfs on %s was unmounted\n' "$PMC" ;;
    esac
}

# try_put FILE TEXT: writes one command to a file; refusal is the reason of a failure.
try_put() {
    refusal=
    printf '%s\n' "$2" 2>/dev/null >"$1" && return 0
    refusal=$(reason "$1")
    return 1
}

put() {
    try_put "$@" || fail "$refusal"
}

# pmc_new SETTING…: creates a PMC, whose name is in new. If its settings are refused, the status is 1 and the reason in
# refusal. lifetime=owner removes the PMC even if this shell is killed by a signal that it cannot catch. A process with the
# same PID in another container may have taken the name.
pmc_new() {
    while
        serial=$((serial + 1))
        new=$tool-$$-$serial
        created="$created $new"
        ! mkdir "$PMC/$new" 2>/dev/null
    do
        created=${created% *}
        [ -d "$PMC/$new" ] || fail "cannot create a PMC: $(mkdir_reason)"
    done
    try_put "$PMC/$new/config" "lifetime=owner $*" && return 0
    pmc_remove "$new"
    return 1
}

# Prints the reason why mkdir was refused. The kernel itself checks the permission bits, without a line in last_error.
mkdir_reason() {
    if [ -w "$PMC" ]; then
        reason "$PMC/info/version"
    else
        echo "you may not write to $PMC (EACCES): its mode is the mount option rootmode, which the administrator sets"
    fi
}

pmc_remove() {
    for name in "$@"; do
        rmdir "$PMC/$name" 2>/dev/null
        drop "$name" "$created"
        created=$kept
    done
}

# drop WORD LIST: sets kept to the list without the word.
drop() {
    kept=
    for word in $2; do
        [ "$word" = "$1" ] || kept="$kept $word"
    done
}

# ---- the end ----

finish() {
    trap '' INT QUIT TERM HUP PIPE ALRM USR1 USR2
    for pid in $helpers $timer_USR1 $timer_USR2; do
        kill "$pid" 2>/dev/null
    done
    # shellcheck disable=SC2086 # names without blanks
    pmc_remove $created
    [ -z "$scratch" ] || rm -rf "$scratch"
}

# need_scratch: creates the temporary directory scratch, which finish removes.
need_scratch() {
    [ -z "$scratch" ] || return 0
    scratch=$(mktemp -d) || fail "cannot create a temporary directory in ${TMPDIR:-/tmp}: set TMPDIR to a writable one"
}

# Traps. A trap can run inside another trap, and dash 0.5.12 then continues the outer one with a wrong $?. Code that
# runs in a trap that returns therefore uses `case` only: no ||, &&, if, while, and no function that does. Everything
# else that a signal starts is done by await, outside of traps.

# Ends the awaited process: by ^C, or when the time is up. Results are still printed. KILL, because a shell that is
# about to become a sleep has this one's traps for a moment, and would lose any other signal.
stop_now() {
    wait_again=yes stopping=yes
    case $awaited in
    '') ;;
    "$child") kill "$awaited" 2>/dev/null ;;
    *) kill -s KILL "$awaited" 2>/dev/null ;;
    esac
}

# ^C: the command gets INT from its terminal or from here, and the tool waits for it, because it may print something or
# continue. A second interrupt kills it.
interrupted() {
    interrupts_child=yes
    case $int_prefix in '') interrupts_child= ;; esac
    case $child in '') interrupts_child= ;; esac
    case $awaited in '' | "$child") ;; *) interrupts_child= ;; esac
    case $interrupts_child/$stopping in
    yes/)
        wait_again=yes stopping=yes interrupt_sent=yes
        interrupt_child
        ;;
    *) stop_now ;;
    esac
}

# The terminal itself interrupts a command in its foreground.
interrupt_child() {
    read -r process_stat <"/proc/$$/stat"
    # shellcheck disable=SC2086 # word splitting is intended
    set -- ${process_stat##*\) }
    case $3 in "$6") ;; *) kill -s INT "$child" 2>/dev/null ;; esac
}

trap finish EXIT
trap interrupted INT
trap stop_now USR2
trap 'exit 129' HUP
trap 'exit 131' QUIT
trap 'exit 141' PIPE
trap 'exit 142' ALRM
trap 'exit 143' TERM
trap 'wait_again=yes tick_due=yes' USR1

# For tools with an interval: await calls it after each USR1.
tick() { :; }

# The end has come before the command was launched.
stopped_before_launch() { exit 130; }

# ---- waiting ----

# timer SECONDS USR1|USR2: sends this shell the signal. USR1 is repeated until await stops the timer: a signal that
# comes just before `wait` does not wake it. When the timer is killed, it kills its sleep.
timer_USR1='' timer_USR2=''
timer() {
    (
        started=$!
        trap 'case $! in "$started") ;; *) kill "$!"; wait ;; esac; exit' TERM
        pause=$1
        while :; do
            sleep "$pause" &
            wait "$!"
            started=$!
            kill -s "$2" "$$" || exit
            [ "$2" = USR1 ] || exit
            pause=0.1
        done
    ) >/dev/null 2>&1 3>&- 4<&- &
    eval "timer_$2=\$!"
}

# await PID: waits until this child has exited, by itself or by stop_now, and calls tick while waiting. status is its exit
# status.
await() {
    awaited=$1 wait_again=yes
    [ -z "$stopping" ] || [ "$interrupt_sent" ] || stop_now
    status=138
    while [ "$wait_again" ]; do
        wait_again='' before_wait=$status
        if [ "$stopping" ]; then wait "$1" 2>/dev/null; else wait "$1"; fi
        status=$?
        # A signal may arrive together with the exit, after wait returned the status; 138 and 140 are USR1 and USR2.
        case $before_wait/$status in 138/* | 140/*) ;; */127) status=$before_wait ;; esac
        if [ "$tick_due" ]; then
            kill "$timer_USR1" 2>/dev/null
            timer_USR1='' tick_due=''
            [ "$stopping" ] || tick
        fi
    done
    awaited=
    drop "$1" "$helpers"
    helpers=$kept
}

# pause MILLISECONDS
pause() {
    [ "$1" -gt 0 ] && [ -z "$stopping" ] || return 0
    sleep "$(printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)))" 3>&- 4<&- &
    helpers="$helpers $!"
    await "$!"
}

# find_int_prefix: sets int_prefix to a command prefix, so that a command in the background reacts to ^C. A shell makes
# such a command ignore SIGINT, and env undoes that. The prefix is empty if this shell itself ignores SIGINT.
int_prefix=unknown
find_int_prefix() {
    [ "$int_prefix" = unknown ] || return 0
    int_prefix=
    case $(sed -n 's/^SigIgn:.*\(.\)$/\1/p' "/proc/$$/status") in [2367abef]) return ;; esac
    ! env --default-signal=INT true 2>/dev/null || int_prefix='env --default-signal=INT,QUIT'
}

# The tool may set not_found and not_executable, the exit statuses for these.
cannot_execute() {
    case $1 in
    */*)
        [ ! -e "$1" ] || {
            error_status=${not_executable:-$error_status}
            fail "cannot execute \"$1\": not an executable file"
        }
        ;;
    esac
    error_status=${not_found:-$error_status}
    fail "cannot execute \"$1\": command not found"
}

# launch NAMES COMMAND…: starts a child that attaches itself to these PMCs (to NAME/tid with its single thread only) and
# executes the command. With start=exec the PMCs count from its first instruction. child is its PID. fd 4 is the input
# of the tool, because a shell redirects the input of background commands. Just before the exec, the first line of
# clock_file is copied to start_file, if these are set.
launch() {
    counters_of_child=$1
    shift
    command -v "$1" >/dev/null || cannot_execute "$1"
    find_int_prefix
    [ -z "$stopping" ] || stopped_before_launch
    set -- -- "${start_file:-/dev/null}" "${clock_file:-/dev/null}" "$@"
    for name in $counters_of_child; do
        case $name in */*) word=${name#*/}self ;; *) word=self ;; esac
        set -- "$word" "$PMC/${name%%/*}/target" "$@"
    done
    # shellcheck disable=SC2016,SC2086 # variables of the child; word splitting is intended
    set -- $int_prefix sh -c '
        while [ "$1" != -- ]; do
            echo "$1" 2>/dev/null >"$2" || exit
            shift 2
        done
        IFS= read -r pmcfs_clock <"$3"
        echo "$pmcfs_clock" >"$2"
        shift 3
        exec "$@"' "$tool" "$@"
    exec 4<&0
    child=starting interrupt_sent=
    (
        eval "$environment"
        exec "$@"
    ) <&4 4<&- 3>&- &
    child=$!
    [ -z "$interrupt_sent" ] || interrupt_child
    helpers="$helpers $child"
    exec 4<&-
}

# never_started NAME: succeeds if the exited command was not attached to this PMC or not executed; its shell has printed
# the reason. With descendants=on the exit may be noticed a moment later: then a PMC that waits for an exec is still
# armed, whereas after an exec its time has started.
never_started() {
    case $(cat "$PMC/$1/ctl" 2>/dev/null) in
    new | allocated) ;;
    armed | exited) grep -qx 'enabled_ns 0' "$PMC/$1/status" || return 1 ;;
    *) return 1 ;;
    esac
    case $(cat "$PMC/$1/error") in
    *\ target:*) fail "$(reason "$PMC/$1/target")" ;;
    esac
}

# warn_if_partial NAME: prints a warning if the count of this PMC is partial; otherwise the status is 1.
warn_if_partial() {
    grep -q '^partial yes' "$PMC/$1/status" 2>/dev/null &&
        printf '%s: %s: the count is a lower bound (see partial in pmcfs(5))\n' "$tool" "$(paste -s -d , "$PMC/$1/event")" >&2
}

# start_watcher NAME: starts a child that exits when all targets of this PMC have exited, because its `series` ends.
# The PMC has an interval. watcher is the PID of the child.
start_watcher() {
    cat "$PMC/$1/series" >/dev/null 2>&1 3>&- &
    watcher=$!
    helpers="$helpers $watcher"
}
