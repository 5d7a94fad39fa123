#!/bin/sh
# Writes the generated parts of the manual pages from the program's own tables.
#
# A generated part of a page is between two comments:
#
#   .\" table NAME             a complete table: errors, tunables, modes, states, verbs, reference
#   .\" entry TABLE NAME       one entry of settings, files or records; text written by hand may follow
#   ...
#   .\" end
#
# usage: manual-tables.sh PMCFS PAGE       prints PAGE with its generated parts replaced
#        manual-tables.sh PMCFS --names    prints the name of each part that the pages must have
#        manual-tables.sh PMCFS --update   replaces the generated parts of all pages, conf/pmcfs.conf
#                                          and packaging/html/
set -eu

pmcfs=$1
what=$2
root=$(cd "$(dirname "$0")/.." && pwd)
pages='pmcfs.5 pmcfs-log.5 pmcfs-access.7 pmcfs-compat.7'
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# rows TABLE: the rows of a table, characters of mdoc escaped. What readers look up by name is sorted.
rows() {
    "$pmcfs" --print-tables "$1" | case $1 in
        tunables) LC_ALL=C sort -t "$(printf '\t')" -k 1,1 ;;
        *) cat ;;
    esac | LC_ALL=C sed -e 's/\\/\\e/g' -e 's/×/\\(mu/g' -e 's/…/.../g' -e 's/–/\\(en/g' -e 's/→/\\(->/g'
}

# Lines of "PART<tab>LINE", where PART is "table NAME" or "entry TABLE NAME".
parts() {
    for table in settings files records errors tunables modes states verbs; do
        rows "$table" | awk -F '\t' -v table="$table" '
            function put(line) { print part "\t" line }
            # Text, never a macro, in lines of at most 76 characters.
            function text(t,    n, i, word, out) {
                n = split(t, word, " ")
                out = ""
                for (i = 1; i <= n; i++) {
                    if (out != "" && length(out) + length(word[i]) > 76) {
                        put(out)
                        out = ""
                    }
                    out = out == "" ? (word[i] ~ /^[.\047]/ ? "\\&" word[i] : word[i]) : out " " word[i]
                }
                if (out != "")
                    put(out)
            }
            # A literal word at the start keeps its small letter. Each sentence has a line.
            function sentence(t,    n, i, part_of) {
                n = split(t, part_of, /\. /)
                for (i = 1; i <= n; i++) {
                    t = part_of[i]
                    if (t !~ /^(ok|mount|active|enabled|pmcfs|status|dwarf|log-csw|callchain=user|poll\(2\)|start=exec|[a-z0-9]*[-=_][^ ]*)[,;: ]/)
                        t = toupper(substr(t, 1, 1)) substr(t, 2)
                    text(t (t ~ /\.$/ ? "" : "."))
                }
            }
            function quoted(t) { gsub(/"/, "\\(dq", t); return "\"" t "\"" }
            function list() {
                put(".Bl -tag -width " (table in width ? quoted(width[table]) : "Ds") \
                    (table == "tunables" ? "" : " -compact"))
            }
            BEGIN {
                # Most rows of these tables are one line then.
                width["errors"] = "P09 EOPNOTSUPP (event)"
                width["modes"] = "process-counting, TC"
                width["states"] = "allocated"
                width["verbs"] = "restart"
                part = "table " table
                in_entries = table ~ /settings|files|records/
                if (!in_entries) list()
            }
            in_entries { part = "entry " table " " $1 }
            table == "settings" {
                sub(/^see /, "", $2); sub(/S$/, "", $2)
                gsub(/, /, " | ", $2)
                put(".It Cm " $1 " Ns = Ns No " quoted($2))
                if ($3 != "" && $2 != "off") text("Default: " $3 ($4 == "" || length($4) > 20 ? "" : "; range: " $4) ".")
                if ($5 == "process") text("Only in process scope.")
                if ($5 == "system") text("Only in system scope.")
                if ($5 == "sampling") text("Only in sampling modes.")
                sentence($6)
            }
            table == "files" {
                put(".It Pa " $1 ($2 == "" ? "" : " Pq " $2))
                sentence($3)
            }
            table == "records" {
                put(".It Cm " $1 ($2 == "" ? "" : " No " quoted($2)))
                sentence($3)
            }
            table == "tunables" {
                put(".It Va " $1 " Bq " quoted($2 "; " $3))
                sentence($5)
                if ($4 == "mount") text("Fixed at start.")
                sentence("effect: " $6)
            }
            table == "errors" {
                put(".It Cm " $1 " Er " $2 " Pq " quoted($3))
                sentence($4)
            }
            table == "modes" {
                put(".It Cm " $1 " , " $2)
                sentence($3)
            }
            table == "states" || table == "verbs" {
                put(".It Cm " $1)
                sentence($2)
            }
            END { if (!in_entries) put(".El") }'
    done
    # The operations of other systems, with the setting, verb or record that replaces each of them.
    for table in settings verbs records; do
        rows "$table" | awk -F '\t' -v table="$table" '
            { other = table == "settings" ? $7 : table == "verbs" ? $3 : $4 }
            other != "" {
                name = table == "settings" ? "Cm " $1 " Ns =" : "Cm " $1
                place = table == "settings" ? "in config" : table == "verbs" ? "to ctl" : "in samples"
                print "table reference\t.It " name " No " place
                print "table reference\t" other
            }'
    done | awk 'NR == 1 { print "table reference\t.Bl -tag -width \"descendants= in config\" -compact" } { print }
        END { print "table reference\t.El" }'
}

# page FILE: the page with its generated parts replaced.
page() {
    awk -F '\t' -v parts="$work/parts" '
        BEGIN {
            while ((getline line <parts) > 0) {
                tab = index(line, "\t")
                name = substr(line, 1, tab - 1)
                lines[name] = lines[name] substr(line, tab + 1) "\n"
            }
        }
        $0 == ".\\\" end" { inside = 0 }
        !inside
        /^\.\\" (table|entry) / {
            name = substr($0, 5)
            inside = 1
            printf "%s", lines[name]
        }' "$1"
}

parts >"$work/parts"
case $what in
--names) cut -f 1 "$work/parts" | sort -u ;;
--update)
    for name in $pages; do
        page "$root/$name" >"$work/page"
        cat "$work/page" >"$root/$name"
    done
    "$pmcfs" --print-tables conf >"$root/conf/pmcfs.conf"
    sh "$root/packaging/html.sh"
    ;;
*) page "$what" ;;
esac
