# shellcheck shell=bash disable=SC2016,SC2154
# pmc-names on samples.perf: callers of programs without frame pointers, from registers and copied stacks.

# perf_recorded HOW: records a program without frame pointers, whose child does the work, to $T/perf.data. On one CPU, so
# that the records are in order of time.
perf_recorded() {
    [[ -x $T/bare ]] || cc -O1 -g -fomit-frame-pointer -o "$T/bare" "${TEST_FILE%/*}/hot.c"
    echo go >"$T/go"
    HOME=$T taskset -c "$(taskset -cp $$ | sed 's/.*[: ]\([0-9]*\).*/\1/')" \
        perf record -q -F 997 -e cpu-clock:u --call-graph "$1" -o - -- \
        sh -c 'exec "$1" child <"$2" >/dev/null' sh "$T/bare" "$T/go" >"$T/perf.data" 2>"$T/printed" ||
        skip "perf cannot record here: $(tail -n 1 "$T/printed")"
}

# chains: the number of samples of the child with all callers, in standard input.
chains() { awk '/^hotchild;(.*;)?main;([^;]*;)?hot_outer[^;]*;hot_inner[^;]* [0-9]+$/ { n += $NF } END { print n + 0 }'; }
samples() { awk '{ n += $NF } END { print n + 0 }'; }

#@ slow
t_callers_are_found_without_frame_pointers() {
    perf_recorded dwarf
    names <"$T/perf.data" >"$T/names"
    HOME=$T perf script --no-inline -G -F comm -i - <"$T/perf.data" >"$T/script" 2>"$T/printed"
    is "$(samples <"$T/names")" "$(wc -l <"$T/script")" 'samples'
    between $(($(chains <"$T/names") * 100 / $(grep -c hotchild "$T/script"))) 90 100 'percent with all callers'
    perf_recorded fp
    is "$(names <"$T/perf.data" | chains)" 0 'the same by frame pointers'
}

#@ slow
t_samples_perf_and_samples_folded_have_the_same_stacks() {
    mount_pmcfs
    pmc p event=cpu-clock freq=997 callchain=on kernel=off descendants=on
    talker_start own "$HELPERS/hot" child
    attach p "${PID_OF[own]}"
    hot_run own
    hot_end own
    ctl p stop
    names "$M/p" >"$T/folded"
    is "$(names <"$M/p/samples.perf")" "$(cat "$T/folded")"
    between "$(chains <"$T/folded")" 50 100000
}

# In the stream the formats of tracepoints, which are not records, come before the samples.
t_samples_of_tracepoints_are_read() {
    with_tracefs
    HOME=$T perf record -q -e sched:sched_switch -c 1 -g -o - -- sh -c 'sleep 0.1; sleep 0.1' >"$T/perf.data" 2>"$T/printed" ||
        skip "perf cannot record here: $(tail -n 1 "$T/printed")"
    HOME=$T perf script -G -F comm -i - <"$T/perf.data" >"$T/script" 2>"$T/printed"
    is "$(names <"$T/perf.data" | samples)" "$(grep -c . "$T/script")"
    between "$(grep -c sleep "$T/script")" 2 1000
}

# with_stacks NAME SETTINGS…: a PMC that copies stacks.
with_stacks() {
    pmc "$1"
    [[ $(result write "$M/$1/config" 'event=cpu-clock freq=997 callchain=dwarf kernel=off') == ok ]] ||
        skip "no stacks here: $(cat "$M/$1/error")"
    accepted "$M/$1/config" "${@:2}"
}

