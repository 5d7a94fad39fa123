# shellcheck shell=bash disable=SC2016,SC2034,SC2086,SC2119,SC2120,SC2154
# pmctop: its batch mode, and its screen in tmux. The tree may be a directory of plain files, for texts that no mount
# has.

top_program() { echo "$HELPERS/pmctop-$VARIANT"; }
top() { PMC=$M "$(top_program)" "$@"; }

# batch OPTION…: checks the header of pmctop -b, and prints the lines without their first column.
batch() {
    top -b "$@" >"$T/batch"
    is "$(head -n 1 "$T/batch")" $'# seconds\tname\tevent\tcount\trate\tstate\tpartial\tmetrics'
    tail -n +2 "$T/batch" | cut -f 2-
}

# names OPTION…: prints the names in the lines of one reading.
names() { batch -n 1 "$@" | cut -f 1 | xargs; }

# batch_start OPTION…: starts pmctop -b with ten readings a second; its lines go to $T/lines, its PID is BATCH.
batch_start() {
    : >"$T/lines"
    PMC=$M "$(top_program)" -b -d 0.1 "$@" >"$T/lines" 2>"$T/reply" &
    BATCH=$!
    lines_have "$(printf '\t')"
}

# lines_have REGEX: waits for a new line that matches.
lines_have() {
    local from
    from=$(wc -l <"$T/lines")
    WANTED=$1
    eventually 10 "tail -n +$((from + 1)) '$T/lines' | grep -qP \"\$WANTED\""
}

# ends_with STATUS REGEX PID: it exits with this status and a matching message.
ends_with() {
    local rc=0
    end_within 10 "$3" || rc=$?
    is "$rc" "$1" "exit status"
    like "$(cat "$T/reply")" "$2"
    is "$(wc -l <"$T/reply")" 1 "sentences"
}

# fake FILE TEXT: a tree of plain files.
fake() {
    M=$T/fake
    mkdir -p "$M/$(dirname "$1")"
    printf '%b' "$2" >"$M/$1"
}

# ---- the screen ----

SCREENS=0
tmux() { /usr/bin/tmux -S "$T/t$SCREENS" -f /dev/null "$@"; }
screen() { tmux capture-pane -p "$@"; }

# screen_start COLUMNS LINES [OPTION…]: on a terminal of this size.
screen_start() {
    SCREENS=$((SCREENS + 1))
    tmux new-session -d -x "$1" -y "$2" \
        "PMC='$M' $(top_program) ${*:3}; echo ended \$?; exec sleep 1000"
    shows 'NAME '
}

# shows REGEX: the screen matches. shows_not REGEX: it no longer matches.
shows() {
    local until=$((SECONDS + 60))
    until [[ $(screen) =~ $1 ]]; do
        ((SECONDS < until)) || die "'$1' is not on the screen:"$'\n'"$(screen)"
        sleep 0.05
    done
}

shows_not() {
    local until=$((SECONDS + 60))
    while [[ $(screen) =~ $1 ]]; do
        ((SECONDS < until)) || die "'$1' is on the screen:"$'\n'"$(screen)"
        sleep 0.05
    done
}

# press KEY…: one after the other.
press() { tmux send-keys "$@"; }

# column N: prints a column of the screen without its title.
column() { screen | sed '1,2d; $d; /^$/,$d' | awk -v n="$1" '{ print $n }' | xargs; }

# column_is N WORDS: waits until the column has these words.
column_is() {
    local until=$((SECONDS + 60))
    until [[ $(column "$1") == "$2" ]]; do
        ((SECONDS < until)) || die "column $1 is not '$2':"$'\n'"$(screen)"
        sleep 0.05
    done
}

# screen_quit: presses q; pmctop must exit with status 0.
screen_quit() {
    press q
    shows 'ended 0'
}

# ---- lines for scripts ----

