# shellcheck shell=bash disable=SC2016
# pmcstat's sampling and its logs on a real mount: recording, storing, reading and printing.
# Test names contain ids of reference-ids, section 4.1. Counting is tested in tools.sh.

# shellcheck source=tests/mount/tools.sh
. "${TEST_FILE%/*}/tools.sh"

# hot OPTIONS…: runs pmcstat on a program that works in hot_inner.
hot() { echo go | tool pmcstat "$@" "$HELPERS/hot" own "${HOT_MS:-300}" >"$T/hot.out" 2>"$T/hot.err"; }

# stored_log [OPTIONS…]: mounts, and stores a log of hot.c in $T/stored.
stored_log() {
    mount_pmcfs
    copy_tools
    hot "$@" -P cpu-clock -O "$T/stored"
}

# lines FILE TYPE: the number of records of a type (a regex).
lines() { awk -v type="^($2)$" '$2 ~ type { n++ } END { print n + 0 }' "$1"; }

#@ slow
t_p02_p03_p17_pmcstat_prints_the_log_of_a_command_that_it_samples() {
    mount_pmcfs
    copy_tools
    hot -P cpu-clock -o "$T/stored"
    is "$(cat "$T/hot.out")" $'ready\ndone'
    is "$(awk '$2 != "close" { print $2 }' "$T/stored" | sed -n '1p;2p;$p' | paste -sd ' ')" 'initialize allocate stop'
    like "$(grep ' exec ' "$T/stored")" " path=$HELPERS/hot\$"
    between "$(lines "$T/stored" callchain)" 100 1000
    is "$(grep -cv '^[0-9]*\.[0-9]\{9\} [a-z-]*\( \|$\)' "$T/stored" || :)" 0
    hot -P cpu-clock
    between "$(lines "$T/hot.err" callchain)" 100 1000
    is "$(pmcs)" ''
}

t_p01_p05_pmcstat_samples_the_given_cpus() {
    mount_pmcfs
    copy_tools
    env --default-signal=INT "$T/bin/pmcstat" -c 0 -N -n 10 -S page-faults -O "$T/stored" &
    eventually 20 '[[ $(pmcs) && -s $T/stored ]] && grep -q " start" "$T/stored"'
    taskset -c 0 ls -R /usr/bin >/dev/null
    kill -INT $!
    wait $!
    is "$(sed -n 's/.* attach target=//p' "$T/stored")" 'cpu0 cpu=0'
    between "$(lines "$T/stored" sample)" 3 1000000
    empty awk '$2 == "sample" && !/ cpu=0 /' "$T/stored"
    like "$(sed -n 's/^[0-9.]* exec //p' "$T/stored")" 'path=[^ ]*/ls'
}

#@ slow
t_p04_pmcstat_samples_running_processes_until_they_end() {
    mount_pmcfs
    copy_tools
    target_start p
    local pid rc=0
    tool pmcstat -P cpu-clock -t "${PID_OF[p]}" -O "$T/stored" &
    pid=$!
    eventually 10 'grep -qs " start" "$T/stored"'
    tell p spin 300
    target_end p
    end_within 10 "$pid" || rc=$?
    is "$rc" 0
    between "$(lines "$T/stored" callchain)" 100 1000
    is "$(lines "$T/stored" exit)" 1
}

t_p06_pmcstat_samples_every_n_events() {
    mount_pmcfs
    copy_tools
    for rate in 10 50; do
        rm -f "$T/stored"
        target_start "p$rate"
        taskset -pc 0 "${PID_OF[p$rate]}" # each CPU has a separate period
        tool pmcstat -n $rate -P page-faults -t "${PID_OF[p$rate]}" -O "$T/stored" &
        eventually 10 'grep -qs " start" "$T/stored"'
        tell "p$rate" faults 1000
        target_end "p$rate"
        wait $!
        between "$(grep -c "callchain .* period=$rate " "$T/stored")" $((1000 / rate)) $((1300 / rate))
        is "$(grep callchain "$T/stored" | grep -vc " period=$rate " || :)" 0
    done
}

