#!/bin/sh
# The manual says what the program does: every table in pmcfs.5 and all of conf/pmcfs.conf equal the
# program's own, the page of each tool has the options of its -h. mandoc has nothing to say about the pages,
# and the sections that they refer to are there.
#
# usage: manual.sh PMCFS
set -eu

here=$(cd "$(dirname "$0")" && pwd)
pmcfs=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

cd "$here/.."
for table in settings tunables errors files modes states verbs records; do
    sh "$here/manual-tables.sh" "$pmcfs" "$table" >"$work/program"
    awk -v table="$table" '
        $0 == ".\\\" end " table { inside = 0 }
        inside
        $0 == ".\\\" table " table { inside = 1 }' pmcfs.5 >"$work/manual"
    if ! grep -q '^\.It' "$work/program"; then
        echo "manual: $pmcfs prints no table of $table"
        failed=1
    elif ! diff -u --label "pmcfs.5: $table" --label "pmcfs --print-tables $table" \
        "$work/manual" "$work/program"; then
        failed=1
    fi
done
[ "$failed" = 0 ] || echo "manual: run tests/manual-tables.sh $pmcfs --update, and read what it changed"

"$pmcfs" --print-tables conf >"$work/conf"
if ! diff -u --label conf/pmcfs.conf --label 'pmcfs --print-tables conf' conf/pmcfs.conf "$work/conf"; then
    echo 'manual: conf/pmcfs.conf is what pmcfs --print-tables conf prints'
    failed=1
fi

if [ "$(wc -l <pmcfs.8)" -gt 400 ]; then
    echo 'manual: pmcfs.8 has more than 400 lines: what is looked up belongs into pmcfs.5'
    failed=1
fi

pages='pmcfs.8 pmcfs.5 pmcfs-compat.7 examples/*.1 examples/*/*.1'
# .Sx names a section of its own page, .Em in capitals one of any page.
# shellcheck disable=SC2086 # the names of the pages
if ! awk '
    /^\.S[hs] / {
        title = substr($0, 5)
        gsub(/"/, "", title)
        there[FILENAME, title] = there["", title] = 1
    }
    match($0, /Sx [A-Za-z][A-Za-z ]*[A-Za-z]/) { named[FILENAME, substr($0, RSTART + 3, RLENGTH - 3)] = FNR }
    match($0, /^\.Em [A-Z][A-Z ]*[A-Z]/) { named["", substr($0, RSTART + 4, RLENGTH - 4)] = FILENAME ":" FNR }
    END {
        for (place in named)
            if (!(place in there)) {
                sub(SUBSEP, ": ", place)
                print "manual: no such section: " place
                failed = 1
            }
        exit failed
    }' $pages; then
    failed=1
fi

for tool in cpustat cputrack perfmon pmccontrol pmcstat; do
    PMC=/ "examples/$tool" -h | sed -n 's/^  \(-[A-Za-z]\) .*/\1/p' | sort -u >"$work/program"
    sed -n 's/^\.It Fl \([A-Za-z]\)\( .*\)*$/-\1/p' "examples/$tool.1" | sort -u >"$work/manual"
    if ! [ -s "$work/program" ] || ! diff -u --label "$tool.1" --label "$tool -h" "$work/manual" "$work/program"; then
        echo "manual: $tool.1 and $tool -h have other options"
        failed=1
    fi
done

if command -v mandoc >/dev/null; then
    # Which other manuals are installed here says nothing about these.
    # shellcheck disable=SC2086 # the names of the pages
    if mandoc -T lint $pages 2>/dev/null | grep -v 'referenced manual not found'; then
        echo 'manual: mandoc finds fault with these pages'
        failed=1
    fi
else
    echo 'manual: no mandoc here, the markup was not checked'
fi
exit "$failed"
