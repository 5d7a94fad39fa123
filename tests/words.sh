#!/bin/sh
# Fails if a page contains a phrase of tests/words-to-avoid, or if README.md or SECURITY.md is too long.
set -eu

cd "$(dirname "$0")/.."
list=tests/words-to-avoid
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
grep -vE '^(#|pages:|$)' "$list" >"$work/phrases"
pages=$(sed -n 's/^pages: //p' "$list")
# shellcheck disable=SC2086 # the names of the pages
set -- $pages
if [ $# -lt 8 ] || [ "$(wc -l <"$work/phrases")" -lt 10 ]; then
    echo "words: $list lists too little"
    exit 1
fi
# Prose only: no fenced or literal blocks, no code in backquotes, no comments of a manual page.
awk '
    FNR == 1 { code = 0 }
    /^ *```/ { code = !code; next }
    /^\.Bd -literal/ { code = 1 }
    /^\.Ed/ { code = 0; next }
    code || /^\.\\"/ { next }
    { gsub(/`[^`]*`/, "CODE"); print FILENAME ":" FNR ": " $0 }' "$@" >"$work/prose"
if grep -niE -f "$work/phrases" "$work/prose" >"$work/found"; then
    sed 's/^[0-9]*://' "$work/found"
    echo "words: rewrite these sentences, see $list"
    exit 1
fi
for limit in README.md:150 SECURITY.md:60; do
    page=${limit%:*} most=${limit#*:}
    if [ "$(wc -l <"$page")" -gt "$most" ]; then
        echo "words: $page has $(wc -l <"$page") lines, more than $most"
        exit 1
    fi
done
