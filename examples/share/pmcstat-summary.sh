# shellcheck shell=sh
# The summary of pmcstat: counts, rates, derived values and times of a command or of running processes; means and
# spreads of several runs; text, JSON or CSV. Sourced after common.sh.
# shellcheck disable=SC2154,SC2034 # what pmcstat and its options set, what common.sh reads

# summarise COMMAND…: runs the command as often as -r requests. The status is that of the first failed run.
summarise() {
    need_scratch
    find_int_prefix
    start_file=$scratch/start run=0
    while [ "$run" -lt "$runs" ]; do
        run=$((run + 1))
        run_once "$@"
        [ "$exit_status" != 0 ] || exit_status=$status
        # An interrupted run is left out, and the finished runs are printed.
        [ -z "$stopping" ] || [ "$run" = 1 ] || { run=$((run - 1)) && break; }
        add_run
        [ -z "$stopping" ] || break
    done
    print_summary "$@"
}

# Each run has new PMCs, so that processes that a run left behind do not count in the next run.
run_once() {
    if [ "$run" -gt 1 ]; then
        # shellcheck disable=SC2086 # word splitting is intended
        pmc_remove $names
        make_pmcs
    fi
    start_pmcs
    # With -t, the time starts here, and launch has no part in it.
    [ -z "$pids" ] || { cat "$clock_file" >"$scratch/start" && start_file=; }
    times >"$scratch/before"
    if [ $# -gt 0 ]; then
        launch "$members" "$@"
        waiting=$child
    else
        start_watcher "${members%% *}"
        waiting=$watcher
    fi
    [ -z "$limit" ] || [ "$run" -gt 1 ] || timer "$limit" USR2
    await "$waiting"
    now
    stop_pmcs
    if [ $# -gt 0 ]; then check_started; else status=0; fi
    times >"$scratch/after"
}

# Without -t, the PMCs of a command have stopped by themselves. Those of -t may have stopped.
stop_pmcs() {
    for name in $names; do
        case " $members " in
        *" $name "*) [ -z "$pids" ] || try_put "$PMC/$name/ctl" stop || [ -e "$PMC/$name/ctl" ] || tree_gone ;;
        *) put "$PMC/$name/ctl" stop ;;
        esac
    done
}

