# shellcheck shell=bash disable=SC2016
# callchain=dwarf: registers and stacks in samples.perf, from which perf finds the callers of a program that was
# compiled without frame pointers; and the rule for readers of this memory.

# deep_start [USER]: main -> outer -> middle -> burn without frame pointers, with a word on its stack that is
# nowhere else; its PID in DEEP.
deep_start() {
    [[ -x $T/deep ]] || cc -O2 -fomit-frame-pointer -o "$T/deep" -x c - <<'C'
static volatile unsigned long x;
__attribute__((noipa)) void burn(unsigned long n) { while (n--) x += n; x++; }
__attribute__((noipa)) void middle(volatile char *word) { burn(100000); x += word[0]; }
__attribute__((noipa)) void outer(volatile char *word)
{
    volatile char wide[500];
    wide[0] = word[1];
    middle(word);
    x += wide[0];
}
int main(void)
{
    volatile char word[32];
    for (int i = 0; i < 31; i++)
        word[i] = 'A' + (i * 7 + 3) % 26;
    word[31] = 0;
    for (;;)
        outer(word);
}
C
    setpriv --reuid "${1:-0}" --regid "${1:-0}" --clear-groups "$T/deep" &
    DEEP=$!
    eventually 10 '[[ $(cat "/proc/$DEEP/comm") == deep ]]'
}
WORD=DKRYFMTAHOVCJQXELSZGNUBIPWDKRYF

# perf_reads REPORT|SCRIPT…: runs perf on standard input; no message may be about the stream.
perf_reads() {
    HOME=$T timeout 60 perf "$1" -i - "${@:2}" 2>"$T/printed" || die "perf $1: $(cat "$T/printed")"
    unlike "$(cat "$T/printed")" 'rror|ailed|corrupt|unexpected|nvalid|ut of order' "perf $1 printed"
}

# chains FILE: the number of samples with all callers.
chains() {
    perf_reads script -F comm,ip,sym <"$1" | sed -E 's/^\s+[0-9a-f]+ /,/' | tr -d '\n ' |
        awk '{ print gsub(/deep,burn,middle,outer,main/, "") }'
}

sampled() {
    eventually 30 "(($(status "$1" log_records) + $2 <= \$(status $1 log_records)))"
}

# words_in FILE: number of occurrences of the word on the stack.
words_in() {
    python3 -c 'import sys; print(open(sys.argv[1], "rb").read().count(sys.argv[2].encode()))' "$1" "$WORD"
}

#@ slow
t_callers_in_a_program_without_frame_pointers_are_found() {
    mount_pmcfs
    deep_start
    pmc p event=cpu-clock freq=997 callchain=dwarf "target=$DEEP"
    pmc f event=cpu-clock freq=997 callchain=on "target=$DEEP"
    sampled p 100
    ctl p stop
    ctl f stop
    between "$(chains "$M/p/samples.perf")" 50 100000 "chains burn, middle, outer, main"
    is "$(chains "$M/f/samples.perf")" 0 "the same by frame pointers"
    perf_reads report --stdio --no-children -g caller <"$M/p/samples.perf" >"$T/table"
    like "$(tr -d ' \n|-' <"$T/table")" 'mainoutermiddleburn'
    like "$(status p sampling)" '^freq 997, depth [0-9]+, stack 8192$'
    kill "$DEEP"
}

t_stacks_of_children_are_recorded_from_exec() {
    mount_pmcfs
    deep_start
    kill "$DEEP" # only the executable is needed
    pmc p event=cpu-clock freq=199 callchain=dwarf descendants=on start=exec
    bash -c 'echo self >"$1/target" && exec bash -c "ulimit -t 1; $2; :"' - "$M/p" "$T/deep"
    eventually 10 '[[ $(state p) == exited ]]'
    between "$(chains "$M/p/samples.perf")" 20 100000 "chains"
}

#@ slow
t_stacks_are_recorded_on_cpus() {
    mount_pmcfs
    deep_start
    pmc p event=cpu-clock freq=97 callchain=dwarf target=all
    cat "$M/p/samples.perf" >"$T/perf.data" &
    local reader=$! begin
    begin=$(cut -d ' ' -f 1 "/proc/$DEEP/schedstat")
    eventually 20 "((\$(cut -d ' ' -f 1 /proc/$DEEP/schedstat) > $((begin + 300000000))))"
    ctl p stop
    wait "$reader"
    perf_reads script --comm deep -F comm,ip,sym <"$T/perf.data" >"$T/script"
    between "$(grep -c 'main' "$T/script")" 5 100000 "samples of main"
    kill "$DEEP"
}

