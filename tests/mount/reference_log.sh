# shellcheck shell=bash disable=SC2016,SC2034
# The log and sampling of hwpmc (OP, F, ST, V, T), the records of pmclog (L) and libpctx's events
# (CX). Further cases of FreeBSD's own tests are in reference_tests.sh.
# shellcheck source=tests/mount/reference_lib.sh
. "${BASH_SOURCE[0]%/*}/reference_lib.sh"

# ---- operations ----

t_h04_counting_or_sampling_with_either_scope() {
    mount_pmcfs
    target_start p
    tell p spin 10
    pmc tc event=task-clock mode=TC "target=${PID_OF[p]}"
    pmc ts event=task-clock mode=TS "target=${PID_OF[p]}"
    pmc sc event=cpu-clock mode=SC target=cpu0
    pmc ss event=cpu-clock mode=SS target=cpu0
    tell p spin 200
    local name
    for name in tc ts sc ss; do
        ctl "$name" stop
    done
    is "$(status ts scope) $(status ss scope)" 'process system'
    for name in tc sc; do
        between "$(count "$name")" 1 1000000000000
        is "$(log "$name" | of sample)" ''
    done
    for name in ts ss; do
        between "$(count "$name")" 1 1000000000000
        is "$(result write "$M/$name/count" 5)" EINVAL
        [[ $(log "$name" | of sample) ]] || die "$name has no sample"
    done
    is "$(log ts | of sample | grep -vc " pid=${PID_OF[p]} " || :)" 0 'samples of others'
    is "$(log ss | of sample | grep -vc ' cpu=0 ' || :)" 0 'samples of other CPUs'
}

t_op01_b12_a_log_starts_stops_and_starts_again() {
    mount_pmcfs
    pmc a event=page-faults log=off
    is "$(result write "$M/a/samples" zero)" EINVAL
    accepted "$M/a/config" log=on
    accepted "$M/a/samples" one
    ctl a close
    is "$(setting a log)" off
    is "$(result write "$M/a/samples" two)" EINVAL
    accepted "$M/a/config" log=on
    accepted "$M/a/samples" three
    log a | awk 'NR > 1 { print $2, $3 }' >"$T/log"
    is "$(xargs <"$T/log")" 'user text=one close user text=three'
}

# least_sum N: the least sum of switch records of one thread: under asan 0, because values right after a reload are missing.
least_sum() {
    [[ $VARIANT == asan ]] && echo 0 || echo "$1"
}

t_op03_b10_a_closed_log_has_its_last_record() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults log-exit=on "target=${PID_OF[p]}"
    pmc b event=page-faults "target=${PID_OF[p]}"
    steady EBUSY P06 "$M/a/config" log=off
    ctl a close
    ctl b close
    # PMCs that need a log are stopped, others continue; records stay.
    is "$(state a) $(state b)" 'stopped running'
    local name
    for name in a b; do
        log $name >"$T/log"
        is "$(sed -n '$s/^[^ ]* //p' "$T/log")" close "the last of $name"
        in_order ' allocate ' ' attach ' ' start$' ' close$'
    done
    tell p faults 10
    target_end p
    ended b
    is "$(log b | tail -1 | cut -d' ' -f2)" close 'nothing comes after it'
}

t_op04_l13_a_record_of_the_users_has_its_time_and_text() {
    mount_pmcfs
    pmc a event=page-faults
    local before after time
    before=$(python3 -c 'import time; print(time.monotonic_ns())')
    accepted "$M/a/samples" 'begin phase=2'
    after=$(python3 -c 'import time; print(time.monotonic_ns())')
    like "$(log a | tail -1)" '^[0-9]+\.[0-9]{9} user text=begin\\040phase\\0752$'
    time=$(log a | tail -1 | cut -d' ' -f1)
    between "${time/./}" "$before" "$after"
}

# ---- flags ----

t_f02_f03_l08_l10_steps_and_the_count_at_the_exit() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults log-csw=on log-exit=on "target=${PID_OF[p]}"
    tell p faults 200
    tell p sleep 20
    target_end p
    ended a
    log a >"$T/log"
    local steps
    steps=$(of csw "pid=${PID_OF[p]}" "tid=${PID_OF[p]}" <"$T/log" | sed 's/.* count=\([0-9]*\).*/\1/')
    between "$(wc -l <<<"$steps")" 20 100 'steps, one for each time it slept at least'
    between "$(paste -sd+ <<<"$steps" | bc)" "$(least_sum 200)" "$(count a)" 'their sum'
    is "$(of exit "pid=${PID_OF[p]}" <"$T/log" | wc -l)" 1 'exits'
    like "$(of exit "pid=${PID_OF[p]}" <"$T/log")" ' count=[0-9]+ exact=(yes|no)$'
}

