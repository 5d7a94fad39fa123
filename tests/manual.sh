#!/bin/sh
# The manual says what the program does: every table in pmcfs.8 and all of conf/pmcfs.conf equal the
# program's own, and mandoc has nothing to say about the manual.
#
# usage: manual.sh PMCFS
set -eu

here=$(cd "$(dirname "$0")" && pwd)
manual=$here/../pmcfs.8
pmcfs=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

for table in settings tunables errors files modes states verbs records; do
    sh "$here/manual-tables.sh" "$pmcfs" "$table" >"$work/program"
    awk -v table="$table" '
        $0 == ".\\\" end " table { inside = 0 }
        inside
        $0 == ".\\\" table " table { inside = 1 }' "$manual" >"$work/manual"
    if ! grep -q '^\.It' "$work/program"; then
        echo "manual: $pmcfs prints no table of $table"
        failed=1
    elif ! diff -u --label "pmcfs.8: $table" --label "pmcfs --print-tables $table" \
        "$work/manual" "$work/program"; then
        failed=1
    fi
done
[ "$failed" = 0 ] || echo "manual: run tests/manual-tables.sh $pmcfs --update, and read what it changed"

conf=$here/../conf/pmcfs.conf
"$pmcfs" --print-tables conf >"$work/conf"
if ! diff -u --label conf/pmcfs.conf --label 'pmcfs --print-tables conf' "$conf" "$work/conf"; then
    echo 'manual: conf/pmcfs.conf is what pmcfs --print-tables conf prints'
    failed=1
fi

if command -v mandoc >/dev/null; then
    # Which other manuals are installed here says nothing about this one.
    if mandoc -T lint "$manual" 2>/dev/null | grep -v 'referenced manual not found'; then
        echo 'manual: mandoc finds fault with pmcfs.8'
        failed=1
    fi
else
    echo 'manual: no mandoc here, the markup was not checked'
fi
exit "$failed"
