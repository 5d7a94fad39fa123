#!/bin/sh
# Compares sampling through pmcfs with perf record: the same event, rate, buffers and load, side by side
# in one run; only the ratios mean anything. Nothing is asserted. Needs root, perf, and about four minutes.
#
# usage: tests/bench/sampling.sh [BUILD-DIRECTORY]      SECONDS_EACH=20 RATE=10000 in the environment
set -eu

if [ -z "${PMCFS_BENCH-}" ]; then
    [ "$(id -u)" -eq 0 ] || { echo 'sampling: needs root' >&2; exit 1; }
    PMCFS_BENCH=inside exec unshare --mount --propagation private sh "$0" "$@"
fi

here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../../build}" && pwd)
each=${SECONDS_EACH:-20} rate=${RATE:-10000}
work=$(mktemp -d /tmp/pmcfs-sampling.XXXXXX)
mnt=$work/mnt daemon=

clean() {
    trap - EXIT INT TERM HUP
    umount "$mnt" 2>/dev/null || umount -l "$mnt" 2>/dev/null || :
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || :
    wait 2>/dev/null || :
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 1' INT TERM HUP

mkdir "$mnt"
cc -O2 -fno-omit-frame-pointer -D_GNU_SOURCE "$here/burn.c" -o "$work/burn"
"$build/pmcfs" -f -o backend=perf "$mnt" >"$work/log" 2>&1 &
daemon=$!
until mountpoint -q "$mnt"; do kill -0 "$daemon" && sleep 0.1; done
hz=$(getconf CLK_TCK)

# cpu_of PID: its CPU time so far, in ms
cpu_of() { awk -v hz="$hz" '{ sub(/.*\) /, ""); print int(($12 + $13) * 1000 / hz) }' "/proc/$1/stat"; }

# children's CPU time of a command, in ms: "user sys" of the shell's times
timed() {
    ( "$@"; times ) | awk '
        function ms(t) { split(t, p, "m"); return (p[1] * 60 + p[2]) * 1000 }
        NF == 2 && $1 ~ /^[0-9]+m/ { line = $0 } END { split(line, a, " "); print int(ms(a[1]) + ms(a[2])) }'
}

# load: rounds made while what runs runs
load() { "$work/burn" "$each"; }

# perf_one OPTIONS…: sets cpu, lost, samples, rounds
perf_one() {
    perf record -q -a -e cpu-clock -F "$rate" -m 128 "$@" -o "$work/perf.data" -- sleep "$each" 2>"$work/err" &
    recorder=$!
    sleep 0.3
    rounds=$(load)
    while kill -0 "$recorder" 2>/dev/null && [ -r "/proc/$recorder/stat" ]; do
        cpu=$(cpu_of "$recorder" 2>/dev/null || echo "$cpu")
        sleep 0.02
    done
    wait "$recorder" || :
    perf script -i "$work/perf.data" -F pid --show-lost-events 2>/dev/null >"$work/script" || :
    samples=$(grep -vc LOST "$work/script" || :)
    lost=$(awk '/LOST/ { n += $NF } END { print n + 0 }' "$work/script")
}

# pmcfs_one SETTINGS…: the same
pmcfs_one() {
    mkdir "$mnt/b"
    echo "event=cpu-clock mode=SS freq=$rate autostart=off target=all $*" >"$mnt/b/config"
    before=$(cpu_of "$daemon")
    cat "$mnt/b/samples.perf" >"$work/pmcfs.data" &
    reader=$!
    echo start >"$mnt/b/ctl"
    sleep 0.3
    rounds=$(load)
    cpu=$(cpu_of "$reader")
    echo stop >"$mnt/b/ctl"
    wait "$reader" || :
    cpu=$((cpu + $(cpu_of "$daemon") - before))
    lost=$(awk '$1 == "log_lost" || $1 == "kernel_lost" { n += $2 } END { print n }' "$mnt/b/status")
    perf script -F pid -i - <"$work/pmcfs.data" 2>/dev/null >"$work/script" || :
    samples=$(grep -c . "$work/script" || :)
    memory=$(awk '/VmRSS/ { print $2 }' "/proc/$daemon/status")
    rmdir "$mnt/b"
}

bare=$(load)
for chains in off on; do
    option=
    [ $chains = off ] || option=-g
    cpu=0
    # shellcheck disable=SC2086 # no word or one
    perf_one $option
    theirs=$cpu their_lost=$lost their_rounds=$rounds their_samples=$samples
    pmcfs_one callchain=$chains
    awk -v c="$chains" -v a="$cpu" -v b="$theirs" -v la="$lost" -v lb="$their_lost" -v na="$samples" \
        -v nb="$their_samples" -v ra="$rounds" -v rb="$their_rounds" -v bare="$bare" -v m="$memory" 'BEGIN {
        printf "call chains %s: CPU time %d ms, perf record %d ms: %.2f of it\n", c, a, b, a / b
        printf "  samples %d, perf record %d; lost %d, perf record %d\n", na, nb, la, lb
        printf "  slow-down of the load %.1f %%, perf record %.1f %%; resident %d kB\n", \
            100 * (1 - ra / bare), 100 * (1 - rb / bare), m }'
done

# Text: records per second of CPU time.
perf record -q -a -e cpu-clock -F "$rate" -o "$work/t.data" -- "$work/burn" 5 >/dev/null 2>&1
records=$(perf script -i "$work/t.data" 2>/dev/null | wc -l)
theirs=$(timed sh -c "perf record -q -a -e cpu-clock -F $rate -o - -- '$work/burn' 5 2>/dev/null |
    perf script -i - 2>/dev/null | wc -l >'$work/n'")
their_n=$(cat "$work/n")
burned=$(timed "$work/burn" 5)
mkdir "$mnt/t"
echo "event=cpu-clock mode=SS freq=$rate autostart=off target=all" >"$mnt/t/config"
before=$(cpu_of "$daemon")
ours=$(timed sh -c "cat '$mnt/t/samples' | wc -l >'$work/n' & echo start >'$mnt/t/ctl'; '$work/burn' 5 >/dev/null
    echo stop >'$mnt/t/ctl'; wait")
ours=$((ours + $(cpu_of "$daemon") - before))
awk -v n="$(cat "$work/n")" -v tn="$their_n" -v o="$ours" -v t="$theirs" -v b="$burned" -v r="$records" 'BEGIN {
    a = n / (o - b + 1); p = tn / (t - b + 1)
    printf "text: %d records in %d ms of CPU time, perf record | perf script %d in %d ms: %.1f times the rate\n", \
        n, o - b, tn, t - b, a / p }'
rmdir "$mnt/t"
