# shellcheck shell=bash disable=SC2016
# pmcstat for users of perf stat: default events, running processes, CSV, rates, versions, several mounts.

# shellcheck source=tests/mount/pmcstat_summary.sh
. "${TEST_FILE%/*}/pmcstat_summary.sh"

t_without_events_those_of_perf_stat_are_counted() {
    local software='task-clock context-switches cpu-migrations page-faults'
    counted() { json "$T/out" '" ".join(c["event"] for c in d[0]["counts"])'; }
    mount_pmcfs
    copy_tools
    tool pmcstat -j -o "$T/out" true 2>"$T/err"
    empty cat "$T/err"
    [[ $(cat "$M/info/npmc") != 0 ]] || is "$(counted)" "$software"
    tool pmcstat -i 50 -o "$T/out" sleep 0.1
    like "$(head -n 1 "$T/out" | tr -s ' ')" '^# seconds p/task-clock p/context-switches '
    refuses 64 'nothing to observe: give a command, -t PID' pmcstat -l 1
}

t_default_events_fit_on_the_hardware() {
    local events
    for rows in 4 2; do
        mount_sim "sim_cpus=4,sim_rows=$rows"
        copy_tools
        tool pmcstat -j -o "$T/out" sleep 0.1 2>"$T/err"
        empty cat "$T/err"
        events=$(json "$T/out" '" ".join(c["event"] for c in d[0]["counts"] if c["event"] in "cycles instructions branches branch-misses".split())')
        is "$events" "$([[ $rows == 4 ]] && echo cycles instructions branches branch-misses || echo cycles instructions)" "$rows rows"
    done
}

t_a_refused_attach_names_the_option() {
    mount_sim sim_rows=2
    copy_tools
    target_start p
    pmc a event=cycles,instructions "target=${PID_OF[p]}"
    refuses 71 '-p cycles: other PMCs .* .EBUSY E05.$' pmcstat -p cycles -t "${PID_OF[p]}"
    refuses 71 "-t $DAEMON: .* .EPERM P16.$" pmcstat -p cycles -t "$DAEMON"
}

#@ slow
t_running_processes_get_a_summary() {
    mount_pmcfs
    copy_tools
    target_start p
    local pid
    tool pmcstat -j -o "$T/out" -p page-faults,task-clock -t "${PID_OF[p]}" &
    pid=$!
    eventually 10 'cat "$M"/pmcstat-*/ctl 2>/dev/null | grep -q running'
    tell p faults 3000
    target_end p
    end_within 10 "$pid"
    between "$(json "$T/out" 'd[0]["counts"][0]["count"]')" 3000 3300
    is "$(json "$T/out" 'd[0]["status"], sorted(k for k in d[0] if k.endswith("_s"))')" "(0, ['elapsed_s'])"
    target_start q
    tool pmcstat -l 0.3 -t "${PID_OF[q]}" 2>"$T/err"
    like "$(sed -n 2p "$T/err")" "^process ${PID_OF[q]} \(target\)$"
    between "$(awk '/ seconds elapsed/ { print int($1 * 1000) }' "$T/err")" 300 60000 'milliseconds elapsed'
    tool pmcstat -p page-faults -t "${PID_OF[q]}" true 2>"$T/err"
    like "$(head -n 1 "$T/err")" '^pmcstat: the command true is observed as well as the processes of -t '
    between "$(awk '$2 == "page-faults" { print $1 }' "$T/err")" 10 1000
    tool pmcstat -q -o /dev/null -p page-faults -t "${PID_OF[q]}" true 2>"$T/err"
    empty cat "$T/err"
    is "$(pmcs)" ''
}

t_a_pattern_matches_the_command_line() {
    mount_pmcfs
    copy_tools
    printf 'sleep 60\n:\n' >"$T/service.sh"
    sh "$T/service.sh" serve --port=99 &
    local pid=$!
    eventually 5 'grep -q port=99 "/proc/'$pid'/cmdline"'
    # The shell that starts pmcstat has the pattern on its command line, too.
    sh -c '"$0" -l 0.2 -p page-faults -t "service.sh serve --p[o]rt=99"; :' "$T/bin/pmcstat" 2>"$T/err"
    is "$(sed -n 2p "$T/err")" "process $pid (sh)"
    refuses 71 'no name or command line of a process matches' pmcstat -t 'service.sh serve --port=98'
}

t_an_exit_without_counts_prints_no_line() {
    mount_pmcfs
    copy_tools
    target_start p
    tool pmcstat -w 1 -l 2.9 -p page-faults -t "${PID_OF[p]}" -o "$T/out"
    between "$(grep -vc '#' "$T/out")" 1 3
    is "$(tail -n 1 "$T/out" | tr -d ' ')" 0 'a line for an interval without counts'
    tool pmcstat -i 300 -p page-faults -t "${PID_OF[p]}" -o "$T/out" &
    local pid=$!
    eventually 10 'cat "$M"/pmcstat-*/ctl 2>/dev/null | grep -q running'
    target_end p
    end_within 10 "$pid"
    # Each other line is in another interval than the line before.
    empty awk '!/#/ { at = int($1 / 0.3 + 0.001); if (n++ && $2 == 0 && at == before) print; before = at }' "$T/out"
}

