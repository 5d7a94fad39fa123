# shellcheck shell=bash disable=SC2016
# The tools of examples/ on real mounts: options, formats, refusals; they leave no PMC.
# Test names contain ids of reference-ids, sections 4, 5 and 6.

TOOLS="pmccontrol pmcstat cpustat cputrack perfmon"

# Other users may not reach the checkout.
copy_tools() {
    mkdir -p "$T/bin"
    cp -r "${TEST_FILE%/tests/*}"/examples/{pmccontrol,pmcstat,cpustat,cputrack,perfmon,share} "$T/bin/"
    chmod -R a+rX "$T/bin"
    export PMC=$M
}

tool() { PATH=$PATH:$HELPERS "$T/bin/$1" "${@:2}"; }

# refuses STATUS REGEX TOOL WORDS…: the tool exits with this status, its first line matches, and no PMC is left.
refuses() {
    local reply rc=0
    reply=$(tool "${@:3}" 2>&1 </dev/null) || rc=$?
    is "$rc" "$1" "exit status of ${*:3}"
    like "${reply%%$'\n'*}" "^$3: .*$2" "${*:3}"
    is "$(pmcs)" '' "PMCs left by ${*:3}"
}

# pmcs: prints the PMCs that tools have created.
pmcs() { (cd "$M" && compgen -G '*-*-*') || :; }

# killed_by SIGNAL STATUS TOOL WORDS…: sends the signal when the tool counts, and checks that no PMC is left.
killed_by() {
    local rc=0 pid
    env --default-signal=INT,QUIT "$T/bin/$3" "${@:4}" >"$T/interrupted" 2>&1 &
    pid=$!
    eventually 20 'cat "$M"/*-*-*/ctl 2>/dev/null | grep -q running'
    kill "-$1" "$pid"
    end_within 20 "$pid" || rc=$?
    is "$rc" "$2" "exit status of $3 after $1"
    eventually 10 '[[ -z $(pmcs) ]]'
}

#@ slow
t_tools_are_plain_sh_and_explain_themselves() {
    mount_sim
    copy_tools
    cd "${TEST_FILE%/tests/*}" || die 'no checkout'
    for name in $TOOLS; do
        dash -n "examples/$name"
        like "$(tool "$name" -h)" "^usage: $name "
        refuses "$(case $name in pmc*) echo 64 ;; perfmon) echo 1 ;; *) echo 2 ;; esac)" 'unknown option -Z' "$name" -Z
    done
    like "$(tool cpustat -h)" 'sim events:.*cycles'
    like "$(PMC=$T tool pmcstat -s cycles 2>&1 || :)" 'no pmcfs that you may read is mounted on '
}

t_pc1_pmccontrol_lists_the_counters_of_every_cpu() {
    mount_sim
    copy_tools
    pmc a event=cycles mode=SC target=cpu2 row=1
    pmc b event=cycles mode=SS period=5000 target=cpu0 row=2
    tool pmccontrol -l >"$T/list"
    like "$(head -1 "$T/list")" ': CPUs 0-3, with 4 PMCs per CPU$'
    is "$(grep -c '^CPU [0-9]*:$' "$T/list")" 4
    is "$(grep -c '^ *N  NAME  *CLASS  *STATE  *ROW-DISP$' "$T/list")" 4
    is "$(awk '/^ +[0-9]/ && $2 ~ /^sim-/ && $3 == "sim" && $4 == "ENABLED"' "$T/list" | wc -l)" 16
    # The process that made them, mkdir, is gone.
    is "$(awk '/^CPU/ { cpu = $2 } /\(/ && /STANDALONE/ { print cpu, $1, $5, $6, $7, $8, $9 }' "$T/list")" \
        $'0: 2 STANDALONE (PMC b) cycles (5000)\n2: 1 STANDALONE (PMC a) cycles '
}

t_pc2_pc3_pmccontrol_lists_events_and_statistics() {
    mount_sim
    copy_tools
    tool pmccontrol -L | awk '/^\t/ { print class "/" substr($0, 2); next } { class = $0 }' >"$T/events"
    is "$(cat "$T/events")" "$(cd "$M/events" && printf '%s\n' */*)"
    is "$(tool pmccontrol -s | awk '{ print $1 }' | tr '\n' ' ')" "$(awk 'NR < 9 { print $1 }' "$M/info/stats" | tr '\n' ' ')"
}

t_pc4_pc5_pmccontrol_disables_and_enables_from_left_to_right() {
    mount_sim
    copy_tools
    tool pmccontrol -c 1 -d '*' -e 2 -c '*' -d 0
    is "$(cat "$M"/admin/cpu{0,1}/{0,1,2} | tr '\n' ' ')" 'disabled enabled enabled disabled disabled enabled '
    tool pmccontrol -e '*'
    is "$(cat "$M"/admin/cpu*/* | sort -u)" enabled
    tool pmccontrol -d 2
    tool pmccontrol -c 1 -e 2
    is "$(cat "$M"/admin/cpu{0,1,2,3}/2 | xargs)" 'disabled enabled disabled disabled' 'that CPU alone'
}

