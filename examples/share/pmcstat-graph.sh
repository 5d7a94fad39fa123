# shellcheck shell=sh
# Output of pmcstat for stacks: a call graph, a call tree, a screen. A stack is a line "EVENT<tab>COMM;
# OUTERMOST;...;INNERMOST<tab>SAMPLES". The name of a frame may be followed by the byte 1 and its object.
# shellcheck disable=SC2154 # what pmcstat-log.sh and common.sh set

# Prints each function with its callers below it, the most frequent first, without those below the threshold.
call_graph() {
    LC_ALL=C awk -v depth="$log_depth" -v threshold="$log_threshold" '
    function blanks(n) { return n > 0 ? sprintf("%" n "s", "") : "" }
    function show(node, level, whole,    i, j, k, n, order, words, count) {
        split(name[node], words, "\001")
        count = sprintf(" [%d] ", samples[node])
        printf "%s%s %s%s%s", blanks(level),
            samples[node] == whole ? "100.0%" : sprintf("%05.2f%%", 100 * samples[node] / whole),
            count, blanks(12 - length(count)), blanks(level)
        printf "%s%s\n", words[1], words[2] != "" && words[2] != last ? " @ " words[2] : ""
        if (words[2] != "") last = words[2]
        n = sorted(node, order)
        for (i = 1; i <= n; i++) show(order[i], level + 1, samples[node])
    }
    function sorted(node, order,    i, j, k, n) {
        for (i = 1; i <= callers[node]; i++) {
            k = caller[node, i]
            if (100 * samples[k] < threshold * all) continue
            n++
            for (j = n; j > 1 && samples[order[j - 1]] < samples[k]; j--) order[j] = order[j - 1]
            order[j] = k
        }
        return n + 0
    }
    function step(node, frame, count,    to) {
        if (!((node, frame) in child)) {
            to = child[node, frame] = ++nodes
            caller[node, ++callers[node]] = to
            name[to] = frame
        }
        to = child[node, frame]
        samples[to] += count
        return to
    }
    BEGIN { FS = "\t" }
    {
        n = split($2, frame, ";")
        at = step(0, $1, $3)
        for (i = n; i > 1 && n - i < depth; i--) at = step(at, frame[i], $3)
    }
    END {
        events = sorted(0, event)
        for (e = 1; e <= events; e++) {
            printf "@ %s [%d samples]\n\n", name[event[e]], samples[event[e]]
            all = samples[event[e]]
            tops = sorted(event[e], top)
            for (t = 1; t <= tops; t++) {
                last = ""
                show(top[t], 0, samples[event[e]])
                print ""
            }
        }
    }'
}

# Prints the call tree in the format of KCachegrind and callgrind_annotate.
call_tree() {
    LC_ALL=C awk '
    function place(kind, text,    words) {
        split(text, words, "\001")
        if (words[2] == "") words[2] = "[unknown]"
        return kind "ob=" words[2] "\n" (kind == "" ? "fl" : "cfi") "=???\n" kind "fn=" words[1]
    }
    function costs(key,    e, text) {
        for (e = 1; e <= events; e++) text = text " " cost[key, e] + 0
        return text
    }
    BEGIN { FS = "\t" }
    {
        if (!($1 in number)) { number[$1] = ++events; title[events] = $1 }
        n = split($2, frame, ";")
        for (i = 2; i <= n; i++)
            if (!(frame[i] in met)) { met[frame[i]]; functions[++met_all] = frame[i] }
        cost[frame[n], number[$1]] += $3
        for (i = 2; i < n; i++) {
            edge = frame[i] SUBSEP frame[i + 1]
            if (seen[edge] == NR) continue
            seen[edge] = NR
            if (!(edge in calls)) callee[frame[i], ++callees[frame[i]]] = frame[i + 1]
            calls[edge] += $3
            cost[edge, number[$1]] += $3
        }
    }
    END {
        printf "# callgrind format\nversion: 1\ncreator: pmcstat\npositions: line\nevents:"
        for (e = 1; e <= events; e++) { gsub(/[^A-Za-z0-9_]/, "_", title[e]); printf " %s", title[e] }
        print ""
        for (m = 1; m <= met_all; m++) {
            f = functions[m]
            print "\n" place("", f) "\n0" costs(f)
            for (i = 1; i <= callees[f]; i++) {
                edge = f SUBSEP callee[f, i]
                print place("c", callee[f, i]) "\ncalls=" calls[edge] " 0\n0" costs(edge)
            }
        }
    }'
}

# call_top LINES COLUMNS: a screen of the functions with most samples, with the functions that called them. On a terminal
# the functions have half of the width, otherwise 20 columns as in FreeBSD.
call_top() {
    functions=20
    [ ! -t 3 ] || functions=$((($2 - 18) / 2))
    LC_ALL=C awk -v threshold="$log_threshold" '
    BEGIN { FS = "\t" }
    {
        n = split($2, frame, ";")
        for (i = n; i > n - 2 && i > 1; i--) sub(/\001.*/, "", frame[i])
        key = $1 "\t" frame[1] "\t" frame[n]
        count[key] += $3
        total += $3
        if (n > 2) caller[key "\t" frame[n - 1]] += $3
    }
    END {
        for (key in count) printf "%d\t0\t%s\n", count[key], key
        for (key in caller) printf "%d\t1\t%s\n", caller[key], key
        printf "%d\t2\n", total
    }' | LC_ALL=C sort -t "$tab" -k 2,2nr -k 1,1nr -k 3 | LC_ALL=C awk -v threshold="$log_threshold" -v lines="$1" -v w="$functions" '
    BEGIN { FS = "\t" }
    $2 == 2 {
        total = $1
        printf "%5.5s %-10.10s %-" w "." w "s %s\n", "%SAMP", "COMMAND", "FUNCTION", "CALLERS"
        next
    }
    100 * $1 < threshold * total { next }
    { key = $3 FS $4 FS $5 }
    $2 == 1 { called[key] = called[key] " " $6 sprintf(":%.1f", 100 * $1 / total); next }
    ++shown > lines { exit }
    { printf "%5.1f %-10.10s %-" w "." w "s %s\n", 100 * $1 / total, $4, $5, substr(called[key], 2) }'
}
