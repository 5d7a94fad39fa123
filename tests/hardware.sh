#!/bin/sh
# For owners of real machines: tests that need a real PMU. Prints a report of one page for the project: the hardware, the
# promises that hold, and those that differ.
#
#   sh tests/hardware.sh [BUILD-DIRECTORY]
#
# Run it as root after `meson setup build && ninja -C build`. It mounts pmcfs on a temporary directory, starts test
# programs, and removes everything; no setting of the machine changes. It takes one or two minutes. LOAD is the program
# that executes instructions, if it is already built, N their number, CPU the CPU (unset: any). The exit status is 0 if no
# promise differs.
# shellcheck disable=SC2086,SC2154 # N is one word; PID_p is set by run
set -u
export LC_ALL=C

ROOT=$(cd "$(dirname "$0")/.." && pwd)
PMCFS=${1:-$ROOT/build}/pmcfs
MILLION=1000000
N=${N:-$((50 * MILLION))}

[ "$(id -u)" = 0 ] || {
    echo "hardware.sh: only root can mount pmcfs" >&2
    exit 2
}
[ -x "$PMCFS" ] || {
    echo "hardware.sh: there is no $PMCFS: meson setup build && ninja -C build" >&2
    exit 2
}
T=$(mktemp -d) M=$T/pmc DAEMON='' PIDS=''
mkdir "$M"
: >"$T/results"

# shellcheck disable=SC2317 # the trap calls it
leave() {
    # shellcheck disable=SC2086 # word splitting is intended
    [ -z "$PIDS" ] || kill $PIDS 2>/dev/null
    [ -z "$DAEMON" ] || { kill "$DAEMON" 2>/dev/null; wait "$DAEMON"; }
    rm -rf "$T"
}
trap leave EXIT
trap 'exit 130' INT TERM HUP

# ---- results ----

# report RESULT NAME SENTENCE
report() {
    echo "$1" >>"$T/results"
    printf '%-8s %-22s %s\n' "$1" "$2" "$3"
}

# promise NAME SENTENCE COMMAND…: it held if the command succeeds.
promise() {
    name=$1 sentence=$2
    shift 2
    if "$@"; then report held "$name" "$sentence"; else report DIFFERS "$name" "$sentence"; fi
}

# near ACTUAL EXPECTED PER-MILLE
near() {
    awk -v a="$1" -v e="$2" -v p="$3" 'BEGIN { d = a > e ? a - e : e - a; exit !(a ~ /^[0-9]+$/ && d * 1000 <= e * p) }'
}

between() { awk -v a="$1" -v low="$2" -v high="$3" 'BEGIN { exit !(a ~ /^[0-9]+$/ && a >= low && a <= high) }'; }

# ---- the tree ----

# put FILE TEXT: one write. If it is refused, REFUSAL is the content of `error`.
put() {
    REFUSAL=
    (printf '%s\n' "$2" >"$M/$1") 2>/dev/null && return
    REFUSAL=$(cat "$M/${1%/*}/error")
    return 1
}

# pmc NAME SETTINGS: creates and configures a PMC; if that is refused, there is none.
pmc() {
    mkdir "$M/$1" && put "$1/config" "$2" && return
    rmdir "$M/$1"
    return 1
}

count() { cat "$M/$1/count"; }
status() { sed -n "s/^$2 //p" "$M/$1/status"; }
info() { sed -n "s/^$1 //p" "$M/info/$2"; }
release() { for pmc in "$@"; do rmdir "$M/$pmc"; done; }

# hardware_classes: prints the classes of the processors' cores.
hardware_classes() { awk '$2 == "rows" && $3 > 0 && $1 != "generic" { print $1 }' "$M/info/classes"; }

# class_cpu CLASS: prints the first CPU that has it.
class_cpu() { sed -n "s/^$1 .* cpus \([0-9]*\).*/\1/p" "$M/info/classes"; }

# ---- programs ----

# run NAME [WORDS]: starts $LOAD, which executes the commands that it reads; PID_NAME is its PID.
# command NAME WORDS…: sends it a command, and waits for the answer.
run() {
    name=$1
    shift
    mkfifo "$T/$name.in" "$T/$name.out"
    "$LOAD" "$@" <>"$T/$name.in" 1<>"$T/$name.out" &
    PIDS="$PIDS $!"
    eval "PID_$name=$!"
    read -r _ <"$T/$name.out"
}

command() {
    name=$1
    shift
    echo "$*" >"$T/$name.in"
    read -r _ <"$T/$name.out"
}

# ---- promises ----