# columns_of: prints value, unit and event of the CSV in $T/out.
columns_of() { cut -d ';' -f 1-3 "$T/out" | sed 's/^[0-9][0-9]*;/N;/' | paste -sd '|'; }

t_x_prints_csv_in_the_columns_of_perf_stat() {
    mount_pmcfs
    copy_tools
    tool pmcstat -x ';' -o "$T/out" -p page-faults,task-clock sleep 0.1
    is "$(columns_of)" 'N;;page-faults|N;ns;task-clock|;;|;;'
    like "$(head -n 1 "$T/out")" '^[0-9]+;;page-faults;[1-9][0-9]*;100\.00;[0-9]+\.[0-9]{3};1/s$'
    is "$(tail -n 2 "$T/out" | sed 's/;[0-9.][0-9.]*;/;N;/' | paste -sd '|')" ';;;;;N;cpus-used|;;;;;N;page-faults/cpu-s'
    # The same columns, event by event, as perf's.
    perf stat -x ';' -o "$T/perf" -e page-faults sleep 0.1
    is "$(grep page-faults "$T/perf" | tr -cd ';' | wc -c)" "$(head -n 1 "$T/out" | tr -cd ';' | wc -c)"
    is "$(grep page-faults "$T/perf" | cut -d ';' -f 2,3,5)" "$(head -n 1 "$T/out" | cut -d ';' -f 2,3,5)"
    tool pmcstat -x , -r 2 -o "$T/out" -p page-faults,usr true
    like "$(cat "$T/out")" '^[0-9]+,,"page-faults,usr",[0-9.]+%,[0-9]+,100\.00,[0-9.]+,1/s$'
    tool pmcstat -x , -o "$T/out" -c 0 -s context-switches -p page-faults sleep 0.1
    like "$(paste -sd '|' "$T/out")" '^CPU0,[0-9]+,,context-switches,[0-9]+,100\.00,[0-9.]+,1/s\|,[0-9]+,,page-faults,'
    : >"$T/out"
    runs_until '(($(wc -l <"$T/out") >= 4))' tool pmcstat -x , -i 100 -o "$T/out" -p page-faults -C -p page-faults cat
    is "$(grep -cv '^[0-9]*\.[0-9]\{3\},[0-9]*,,page-faults,[0-9]*,100.00,,$' "$T/out" || :)" 0
    is "$(awk -F , 'NR % 2 { sum += $2; next } { all = $2 } END { print (sum == all && NR >= 4) }' "$T/out")" 1
    refuses 64 '-x needs a separator' pmcstat -x '' true
    refuses 64 'give either -j or -x, not both' pmcstat -j -x , true
    refuses 64 '-x needs counts' pmcstat -x , -P cpu-clock true
    [[ $(cat "$M/info/npmc") == 0 ]] || return 0
    tool pmcstat -q -x , -o "$T/out" -p cycles,page-faults true
    is "$(tail -n 1 "$T/out")" '<not supported>,,cycles,0,100.00,,'
}

# Scripts depend on the keys: new ones may be added, none may be removed.
t_the_keys_of_json_stay() {
    mount_pmcfs
    copy_tools
    tool pmcstat -j -r 2 -o "$T/out" -p task-clock,page-faults -s page-faults true
    is "$(json "$T/out" '" ".join(sorted(d[0]))')" \
        'counts elapsed_s elapsed_spread_percent metrics runs status system_s system_spread_percent user_s user_spread_percent'
    is "$(json "$T/out" '" ".join(sorted({k for c in d[0]["counts"] for k in c}))')" 'count cpu event partial pmc scale spread_percent unit'
    is "$(json "$T/out" '" ".join(sorted({k for c in d[0]["metrics"] for k in c}))')" 'metric partial pmc spread_percent unit value'
    tool pmcstat -j -i 50 -o "$T/out" -p page-faults -s page-faults sleep 0.1
    is "$(json "$T/out" '" ".join(sorted(d[0])), " ".join(sorted({k for c in d[0]["counts"] for k in c}))')" \
        "('counts time_s', 'count cpu event pmc')"
    is "$(tool pmcstat -j -o - -p page-faults true | jq '.counts[0].event')" '"page-faults"'
}