t_pc6_pmccontrol_refuses() {
    mount_sim
    copy_tools
    refuses 64 '-c 4: this CPU is not online; online are 0-3' pmccontrol -d 0 -c 4 -d 0
    is "$(cat "$M/admin/cpu0/0")" enabled 'nothing changes where a word is wrong'
    refuses 64 'the highest row of CPU 1 is 3' pmccontrol -c 1 -d 4
    refuses 64 'give a row number' pmccontrol -d x
    refuses 64 'give -l, -L or -s' pmccontrol
    refuses 64 'cannot be used with other options' pmccontrol -l -d 0
    pmc a event=cycles row=0
    refuses 71 'CPU 0 row 0: .*EBUSY E03' pmccontrol -d 0
    like "$(as "$ALICE" "$T/bin/pmccontrol" -d 1 2>&1 || :)" 'only the superuser'
}

#@ slow
t_p01_p05_pmcstat_has_a_column_for_each_cpu() {
    mount_sim
    copy_tools
    tool pmcstat -c 1,3 -s cycles -c '*' -s instructions,usr -w 0.2 -l 0.9 2>"$T/out"
    is "$(head -1 "$T/out" | tr -s ' ')" '# s/01/cycles s/03/cycles s/00/instructions s/01/instructions s/02/instructions s/03/instructions'
    # A line that is late leaves little time to the next.
    empty awk 'NR > 1 && (NF != 6 || $1 < 1) { print } { sum += $1 } END { if (sum < 100000000) print "in all " sum }' "$T/out"
    between "$(wc -l <"$T/out")" 2 7
    is "$(pmcs)" ''
}

t_p02_p03_pmcstat_counts_a_command_from_its_first_instruction() {
    mount_pmcfs
    copy_tools
    pmc a event=page-faults start=exec
    (echo self >"$M/a/target" && exec ls / >/dev/null)
    tool pmcstat -w 20 -p page-faults -o "$T/out" sh -c 'cat >&2; exec ls / >/dev/null' <<<'input of the command' 2>"$T/err"
    is "$(cat "$T/err")" 'input of the command'
    is "$(head -1 "$T/out" | tr -s ' ')" '# p/page-faults'
    tool pmcstat -w 20 -p page-faults -o "$T/out" ls / >/dev/null
    between "$(tail -1 "$T/out" | tr -d ' ')" $(($(count a) * 9 / 10)) $(($(count a) * 11 / 10))
}

#@ slow
t_p04_p10_p13_pmcstat_attaches_and_stops_with_the_last_target() {
    mount_pmcfs
    copy_tools
    target_start p
    local pid rc=0
    cp "$HELPERS/target" "$T/pmcfsgoal"
    tool pmcstat -p page-faults -C -p page-faults,usr -t "${PID_OF[p]}" -w 0.3 2>"$T/out" &
    pid=$!
    eventually 5 '[[ -s $T/out ]]'
    for _ in 1 2 3; do
        tell p faults 500
        sleep 0.3
    done
    target_end p
    end_within 5 "$pid" || rc=$?
    is "$rc" 0
    # The first column is the growth of each interval, the second the total.
    is "$(awk 'NR > 1 { if ($2 < last) print; last = $2; sum += $1 } END { print (sum >= last && last >= 1500) }' "$T/out")" 1
    refuses 71 'no name or command line of a process matches' pmcstat -p page-faults -t '^no-such-name$'
    talker_start goal "$T/pmcfsgoal"
    tool pmcstat -p page-faults -t '^pmcfsgo.l$' -w 20 2>"$T/out" &
    pid=$!
    eventually 5 '[[ $(cat "$M"/pmcstat-*/target 2>/dev/null) == "${PID_OF[goal]}" ]]'
    target_end goal
    end_within 5 "$pid" || rc=$?
    is "$rc $(wc -l <"$T/out")" '0 2' "$(tail -n 1 "$T/out")"
    refuses 71 'ESRCH' pmcstat -p page-faults -t 999999
}

t_p07_pmcstat_switches_apply_to_later_options() {
    mount_pmcfs
    copy_tools
    tool pmcstat -w 20 -p page-faults -d -p page-faults -o "$T/out" sh -c 'ls / >/dev/null; ls / >/dev/null; :'
    is "$(awk 'NR == 2 { print ($2 > $1 * 2) }' "$T/out")" 1
}

#@ slow
t_p14_p17_pmcstat_repeats_its_header_at_each_screenful() {
    mount_sim
    copy_tools
    LINES=3 env --default-signal=INT "$T/bin/pmcstat" -s cycles -c 0 -w 0.1 -o "$T/out" &
    eventually 10 '(($(grep -cs "^#" "$T/out") > 1))'
    kill -INT $!
    wait $!
    empty awk '/^#/ { if (NR > 1 && n != 2) print NR; n = 0; next } { n++ }' "$T/out"
}