counts_exactly() {
    pmc i "event=instructions:u target=$PID_p" || { report DIFFERS instructions "$REFUSAL"; return; }
    command p work $N
    promise instructions "$N executed, $(count i) counted" near "$(count i)" $N 1
    command p threads 4
    before=$(count i)
    command p each $N
    after=$(count i)
    promise threads "4 threads executed $((4 * N)), $((after - before)) counted" near $((after - before)) $((4 * N)) 2
    release i
    pmc i "event=instructions:u descendants=on target=$PID_p"
    command p child $N
    promise children "a child executed $N, $(count i) counted" near "$(count i)" $N 20
    release i
}

reads_a_set_at_once() {
    pmc s "event=cycles:u,instructions:u target=$PID_p" || { report DIFFERS set "$REFUSAL"; return; }
    command p work $N
    ipc=$(awk '$1 == "ipc" { print $2 }' "$M/s/metrics")
    promise set "$(paste -s -d ' ' "$M/s/count") cycles and instructions, ipc $ipc" test "$ipc"
    release s
}

# Uses all counters of the machine for one program; the next PMC is refused, and the others continue.
fills_all_rows() {
    n=0
    while pmc "r$n" "event=instructions:u target=$PID_p"; do n=$((n + 1)); done
    promise rows "$n PMCs of instructions at once, info/npmc says $(cat "$M/info/npmc")" test $n -gt 0
    promise exhaustion "the next: $REFUSAL" test "$(echo "$REFUSAL" | cut -d ' ' -f 1-2)" = 'EBUSY E05'
    command p work $N
    i=0 bad=
    while [ $i -lt $n ]; do
        near "$(count r$i)" $N 2 && [ "$(status r$i partial)" = no ] ||
            bad="$bad r$i=$(count r$i),partial=$(status r$i partial)"
        release r$i
        i=$((i + 1))
    done
    promise "all count" "$N executed with all of them counting${bad:+; but$bad}" test -z "$bad"
}

shares_by_time() {
    n=0 bad=
    while [ $n -lt 16 ] && pmc "m$n" "event=instructions:u multiplex=on target=$PID_p"; do n=$((n + 1)); done
    command p work $((20 * N))
    while [ $n -gt 0 ]; do
        n=$((n - 1))
        near "$(count m$n)" $((20 * N)) 100 || bad="$bad $(count m$n)"
        release m$n
    done
    promise multiplex "16 estimates of $((20 * N)) within 10 %${bad:+; but$bad}" test -z "$bad"
}

samples_by_overflow() {
    period=200000
    pmc a "event=cycles:u period=$period target=$PID_p" || { report DIFFERS sampling "$REFUSAL"; return; }
    command p work $N
    put a/ctl stop
    grep -E '^[0-9.]+ sample ' "$M/a/samples" >"$T/samples"
    got=$(wc -l <"$T/samples") counted=$(count a)
    lost=$(($(status a kernel_lost) + $(status a log_lost) + $(status a throttled)))
    promise sampling "$counted cycles, one sample in $period: $got samples, $lost lost or throttled" \
        between $((got + lost)) $((counted * 9 / (10 * period))) $((counted * 11 / (10 * period) + 2))
    release a
}

# Prints the highest precision with which cycles can be sampled.
samples_precisely() {
    for word in ppp pp p; do
        pmc a "event=cycles:$word period=200000 user=on kernel=off target=$PID_p" || continue
        command p work $N
        put a/ctl stop
        report held precise ":$word gives $(grep -cE '^[0-9.]+ sample ' "$M/a/samples") samples"
        release a
        return
    done
    report "not here" precise "$REFUSAL"
}

# Every name in generic/ counts, or is refused with a reason.
counts_generic_names() {
    none='' refused='' all=0
    for event in "$M"/events/generic/*; do
        event=${event##*/} all=$((all + 1))
        pmc g "event=generic/$event target=$PID_p" || { refused="$refused $event"; continue; }
        command p work $MILLION
        [ "$(count g)" != 0 ] || none="$none $event"
        release g
    done
    promise "generic names" "$all names${none:+; 0 counted:$none}${refused:+; refused:$refused}" test -z "$refused"
}

# Counts up to three events of each class that is not of cores, on all CPUs.
counts_other_classes() {
    for class in "$M"/events/*; do
        class=${class##*/}
        case $class in generic | metric | software | tracepoint | breakpoint | mem) continue ;; esac
        ! hardware_classes | grep -qx "$class" || continue
        tried=0 fine='' REFUSAL="no event of it can be counted"
        for event in "$M/events/$class"/*; do
            { [ $tried -lt 3 ] && [ -e "$event" ]; } || break
            tried=$((tried + 1))
            pmc u "event=$(sed -n '1s/^event //p' "$event") target=all" || continue
            sleep 0.2
            fine="$fine ${event##*/}=$(count u | tr '\n' ' ')"
            release u
        done
        promise "class $class" "${fine:-$REFUSAL}" test "$fine"
    done
}