t_f01_f02_f03_a_pipeline_is_logged_process_by_process() {
    mount_pmcfs
    pmc a event=page-faults start=exec descendants=on log-exit=on
    run a sh -c 'echo x | cat | cat >/dev/null; :'
    ended a
    log a >"$T/log"
    between "$(of exit <"$T/log" | grep -vc 'pid=-')" 3 4 'processes that ended'
    is "$(of fork <"$T/log" | wc -l)" "$(($(of exit <"$T/log" | grep -vc 'pid=-') - 1))" 'forks'
    is "$(of exit <"$T/log" | sed 's/.* count=\([0-9]*\).*/\1/' | paste -sd+ | bc)" "$(count a)"
}

# ---- when a log is needed ----

t_x14_b04_a_user_at_the_limit_of_logs_gets_the_reason() {
    mount_pmcfs -o max_log_per_user=600
    pmc a event=page-faults
    is "$(result fill "$M/a/samples" 900 x)" ENOMEM
    like "$(<"$M/a/error")" '^ENOMEM X14 samples: .*max_log_per_user'
}

# ---- inventories, values, periods ----

t_st7_l14_l18_l20_existing_processes_are_logged_at_the_start_of_system_sampling() {
    mount_pmcfs
    target_start p
    tell p threads 2
    pmc a event=cpu-clock mode=SS freq=50 target=cpu0
    so_far a >"$T/log"
    is "$(of process "pid=${PID_OF[p]}" name=target <"$T/log" | wc -l)" 1 'the process'
    is "$(of thread "pid=${PID_OF[p]}" <"$T/log" | wc -l)" 2 'its threads'
    like "$(of map-in "pid=${PID_OF[p]}" <"$T/log")" ' start=0x[0-9a-f]+ end=0x[0-9a-f]+ offset=0x[0-9a-f]+ path=[^ ]*/target($|
)'
    like "$(of map-in pid=-1 <"$T/log")" ' path=\[kernel'
    in_order ' allocate ' ' attach ' ' start$' ' process '
    # A later process is logged when it starts.
    taskset -c 0 sh -c 'echo $$; exec /bin/true' >"$T/pid"
    eventually 30 'so_far a >"$T/log" && grep -q " exec pid=$(<"$T/pid") path=/[^ ]*/true" "$T/log"'
}

t_st7_the_maps_of_a_process_are_logged_at_the_attach_of_a_sampler() {
    mount_pmcfs
    target_start p
    target_start q
    pmc a event=cpu-clock freq=50 "target=${PID_OF[p]}"
    so_far a >"$T/log"
    between "$(of map-in "pid=${PID_OF[p]}" <"$T/log" | wc -l)" 2 100
    empty of map-in "pid=${PID_OF[q]}" <"$T/log"
    attach a "${PID_OF[q]}"
    between "$(so_far a | of map-in "pid=${PID_OF[q]}" | wc -l)" 2 100
}

t_v06_the_rest_of_a_period_is_kept_over_switches() {
    mount_pmcfs
    target_start p
    taskset -pc 0 "${PID_OF[p]}" # each CPU keeps a separate remainder
    pmc counted event=page-faults autostart=off "target=tid:${PID_OF[p]}"
    pmc sampled event=page-faults period=7 autostart=off "target=tid:${PID_OF[p]}"
    ctl sampled start
    ctl counted start
    # Fewer at a time than a period has.
    for _ in {1..40}; do
        tell p faults 2
    done
    ctl counted stop
    ctl sampled stop
    between "$(count counted)" 80 400
    local accounted # the kernel's losses, too
    accounted=$(($(log sampled | of sample period=7 | wc -l) + $(status sampled kernel_lost)))
    is "$accounted" $(($(count counted) / 7)) "samples of $(count counted)"
}

