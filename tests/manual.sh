#!/bin/sh
# Checks the manual pages against the program: generated parts are current, each row of the program's tables
# has exactly one entry, every option has its entry, conf/pmcfs.conf and packaging/html/ are current, and error
# ids and section names exist. mandoc must accept the markup.
#
# usage: manual.sh PMCFS
set -eu

here=$(cd "$(dirname "$0")" && pwd)
pmcfs=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

cd "$here/.."
tables='pmcfs.5 pmcfs-log.5 pmcfs-access.7 pmcfs-compat.7'
pages="pmcfs.8 $tables examples/*.1 examples/*/*.1"

for page in $tables; do
    sh "$here/manual-tables.sh" "$pmcfs" "$page" >"$work/page"
    diff -u --label "$page" --label "$page from $pmcfs --print-tables" "$page" "$work/page" || failed=1
done
# shellcheck disable=SC2086 # the names of the pages
sed -n 's/^\.\\" \(\(table\|entry\) .*\)/\1/p' $tables | grep -v ' or "entry" ' | sort >"$work/manual"
sh "$here/manual-tables.sh" "$pmcfs" --names >"$work/program"
if ! [ "$(wc -l <"$work/program")" -gt 90 ]; then
    echo "manual: $pmcfs prints only $(wc -l <"$work/program") entries"
    failed=1
elif ! diff -u --label 'entries of the pages' --label 'entries of the program' "$work/manual" "$work/program"; then
    echo 'manual: each entry must occur exactly once'
    failed=1
fi

"$pmcfs" --print-tables conf >"$work/conf"
if ! diff -u --label conf/pmcfs.conf --label 'pmcfs --print-tables conf' conf/pmcfs.conf "$work/conf"; then
    failed=1
fi
[ "$failed" = 0 ] || echo "manual: run tests/manual-tables.sh $pmcfs --update, and read the changes"

# Error ids in the text are ids of the program.
"$pmcfs" --print-tables errors | cut -f 1 >"$work/ids"
for page in pmcfs.8 $tables; do
    grep -owE '[EXPQTLRBCVHF][0-9]{2}|(CS|CE|CF|OP|PM|SG|CX|PC|ST)[0-9]{1,2}' "$page" | sort -u |
        grep -vxFf "$work/ids" | sed "s/^/manual: $page: this id is not an error id: /" >"$work/unknown" || :
    if [ -s "$work/unknown" ]; then
        cat "$work/unknown"
        failed=1
    fi
done

# .Sx names a section of the same page, .Em in capitals a section of any page.
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

"$pmcfs" --help | grep -owE -e '--?[A-Za-z][a-z-]*' | sort -u | grep -vx -e '-o' >"$work/program"
sed -n '/^\.Sh OPTIONS/,/^\.Sh MOUNTING/s/^\.It Fl //p' pmcfs.8 | tr ' ' '\n' |
    sed -n -e 's/^-\([a-z-]*\)$/--\1/p' -e 's/^\([A-Za-z]\)$/-\1/p' | sort -u | grep -vx -e '-o' >"$work/manual"
if ! [ -s "$work/program" ] || ! diff -u --label pmcfs.8 --label 'pmcfs --help' "$work/manual" "$work/program"; then
    echo 'manual: pmcfs.8 and pmcfs --help have different options'
    failed=1
fi
for tool in cpustat cputrack perfmon pmccontrol pmcstat; do
    PMC=/ "examples/$tool" -h | sed -n 's/^  \(-[A-Za-z]\) .*/\1/p' | sort -u >"$work/program"
    sed -n 's/^\.It Fl \([A-Za-z]\)\( .*\)*$/-\1/p' "examples/$tool.1" | sort -u >"$work/manual"
    if ! [ -s "$work/program" ] || ! diff -u --label "$tool.1" --label "$tool -h" "$work/manual" "$work/program"; then
        echo "manual: $tool.1 and $tool -h have different options"
        failed=1
    fi
done

if command -v mandoc >/dev/null; then
    # Other manuals need not be installed here.
    # shellcheck disable=SC2086 # the names of the pages
    if mandoc -T lint $pages 2>/dev/null | grep -v 'referenced manual not found'; then
        echo 'manual: mandoc reports errors in these pages'
        failed=1
    fi
    sh packaging/html.sh "$work/html"
    if ! diff -ru --label packaging/html --label 'packaging/html.sh' packaging/html "$work/html"; then
        echo 'manual: packaging/html/ is not current: run packaging/html.sh'
        failed=1
    fi
else
    echo 'manual: mandoc is not installed: the markup and packaging/html/ were not checked'
fi
exit "$failed"