t_a_line_for_each_event_with_its_count_and_state() {
    mount_sim
    pmc a event=cycles event=instructions count=5,7
    pmc b event=page-faults count=18446744073709551615
    pmc none
    is "$(batch -n 1)" $'a\tcycles\t5\t-\tallocated\tno\tipc=-,cpi=-
a\tinstructions\t7\t-\tallocated\tno\tipc=-,cpi=-
b\tpage-faults\t18446744073709551615\t-\tallocated\tno\t-'
    is "$(batch -n 1 | cut -f 1-3)" "$(cut -f 1-3 "$M/counts")"
}

t_a_rate_is_the_growth_of_a_count_in_a_second() {
    mount_sim
    pmc a event=cycles event=instructions target=cpu0
    pmc b event=cycles count=1000 target=cpu1
    batch -n 4 -d 0.1 >"$T/lines"
    awk -F '\t' '!/^#/ {
        key = $2 "/" $3
        if (!(key in last)) { if ($5 != "-") exit failed = 1 }
        else {
            should = ($4 - last[key]) / ($1 - at[key])
            if ($5 < should * 0.9999 || $5 > should * 1.0001 || $5 <= 0) { print "not " should ": " $0; exit failed = 1 }
            n++
        }
        last[key] = $4; at[key] = $1
    }
    END { exit failed || n != 9 }' "$T/batch" || die "$(cat "$T/batch")"
}

t_metrics_and_partial_are_those_of_the_pmc() {
    mount_sim
    pmc a event=instructions event=cycles target=cpu0
    pmc b event=instructions event=cycles event=page-faults multiplex=on target=cpu1
    eventually 5 'grep -q "ipc.* partial" "$M/b/metrics" && grep -q "ipc 2" "$M/a/metrics"'
    is "$(batch -n 1 | cut -f 1,6,7 | uniq)" $'a\tno\tipc=2.000000,cpi=0.500000\nb\tyes\tipc=2.000000,cpi=0.500000'
}

t_targets_have_the_names_of_processes() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    pmc b event=task-clock target=cpu0
    pmc c event=page-faults
    top -b -t -n 1 -s name >"$T/out"
    is "$(cut -f 2,8 "$T/out")" $'name\ttargets\na\t'"${PID_OF[p]}:target"$'\nb\tcpu0\nc\t-'
    screen_start 80 24
    shows_not 'TARGETS'
    press t
    shows $' TARGETS *\n'
    shows $'\na'" +page-faults .*running +${PID_OF[p]} target"
    press t
    shows ' METRICS'
    screen_quit
}

t_lines_are_sorted_and_filtered() {
    mount_sim
    pmc a10 event=cycles count=5
    pmc a2 event=instructions count=11
    pmc b event=page-faults count=1
    pmc c event=cycles target=cpu0
    is "$(names)" 'a10 a2 b c'
    is "$(names -s name)" 'a2 a10 b c'
    is "$(names -s name -R)" 'c b a10 a2'
    is "$(names -s count -f a)" 'a2 a10 b'
    is "$(names -s count -f a -R)" 'b a10 a2'
    is "$(names -f CYCLES)" 'a10 c'
    is "$(names -f running)" c
    is "$(names -f nowhere)" ''
    is "$(batch -n 2 -d 0.1 | cut -f 1 | xargs)" 'a10 a2 b c c a10 a2 b'
    is "$(batch -n 2 -d 0.1 -i | cut -f 1 | xargs)" 'a10 a2 b c c' 'nothing is idle as long as no rate is known'
}

t_pmcs_come_and_go_between_readings() {
    mount_pmcfs
    pmc a event=page-faults
    pmc b event=page-faults count=7
    batch_start
    lines_have '\tb\tpage-faults\t7\t0\.000'
    rmdir "$M/a"
    pmc new event=page-faults count=3
    lines_have '\tnew\tpage-faults\t3\t0\.000'
    rmdir "$M/b" "$M/new"
    kill "$BATCH"
    is "$(cut -f 2,5 "$T/lines" | tail -n +2 | sort -u)" $'a\t-\na\t0.000\nb\t-\nb\t0.000\nnew\t-\nnew\t0.000'
    is "$(awk '$2 == "new" { print $5; exit }' "$T/lines")" -
    is "$(cat "$T/reply")" ''
}

