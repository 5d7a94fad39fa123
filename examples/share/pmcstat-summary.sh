# shellcheck shell=sh
# What pmcstat says of a command that it counted: counts, what follows from them, times; of several runs means and
# spreads. Sourced after common.sh.
# shellcheck disable=SC2154,SC2034 # what pmcstat and its options set, what common.sh reads

# summarise COMMAND…: as often as -r says. The status is that of the first run that failed.
summarise() {
    need_scratch
    hear
    began=$scratch/began run=0
    while [ "$run" -lt "$runs" ]; do
        run=$((run + 1))
        run_once "$@"
        [ "$exit_status" != 0 ] || exit_status=$status
        # Runs that were finished are not spoilt by one that was not.
        [ -z "$ended" ] || [ "$run" = 1 ] || { run=$((run - 1)) && break; }
        add_run
        [ -z "$ended" ] || break
    done
    print_summary "$@"
}

# Each run has PMCs of its own: what a command has left running counts in no other.
run_once() {
    if [ "$run" -gt 1 ]; then
        # shellcheck disable=SC2086 # words are wanted
        pmc_remove $names
        make_pmcs
    fi
    start_pmcs
    times >"$scratch/before"
    launch "$members" "$@"
    [ -z "$limit" ] || [ "$run" -gt 1 ] || timer "$limit" USR2
    await "$child"
    now
    stop_cpus
    check_began
    times >"$scratch/after"
}

# Processes have stopped by themselves.
stop_cpus() {
    for name in $names; do
        case " $members " in *" $name "*) ;; *) put "$PMC/$name/ctl" stop ;; esac
    done
}

