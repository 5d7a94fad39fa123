# shellcheck shell=bash disable=SC2016,SC2154
# pmc-names: names for the places of samples.folded, with the rights of its user.

# The stack with most samples, with names.
hottest() { names "$M/$1" | awk '$NF > most { most = $NF; line = $0 } END { print line }'; }

sampler() {
    pmc "$1" event=cpu-clock freq=997 callchain=on kernel=off "${@:2}"
}

# profiled COMMAND…: PMC p samples the command (a hot.c) while it works; the command exits at `hot_end own`.
profiled() {
    mount_pmcfs
    sampler p descendants=on
    talker_start own "$@" own
    attach p "${PID_OF[own]}"
    hot_run own
}

#@ slow
t_the_hot_function_is_on_top() {
    profiled "$HELPERS/hot"
    like "$(hottest p)" '^hot;(.*;)?main;hot_outer;hot_inner [0-9]+$'
    is "$(names "$M/p")" "$(names <"$M/p/samples.folded")" 'as a filter'
    is "$(names "$M/p" | awk '{ n += $NF } END { print n }')" \
        "$(awk '{ n += $NF } END { print n }' "$M/p/samples.folded")" 'samples'
    hot_end own
    like "$(hottest p)" '^hot;(.*;)?main;hot_outer;hot_inner [0-9]+$' "after its end"
}

t_a_file_that_is_not_a_pmc_is_reported_once() {
    is "$(names "$T/none" 2>&1 || :)" "pmc-names: $T/none/samples.folded: No such file or directory"
}

t_stacks_that_differ_only_in_addresses_are_one_line() {
    printf 'a;b;[/no/such+0x1] 2\na;[1:0x10] 5\na;b;[/no/such+0x1] 3\nx 1\n' | names >"$T/out"
    is "$(cat "$T/out")" $'a;[1:0x10] 5\na;b;[/no/such+0x1] 5\nx 1'
    profiled "$HELPERS/hot"
    is "$(names "$M/p" | sed 's/ [0-9]*$//' | sort | uniq -d)" ''
    hot_end own
}

t_a_stripped_program_has_places() {
    strip -o "$T/bare" "$HELPERS/hot"
    profiled "$T/bare"
    like "$(hottest p)" "^bare;(.*;)?\[$T/bare\+0x[0-9a-f]+\] [0-9]+\$"
    hot_end own
}

t_a_separate_debug_file_has_the_names() {
    mkdir "$T/bin" "$T/bin/.debug"
    cp "$HELPERS/hot" "$T/bin/split"
    objcopy --only-keep-debug "$T/bin/split" "$T/bin/.debug/split.debug"
    strip "$T/bin/split"
    objcopy --add-gnu-debuglink="$T/bin/.debug/split.debug" "$T/bin/split"
    profiled "$T/bin/split"
    like "$(hottest p)" '^split;(.*;)?main;hot_outer;hot_inner [0-9]+$'
    hot_end own
}

t_a_debug_file_is_found_by_its_build_id() {
    local id
    id=$(readelf -nW "$HELPERS/hot" | sed -n 's/.*Build ID: //p')
    [[ $id ]] || skip 'the linker gives no build-ids here'
    mkdir -p /usr/lib/debug
    mount -t tmpfs tmpfs /usr/lib/debug # only in the mount namespace of this test
    mkdir -p "/usr/lib/debug/.build-id/${id:0:2}"
    objcopy --only-keep-debug "$HELPERS/hot" "/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug"
    strip -o "$T/bare" "$HELPERS/hot"
    profiled "$T/bare"
    like "$(hottest p)" '^bare;(.*;)?main;hot_outer;hot_inner [0-9]+$'
    hot_end own
}