# A class of cores counts on its CPUs, and a generic event on all. "partial" is only printed.
counts_each_kind_of_core() {
    [ "$(hardware_classes | wc -l)" -gt 1 ] || { report "not here" hybrid "one kind of core"; return; }
    for class in $(hardware_classes); do
        command p cpu "$(class_cpu "$class")"
        pmc h "event=$class/instructions/u target=$PID_p" || { report DIFFERS "hybrid $class" "$REFUSAL"; continue; }
        command p work $N
        promise "hybrid $class" "$N executed on CPU $(class_cpu "$class"), $(count h) counted, partial $(status h partial)" \
            near "$(count h)" $N 1
        release h
    done
    all=0
    pmc h "event=instructions:u target=$PID_p" || { report DIFFERS "hybrid sum" "$REFUSAL"; return; }
    for class in $(hardware_classes); do
        command p cpu "$(class_cpu "$class")"
        command p work $N
        all=$((all + N))
    done
    promise "hybrid sum" "$all executed on all kinds of cores, $(count h) counted, partial $(status h partial)" \
        near "$(count h)" $all 1
    for class in $(hardware_classes); do
        part=$(awk -v target="all/$class" '$2 == target { print $3 }' "$M/h/detail")
        promise "hybrid part $class" "$N executed on these cores, $part counted" near "$part" $N 1
    done
    release h
}

survives_the_end_of_a_worker() {
    pmc w "event=instructions:u target=$PID_p" || { report DIFFERS replacement "$REFUSAL"; return; }
    for _ in 1 2 3 4 5; do
        # shellcheck disable=SC2046 # one word
        kill -9 $(cat "/proc/$DAEMON/task/$DAEMON/children")
        command p work $N
    done
    promise replacement "$((5 * N)) executed while the serving process was killed 5 times, $(count w) counted" \
        near "$(count w)" $((5 * N)) 2
    release w
}

# ---- the report ----

prints_the_host() {
    echo "pmcfs $(info pmcfs version) on $(uname -srm)"
    echo "processor: $(cat "$M/info/cpu")"
    echo "cpus: $(paste -s -d ' ' "$M/info/cpus"); counters per CPU: $(cat "$M/info/npmc")"
    echo "perf_event_paranoid $(cat /proc/sys/kernel/perf_event_paranoid), nmi_watchdog $(cat /proc/sys/kernel/nmi_watchdog 2>/dev/null || echo -)"
    sed 's/^/backend: /' "$M/info/backend"
    sed 's/^/class: /' "$M/info/classes"
    awk 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next } $at["state"] == "foreign" { n++ }
        END { print "rows that others hold: " n + 0 }' "$M/info/rows"
    for class in "$M"/events/*; do echo "${class##*/} $(find "$class" -type f | wc -l)"; done |
        awk '{ printf "%s%s %s", NR == 1 ? "events: " : ", ", $1, $2 } END { print "" }'
    echo
}

if [ -z "${LOAD-}" ]; then
    LOAD=$T/load
    ${CC:-cc} -std=gnu11 -D_GNU_SOURCE -O2 -pthread -o "$LOAD" "$ROOT/tests/guest/load.c" || exit 2
fi
"$PMCFS" -f "$M" 2>"$T/daemon" &
DAEMON=$!
until [ -e "$M/info/version" ]; do
    kill -0 $DAEMON 2>/dev/null || { cat "$T/daemon" >&2; exit 2; }
    sleep 0.1
done
prints_the_host
run p ${CPU:+cpu $CPU}
if [ -z "$(hardware_classes)" ]; then
    report "not here" "a PMU" "$(sed -n 's/^hardware_pmu no: //p' "$M/info/backend")"
else
    counts_exactly
    reads_a_set_at_once
    fills_all_rows
    shares_by_time
    samples_by_overflow
    samples_precisely
    counts_generic_names
    counts_each_kind_of_core
    survives_the_end_of_a_worker
fi
counts_other_classes
echo
echo "$(grep -c '^held' "$T/results") held, $(grep -c '^DIFFERS' "$T/results") differ, $(grep -c '^not here' "$T/results") not here"
! grep -q '^DIFFERS' "$T/results"
