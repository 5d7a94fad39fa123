#!/bin/sh
# Every test that the table of threats.md names exists.
set -u
export LC_ALL=C

here=$(cd "$(dirname "$0")" && pwd)

# exists NAME [WORDS]: group/test, a program, a group, a script; for unit its files, or file/test.
exists() {
    case $1 in
    unit)
        [ $# -gt 1 ] || return 1
        shift
        for word in "$@"; do
            file=$here/unit/test_${word%%/*}.c
            [ -e "$file" ] || return 1
            case $word in */*) grep -q "^TEST(${word#*/})" "$file" || return 1 ;; esac
        done
        ;;
    tests/*) [ -e "$here/../$1" ] ;;
    guest/*) word=${1#guest/} && grep -q "^t_${word#*/}()" "$here/guest/inside/${word%%/*}.sh" ;;
    */*) grep -q "^t_${1#*/}()" "$here/mount/${1%%/*}.sh" ;;
    machines) [ -e "$here/fixtures/$1.c" ] ;;
    fuzz_*) [ -e "$here/fuzz/$1.c" ] ;;
    *) [ -e "$here/$1.c" ] || [ -e "$here/mount/$1.sh" ] ;;
    esac
}

# One name per line. The files in brackets after `unit` are part of the name; other brackets are remarks.
awk -F '|' '/^\| / && !/^\| (---|Threat )/ { print $(NF - 1) }' "$here/threats.md" |
    awk '{
        for (rest = $0; match(rest, /\([^)]*\)/);) {
            inside = substr(rest, RSTART + 1, RLENGTH - 2)
            gsub(/,/, "", inside)
            before = substr(rest, 1, RSTART - 1)
            text = text before (before ~ /(^|[ ,])unit $/ ? inside : "")
            rest = substr(rest, RSTART + RLENGTH)
        }
        n = split(text rest, name, /,/)
        for (i = 1; i <= n; i++) print name[i]
        text = ""
    }' | sort -u | {
    n=0 missing=0
    while read -r name words; do
        n=$((n + 1))
        # shellcheck disable=SC2086
        exists "$name" $words && continue
        echo "threats.md names $name${words:+ ($words)}, and there is no such test"
        missing=$((missing + 1))
    done
    echo "$n names of tests in threats.md, $missing missing"
    [ "$n" -gt 50 ] && [ "$missing" -eq 0 ]
}