#@ slow
t_p07_pmcstat_samples_descendants() {
    mount_pmcfs
    copy_tools
    echo go | tool pmcstat -P cpu-clock -d -P cpu-clock -O "$T/stored" "$HELPERS/hot" child 300 >/dev/null
    between "$(grep -c 'callchain pmc=2 ' "$T/stored")" 100 1000
    between "$(grep -c 'callchain pmc=1 ' "$T/stored")" 0 50
    is "$(grep -c ' fork pmc=2 ' "$T/stored")" 1
}

#@ slow
t_p08_pmcstat_switches_call_chains_off_and_on() {
    mount_pmcfs
    copy_tools
    hot -N -P cpu-clock -N -P cpu-clock -O "$T/stored"
    is "$(awk '$2 == "sample" || $2 == "callchain" { print $2, $3 }' "$T/stored" | sort -u | paste -sd ,)" \
        'callchain pmc=2,sample pmc=1'
}

t_p09_call_chains_of_the_kernel_continue_in_the_program() {
    mount_pmcfs
    copy_tools
    for option in '' -U; do
        # shellcheck disable=SC2086 # word splitting is intended
        tool pmcstat $option -P cpu-clock -O "$T/stored" dd if=/dev/zero of=/dev/null bs=1M count=3000 2>/dev/null
        between "$(grep -c ' ips=k:.*,0x' "$T/stored")" 10 100000
    done
}

t_p11_p12_pmcstat_logs_steps_and_exits_that_add_up() {
    mount_pmcfs
    copy_tools
    tool pmcstat -C -W -E -d -p page-faults -O "$T/stored" -o "$T/out" sh -c 'ls / >/dev/null; ls / >/dev/null; :'
    total=$(tail -1 "$T/out" | tr -d ' ')
    for type in csw exit; do
        is "$(awk -v type=$type '$2 == type { sub(/.*count=/, ""); sum += $1 } END { print sum }' "$T/stored")" "$total" $type
    done
    is "$(lines "$T/stored" exit)" 3
    tool pmcstat -E -p page-faults -o "$T/out" true
    is "$(grep -c '^[0-9.]* exit pid=[0-9]* count=[0-9]* exact=' "$T/out")" 1
    is "$(lines "$T/out" csw)" 0
}

#@ slow
t_p15_pmcstat_stores_several_logs_in_the_order_of_time() {
    mount_pmcfs
    copy_tools
    hot -P cpu-clock -n 5 -P page-faults -s context-switches -O "$T/stored" -o "$T/out"
    sort -s -c -k 1,1n "$T/stored"
    is "$(awk '$2 == "initialize" { print $3, $6, $7 }' "$T/stored" | paste -sd ,)" \
        'pmc=1 class=software event=cpu-clock,pmc=2 class=software event=page-faults'
    is "$(grep -vc ' pmc=[12]\( \|$\)' "$T/stored" || :)" 0
    is "$(tool pmcstat -R "$T/stored" -G - | sed -n 's/^\(@ .*\) \[.*/\1/p' | sort | paste -sd ,)" \
        '@ cpu-clock pmc=1,@ page-faults pmc=2'
    like "$(head -1 "$T/out")" '^# +s/00/context-switches'
}

#@ slow
t_p15_pmcstat_stores_what_perf_reads() {
    mount_pmcfs
    copy_tools
    hot -P cpu-clock -O "$T/stored.perf"
    like "$(HOME=$T perf report -i "$T/stored.perf" --stdio --no-children -g none 2>/dev/null | grep -m 1 '%')" 'hot_inner'
    refuses 64 'only one -P or -S' pmcstat -P cpu-clock -P page-faults -O "$T/x.perf" true
    refuses 71 'this is a perf.data file' pmcstat -R "$T/stored.perf"
}

