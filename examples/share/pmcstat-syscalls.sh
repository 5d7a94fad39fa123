# shellcheck shell=sh
# pmcstat --syscalls: calls, errors and times of system calls, from samples of two tracepoints. Sourced after common.sh.
# shellcheck disable=SC2154,SC2034 # what pmcstat and its options set, what common.sh and pmcstat read

# syscall_names: prints lines "NUMBER NAME" of this host's processor, from the C compiler's headers, or nothing.
syscall_names() {
    printf '#include <sys/syscall.h>\n' | cc -E -dM - 2>/dev/null | sed -n 's/^#define __NR_\([a-z0-9_]*\) \([0-9]*\)$/\2 \1/p'
}

# Creates a PMC for each tracepoint, and starts perf script as the reader of each log.
make_syscall_pmcs() {
    command -v perf >/dev/null || fail '--syscalls needs perf, which decodes the fields of tracepoints: install it (Debian: linux-perf)'
    names='' members='' samplers='' logged='' columns='' unsupported=''
    start=exec rest=''
    [ -z "$pids" ] || start=now rest=autostart=off
    [ "$pids" ] || was_given d || descendants=on
    need_scratch
    for side in enter exit; do
        pmc_new "event=raw_syscalls:sys_$side" mode=TS period=1 raw=on callchain=off "descendants=${descendants:-off}" \
            "start=$start" "$rest" interval=3600000 || fail "--syscalls: $refusal"
        names="$names${names:+ }$new" members=$names logged=$names
        [ -z "$pids" ] || put "$PMC/$new/target" "$pids"
        perf script --ns -F tid,time,event,trace -i - <"$PMC/$new/samples.perf" >"$scratch/$side" 2>"$scratch/messages" 3>&- &
        readers="$readers $!"
    done
    clock_file=$PMC/${names%% *}/detail
}

# A call is counted when it returns, as by strace -c. One that had started before has no time.
print_syscalls() {
    syscall_names >"$scratch/names"
    LC_ALL=C sort -s -k 2,2n "$scratch/enter" "$scratch/exit" | LC_ALL=C awk '
        FILENAME != "-" { name[$1] = $2; next }
        { split($2, at, /[.:]/); if (!first) first = at[1]; ns = (at[1] - first) * 1e9 + at[2] }
        $3 ~ /sys_enter:$/ { entered[$1] = ns; number_of[$1] = $5; next }
        $3 ~ /sys_exit:$/ {
            calls[$5]++
            if ($7 < 0 && $7 >= -4095) errors[$5]++
            if (($1 in entered) && number_of[$1] == $5) { time[$5] += ns - entered[$1]; timed[$5]++ }
            delete entered[$1]
        }
        END {
            for (n in calls)
                printf "%d\t%.6f\t%s\t%d\t%d\t%s\n", time[n], time[n] / 1e9, timed[n] ? sprintf("%.3f", time[n] / timed[n] / 1e3) : "-", \
                    calls[n], errors[n], n in name ? name[n] : "syscall_" n
        }' "$scratch/names" - | LC_ALL=C sort -k 1,1nr -k 6 | LC_ALL=C awk -F "$tab" '
        BEGIN { printf "%12s %12s %10s %10s  %s\n", "seconds", "usecs/call", "calls", "errors", "syscall" }
        { printf "%12s %12s %10d %10s  %s\n", $2, $3, $4, $5 ? $5 : "", $6; seconds += $2; calls += $4; errors += $5 }
        END { printf "%12.6f %12s %10d %10s  total\n", seconds, "", calls, errors ? errors : "" }' >&3 || unwritable
}