t_the_kernel_comes_before_the_program() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults period=1 callchain=dwarf "target=${PID_OF[p]}"
    tell p faults 50
    ctl a stop
    perf_reads script -F comm,ip,sym <"$M/a/samples.perf" >"$T/script"
    between "$(grep -c ' main' "$T/script")" 50 1000 "faults below main"
}

# Lines use frame pointers, and only mappings that lines refer to.
t_lines_and_folded_stacks_go_by_frame_pointers() {
    mount_pmcfs
    deep_start
    pmc p event=cpu-clock freq=997 callchain=dwarf "target=$DEEP"
    sampled p 50
    ctl p stop
    cat "$M/p/samples" >"$T/text"
    between "$(grep -cE '^[0-9.]+ callchain pid=[0-9]+ tid=[0-9]+ cpu=[0-9]+ ip=(k:)?0x[0-9a-f]+ event=cpu-clock period=[0-9]+ ips=[-xk:0-9a-f,]+$' "$T/text")" 40 100000
    is "$(words_in "$T/text")" 0
    is "$(grep -c ' map-in .*/deep' "$T/text")" 1 "mappings of the program"
    cat "$M/p/samples.folded" >"$T/folded"
    like "$(cat "$T/folded")" '^deep;'
    is "$(words_in "$T/folded")" 0
    kill "$DEEP"
}

#@ slow
t_the_size_of_the_stack_can_be_set() {
    mount_pmcfs
    deep_start
    pmc p event=cpu-clock freq=997 callchain=dwarf stack=60 "target=$DEEP"
    like "$(status p sampling)" ', stack 64$'
    is "$(setting p stack)" 60
    sampled p 50
    ctl p stop
    cat "$M/p/samples.perf" >"$T/perf.data"
    is "$(chains "$T/perf.data")" 0 "chains up to main in 64 bytes"
    between "$(perf_reads script -F comm,ip,sym <"$T/perf.data" | grep -c middle)" 40 100000 "callers in 64 bytes"
    accepted "$M/p/config" stack=65528
    like "$(status p sampling)" ', stack 65528$'
    ctl p start
    sampled p 50
    ctl p stop
    between "$(chains "$M/p/samples.perf")" 40 100000 chains
    accepted "$M/p/config" stack=default
    is "$(setting p stack)" default
    refused EINVAL P02 "$M/p/config" stack=0
    refused EINVAL P02 "$M/p/config" stack=65529
    refused EINVAL P02 "$M/p/config" stack=much
    kill "$DEEP"
}

# A record has only the used bytes of the stack, so this program uses 60000.
t_a_record_larger_than_the_log_is_dropped_and_counted() {
    mount_pmcfs
    cc -O2 -o "$T/wide" -x c - <<'C'
#include <string.h>
static volatile unsigned long x;
int main(void)
{
    volatile char wide[60000];
    memset((char *)wide, 1, sizeof wide);
    for (;;)
        x += (unsigned long)wide[x % sizeof wide];
}
C
    "$T/wide" &
    local wide=$!
    pmc p event=cpu-clock freq=997 callchain=dwarf stack=32768 logsize=8192 "target=$wide"
    eventually 30 '(($(status p log_lost) > 50))'
    ctl p stop
    unlike "$(cat "$M/p/samples")" ' callchain '
    like "$(cat "$M/p/samples")" ' drop lost=[0-9]+ where=log records=[0-9]+'
    accepted "$M/p/config" logsize=default
    ctl p start
    sampled p 20
    ctl p stop
    between "$(grep -c ' callchain ' "$M/p/samples")" 10 100000
    kill "$wide"
}

# Software events of one task share the data that the kernel prepares for a sample.
#@ slow
t_samplers_of_the_same_faults_with_different_stacks() {
    mount_pmcfs
    target_start p
    local n
    pmc a event=page-faults period=1 "target=${PID_OF[p]}"
    pmc b event=page-faults period=1 callchain=dwarf stack=16384 "target=${PID_OF[p]}"
    pmc c event=page-faults period=1 callchain=dwarf stack=512 "target=${PID_OF[p]}"
    pmc d event=page-faults period=1 callchain=on "target=${PID_OF[p]}"
    tell p faults 200
    for n in a b c d; do
        ctl $n stop
        cat "$M/$n/samples" >"$T/$n.text"
        between "$(grep -cE ' (sample|callchain) ' "$T/$n.text")" 200 400 "samples of $n"
        is "$(status $n kernel_lost)/$(status $n log_lost)" 0/0 "lost of $n"
        between "$(perf_reads script -F comm,event <"$M/$n/samples.perf" | grep -c page-faults)" 200 400 "of $n in perf"
    done
}