t_a_count_that_went_back_has_no_rate() {
    mount_pmcfs
    pmc a event=page-faults count=100
    batch_start
    lines_have '\t100\t0\.000'
    accepted "$M/a/count" 50
    lines_have '\t50\t0\.000'
    kill "$BATCH"
    is "$(awk '$4 == 50 { print $5; exit }' "$T/lines")" -
}

t_a_user_sees_only_pmcs_that_the_tree_shows() {
    mount_pmcfs
    pmc roots event=page-faults
    as $ALICE mkdir "$M/hers"
    is "$(result_as $ALICE write "$M/hers/config" event=page-faults)" ok
    instance web $BOB
    as $BOB mkdir "$M/instances/web/x"
    is "$(result_as $BOB write "$M/instances/web/x/config" 'event=page-faults count=9')" ok
    is "$(names)" 'roots hers instances/web/x'
    is "$(batch -n 1 -f web)" $'instances/web/x\tpage-faults\t9\t-\tallocated\tno\t-' 'its metrics are found there'
    is "$(as $ALICE env PMC="$M" "$(top_program)" -b -n 1 | cut -f 2 | xargs)" 'name hers'
    is "$(as $BOB env PMC="$M/instances/web" "$(top_program)" -b -n 1 | cut -f 2 | xargs)" 'name x'
}

#@ slow
t_a_reading_of_all_counts_is_four_requests() {
    mount_pmcfs
    pmc a event=page-faults
    local requests=() n polls twenty # requests of twenty reads of the number; one may end later than its reader
    twenty=$(stat_value requests)
    for n in {1..19}; do stat_value requests; done >/dev/null
    twenty=$(($(stat_value requests) - twenty))
    for n in 1 21; do
        requests+=("$(stat_value requests)")
        polls=0
        top -b -n $n -d 0.1 -f nothing >"$T/batch"
        eventually 5 'polls=$((polls + 1)); (($(stat_value open_files) == 1))' # the file that is read for this
        requests+=($(($(stat_value requests) - polls * twenty / 20)))
    done
    # up to some requests of the test itself
    between $((requests[3] - requests[2] - (requests[1] - requests[0]))) 72 88
}

#@ slow
t_metrics_are_read_only_for_pmcs_on_the_screen() {
    mount_pmcfs
    local before
    for i in {1..40}; do
        pmc "n$i" event=page-faults
    done
    before=$(stat_value requests)
    screen_start 80 13 -d 86400
    column_is 1 "$(echo n{1..10})"
    # of ten of them, where each takes at least three
    between $(($(stat_value requests) - before)) 30 100
    screen_quit
}

# ---- where the tree is ----

unmount_all() {
    local at
    while at=$(awk '/ - fuse.pmcfs / { print $5; exit }' /proc/self/mountinfo) && [[ $at ]]; do
        umount -l "$(printf %b "$at")"
    done
}

t_without_a_mount_a_sentence_names_the_command() {
    local rc=0
    unmount_all
    env -u PMC "$(top_program)" -b -n 1 >"$T/out" 2>"$T/reply" || rc=$?
    is "$rc" 1
    is "$(cat "$T/out")" ''
    is "$(cat "$T/reply")" 'pmctop: no pmcfs is mounted: mount one as root with "pmcfs /pmc" or "systemctl start pmcfs"'
    rc=0
    PMC=$T "$(top_program)" 2>"$T/reply" || rc=$?
    is "$rc" 1
    like "$(cat "$T/reply")" "^pmctop: no pmcfs that you may read is mounted on $T \(No such file"
}

t_the_first_mount_is_found() {
    unmount_all
    mkdir "$T/a b"
    T="$T/a b" mount_pmcfs
    pmc a event=page-faults
    is "$(env -u PMC "$(top_program)" -b -n 1 | cut -f 2 | xargs)" 'name a'
    is "$(PMC='' "$(top_program)" -b -n 1 | cut -f 2 | xargs)" 'name a'
}

t_a_wrong_call_is_refused() {
    M=$T
    local words
    for words in '-x' '-n 0' '-n -1' '-n 1x' '-d 0' '-d nan' '-d 1s' '-s speed' 'word' "-f $(printf '%64s' '' | tr ' ' x)"; do
        local rc=0
        # shellcheck disable=SC2086 # word splitting is intended
        top -b $words >"$T/out" 2>"$T/reply" || rc=$?
        is "$rc" 2 "$words"
        like "$(cat "$T/reply")" 'usage: pmctop ' "$words"
    done
}