# snapshot [MICROSECONDS]: prints the counts: kind, number of the PMC, name, CPU, unit, scale, partial, value, enabled and
# running time, tab separated; with the elapsed time also metrics. Rates are per second of elapsed time, and per
# second of CPU time if the PMC counts task-clock or cpu-clock. PMCs of CPUs measure the elapsed time themselves.
snapshot() {
    files=
    for column in $columns; do files="$files ${column%%"|"*}/detail${1:+ ${column%%"|"*}/metrics}"; done
    # shellcheck disable=SC2086 # word splitting is intended
    (cd "$PMC" && WANTED=$columns LC_ALL=C awk -v seconds="${1:+$(($1 / 1000000)).$(printf '%06d' $(($1 % 1000000)))}" '
        function is_clock(name) { return name ~ /^(task|cpu)-clock([,:]|$)/ }
        function rates(    i, number, of, state) {
            elapsed = enabled ? enabled / 1e9 : seconds + 0
            for (i = 1; seconds != "" && i <= events; i++) {
                if (is_clock(event[i])) continue
                number = value[i] * (scale[i] == "-" ? 1 : scale[i])
                of = unit[i] == "-" ? "1" : unit[i]
                state = partial[i] == "yes" || cpu_partial ? "yes" : "no"
                print "metric", pmc, event[i] "/s", "", of "/s", "", partial[i], (elapsed ? sprintf("%.6f", number / elapsed) : "-")
                if (cpu_ns > 0) print "metric", pmc, event[i] "/cpu-s", "", of "/CPU-s", "", state, sprintf("%.6f", number / cpu_ns * 1e9)
            }
            events = cpu_ns = cpu_partial = enabled = 0
        }
        BEGIN {
            OFS = "\t"
            n = split(ENVIRON["WANTED"], word, " ")
            for (i = 1; i <= n; i++) { split(word[i], part, "|"); targets[i] = "," part[2] "," }
        }
        FNR == 1 && FILENAME ~ /detail$/ { rates(); pmc++; FS = "\t"; next }
        FNR == 1 { FS = " "; $0 = $0 }
        FILENAME ~ /detail$/ {
            cpu = $2
            if (FNR > 2 && index(targets[pmc], "," $2 ","))
                print "count", pmc, $1, sub(/^cpu:/, "", cpu) ? cpu : "", $8, $9, $7, $3, $4, $5
            if ($2 ~ /^cpu:/ && $4 > enabled) enabled = $4
            if ($2 == "all") {
                value[++events] = $3; event[events] = $1; unit[events] = $8; scale[events] = $9; partial[events] = $7
                if (is_clock($1) && !cpu_ns) { cpu_ns = $3; cpu_partial = $7 == "yes" }
            }
            next
        }
        $1 !~ /\/(cpu-)?s$/ { print "metric", pmc, $1, "", $3, "", $4 == "partial" ? "yes" : "no", $2 }
        END { rates() }' $files)
    printf '%s' "$unsupported" | while IFS='|' read -r number _ name _; do
        printf 'count\t%s\t%s\t\t-\t-\tno\tnone\t0\t0\n' "$number" "$name"
    done
}

# add_run: appends this run to the scratch file runs.
add_run() {
    read -r _ _ start _ <"$scratch/start"
    micros=$(((now - ${start:-$now}) / 1000))
    snapshot "$micros" >>"$scratch/runs"
    printf 'time\t0\telapsed\t\ts\t\tno\t%d.%06d\n' $((micros / 1000000)) $((micros % 1000000)) >>"$scratch/runs"
    [ -z "$pids" ] || return 0
    # The times of children from the shell: minutes and seconds, with a comma in some languages.
    LC_ALL=C awk '
        function seconds(text,    part) { sub(/,/, ".", text); split(text, part, /[ms]/); return part[1] * 60 + part[2] }
        FNR == 2 { user = seconds($1) - user; in_kernel = seconds($2) - in_kernel }
        END { printf "time\t0\tuser\t\ts\t\tno\t%.3f\ntime\t0\tsystem\t\ts\t\tno\t%.3f\n", user, in_kernel
        }' "$scratch/before" "$scratch/after" >>"$scratch/runs"
}

# CSV in the columns of perf stat: CPU, value, unit, event, spread, run time, part of the time, metric, its unit. The
# columns CPU (with -s) and spread (with -r) may be absent. A cell that contains the separator is quoted.
# shellcheck disable=SC2016 # awk's
csv_functions='
function csv_cell(text) {
    if (!index(text, separator) && !index(text, "\"")) return text
    gsub(/"/, "\"\"", text)
    return "\"" text "\""
}
function csv_unit(unit) { return unit == "-" ? "" : unit }
function csv_number(count, scale) { return scale == "-" || scale == 1 ? sprintf("%.0f", count) : sprintf("%.6g", count * scale) }
function csv_row(cpu, count, unit, event, spread, enabled, running, metric, metric_unit) {
    if (count == "none") count = "<not supported>"
    return (with_cpus ? (cpu == "" ? "" : "CPU" cpu) separator : "") csv_cell(count) separator csv_cell(unit) separator csv_cell(event) separator \
        (spread == "" ? "" : spread separator) running separator csv_cell(sprintf("%.2f", enabled > 0 ? 100 * running / enabled : 100)) \
        separator csv_cell(metric) separator csv_cell(metric_unit)
}
BEGIN { separator = ENVIRON["SEPARATOR"] }
'

# print_summary COMMAND…
print_summary() {
    title=$*
    for pid in $pids; do
        read -r word <"/proc/$pid/comm"
        title="$title${title:+, }process $pid${word:+ ($word)}"
    done 2>/dev/null
    TITLE=$(printf '%.200s' "$title" | tr '[:cntrl:]' ' ') LC_ALL=C awk -F "$tab" -v json="$json" -v runs="$run" -v status="$exit_status" -v with_cpus="$with_cpus" "$csv_functions"'
    # For several runs: the mean, and its standard error as a percentage of the mean.
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
    function is_rate(key) { return kind[key] == "metric" && name[key] ~ /\/(cpu-)?s$/ }
    # suffix "s": per second; "cpu-s": per second of CPU time. Lines of CPUs have only the first.
    function rate_of(key, suffix,    rate, number) {
        rate = "metric" FS pmc[key] FS name[key] "/" suffix FS
        if (!n[rate]) return ""
        if (cpu[key] == "") return value(rate, 6)
        number = value(key, 0) * (scale[key] == "-" ? 1 : scale[key])
        return suffix == "s" && enabled[key] > 0 ? number / enabled[key] * n[key] * 1e9 : ""
    }
    function line(number, what, rate, key,    out) {
        out = sprintf("  %18s  %-30s %12s%s", number, what, rate, shown_spread(key))
        sub(/ +$/, "", out)
        print out
    }
    function show_count(key,    number, what, rate, cpu_rate) {
        number = key in unsupported ? "<not supported>" : commas(value(key, 0))
        what = name[key] (cpu[key] == "" ? "" : ", CPU " cpu[key])
        if (scale[key] != "-" && scale[key] != 1) {
            number = sprintf("%.6g", value(key, 0) * scale[key])
            what = what ", " unit[key]
        } else if (unit[key] != "-")
            what = what ", " unit[key]
        rate = unit[key] == "-" ? rate_of(key, "s") : ""
        cpu_rate = rate == "" ? "" : rate_of(key, "cpu-s")
        rate = (rate == "" ? "" : short(rate) "/s") (cpu_rate == "" ? "" : sprintf(" %15s", short(cpu_rate) "/CPU-s"))
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
    function show_csv(    i, key, rate, spreads) {
        for (i = 1; i <= keys; i++) {
            key = order[i]
            spreads = runs > 1 ? sprintf("%.2f%%", spread(key)) : ""
            if (kind[key] == "count") {
                rate = key in unsupported ? "" : rate_of(key, "s")
                print csv_row(cpu[key], key in unsupported ? "none" : csv_number(value(key, 0), scale[key]), csv_unit(unit[key]), \
                    name[key], spreads, enabled[key] / (n[key] ? n[key] : 1), sprintf("%.0f", running[key] / (n[key] ? n[key] : 1)), rate == "" ? "" : sprintf("%.3f", rate), \
                    rate == "" ? "" : (unit[key] == "-" ? "1" : unit[key]) "/s")
            } else if (kind[key] == "metric" && n[key] && name[key] !~ /\/s$/) {
                print (with_cpus ? separator : "") separator separator separator (runs > 1 ? separator : "") separator separator \
                    csv_cell(sprintf("%.3f", value(key, 6))) separator csv_cell(name[key])
            }
        }
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
        enabled[key] += $9; running[key] += $10
        if ($7 == "yes") partial[key]
        if ($8 == "none") unsupported[key]
        if ($8 == "-" || $8 == "none") next
        text[key] = $8
        distance = $8 - mean[key]
        mean[key] += distance / ++n[key]
        squares[key] += distance * ($8 - mean[key])
    }
    END { if (json) show_json(); else if (separator != "") show_csv(); else show() }' "$scratch/runs" >&3 || unwritable
}