t_t08_a_small_period_is_raised_and_shown_in_status() {
    mount_pmcfs -o mincount=50000
    target_start p
    pmc a event=task-clock period=10 "target=${PID_OF[p]}"
    is "$(setting a period)" 10
    like "$(status a sampling)" '^period 50000 \(asked 10, mincount\)'
    tell p spin 50
    ctl a stop
    # 50 ms at one in 50 µs, not in 10 ns.
    between "$(log a | of sample period=50000 | wc -l)" 100 2000
    is "$(log a | of sample | grep -vc period=50000 || :)" 0
    # Later changes are checked with the new value.
    accepted "$M/admin/tunables/mincount" 20000
    accepted "$M/a/config" period=30000
    unlike "$(status a sampling)" mincount
    # mincount does not apply to page faults.
    pmc b event=page-faults period=1
    unlike "$(status b sampling)" mincount
}

# ---- libpctx ----

# changing NAME: runs a program with threads as the target of the PMC. Two of its execs fail, the third succeeds.
changing() {
    cat >"$T/changing.py" <<'P'
import os, sys, threading, time
with open(sys.argv[1] + "/target", "w") as f: f.write("self")
others = [threading.Thread(target=lambda: time.sleep(20), daemon=True) for _ in range(3)]
for t in others: t.start()
for path in "/nonexistent", "/etc/passwd":
    try: os.execv(path, ["x"])
    except OSError: pass
time.sleep(0.01)
pid = os.fork()
if pid == 0: os._exit(0)
os.waitpid(pid, 0)
os.execv("/bin/sh", ["sh", "-c", "sleep 0.01; :"])
P
    timeout 30 /usr/bin/python3 -B "$T/changing.py" "$M/$1"
    ended "$1"
    log "$1" >"$T/log"
}

t_cx3_l07_l09_l11_l12_each_event_has_its_record() {
    mount_pmcfs
    pmc a event=page-faults log-csw=on log-exit=on descendants=on
    changing a
    local pid
    pid=$(of attach <"$T/log" | sed 's/.* pid=//')
    between "$(of thread "pid=$pid" <"$T/log" | wc -l)" 3 3 'threads that were made'
    is "$(of exec "pid=$pid" <"$T/log" | sed 's/.* path=//; s,.*/,,')" dash 'what was executed'
    is "$(of fork "pid=$pid" <"$T/log" | wc -l)" 2 'children'
    is "$(of exit "pid=$pid" <"$T/log" | wc -l)" 1 'its end'
    is "$(of detach "pid=$pid" reason=exited <"$T/log" | wc -l)" 1
}

# Only plain: threads that exit during a reload share one line with pid=-.
#@ plain
t_cx6_threads_end_before_the_exec_that_succeeds() {
    exits_are_logged || skip 'the kernel does not report last values'
    with_tracefs
    mount_pmcfs
    pmc a event=page-faults log-csw=on descendants=on
    changing a
    local pid
    pid=$(of attach <"$T/log" | sed 's/.* pid=//')
    # Failed execs are not logged, and all threads continue.
    is "$(of exec "pid=$pid" <"$T/log" | wc -l)" 1 'execs'
    is "$(sed "/ exec pid=$pid /q" "$T/log" | of csw "pid=$pid" last=yes | wc -l)" 3 'threads that ended before'
    [[ $(sed "1,/ exec pid=$pid /d" "$T/log" | of csw "pid=$pid" "tid=$pid") ]] || die 'the one thread does not continue'
    is "$(sed "1,/ exec pid=$pid /d" "$T/log" | of csw "pid=$pid" last=yes | wc -l)" 1
}

exits_are_logged() {
    python3 -c 'import os, sys; sys.exit(tuple(map(int, os.uname().release.split(".")[:2])) < (6, 16))'
}

# Only plain: threads that exit during a reload share one line with pid=- and exact=no.
#@ plain
t_cx7_l19_threads_end_before_their_process() {
    exits_are_logged || skip 'the kernel does not report last values'
    with_tracefs
    mount_pmcfs
    target_start p
    tell p threads 3
    pmc a event=page-faults log-csw=on log-exit=on "target=${PID_OF[p]}"
    tell p each 10
    target_end p
    ended a
    log a >"$T/log"
    is "$(sed '/ exit pid=/q' "$T/log" | of csw last=yes | wc -l)" 4 'threads that ended before'
    is "$(sed '1,/ exit pid=/d' "$T/log" | of csw | grep -v 'pid=-')" '' 'steps after it'
    in_order ' csw .* last=yes' ' exit pid=' ' detach .* reason=exited'
}

