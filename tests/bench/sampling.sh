#!/bin/sh
# Compares sampling through pmcfs with perf record: the same event, rate, buffers and load, turn about
# in one run; only the ratios mean anything. Nothing is asserted. Needs root, perf, about four minutes
# for each round and three for the turns of each kind.
#
# How much the load is slowed down wants many short turns, and a machine that does nothing else: one run
# differs from the next by more than what is compared. There is about one timer interrupt for a sample
# then; more means that another program samples, too. What a sample costs the sampled program shows better
# where there is one of each page fault, which takes no timer.
#
# usage: tests/bench/sampling.sh [BUILD-DIRECTORY]
# in the environment: SECONDS_EACH=20 RATE=10000 ROUNDS=1 TURNS=20 CHAINS="off on"
set -eu

# Mounts are nobody else's business, and end with this process.
if [ -z "${PMCFS_BENCH-}" ]; then
    [ "$(id -u)" -eq 0 ] || { echo 'sampling: needs root' >&2; exit 1; }
    PMCFS_BENCH=inside exec unshare --mount --propagation private sh "$0" "$@"
fi

here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:-$here/../../build}" && pwd)
each=${SECONDS_EACH:-20} rate=${RATE:-10000} rounds=${ROUNDS:-1} turns=${TURNS:-20} settings=${CHAINS:-off on}
# What burns, and what is sampled, until a stage says otherwise.
burning=$each their_event="-e cpu-clock -F $rate" our_event="event=cpu-clock freq=$rate"
work=$(mktemp -d /tmp/pmcfs-sampling.XXXXXX)
mnt=$work/mnt daemon='' other=''

