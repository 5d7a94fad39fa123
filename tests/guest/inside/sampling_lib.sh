# shellcheck shell=dash disable=SC2034,SC2086,SC2119,SC2120,SC2154
# What the tests of sampling are written with.
#
# What can be relied on here, measured: the cycle counter interrupts when it overflows, so the samples
# of cycles are as many as count / period. A general counter's overflow is noticed only when something
# else touches the PMU: another overflow, or the kernel's tick every 4 ms. Sampled alone instructions
# give one sample a tick, whatever their period; in one set with cycles of the same period all of them.
# Where both count cycles the kernel gives the cycle counter to the event that was opened first, so the
# sampler is opened before the counter it is compared with. A cycle is a nanosecond of virtual time,
# which passes for both CPUs, whichever of them runs: programs run one at a time.

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

# log_of NAME: all of a log that has ended, in $T/log.
log_of() {
    timeout 60 cat "$M/$1/samples" >"$T/log" || die "samples does not end"
}

# taken [REGEX]: samples of the log, of one kind or all.
taken() {
    awk -v regex="${1:-.}" '$2 == "sample" && $0 ~ regex { n++ } END { print n + 0 }' "$T/log"
}

# in_loop: those that were taken while load did what it is told to: in a "subs" or the "b.ne" back to it
# that follows. The log says which file was where.
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

# dropped WHERE: samples that were lost there, as the log tells.
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

# stat NAME: of info/stats.
stat() { sed -n "s/^$1 //p" "$M/info/stats"; }