t_cx8_a_failed_fork_is_not_logged_and_a_child_is_logged_once() {
    mount_pmcfs
    pmc a event=page-faults descendants=on log-exit=on
    chmod 777 "$M/a"
    # Limits are not for root.
    as "$ALICE" /usr/bin/python3 -B - "$M/a/target" >"$T/children" <<'P'
import os, resource, sys
with open(sys.argv[1], "w") as f: f.write("self")
def bear():
    pid = os.fork()
    if pid == 0: os._exit(0)
    print(pid, flush=True)
    os.waitpid(pid, 0)
for _ in range(3): bear()
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
try: bear()
except BlockingIOError: print("refused", flush=True)
P
    ended a
    log a >"$T/log"
    is "$(tail -n 1 "$T/children")" refused
    is "$(of fork <"$T/log" | sed 's/.*child=//' | xargs)" "$(head -n 3 "$T/children" | xargs)"
    is "$(of exit <"$T/log" | grep -vc pid=-)" 4
    empty of thread <"$T/log"
}

# ---- all the records ----

t_l01_l03_l05_l06_l17_the_records_of_a_life() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults event=context-switches log-exit=on "target=${PID_OF[p]}"
    ctl a stop
    ctl a start
    target_end p
    ended a
    ctl a close
    log a >"$T/log"
    is "$(awk '$3 != "pid=-" { print $2 }' "$T/log" | grep -vx -e process -e thread | xargs)" \
        'initialize allocate attach start stop start exit detach stop close'
    like "$(of allocate <"$T/log")" ' allocate event=page-faults,context-switches$'
    like "$(of attach <"$T/log")" " attach target=${PID_OF[p]} pid=${PID_OF[p]}\$"
}

t_l07_each_way_to_lose_a_target_has_its_reason() {
    mount_pmcfs
    set_id suid-target "$HELPERS/target"
    local way
    for way in taken-back detached exited exec-privileged; do
        target_start "$way" "$ALICE"
        as "$ALICE" mkdir "$M/$way"
        is "$(result_as "$ALICE" write "$M/$way/config" "event=page-faults period=1 target=${PID_OF[$way]}")" ok
        case $way in
        taken-back) attach $way "-${PID_OF[$way]}" ;;
        detached) ctl $way detach ;;
        exited) target_end $way ;;
        exec-privileged) tell $way run "$T/suid-target" ;;
        esac
        eventually 5 "[[ \$(cat '$M/$way/target') == '' ]]"
        eventually 5 "[[ \$(so_far $way | of detach) ]]"
        so_far $way >"$T/log-$way"
        is "$(of detach "pid=${PID_OF[$way]}" <"$T/log-$way" | wc -l)" 1 "$way"
    done
    is "$(sed -n 's/.* detach .* reason=//p' "$T"/log-{taken-back,detached,exited,exec-privileged} | xargs)" \
        'command command exited exec-privileged'
}

t_l07_a_counting_pmc_logs_which_target_has_exited() {
    mount_pmcfs
    target_start p
    target_start q
    pmc a event=page-faults "target=${PID_OF[p]}" "target=${PID_OF[q]}"
    target_end p
    eventually 5 '[[ $(so_far a | of detach) ]]'
    is "$(so_far a | of detach "pid=${PID_OF[p]}" reason=exited | wc -l)" 1 'the first'
    target_end q
    eventually 5 '[[ $(state a) == exited ]]'
    so_far a >"$T/log"
    is "$(of detach "pid=${PID_OF[q]}" reason=exited <"$T/log" | wc -l) $(of detach <"$T/log" | wc -l)" '1 2'
    is "$(tail -1 "$T/log" | cut -d ' ' -f 2)" stop
}

t_l14_l15_executable_mappings_come_and_go() {
    mount_pmcfs
    pmc a event=cpu-clock freq=50
    cp "$HELPERS/io" "$T/one"
    cp "$HELPERS/io" "$T/two"
    cat >"$T/maps.py" <<'P'
import mmap, sys
with open(sys.argv[1] + "/a/target", "w") as f: f.write("self")
files = [open(name, "rb") for name in sys.argv[2:]]
# An unmapped range is noticed only when another mapping replaces it.
for f in files * 4:
    mmap.mmap(f.fileno(), 8192, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC).close()
P
    timeout 60 /usr/bin/python3 -B "$T/maps.py" "$M" "$T/one" "$T/two"
    ended a
    log a >"$T/log"
    in_order ' map-in .*/one$' ' map-out .*/one$' ' map-in .*/two$' ' map-out .*/two$'
    is "$(of map-out <"$T/log" | grep -m1 '/one$' | cut -d' ' -f3-)" \
        "$(of map-in <"$T/log" | grep -m1 '/one$' | cut -d' ' -f3-)"
}
