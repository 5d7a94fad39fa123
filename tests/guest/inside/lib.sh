# shellcheck shell=dash disable=SC2034,SC2154
# Functions for the tests inside the machine. T is the directory of the test, M the mount.

M=$T/pmc
ROWS=7 # six programmable counters and the cycle counter
ALICE=1000
BOB=1001
USER=
MILLION=1000000

# ---- assertions ----

die() {
    echo "FAILED: $*"
    exit 1
}

skip() {
    echo "$*"
    exit 77
}

# is ACTUAL EXPECTED [WHAT]
is() {
    [ "$1" = "$2" ] || die "${3:-value}: got '$1', expected '$2'"
}

# like TEXT REGEX [WHAT]
like() {
    echo "$1" | grep -qE -e "$2" || die "${3:-text}: '$1' does not match '$2'"
}

# between ACTUAL MIN MAX [WHAT]
between() {
    case $1 in '' | *[!0-9]*) die "${4:-value}: '$1' is not a number" ;; esac
    { [ "$1" -ge "$2" ] && [ "$1" -le "$3" ]; } || die "${4:-value}: $1 is not in $2…$3"
}

# near ACTUAL EXPECTED PER_MILLE [WHAT]
near() {
    case $1 in '' | *[!0-9]*) die "${4:-value}: '$1' is not a number" ;; esac
    awk -v a="$1" -v e="$2" -v p="$3" 'BEGIN { d = a > e ? a - e : e - a; exit d * 1000 > e * p }' ||
        die "${4:-value}: $1 is not within $3/1000 of $2"
}

# eventually SECONDS COMMAND…
eventually() {
    local left=$(($1 * 10))
    shift
    until "$@"; do
        [ $((left -= 1)) -gt 0 ] || die "not in time: $*"
        sleep 0.1
    done
}

# accepted FILE TEXT: one write(2), as USER (empty: root).
accepted() {
    local got
    got=$(${USER:+as $USER} io write "$1" "$2") || die "$got from writing '$2' to $1: \
$(cat "${1%/*}/error" 2>/dev/null)"
}

# refused ERRNO FILE TEXT [REGEX of `error`]
refused() {
    local got
    got=$(${USER:+as $USER} io write "$2" "$3") && die "accepted '$3' in $2, expected $1"
    is "$got" "$1" "writing '$3' to ${2##*/}"
    [ -z "${4-}" ] || like "$(cat "${2%/*}/error")" "$4" "error after '$3'"
}

# ---- the mount ----

# mount_pmcfs [OPTIONS]
mount_pmcfs() {
    mkdir -m 755 "$M"
    pmcfs -f ${1:+-o "$1"} "$M" >"$T/daemon" 2>&1 &
    DAEMON=$!
    echo $DAEMON >>"$T/pids"
    eventually 20 test -e "$M/info/version"
}

# Stops pmcfs, which must still run and exit with status 0.
end_all() {
    [ "${DAEMON-}" ] || return 0
    kill -TERM "$DAEMON" 2>/dev/null || die "pmcfs has ended by itself"
    wait "$DAEMON" || die "pmcfs ended with status $?"
}

# pmc NAME [SETTINGS]
pmc() {
    ${USER:+as $USER} mkdir "$M/$1"
    [ $# = 1 ] || accepted "$M/$1/config" "$2"
}

count() { cat "$M/$1/count"; }
state() { cat "$M/$1/ctl"; }
ctl() { accepted "$M/$1/ctl" "$2"; }
attach() { accepted "$M/$1/target" "$2"; }
status() { sed -n "s/^$2 //p" "$M/$1/status"; }
release() { for pmc in "$@"; do rmdir "$M/$pmc"; done; }

# counted NAME COMMAND…: prints how much the count grew during the command.
counted() {
    local pmc=$1 before
    before=$(count "$pmc")
    shift
    "$@"
    echo $(($(count "$pmc") - before))
}

# rows COLUMN [CPU]: prints this column of info/rows, one line for each row of the core's class.
rows() {
    awk -v name="$1" -v cpu="${2:-0}" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $at["cpu"] == cpu && $at["class"] ~ /^armv8/ { print $at[name] }' "$M/info/rows"
}

# dispositions [CPU]: prints how many rows have each disposition: "6 FREE 1 THREAD"
dispositions() {
    rows disposition "${1:-0}" | sort | uniq -c | awk '{ printf "%s%d %s", s, $1, $2; s = " " }'
}

# ---- programs ----
#
# Tests of exact counts run their program on CPU 0. The emulator has one instruction counter for all CPUs, and sometimes
# charges a program in user mode on CPU 1 with the instructions of CPU 0. In such a jump one overflow interrupt may
# represent two.

# run NAME COMMAND…: starts a program that executes the commands that it reads; PID_NAME is its PID.
run() {
    local name=$1 pid
    shift
    mkfifo "$T/$name.in" "$T/$name.out"
    "$@" <>"$T/$name.in" 1<>"$T/$name.out" &
    pid=$!
    echo $pid >>"$T/pids"
    eval "PID_$name=$pid"
    read -r ANSWER <"$T/$name.out"
    is "$ANSWER" ready "$name"
}

# order NAME WORDS… sends a command, answer NAME reads ANSWER, tell NAME WORDS… does both.
order() {
    local name=$1
    shift
    echo "$*" >"$T/$name.in"
}

answer() { read -r ANSWER <"$T/$1.out"; }

tell() {
    order "$@"
    answer "$1"
}