t_each_option_of_pmctop_is_in_its_manual_page() {
    local page=${TEST_FILE%/tests/*}/examples/pmctop/pmctop.1
    like "$(top --help)" '^usage: pmctop '
    for option in $(top --help | sed -n 's/^  -\([a-zA-Z]\)[ ,].*/\1/p'); do
        grep -q "^\.It Fl $option\>" "$page" || die "-$option is not in the page"
    done
    is "$(grep -c '^\.It Fl ' "$page")" "$(top --help | grep -c '^  -')"
}

t_an_output_that_is_not_a_terminal_is_reported() {
    mount_pmcfs
    local rc=0
    top >"$T/out" 2>"$T/reply" </dev/null || rc=$?
    is "$rc" 1
    is "$(cat "$T/reply")" 'pmctop: standard input or output is not a terminal: -b prints lines'
    rc=0
    top -b -n 1 >/dev/full 2>"$T/reply" || rc=$?
    is "$rc" 1
    is "$(cat "$T/reply")" 'pmctop: cannot write the output: No space left on device'
}

# ---- unmounting, and directories that are not mounts ----

t_an_unmount_stops_pmctop_with_one_sentence() {
    mount_pmcfs
    pmc a event=page-faults
    batch_start
    unmount_pmcfs
    ends_with 1 "^pmctop: pmcfs was unmounted from $M$" "$BATCH"
}

t_a_umount_is_not_delayed_and_stops_pmctop() {
    mount_pmcfs
    pmc a event=page-faults
    batch_start
    eventually 5 'umount "$M" 2>"$T/refused"'
    ends_with 1 "^pmctop: pmcfs was unmounted from $M$" "$BATCH"
    end_within 20 "$DAEMON"
    unset "DAEMON_OF[$M]"
    DAEMON=0
}

t_a_daemon_that_is_replaced_is_not_noticed() {
    SUPERVISED=1 mount_pmcfs
    pmc a event=page-faults count=41
    batch_start
    for count in 42 43 44; do
        kill -KILL "$(cut -d ' ' -f 1 "/proc/$DAEMON/task/$DAEMON/children")"
        accepted "$M/a/count" $count
        lines_have "\ta\tpage-faults\t$count\t"
    done
    kill "$BATCH"
    is "$(cat "$T/reply")" ''
    is "$(stat_value restarts)" 3
}

# ---- the screen ----

#@ slow
t_the_screen_has_counts_rates_states_and_metrics() {
    mount_sim
    pmc a event=instructions event=cycles target=cpu0
    pmc c event=cycles count=1234567
    screen_start 80 24
    shows $'^3 of 3 events, 2 PMCs, by rate, every 1 s, in '
    shows $'\nNAME +EVENT +COUNT +RATE/S +STATE +METRICS\n'
    shows $'\na +instructions +[0-9]+ [0-9.]+G running +ipc 2\.000 cpi 0\.500\n'
    shows $'\na +cycles +[0-9]+ ([0-9.]+G|999\.[0-9]M) running +ipc 2\.000 cpi 0\.500\n'
    shows $'\nc +cycles +1234567 +0 allocated\n'
    shows $'\nh help [^\n]* q quit$'
    is "$(screen | awk 'length > 80' | wc -l)" 0 'lines that are too long'
    screen_quit
}

#@ slow
t_keys_sort() {
    mount_sim
    pmc b10 event=cycles count=70
    pmc b2 event=instructions count=99
    pmc a event=cycles count=3 target=cpu0
    accepted "$M/a/ctl" stop
    accepted "$M/a/ctl" reset
    pmc run event=cycles target=cpu1 # of 1 G a second
    screen_start 80 24
    column_is 1 'run b10 b2 a'
    press n
    column_is 1 'a b2 b10 run'
    press R
    column_is 1 'run b10 b2 a'
    shows 'by name reversed'
    press c
    column_is 1 'a b10 b2 run'
    press R
    column_is 1 'run b2 b10 a'
    press r
    shows 'by rate,'
    column_is 1 'run b10 b2 a'
    press i
    column_is 1 run
    press i
    column_is 1 'run b10 b2 a'
    screen_quit
}

#@ slow
t_a_text_is_typed_to_filter() {
    mount_sim
    pmc one event=cycles
    pmc two event=instructions
    screen_start 80 24
    press / cYc
    shows 'filter: cYc$'
    column_is 1 one
    press BSpace BSpace BSpace tWo Enter
    column_is 1 two
    shows 'with "tWo"'
    press /
    shows 'filter: tWo$'
    press C-u q
    shows 'filter: q$' # a letter, no key
    shows 'nothing to show'
    press Escape
    column_is 1 'one two'
    screen_quit
}

#@ slow
t_the_second_page_has_rows_and_their_owners() {
    mount_sim sim_cpus=2,sim_rows=2
    pmc mine event=cycles mode=SC target=cpu1 row=1
    screen_start 80 24
    press Tab
    shows $'^4 of 4 rows, every 1 s, in [^\n]*\nCPU ROW NAME +STATE +PMC +UID PID EVENT +DISPOSITION '
    shows $'\n  1   1 sim-1 enabled mine +0 +[0-9-]+ cycles +STANDALONE '
    shows $'\n  0   0 sim-0 enabled - '
    press i
    column_is 2 1
    shows '1 of 4 rows'
    press R i
    column_is 2 '1 0 1 0'
    press R
    rmdir "$M/mine" # the page is read each time, too
    shows_not mine
    press Tab
    shows '0 of 0 events, 0 PMCs'
    screen_quit
}

#@ slow
t_pause_reads_nothing() {
    mount_pmcfs
    pmc a event=page-faults
    pmc b event=page-faults
    screen_start 80 24 -d 0.1
    column_is 1 'a b'
    press p
    shows '^PAUSED '
    rmdir "$M/a"
    sleep 0.5
    is "$(column 1)" 'a b'
    press n R # the present reading is sorted
    column_is 1 'b a'
    press Space
    column_is 1 b
    shows_not PAUSED
    screen_quit
}

#@ slow
t_the_interval_is_typed() {
    mount_pmcfs
    pmc a event=page-faults
    screen_start 80 24 -d 86400
    column_is 1 a # the first reading is at once
    shows 'every 86400 s'
    press d 0.2 Enter
    shows 'every 0.2 s'
    rmdir "$M/a"
    shows '0 of 0 events'
    press d 0 Enter
    shows 'give a number of seconds from 0.1 to 86400'
    press d 7 Escape
    shows 'every 0.2 s'
    screen_quit
}

#@ slow
t_help_is_a_page() {
    mount_pmcfs
    for key in h '\?'; do
        screen_start 80 24
        press "$key"
        shows $'\nq +quit\n'
        press q # closes only the page
        shows $'\nNAME '
        screen_quit
    done
}

#@ slow
t_long_lists_scroll() {
    mount_pmcfs
    for i in {1..30}; do
        pmc "n$i" event=page-faults
    done
    screen_start 80 13 -s name
    column_is 1 "$(echo n{1..10})"
    press NPage
    column_is 1 "$(echo n{11..20})"
    press Down j j Up
    column_is 1 "$(echo n{13..22})"
    press End
    column_is 1 "$(echo n{21..30})"
    press NPage PPage k
    column_is 1 "$(echo n{10..19})"
    press Home Up
    column_is 1 "$(echo n{1..10})"
    press End
    rmdir "$M"/n{5..30} # hidden lines are visible again
    column_is 1 "$(echo n{1..4})"
    screen_quit
}

# resized COLUMNS LINES: resizes the window.
resized() {
    tmux resize-window -x "$1" -y "$2"
    is "$(tmux display-message -p '#{pane_width}x#{pane_height}')" "$1x$2"
}

#@ slow
t_a_window_may_have_any_size() {
    mount_sim
    pmc a event=cycles target=cpu0
    pmc b event=instructions count=12
    screen_start 80 24
    column_is 1 'a b'
    resized 20 5
    shows $'^[^\n]+\nNAME EVE[^\n]*\na +cyc\\+ [^\n]*\nb +ins\\+ [^\n]*\nh help'
    press Tab
    shows $'\nCPU ROW'
    press h j k End Home q Tab / b
    shows $'\nb +ins[^\n]*\n+filter: b'
    press Escape
    resized 200 60
    shows $'q quit$'
    resized 8 3
    resized 1 1
    press Tab Tab h h / x Escape PPage NPage
    resized 2 2
    resized 100 10
    shows $'\na +cycles +[0-9]+ +[0-9.]+[GM] running'
    screen_quit
    screen_start 20 5
    shows $'\nNAME EVE'
    screen_quit
}

#@ slow
t_losses_are_marked() {
    fake counts 'a\tcycles\t12\t5\t5\tlost\nb\tcycles\\040x\t7\t9\t3\trunning\nc\tcycles\t3\t1\t1\trunning\n'
    fake b/metrics 'ipc 0.001234 - partial\ncpi - - partial\ncycles\\040x/s 3.000000 1/s partial\n'
    fake c/metrics 'big-one 123456.000000 1/s\n'
    screen_start 80 24 -s name
    shows $'\na +cycles +12 +0 lost\n'
    shows $'\nb +cycles\\\\040x +7 +0 running partial ipc 0\\.001\n'
    shows $'\nc +cycles +3 +0 running big-one 123\\.5k\n'
    # Bold lines, then plain ones: attributes are printed where they change.
    like "$(screen -e)" $'\n\e\\[0;1m[^\n]*ma +cycles[^\n]*\nb +cycles[^\n]*\n\e\\[0m[^\n]*c +cycles'
    is "$(batch -n 1 -f b | cut -f 6,7)" $'yes\tipc=0.001234,cpi=-'
    screen_quit
}

t_a_text_that_is_not_a_table_does_no_harm() {
    fake counts 'a\n\n\t\t\t\t\t\nb\tcycles\t1\t2\t3\trunning\tmore\nc\tcycles\t\t\t\t\nd\tcycles\t99999999999999999999\t-1\tx\tstate'
    is "$(batch -n 1 | cut -f 1-5 | tr '\t' ' ')" '  0 - 
b cycles 1 - running
c cycles 0 - 
d cycles 18446744073709551615 - state'
    fake counts ''
    is "$(batch -n 1)" ''
}

#@ slow
t_a_table_that_is_longer_than_a_read_is_read_completely() {
    fake counts "$(seq 9000 | sed 's/.*/n&\\tcycles\\t&\\t0\\t0\\tallocated\\n/')"
    is "$(names | md5sum)" "$(seq -f n%g 9000 | xargs | md5sum)"
    screen_start 80 24
    press End
    shows $'\nn9000 +cycles +9000 '
    screen_quit
}

#@ slow
t_an_unmount_closes_the_screen_with_one_sentence() {
    mount_pmcfs
    pmc a event=page-faults
    screen_start 80 24
    column_is 1 a
    unmount_pmcfs
    shows '^pmctop: pmcfs was unmounted from /.*ended 1'
}

# The terminal is gone, and a program that ignores SIGHUP gets no message.
#@ slow
t_a_terminal_that_disappears_stops_pmctop() {
    mount_pmcfs
    tmux new-session -d "trap '' HUP; PMC='$M' $(top_program) -d 3600; echo \$? >'$T/ended'"
    shows 'q quit'
    tmux kill-server
    eventually 10 '[[ -s $T/ended ]]'
}

#@ slow
t_readings_may_be_limited() {
    mount_pmcfs
    screen_start 80 24 -n 3 -d 0.2
    shows 'ended 0'
    SCREENS=2 # curses leaks memory for an unknown terminal, so leaks are not detected here
    tmux new-session -d "ASAN_OPTIONS=detect_leaks=0 TERM=nonsense PMC='$M' $(top_program); echo ended \$?; exec sleep 1000"
    shows 'pmctop: unknown terminal type in TERM: set TERM, or use -b to print lines.*ended 1'
}
