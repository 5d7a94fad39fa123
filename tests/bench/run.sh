#!/bin/sh
# Compares pmcfs with a minimal FUSE file system (floor.c) and with other programs that count and sample, in turn in one
# run on one machine: only the ratios are meaningful. Prints a table, writes bench.json and pictures. No test depends on
# the numbers. Needs root and an idle machine.
#
#   sh tests/bench/run.sh [-q | -t] [-o DIR] [-b BINARY] [-B BINARY] [-N PMCS] [MEASURE...]
#   sh tests/bench/run.sh -l | -h
#
# -q is quick (3 minutes for all measures instead of 12), -t only checks that they run. -o is the directory of the results
# (build-tests/bench-results). -b measures this pmcfs instead of a new build, -B a second one to compare with.
# -N is the number of PMCs for the measure "many" (20000; 5000 with -q). -l lists the measures; the default is all, without
# those whose names start with scale-, which take 3 minutes and 1 GiB.
# The run fails if a measure fails to run, never because of a number. The column p99 is pmcfs / reference over all
# operations of all rounds; with fewer than 100 operations it is the maximum.
#
# Needs python3, cc, pkg-config, libfuse3-dev, util-linux and procps, without -b also meson and ninja. Comparisons with a
# missing perf, node_exporter or gnuplot are left out with a message. If PCP is not installed, apt-get downloads it into
# build-tests/bench-pcp, where only this run uses it.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

usage() { sed -n '2,/^set /s/^# \{0,1\}//p' "$here/run.sh"; }
die() { echo "bench: $*" >&2; exit 1; }

# tool NAME OPTION…
tool() {
    name=$1
    shift
    cc -std=gnu11 -O2 -Wall -Wextra -D_GNU_SOURCE -DFUSE_USE_VERSION=314 "$here/$name.c" -o "$work/$name" "$@" -lpthread
}

build_pmcfs() {
    binary=$root/build-tests/bench/pmcfs
    {
        [ -e "$root/build-tests/bench/build.ninja" ] || meson setup "$root/build-tests/bench" "$root" -Dtests=false
        ninja -C "$root/build-tests/bench" pmcfs &&
            { ninja -C "$root/build-tests/bench" examples/pmc-names/pmc-names || :; } # needs libdw
    } >"$work/built" 2>&1 || { cat "$work/built" >&2; exit 1; }
}

# Mounts, processes and files of this run are in new namespaces and in $work, and disappear with it: the child of unshare
# is the first process there, and exits after all others.
clean() {
    trap - EXIT INT TERM HUP
    [ -z "$inside" ] || pkill -KILL -P "$inside" || kill -KILL "$inside" 2>/dev/null || :
    wait
    for cgroups in /sys/fs/cgroup /sys/fs/cgroup/unified; do
        [ ! -d "$cgroups/${work##*/}" ] || find "$cgroups/${work##*/}" -depth -type d -exec rmdir {} + || :
    done
    rm -rf "$work"
}

amount=full out=$root/build-tests/bench-results binary='' other='' pmcs='' inside=''
while getopts qto:b:B:N:lh option; do
    case $option in
    q) amount=quick ;;
    t) amount=tiny ;;
    o) out=$OPTARG ;;
    b) binary=$(realpath "$OPTARG") ;;
    B) other=$(realpath "$OPTARG") ;;
    N) pmcs=$OPTARG ;;
    l) exec python3 -B "$here/bench.py" --list ;;
    h) usage && exit ;;
    *) usage >&2 && exit 2 ;;
    esac
done
shift $((OPTIND - 1))
python3 -B "$here/bench.py" --known "$@" || exit 2
case ${other:+$*} in *scale-*) die 'measures of scale- take one build: leave out -B' ;; esac
[ "$(id -u)" = 0 ] || die 'needs root, to mount and to count'
mkdir -p "$out"
out=$(cd "$out" && pwd)

work=$(mktemp -d "${TMPDIR:-/tmp}/pmcfs-bench.XXXXXX")
trap clean EXIT
trap 'exit 1' INT TERM HUP
[ -n "$binary" ] || build_pmcfs
for program in "$binary" ${other:+"$other"}; do
    [ -x "$program" ] || die "no program: $program"
done
tool client
tool burn -fno-omit-frame-pointer
# shellcheck disable=SC2046 # word splitting is intended
tool floor $(pkg-config --cflags --libs fuse3)

WORK=$work OUT=$out AMOUNT=$amount PMCFS=$binary OTHER=$other PMCS=$pmcs
export WORK OUT AMOUNT PMCFS OTHER PMCS
unshare --mount --pid --fork --kill-child --mount-proc --propagation private python3 -B "$here/bench.py" "$@" &
inside=$!
wait "$inside" || exit 1
inside=
