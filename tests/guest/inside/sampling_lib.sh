# shellcheck shell=dash disable=SC2034,SC2086,SC2119,SC2120,SC2154
# Helpers for the tests of sampling.
#
# Measured behaviour of this machine: the cycle counter interrupts when it overflows, so cycles have count / period
# samples. The overflow of another counter is noticed only when something else touches the PMU: another overflow, or the
# tick of the kernel every 4 ms. So instructions by themselves have one sample per tick, whatever their period; in a set
# with cycles of the same period they have all samples. If two events count cycles, the first opened one gets the cycle
# counter, so a sampler is opened before the counter that it is compared with. A cycle is a nanosecond of virtual time,
# which passes for both CPUs whichever of them runs: programs run one at a time.

N=$((20 * MILLION))
P=100000
S=$((N / P)) # samples of N

# The kernel lowers its highest rate for good when interrupts take long, which they do in virtual time.
any_rate() {
    echo 25 >/proc/sys/kernel/perf_cpu_time_max_percent
    echo ${1:-100000} >/proc/sys/kernel/perf_event_max_sample_rate
    echo 0 >/proc/sys/kernel/perf_cpu_time_max_percent
}

sampling() {
    any_rate
    mount_pmcfs "${1-}"
}

# log_of NAME: copies a finished log to $T/log.
log_of() {
    timeout 60 cat "$M/$1/samples" >"$T/log" || die "samples does not end"
}

# taken [REGEX]: prints the number of samples in the log whose line matches.
taken() {
    awk -v regex="${1:-.}" '$2 == "sample" && $0 ~ regex { n++ } END { print n + 0 }' "$T/log"
}

# in_loop: prints the number of samples in the loop of load: at a "subs" or the following "b.ne". Mappings are in the log.
in_loop() {
    local start offset n ip code sum=0
    eval "$(awk '$2 == "map-in" && $NF == "path=/bin/load" { print $4, $6; exit }' "$T/log")"
    awk '$2 == "sample" { sub(/.* ip=/, ""); if (length($1) == 8) n[$1]++ }
        END { for (ip in n) print n[ip], ip }' "$T/log" >"$T/ips"
    while read -r n ip; do
        code=$(dd if=/bin/load bs=4 skip=$(((ip - start + offset) / 4)) count=2 2>/dev/null |
            od -A n -t x4 | xargs)
        case $code in
        54ffffe1\ * | f1000???\ 54ffffe1) sum=$((sum + n)) ;;
        esac
    done <"$T/ips"
    echo $sum
}

# dropped WHERE: prints the number of samples lost at this place according to the log.
dropped() {
    awk -v where="where=$1" '$2 == "drop" && $4 == where { sub(/lost=/, "", $3); n += $3 }
        END { print n + 0 }' "$T/log"
}

# nothing_lost NAME
nothing_lost() {
    for name in kernel_lost log_lost throttled; do
        is "$(status "$1" $name)" 0 "$1: $name"
    done
}

# stat NAME: prints this value of info/stats.
stat() { sed -n "s/^$1 //p" "$M/info/stats"; }