t_p15_pmcstat_writes_a_log_to_standard_output() {
    mount_pmcfs
    copy_tools
    tool pmcstat -n 1 -P page-faults -O - true >"$T/stored"
    is "$(head -1 "$T/stored" | cut -d ' ' -f 2)" initialize
    like "$(tail -1 "$T/stored" | cut -d ' ' -f 2)" '^(stop|close)$'
    refuses 64 'does not send to hosts: use -O - . nc elsewhere 1234' pmcstat -P cpu-clock -O elsewhere:1234 true
    refuses 71 'cannot write to this file' pmcstat -P cpu-clock -O "$T/no/log" true
}

#@ slow
t_p16_b13_pmcstat_reads_a_log_without_the_tree() {
    stored_log
    PMC=$T/none tool pmcstat -R "$T/stored" >"$T/again"
    cmp "$T/stored" "$T/again"
    PMC=$T/none tool pmcstat -R "$T/stored" -o "$T/again"
    cmp "$T/stored" "$T/again"
    echo 'something else' >"$T/other"
    refuses 71 'not a log' pmcstat -R "$T/other"
    refuses 71 'cannot read this file' pmcstat -R "$T/none"
}

# awk takes such a name for an assignment, and reads its standard input.
t_p15_p16_a_log_may_have_any_name() {
    mount_pmcfs
    copy_tools
    cd "$T" || die 'no directory'
    mkfifo input
    exec {input}<>input # reading it does not end
    timeout 60 "$T/bin/pmcstat" -P page-faults -n 1 -O a=b ls / <&"$input" >/dev/null
    timeout 60 "$T/bin/pmcstat" -R a=b <&"$input" | cmp - a=b
    between "$(timeout 60 "$T/bin/pmcstat" -R a=b -G - <&"$input" | wc -l)" 3 10000
}

# The debug link of the program points to a pipe, on which a reader would wait.
t_p16_p19_a_hostile_log_and_program_are_printed_as_text() {
    local source=$T/$'evil\e[31m.c' program="$T/a;b" at
    copy_tools
    echo 'int main(void) { return 0; }' >"$source"
    gcc -g -o "$program" "$source"
    at=$(nm "$program" | sed -n 's/^0*\([0-9a-f]*\) T main$/0x\1/p')
    printf '%s\n' '1.0 initialize version=1' "1.1 process pid=5 name=na"$'\e[32mme' \
        "1.2 map-in pid=5 start=0x0 end=0xffffff offset=0x0 path=$program" \
        "1.3 sample pid=5 tid=5 event=ev"$'\e[33ment'" ip=$at" >"$T/log"
    tool pmcstat -R "$T/log" -m "$T/pcs" -a "$T/chains"
    is "$(head -n 1 "$T/chains")" "$at main $T/evil\\033[31m.c:1"
    is "$(tool pmcstat -R "$T/log" | grep -c $'\e' || :)" 0
    is "$(tool pmcstat -R "$T/log" -G - | paste -sd ,)" \
        "@ ev\\033[33ment [1 samples],,100.0%  [1]        main @ ${program/;/\\073},"
    objcopy --only-keep-debug "$program" "$T/pipe"
    strip -g "$program"
    objcopy --add-gnu-debuglink="$T/pipe" "$program"
    rm "$T/pipe"
    mkfifo "$T/pipe"
    timeout 60 "$T/bin/pmcstat" -R "$T/log" -m "$T/pcs" -a "$T/chains"
    like "$(head -n 1 "$T/chains")" "^$at main "
}