t_p27_pmcstat_lists_and_describes_events() {
    mount_sim
    copy_tools
    tool pmcstat -L >"$T/events"
    grep -qx "$(printf '\tcycles')" "$T/events"
    is "$(tool pmcstat -u wide)" "$(cat "$M/events/sim/wide")"
    refuses 71 'no event "nosuch"' pmcstat -u nosuch
}

t_pmcstat_usage_rules_of_counting() {
    mount_pmcfs
    copy_tools
    refuses 64 '-t needs events of processes' pmcstat -s page-faults -t 1
    refuses 64 '-p and -P need processes' pmcstat -p page-faults
    refuses 64 '-c needs events of CPUs' pmcstat -c 0 -p page-faults true
    refuses 64 '-d needs events of processes' pmcstat -d -s page-faults
    refuses 64 '-C needs counts: give -p or -s' pmcstat -C -P page-faults true
    refuses 64 '-o needs events' pmcstat -o f
    refuses 64 'nothing to observe: give a command, -t PID' pmcstat
    refuses 64 'no event: give -p EVENT' pmcstat -O f true
    refuses 71 '-t 99999999: no process 99999999' pmcstat -t 99999999
    refuses 64 'give a number of seconds above 0' pmcstat -w 0 -s page-faults
    refuses 64 'give a number of seconds above 0' pmcstat -l 1x -s page-faults
    refuses 64 'give a list of CPUs' pmcstat -c x -s page-faults
    refuses 71 'CS01' pmcstat -s nosuch
    refuses 71 'EINVAL|ENXIO' pmcstat -c 4000 -s page-faults
    refuses 127 'command not found' pmcstat -p page-faults no-such-program
}

#@ slow
t_tools_leave_no_pmc_when_a_signal_kills_them() {
    mount_pmcfs
    copy_tools
    killed_by INT 130 pmcstat -p page-faults -w 20 sleep 30
    is "$(wc -l <"$T/interrupted")" 2 'the values so far'
    killed_by INT 0 pmcstat -s page-faults -w 20
    killed_by INT 0 cpustat -c page-faults,context-switches 20
    for how in 'HUP 129' 'QUIT 131' 'KILL 137' 'PIPE 141' 'ALRM 142' 'TERM 143' 'XCPU 152'; do
        # shellcheck disable=SC2086 # word splitting is intended
        killed_by $how pmcstat -s page-faults -w 1
    done
    killed_by QUIT 131 pmcstat -p page-faults sleep 30
    killed_by KILL 137 pmcstat -p page-faults sleep 31
    pkill -fx 'sleep 31'
    killed_by TERM 143 cputrack -c page-faults -T 20 sleep 30
    killed_by TERM 143 perfmon -c 'exec sleep 30' page-faults
    ! pgrep -fx 'sleep [23]0' || die 'a command is left'
}

#@ slow
t_cpustat_prints_a_row_per_cpu_and_a_total() {
    mount_sim
    copy_tools
    tool cpustat -c pic0=cycles,pic1=instructions 0.2 3 >"$T/out"
    is "$(head -1 "$T/out" | tr -s ' ')" ' time cpu event pic0 pic1'
    is "$(awk 'NR > 1 && !/total/ { if (NF != 5 || $1 !~ /^[0-9]+\.[0-9][0-9][0-9]$/ || $3 != "tick") print; n++ } END { print n }' "$T/out")" 12
    # The last row: the number of CPUs, and the sums of the differences above.
    is "$(awk '$3 == "tick" { a += $4; b += $5 } END { print $2, $3, $4 - a, $5 - b }' "$T/out")" '4 total 0 0'
    is "$(tool cpustat -nt -c cycles 0.1 1 | awk '{ print NF }' | sort -u)" 5
    like "$(tool cpustat -n -T u -c cycles 0.1 1)" '^[0-9]{10}[^0-9]'
}

#@ slow
t_cpustat_sets_take_turns_unscaled() {
    mount_sim
    copy_tools
    # Six events on four rows: never at one time.
    tool cpustat -c cycles,instructions,branches -c pic1=cycles,instructions,branches,sys2 0.1 4 >"$T/out"
    is "$(awk '/tick/ && $2 == 0 { print $NF }' "$T/out" | tr '\n' ' ')" \
        "$(printf 'cycles,instructions,branches pic1=cycles,instructions,branches,sys2 %.0s' 1 2)"
    is "$(grep -c ' 4 total .* # ' "$T/out")" 2
    is "$(tail -n +2 "$T/out" | awk 'NF != 8')" ''
    tool cpustat -c cycles -c loads -p 1 0.1 2 >"$T/out"
    is "$(grep -c tick "$T/out")" 16
}

