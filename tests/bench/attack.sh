#!/bin/sh
# What one user can do to another: a pread of a count, and an attach, while a third user makes as much
# trouble as the quotas allow. In turn, in one run: quiet, the same trouble beside pmcfs (control), the
# trouble in pmcfs. Only the ratios mean anything. Nothing is promised of them, as pmcfs does not limit the
# processor time of a user: they say how much of a daemon's time the quotas leave to one. Needs root, and
# about two minutes for each round.
#
# The trouble runs in the scheduler's class for what is idle, unless CLASS=normal: the CPUs that it takes
# itself are the system's business; what is shown is how busy it keeps the daemon.
#
# usage: tests/bench/attack.sh [BUILD-DIRECTORY]
# in the environment: ROUNDS=3 SECONDS_EACH=2 ATTACKS="attach bomb …" CLASS=idle
set -eu

# Mounts and processes are nobody else's business, and end with this process.
if [ -z "${PMCFS_BENCH-}" ]; then
    [ "$(id -u)" -eq 0 ] || { echo 'attack: needs root' >&2; exit 1; }
    PMCFS_BENCH=inside exec unshare --mount --pid --fork --kill-child --mount-proc \
        --propagation private sh "$0" "$@"
fi

here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../../build}" && pwd)
rounds=${ROUNDS:-3} each=${SECONDS_EACH:-2} threads=${THREADS_EACH:-5000}
class=${CLASS:-idle}
case $class in idle) class=--idle ;; normal) class=--other ;; *) echo "attack: no class $class" >&2; exit 2 ;; esac
attacks=${ATTACKS:-attach readers bomb exec lookups writes polls}
work=$(mktemp -d /tmp/pmcfs-attack.XXXXXX)
chmod 755 "$work"
mnt=$work/mnt
# Whatever one user may have, whoever calls this.
prlimit --pid $$ --nofile=8192: --nproc=8000:

clean() {
    trap - EXIT INT TERM HUP
    umount -l "$work/hang" 2>/dev/null || :
    umount -l "$mnt" 2>/dev/null || :
    rm -f "$work/tool" "$work/hang.bin" "$work"/*.ns "$work"/*.ready "$work/log"
    rmdir "$mnt" "$work/hang" "$work" 2>/dev/null || :
}
trap clean EXIT
trap 'exit 1' INT TERM HUP

die() { printf 'attack: %s\n' "$*" >&2; exit 1; }
as() { uid=$1; shift; exec setpriv --reuid "$uid" --regid "$uid" --clear-groups -- "$@"; }

# until_there COMMAND…
until_there() {
    n=0
    until "$@"; do
        n=$((n + 1))
        [ "$n" -lt 200 ] || die "not within 20 seconds: $*"
        sleep 0.1
    done
}

cc -std=gnu11 -O2 -D_GNU_SOURCE "$here/attack.c" -o "$work/tool" -lpthread
# shellcheck disable=SC2046
cc -std=gnu11 -O2 -D_GNU_SOURCE -DFUSE_USE_VERSION=314 "$here/../mount/hang.c" -o "$work/hang.bin" \
    $(pkg-config --cflags --libs fuse3)
mkdir "$mnt" "$work/hang"
"$build/pmcfs" -f "$mnt" >"$work/log" 2>&1 &
daemon=$!
until_there test -e "$mnt/info/version"
"$work/hang.bin" "$work/hang" >"$work/log" &
until_there mountpoint -q "$work/hang"
(as 1001 "$work/tool" threads "$threads" >"$work/many.ready") &
many=$!
(as 1000 "$work/tool" threads 1 >"$work/one.ready") &
one=$!
until_there test -s "$work/many.ready"
until_there test -s "$work/one.ready"

# The victim has one PMC to read and one to attach with.
# shellcheck disable=SC2016
(as 1000 sh -c 'mkdir "$1/read" "$1/attach" && echo page-faults >"$1/attach/event" &&
    echo "event=page-faults target=$2" >"$1/read/config"' - "$mnt" "$one")

argument() {
    case $1 in
    attach) echo "$many" ;;
    exec) echo "$work/hang/program" ;;
    *) echo - ;;
    esac
}
daemon_ms() { cat /proc/"$daemon"/task/*/schedstat | awk '{ n += $1 } END { printf "%.0f", n / 1e6 }'; }

# phase ATTACK KIND: the victim for `each` seconds, its times added to ATTACK.KIND.ns
phase() {
    trouble=
    root=$mnt
    [ "$2" = attack ] || root=-
    if [ "$2" != quiet ]; then
        (as 1001 chrt "$class" 0 "$work/tool" "$1" "$(echo "$each + 1" | bc)" "$root" "$(argument "$1")") &
        trouble=$!
        sleep 0.5
    fi
    before=$(daemon_ms)
    (as 1000 "$work/tool" victim "$each" "$mnt/read/count" "$mnt/attach/target" "$one") \
        >>"$work/$1.$2.ns"
    echo "cpu $(($(daemon_ms) - before))" >>"$work/$1.$2.ns"
    [ -z "$trouble" ] || wait "$trouble" || :
}

# of ATTACK KIND WHAT PERCENT: in µs
of() {
    awk -v w="$3" '$1 == w { print $2 }' "$work/$1.$2.ns" | sort -n |
        awk -v p="$4" '{ v[NR] = $1 } END { i = int((NR - 1) * p / 100) + 1; print v[i] / 1000 }'
}

# row ATTACK WHAT PERCENT
row() {
    awk -v l="$1: $2 p$3, µs" -v q="$(of "$1" quiet "$2" "$3")" -v c="$(of "$1" control "$2" "$3")" \
        -v a="$(of "$1" attack "$2" "$3")" 'BEGIN {
        printf "%-26s %9.1f %9.1f %9.1f %8.2f %8.2f\n", l, q, c, a, a / q, a / c }'
}

echo "$(nproc) CPUs; kernel $(uname -r); load $(cut -d' ' -f1 /proc/loadavg); $rounds rounds of $each s; $threads threads; trouble is ${class#--}"
printf '%-26s %9s %9s %9s %8s %8s\n' what quiet control attack /quiet /control
for attack in $attacks; do
    round=0
    while [ "$round" -lt "$rounds" ]; do
        for kind in quiet control attack; do
            phase "$attack" "$kind"
        done
        round=$((round + 1))
    done
    for what in read attach; do
        row "$attack" "$what" 50
        row "$attack" "$what" 99
    done
    awk -v l="$attack" -v s="$((rounds * each))" '$1 == "cpu" { n += $2 } END {
        printf "%-26s %29.0f\n", l ": daemon, % of a CPU", n / s / 10 }' "$work/$attack.attack.ns"
done