# graph_is FILE: its first tree is hot_inner, called by hot_outer, called by main.
graph_is() {
    like "$(sed -n 1p "$1")" '^@ cpu-clock \[[0-9]+ samples\]$'
    empty sed -n 2p "$1"
    like "$(sed -n 3p "$1")" '^[0-9]{2,3}\.[0-9]{1,2}%  \[[0-9]+\] +hot_inner( @ .*/hot)?$'
    like "$(sed -n 4p "$1")" '^ [0-9]{2,3}\.[0-9]{1,2}%  \[[0-9]+\] +hot_outer$'
    like "$(sed -n 5p "$1")" '^  100\.0%  \[[0-9]+\] +main$'
}

#@ slow
t_p19_pmcstat_prints_the_callers_of_functions() {
    mount_pmcfs
    copy_tools
    hot -P cpu-clock -f threshold=0 -G - -o "$T/graph"
    like "$(cat "$T/hot.err")" '^pmcstat: cpu-clock: [0-9]+ samples, 0 lost, 0 hidden$'
    graph_is "$T/graph"
    # Each tree is a function, and all samples are in one of them.
    is "$(awk 'NR == 1 { n = substr($3, 2) } NR > 1 && /^[0-9]/ { sub(/\].*/, ""); sub(/.*\[/, ""); n -= $0 } END { print n }' "$T/graph")" 0
    hot -P cpu-clock -O "$T/stored" -G "$T/graph"
    graph_is "$T/graph"
    tool pmcstat -R "$T/stored" -G - 2>"$T/printed" | cmp - "$T/graph"
    like "$(cat "$T/printed")" '^pmcstat: [0-9]+ samples, 0 lost, 0 hidden$'
    empty tool pmcstat -R "$T/stored" -q -G /dev/null
    is "$(tool pmcstat -R "$T/stored" -z 2 -G - | grep -c '^  ' || :)" 0
    between "$(tool pmcstat -R "$T/stored" -z 2 -G - | grep -c '^ ')" 1 1000
}

#@ slow
t_p19_pmcstat_prints_call_chains_in_lines_of_source() {
    stored_log
    tool pmcstat -R "$T/stored" -m "$T/pcs" -a "$T/chains"
    is "$(grep -c '^--$' "$T/chains")" "$(lines "$T/stored" callchain)"
    like "$(grep -m 1 -A 2 ' hot_inner ' "$T/chains" | paste -sd ,)" \
        '^0x[0-9a-f]+ hot_inner .*hot\.c:[0-9]+.*,0x[0-9a-f]+ hot_outer .*hot\.c:[0-9]+.*,0x[0-9a-f]+ main .*hot\.c:[0-9]+'
}

#@ slow
t_p20_pmcstat_prints_a_call_tree_for_kcachegrind() {
    stored_log
    tool pmcstat -R "$T/stored" -F "$T/tree"
    is "$(sed -n '1p;/^events/p' "$T/tree" | paste -sd ,)" '# callgrind format,events: cpu_clock'
    # The functions' own samples are all samples; calls of hot_inner by hot_outer have nearly all.
    is "$(awk '/^calls/ { getline; next } /^0 / { n += $2 } END { print n }' "$T/tree")" "$(lines "$T/stored" callchain)"
    between "$(awk '/^fn=/ { f = $0 } /^cfn=/ { c = $0 } /^calls=/ { getline
        if (f == "fn=hot_outer" && c == "cfn=hot_inner") print $2 }' "$T/tree")" $(($(lines "$T/stored" callchain) * 8 / 10)) 1000
}

#@ slow
t_p21_pmcstat_prints_sampled_addresses_with_their_functions() {
    stored_log -N
    tool pmcstat -R "$T/stored" -m "$T/pcs"
    is "$(cut -d ' ' -f 1 "$T/pcs")" "$(sed -n 's/.* ip=\([^ ]*\) .*/\1/p' "$T/stored")"
    empty awk 'NF != 4' "$T/pcs"
    local symbol
    symbol=$(nm -S "$HELPERS/hot" | sed -n 's/ [tT] hot_inner$//p')
    is "$(awk '$2 == "hot_inner" { print $3, $4 }' "$T/pcs" | sort -u)" \
        "$(printf '0x%x 0x%x' "0x${symbol% *}" $((0x${symbol% *} + 0x${symbol#* })))"
    between "$(grep -c ' hot_inner ' "$T/pcs")" $(($(lines "$T/stored" sample) * 8 / 10)) 1000
    hot -P cpu-clock -m - -o "$T/pcs"
    between "$(grep -c ' hot_inner ' "$T/pcs")" 100 1000
}