#@ slow
t_the_directory_of_a_pmc_is_enough() {
    mount_pmcfs
    cc -O1 -g -fomit-frame-pointer -o "$T/bare" "${TEST_FILE%/*}/hot.c"
    with_stacks p descendants=on
    talker_start own "$T/bare" child
    attach p "${PID_OF[own]}"
    hot_run own
    is "$(state p)" running
    names "$M/p" >"$T/names" # the present samples, without waiting for more
    hot_end own
    between $(($(chains <"$T/names") * 100 / $(samples < <(grep ^hotchild "$T/names")))) 90 100 'percent with all callers'
    PATH=$PATH:$HELPERS "${TEST_FILE%/tests/*}/examples/pmc-flamegraph" "$M/p" >"$T/p.svg"
    like "$(cat "$T/p.svg")" '<title>hot_outer[^ ]* \([0-9]+ samples'
    is "$(PATH=$PATH:$HELPERS "${TEST_FILE%/tests/*}/examples/pmc-flamegraph" -t 'p: cpu-clock' <"$M/p/samples.perf" |
        md5sum)" "$(md5sum <"$T/p.svg")" 'from samples.perf'
}

# made_stream PROGRAM MACHINE: prints a perf.data stream with one sample: the program is in inner, called by outer, which
# uses some stack and is called by _start.
made_stream() {
    /usr/bin/python3 -I - "$@" <<'P'
import struct, subprocess, sys
program, machine = sys.argv[1:]
names = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
at = {line.split()[2]: int(line.split()[0], 16) for line in names.splitlines()}
def record(kind, body, misc=2):
    return struct.pack("<IHH", kind, misc, 8 + len(body)) + body
def words(*values):
    return struct.pack("<%dQ" % len(values), *values)
stack_at = 0x7f0000000000
if machine == "arm64": # x0 to x30, sp, pc
    mask = (1 << 33) - 1
    registers = [0] * 29 + [0x1234, at["after_inner"], stack_at, at["inner"]]
    stack = words(0x5678, at["after_outer"], 1, 2)
else: # ax bx cx dx si di bp sp ip
    mask = 0x1ff
    registers = [0] * 7 + [stack_at, at["inner"]]
    stack = words(at["after_inner"], 7, 8, at["after_outer"])
attr = struct.pack("<IIQQQQ", 1, 128, 0, 0, 0x3003, 0) + words(0, 0, 0, 0, 0, mask) + bytes(40)
sample = words(at["inner"]) + struct.pack("<II", 7, 7) + words(2, *registers) + words(len(stack)) + stack + words(len(stack))
path = program.encode() + bytes(8 - len(program) % 8)
mapping = struct.pack("<IIQQQ", 7, 7, at["_start"] & ~0xfff, 4096, 0x1000) + words(0, 0, 0, 0) + path
comm = struct.pack("<II", 7, 7) + b"program\0"
formats = record(66, struct.pack("<I", 5)) + b"bytes\0\0\0" # after a record that is not a multiple of words
sys.stdout.buffer.write(b"PERFILE2" + words(16) + record(64, attr) + formats + record(3, comm) + record(10, mapping) + record(9, sample))
P
}

#@ slow
t_x86_64_and_arm64_are_unwound_wherever_they_ran() {
    cat >"$T/x86_64.s" <<'S'
.globl _start, outer, inner, after_outer, after_inner
inner: .cfi_startproc
    ret
    .cfi_endproc
outer: .cfi_startproc
    sub $16, %rsp
    .cfi_def_cfa_offset 24
    call inner
after_inner: add $16, %rsp
    ret
    .cfi_endproc
_start: .cfi_startproc
    .cfi_undefined rip
    call outer
after_outer: hlt
    .cfi_endproc
S
    cat >"$T/arm64.s" <<'S'
.globl _start, outer, inner, after_outer, after_inner
inner: .cfi_startproc
    ret
    .cfi_endproc
outer: .cfi_startproc
    stp x29, x30, [sp, -32]!
    .cfi_def_cfa_offset 32
    .cfi_offset 29, -32
    .cfi_offset 30, -24
    bl inner
after_inner: ldp x29, x30, [sp], 32
    ret
    .cfi_endproc
_start: .cfi_startproc
    .cfi_undefined x30
    bl outer
after_outer: brk 0
    .cfi_endproc
S
    local tool=
    for machine in x86_64 arm64; do
        [[ $machine == arm64 ]] && tool=aarch64-linux-gnu- || tool=x86_64-linux-gnu-
        type "${tool}ld" >/dev/null 2>&1 || skip "no binutils for $machine"
        "${tool}as" -o "$T/$machine.o" "$T/$machine.s"
        "${tool}ld" --eh-frame-hdr -z separate-code -z max-page-size=4096 -o "$T/$machine" "$T/$machine.o"
        made_stream "$T/$machine" "$machine" >"$T/perf.data"
        is "$(names <"$T/perf.data" | sed 's/after_outer/_start/; s/after_inner/outer/')" 'program;_start;outer;inner 1' "$machine"
    done
}

t_input_that_is_not_a_stream_is_refused_with_a_sentence() {
    local rc=0
    printf 'PERFILE2\150\0\0\0\0\0\0\0' | names >"$T/out" 2>"$T/printed" || rc=$?
    is "$rc" 1
    like "$(cat "$T/printed")" '^pmc-names: this is perf.data, but not a stream: perf record -o - writes one'
    is "$(printf 'PERF;b 1' | names)" 'PERF;b 1' 'a stack that begins like it'
    is "$(printf 'PERFILE' | names)" 'PERFILE 1'
}

# With truncated or changed input, complete records before the damage get names, and the tool exits.
#@ slow
t_spoilt_streams_cost_their_samples_only() {
    perf_recorded dwarf,1024
    local i rc whole
    whole=$(names <"$T/perf.data" | samples)
    for i in {1..60}; do
        /usr/bin/python3 -I - "$T/perf.data" "$T/spoilt" "$i" <<'P'
import random, sys
data = bytearray(open(sys.argv[1], "rb").read()[:200000])
chance = random.Random(int(sys.argv[3]))
if chance.random() < 0.3:
    del data[chance.randrange(len(data)):]
for _ in range(chance.choice((0, 1, 10, 300))):
    data[chance.randrange(16, len(data))] = chance.choice((0, 1, 0x7f, 0x80, 0xff, chance.randrange(256)))
open(sys.argv[2], "wb").write(data)
P
        rc=0
        timeout 60 "$(names_program)" <"$T/spoilt" >"$T/out" 2>"$T/printed" || rc=$?
        ((rc <= 1)) || die "exit status $rc with $i: $(cat "$T/printed")"
        between "$(samples <"$T/out")" 0 $((whole * 2)) "samples with $i"
        is "$(grep -cvE '^[^ ]+ [0-9]+$' "$T/out" || :)" 0 'lines that are not STACK N'
    done
}