t_cpc_specifications_and_their_errors() {
    mount_sim
    copy_tools
    like "$(tool cpustat -D -n -c 'cycles,instructions,cmask0=0x2,inv0,edge1,sys1' 0.1 1 2>&1)" \
        'event=cycles,cmask=2,inv,usr event=instructions,edge,usr,os user=on kernel=off'
    like "$(tool cpustat -D -n -c 'cycles,cycles,nouser1,sys1' 0.1 1 2>&1)" 'event=cycles,usr event=cycles,os'
    like "$(tool cpustat -D -n -c 'pic2=0x1c2,sys,nouser,cmask=010' 0.1 1 2>&1)" 'row=2 event=r1c2,cmask=8 user=off kernel=on'
    refuses 2 'pic0 is given twice' cpustat -c pic0=cycles,pic0=loads
    refuses 2 'needs the number' cpustat -c pic=cycles
    refuses 2 'has no event' cpustat -c pic0=
    refuses 2 'unknown attribute' cpustat -c cycles,color=1
    refuses 2 'give a number' cpustat -c cycles,cmask=z
    refuses 2 'pic4 has no event' cpustat -c cycles,edge4
    refuses 2 'nouser without sys counts nothing' cpustat -c cycles,nouser
    refuses 1 'cannot count "loads".*E19' cpustat -c pic1=loads
    refuses 1 'CS01' cputrack -c nosuch true
    refuses 2 'no events' cpustat 1
    refuses 2 'give a number of seconds above 0' cpustat -c cycles 0
    refuses 2 'give a number of samples, 1 or more' cpustat -c cycles 1 02
    refuses 2 'soaker' cpustat -s -c cycles
    refuses 2 'give either -p or a command' cputrack -c cycles -p 1 true
    refuses 1 'ESRCH' cputrack -c cycles -p 999999
}

#@ slow
t_cputrack_counts_a_command_and_a_process() {
    mount_pmcfs
    copy_tools
    runs_until '(($(grep -c " tick " "$T/out") >= 2))' \
        tool cputrack -fev -T 0.3 -c pic0=page-faults,pic1=context-switches,sys cat >"$T/out"
    is "$(head -1 "$T/out" | tr -s ' ')" ' time pid lwp event pic0 pic1'
    # A switch after the process's exit record is in the PMC, but in no process: "-".
    like "$(awk '!($2 == "-" && $4 == "exit" && $5 == 0 && $6 > 0) { print $4 }' "$T/out" | tr '\n' ' ')" \
        '^event exec init_lwp (tick ){2,}fini_lwp exit $'
    empty awk '$4 == "tick" && $1 < ++n * 0.29' "$T/out"
    like "$(grep exec "$T/out")" "# 'cat $T/input'$"
    is "$(awk '$4 == "tick" { sum += $5 } $4 == "exit" && $2 != "-" { print ($5 >= sum && $5 > 20) }' "$T/out")" 1
    is "$(awk '$4 != "event" { print $2 == $3 || $4 == "exit" && $3 == "-" }' "$T/out" | sort -u)" 1 'one process of one thread'
    target_start p
    tool cputrack -T 0.5 -N 2 -o "$T/out" -c page-faults -p "${PID_OF[p]}"
    is "$(head -1 "$T/out" | tr -s ' ')" ' time lwp event pic0'
    is "$(awk '$3 == "tick" { print $2 }' "$T/out" | uniq -c | tr -s ' ')" " 2 ${PID_OF[p]}"
    env --default-signal=INT "$T/bin/cputrack" -T 0.5 -o "$T/out" -c page-faults -p "${PID_OF[p]}" &
    eventually 5 '[[ $(lwps) == "tid:${PID_OF[p]}" ]]'
    tell p faults 1000
    ticked() { awk '$3 == "tick" { s += $4 } END { print s + 0 }' "$T/out"; }
    eventually 10 '(($(ticked) >= 1000))'
    kill -INT $!
    wait $!
    between "$(ticked)" 1000 1300
    kill -0 "${PID_OF[p]}" || die 'the process did not continue'
    as "$ALICE" "$T/bin/cputrack" -n -T 0 -c page-faults ls / >"$T/out"
    like "$(tail -1 "$T/out" | tr -s ' ')" '^ [0-9.]+ - exit [0-9]+$'
}

# lwps: the threads that cputrack counts one by one.
lwps() { cat "$M"/cputrack-*/target 2>/dev/null | grep tid: | paste -sd ' '; }

# values EVENT [LWP]: the values in these rows, with -f.
values() { awk -v event="$1" -v lwp="${2:-}" '$4 == event && (lwp == "" || $3 == lwp) { print $5 }' "$T/out"; }

