# shellcheck shell=dash disable=SC2034,SC2094
# What the tests inside the machine are written with. T is a directory of this boot.

T=/run/packaging

die() {
    echo "FAILED: $*"
    exit 1
}

# is ACTUAL EXPECTED [WHAT]
is() {
    [ "$1" = "$2" ] || die "${3:-value}: got '$1', expected '$2'"
}

# like TEXT REGEX [WHAT]
like() {
    echo "$1" | grep -qE -e "$2" || die "${3:-text}: '$1' does not match '$2'"
}

# unlike TEXT REGEX [WHAT]
unlike() {
    ! echo "$1" | grep -qE -e "$2" || die "${3:-text}: '$1' matches '$2'"
}

# eventually COMMAND…
eventually() {
    local left=600
    until "$@"; do
        [ $((left -= 1)) -gt 0 ] || die "not within a minute: $*"
        sleep 0.1
    done
}

AS_ALICE='setpriv --reuid=1000 --regid=1000 --clear-groups'
alice() { $AS_ALICE "$@"; }

# ---- the service and the mount ----

property() { systemctl show -p "$1" --value pmcfs.service; }
main_pid() { property MainPID; }
worker_pid() { pgrep -P "$(main_pid)"; }
stat_value() { sed -n "s/^$1 //p" /pmc/info/stats; }
mounted() { findmnt -n /pmc >/dev/null; }
not_mounted() { ! mounted; }

# Nothing of pmcfs is left: no mount, no process.
is_gone() {
    is "$(findmnt -n -t fuse.pmcfs)" '' 'mounts'
    is "$(pgrep -a pmcfs)" '' 'processes'
}

# ---- something to count ----

# target_start NAME: starts a process of alice that forks on command. PID is its PID.
target_start() {
    rm -f "$T/$1.in" "$T/$1.out"
    mkfifo "$T/$1.in" "$T/$1.out"
    # shellcheck disable=SC2016
    $AS_ALICE sh -c 'while read -r _; do (:); echo done; done' <>"$T/$1.in" >"$T/$1.out" 3<>"$T/$1.out" &
    PID=$!
    exec 8<>"$T/$1.in" 9<>"$T/$1.out"
}

# target_work: of the last one.
target_work() {
    echo work >&8
    read -r _ <&9
}

# counter_start NAME SETTING…: a PMC of alice's.
counter_start() {
    alice mkdir "/pmc/$1"
    # shellcheck disable=SC2016
    alice sh -c 'cd "/pmc/$1"; shift; echo "$@" >config' - "$@" || die "$(cat "/pmc/$1/error")"
}
count() { cat "/pmc/$1/count"; }