#@ slow
t_p23_pmcstat_r_finds_symbols_in_the_given_directory() {
    mount_pmcfs
    copy_tools
    mkdir -p "$T/root$T"
    cp "$HELPERS/hot" "$T/root$T/mine"
    strip -o "$T/mine" "$HELPERS/hot"
    echo go | tool pmcstat -P cpu-clock -O "$T/stored" "$T/mine" own 300 >/dev/null
    like "$(tool pmcstat -R "$T/stored" -G - | sed -n 3p)" '\[mine\+0x[0-9a-f]+\] @ .*/mine$'
    like "$(tool pmcstat -R "$T/stored" -r "$T/root" -G - | sed -n 3p)" 'hot_inner @ .*/mine$'
    like "$(tool pmcstat -R "$T/stored" -r "$T/root" -I -G - | sed -n 3p)" '  0x[0-9a-f]+ @ .*/mine$'
}

#@ slow
t_p23_pmcstat_k_takes_kernel_symbols_from_a_system_map() {
    [[ $(head -n 1 /proc/kallsyms) != 0000000000000000* ]] || skip 'the kernel hides its addresses'
    mount_pmcfs
    copy_tools
    tool pmcstat -P cpu-clock -O "$T/stored" dd if=/dev/zero of=/dev/null bs=1M count=3000 2>/dev/null
    tool pmcstat -R "$T/stored" -G "$T/own"
    like "$(cat "$T/own")" '[a-z]_\[k\] @ \[kernel\]'
    # As a System.map of a kernel that has been loaded elsewhere.
    # shellcheck disable=SC2002 # sort itself reads this file a hundred times as slowly
    cat /proc/kallsyms | sort | awk '/ _s?text$/ { on = 1 } on && !/\[/' |
        sed 's/^ffffffff/fffffffe/' >"$T/System.map"
    tool pmcstat -R "$T/stored" -k "$T/System.map" -G "$T/listed"
    is "$(grep -o '[a-z0-9_]*read[a-z0-9_]*_\[k\]' "$T/listed" | sort -u)" \
        "$(grep -o '[a-z0-9_]*read[a-z0-9_]*_\[k\]' "$T/own" | sort -u)"
    : >"$T/empty"
    unlike "$(tool pmcstat -R "$T/stored" -k "$T/empty" -G -)" '[a-z]_\[k\]'
}

t_p24_pmcstat_i_shows_the_samples_of_one_thread() {
    mount_pmcfs
    copy_tools
    target_start p
    tell p threads 2
    tool pmcstat -n 1 -P page-faults -t "${PID_OF[p]}" -O "$T/stored" &
    eventually 10 'grep -qs " start" "$T/stored"'
    tell p each 100
    tell p end 2
    target_end p
    wait $!
    local tid all
    tid=$(sed -n 's/.*callchain.* tid=\([0-9]*\) .*/\1/p' "$T/stored" | sort -u | tail -1)
    all=$(grep -c " callchain .* tid=$tid " "$T/stored")
    between "$all" 100 1000
    is "$(tool pmcstat -R "$T/stored" -i "$tid" | lines /dev/stdin callchain)" "$all"
    is "$(tool pmcstat -R "$T/stored" -i "$tid" -G - | head -1)" "@ page-faults [$all samples]"
    ((all < $(lines "$T/stored" callchain))) || die 'there was one thread only'
}