t_cputrack_has_rows_for_each_thread() {
    mount_pmcfs
    copy_tools
    target_start p
    tell p threads 2
    env --default-signal=INT "$T/bin/cputrack" -T 0.5 -v -c page-faults,sys -p "${PID_OF[p]}" >"$T/out" &
    local tool=$! first second later
    eventually 5 '[[ $(lwps | wc -w) == 3 ]]'
    tell p faults 3000
    tell p each 500
    tell p threads 1
    eventually 5 '[[ $(lwps | wc -w) == 4 ]]'
    read -r first second later < <(cd "/proc/${PID_OF[p]}/task" && printf '%s\n' * | sort -n | tail -3 | xargs)
    tell p each 200
    tell p end 3
    # Rows are printed immediately: all rows above are present before the interrupt.
    eventually 10 'awk -v p="${PID_OF[p]}" "\$3 == \"fini_lwp\" { n++ } \$2 == p && \$3 == \"tick\" { s += \$4 }
        END { exit !(n == 3 && s >= 3000) }" "$T/out"'
    empty awk '$3 == "exit"' "$T/out"
    kill -INT $tool
    wait $tool
    is "$(awk '$3 == "init_lwp" { print $2, $4 }' "$T/out" | xargs)" "${PID_OF[p]} 0 $first 0 $second 0 $later 0"
    is "$(awk '$3 == "lwp_create" { print $2 }' "$T/out")" "$later" 'born later'
    sum() { awk -v lwp="$1" '$2 == lwp && $3 == "tick" { s += $4 } END { print s + 0 }' "$T/out"; }
    between "$(sum "${PID_OF[p]}")" 3000 3300 'what the first thread counted'
    for lwp in "$first" "$second" "$later"; do
        # Ticks are differences, lwp_exit is all of it.
        ended=$(awk -v lwp="$lwp" '$2 == lwp && $3 == "lwp_exit" { print $4 }' "$T/out")
        between "$ended" $((lwp == later ? 200 : 700)) $((lwp == later ? 300 : 800))
        is "$(awk -v lwp="$lwp" '$2 == lwp && $3 == "fini_lwp" { print $4 }' "$T/out")" "$ended"
        between "$(sum "$lwp")" 0 "$ended"
    done
}

