#!/bin/sh
# Fails if a message of the product (in err_set(), message_log(), why_refused() or a table of ids) contains a phrase of the
# list below.
set -eu

cd "$(dirname "$0")/.."
phrases='\banew\b|\bbehind\b|\bto be had\b|\bnothing but\b|\bmeanwhile\b|\bstands?\b|\b(is|are) told\b|\btells?\b'
phrases="$phrases|\bis no (target|count|event|address|length|value|list|process|part)\b|has no place|must be a number"
phrases="$phrases|\bgiven up\b|take (it|one) back"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The string literals of each call, from its name to the semicolon.
# shellcheck disable=SC2016 # awk expands these
git ls-files 'core/*.c' 'fs/*.c' 'backends/*.c' | xargs awk '
    /(err_set|message_log|why_refused)\(/ || /^    \{E[A-Z0-9]+, / { on = 1; text = ""; place = FILENAME ":" FNR }
    on {
        rest = $0
        while (match(rest, /"([^"\\]|\\.)*"/)) {
            text = text substr(rest, RSTART + 1, RLENGTH - 2)
            rest = substr(rest, RSTART + RLENGTH)
        }
        if (/;$/ || /\},$/) { print place ": " text; on = 0 }
    }' >"$work/messages"
if [ "$(wc -l <"$work/messages")" -lt 250 ]; then
    echo "messages: only $(wc -l <"$work/messages") were found"
    exit 1
fi
if grep -iE "$phrases" "$work/messages"; then
    echo 'messages: write these sentences in other words'
    exit 1
fi