#@ slow
t_rates_are_per_second_of_elapsed_time() {
    mount_pmcfs
    copy_tools
    tool pmcstat -j -o "$T/out" -p task-clock,context-switches -p page-faults sh -c 'for i in 1 2 3 4 5 6 7 8; do sleep 0.1; done'
    local d='{(m["pmc"], m["metric"]): m for m in d[0]["metrics"]}'
    is "$(json "$T/out" "sorted((p, n, m['unit']) for (p, n), m in ${d}.items())")" \
        "[(1, 'context-switches/cpu-s', '1/CPU-s'), (1, 'context-switches/s', '1/s'), (1, 'cpus-used', 'CPUs'), (2, 'page-faults/s', '1/s')]"
    is "$(json "$T/out" "round(${d}[1, 'context-switches/s']['value'] * d[0]['elapsed_s']) == d[0]['counts'][1]['count']")" True
    is "$(json "$T/out" "round(${d}[1, 'context-switches/cpu-s']['value'] * d[0]['counts'][0]['count'] / 1e9) == d[0]['counts'][1]['count']")" True
    is "$(json "$T/out" "round(${d}[2, 'page-faults/s']['value'] * d[0]['elapsed_s']) == d[0]['counts'][2]['count']")" True
    tool pmcstat -o "$T/out" -p task-clock,page-faults true
    like "$(cat "$T/out")" ' page-faults +[0-9.]+ [KM]?/s +[0-9.]+ [KM]?/CPU-s'
    # Two CPUs have the rates of both together, not half of it: a second has two seconds of CPU time.
    tool pmcstat -j -o "$T/out" -s context-switches,cpu-clock sleep 0.3
    is "$(json "$T/out" "round(${d}[1, 'context-switches/s']['value'] / ${d}[1, 'context-switches/cpu-s']['value'])")" \
        "$(getconf _NPROCESSORS_ONLN)"
}

t_every_tool_prints_its_version() {
    copy_tools
    local name version
    version=$(sed -n "s/^ *version : '\(.*\)',/\1/p" "${TEST_FILE%/tests/*}/meson.build")
    for name in $TOOLS; do is "$(PMC=/none tool "$name" --version)" "$name $version"; done
    for name in pmc-flamegraph pmc-plot; do is "$("${TEST_FILE%/tests/*}/examples/$name" --version)" "$name $version"; done
    for name in pmctop pmc-names; do is "$("$HELPERS/$name-$VARIANT" --version)" "$name $version"; done
}

t_pmcstat_runs_in_each_shell() {
    mount_pmcfs
    copy_tools
    local shell try rc
    for shell in dash bash 'busybox sh' ksh; do
        # shellcheck disable=SC2086 # word splitting is intended
        timeout 60 $shell "$T/bin/pmcstat" -x , -r 2 -p page-faults -o "$T/out" true
        like "$(cat "$T/out")" '^[0-9]+,,page-faults,' "$shell"
        # Up to ten times: bash and ksh may lose the exit of a command that comes together with the end of an interval, and
        # a busy host may delay the lines.
        for try in {1..10}; do
            rc=0
            # shellcheck disable=SC2086 # word splitting is intended
            timeout 30 $shell "$T/bin/pmcstat" -i 100 -p page-faults -o "$T/out" sleep 1 || rc=$?
            [[ $rc == 0 || $shell == bash || $shell == ksh ]] || die "status $rc in $shell"
            ((rc != 0 || $(wc -l <"$T/out") < 3)) || break
            ((try < 10)) || die "no three lines in $shell"
        done
        # All but the last line are in different intervals.
        empty awk '!/#/ { if (n++ > 1 && at == before) print; before = at; at = int($1 * 10 + 0.001) }' "$T/out"
    done
}

t_a_mount_on_pmc_is_preferred_to_others() {
    mount_pmcfs
    copy_tools
    unset PMC
    local place rc=0
    while read -r place; do [[ $place == "$M" ]] || umount -l "$place"; done < <(findmnt -rnt fuse.pmcfs -o TARGET)
    [[ -d /pmc ]] || mkdir /pmc 2>/dev/null || skip '/pmc cannot be made'
    tool pmcstat -o /dev/null -p page-faults true 2>"$T/err"
    is "$(cat "$T/err")" "pmcstat: using the pmcfs on $M, because none is mounted on /pmc"
    "$HELPERS/pmctop-$VARIANT" -b -n 1 2>"$T/err" >/dev/null
    is "$(cat "$T/err")" "pmctop: using the pmcfs on $M, because none is mounted on /pmc"
    mount --bind "$M" /pmc
    tool pmcstat -o /dev/null -p page-faults sh -c 'echo "$PMC"' 2>"$T/err"
    "$HELPERS/pmctop-$VARIANT" -b -n 1 2>>"$T/err" >/dev/null || rc=$?
    is "$rc $(cat "$T/err")" '0 '
    like "$(strace -f -e trace=chdir,mkdir "$T/bin/pmcstat" -o /dev/null -p page-faults true 2>&1)" 'mkdir\("/pmc/pmcstat-'
}

t_syscalls_are_counted_as_by_strace() {
    mount_pmcfs
    copy_tools
    local rc=0
    tool pmcstat --syscalls -o "$T/out" cat /etc/passwd /nonexistent >/dev/null 2>&1 || rc=$?
    is "$rc" 1
    strace -c -o "$T/strace" cat /etc/passwd /nonexistent >/dev/null 2>&1 || :
    is "$(awk 'NR > 1 { n = $NF == "total" ? 2 : 3; print $NF, $n, (NF > n + 1 ? $(n + 1) : 0) }' "$T/out" | sort)" \
        "$(awk '$1 ~ /^[0-9]/ { print $NF, $4, NF == 6 ? $5 : 0 }' "$T/strace" | sort)"
    refuses 64 '-p cannot be used with --syscalls' pmcstat --syscalls -p page-faults true
}