#@ slow
t_cputrack_follows_children_and_their_programs() {
    mount_pmcfs
    copy_tools
    cat >"$T/parent.py" <<'P'
import mmap, os, sys, threading, time
def touch(pages):
    m = mmap.mmap(-1, pages * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    m.madvise(mmap.MADV_NOHUGEPAGE)
    for i in range(pages): m[i * 4096] = 1
def bear(pages, program=None):
    pid = os.fork()
    if pid == 0:
        touch(pages)
        if program: os.execv(program, [program])
        os._exit(0)
    os.waitpid(pid, 0)
    return pid
touch(9000)
children = bear(5000), bear(2000, "/bin/true")
thread = threading.Thread(target=lambda: (open(sys.argv[1]).read(), touch(1000), time.sleep(0.2)))
thread.start()
print(os.getpid(), *children, thread.native_id, flush=True)
thread.join()
P
    # Not lwps(), in which asan would reload.
    runs_until '[[ -s $T/numbers ]] && cat "$M"/cputrack-*/target 2>/dev/null | grep -qx "tid:$(cut -d " " -f 4 "$T/numbers")"' \
        tool cputrack -nfe -T 0 -o "$T/out" -c page-faults,sys /usr/bin/python3 "$T/parent.py" >"$T/numbers"
    local parent one two thread
    read -r parent one two thread <"$T/numbers"
    is "$(awk '$4 == "fork" { print $2, $3, $(NF - 1), $NF }' "$T/out" | xargs)" "$parent - # $one $parent - # $two"
    is "$(awk '$4 == "exec" { print $2, $NF }' "$T/out" | tr -d "'" | xargs)" "$parent $T/input $two $(readlink -f /bin/true)"
    is "$(awk '$4 == "exit" { print $2 }' "$T/out" | xargs)" "$one $two $parent"
    between "$(awk -v p="$one" '$2 == p && $4 == "exit" { print $5 }' "$T/out")" 5000 5900
    between "$(awk -v p="$two" '$2 == p && $4 == "exit" { print $5 }' "$T/out")" 2000 2900
    between "$(awk -v p="$parent" '$2 == p && $4 == "exit" { print $5 }' "$T/out")" 10000 14000
    is "$(awk '$4 == "lwp_create" { print $2, $3 }' "$T/out")" "$parent $thread"
    between "$(values lwp_exit "$thread")" 1000 1100
    empty awk '$4 == "tick"' "$T/out"
    # And where sets take turns.
    runs_until '(($(awk "\$4 == \"tick\" { print \$NF }" "$T/out" | sort -u | wc -l) == 2))' \
        tool cputrack -f -T 0.2 -c page-faults,sys -c context-switches,sys /usr/bin/python3 "$T/parent.py" >"$T/out"
    parent=$(awk 'NF == 4 && !/#/ { print $1 }' "$T/out")
    is "$(awk -v p="$parent" '$2 == p && $4 == "exit" { print $NF }' "$T/out" | xargs)" 'page-faults,sys context-switches,sys'
    between "$(awk -v p="$parent" '$2 == p && $4 == "exit" && /page-faults/ { print $5 }' "$T/out")" 0 14000
    is "$(awk '$4 == "tick" { print $NF }' "$T/out" | sort -u | xargs)" 'context-switches,sys page-faults,sys'
}

# The user may not observe the program: the row `exit` has the count until its exec.
t_cputrack_reports_a_privileged_program() {
    mount_pmcfs
    copy_tools
    set_id sleeper /bin/sleep
    for sets in '-c page-faults' '-c page-faults -c context-switches'; do
        # shellcheck disable=SC2086
        as "$ALICE" "$T/bin/cputrack" -v -T 0.3 $sets "$T/sleeper" 1 >"$T/out" 2>"$T/err"
        like "$(sed 1q "$T/err")" '^cputrack: process [0-9]+ has executed a privileged program .*: it is no longer counted$'
        like "$(tail -n +2 "$T/err")" '^cputrack: page-faults: the count is a lower bound'
        is "$(awk '$3 == "exit" && ($NF == "page-faults" || !/#/)' "$T/out" | wc -l)" 1 "$sets"
    done
    # Other threads keep their rows. A child is counted, and can have a row, until its exec.
    as "$ALICE" "$T/bin/cputrack" -f -T 0.3 -c page-faults sh -c "$T/sleeper 1; :" >"$T/out" 2>"$T/err"
    is "$(cat "$T/err")" 'cputrack: page-faults: the count is a lower bound (see partial in pmcfs(5))'
    like "$(awk '$4 == "tick" { print $3 }' "$T/out" | sort -u | xargs)" '^[0-9]+( [0-9]+)?$'
    as "$ALICE" "$T/bin/pmcstat" -p page-faults,task-clock "$T/sleeper" 0.1 >"$T/out" 2>&1
    like "$(tail -1 "$T/out")" '^pmcstat: page-faults,task-clock: the count is a lower bound'
}

# The simulated PMU reports no exec.
t_tools_count_commands_on_the_simulated_pmu() {
    mount_sim
    copy_tools
    like "$(tool perfmon -l 1 -c true cycles | sed 1q)" '^1: [1-9][0-9]*$'
    like "$(tool cputrack -n -T 0 -c cycles true | tr -s ' ')" '^ [0-9.]+ - exit [1-9][0-9]*$'
    is "$(pmcs)" ''
}

#@ slow
t_cputrack_reports_that_threads_have_no_counters() {
    mount_sim sim_cpus=2,sim_rows=2
    copy_tools
    tool cputrack -T 0.3 -N 2 -c cycles,loads sleep 100 >"$T/out" 2>"$T/err"
    like "$(cat "$T/err")" '^cputrack: no separate rows for threads, because .*E(05|19)\)$'
    is "$(awk 'NR > 1 { print $2, $3 }' "$T/out" | sort -u)" '- tick'
    empty awk 'NR > 1 && NF != 5' "$T/out"
    # A requested counter is used for the process; other counters are used for its threads.
    tool cputrack -T 0.3 -N 2 -c pic1=cycles sleep 100 >"$T/out" 2>"$T/err"
    empty cat "$T/err"
    is "$(awk 'NR > 1 { print ($2 ~ /^[0-9]+$/), $3 }' "$T/out" | sort -u)" '1 tick'
}

# Scripts pass on names that come from others.
t_no_error_of_a_tool_has_control_bytes() {
    mount_pmcfs
    copy_tools
    cp "${TEST_FILE%/tests/*}"/examples/pmc-{flamegraph,plot} "$T/bin/"
    cp "$(names_program)" "$T/bin/pmc-names"
    local bad=$'x\e[2J\n\ty' reply n=0
    for words in 'pmcstat -p BAD true' 'pmcstat -t BAD -p page-faults' 'pmcstat -p page-faults BAD' 'pmcstat -R BAD' \
        'pmcstat -p page-faults -o /none/BAD true' 'cpustat -c BAD 1' 'cputrack -c BAD true' 'cputrack -p BAD' \
        'perfmon BAD' 'perfmon -m BAD x' 'pmccontrol -c BAD' 'pmccontrol BAD' 'pmc-flamegraph BAD' \
        'pmc-flamegraph -w BAD' 'pmc-plot BAD' 'pmc-plot -n BAD' 'pmc-names BAD'; do
        read -ra words <<<"$words"
        reply=$(tool "${words[@]/BAD/$bad}" 2>&1 </dev/null) && die "accepted: ${words[*]}"
        is "$(tr -d '\n' <<<"$reply" | grep -c '[[:cntrl:]]' || :)" 0 "lines with control bytes of ${words[*]}: ${reply@Q}"
        n=$((n + 1))
    done
    is $n 17
    is "$(printf 'c\e[2J;[/no\e\rne+0x1];f\r\a 3\n' | tool pmc-names)" 'c\033[2J;[/no\033\015ne+0x1];f\015\007 3'
}

# In dash a trap inside a trap spoils $?: the end of an interval and -l come at the same moment in many of these.
#@ slow plain
t_an_interval_may_end_together_with_the_run() {
    mount_pmcfs
    copy_tools
    one() {
        local rc=0
        timeout 30 dash "$T/bin/pmcstat" -j -s page-faults -w 0.05 -l "$1" -o "$T/out$2" 2>"$T/err$2" || rc=$?
        echo "$rc $(wc -l <"$T/out$2") $(tail -n 1 "$T/out$2" | sed 's/,.*//; s/.*://') $(cat "$T/err$2")"
    }
    local at pids=()
    for at in {1..10}; do
        for n in 1 2 3 4 5 6; do
            one 0.2 $n >"$T/reply$n" &
            pids[n]=$!
        done
        for n in "${pids[@]}"; do wait "$n"; done
        for n in 1 2 3 4 5 6; do
            like "$(cat "$T/reply$n")" '^0 [1-9][0-9]* ([1-9][0-9]*\.|0\.[2-9])[0-9]* $' "status, lines, last time and errors of run $at.$n"
            awk '{ exit !($2 <= $3 / 0.05 + 1) }' "$T/reply$n" || die "more lines than intervals: $(cat "$T/reply$n")"
        done
    done
}

# USR1 is the signal for the end of an interval, USR2 for the end of the run.
#@ slow plain
t_signals_close_together_lose_no_line() {
    mount_pmcfs
    copy_tools
    local rc pid n
    for n in {1..40}; do
        rc=0
        env --default-signal=INT dash "$T/bin/pmcstat" -j -s page-faults -w 0.02 -o "$T/out" 2>"$T/err" &
        pid=$!
        eventually 20 '[[ -s $T/out ]]'
        sleep "0.0$n"
        kill -USR1 $pid
        kill -INT $pid
        kill -USR2 $pid
        wait $pid || rc=$?
        is "$rc $(cat "$T/err")" '0 ' "run $n"
        rm "$T/out"
    done
    for n in {1..10}; do
        rc=0
        env --default-signal=INT dash "$T/bin/cpustat" -c page-faults,sys 0.05 >"$T/out" 2>"$T/err" &
        pid=$!
        eventually 20 'grep -qs tick "$T/out"'
        kill -USR1 $pid
        kill -INT $pid
        kill -USR2 $pid
        wait $pid || rc=$?
        is "$rc $(grep -c total "$T/out") $(cat "$T/err")" '0 1 ' "cpustat, run $n"
        rm "$T/out"
    done
}

t_a_command_that_cannot_be_executed_is_an_error() {
    mount_pmcfs
    copy_tools
    printf '#!/nonexistent\n' >"$T/program"
    chmod +x "$T/program"
    local how rc
    for how in '127 pmcstat -p page-faults' '127 pmcstat -P page-faults -o /dev/null' '1 cputrack -n -c page-faults' \
        '127 pmcstat -d -p page-faults' '127 pmcstat -d -P page-faults -o /dev/null' '1 cputrack -fn -c page-faults'; do
        rc=0
        # shellcheck disable=SC2086 # word splitting is intended
        tool ${how#* } "$T/program" >"$T/out" 2>"$T/err" || rc=$?
        is "$rc $(cat "$T/out")" "${how%% *} " "$how"
        like "$(cat "$T/err")" 'program: not found$'
        is "$(pmcs)" ''
    done
}

t_the_shortest_commands_are_counted() {
    mount_pmcfs
    copy_tools
    local how
    for how in 'pmcstat -p page-faults' 'pmcstat -d -p page-faults' 'cputrack -n -c page-faults' 'cputrack -fn -c page-faults' \
        'perfmon -l 3 -c exit page-faults'; do
        # shellcheck disable=SC2086 # word splitting is intended
        case $how in perfmon*) tool $how ;; *) tool $how /bin/true ;; esac >"$T/out" 2>"$T/err" ||
            die "$how: $(cat "$T/err")"
        is "$(pmcs)" ''
    done
}

