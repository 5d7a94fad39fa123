#!/bin/sh
# Compares pmcfs with the least that a FUSE file system can do (floor.c), in one run on one machine:
# only the ratios mean anything. Nothing is asserted. Takes about two minutes; needs root.
#
# usage: tests/bench/bench.sh [BUILD-DIRECTORY]      PMCS=10000 THREADS=4 in the environment
set -eu

# Mounts and what is done to debugfs are nobody else's business, and end with this process.
if [ -z "${PMCFS_BENCH-}" ]; then
    [ "$(id -u)" -eq 0 ] || { echo 'bench: needs root, to mount for all users and to count' >&2; exit 1; }
    PMCFS_BENCH=inside exec unshare --mount --propagation private sh "$0" "$@"
fi

here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../../build}
build=$(cd "$build" && pwd)
pmcs=${PMCS:-10000}
sleepers=100
work=$(mktemp -d /tmp/pmcfs-bench.XXXXXX)
pids=

say() { printf '%s\n' "$*"; }
die() { printf 'bench: %s\n' "$*" >&2; exit 1; }

clean() {
    trap - EXIT INT TERM HUP
    for mnt in one single many floor floor1 ready; do
        umount "$work/$mnt" 2>/dev/null || umount -l "$work/$mnt" 2>/dev/null || :
    done
    # shellcheck disable=SC2086
    [ -z "$pids" ] || kill $pids 2>/dev/null || :
    wait 2>/dev/null || :
    rmdir "$work/one" "$work/single" "$work/many" "$work/floor" "$work/floor1" "$work/ready" 2>/dev/null || :
    rm -f "$work/client" "$work/floor.bin" "$work/out" "$work/log"
    rmdir "$work" 2>/dev/null || :
}
trap clean EXIT
trap 'exit 1' INT TERM HUP

# tool NAME COPY: built by meson, or compiled here
tool() {
    if [ -x "$build/tests/bench/$1" ]; then
        cp "$build/tests/bench/$1" "$work/$2"
    else
        # shellcheck disable=SC2046
        cc -std=gnu11 -O2 -D_GNU_SOURCE -DFUSE_USE_VERSION=314 "$here/$1.c" -o "$work/$2" \
            $(pkg-config --cflags --libs fuse3) -lpthread
    fi
}

# wait_mounted NAME PID
wait_mounted() {
    n=0
    until mountpoint -q "$work/$1"; do
        kill -0 "$2" 2>/dev/null || die "$1 did not mount: $(cat "$work/log")"
        n=$((n + 1))
        [ "$n" -lt 100 ] || die "$1 was not mounted within 10 seconds"
        sleep 0.1
    done
}

# start NAME COMMAND...: in the background, its pid in $started, that of the process that serves in $server
start() {
    name=$1
    shift
    mkdir "$work/$name"
    "$@" "$work/$name" >>"$work/log" 2>&1 &
    started=$!
    pids="$pids $started"
    wait_mounted "$name" "$started"
    server=$(pgrep -P "$started" | head -n 1)
    server=${server:-$started}
}

client() { "$work/client" "$@"; }
rss_kb() { awk '$1 == "VmRSS:" { print $2 }' "/proc/$1/status"; }
place() { for pid in $servers; do taskset -apc "$1" "$pid" >/dev/null; done; }

# row LABEL VALUE AGAINST TARGET: the two values in one unit
row() {
    awk -v l="$1" -v a="$2" -v b="$3" -v t="$4" 'BEGIN {
        printf "%-44s %10.2f %10.2f %7.2f   %s\n", l, a, b, (b > 0 ? a / b : 0), t }'
}
us() { awk -v ns="$1" 'BEGIN { printf "%.3f", ns / 1000 }'; }
line() { sed -n "$1p" "$work/out" | cut -d' ' -f"$2"; }

# latency WHAT PLACEMENT OPTIONS: pmcfs beside both floors
latency() {
    # shellcheck disable=SC2086
    client $3 "$1" "$work/one/pmc/count" "$work/floor/count" "$work/floor1/count" "$work/single/pmc/count" >"$work/out"
    row "$1 $2, p50 µs: pmcfs, floor" "$(us "$(line 1 1)")" "$(us "$(line 2 1)")" '<= 1.10'
    row "$1 $2, p50 µs: pmcfs, 1-thread floor" "$(us "$(line 1 1)")" "$(us "$(line 3 1)")" reported
    row "$1 $2, p99 µs: pmcfs, floor" "$(us "$(line 1 2)")" "$(us "$(line 2 2)")" reported
    row "$1 $2, p50 µs: supervised, one process" "$(us "$(line 1 1)")" "$(us "$(line 4 1)")" '<= 1.02'
}

