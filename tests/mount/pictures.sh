# shellcheck shell=bash disable=SC2016,SC2154
# pmc-flamegraph, a picture of stacks, also in a browser; pmc-plot, curves of a series, also in a terminal.

EXAMPLES=${TEST_FILE%/tests/*}/examples

# tool NAME WORDS…: runs a tool of examples/ with the pmc-names of this variant.
tool() {
    mkdir -p "$T/names"
    ln -sf "$(names_program)" "$T/names/pmc-names"
    PATH=$T/names:$PATH "$EXAMPLES/$1" "${@:2}"
}

# frames FILE: "LEVEL FIRST SAMPLES CLASS NAME" of each frame of a picture, the outermost and first ones first.
frames() {
    /usr/bin/python3 -I - "$1" <<'P'
import sys, xml.etree.ElementTree as tree
svg = "{http://www.w3.org/2000/svg}"
for g in tree.parse(sys.argv[1]).iter(svg + "g"):
    first, samples, level = g.get("data-box").split()
    name, _, printed = g.find(svg + "title").text.rpartition(" (")
    assert printed.startswith(samples + " samples, "), printed
    print(level, first, samples, g.find(svg + "rect").get("class"), name)
P
}

# drawn TEXT: prints the frames of the picture of these stacks, without the root.
drawn() {
    printf '%s' "$1" | tool pmc-flamegraph -m 0 >"$T/drawn.svg"
    frames "$T/drawn.svg" | sed 1d
}

# misused STATUS REGEX WORDS…: the tool exits with this status, prints a matching sentence, and no picture.
misused() {
    local rc=0
    tool "${@:3}" >"$T/out" 2>"$T/printed" </dev/null || rc=$?
    is "$rc" "$1" "exit status of ${*:3}"
    like "$(head -n 1 "$T/printed")" "^$3: $2"
    empty cat "$T/out"
}

# profiled: PMC p has the samples of a busy program that has exited.
profiled() {
    mount_pmcfs
    pmc p event=cpu-clock freq=997 callchain=on kernel=off
    talker_start own "$HELPERS/hot" own
    attach p "${PID_OF[own]}"
    hot_run own
    hot_end own
}

t_comments_of_folded_stacks_are_skipped() {
    is "$(drawn $'# difference of two runs 12\n#\n#x;f 2\na;b 3\n' 2>"$T/printed" | sed 's/ u[0-9] / /')" '1 0 2 #x
2 0 2 f
1 2 3 a
2 2 3 b'
    empty cat "$T/printed"
}

t_a_stack_has_one_integer_as_its_count() {
    refused_line() {
        printf '%s' "$1" >"$T/stacks"
        misused 1 "line $2: $3" pmc-flamegraph "$T/stacks"
    }
    refused_line $'a;b 3\na;b 10 12\n' 2 'two counts \(a differential file\?\)'
    refused_line $'a;b 3\na;c 10 -2\n' 2 'two counts'
    refused_line $'# x\na;b 1.5\n' 2 'the count 1.5 must be a whole number'
    refused_line $'a;b .5\n' 1 'the count .5 must be'
    refused_line $'a;b 1e3\n' 1 'the count 1e3 must be'
    refused_line $'a;b 1.5e3\n' 1 'the count 1.5e3 must be'
    refused_line $'a;b -5\n' 1 'the count -5 must be'
    is "$(drawn $'a;b x 10 y 12\n' | sed 's/ u[0-9] / /')" '1 0 12 a
2 0 12 b x 10 y' 'a name with a number'
}

t_a_pmc_becomes_a_flame_graph() {
    profiled
    tool pmc-flamegraph "$M/p" >"$T/p.svg"
    frames "$T/p.svg" >"$T/frames"
    local level first samples
    read -r level first samples < <(sed -n 's/u[0-9] hot_outer$//p' "$T/frames")
    awk -v level="$level" -v first="$first" -v samples="$samples" '
        $5 == "hot_inner" && $1 == level + 1 && $2 >= first && $2 + $3 <= first + samples { inside = 1 }
        END { exit !inside }' "$T/frames" || die "hot_inner is not in hot_outer: $(cat "$T/frames")"
    is "$(sed -n 1p "$T/frames")" "0 0 $(awk '{ n += $NF } END { print n }' "$M/p/samples.folded") all all"
    like "$(cat "$T/p.svg")" '<title>p: cpu-clock</title>'
    names "$M/p" >"$T/folded"
    tool pmc-flamegraph -t 'p: cpu-clock' "$T/folded" >"$T/file.svg"
    cmp <(frames "$T/p.svg") <(frames "$T/file.svg") || die 'from a file'
    cmp "$T/file.svg" <(tool pmc-flamegraph -t 'p: cpu-clock' <"$T/folded") || die 'from standard input'
}

t_a_frame_is_one_box_whatever_its_neighbours() {
    is "$(drawn $'a;b 2\na;b+;c 1\na;b;c 4\na 1\na;b;c 3\n' | sed 's/u[0-9] //')" "\
1 0 11 a
2 0 9 b
3 0 7 c
2 9 1 b+
3 9 1 c"
}

t_the_order_of_lines_does_not_matter() {
    printf 'x;%s;%s %s\n' {a,b}{1..5} {c,d} 5 >"$T/one"
    sort -R "$T/one" >"$T/other"
    cmp <(tool pmc-flamegraph "$T/one") <(tool pmc-flamegraph "$T/other") || die 'other pictures'
}

t_kernel_and_generated_code_have_different_colours() {
    is "$(drawn $'a;[kernel+0x10] 1\na;b_[k] 1\na;c_[j] 1\na;[12:0x10] 1\na;d 1\na;[/k+0x1] 1\n' | sed 's/\(u\|k\|j\)[0-9]/\1/' |
        awk '$1 == 2 { print $4, $5 }')" "\
u [/k+0x1]
j [12:0x10]
k [kernel+0x10]
k b_[k]
j c_[j]
u d"
}

t_names_are_shown_as_text_whatever_they_contain() {
    is "$(drawn $'a;<b>&amp;"]]> 1\n' | sed 's/.* u[0-9] //')" $'a\n<b>&amp\n"]]>'
    is "$(drawn $'a\\073b;store::Shelf<int>\\040as\\040T 1\n' | sed 's/.* u[0-9] //')" $'a;b\nstore::Shelf<int> as T'
    is "$(drawn $'a\033[2J\\033\\377\377;\303\251\\303\\251;\360\237\220\247 1\n' | sed 's/.* u[0-9] //')" \
        $'a\\033[2J\\033\\377\\377\néé\n🐧'
    # no text from right to left but by its own letters, no half of a pair, nothing longer than it must be
    is "$(drawn $'\342\200\256a;\355\240\200;\300\200;\357\277\277;\\000;\\134 1\n' | sed 's/.* u[0-9] //')" \
        $'\\342\\200\\256a\n\\355\\240\\200\n\\300\\200\n\\357\\277\\277\n\\000\n\\'
    printf 'a 1\n' | tool pmc-flamegraph -t '<b>\&' >"$T/titled"
    grep -qF '<title>&lt;b&gt;\&amp;</title>' "$T/titled" || die 'the title'
}

#@ slow
t_any_bytes_make_a_picture_that_can_be_read() {
    local i
    for i in {1..20}; do
        /usr/bin/python3 -I -c '
import random, sys
chance = random.Random(int(sys.argv[1]))
for _ in range(40):
    line = bytes(chance.choice(b";\\0127ab<&>\xc3\xa9\xe2\x80\xed\xf0\x9f\xff\x01\0") for _ in range(chance.randrange(1, 60)))
    sys.stdout.buffer.write(line + b" %d\n" % chance.randrange(99))' "$i" >"$T/bytes"
        tool pmc-flamegraph -m 0 "$T/bytes" >"$T/bytes.svg"
        is "$(frames "$T/bytes.svg" | sed -n '1s/0 0 \([0-9]*\) .*/\1/p')" "$(awk '{ n += $NF } END { print n }' "$T/bytes")"
    done
}