#@ slow
t_tools_exit_when_the_tree_is_unmounted() {
    local words pid rc
    for words in '1 cpustat -c cycles 0.2' '1 cpustat -c cycles -c loads 0.2' '1 cputrack -T 0.2 -c cycles sleep 30' \
        '71 pmcstat -w 0.2 -s cycles'; do
        mount_sim
        copy_tools
        # shellcheck disable=SC2086 # word splitting is intended
        "$T/bin/"${words#* } >/dev/null 2>"$T/err" &
        pid=$!
        eventually 5 '[[ $(cat "$M"/*-*-*/ctl 2>/dev/null) == *running* ]]'
        sleep 0.5
        unmount_pmcfs
        rc=0
        end_within 5 $pid || rc=$?
        is "$rc" "${words%% *}" "$words"
        like "$(tail -1 "$T/err")" ': the pmcfs on .* was unmounted$' "$words"
    done
}

t_tools_report_that_their_pmc_was_removed() {
    local pid rc=0
    mount_sim
    copy_tools
    "$T/bin/cpustat" -c cycles 0.2 >/dev/null 2>"$T/err" &
    pid=$!
    eventually 5 '[[ $(cat "$M"/*-*-*/ctl 2>/dev/null) == *running* ]]'
    rmdir "$M/$(pmcs)"
    end_within 5 $pid || rc=$?
    is "$rc $(tail -1 "$T/err")" '1 cpustat: a PMC of this run was removed by another process'
}

#@ slow
t_a_result_that_cannot_be_written_is_an_error() {
    local words rc
    mount_pmcfs
    copy_tools
    for words in '71 pmccontrol -h' '71 pmccontrol -l' '71 pmccontrol -s' '71 pmcstat -h' '71 pmcstat -u page-faults' \
        '71 pmcstat -P page-faults -n 1 -O /dev/full ls /' '71 pmcstat -P page-faults -n 1 -G /dev/full ls /' \
        '71 pmcstat -P page-faults -n 1 -m /dev/full ls /' '1 perfmon -h' '1 cpustat -h' '1 cputrack -h'; do
        rc=0
        # shellcheck disable=SC2086 # word splitting is intended
        tool ${words#* } >/dev/full 2>"$T/err" || rc=$?
        is "$rc" "${words%% *}" "$words"
        grep -q ' cannot write ' "$T/err" || die "$words: $(cat "$T/err")"
    done
    rc=0
    tool pmccontrol -l >&- 2>"$T/err" || rc=$?
    is "$rc $(cat "$T/err")" '71 pmccontrol: cannot write the output: the disk is full, or the reader of the pipe has exited' 'standard output closed'
    is "$(pmcs)" ''
}

t_a_relative_tree_is_found() {
    mount_pmcfs
    copy_tools
    mkdir -p "$T/else/${M##*/}/events"
    cd "${M%/*}" || die 'no directory'
    like "$(CDPATH=$T/else PMC=${M##*/} tool pmcstat -L)" page-faults
}

#@ slow
t_tools_exit_when_their_output_is_closed() {
    mount_pmcfs
    copy_tools
    cat >"$T/closed.py" <<'P'
import os, signal, subprocess, sys
handler = signal.SIG_DFL if sys.argv[1] == "default" else signal.SIG_IGN
r, w = os.pipe()
os.close(r)
child = subprocess.Popen(sys.argv[2:], stdout=w, stderr=subprocess.PIPE, restore_signals=False,
                         preexec_fn=lambda: signal.signal(signal.SIGPIPE, handler))
os.close(w)
reply = child.communicate(timeout=60)[1].decode().strip().split(": ", 1)
print(child.returncode, reply[-1])
P
    local words
    for words in 'cpustat -c page-faults 0.2' 'cputrack -T 0.2 -c page-faults sleep 30' \
        'pmcstat -w 0.2 -s page-faults -o /dev/stdout' 'perfmon -l 1000 -c true page-faults'; do
        # shellcheck disable=SC2086 # word splitting is intended
        is "$(python3 "$T/closed.py" default "$T/bin/"$words)" '141 ' "$words"
        # shellcheck disable=SC2086 # word splitting is intended
        like "$(python3 "$T/closed.py" ignored "$T/bin/"$words)" '^(1|71) cannot write the output: the disk is full, or the reader of the pipe has exited$' "$words"
        eventually 3 '[[ -z $(pmcs) ]]'
        eventually 3 '! pgrep -f "$T/bin/"'
    done
    ! pgrep -fx 'sleep 30' || die 'a command is left'
}

#@ slow
t_pm16_perfmon_counts_in_a_loop() {
    mount_pmcfs
    copy_tools
    tool perfmon -l 3 -c 'ls / >/dev/null' page-faults >"$T/out"
    is "$(awk '/^[0-9]+: [0-9]+$/ { n++; sum += $2; next } /^total:/ { t = $2 - sum } /^mean:/ { m = $2 * 3 - sum }
        END { print n, (t == 0), (m < 1 && m > -1) }' "$T/out")" '3 1 1'
    like "$(tail -1 "$T/out")" '^clocks \(at [0-9]+-MHz\): [0-9]+$'
    tool perfmon -l 1 -s 1 -u -o cpu-clock >"$T/out"
    between "$(sed -n 's/^1: //p' "$T/out")" 900000000 100000000000
    is "$(pmcs)" ''
}

t_pm04_perfmon_takes_numbers_in_any_base() {
    mount_sim
    copy_tools
    for event in 192 0xc0 0300; do
        env --default-signal=INT "$T/bin/perfmon" -e -i -m 0x2 -u -l 1 -s 30 $event >/dev/null &
        eventually 5 '[[ $(cat "$M"/perfmon-*/event 2>/dev/null) == rc0,cmask=2,edge,inv ]]'
        is "$(sed -n '/^user\|^kernel/p' "$M"/perfmon-*/config | tr '\n' ' ')" 'user=on kernel=off '
        kill -INT $!
        wait $!
    done
    refuses 1 'between 0 and 255' perfmon -m 256 1
    refuses 1 'between 0 and 255' perfmon -U 256 1
    refuses 1 'give a number' perfmon 09
    refuses 1 'give one event' perfmon
}
