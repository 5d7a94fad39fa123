# shellcheck shell=bash disable=SC2016
# Shared by the sampling*.sh tests: programs with a hot function, and counting the lines of a log.

# hot_start NAME MS: starts a hot.c that will be busy for MS; PID_OF[NAME] is its PID.
hot_start() {
    talker_start "$1" "$HELPERS/hot" own "$2"
}

# log NAME: copies the complete log to $T/NAME.log, after a stop or the exit of the targets.
log() {
    timeout 30 cat "$M/$1/samples" >"$T/$1.log" || die "samples of $1 does not end"
}

# of NAME TYPE [KEY=VALUE]: prints the number of lines of a type (with this field) in $T/NAME.log, after `log NAME`.
# The type samples is sample and callchain.
of() {
    awk -v type="$2" -v only="${3:-}" '
        ($2 == type || type == "samples" && ($2 == "sample" || $2 == "callchain")) &&
        (only == "" || index($0 " ", " " only " ")) { n++ }
        END { print n + 0 }' "$T/$1.log"
}

# found NAME KEY: prints the different values of KEY in the samples of $T/NAME.log, in one line.
found() {
    awk -v key="$2=" '$2 == "sample" || $2 == "callchain" {
        for (i = 3; i <= NF; i++)
            if (index($i, key) == 1)
                print substr($i, length(key) + 1) }' "$T/$1.log" | sort -u | paste -sd' '
}

# value NAME [EVENT]: prints the count of a PMC that samples (or of one of its events), from `detail`.
value() {
    awk -F '\t' -v event="${2:-}" '
        $2 == "all" && (event == "" || $1 == event) { print $3; exit }' "$M/$1/detail"
}

# each_is_a_sample NAME: the log must have as many samples as were counted, and nothing may be lost.
each_is_a_sample() {
    log "$1"
    is "$(status "$1" kernel_lost)/$(status "$1" log_lost)/$(status "$1" hidden)" 0/0/0 "lost, hidden"
    is "$(of "$1" samples)" "$(value "$1")" "samples"
}

# each_is_logged NAME [PERCENT]: samples and losses of the kernel must add up to the count, with a tolerance of PERCENT
# if other tests run at the same time. The log may lose no record.
each_is_logged() {
    log "$1"
    is "$(status "$1" log_lost)/$(status "$1" hidden)" 0/0 "overrun, hidden"
    local all lost # the lost records are of all types
    all=$(value "$1")
    lost=$(($(status "$1" kernel_lost) + all * ${2:-0} / 100))
    between "$(of "$1" samples)" "$((all - (lost < all ? lost : all)))" "$all" "samples, of which $lost may be lost"
}

# short_children PMC…: runs a hundred short programs, one after the other, below a shell that is the target of these PMCs,
# which have start=exec. The PMCs are flushed four times, so that no buffer of the kernel overruns on a busy host. With
# asan there is no reload in between.
short_children() {
    local pmc
    talker_start shell sh -c 'for pmc; do echo self >"$pmc/target"; done
        exec sh -c "echo ready
            while read -r n; do while [ \$n != 0 ]; do sh -c \"exit 0\"; n=\$((n - 1)); done; echo ok; done"' - "${@/#/$M/}"
    for _ in 1 2 3 4; do
        tell shell 25
        for pmc; do ctl "$pmc" flush; done
    done
    hot_end shell
}

# switches NAME: the context switches of its main thread
switches() { awk '/ctxt_switches/ { n += $2 } END { print n }' "/proc/${PID_OF[$1]}/status"; }

# pinned NAME CPU: pins all threads of the program to this CPU.
pinned() { taskset -apc "$2" "${PID_OF[$1]}" >/dev/null; }

# pmc_on NAME SETTINGS…: creates a PMC with the program p as its target.
pmc_on() { pmc "$@" "target=${PID_OF[p]}"; }
