#!/bin/sh
# test.sh BINARY: the benchmark runs, prints the selected measures, and leaves no process or mount, also after an
# interrupt. Its numbers are not checked.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
TMPDIR=$(mktemp -d "${TMPDIR:-/tmp}/bench-test.XXXXXX")
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
binary=$1
bench() { sh "$here/run.sh" -t -b "$binary" -o "$TMPDIR/out" "$@"; }

nothing_left() {
    left=$({ find "$TMPDIR" -name 'pmcfs-bench.*'; grep -F "$TMPDIR" /proc/self/mounts; pgrep -fa "$TMPDIR/pmcfs-bench"; } || :)
    [ -z "$left" ] || { echo "left behind: $left"; exit 1; }
}

bench nonsense 2>"$TMPDIR/printed" && { echo 'an unknown measure was accepted'; exit 1; }
grep -q 'nonsense; there are threads once' "$TMPDIR/printed"
[ ! -e "$TMPDIR/out" ]

bench -B "$binary" pread many memory idle
nothing_left
python3 - "$TMPDIR/out/bench.json" <<'END'
import json, sys
entry = json.load(open(sys.argv[1]))
assert [row['measure'] for row in entry['rows']] == 2 * ['pread'] + 4 * ['many'] + ['memory'] + 4 * ['idle'], entry
for row in entry['rows']:
    assert row['pmcfs']['q1'] <= row['pmcfs']['median'] <= row['pmcfs']['q3'] and row['other']['rounds'] > 0, row
    if row['by'] == 'ratio':
        assert row['reference']['p99'] > 0 < row['pmcfs_ratio']['median'] and row['pmcfs_met'] in (True, False), row
assert set(entry['about']['seconds']) == {'pread', 'many', 'memory', 'idle'}, entry['about']
assert [x for x, _ in entry['curves']['memory']['perf stat']] == [10, 20], entry['curves']
END

sh "$here/run.sh" -t -b "$binary" -o "$TMPDIR/out" text >/dev/null 2>&1 &
run=$!
until pgrep -f "$TMPDIR/pmcfs-bench.*/mnt" >/dev/null; do sleep 0.1; done
kill -TERM $run
wait $run && { echo 'an interrupted run succeeded'; exit 1; }
nothing_left
