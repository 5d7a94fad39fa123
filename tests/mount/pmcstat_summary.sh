# shellcheck shell=bash disable=SC2016
# pmcstat used like perf stat: counts of a command, derived values and times; many runs; JSON.

# shellcheck source=tests/mount/tools.sh
. "${TEST_FILE%/*}/tools.sh"

# touching: TOUCHING becomes a command with the arguments PAGES SECONDS. It touches the pages, runs for these seconds of
# CPU time, and prints its page faults, its milliseconds in user mode and in the kernel, and those since its start.
touching() {
    cat >"$T/touching.py" <<'P'
import mmap, resource, sys, time
began = time.monotonic()
m = mmap.mmap(-1, int(sys.argv[1]) * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
m.madvise(mmap.MADV_NOHUGEPAGE)
for i in range(int(sys.argv[1])): m[i * 4096] = 1
while resource.getrusage(resource.RUSAGE_SELF).ru_utime < float(sys.argv[2]): pass
r = resource.getrusage(resource.RUSAGE_SELF)
print(r.ru_minflt + r.ru_majflt, int(r.ru_utime * 1000), int(r.ru_stime * 1000), int((time.monotonic() - began) * 1000))
P
    TOUCHING=(/usr/bin/python3 -I "$T/touching.py")
}

# json FILE EXPRESSION: prints the value of a Python expression; d is the list of the file's JSON lines
json() {
    /usr/bin/python3 -I -c 'import json, sys
d = [json.loads(line) for line in open(sys.argv[1])]
print(eval(sys.argv[2]))' "$1" "$2"
}

#@ slow
t_a_command_that_is_counted_gets_a_summary() {
    mount_pmcfs
    copy_tools
    touching
    local began rc=0 faults user system own whole
    began=$(date +%s%N)
    tool pmcstat -p page-faults,task-clock -p context-switches "${TOUCHING[@]}" 3000 0.5 >"$T/out" 2>"$T/err" || rc=$?
    whole=$((($(date +%s%N) - began) / 1000000))
    is "$rc" 0
    read -r faults user system own <"$T/out"
    is "$(wc -l <"$T/out")" 1 'what the command prints is alone on standard output'
    like "$(sed -n 2p "$T/err")" '^/usr/bin/python3 -I .*touching.py 3000 0.5$'
    value() { awk -v what="$1" '{ line = $0; sub(/^ *[0-9.,]+  /, ""); sub(/  .*/, "") }
        $0 == what { sub(/^ */, "", line); sub(/ .*/, "", line); gsub(/,/, "", line); print line }' "$T/err"; }
    # The page faults of the program are counted since the fork.
    between "$(value page-faults)" $((faults - 300)) $((faults + 300)) "$(cat "$T/err")"
    like "$(grep ' page-faults ' "$T/err")" '^ +[0-9],[0-9]{3}  page-faults +[0-9.]+ [KMG]?/s +[0-9.]+ [KMG]/CPU-s$'
    # A process uses some more time after its last output.
    between "$(($(value 'task-clock, ns') / 1000000))" $((user + system - 1)) $((user + system + 100))
    between "$(value 'seconds elapsed' | awk '{ printf "%d", $1 * 1000 }')" "$own" "$whole"
    # The kernel's ticks are of 10 ms.
    between "$(value 'seconds user' | awk '{ printf "%d", $1 * 1000 }')" $((user - 20)) $((user + 100))
    between "$(value 'seconds system' | awk '{ printf "%d", $1 * 1000 }')" $((system > 20 ? system - 20 : 0)) $((system + 100))
    like "$(cat "$T/err")" $'\n +[0-9.]+  cpus-used, CPUs\n'
    is "$(pmcs)" ''
}

t_a_summary_has_derived_values() {
    mount_sim
    copy_tools
    tool pmcstat -s cycles,instructions -c 1 -s loads -o "$T/out" sleep 0.1
    is "$(sed -n 's/^ *\([0-9.]*  [ci]p[ci]\)$/\1/p' "$T/out" | paste -sd ,)" '2.000  ipc,0.500  cpi'
    is "$(sed -n 's/^ *[0-9,]*  \(.*, CPU .\) .*[KMG]\/s$/\1/p' "$T/out" | tail -3 | paste -sd :)" 'cycles, CPU 3:instructions, CPU 3:loads, CPU 1'
}

t_a_commands_descendants_are_counted_unless_switched_off() {
    mount_pmcfs
    copy_tools
    touching
    local alone='d[0]["counts"][0]["count"]'
    tool pmcstat -j -o "$T/out" -p page-faults sh -c '"$@"; :' sh "${TOUCHING[@]}" 5000 0 >/dev/null
    between "$(json "$T/out" "$alone")" 5000 20000
    tool pmcstat -j -o "$T/out" -p page-faults -d sh -c '"$@"; :' sh "${TOUCHING[@]}" 5000 0 >/dev/null
    between "$(json "$T/out" "$alone")" 10 1000
    tool pmcstat -j -o "$T/out" -p page-faults -d -p page-faults sh -c '"$@"; :' sh "${TOUCHING[@]}" 5000 0 >/dev/null
    is "$(json "$T/out" '[c["count"] > 5000 for c in d[0]["counts"]]')" '[False, True]'
}

# A run touches 1000 pages more than the one before: the standard error of the mean of four is known.
#@ slow
t_r_repeats_with_means_and_spreads() {
    mount_pmcfs
    copy_tools
    touching
    cat >"$T/growing" <<'S'
echo >>"$1"
shift
exec "$@" $(($(wc -l <runs) * 1000)) 0
S
    tool pmcstat -r 4 -j -o "$T/out" -p page-faults sh "$T/growing" runs "${TOUCHING[@]}" >"$T/printed"
    is "$(wc -l <runs) $(wc -l <"$T/printed")" '4 4'
    is "$(json "$T/out" 'len(d), d[0]["runs"], d[0]["status"]')" '(1, 4, 0)'
    mean=$(awk '{ s += $1 } END { printf "%d", s / 4 }' "$T/printed")
    between "$(json "$T/out" 'd[0]["counts"][0]["count"]')" $((mean - 300)) $((mean + 300))
    between "$(json "$T/out" 'round(d[0]["counts"][0]["count"] * d[0]["counts"][0]["spread_percent"] / 100)')" 630 660 \
        'sqrt(sum of the squares / 3 / 4)'
    rm runs
    tool pmcstat -r 4 -o "$T/out" -p page-faults sh "$T/growing" runs "${TOUCHING[@]}" >/dev/null
    like "$(sed -n 2p "$T/out")" ': 4 runs$'
    like "$(cat "$T/out")" ' page-faults +[0-9.]+ K/s  \( \+- [12][0-9]\.[0-9]{2}% \)'
    like "$(cat "$T/out")" 'seconds elapsed +\( \+- [0-9.]+% \)'
}

t_each_run_has_separate_pmcs() {
    mount_pmcfs
    copy_tools
    tool pmcstat -r 3 -o "$T/out" -p page-faults -s context-switches sh -c 'cd "$PMC" && echo pmcstat-*' >"$T/printed"
    is "$(sed 's/pmcstat-[0-9]*-//g' "$T/printed" | paste -sd ,)" '1 2,3 4,5 6'
}

t_the_status_is_that_of_the_command() {
    mount_pmcfs
    copy_tools
    status_of() {
        local rc=0
        tool pmcstat "$@" >/dev/null 2>"$T/err" </dev/null || rc=$?
        echo "$rc"
    }
    is "$(status_of -p page-faults sh -c 'exit 3')" 3
    is "$(status_of -w 10 -p page-faults sh -c 'exit 4')" 4
    is "$(status_of -P cpu-clock -o /dev/null sh -c 'exit 5')" 5
    is "$(status_of -p page-faults sh -c 'kill -TERM $$')" 143
    is "$(status_of -p page-faults -l 0.3 sleep 30)" 143
    is "$(status_of -j -r 3 -o "$T/out" -p page-faults sh -c 'echo >>runs; exit $(($(wc -l <runs) * 7 % 3))')" 1
    is "$(json "$T/out" 'd[0]["runs"], d[0]["status"]')" '(3, 1)' 'the first that failed'
}

t_the_status_is_126_or_127_for_a_command_that_cannot_be_executed() {
    mount_pmcfs
    copy_tools
    : >"$T/file"
    printf '#!/nonexistent\n' >"$T/script"
    chmod +x "$T/script"
    local how rc
    for how in '126 ./file' '126 /tmp' '127 ./script' '127 ./none' '127 no-such-program'; do
        for event in '-p page-faults' '-i 60000 -p page-faults' '-r 2 -s page-faults' '-P page-faults -o /dev/null'; do
            rc=0
            # shellcheck disable=SC2086 # word splitting is intended
            (cd "$T" && tool pmcstat $event ${how#* } >"$T/out" 2>"$T/err") || rc=$?
            is "$rc $(cat "$T/out")" "${how%% *} " "$event $how: $(cat "$T/err")"
            like "$(cat "$T/err")" '^pmcstat: '
        done
    done
}

# Here these are hardware events; perf stat does the same.
t_unsupported_events_are_left_out() {
    mount_pmcfs
    copy_tools
    [[ $(cat "$M/info/npmc") == 0 ]] || skip 'there is a PMU'
    tool pmcstat -r 2 -p page-faults,cycles,usr,task-clock -p instructions -o "$T/out" true 2>"$T/err"
    is "$(awk '/^ / && !/seconds|CPUs/ { print $1 == "<not" ? "-" : "N", $1 == "<not" ? $3 : $2 }' "$T/out" | tr -d , | paste -sd ';')" \
        'N page-faults;N task-clock;- cycles;- instructions'
    is "$(grep -c 'not supported' "$T/err")" 2 'reasons'
    like "$(head -n 1 "$T/err")" '^pmcstat: -p cycles: <not supported>: .*no hardware performance counters.*\(EOPNOTSUPP P09\)$'
    tool pmcstat -q -j -p cycles,page-faults -o "$T/out" true 2>"$T/err"
    is "$(json "$T/out" '[(c["pmc"], c["event"], (c["count"] or 0) > 0) for c in d[0]["counts"]], d[0]["counts"][1]["count"]')" \
        "([(1, 'page-faults', True), (1, 'cycles', False)], None)"
    empty cat "$T/err"
    tool pmcstat -i 50 -p cycles,page-faults -o "$T/out" sleep 0.1 2>"$T/err"
    is "$(head -n 1 "$T/out" | tr -s ' ')" '# seconds p/page-faults'
    refuses 71 'cycles" cannot be counted here' pmcstat -p cycles -s instructions,cycles true
    refuses 71 'cycles" cannot be counted here' pmcstat -P cycles true
    refuses 71 'no event "nosuch"' pmcstat -p page-faults,cycles,nosuch true
}

# An interval is likely to expire while the command exits.
#@ slow plain
t_the_status_is_not_lost_in_an_interval() {
    mount_pmcfs
    copy_tools
    local rc
    for _ in {1..20}; do
        rc=0
        tool pmcstat -i 10 -o /dev/null -p page-faults sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done; exit 7' || rc=$?
        is "$rc" 7
    done
}

# The keys are listed in the manual.
t_j_prints_an_object_a_line_with_the_keys_of_the_manual() {
    mount_pmcfs
    copy_tools
    local keys='sorted({k for o in d for k in [*o, *(k for l in o.values() if isinstance(l, list) for p in l for k in p)]})'
    tool pmcstat -j -r 2 -o "$T/out" -p page-faults,task-clock -s context-switches true
    json "$T/out" "$keys" | tr -d "[],'" | tr ' ' '\n' >"$T/keys"
    tool pmcstat -j -i 50 -o "$T/intervals" -p page-faults,task-clock -s context-switches sleep 0.2
    json "$T/intervals" "$keys" | tr -d "[],'" | tr ' ' '\n' >>"$T/keys"
    awk '/^\.It Li/ { print $3 }' "${TEST_FILE%/tests/*}/examples/pmcstat.1" | sort >"$T/manual"
    is "$(sort -u "$T/keys" | paste -sd ' ')" "$(paste -sd ' ' "$T/manual")"
    is "$(json "$T/out" 'len(d), [c["event"] for c in d[0]["counts"]][:3], d[0]["counts"][1]["unit"]')" \
        "(1, ['page-faults', 'task-clock', 'context-switches'], 'ns')"
    is "$(json "$T/intervals" 'len({tuple(o) for o in d}), d[0]["counts"][2]["cpu"], [o["time_s"] for o in d] == sorted(o["time_s"] for o in d)')" \
        '(1, 0, True)'
    # A comma before a qualifier does not start an event.
    tool pmcstat -j -o - -p page-faults,usr,cpu-clock true >"$T/out"
    is "$(json "$T/out" '[c["event"] for c in d[0]["counts"]]')" "['page-faults,usr', 'cpu-clock']"
}

#@ slow
t_i_prints_the_growth_of_each_interval() {
    mount_pmcfs
    copy_tools
    touching
    # shellcheck disable=SC2016 # for sh
    runs_until '(($(wc -l <"$T/out") >= 4))' tool pmcstat -i 100 -p page-faults -C -p page-faults -o "$T/out" \
        sh -c '"$0" "$1" "$2" 2000 0.1; exec cat "$3"' "${TOUCHING[@]}" >/dev/null
    is "$(head -1 "$T/out" | tr -s ' ')" '# seconds p/page-faults p/page-faults'
    # Lines add up to the last total; each has its time, and after the first ones they come at multiples.
    is "$(awk 'NR > 1 && !/#/ { if ($1 <= last) print; last = $1; sum += $2; all = $3 } END { print (sum == all && all > 2000) }' "$T/out")" 1
    between "$(wc -l <"$T/out")" 4 1000
    tool pmcstat -w 0.1 -p page-faults -o "$T/out" sleep 0.3
    is "$(head -1 "$T/out" | tr -s ' ')" '# p/page-faults' 'the columns of hwpmc'
}

t_letters_that_mean_two_things() {
    mount_pmcfs
    copy_tools
    refuses 64 '-r 0: give a number of runs, 1 or more' pmcstat -r 0 -p page-faults true
    refuses 64 '-r /: give a number of runs, 1 or more' pmcstat -r / -p page-faults true
    refuses 64 '-i x: give a number of milliseconds, 1 or more' pmcstat -i x -p page-faults true
    refuses 64 '-i 08: give a number of milliseconds, 1 or more' pmcstat -i 08 -p page-faults true
    refuses 64 '-i x: give the number of a thread, 1 or more' pmcstat -i x -R f
    refuses 64 '-r needs -G' pmcstat -r / -P cpu-clock true
    refuses 64 '-r repeats a command' pmcstat -r 2 -s page-faults
    refuses 64 '-r repeats a command' pmcstat -r 2 -w 1 -p page-faults true
    refuses 64 '-r repeats a command' pmcstat -r 2 -t 1 -p page-faults true
    refuses 64 'give either -i or -w, not both' pmcstat -i 100 -w 1 -p page-faults true
    refuses 64 '-j needs counts' pmcstat -j -P cpu-clock true
    refuses 64 '-j with -W or -E needs -O' pmcstat -j -W -p page-faults true
    refuses 64 '-j cannot be used with -R' pmcstat -j -R f
}