# renamed FROM TO…: $T/renamed is the hot program with other symbols.
renamed() {
    local words=()
    while (($#)); do
        words+=(--redefine-sym "$1=$2")
        shift 2
    done
    objcopy "${words[@]}" "$HELPERS/hot" "$T/renamed"
}

t_names_of_cpp_and_rust_are_as_in_the_source() {
    renamed hot_inner _ZN5store5Shelf3putEi hot_outer \
        '_ZN44_$LT$store..Shelf$u20$as$u20$core..Clone$GT$5clone17h0123456789abcdefE'
    profiled "$T/renamed"
    like "$(hottest p)" ';<store::Shelf as core::Clone>::clone;store::Shelf::put\(int\) [0-9]+$'
    hot_end own
}

# Symbols of a shared object, each in the middle of 16 bytes.
t_names_of_rust_are_as_in_the_source() {
    local list=${TEST_FILE%/*}/rust-names start offset
    sed '/^#/d; s/\t.*//; s/.*/.type &, @function\n.globl &\n&: nop; .balign 16/' "$list" >"$T/rust.s"
    gcc -shared -nostdlib -o "$T/rust.so" "$T/rust.s"
    read -r start offset < <(readelf -SW "$T/rust.so" | sed -n 's/.* \.text *PROGBITS *\([0-9a-f]*\) \([0-9a-f]*\) .*/\1 \2/p')
    nm "$T/rust.so" | awk '$2 == "T"' | sort | while read -r at _ _; do
        printf 'a;[%s+0x%x] 1\n' "$T/rust.so" $((16#$at - 16#$start + 16#$offset))
    done | names >"$T/out"
    is "$(sort "$T/out")" "$(sed '/^#/d; s/.*\t/a;/; s/$/ 1/' "$list" | sort)"
}

#@ slow
t_inlined_functions_are_frames() {
    mount_pmcfs
    sampler p start=exec
    cat >"$T/prog.c" <<'C'
static volatile unsigned long sink;
static inline __attribute__((always_inline)) void inner(void)
{
    for (unsigned i = 0; i < 10000000; i++)
        sink = sink * 3 + i;
}
static inline __attribute__((always_inline)) void middle(void)
{
    for (unsigned i = 0; i < 20; i++)
        inner();
}
__attribute__((noinline)) void outer(void)
{
    middle();
}
int main(void)
{
    outer();
    return sink == 1;
}
C
    gcc -O2 -g -fno-omit-frame-pointer -fno-optimize-sibling-calls -o "$T/prog" "$T/prog.c"
    sh -c 'echo self >"$1" && exec "$2"' sh "$M/p/target" "$T/prog"
    like "$(hottest p)" '^prog;(.*;)?outer;middle_\[i\];inner_\[i\] [0-9]+$'
    is "$(names "$M/p" 2>/dev/null | awk '{ n += $NF } END { print n }')" "$(folded p | awk '{ n += $NF } END { print n }')" samples
    strip -g "$T/prog"
    like "$(hottest p)" ';outer [0-9]+$' 'without debug information'
}

folded() { cat "$M/$1/samples.folded"; }

# Frames keep their blanks: the count is after the last one. A number at the end of a frame is not a count.
t_blanks_stay_blanks_in_names() {
    is "$(printf 'a\\040b;operator\\040new;f\\04012 3\n' | names)" 'a b;operator new;f\04012 3'
    is "$(printf 'a\\303\\251;\\033[2J\\377;\\342\\200\\250;x\\134y 1\n' | names)" 'aé;\033[2J\377;\342\200\250;x\134y 1'
}

t_the_idle_task_has_a_name() {
    local kernel=/proc/kallsyms at
    at=$(sed -n 's/^\([0-9a-f]*\) [tT] do_idle$/\1/p' "$kernel" | head -n 1)
    [[ ${at//0/} ]] || skip 'the kernel has no function do_idle here'
    at=$(printf '%x' $((16#$at + 5)))
    printf '[unknown];[kernel+0x%s];[kernel+0x10] 3\n[unknown];[/no/such+0x1] 2\na;[kernel+0x%s] 1\n' "$at" "$at" |
        names >"$T/out"
    like "$(cat "$T/out")" $'\nidle;do_idle_\\[k\\];\\[kernel\\+0x10\\] 3$'
    is "$(grep -c '^idle' "$T/out")" 1
}

#@ slow
t_lost_and_hidden_samples_are_reported() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults period=1 callchain=on logsize=4096 "target=${PID_OF[p]}"
    tell p faults 2000
    ctl a stop
    names "$M/a" >"$T/out" 2>"$T/printed"
    like "$(cat "$T/printed")" '^pmc-names: [0-9]+ samples, [1-9][0-9]* lost, 0 hidden$'
    is "$(awk '{ print $2 + $4 }' "$T/printed")" "$(count a)" 'samples and lost samples'
    is "$(awk '{ n += $NF } END { print n }' "$T/out")" "$(awk '{ print $2 }' "$T/printed")" 'samples in the lines'
    is "$(names <"$M/a/samples.perf" 2>&1 >"$T/out" | awk '{ print $2 + $4 }')" "$(count a)" 'a stream'
    as "$ALICE" mkdir "$M/b"
    as "$ALICE" sh -c 'echo event=cpu-clock freq=997 callchain=on start=exec >"$1/config" && echo self >"$1/target" &&
        exec dd if=/dev/zero of=/dev/null bs=1M count=3000 2>/dev/null' sh "$M/b"
    names "$M/b" >"$T/out" 2>"$T/printed"
    like "$(cat "$T/printed")" '^pmc-names: [0-9]+ samples, [0-9]+ lost, [1-9][0-9]* hidden: only the superuser .* of cpu-clock:u$'
    is "$(sed 's/.* \([0-9]*\) hidden.*/\1/' "$T/printed")" "$(status b hidden)" hidden
    names "$M/b" "$M/b/samples.perf" >"$T/out" 2>"$T/again"
    is "$(cat "$T/again")" "$(cat "$T/printed")" 'with a stream'
}

# decoded FILE: of a profile.proto, a line "SAMPLES EVENTS COMM LEAF;…" for each sample, then the facts of the profile.
decoded() {
    /usr/bin/python3 -I - "$1" <<'P'
import gzip, sys
def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7f) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
def fields(data):
    at, found = 0, []
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
        else:
            assert tag & 7 == 2, tag
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
            assert len(value) == size
        found.append((tag >> 3, value))
    return found
def message(data):
    return dict(fields(data))
def packed(data):
    at, values = 0, []
    while at < len(data):
        value, at = varint(data, at)
        values.append(value)
    return values
profile = fields(gzip.open(sys.argv[1]).read())
text = [value.decode() for kind, value in profile if kind == 6]
assert text[0] == "" and len(text) == len(set(text))
function = {m[1]: text[m[2]] for m in (message(v) for k, v in profile if k == 5)}
mapping = {m[1]: (text[m[5]], m[3]) for m in (message(v) for k, v in profile if k == 3)}
location = {}
for kind, value in profile:
    if kind == 4:
        found = fields(value)
        one = dict(found)
        location[one[1]] = [function[message(v)[1]] for k, v in found if k == 4]
        assert 2 not in one or one[3] < mapping[one[2]][1]
types = [(text[m[1]], text[m[2]]) for m in (message(v) for k, v in profile if k == 1)]
for kind, value in profile:
    if kind == 2:
        sample = message(value)
        label = message(sample[3])
        values = packed(sample[2])
        assert len(values) == len(types) and text[label[1]] == "comm"
        print(*values, text[label[2]], ";".join(name for id in packed(sample[1]) for name in location[id]), sep="\t")
one = dict(profile)
print("types", types, file=sys.stderr)
print("time", one[9] // 10**9, one[10] / 1e9, file=sys.stderr)
print("comment", text[one[13]], file=sys.stderr)
P
}

#@ slow
t_a_profile_for_pprof_has_the_same_samples() {
    profiled "$HELPERS/hot"
    hot_end own
    ctl p stop
    names -o pprof "$M/p" >"$T/p.pb.gz" 2>"$T/printed"
    decoded "$T/p.pb.gz" >"$T/samples" 2>"$T/facts"
    is "$(sed -n 's/^types //p' "$T/facts")" "[('samples', 'count'), ('cpu-clock', 'nanoseconds')]"
    is "pmc-names: $(sed -n 's/^comment //p' "$T/facts")" "$(cat "$T/printed")"
    is "$(awk -F '\t' '{ n += $1 } END { print n }' "$T/samples")" "$(folded p | awk '{ n += $NF } END { print n }')" samples
    is "$(awk -F '\t' '{ printf "%s %.0f\n", $3, $2 / $1 / 1e3 }' "$T/samples" | sort -u)" 'hot 1003' 'microseconds of a sample'
    like "$(sort -rn "$T/samples" | head -n 1)" $'\t''hot_inner;hot_outer;main;'
    between "$(awk '$1 == "time" { print int($2) }' "$T/facts")" $(($(date +%s) - 300)) "$(date +%s)"
    between "$(awk '$1 == "time" { print int($3 * 1000) }' "$T/facts")" 100 100000
    type go >/dev/null 2>&1 || return 0
    HOME=$T go tool pprof -top -sample_index=samples "$T/p.pb.gz" >"$T/top" 2>/dev/null || die 'pprof refuses the profile'
    is "$(sed -n '/flat%/{n;s/.* //p;}' "$T/top")" hot_inner
}

t_a_hostile_name_does_not_break_a_line() {
    renamed hot_inner $'in;ner\n1 \e[2J\\\xff' hot_outer '[/etc/passwd+0x1]'
    profiled "$T/renamed"
    like "$(hottest p)" ';\[/etc/passwd\+0x1\];in\\073ner\\0121 \\033\[2J\\134\\377 [0-9]+$'
    is "$(names "$M/p" | grep -cvE '^[[:print:]]+ [0-9]+$' || :)" 0 'lines that are not STACK N'
    hot_end own
}

# lock_maps: one test at a time uses /tmp/perf-PID.map, because PIDs are the same in the namespaces of other tests.
lock_maps() {
    exec {maps}<"$HELPERS"
    flock "$maps"
}

t_jit_code_has_the_names_of_its_map() {
    lock_maps
    mount_pmcfs
    sampler p
    talker_start made "$HELPERS/hot" made
    attach p "${PID_OF[made]}"
    hot_run made
    like "$(hottest p)" ';made\\073by a=program_\[j\] [0-9]+$'
    # A list that somebody else wrote is not believed.
    chown "$BOB" "/tmp/perf-${PID_OF[made]}.map"
    like "$(hottest p)" ";\[${PID_OF[made]}:0x[0-9a-f]+\] [0-9]+\$" "another user's"
    rm "/tmp/perf-${PID_OF[made]}.map"
    mkfifo "/tmp/perf-${PID_OF[made]}.map"
    like "$(hottest p)" ";\[${PID_OF[made]}:0x[0-9a-f]+\] [0-9]+\$" "a pipe"
    rm "/tmp/perf-${PID_OF[made]}.map"
    hot_end made
}

t_programs_are_found_in_the_mount_namespace_of_a_container() {
    mkdir "$T/box"
    profiled unshare --mount sh -c \
        'mount -t tmpfs none "$1/box" && cp "$2" "$1/box/boxed" && exec "$1/box/boxed" own' sh "$T" "$HELPERS/hot"
    [[ ! -e $T/box/boxed ]] || die "the program is here too"
    like "$(hottest p)" '^boxed;(.*;)?hot_outer;hot_inner [0-9]+$'
    like "$(names <"$M/p/samples.folded")" "boxed;.*\[$T/box/boxed\+0x" 'without the directory'
    hot_end own
}

# The same path is another program there.
t_the_program_of_a_container_is_used_and_not_that_at_the_same_path() {
    type bwrap >/dev/null 2>&1 || skip 'no bubblewrap'
    renamed hot_inner wrong_inner
    mkdir "$T/here" "$T/there"
    mv "$T/renamed" "$T/here/prog"
    cp "$HELPERS/hot" "$T/there/prog"
    bwrap --ro-bind / / true 2>/dev/null || skip 'bubblewrap does not work here'
    profiled bwrap --dev-bind / / --bind "$T/there" "$T/here" "$T/here/prog"
    like "$(names "$M/p")" ';hot_inner [0-9]+'
    unlike "$(names "$M/p")" 'wrong_inner'
    hot_end own
}

# The text of the second symbol has 2^36 words.
t_a_symbol_that_demangles_to_gigabytes_stays_mangled() {
    local symbol=_Z1f1AIiiE i pid=$BASHPID base36=0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ
    lock_maps
    for ((i = 0; i < 36; i++)); do symbol+=S_IS${base36:i:1}_S${base36:i:1}_E; done
    printf '%x 10 %s\n' 16 _ZN5store5Shelf3putEi 32 "$symbol" 48 _ZN5store5Shelf3getEv >"/tmp/perf-$pid.map"
    printf "a;[$pid:0x%x] 1\n" 16 32 48 | (ulimit -t 5 && names) >"$T/out" ||
        die 'pmc-names has ended'
    rm "/tmp/perf-$pid.map"
    is "$(sort "$T/out")" "$(sort <<<"a;${symbol}_[j] 1
a;store::Shelf::get()_[j] 1
a;store::Shelf::put(int)_[j] 1")"
}

t_the_kernels_functions_are_named() {
    [[ $(head -n 1 /proc/kallsyms) != 0000000000000000* ]] || skip "the kernel hides its addresses"
    mount_pmcfs
    pmc p event=cpu-clock freq=997 callchain=on kernel=on descendants=on
    talker_start reads sh -c 'echo ready; read -r go; dd if=/dev/zero of=/dev/null bs=1M count=4000 2>/dev/null
        echo done; read -r end'
    attach p "${PID_OF[reads]}"
    hot_run reads
    like "$(names "$M/p")" ';[a-z_0-9]*read[a-z_0-9]*_\[k\];'
    hot_end reads
}

t_an_ordinary_user_has_names_of_ones_own_programs() {
    mount_pmcfs
    talker_start own setpriv --reuid "$ALICE" --regid "$ALICE" --clear-groups -- "$HELPERS/hot" own
    as "$ALICE" mkdir "$M/p"
    is "$(result_as "$ALICE" write "$M/p/config" 'event=cpu-clock freq=997 callchain=on')" ok
    is "$(result_as "$ALICE" write "$M/p/target" "${PID_OF[own]}")" ok
    hot_run own
    like "$(names_as "$ALICE" "$M/p" | sort -nk2 -t' ' | tail -n 1)" ';hot_outer;hot_inner [0-9]+$'
    unlike "$(names_as "$ALICE" "$M/p")" '_\[k\]'
    ! names_as "$BOB" "$M/p" 2>"$T/printed" || die "bob reads alice's"
    like "$(cat "$T/printed")" 'Permission denied'
    hot_end own
}

# Programs cut short and with bytes changed cost names, nothing else.
#@ slow
t_spoilt_files_cost_their_names_only() {
    local i size places
    size=$(stat -c %s "$HELPERS/hot")
    places=$(nm "$HELPERS/hot" | awk '$2 ~ /[tT]/ { printf ";[%s/bad+0x%s]", "'"$T"'", substr($1, 9) }')
    for i in {1..60}; do
        cp "$HELPERS/hot" "$T/bad"
        /usr/bin/python3 - "$T/bad" "$i" "$size" <<'P'
import os, random, sys
path, seed, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
chance = random.Random(seed)
with open(path, "r+b") as f:
    for _ in range(chance.choice((1, 10, 300))):
        f.seek(chance.choice((chance.randrange(64), chance.randrange(size), max(0, size - 1 - chance.randrange(2500)))))
        f.write(bytes([chance.randrange(256)]))
if seed % 3 == 0:
    os.truncate(path, chance.randrange(size))
P
        echo "bad$places 1" | timeout 60 "$(names_program)" >"$T/out" 2>"$T/printed" || die "seed $i: $? $(cat "$T/printed")"
        like "$(cat "$T/out")" '^bad;[^ ]* 1$' "seed $i"
    done
}

# elfutils can read an executable that is compressed.
#@ plain
t_a_file_that_decompresses_to_gigabytes_has_no_names() {
    head -c 700M /dev/zero | gzip -1 >"$T/bomb"
    printf 'a;[%s+0x10] 1\nb;[%s+0x%s] 1\n' "$T/bomb" "$HELPERS/hot" \
        "$(nm "$HELPERS/hot" | awk '$3 == "hot_inner" { print substr($1, 9) }')" >"$T/in"
    is "$(/usr/bin/python3 -c 'import resource, subprocess, sys
subprocess.run(sys.argv[1], stdin=open(sys.argv[2]), check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 600000)' "$(names_program)" "$T/in")" \
        "a;[$T/bomb+0x10] 1
b;hot_inner 1
True"
}

# Only plain: a sanitizer would report that the child process was killed.
#@ plain
t_a_file_cut_short_while_it_is_read_costs_its_names() {
    local i writer
    /usr/bin/python3 -c 'import os, sys, time
data = open(sys.argv[1], "rb").read()
fd = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)
end = time.time() + 140
while time.time() < end:
    os.pwrite(fd, data, 0)
    os.ftruncate(fd, 0)' "$HELPERS/hot" "$T/cut" &
    writer=$!
    eventually 20 "[[ -e $T/cut ]]"
    for i in {1..20}; do
        is "$(printf 'x;[%s+0x2000] 1\ny 1\n' "$T/cut" | names | grep -c '^[xy]')" 2 "run $i"
    done
    kill "$writer"
    wait "$writer" || :
}

# A writer that waits at the pipe notices an open.
t_only_regular_files_are_opened() {
    local at writer
    cp "$HELPERS/hot" "$T/linked"
    objcopy --only-keep-debug "$T/linked" "$T/pipe"
    strip --remove-section=.note.gnu.build-id "$T/linked"
    objcopy --add-gnu-debuglink="$T/pipe" "$T/linked"
    at=$(nm "$HELPERS/hot" | awk '$3 == "hot_inner" { print substr($1, 9) }')
    like "$(echo "x;[$T/linked+0x$at] 1" | "$(names_program)")" '^x;hot_inner 1$' 'the debug file'
    rm "$T/pipe"
    mkfifo "$T/pipe"
    (echo >"$T/pipe" && : >"$T/opened") 2>/dev/null &
    writer=$!
    is "$(echo "x;[$T/linked+0x$at];[$T/pipe+0x1] 1" | timeout 60 "$(names_program)")" \
        "x;[$T/linked+0x$at];[$T/pipe+0x1] 1" 'by link and by name'
    kill -0 "$writer" 2>/dev/null || die 'the pipe was opened'
    [[ ! -e $T/opened ]] || die 'the pipe was opened'
    kill "$writer"
    wait "$writer" || :
}

# Users who may write to a log can put any text into it as a remark.
t_a_remark_is_not_a_map() {
    local at boxed
    mkdir "$T/box" "$T/pmc"
    cp "$HELPERS/hot" "$T/box/boxed"
    /usr/bin/python3 -c 'import os, sys, time; os.chroot(sys.argv[1]); print(); sys.stdout.close(); time.sleep(100)' \
        "$T/box" >"$T/ready" &
    boxed=$!
    eventually 20 "[[ -s $T/ready ]]"
    at=$(nm "$HELPERS/hot" | awk '$3 == "hot_inner" { print substr($1, 9) }')
    echo "x;[/boxed+0x$at] 1" >"$T/pmc/samples.folded"
    : >"$T/pmc/target"
    echo "1.0 map-in pid=$boxed start=0x0 end=0x1 offset=0x0 path=/boxed" >"$T/pmc/samples"
    is "$(names "$T/pmc")" 'x;hot_inner 1' 'mapped'
    echo "1.0 user text= map-in pid=$boxed path=/boxed" >"$T/pmc/samples"
    is "$(names "$T/pmc")" "x;[/boxed+0x$at] 1" 'a remark'
    kill "$boxed"
}

# A JIT compiler appends lines: code that was freed may lie below code that is newer.
t_the_newest_of_overlapping_lines_of_a_map_names_an_address() {
    lock_maps
    local map=/tmp/perf-999999.map
    printf '1000 100 old_small\nf80 400 new_big\n' >"$map"
    is "$(printf 'x;[999999:0x1050] 1\nx;[999999:0x1200] 1\n' | names)" 'x;new_big_[j] 2'
    printf 'f80 400 old_big\n1000 100 new_small\n' >"$map"
    is "$(printf 'x;[999999:0x%x] 1\n' 0xf7f 0xf80 0x1000 0x10ff 0x1100 0x137f 0x1380 | names | sort)" \
        'x;[999999:0x1380] 1
x;[999999:0xf7f] 1
x;new_small_[j] 2
x;old_big_[j] 3'
    printf '%s\n' '1000 10 a' 'fffffffffffffff0 ffff last' '1000 0 empty' '1000' '1000 10' 'x y z' '1004 4 b' >"$map"
    is "$(printf 'x;[999999:0x%x] 1\n' 0x1000 0x1004 0x1008 0xfffffffffffffff1 0x10 | names | sort | paste -sd ,)" \
        'x;[999999:0x10] 1,x;a_[j] 2,x;b_[j] 1,x;last_[j] 1'
    /usr/bin/python3 - "$map" "$T" <<'P'
import random, sys
random.seed(4)
lines = [(random.randrange(3000), random.randrange(0, 400), i) for i in range(2000)]
newest = {}
for start, size, i in lines:
    for at in range(start, start + size):
        newest[at] = i
open(sys.argv[1], "w").write("".join("%x %x n%d\n" % line for line in lines))
open(sys.argv[2] + "/in", "w").write("".join("s%d;[999999:%#x] 1\n" % (at, at) for at in range(3500)))
open(sys.argv[2] + "/right", "w").write("".join("s%d;%s 1\n" % (at, "n%d_[j]" % newest[at] if at in newest else
    "[999999:%#x]" % at) for at in range(3500)))
P
    rm -f "$T/out"
    names <"$T/in" >"$T/out"
    cmp <(sort "$T/out") <(sort "$T/right")
    rm "$map"
}

# A line without its end is still being written; zero bytes are there where the map was emptied under its writer.
t_a_map_that_is_being_written_has_the_names_of_complete_lines() {
    lock_maps
    local map=/tmp/perf-999999.map
    printf '1000 10 complete\n2000 10 half' >"$map"
    is "$(printf 'x;[999999:0x1000] 1\nx;[999999:0x2000] 1\n' | names | sort | paste -sd ,)" \
        'x;[999999:0x2000] 1,x;complete_[j] 1'
    printf '1000 10 cut\0\0\0\0002000 10 after_the_hole\n' >"$map"
    is "$(printf 'x;[999999:0x1000] 1\nx;[999999:0x2000] 1\n' | names | sort | paste -sd ,)" \
        'x;[999999:0x1000] 1,x;after_the_hole_[j] 1'
    /usr/bin/python3 -c 'import os, sys, time
fd = os.open(sys.argv[1], os.O_WRONLY)
data = b"".join(b"%x 10 name_%x\n" % (n, n) for n in range(0x1000, 0x200000, 0x10))
end = time.time() + 140
while time.time() < end:
    os.ftruncate(fd, 0)
    for at in range(0, len(data), 65536):
        os.pwrite(fd, data[at:at + 65536], at)
    os.pwrite(fd, b"0 1 x\n", len(data))' "$map" &
    local writer=$! at
    for at in {1..10}; do
        like "$(echo 'x;[999999:0x1044] 1' | names)" '^x;(name_1040_\[j\]|\[999999:0x1044\]) 1$' "run $at"
    done
    kill "$writer"
    rm "$map"
}

#@ slow plain
t_a_map_of_300_mb_costs_bounded_memory_and_time() {
    lock_maps
    local map=/tmp/perf-999999.map
    /usr/bin/python3 - "$map" <<'P'
import sys
with open(sys.argv[1], "w") as map:
    map.write("10 10 oldest\n")
    for i in range(0, 6200000, 100000):
        map.write("".join("%x %x LazyCompile:*function_%d_app.js\n" % (0x7f0000000000 + n * 64, 64, n)
            for n in range(i, i + 100000)))
    map.write("7f0000000040 40 newest\n")
P
    between "$(stat -c %s "$map")" 300000000 400000000 'bytes of the map'
    printf 'a;[999999:0x10] 1\nb;[999999:0x%x] 1\nc;[999999:0x7f0000000044] 1\n' $((0x7f0000000000 + 6199999 * 64)) >"$T/in"
    is "$(/usr/bin/python3 -c 'import resource, subprocess, sys
subprocess.run(sys.argv[1], stdin=open(sys.argv[2]), check=True, timeout=120)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 1000000)' "$(names_program)" "$T/in" 2>"$T/printed")" \
        'a;[999999:0x10] 1
b;LazyCompile:*function_6199999_app.js_[j] 1
c;newest_[j] 1
True'
    is "$(cat "$T/printed")" 'pmc-names: only the last 256 MiB of the map of process 999999 are read'
    rm "$map"
}

# A program in a container writes a map with its PID there, in its /tmp.
t_a_map_of_a_container_is_found_by_the_number_inside() {
    local pid
    unshare --mount --pid --fork --propagation private sh -c '
        mount -t tmpfs none /tmp && echo "1000 10 inside" >/tmp/perf-1.map && echo "1000 10 wrong" >/tmp/perf-2.map &&
            echo && exec sleep 100' >"$T/ready" &
    eventually 20 "[[ -s $T/ready ]]"
    pid=$(cat "/proc/$!/task/$!/children")
    pid=${pid% }
    is "$(echo "x;[$pid:0x1004] 1" | names)" 'x;inside_[j] 1'
    rm "/proc/$pid/root/tmp/perf-1.map"
    ln -s perf-2.map "/proc/$pid/root/tmp/perf-1.map"
    is "$(echo "x;[$pid:0x1004] 1" | names)" "x;[$pid:0x1004] 1" 'a symbolic link'
    kill "$pid"
}

# Every user can put a file or a link into /tmp.
t_a_map_of_somebody_else_is_not_read() {
    lock_maps
    local pid map owner
    setpriv --reuid "$ALICE" --regid "$ALICE" --clear-groups sleep 100 &
    pid=$!
    eventually 5 "[[ \$(stat -c %u /proc/$pid) == $ALICE ]]"
    map=/tmp/perf-$pid.map
    for owner in "$ALICE" 0; do
        echo '1000 10 name' >"$map"
        chown "$owner" "$map"
        is "$(echo "x;[$pid:0x1004] 1" | names)" 'x;name_[j] 1' "owner $owner"
    done
    chown "$BOB" "$map"
    is "$(echo "x;[$pid:0x1004] 1" | names)" "x;[$pid:0x1004] 1" "another user's"
    chown "$ALICE" "$map"
    mv "$map" "$T/map"
    ln -s "$T/map" "$map"
    is "$(echo "x;[$pid:0x1004] 1" | names)" "x;[$pid:0x1004] 1" 'a symbolic link'
    rm "$map"
    cp --preserve=ownership "$T/map" "$map"
    ln "$map" "$map.link"
    is "$(echo "x;[$pid:0x1004] 1" | names)" "x;[$pid:0x1004] 1" 'a hard link, which may be to any file'
    rm "$map" "$map.link"
    kill "$pid"
}

# The part that is read is bounded: a map of 1 TiB gives no names.
#@ plain
t_a_map_without_end_is_not_read() {
    lock_maps
    sleep 100 &
    echo '1000 10 made' >"/tmp/perf-$!.map"
    is "$(echo "x;[$!:0x1004] 1" | "$(names_program)")" 'x;made_[j] 1' 'a list'
    truncate -s 1T "/tmp/perf-$!.map"
    is "$(ulimit -v 1000000 && echo "x;[$!:0x1004] 1" | "$(names_program)")" "x;[$!:0x1004] 1" 'one of 1 TiB'
    rm "/tmp/perf-$!.map"
    kill "$!"
}

t_help_and_wrong_calls() {
    like "$(names --help)" '^usage: pmc-names \[-o folded'
    is "$(names -h)" "$(names --help)"
    local rc=0
    names --nonsense 2>/dev/null || rc=$?
    is "$rc" 2
    rc=0
    names "$T/nowhere" 2>"$T/printed" || rc=$?
    is "$rc" 1
    like "$(cat "$T/printed")" 'nowhere/samples.folded: No such file'
}
