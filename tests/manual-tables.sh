#!/bin/sh
# The tables of pmcfs.5, made from the program's own.
#
# usage: manual-tables.sh PMCFS TABLE      prints the mdoc text of one table
#        manual-tables.sh PMCFS --update   replaces all tables in pmcfs.5
set -eu

pmcfs=$1
what=$2
manual=$(cd "$(dirname "$0")/.." && pwd)/pmcfs.5

# What is looked up by its name stands in the order of names, the rest in the program's order.
in_order() {
    case $1 in
    files | settings | tunables | records) LC_ALL=C sort -t "$(printf '\t')" -k 1,1 ;;
    *) cat ;;
    esac
}

# Columns as --print-tables gives them; text that is mdoc's own is escaped.
print_table() {
    "$pmcfs" --print-tables "$1" | in_order "$1" | LC_ALL=C sed -e 's/\\/\\e/g' \
        -e 's/×/\\(mu/g' -e 's/…/.../g' -e 's/–/\\(en/g' -e 's/→/\\(->/g' | awk -F '\t' -v table="$1" '
        function tag(head) { print ".It " head }
        # A line of text: never a macro, no longer than the other lines.
        function text(t,    n, i, word, out) {
            n = split(t, word, " ")
            out = ""
            for (i = 1; i <= n; i++) {
                if (out != "" && length(out) + length(word[i]) > 76) {
                    print out
                    out = ""
                }
                out = out == "" ? (word[i] ~ /^[.\047]/ ? "\\&" word[i] : word[i]) : out " " word[i]
            }
            if (out != "")
                print out
        }
        # A word that is written as it stands keeps its small letter.
        function sentence(t) {
            if (t ~ /^(ok|mount|active|enabled|pmcfs|[a-z0-9]*[-=_][^ ]*)[,;: ]/)
                return t (t ~ /\.$/ ? "" : ".")
            return t == "" ? "" : toupper(substr(t, 1, 1)) substr(t, 2) (t ~ /\.$/ ? "" : ".")
        }
        function quoted(t) { gsub(/"/, "\\(dq", t); return "\"" t "\"" }
        function origin(t) { return t == "" ? "" : "Corresponds to " t "." }
        BEGIN { print ".Bl -tag -width Ds" (table ~ /settings|tunables/ ? "" : " -compact") }
        table == "settings" {
            tag("Cm " $1 " Ns = Ns No " quoted($2) ($3 == "" ? "" : " Bq " quoted($3)))
            text(sentence($4))
            text(origin($5))
        }
        table == "tunables" {
            tag("Va " $1 " Bq " quoted($2 "; " $3))
            text(sentence($5))
            text($4 == "mount" ? "Fixed at start." : "")
            text(sentence("effect: " $6))
        }
        table == "errors" {
            tag("Cm " $1 " Er " $2 " Pq " quoted($3))
            text(sentence($4))
        }
        table == "records" {
            tag("Cm " $1 ($2 == "" ? "" : " No " quoted($2)))
            text(sentence($3))
            text(origin($4))
        }
        table == "files" {
            tag("Pa " $1 ($2 == "" ? "" : " Pq " $2))
            text(sentence($3))
        }
        table == "modes" {
            tag("Cm " $1 " , " $2)
            text(sentence($3))
        }
        table == "states" || table == "verbs" {
            tag("Cm " $1)
            text(sentence($2))
            text(origin($3))
        }
        END { print ".El" }'
}

# The manual with the section TABLE made anew.
replace_table() {
    awk -v table="$1" -v new="$2" '
        $0 == ".\\\" end " table { inside = 0 }
        !inside
        $0 == ".\\\" table " table {
            inside = 1
            while ((getline line <new) > 0)
                print line
        }' "$manual"
}

if [ "$what" = --update ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    for table in settings tunables errors files modes states verbs records; do
        print_table "$table" >"$work/table"
        replace_table "$table" "$work/table" >"$work/manual"
        cat "$work/manual" >"$manual"
    done
else
    print_table "$what"
fi