#@ slow
t_p25_p26_pmcstat_shows_the_top_again_and_again() {
    mount_pmcfs
    copy_tools
    HOT_MS=2000 hot -T -w 0.5 -P cpu-clock
    between "$(grep -c '^%SAMP COMMAND    FUNCTION             CALLERS$' "$T/hot.out")" 2 1000
    like "$(grep -A 1 '^%SAMP' "$T/hot.out" | tail -1)" '^ *[0-9.]+ hot +hot_inner +hot_outer:[0-9.]+$'
    # The number of samples never decreases from one screen to the next.
    like "$(cat "$T/hot.out")" $'\ncpu-clock, [0-9]+ samples, 0 lost, 0 hidden\n'
    empty awk '/ samples, / { if ($2 < last) print; last = $2 }' "$T/hot.out"
    hot -P cpu-clock -O "$T/stored"
    tool pmcstat -R "$T/stored" -T -f threshold=0 >"$T/all"
    like "$(sed -n 3p "$T/all")" '^ *[0-9.]+ hot +hot_inner +hot_outer:'
    is "$(tool pmcstat -R "$T/stored" -T -f threshold=50 | wc -l)" 3
}

#@ slow
t_p28_pmcstat_counts_unresolved_samples() {
    stored_log
    tool pmcstat -R "$T/stored" -v -G /dev/null 2>"$T/printed"
    is "$(sed 's/ .*//; /^pmcstat:/d' "$T/printed" | paste -sd ' ')" \
        '#exec/elf #exec/unknown #samples/total #samples/unclaimed #samples/unknown-object #samples/unknown-function #callchain/dubious-frames #records/dropped'
    is "$(sed -n 's/^#samples.total //p' "$T/printed")" "$(lines "$T/stored" callchain)"
    is "$(sed -n 's/^#exec.elf //p' "$T/printed")" 1
    sed '/ map-in pid=[0-9]/d' "$T/stored" >"$T/unmapped"
    tool pmcstat -R "$T/unmapped" -v -G /dev/null 2>"$T/printed"
    between "$(sed -n 's/^#samples.unclaimed //p' "$T/printed")" 100 1000
    tool pmcstat -v -P cpu-clock -O "$T/stored" true 2>"$T/printed"
    is "$(cat "$T/printed")" 'pmcstat: P/cpu-clock is cpu-clock sampling: freq 997, depth 127'
}

#@ slow
t_p28_pmcstat_counts_samples_without_a_function() {
    mount_pmcfs
    copy_tools
    strip -o "$T/stripped" "$HELPERS/hot"
    echo go | tool pmcstat -P cpu-clock -O "$T/stored" "$T/stripped" own 300 >"$T/hot.out"
    tool pmcstat -R "$T/stored" -v -G /dev/null 2>"$T/printed"
    /usr/bin/python3 - "$T/stored" >"$T/places" <<'P'
import sys
maps, inside, total = [], 0, 0
for line in open(sys.argv[1]):
    words = line.split()
    field = dict(w.split("=", 1) for w in words[2:] if "=" in w)
    if words[1] == "map-in" and field["path"].endswith("/stripped"):
        maps.append([int(field[k], 16) for k in ("start", "end")])
    if words[1] in ("sample", "callchain"):
        total += 1
        inside += any(start <= int(field["ip"], 16) < end for start, end in maps)
print(inside, total)
P
    local inside all
    read -r inside all <"$T/places"
    ((inside * 2 > all)) || die "only $inside of $all samples are in the program"
    between "$(sed -n 's/^#samples.unknown-function //p' "$T/printed")" "$inside" "$all"
    # A program that is not stripped has functions.
    echo go | tool pmcstat -P cpu-clock -O "$T/named" "$HELPERS/hot" own 300 >"$T/hot.out"
    tool pmcstat -R "$T/named" -v -G /dev/null 2>"$T/printed"
    between "$(sed -n 's/^#samples.unknown-function //p' "$T/printed")" 0 $((inside / 2))
}

