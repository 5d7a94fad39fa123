#!/bin/sh
# Checks that every numbered feature of hwpmc, perfmon and cpc in tests/reference-ids has a test with its id in its name,
# or a reason in pmcfs-compat.7. Prints each feature with its tests, with `sim` if they only use the simulated PMU, and
# the number of each kind. The exit status is 1 if a feature has neither, or names a missing test or reason.
#
#   sh tests/reference-coverage.sh [RESULTS]
#
# With RESULTS of a run (lines "pass NAME SECONDS" of run.sh) it also fails if a test did not run.
set -u
export LC_ALL=C

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT

# The prefix of the ids, how many there are, and how many digits their numbers have.
ids='H 12 2, OP 19 2, F 9 2, Q 20 2, SG 4 1, T 12 2, R 8 2, E 45 2, X 21 2, L 20 2, B 13 2, ST 7 1, V 8 2, P 28 2, PC 6 1,
PM 16 2, C 22 2, CF 24 2, CX 9 1, CS 11 2, CE 12 2'

# "PLACE:FUNCTION NAME-IN-THE-RESULTS…" for every test there is: one of the names must have run.
list_tests() {
    for file in "$here"/mount/*.sh "$here"/guest/inside/*.sh; do
        group=$(basename "$file" .sh)
        case $file in
        */guest/*) sed -n "s,^t_\([a-z0-9_]*\)() {.*,guest/$group:t_\1 guest/$group/\1,p" "$file" ;;
        *) sed -n "s,^t_\([a-z0-9_]*\)() {.*,$group:t_\1 asan/$group/\1 plain/$group/\1,p" "$file" ;;
        esac
    done
    for file in "$here"/unit/test_*.c; do
        suite=$(basename "$file" .c)
        suite=${suite#test_}
        sed -n "s,^TEST(\([a-z0-9_]*\)).*,unit/test_$suite:\1 plain/unit/$suite asan/unit/$suite,p" "$file"
    done
    for file in "$here"/*.c; do
        program=$(basename "$file" .c)
        sed -n "s,^.*static void \([a-z0-9_]*\)(.*,$program.c:\1 plain/$program asan/$program,p" "$file"
    done
}

# Lists "FILE:FUNCTION" of the tests in mount/ that only mount the simulated PMU, directly or in called functions.
list_simulated() {
    awk '
    FNR == 1 { file = FILENAME; sub(/.*\//, "", file); sub(/\.sh$/, "", file); name = "" }
    /^[a-z0-9_]+\(\) \{/ { name = $1; sub(/\(.*/, "", name); key = name ~ /^t_/ ? file ":" name : name }
    name != "" { body[key] = body[key] " " $0 }
    /^}/ { name = "" }
    END {
        for (key in body)
            if (key !~ /:/ && key !~ /^mount_/) {
                if (body[key] ~ /mount_sim/) sim[key] = 1
                if (body[key] ~ /mount_pmcfs/) real[key] = 1
            }
        for (key in body) {
            if (key !~ /:/) continue
            on_sim = body[key] ~ /mount_sim|backend=sim/
            on_real = body[key] ~ /mount_pmcfs/ && body[key] !~ /backend=sim/
            n = split(body[key], word, /[^a-z0-9_]+/)
            for (i = 1; i <= n; i++) {
                on_sim = on_sim || word[i] in sim
                on_real = on_real || word[i] in real
            }
            if (on_sim && !on_real) print key
        }
    }' "$here"/mount/*.sh
}

# The page as its reader sees it, in one line.
mandoc -T ascii "$here/../pmcfs-compat.7" | col -b | tr -s ' \t\n' ' ' >"$work/compatibility"
list_tests >"$work/tests"
list_simulated >"$work/simulated"
: >"$work/results"
if [ $# -gt 0 ]; then
    cp "$1" "$work/results" || exit 2
fi

awk -F'\t' -v ids="$ids" -v checked=$# -v tests="$work/tests" -v results="$work/results" \
    -v manual="$work/compatibility" -v simulated="$work/simulated" '
function bad(id, text) { print "reference-coverage: " id ": " text; failed++ }
function ran(names, all, n, i) {
    n = split(names, all, " ")
    for (i = 1; i <= n; i++)
        if (all[i] in run) return 1
    return 0
}
# "T03" is in the names …_t03_… and …_t01_to_t08_…
function carries(name, id,    range, letters, number) {
    name = "_" tolower(substr(name, index(name, ":") + 1)) "_"
    id = tolower(id)
    letters = id
    sub(/[0-9]+$/, "", letters)
    number = substr(id, length(letters) + 1)
    if (index(name, "_" id "_")) return 1
    if (!match(name, "_" letters "[0-9]+_to_" letters "[0-9]+_")) return 0
    split(substr(name, RSTART + 1, RLENGTH - 2), range, "_to_")
    sub(letters, "", range[1])
    sub(letters, "", range[2])
    return number + 0 >= range[1] + 0 && number + 0 <= range[2] + 0
}
function check(id, item) {
    if (match(item, /^(reason|deviates): /)) {
        if (!index(compatibility, substr(item, RLENGTH + 1)))
            bad(id, "pmcfs-compat.7 does not say \"" substr(item, RLENGTH + 1) "\"")
        return substr(item, 1, RLENGTH - 2)
    }
    if (!(item in test)) bad(id, "there is no test " item)
    else if (checked && !ran(test[item])) bad(id, item " did not run")
    return item in sim || item ~ /^unit\// ? "sim" : "test"
}
BEGIN {
    while ((getline line < tests) > 0) {
        split(line, word, " ")
        test[word[1]] = substr(line, length(word[1]) + 2)
    }
    while ((getline line < simulated) > 0) sim[line] = 1
    while ((getline line < results) > 0) {
        split(line, word, " ")
        if (word[1] == "pass" || word[1] == "fail") run[word[2]] = 1
    }
    getline compatibility < manual
    n = split(ids, kind, ",[ \n]*")
    for (i = 1; i <= n; i++) {
        split(kind[i], word, " ")
        for (j = 1; j <= word[2]; j++) wanted[order[++all] = sprintf("%s%0*d", word[1], word[3], j)] = 1
    }
}
/^#/ { next }
NF != 3 || $3 == "" { bad($1, "is not ID, what, where"); next }
!($1 in wanted) { bad($1, "is not an id of a reference feature") }
$1 in where { bad($1, "is listed twice") }
{
    where[$1] = $3
    kinds = " "
    named = 0
    n = split($3, item, "; ")
    for (i = 1; i <= n; i++) {
        kinds = kinds check($1, item[i]) " "
        named += item[i] !~ /^(reason|deviates): / && carries(item[i], $1)
    }
    shown = kinds ~ / (test|sim) /
    if (shown && !named) bad($1, "no test of it has it in its name")
    if (index(kinds, " deviates ")) deviate++
    else if (shown) tested++
    else reasoned++
    on_sim = shown && !index(kinds, " test ")
    only_sim += on_sim && !index(kinds, " deviates ")
    print $1 "\t" (on_sim ? "sim " : "") $3
}
END {
    for (i = 1; i <= all; i++)
        if (!(order[i] in where)) bad(order[i], "has neither a test nor a reason")
    printf "%d ids: %d shown by a test, %d of them on the simulated machine only; %d deviate; " \
        "%d with a reason only; %d wrong\n", all, tested, only_sim, deviate, reasoned, failed
    exit failed > 0
}' "$here/reference-ids"