clean() {
    trap - EXIT INT TERM HUP
    [ -z "$other" ] || kill "$other" 2>/dev/null || :
    umount "$mnt" 2>/dev/null || umount -l "$mnt" 2>/dev/null || :
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || :
    wait 2>/dev/null || :
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 1' INT TERM HUP

burn() { "$work/burn" "$@"; }
# What the daemon's threads took so far, in ms: exact, not in ticks.
daemon_ms() { cat /proc/"$daemon"/task/*/schedstat | awk '{ n += $1 } END { printf "%.3f", n / 1e6 }'; }
resident_kb() { awk '$1 == "VmRSS:" { print $2 }' "/proc/$daemon/status"; }
sum() { awk "BEGIN { printf \"%.3f\", $1 }"; }

# samples_of FILE (or - for stdin): how many there are, and how many were lost
samples_of() {
    perf script -G -F pid --show-lost-events -i "$@" 2>/dev/null |
        awk '/PERF_RECORD_LOST/ { lost += $NF; next } /^ *[0-9]+ *$/ { n++ } END { print n + 0, lost + 0 }'
}

# result NAME MS SAMPLES LOST LOAD: "LOAD" is what burn says, rounds and their CPU time
result() {
    # shellcheck disable=SC2086
    set -- "$1" "$2" "$3" "$4" $5 $bare
    awk -v n="$1" -v ms="$2" -v s="$3" -v lost="$4" -v r="$5" -v rc="$6" -v b="$7" -v bc="$8" 'BEGIN {
        printf "  %-22s %9.1f ms %9d samples %7d lost  load slower by %5.1f %%, per CPU second %5.1f %%\n",
            n, ms, s, lost, 100 * (1 - r / b), 100 * (1 - r / rc / (b / bc)) }'
}

timer_interrupts() {
    awk '$1 == "LOC:" || $2 ~ /timer/ { for (i = 2; i <= NF; i++) n += $i } END { printf "%d", n }' /proc/interrupts
}

# Sets load and, of its time, interrupts.
burn_sampled() {
    interrupts=$(timer_interrupts)
    load=$(burn "$burning")
    interrupts=$(($(timer_interrupts) - interrupts))
}

# load_with_perf OPTIONS...: sets ms and load. It samples from "enable" to "stop", as pmcfs does from
# start to stop.
load_with_perf() {
    # shellcheck disable=SC2086 # words are wanted
    burn -t "$work/ms" perf record -q -a $their_event -m 128 "$@" -o "$work/data" -D -1 \
        --control "fifo:$work/ctl,$work/ack" >/dev/null 2>"$work/err" &
    other=$!
    exec 3>"$work/ctl" 4<"$work/ack"
    echo enable >&3
    read -r _ <&4
    burn_sampled
    echo stop >&3
    wait "$other" || { cat "$work/err" >&2; exit 1; }
    other=
    exec 3>&- 4<&-
    ms=$(cat "$work/ms")
}

# with_perf NAME OPTIONS...: sets ms. Without -B -N perf looks through its file at the end.
with_perf() {
    name=$1
    shift
    load_with_perf "$@"
    found=$(samples_of "$work/data")
    result "$name" "$ms" "${found% *}" "${found#* }" "$load"
}

# load_with_pmcfs SETTINGS...: sets load, ms and lost; the daemon's and the reader's CPU time, from mkdir
# to rmdir
load_with_pmcfs() {
    before=$(daemon_ms)
    mkdir "$mnt/b"
    echo "$our_event mode=SS autostart=off target=all $*" >"$mnt/b/config"
    burn -t "$work/ms" cat "$mnt/b/samples.perf" >"$work/data" &
    other=$!
    echo start >"$mnt/b/ctl"
    burn_sampled
    echo stop >"$mnt/b/ctl"
    wait "$other"
    other=
    lost=$(awk '$1 == "log_lost" || $1 == "kernel_lost" { n += $2 } END { print n }' "$mnt/b/status")
    rmdir "$mnt/b"
    ms=$(sum "$(cat "$work/ms") + $(daemon_ms) - $before")
}

with_pmcfs() {
    load_with_pmcfs "$@"
    found=$(samples_of - <"$work/data")
    result pmcfs "$ms" "${found% *}" "$lost" "$load"
}

ratio() { awk -v n="$1" -v a="$2" -v b="$3" -v t="$4" 'BEGIN { printf "  %-60s %5.2f   %s\n", n, a / b, t }'; }

side_by_side() {
    bare=$(burn "$each")
    with_perf 'perf record' "$@"
    theirs=$ms
    with_perf 'perf record -B -N' -B -N "$@"
    least=$ms
    with_pmcfs callchain="$chains"
    ratio 'CPU time: pmcfs / perf record' "$ms" "$theirs" '<= 1'
    ratio '          pmcfs / perf record -B -N' "$ms" "$least" reported
    echo "  resident: $(resident_kb) kB"
}

# ---- what the load says of it, turn about ----

# turn NAME COMMAND…: "NAME ROUNDS BARE-ROUNDS INTERRUPTS" is added to what is told of the turns
turn() {
    name=$1
    shift
    "$@"
    echo "$name ${load% *} ${bare% *} $interrupts" >>"$work/turns"
}

turn_about() {
    burning=2 turned=0
    : >"$work/turns"
    while [ "$turned" -lt "$turns" ]; do
        bare=$(burn "$burning")
        turn perf load_with_perf "$@"
        turn least load_with_perf -B -N "$@"
        turn pmcfs load_with_pmcfs callchain="$chains"
        turned=$((turned + 1))
    done
    burning=$each
    awk -v per="$((2 * rate * $(nproc)))" '
        { x = 100 * (1 - $2 / $3); n[$1]++; s[$1] += x; q[$1] += x * x; i[$1] += $4 / per }
        function told(who, name) {
            m[who] = s[who] / n[who]; e[who] = sqrt((q[who] / n[who] - m[who] ^ 2) / (n[who] - 1))
            printf "  %-22s load slower by %5.1f +- %.1f %%, %.2f timer interrupts for a sample\n",
                name, m[who], e[who], i[who] / n[who] }
        END { told("perf", "perf record"); told("least", "perf record -B -N"); told("pmcfs", "pmcfs")
            printf "  %-54s %+5.1f +- %.1f   <= 1\n", "slow-down of the load: pmcfs - perf record",
                m["pmcfs"] - m["perf"], sqrt(e["pmcfs"] ^ 2 + e["perf"] ^ 2) }' "$work/turns"
}

# ---- what a sample costs the sampled program ----

least_of() { awk -v a="$1" -v b="$2" 'BEGIN { print a < b ? a : b }'; }

sample_cost() {
    burning=-f their_event='-e page-faults -c 1' our_event='event=page-faults period=1'
    bare=$(burn -f) theirs=999999 ours=999999
    for _ in 1 2 3; do
        load_with_perf -B -N "$@"
        theirs=$(least_of "$theirs" "$load")
        load_with_pmcfs callchain="$chains"
        ours=$(least_of "$ours" "$load")
        bare=$(least_of "$bare" "$(burn -f)")
    done
    burning=$each their_event="-e cpu-clock -F $rate" our_event="event=cpu-clock freq=$rate"
    awk -v p="$((ours - bare))" -v t="$((theirs - bare))" -v r="$rate" 'BEGIN {
        printf "  a sample takes %d ns with pmcfs, %d with perf record: at %d Hz slower by %+.2f %%\n", p, t, r, (p - t) * r / 1e7 }'
}

# ---- text: lines per second of CPU time, the load apart ----

text_side_by_side() {
    burn "$each" >/dev/null &
    other=$!
    burn -t "$work/ms" sh -c "perf record -q -a -e cpu-clock -F $rate -m 128 $* -o - -- sleep $each 2>/dev/null |
        perf script -i - 2>/dev/null >'$work/data'"
    wait "$other"
    other=
    theirs=$(cat "$work/ms")
    their_lines=$(grep -c cpu-clock "$work/data")

    before=$(daemon_ms)
    mkdir "$mnt/t"
    echo "event=cpu-clock mode=SS freq=$rate autostart=off target=all callchain=$chains" >"$mnt/t/config"
    burn -t "$work/ms" cat "$mnt/t/samples" >"$work/data" &
    other=$!
    echo start >"$mnt/t/ctl"
    burn "$each" >/dev/null
    echo stop >"$mnt/t/ctl"
    wait "$other"
    other=
    ms=$(sum "$(cat "$work/ms") + $(daemon_ms) - $before")
    lines=$(grep -cE '^[0-9.]+ (sample|callchain) ' "$work/data")
    rmdir "$mnt/t"
    awk -v a="$lines" -v am="$ms" -v b="$their_lines" -v bm="$theirs" 'BEGIN {
        printf "  pmcfs %d samples in %.1f ms of CPU time, perf record | perf script %d in %.1f\n", a, am, b, bm }'
    ratio 'samples per second of CPU time: pmcfs / perf' "$(sum "$lines / $ms")" \
        "$(sum "$their_lines / $theirs")" '>= 3'
}

# with_chains STAGE: with the option of perf that goes with $chains
with_chains() {
    if [ "$chains" = off ]; then "$1"; else "$1" -g; fi
}

mkdir "$mnt"
mkfifo "$work/ctl" "$work/ack"
cc -O2 -fno-omit-frame-pointer -D_GNU_SOURCE "$here/burn.c" -o "$work/burn"
"$build/pmcfs" -f -o backend=perf "$mnt" >"$work/log" 2>&1 &
daemon=$!
until mountpoint -q "$mnt"; do
    kill -0 "$daemon" 2>/dev/null || { cat "$work/log" >&2; exit 1; }
    sleep 0.1
done

echo "$rate Hz on each of $(nproc) CPUs for $each s; kernel $(uname -r); load $(cut -d' ' -f1 /proc/loadavg)"
round=1
while [ "$round" -le "$rounds" ]; do
    for chains in $settings; do
        echo "round $round, call chains $chains"
        with_chains side_by_side
        echo "round $round, call chains $chains, as text"
        with_chains text_side_by_side
    done
    round=$((round + 1))
done
[ "$turns" -gt 1 ] || exit 0
for chains in $settings; do
    echo "each page fault sampled, call chains $chains"
    with_chains sample_cost
    echo "$turns turns, call chains $chains"
    with_chains turn_about
done