#@ slow
t_p28_pmcstat_warns_of_losses() {
    mount_pmcfs -o logbuffersize=4,nbuffers=4
    copy_tools
    hot -P cpu-clock -G /dev/null
    like "$(cat "$T/hot.err")" '^pmcstat: cpu-clock: [0-9]+ samples, [1-9][0-9]* lost \(use -O, or raise nbuffers\), 0 hidden$'
    hot -q -P cpu-clock -G /dev/null
    empty cat "$T/hot.err"
}

t_p18_p22_pmcstat_names_the_replacement() {
    mount_pmcfs
    copy_tools
    for option in -g '-D x' -e; do
        # shellcheck disable=SC2086 # word splitting is intended
        refuses 64 'gprof, which is not supported: use -G, -F or perf report' pmcstat $option -R x
    done
    refuses 64 '-M is not supported' pmcstat -M x -R x
}

t_p06_p11_p12_p15_p16_pmcstat_usage_rules() {
    mount_pmcfs
    copy_tools
    for option in '-n 5' -N -U '-G f' '-F f' '-m f' -T; do
        # shellcheck disable=SC2086 # word splitting is intended
        refuses 64 "${option%% *} needs samples: give -P or -S" pmcstat $option -p page-faults true
    done
    refuses 64 'counting and sampling in one run need -O FILE' pmcstat -p page-faults -P cpu-clock true
    refuses 64 '-O needs something to log' pmcstat -O f -p page-faults true
    refuses 64 'give either -O or -R' pmcstat -O f -R f
    refuses 64 '-O is given twice' pmcstat -O f -O g -P cpu-clock true
    refuses 64 '-R is given twice' pmcstat -R f -R g
    for option in '-p x' '-s x' '-P x' '-S x' '-t 1' '-c 0' -d -C '-n 5' -N -U -W -E '-l 1' '-w 1'; do
        # shellcheck disable=SC2086 # word splitting is intended
        refuses 64 "${option%% *} cannot be used with -R, which reads a stored log" pmcstat -R f $option
    done
    refuses 64 '-R reads a stored log: give no command' pmcstat -R f true
    refuses 64 '-T cannot be used with' pmcstat -T -l 1 -S cpu-clock
    refuses 64 '-m cannot be used with' pmcstat -m f -G g -R f
    refuses 64 '-a needs -m' pmcstat -a f -R f
    refuses 64 '-k needs -G' pmcstat -k f -R f
    refuses 64 '-z needs -G' pmcstat -z 3 -R f
    refuses 64 '-f needs -T or -G' pmcstat -f threshold=1 -R f
    refuses 64 'give threshold=PERCENT' pmcstat -T -f skiplink=1 -R f
    refuses 64 '-W needs counts of processes' pmcstat -W -P cpu-clock true
    refuses 64 '-E needs events of processes' pmcstat -E -S cpu-clock
    refuses 64 '-n 0: give a number of events, 1 or more' pmcstat -n 0 -P cpu-clock true
    refuses 64 '-z x: give a depth, 1 or more' pmcstat -z x -G f -R f
    refuses 71 'CS01' pmcstat -P nosuch true
}

#@ slow
t_pmcstat_leaves_no_pmc_when_a_signal_stops_its_sampling() {
    mount_pmcfs
    copy_tools
    export TMPDIR=$T/tmp
    mkdir "$TMPDIR"
    killed_by INT 130 pmcstat -P cpu-clock -m "$T/pcs" sleep 30
    killed_by TERM 143 pmcstat -P cpu-clock -P page-faults -O "$T/stored" sleep 30
    killed_by INT 0 pmcstat -T -w 1 -S cpu-clock
    empty ls "$TMPDIR"
    killed_by KILL 137 pmcstat -S cpu-clock -O "$T/stored"
    eventually 5 '! pgrep -f "$M/pmcstat"'
    ! pgrep -fx 'sleep 30' || die 'a command is left'
}
