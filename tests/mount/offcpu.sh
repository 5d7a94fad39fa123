# shellcheck shell=bash disable=SC2016
# offcpu=on: the time that threads wait, by the stack with which they left the CPU.

# shellcheck source=tests/mount/sampling_lib.sh
. "${BASH_SOURCE[0]%/*}/sampling_lib.sh"

# waits PMC SETTING…: creates a PMC with offcpu=on
waits() { pmc "$1" event=context-switches callchain=on offcpu=on "${@:2}"; }

# folded PMC [NAME]: the sum of the weights in samples.folded, or of those of this program.
folded() {
    awk -v name="${2:-}" 'name == "" || index($0, name ";") == 1 { n += $NF } END { printf "%.0f\n", n }' "$M/$1/samples.folded"
}

# off NAME [REASON]: the sum of off_ns in its log.
off() {
    awk -v reason="reason=${2:-}" '$2 == "run" && index($0, "off_ns=") && (reason == "reason=" || $NF == reason) {
        sub(/off_ns=/, "", $6); n += $6 } END { printf "%.0f\n", n }' "$T/$1.log"
}

# schedstat NAME FIELD: nanoseconds, 1 on a CPU, 2 ready to run and waiting for a CPU
schedstat() { awk -v field="$2" '{ print $field }' "/proc/${PID_OF[$1]}/schedstat"; }

now_ns() { echo "${EPOCHREALTIME/[.,]/}000"; }

# near VALUE EXPECTED PERCENT WHAT
near() { between "$1" $(($2 * (100 - $3) / 100)) $(($2 * (100 + $3) / 100)) "$4 (about $2)"; }

#@ slow alone
t_weights_are_the_time_off_the_cpu() {
    mount_pmcfs
    target_start p
    local cpu begin open switches ready
    waits a "target=${PID_OF[p]}"
    is "$(cat "$M/a/mode")" process-sampling
    cpu=$(schedstat p 1) ready=$(schedstat p 2) switches=$(switches p)
    tell p sleep 300
    leaves_cpu p
    ctl a stop
    cpu=$(($(schedstat p 1) - cpu)) ready=$(($(schedstat p 2) - ready)) switches=$(($(switches p) - switches))
    log a
    between "$(of a run)" 300 "$switches"
    between "$(of a callchain)" 300 "$switches"
    # from its first switch to the stop
    begin=$(awk '$2 == "callchain" && !t { t = $1 } $2 == "stop" { printf "%.0f\n", ($1 - t) * 1e9 }' "$T/a.log")
    near "$(folded a)" $((begin - cpu)) 5 "waited"
    # The wait that is open at the stop has a weight but no record. A reload, which asan has before each command, loses the
    # off_ns of the wait that is open at that moment.
    open=$(awk '$2 == "callchain" { t = $1 } $2 == "run" { t = "" } $2 == "stop" { printf "%.0f\n", t == "" ? 0 : ($1 - t) * 1e9 }' "$T/a.log")
    [[ $VARIANT == asan ]] || near "$(($(off a) + open))" "$(folded a)" 5 "the sum of the log"
    between "$(($(off a) - $(off a sleep)))" 0 $((ready + $(off a) / 50)) "where it was not asleep but ready to run, for $ready ns"
    is "$(cut -d';' -f1 "$M/a/samples.folded" | sort -u)" target
    perf script -i - <"$M/a/samples.perf" >"$T/script" 2>&1
    is "$(grep -c context-switches "$T/script")" "$(of a callchain)" "samples for perf"
}

#@ slow alone
t_a_thread_that_shares_a_cpu_is_preempted() {
    mount_pmcfs
    target_start p
    target_start q
    pinned p 0
    pinned q 0
    local ready
    tell p faults 1
    waits a "target=${PID_OF[p]}"
    ready=$(schedstat p 2)
    printf 'spin 100000\n' >&"${IN[q]}"
    tell p spin 1500
    ctl a stop
    ready=$(($(schedstat p 2) - ready))
    log a
    between "$(of a run 'reason=preempt')" 10 100000
    near "$(off a preempt)" "$ready" 10 "ready to run"
}

#@ slow alone
t_waits_of_descendants_are_in_their_stacks() {
    mount_pmcfs
    cp "$(command -v sleep)" "$T/waiter"
    pmc a event=context-switches callchain=on offcpu=on descendants=on
    local elapsed
    elapsed=$(now_ns)
    sh -c 'echo self >"$1/a/target"; "$2" 0.5 & "$2" 0.5; wait' - "$M" "$T/waiter"
    eventually 5 '[[ $(state a) == exited ]]'
    elapsed=$(($(now_ns) - elapsed))
    between "$(folded a waiter)" 1000000000 $((2 * elapsed)) "two in $elapsed ns"
    between "$(folded a sh)" 490000000 "$elapsed"
}

#@ slow alone
t_a_wait_lasts_until_the_stop() {
    mount_pmcfs
    target_start p
    waits a "target=${PID_OF[p]}"
    local before elapsed
    elapsed=$(now_ns)
    tell p faults 1
    sleep 0.5
    ctl a stop
    elapsed=$(($(now_ns) - elapsed))
    between "$(folded a)" 450000000 "$elapsed"
    before=$(folded a)
    sleep 0.5
    is "$(folded a)" "$before" "after the stop"
    elapsed=$(now_ns)
    ctl a start
    tell p faults 1
    ctl a stop
    elapsed=$(($(now_ns) - elapsed))
    log a
    between "$(folded a)" "$before" $((before + elapsed)) "without the time while it was stopped"
}

#@ slow alone
t_waits_outlive_the_worker() {
    SUPERVISED=1 mount_pmcfs
    talker_start p sh -c 'echo ready; read -r _; sleep 0.8; echo done'
    pmc a event=context-switches callchain=on offcpu=on descendants=on "target=${PID_OF[p]}"
    local elapsed
    elapsed=$(now_ns)
    echo go >&"${IN[p]}"
    sleep 0.3
    kill -KILL "$(cat "/proc/$DAEMON/task/$DAEMON/children")"
    read -r -t 60 -u "${OUT[p]}" _
    ctl a stop
    elapsed=$(($(now_ns) - elapsed))
    between "$(folded a sleep)" 790000000 "$elapsed"
}

t_offcpu_is_refused_for_other_events_periods_and_cpus() {
    mount_pmcfs
    local setting
    for setting in event=page-faults event=context-switches,page-faults 'event=context-switches period=2' \
        'event=context-switches freq=100' 'event=context-switches target=cpu0'; do
        mkdir "$M/a"
        # shellcheck disable=SC2086 # words are wanted
        refused EINVAL P07 "$M/a/config" "$setting offcpu=on"
        like "$(cat "$M/a/error")" 'offcpu=on'
        rmdir "$M/a"
    done
    pmc a event=context-switches period=1 offcpu=on
    accepted "$M/a/config" offcpu=off
    accepted "$M/a/config" event=page-faults
    refused EINVAL P07 "$M/a/config" offcpu=on
}
