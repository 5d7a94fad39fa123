# shellcheck shell=sh
# The lines of pmcstat: the counts of its PMCs after each interval, in columns, as JSON or as CSV. Sourced after common.sh.
# shellcheck disable=SC2154,SC2034,SC2317 # what pmcstat and its options set; common.sh calls tick

# For each value, in the order of `detail`: its title in header, its column in format, its style in styles (each or
# total), and in labels the text before it in JSON, one per line. shown: the number of values.

# add_columns TITLE [CPU]: adds a column for each event of the new PMC
add_columns() {
    while IFS= read -r title <&5; do
        case $title in *[\\\"]*) text=$(printf '%s\n' "$title" | sed 's/[\\"]/\\&/g') ;; *) text=$title ;; esac
        labels="$labels{\"pmc\":$counting_pmcs,\"event\":\"$text\",${2:+\"cpu\":$2,}\"count\":
"
        title=$1/${title%%,*}
        width=${#title}
        [ "$width" -ge 12 ] || width=12
        header="$header $(printf "%${width}s" "$title")" format="$format %${width}s" styles="$styles ${total:-each}"
        shown=$((shown + 1))
    done 5<"$PMC/$new/event"
}

# read_values: reads the clock of the tree and all values into values. A signal interrupts `read` and changes exit
# statuses, so awk reads them and no status is used.
read_values() {
    files=
    for column in $columns; do files="$files ${column%%"|"*}/detail"; done
    is_retry=${1-}
    # shellcheck disable=SC2086 # word splitting is intended
    values=$(cd "$PMC" && WANTED=$columns awk -F "$tab" '
        BEGIN {
            n = split(ENVIRON["WANTED"], word, " ")
            for (i = 1; i <= n; i++) { split(word[i], part, "|"); targets[part[1] "/detail"] = "," part[2] "," }
        }
        FNR == 1 { if (NR == 1) { split($0, word, " "); print word[3] } wanted = targets[FILENAME] }
        FNR > 2 && index(wanted, "," $2 ",") { print $3 }' $files 2>/dev/null)
    # shellcheck disable=SC2086 # word splitting is intended
    set -- $values
    [ $# -le "$shown" ] || return 0
    # In ksh a signal also cuts the substitution.
    [ -z "$is_retry" ] || tree_gone
    read_values again
}

# print_line [last]: the last line is omitted if nothing was counted in less than an interval since the line before.
lines=0 last='' at=0
print_line() {
    [ "$columns" ] || return 0
    [ -z "$separator" ] || { print_csv_lines "$@" && return; }
    read_values
    before=${last:-$zeros} row='' is_last=${1-} at_before=$at
    # shellcheck disable=SC2086 # word splitting is intended
    set -- $values
    at=$((($1 - start_ns) / 1000000))
    shift
    [ "$is_last/$* " != "last/$last" ] || [ $((at - at_before)) -ge "$interval_ms" ] || return 0
    last="$* "
    for style in $styles; do
        old=${before%% *} before=${before#* }
        if [ "$style" = each ]; then
            row="$row $(($1 - old))"
        else
            row="$row $1"
        fi
        shift
    done
    print_row
}

# The lines of -x: an event per line.
print_csv_lines() {
    need_scratch
    [ -e "$scratch/before" ] || : >"$scratch/before"
    now
    at_before=$at at=$(((now - start_ns) / 1000000))
    snapshot | awk -F "$tab" '$1 == "count"' >"$scratch/now"
    [ -e "$PMC/info/version" ] || tree_gone
    if [ "${1-}" = last ] && [ $((at - at_before)) -lt "$interval_ms" ] && cmp -s "$scratch/before" "$scratch/now"; then
        return 0
    fi
    LC_ALL=C awk -F "$tab" -v at="$(printf '%d.%03d' $((at / 1000)) $((at % 1000)))" -v styles="$styles" \
        -v with_cpus="$with_cpus" "$csv_functions"'
        BEGIN { split(styles, style, " "); cells = csv_cell(at) separator }
        { key = $2 FS $3 FS $4 }
        FILENAME ~ /before$/ { value[key] = $8; enabled[key] = $9; running[key] = $10; next }
        $8 == "none" { print cells csv_row($4, $8, "", $3, "", 0, 0, "", ""); next }
        {
            whole = style[++n] != "each"
            counted = csv_number($8 - (whole ? 0 : value[key]), $6)
            print cells csv_row($4, counted, csv_unit($5), $3, "", $9 - (whole ? 0 : enabled[key]), \
                $10 - (whole ? 0 : running[key]), "", "")
        }' "$scratch/before" "$scratch/now" >&3 || unwritable
    mv "$scratch/now" "$scratch/before"
}

print_row() {
    whole=$((at / 1000)) rest=$((at % 1000 + 1000))
    # shellcheck disable=SC2086 # word splitting is intended
    if [ "$json" ]; then
        set -- $row
        text=
        while IFS= read -r label && [ "$label" ]; do
            text="$text${text:+,}$label$1}"
            shift
        done <<END
$labels
END
        printf '{"time_s":%s,"counts":[%s]}\n' "$whole.${rest#1}" "$text" 2>/dev/null >&3 || unwritable
        return
    fi
    [ $((lines % (height - 1))) != 0 ] || printf '%s\n' "$header" 2>/dev/null >&3 || unwritable
    lines=$((lines + 1))
    [ -z "$with_time" ] || row="$whole.${rest#1} $row"
    # shellcheck disable=SC2059,SC2086 # it is a format; word splitting is intended
    printf "$format\n" $row 2>/dev/null >&3 || unwritable
}

# A timer that is being stopped may send its signal once more.
due_ms=
tick() {
    [ "$due_ms" ] || return 0
    now
    if [ $(((now - start_ns) / 1000000)) -ge "$due_ms" ]; then
        print_line
        [ -z "$top" ] || analyse ''
    fi
    next_tick
}

# Ticks are at multiples of the interval since the start, so that delays do not add up. The last interval before -l is
# printed at the end of the run.
next_tick() {
    now
    elapsed_ms=$(((now - start_ns) / 1000000))
    due_ms=$((elapsed_ms - elapsed_ms % interval_ms + interval_ms))
    [ -z "$limit" ] || [ "$due_ms" -lt "$limit_ms" ] || return 0
    rest=$((due_ms - elapsed_ms + 1000))
    timer "$((rest / 1000 - 1)).${rest#"${rest%???}"}" USR1
}

# now: the tree's clock, in nanoseconds, read by this shell itself: again if a signal interrupted the read.
now() {
    until { read -r _ _ now _ <"$clock_file" && is_number "$now"; } 2>/dev/null; do
        [ -r "$clock_file" ] || tree_gone
    done
}