# ready LABEL: median of 5, from exec to a usable tree
ready() {
    for _ in 1 2 3 4 5; do
        client ready "$build/pmcfs" "$work/ready" || return 1
        umount "$work/ready"
        sleep 0.2
    done >"$work/out"
    sort -n "$work/out" | sed -n 3p | awk -v l="$1" '{
        printf "%-44s %10.2f %10s %7s   %s\n", l, $1 / 1000000, "", "", "<= 100 ms" }'
}

[ -x "$build/pmcfs" ] || die "no $build/pmcfs: build it first (meson setup build && ninja -C build)"
tool client client
tool floor floor.bin
mkdir "$work/ready"

targets=
i=0
while [ "$i" -lt "$sleepers" ]; do
    sleep 600 &
    targets="$targets $!"
    i=$((i + 1))
done
pids="$pids$targets"
target=${targets##* }

limits=max_pmcs=$((pmcs * 2)),max_pmcs_per_user=$((pmcs * 2)),max_fds_per_user=$((pmcs * 4))
start one "$build/pmcfs" -f
one=$server
start single "$build/pmcfs" -f -o single
single=$started
threads=${THREADS:-$(cat "$work/one/admin/tunables/threads" 2>/dev/null || echo 4)}
start floor "$work/floor.bin" -t "$threads" -n "$pmcs" -p "$target"
floor=$started
start floor1 "$work/floor.bin" -t 1 -p "$target"
servers="$one $single $floor $started"
for mnt in one single; do
    mkdir "$work/$mnt/pmc"
    echo "event=page-faults target=$target" >"$work/$mnt/pmc/config"
done

say "floor: $threads serving threads; $(nproc) CPUs; kernel $(uname -r); load $(cut -d" " -f1 /proc/loadavg)"
printf '%-44s %10s %10s %7s   %s\n' what pmcfs against ratio target
cpus=$(taskset -pc $$ | sed 's/.*: //')
cpu=${cpus%%[,-]*}
place "$cpu"
latency pread pinned "-c $cpu -r 100 -n 200"
latency open pinned "-c $cpu -r 100 -n 100"
place "$cpus"
latency pread free '-r 400 -n 100'
latency open free '-r 400 -n 50'

client -r 10 -n 500 -t 16 parallel "$work/one/pmc/count" "$work/floor/count" >"$work/out"
row '16 readers, free, reads/ms' "$(us "$(line 1 1)")" "$(us "$(line 2 1)")" reported

client requests "$work/one/info/stats" "$work/one/pmc/count" >"$work/out" || echo 0 >"$work/out"
pmcfs_requests=$(cat "$work/out")
client requests "$work/floor/requests" "$work/floor/count" >"$work/out"
floor_requests=$(cat "$work/out")
row 'FUSE requests per pread' "${pmcfs_requests%%[!0-9.]*}" "${floor_requests%%[!0-9.]*}" 1
row 'FUSE requests per open+read+close' "${pmcfs_requests##*[!0-9.]}" \
    "${floor_requests##*[!0-9.]}" '<= 4'

start many "$build/pmcfs" -f -o "$limits"
crowd=$server
before_kb=$(rss_kb "$crowd")
# shellcheck disable=SC2086
client make "$work/many" "$pmcs" $targets
after_kb=$(rss_kb "$crowd")
middle=m$(printf %05d $((pmcs / 2)))
servers="$one $crowd"
# many WHERE CPUS OPTIONS: free comes after pinned, so that both servers start out from one CPU.
many() {
    place "$2"
    # shellcheck disable=SC2086
    client $3 pread "$work/many/$middle/count" "$work/one/pmc/count" >"$work/out"
    row "pread $1, p50 µs: $pmcs PMCs, one PMC" "$(us "$(line 1 1)")" "$(us "$(line 2 1)")" '<= 1.10'
}
many pinned "$cpu" "-c $cpu -r 100 -n 200"
many free "$cpus" '-r 400 -n 100'
client -r 20 -n 1 list "$work/many" "$work/floor" >"$work/out"
row "ls of the root, p50 µs: $(line 1 3) names, $(line 2 3)" "$(us "$(line 1 1)")" \
    "$(us "$(line 2 1)")" '<= 2'
awk -v k=$((after_kb - before_kb)) -v n="$pmcs" 'BEGIN {
    printf "%-44s %10.2f %10s %7s   %s\n", "resident memory per counting PMC, KiB", k / n, "", "", "<= 4" }'

debugfs=/sys/kernel/debug
was=$(mountpoint -q "$debugfs" && echo yes || echo no)
[ "$was" = yes ] || mount -t debugfs none "$debugfs" 2>/dev/null || :
if mountpoint -q "$debugfs"; then
    ready 'ready after exec, debugfs mounted, ms' || say 'ready: pmcfs did not start in the background'
else
    say 'debugfs cannot be mounted here'
fi
[ "$was" = yes ] || umount "$debugfs" 2>/dev/null || :
if mountpoint -q "$debugfs"; then
    say 'debugfs is in use: not measured without it'
else
    ready 'ready after exec, debugfs not mounted, ms' || say 'ready: pmcfs did not start in the background'
fi