# add_run: what this run counted, in the scratch file runs: kind, number of the PMC, name, CPU, unit, scale, partial
# and value, tab separated.
add_run() {
    files=
    for column in $columns; do files="$files ${column%%|*}/detail ${column%%|*}/metrics"; done
    # shellcheck disable=SC2086 # words are wanted
    (cd "$PMC" && WANTED=$columns LC_ALL=C awk '
        BEGIN {
            OFS = "\t"
            n = split(ENVIRON["WANTED"], word, " ")
            for (i = 1; i <= n; i++) { split(word[i], part, "|"); targets[i] = "," part[2] "," }
        }
        FNR == 1 && FILENAME ~ /detail$/ { pmc++; FS = "\t"; next }
        FNR == 1 { FS = " "; $0 = $0 }
        FILENAME ~ /detail$/ {
            cpu = $2
            if (FNR > 2 && index(targets[pmc], "," $2 ","))
                print "count", pmc, $1, sub(/^cpu:/, "", cpu) ? cpu : "", $8, $9, $7, $3
            next
        }
        { print "metric", pmc, $1, "", $3, "", $4 == "partial" ? "yes" : "no", $2 }' $files) >>"$scratch/runs"
    printf '%s' "$unsupported" | while IFS='|' read -r number _ name _; do
        printf 'count\t%s\t%s\t\t-\t-\tno\tnone\n' "$number" "$name"
    done >>"$scratch/runs"
    read -r _ _ start _ <"$began"
    micros=$(((now - ${start:-$now}) / 1000 + 1000000))
    printf 'time\t0\telapsed\t\ts\t\tno\t%s\n' "$((micros / 1000000 - 1)).${micros#"${micros%??????}"}" >>"$scratch/runs"
    # What the shell says of its children: minutes and seconds; the latter with a comma in some languages.
    LC_ALL=C awk '
        function seconds(text,    part) { sub(/,/, ".", text); split(text, part, /[ms]/); return part[1] * 60 + part[2] }
        FNR == 2 { user = seconds($1) - user; in_kernel = seconds($2) - in_kernel }
        END { printf "time\t0\tuser\t\ts\t\tno\t%.3f\ntime\t0\tsystem\t\ts\t\tno\t%.3f\n", user, in_kernel
        }' "$scratch/before" "$scratch/after" >>"$scratch/runs"
}

# print_summary COMMAND…
print_summary() {
    TITLE=$(printf '%.200s' "$*" | tr '[:cntrl:]' ' ') LC_ALL=C awk -F "$tab" -v json="$json" -v runs="$run" -v status="$exit_status" '
    # Of several runs: the mean, and its standard error in percent of it.
    function value(key, decimals) {
        if (!n[key]) return "-"
        return n[key] == 1 ? text[key] : sprintf("%." decimals "f", mean[key])
    }
    function spread(key) {
        if (n[key] < 2 || !mean[key]) return 0
        return 100 * sqrt(squares[key] / (n[key] - 1) / n[key]) / (mean[key] < 0 ? -mean[key] : mean[key])
    }
    function shown_spread(key) {
        return (n[key] > 1 && mean[key] ? sprintf("  ( +- %.2f%% )", spread(key)) : "") (key in partial ? "  (partial)" : "")
    }
    function commas(text,    rest, out) {
        rest = match(text, /\./) ? substr(text, RSTART) : ""
        text = substr(text, 1, length(text) - length(rest))
        for (out = ""; length(text) > 3; text = substr(text, 1, length(text) - 3))
            out = "," substr(text, length(text) - 2) out
        return text out rest
    }
    function short(x) {
        x += 0
        if (x >= 1e9) return sprintf("%.3f G", x / 1e9)
        if (x >= 1e6) return sprintf("%.3f M", x / 1e6)
        return x >= 1e3 ? sprintf("%.3f K", x / 1e3) : sprintf("%.3f ", x)
    }
    function is_rate(key) { return kind[key] == "metric" && name[key] ~ /\/s$/ }
    function line(number, what, rate, key,    out) {
        out = sprintf("  %18s  %-30s %12s%s", number, what, rate, shown_spread(key))
        sub(/ +$/, "", out)
        print out
    }
    function show_count(key,    number, what, rate) {
        number = key in unsupported ? "<not supported>" : commas(value(key, 0))
        what = name[key] (cpu[key] == "" ? "" : ", CPU " cpu[key])
        if (scale[key] != "-" && scale[key] != 1) {
            number = sprintf("%.6g", value(key, 0) * scale[key])
            what = what ", " unit[key]
        } else if (unit[key] != "-")
            what = what ", " unit[key]
        rate = "metric" FS pmc[key] FS name[key] "/s" FS
        rate = cpu[key] == "" && (rate in n) && unit[rate] == "1/s" ? short(value(rate, 6)) "/s" : ""
        line(number, what, rate, key)
    }
    function show(    i, key, blank) {
        printf "\n%s%s\n\n", ENVIRON["TITLE"], (runs > 1 ? ": " runs " runs" : "")
        for (i = 1; i <= keys; i++)
            if (kind[order[i]] == "count") show_count(order[i])
        for (i = 1; i <= keys; i++) {
            key = order[i]
            if (kind[key] != "metric" || is_rate(key) || !n[key]) continue
            if (!blank++) print ""
            line(sprintf("%.3f", value(key, 6)), name[key] (unit[key] == "-" ? "" : ", " unit[key]), "", key)
        }
        print ""
        for (i = 1; i <= keys; i++)
            if (kind[order[i]] == "time")
                line(value(order[i], name[order[i]] == "elapsed" ? 6 : 3), "seconds " name[order[i]], "", order[i])
        print ""
    }
    function quoted(text) { gsub(/[\\"]/, "\\\\&", text); return "\"" text "\"" }
    function ending(key) {
        return (runs > 1 ? sprintf(",\"spread_percent\":%.3f", spread(key)) : "") ",\"partial\":" \
            (key in partial ? "true" : "false") "}"
    }
    function list(wanted,    i, key, out, number) {
        for (i = 1; i <= keys; i++) {
            key = order[i]
            if (kind[key] != wanted) continue
            number = value(key, wanted == "count" ? 0 : 6)
            out = out (out == "" ? "" : ",") "{\"pmc\":" pmc[key] "," \
                (wanted == "count" ? "\"event\":" : "\"metric\":") quoted(name[key]) \
                (cpu[key] == "" ? "" : ",\"cpu\":" cpu[key]) \
                (wanted == "count" ? ",\"count\":" : ",\"value\":") (number == "-" ? "null" : number) \
                (unit[key] == "-" ? "" : ",\"unit\":" quoted(unit[key])) \
                (wanted == "count" && scale[key] != "-" ? ",\"scale\":" scale[key] : "") ending(key)
        }
        return "[" out "]"
    }
    function show_json(    i, key, out) {
        for (i = 1; i <= keys; i++) {
            key = order[i]
            if (kind[key] == "time")
                out = out ",\"" name[key] "_s\":" value(key, 6) \
                    (runs > 1 ? sprintf(",\"%s_spread_percent\":%.3f", name[key], spread(key)) : "")
        }
        printf "{\"runs\":%d,\"status\":%d%s,\"counts\":%s,\"metrics\":%s}\n", runs, status, out, list("count"), list("metric")
    }
    {
        key = $1 FS $2 FS $3 FS $4
        if (!(key in kind)) {
            order[++keys] = key
            kind[key] = $1; pmc[key] = $2; name[key] = $3; cpu[key] = $4; unit[key] = $5; scale[key] = $6
        }
        if ($7 == "yes") partial[key]
        if ($8 == "none") unsupported[key]
        if ($8 == "-" || $8 == "none") next
        text[key] = $8
        distance = $8 - mean[key]
        mean[key] += distance / ++n[key]
        squares[key] += distance * ($8 - mean[key])
    }
    END { if (json) show_json(); else show() }' "$scratch/runs" >&3 || unwritable
}