# ---- memory needs the right to observe ----

# seen_as USER: number of occurrences of the word in samples.perf of p for this user, who must get the samples.
seen_as() {
    as "$1" cat "$M/p/samples.perf" >"$T/seen"
    between "$(perf_reads script -F comm <"$T/seen" | grep -c deep)" 40 100000 "samples for $1"
    words_in "$T/seen"
}

# alices_deep: p is alice's, with 100 samples of a program of hers
alices_deep() {
    mount_pmcfs
    deep_start "$ALICE"
    as "$ALICE" mkdir "$M/p"
    is "$(result_as "$ALICE" write "$M/p/config" "event=cpu-clock freq=997 callchain=dwarf target=$DEEP")" ok
    sampled p 100
}

#@ slow
t_memory_is_shown_only_to_its_observer_and_the_superuser() {
    alices_deep
    is "$(result_as "$ALICE" write "$M/p/ctl" stop)" ok
    between "$(seen_as "$ALICE")" 40 100000 "words for alice"
    cat "$M/p/samples.perf" >"$T/seen"
    between "$(words_in "$T/seen")" 40 100000 "words for root"
    as "$ALICE" chmod 755 "$M/p"
    is "$(seen_as "$BOB")" 0 "words for bob, who may read it"
    setpriv --reuid "$ALICE" --regid "$BOB" --clear-groups cat "$M/p/samples.perf" >"$T/seen"
    is "$(words_in "$T/seen")" 0 "words for alice in another group"
    kill "$DEEP"
}

#@ slow
t_a_new_owner_is_given_the_samples_without_memory() {
    alices_deep
    chown "$BOB:$BOB" "$M/p"
    is "$(state p)" running
    is "$(result_as "$BOB" write "$M/p/ctl" stop)" ok
    is "$(seen_as "$BOB")" 0 "words for bob"
    # Bob cannot add his process to a PMC that alice reads.
    setpriv --reuid "$BOB" --regid "$BOB" --clear-groups sleep 1000 &
    local bobs=$!
    eventually 10 '[[ $(cat "/proc/'$bobs'/comm") == sleep ]]'
    is "$(result_as "$BOB" write "$M/p/target" "$bobs")" EPERM
    like "$(cat "$M/p/error")" "^EPERM P18 target: p records memory .* for uid $ALICE"
    is "$(result_as "$BOB" write "$M/p/ctl" detach)" ok
    is "$(result_as "$BOB" write "$M/p/target" "$bobs")" ok
    is "$(result_as "$BOB" write "$M/p/ctl" stop)" ok
    is "$(seen_as "$BOB")" 0 "words for bob afterwards"
    kill "$DEEP"
}

t_no_other_user_can_add_a_process_to_a_shared_pmc() {
    alices_deep
    refused EPERM P18 "$M/p/target" $$
    is "$(cat "$M/p/target")" "$DEEP"
    ctl p detach
    attach p $$
    kill "$DEEP"
}

# A program that protects itself may observe itself, but its user's other processes would read this log.
t_a_process_that_is_not_dumpable_has_no_stacks_even_for_itself() {
    mount_pmcfs
    as "$ALICE" mkdir "$M/a"
    is "$(result_as "$ALICE" write "$M/a/config" 'event=page-faults period=1')" ok
    python3 - "$M/a" >"$T/printed" <<'P'
import os, sys
os.setgroups([]); os.setgid(1000); os.setuid(1000) # which is no longer dumpable
def write(name, text):
    try:
        fd = os.open(sys.argv[1] + "/" + name, os.O_WRONLY)
        os.write(fd, text.encode())
        return "ok"
    except OSError as error:
        return os.strerror(error.errno)
print(write("config", "callchain=on target=self"), write("ctl", "stop"), write("config", "callchain=dwarf"),
    write("ctl", "detach"), write("config", "callchain=dwarf target=self"), sep="/")
P
    is "$(cat "$T/printed")" 'ok/ok/Operation not permitted/ok/Operation not permitted'
    like "$(cat "$M/a/error")" '^EPERM E40 config: '
}