t_small_frames_are_left_out_and_counted() {
    printf 'a;b 999\na;c 1\na;d;e 1\n' >"$T/folded"
    tool pmc-flamegraph -m 0.1 "$T/folded" >"$T/out"
    is "$(frames "$T/out" | sed 's/.* //' | xargs)" 'all a b'
    grep -q '>1001 samples; 3 frames of less than 0.1 % are left out<' "$T/out" || die 'not printed'
}

t_without_stacks_there_is_a_sentence_and_no_picture() {
    mount_pmcfs
    pmc p event=cpu-clock
    misused 1 "$M/p has no samples yet: .*freq=" pmc-flamegraph "$M/p"
    misused 1 "$M/nothing: no such PMC or file" pmc-flamegraph "$M/nothing"
    misused 1 'standard input has no stacks' pmc-flamegraph
    misused 1 "$M is not the directory of a PMC" pmc-flamegraph "$M"
    misused 2 'give only one PMC or file' pmc-flamegraph a b
    misused 2 'unknown option -Z' pmc-flamegraph -Z
    misused 2 '-w 1: must be between 300 and' pmc-flamegraph -w 1
    misused 2 '-m x: give a number' pmc-flamegraph -m x
    is "$(printf 'x\na 0\n' | tool pmc-flamegraph 2>&1 || :)" "\
pmc-flamegraph: ignored 1 lines that are not \"STACK COUNT\"
pmc-flamegraph: standard input has no stacks (lines such as \"main;work 12\")"
    like "$(tool pmc-flamegraph -h)" '^usage: pmc-flamegraph '
    is "$(tool pmc-flamegraph --help)" "$(tool pmc-flamegraph -h)"
}

# recorded WORDS…: runs pmc-flamegraph on this tree. pmcs: prints the PMCs that it has created.
recorded() { PMC=$M tool pmc-flamegraph "$@"; }
pmcs() { (cd "$M" && compgen -G 'pmc-flamegraph-*') || :; }

# all_samples FILE WORDS: the root of a picture has all the samples of the message.
all_samples() {
    like "$(cat "$T/printed")" "^pmc-flamegraph: [0-9]+ samples, 0 lost, 0 hidden$"
    is "$(frames "$1" | sed -n 1p)" "0 0 $(awk '{ print $2 }' "$T/printed") all all"
    grep -q ' samples, 0 lost, 0 hidden[<;]' "$1" || die 'not in the picture'
}

#@ slow
t_a_command_becomes_a_flame_graph() {
    mount_pmcfs
    local rc=0
    echo go | recorded -o "$T/x.svg" -- sh -c '"$1" child; exit 7' sh "$HELPERS/hot" >"$T/out" 2>"$T/printed" || rc=$?
    is "$rc" 7 'exit status of the command'
    is "$(xargs <"$T/out")" 'ready done' 'its output'
    all_samples "$T/x.svg"
    like "$(frames "$T/x.svg" | sed 's/.* //' | xargs)" 'hotchild.* main .*hot_outer.* hot_inner'
    like "$(cat "$T/x.svg")" '<title>sh -c .*: cpu-clock</title>'
    empty pmcs
    echo go | recorded -- "$HELPERS/hot" own >"$T/x.svg" 2>"$T/printed"
    is "$(grep -v '^pmc-' "$T/printed" | xargs)" 'ready done' 'without -o, on standard error'
    like "$(frames "$T/x.svg" | sed 's/.* //' | xargs)" 'hot_outer.* hot_inner'
    rc=0
    recorded -o "$T/y.svg" -- "$T/nosuch" 2>"$T/printed" || rc=$?
    is "$rc" 127
    empty pmcs
}

#@ slow
t_a_running_process_becomes_a_flame_graph() {
    mount_pmcfs
    talker_start own "$HELPERS/hot" own 60000
    echo go >&"${IN[own]}"
    recorded -p "${PID_OF[own]}" -d 1 -o "$T/x.svg" 2>"$T/printed"
    all_samples "$T/x.svg"
    like "$(frames "$T/x.svg" | sed 's/.* //' | xargs)" 'main .*hot_outer.* hot_inner'
    recorded -a -d 0.5 -e task-clock -o "$T/a.svg" 2>"$T/printed"
    like "$(frames "$T/a.svg" | sed 's/.* //' | xargs)" 'hot_outer.* hot_inner'
    like "$(cat "$T/a.svg")" '<title>all CPUs: task-clock</title>'
    # An interrupt stops the recording, and the picture is drawn. Another signal stops it without a picture.
    env --default-signal=INT PMC="$M" PATH="$T/names:$PATH" "$EXAMPLES/pmc-flamegraph" -p "${PID_OF[own]}" >"$T/x.svg" 2>"$T/printed" &
    local tool=$! rc=0
    eventually 20 '[[ $(cat "$M"/pmc-flamegraph-*/count 2>/dev/null) -gt 300000000 ]]'
    kill -INT "$tool"
    wait "$tool" || die "exit status $?"
    all_samples "$T/x.svg"
    PMC="$M" "$EXAMPLES/pmc-flamegraph" -p "${PID_OF[own]}" >"$T/x.svg" 2>"$T/printed" &
    tool=$!
    eventually 20 '[[ $(cat "$M"/pmc-flamegraph-*/count 2>/dev/null) -gt 0 ]]'
    kill -TERM "$tool"
    wait "$tool" || rc=$?
    is "$rc" 143
    empty cat "$T/x.svg"
    eventually 10 '[[ ! $(pmcs) ]]'
    kill -KILL "${PID_OF[own]}"
}

# A log has 8 MiB, and a sample 8 KiB.
#@ slow
t_a_recording_is_larger_than_the_log() {
    mount_pmcfs
    [[ $(pmc s; result write "$M/s/config" 'event=cpu-clock freq=997 callchain=dwarf kernel=off') == ok ]] ||
        skip "no stacks here: $(cat "$M/s/error")"
    gcc -O1 -g -fomit-frame-pointer -o "$T/bare" "${TEST_FILE%/*}/hot.c"
    echo go | recorded --dwarf -o "$T/x.svg" -- "$T/bare" own 5000 >"$T/out" 2>"$T/printed"
    between "$(awk '{ print $2 }' "$T/printed")" 1200 5000
    is "$(frames "$T/x.svg" | sed -n 1p)" "0 0 $(awk '{ print $2 }' "$T/printed") all all"
    like "$(frames "$T/x.svg" | sed 's/.* //' | xargs)" 'main .*hot_outer.* hot_inner'
}

t_recording_is_refused_with_a_sentence() {
    mount_pmcfs
    refuses() {
        local rc=0
        recorded "${@:3}" >"$T/out" 2>"$T/printed" </dev/null || rc=$?
        is "$rc" "$1" "exit status of ${*:3}"
        like "$(head -n 1 "$T/printed")" "^pmc-flamegraph: $2"
        empty cat "$T/out"
        empty pmcs
    }
    refuses 2 'give either -p or -a, not both' -p 1 -a
    refuses 2 'give only one of a command, -p and -a' -a -- true
    refuses 2 'give a command after --' --
    refuses 2 '.*write -- before a command' -p 1 make
    refuses 2 '.*write -- before a command' make all
    refuses 2 'nothing to record: give -p PID, -a or -- COMMAND' --dwarf
    refuses 2 'unknown option --dwarfs' --dwarfs
    refuses 2 '-d x: give a number of seconds' -a -d x
    refuses 2 '-d 5: compares two PMCs or files, or is a time' -d 5
    refuses 1 '-p 999999999: ' -p 999999999
    refuses 1 '-e nosuchevent: ' -e nosuchevent -- true
    refuses 1 '-o /nosuch/x: cannot write to this file' -o /nosuch/x -- true
}

t_two_recordings_are_compared() {
    printf 'a;b 10\na;c 10\n' >"$T/before"
    printf 'a;b 30\na;d 10\n' >"$T/after"
    tool pmc-flamegraph -d "$T/before" "$T/after" >"$T/x.svg"
    is "$(sed -n 's/.*<title>\(.*\) (\(.*\))<.title><rect [a-z]*="\([^"]*\)".*/\1: \2: \3/p' "$T/x.svg")" "\
all: 40 samples, 100.00 %; before: 100.00 %: all
a: 40 samples, 100.00 %; before: 100.00 %: rgb(255,255,255)
b: 30 samples, 75.00 %; before: 50.00 %: rgb(255,40,40)
d: 10 samples, 25.00 %; before: 0.00 %: rgb(255,40,40)"
    grep -qF "<title>$T/after compared with $T/before</title>" "$T/x.svg" || die 'the title'
    tool pmc-flamegraph -d "$T/after" "$T/before" >"$T/x.svg"
    grep -q '<title>b (10 samples.*fill="rgb(148,148,255)"' "$T/x.svg" || die 'not less'
    misused 1 '.* has no stacks' pmc-flamegraph -d "$T/before" /dev/null
    misused 1 'nosuch: no such PMC or file' pmc-flamegraph -d nosuch "$T/after"
}

t_idle_cpus_are_left_out() {
    printf 'idle;cpu_startup_entry_[k];do_idle_[k] 5\nidle;main 1\na;b 2\n' >"$T/folded"
    tool pmc-flamegraph "$T/folded" >"$T/x.svg"
    is "$(frames "$T/x.svg" | sed 's/.* //' | xargs)" 'all a b idle main'
    grep -q '>3 samples; 5 of idle CPUs are left out<' "$T/x.svg" || die 'not printed'
    tool pmc-flamegraph -i "$T/folded" >"$T/x.svg"
    is "$(frames "$T/x.svg" | sed -n 1p)" '0 0 8 all all'
}

t_a_broken_call_chain_does_not_set_the_height() {
    { printf 'a;b 999\na'; printf ';f%d' {1..126}; echo ' 1'; } >"$T/folded"
    tool pmc-flamegraph "$T/folded" >"$T/x.svg"
    is "$(frames "$T/x.svg" | tail -n 1 | cut -d ' ' -f 1)" 48
    tool pmc-flamegraph -m 0 "$T/folded" >"$T/x.svg"
    is "$(frames "$T/x.svg" | tail -n 1 | cut -d ' ' -f 1)" 127
}

t_a_sort_that_fails_makes_no_picture() {
    mkdir "$T/failing"
    printf '#!/bin/sh\necho sort: disk full >&2\nexit 2\n' >"$T/failing/sort"
    chmod +x "$T/failing/sort"
    local rc=0
    printf 'a 1\n' | PATH=$T/failing:$PATH tool pmc-flamegraph >"$T/out" 2>"$T/printed" || rc=$?
    is "$rc $(cat "$T/printed" "$T/out")" '1 sort: disk full'
}

# browser.py uses the picture as a user does. Letters have the widths of the installed fonts.
#@ slow
t_a_browser_zooms_searches_and_resets() {
    type chromedriver >/dev/null 2>&1 || skip 'no chromedriver (package chromium-driver)'
    profiled
    {
        names "$M/p"
        printf '%s\n' 'sh;main;work;[/usr/bin/x+0x10] 40' 'sh;main;work;store::Shelf<int>\040as\040T::put(int&) 30' \
            'sh;main;work;sys_read_[k];vfs_read_[k] 20' 'sh;main;b\303\266se\033[2J\377;\346\227\245\346\234\254\350\252\236;x 12' \
            'sh;main;<script>document.title="";alert(1)</script>;a 4' 'java;made_[j] 7'
    } >"$T/folded"
    tool pmc-flamegraph -m 0 "$T/folded" >"$T/p.svg"
    # A stack that matches in two frames is counted once.
    local all matched
    all=$(awk '{ n += $NF } END { print n }' "$T/folded")
    matched=$(awk '/;hot_(outer|inner)[; ]|read_/ { n += $NF } END { print n }' "$T/folded")
    printf '{"zoom": "work", "search": ["^hot_(outer|inner)|read_", %s]}' \
        "$(awk -v m="$matched" -v a="$all" 'BEGIN { print 100 * m / a }')" >"$T/expected"
    HOME=$T /usr/bin/python3 -I "${TEST_FILE%/*}/browser.py" "$T/p.svg" "$T/expected"
}

# ---- pmc-plot ----

SERIES=$'# seconds\tpage-faults\ttask-clock\tmetric/cpus-used
0.100000000\t10\t100\t0.5
0.200000000\t30\t90\t-
# skipped 2
0.500000000\t60\t300\t1.5\tpartial
'

# plotted TEXT WORDS…: prints the commands that pmc-plot sends to gnuplot for this series.
plotted() {
    mkdir -p "$T/stub"
    printf '#!/bin/sh\ncat "$2"\n' >"$T/stub/gnuplot"
    chmod +x "$T/stub/gnuplot"
    printf '%s' "$1" | PATH=$T/stub:$PATH tool pmc-plot "${@:2}"
}

# rows, labels: the values in these commands, and the names of the axes.
rows() { sed -n '/^\$rows/,/^END/{//!p}'; }
labels() { sed -n "s/^set label 1 '\([^']*\)'.*/\1/p"; }

#@ slow
t_a_series_becomes_a_picture_with_its_names() {
    type gnuplot >/dev/null 2>&1 || skip 'no gnuplot'
    mount_pmcfs
    target_start p
    pmc a event=page-faults event=task-clock event=metric/cpus-used interval=20 autostart=off "target=${PID_OF[p]}"
    mkdir "$T/work"
    TMPDIR=$T/work tool pmc-plot "$M/a" >"$T/a.svg" &
    local plot=$!
    eventually 10 'ls -l /proc/[0-9]*/fd 2>/dev/null | grep -q "$M/a/series"'
    ctl a start
    tell p faults 100
    eventually 10 'grep -qs "^[0-9]" "$T"/work/*/series' # it has read a line
    ctl a stop
    wait "$plot" || die "exit status $?"
    /usr/bin/python3 -I -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$T/a.svg"
    is "$(sed -n 's:.*<text>\([^<]*\)</text>.*:\1:p' "$T/a.svg" | grep '[a-z][a-z]' | xargs)" \
        'a: each interval page-faults task-clock (ns) cpus-used (CPUs) seconds'
    like "$(tool pmc-plot "$M/a" 2>&1 || :)" '^pmc-plot: no values: write interval='
}

t_columns_are_chosen_by_their_names() {
    plotted "$SERIES" >"$T/all"
    is "$(labels <"$T/all" | xargs)" 'page-faults task-clock cpus-used'
    is "$(rows <"$T/all")" $'0.100000000 10 100 0.5\n0.200000000 30 90 -\n0.500000000 60 300 1.5'
    plotted "$SERIES" -c metric/cpus-used -c page-faults -n 2 >"$T/two"
    is "$(labels <"$T/two" | xargs)" 'cpus-used page-faults'
    is "$(rows <"$T/two")" $'0.200000000 - 30\n0.500000000 1.5 60'
    like "$(plotted "$SERIES" -c nosuch 2>&1 || :)" \
        '^pmc-plot: no column nosuch; the columns are page-faults task-clock metric/cpus-used$'
}

t_rates_are_by_the_second_also_where_lines_were_skipped() {
    plotted "$SERIES" -r >"$T/rates"
    is "$(labels <"$T/rates" | xargs)" 'page-faults/s task-clock (CPUs) cpus-used'
    is "$(rows <"$T/rates" | awk '{ for (i = 2; i <= NF; i++) printf "%s ", $i == "-" ? "-" : int($i * 1e7 + 0.5) / 1e7 }')" \
        '- - 0.5 300 9e-07 - 200 1e-06 1.5 '
}

t_a_curve_has_a_gap_where_a_pmc_was_started_again() {
    is "$(plotted "$SERIES$SERIES" | rows | sed -n 4p)" ''
    is "$(plotted "$SERIES$SERIES" | rows | wc -l)" 7
    like "$(plotted "$SERIES"$'# seconds\tother\n' 2>&1 || :)" 'line 6 starts a part with other columns'
}

t_nothing_of_a_series_is_a_command_of_gnuplot() {
    plotted $'# seconds\t`id`\'"\\n$(id);\n0.1\t`id`\n0.2\t5;system "id"\n0.3\t7\n' >"$T/script"
    is "$(labels <"$T/script")" '?id????n?(id)?'
    is "$(rows <"$T/script")" $'0.1 -\n0.2 -\n0.3 7'
}

t_an_interrupt_stops_the_reading_and_the_picture_is_drawn() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults interval=20 "target=${PID_OF[p]}"
    mkdir "$T/tmp"
    TMPDIR=$T/tmp plotted '' "$M/a" >"$T/out" &
    local tool=$!
    eventually 20 '(($(cat "$T"/tmp/*/series 2>/dev/null | grep -c "^[0-9]") >= 3))'
    kill -TERM "$(pgrep -of "/pmc-plot $M/a$")"
    wait "$tool" || die "exit status $?"
    between "$(rows <"$T/out" | wc -l)" 3 10000
    is "$(state a)" running
}

is_read() { [[ $(find /proc/[0-9]*/fd -lname "$1" 2>/dev/null) ]]; }

t_a_hangup_stops_the_reader_too() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults interval=20 "target=${PID_OF[p]}"
    plotted '' "$M/a" >"$T/out" &
    local tool=$! rc=0
    eventually 20 'is_read "$M/a/series"'
    kill -HUP "$(pgrep -of "/pmc-plot $M/a$")"
    wait "$tool" || rc=$?
    is "$rc" 143
    eventually 10 '! is_read "$M/a/series"'
}

#@ slow
t_what_cannot_be_plotted_is_a_sentence() {
    mount_pmcfs
    misused 1 "$M is not the directory of a PMC" pmc-plot "$M"
    misused 1 "$M/nothing: no such PMC or file" pmc-plot "$M/nothing"
    pmc a event=page-faults
    misused 1 'no values: .*interval=' pmc-plot "$M/a"
    misused 1 'not a series: no line "# seconds"' pmc-plot
    misused 2 'unknown option -Z' pmc-plot -Z
    misused 2 '-t gif: give svg, png or dumb' pmc-plot -t gif
    misused 2 '-n 0x: give a number of lines, 1 or more' pmc-plot -n 0x
    misused 2 'give only one PMC or file' pmc-plot a b
    like "$(tool pmc-plot -h)" '^usage: pmc-plot '
    is "$(PATH=$T/nothing "$BASH" "$EXAMPLES/pmc-plot" 2>&1 <<<"$SERIES" || :)" \
        'pmc-plot: gnuplot is not installed (Debian: apt install gnuplot-nox)'
}

# A terminal of 60 columns shows a screen for each line, until the end of the series or ^C.
#@ slow
t_a_terminal_shows_a_series_while_it_grows() {
    type gnuplot >/dev/null 2>&1 || skip 'no gnuplot'
    mount_pmcfs
    pmc a event=task-clock interval=100 target=all
    for end in interrupt stop; do
        /usr/bin/python3 -I - "$M/a" "$EXAMPLES/pmc-plot" "$end" <<'P'
import fcntl, os, pty, signal, struct, sys, termios
pmc, program, end = sys.argv[1:]
pid, fd = pty.fork()
if not pid:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 60, 0, 0))
    signal.signal(signal.SIGINT, signal.SIG_DFL) # tests run in the background, where it is ignored
    os.execv(program, [program, pmc])
printed = b""
def until(screens):
    global printed
    while printed.count(b"\x1b[J") < screens:
        printed += os.read(fd, 4096)
until(3)
if end == "stop":
    open(pmc + "/ctl", "w").write("stop")
else:
    os.write(fd, b"\x03")
try:
    while piece := os.read(fd, 4096):
        printed += piece
except OSError:
    pass # it has exited
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == (0 if end == "stop" else 130)
screen = printed.split(b"\x1b[H")[3].split(b"\x1b[J")[0].replace(b"\x1b[K", b"").decode().split("\r\n")
assert len(screen) <= 20 and all(len(line) <= 60 for line in screen), screen
assert screen[0].strip() == "a: each interval" and screen[2].strip() == "task-clock (ns)", screen
assert any("**" in line for line in screen) and screen[-3].strip() == "seconds", screen
P
    done
}
