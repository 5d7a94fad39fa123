# shellcheck shell=bash disable=SC2016,SC2154
# pmc-flamegraph: a picture of stacks, made of the text of a PMC, in a browser.

EXAMPLES=${TEST_FILE%/tests/*}/examples

# tool NAME WORDS…: with the pmc-names of this variant.
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
    name, _, said = g.find(svg + "title").text.rpartition(" (")
    assert said.startswith(samples + " samples, "), said
    print(level, first, samples, g.find(svg + "rect").get("class"), name)
P
}

# drawn TEXT: frames of the picture of these stacks, without the root.
drawn() {
    printf '%s' "$1" | tool pmc-flamegraph -m 0 >"$T/drawn.svg"
    frames "$T/drawn.svg" | sed 1d
}

# misused STATUS REGEX WORDS…: one sentence, and no picture.
misused() {
    local rc=0
    tool "${@:3}" >"$T/out" 2>"$T/said" </dev/null || rc=$?
    is "$rc" "$1" "exit status of ${*:3}"
    like "$(head -n 1 "$T/said")" "^$3: $2"
    empty cat "$T/out"
}

# profiled: the directory p of a PMC has the samples of a busy program that has ended.
profiled() {
    mount_pmcfs
    pmc p event=cpu-clock freq=997 callchain=on kernel=off
    talker_start own "$HELPERS/hot" own
    attach p "${PID_OF[own]}"
    hot_run own
    hot_end own
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
    is "$(names "$M/p" | tool pmc-flamegraph -t 'p: cpu-clock')" "$(cat "$T/p.svg")" 'from standard input'
    names "$M/p" >"$T/folded"
    is "$(tool pmc-flamegraph -t 'p: cpu-clock' "$T/folded")" "$(cat "$T/p.svg")" 'from a file'
}

t_a_frame_is_one_box_whatever_stands_beside_it() {
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

t_kernel_and_made_code_have_their_own_colours() {
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
    grep -q '>1001 samples; 3 frames of less than 0.1 % are left out<' "$T/out" || die 'not said'
}

t_without_stacks_there_is_a_sentence_and_no_picture() {
    mount_pmcfs
    pmc p event=cpu-clock
    misused 1 "there are no stacks in $M/p" pmc-flamegraph "$M/p"
    misused 1 'there are no stacks in standard input' pmc-flamegraph
    misused 1 "$M is not the directory of a PMC" pmc-flamegraph "$M"
    misused 2 'one PMC or file' pmc-flamegraph a b
    misused 2 'there is no option -Z' pmc-flamegraph -Z
    misused 2 '-w 1: must be between 300 and' pmc-flamegraph -w 1
    misused 2 '-m x: not a number' pmc-flamegraph -m x
    is "$(printf 'x\na 0\n' | tool pmc-flamegraph 2>&1 || :)" "\
pmc-flamegraph: 1 lines are not \"STACK COUNT\" and are left out
pmc-flamegraph: there are no stacks in standard input"
    like "$(tool pmc-flamegraph -h)" '^usage: pmc-flamegraph '
    is "$(tool pmc-flamegraph --help)" "$(tool pmc-flamegraph -h)"
}

# What a user does with it. The widths of all letters are those of the fonts that are here.
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
    # once, though sys_read is in vfs_read
    local all matched
    all=$(awk '{ n += $NF } END { print n }' "$T/folded")
    matched=$(awk '/;hot_(outer|inner)[; ]|read_/ { n += $NF } END { print n }' "$T/folded")
    printf '{"zoom": "work", "search": ["^hot_(outer|inner)|read_", %s]}' \
        "$(awk -v m="$matched" -v a="$all" 'BEGIN { print 100 * m / a }')" >"$T/expected"
    HOME=$T /usr/bin/python3 -I "${TEST_FILE%/*}/browser.py" "$T/p.svg" "$T/expected"
}
