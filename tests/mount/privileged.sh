# shellcheck shell=bash disable=SC2016
# Programs that their user may not observe: the kernel removes the events and writes an EXIT record for a live process.

# shellcheck source=tests/mount/sampling_lib.sh
. "${BASH_SOURCE[0]%/*}/sampling_lib.sh"

# alices NAME SETTINGS…: creates a PMC of alice with her program p as its target.
alices() {
    as "$ALICE" mkdir "$M/$1"
    is "$(result_as "$ALICE" write "$M/$1/config" "${*:2} target=${PID_OF[p]}")" ok
}

# shell_waits SCRIPT: starts a shell p of ALICE that runs the script on command; $1 is the test's directory.
shell_waits() {
    rm -f "$T"/{go,answer}
    mkfifo -m 666 "$T"/{go,answer}
    as "$ALICE" sh -c "echo \$\$ >\"\$1/answer\"; read -r _ <\"\$1/go\"; $1" sh "$T" &
    JOB=$!
    read -r "PID_OF[p]" <"$T/answer"
}
shell_goes() { echo >"$T/go"; }

# exits_add_up NAME: exit records add up to the count.
exits_add_up() {
    is "$(awk '$2 == "exit" { for (i = 3; i <= NF; i++) if (sub(/^count=/, "", $i)) n += $i } END { print n + 0 }' \
        "$T/$1.log")" "$(count "$1")" "sum of exits of $1"
}

t_a_process_that_executes_a_privileged_program_has_not_exited() {
    mount_pmcfs
    set_id other "$HELPERS/target"
    target_start p "$ALICE"
    local pid=${PID_OF[p]} name
    alices exits event=page-faults log-exit=on
    alices samples event=page-faults period=1
    tell p faults 50
    tell p run "$T/other"
    for name in exits samples; do
        eventually 5 "[[ \$(state $name) == exited ]]"
        log $name
        is "$(of $name detach "pid=$pid") $(of $name detach reason=exec-privileged)" '1 1' "$name: why it left"
        is "$(of $name exit "pid=$pid")" 0 "$name: ends of a live one"
        is "$(of $name exec "pid=$pid")" 1 "$name: programs"
    done
    exits_add_up exits
    kill -0 "$pid"
}

#@ slow plain
t_a_privileged_program_that_exits_at_once_is_the_reason_of_the_detach() {
    mount_pmcfs
    set_id brief /bin/true
    local i
    for i in 1 2 3 4 5; do
        shell_waits 'exec "$1/brief"'
        alices "a$i" event=page-faults log-exit=on
        alices "s$i" event=cpu-clock freq=997
        shell_goes
        wait "$JOB"
        for name in "a$i" "s$i"; do
            eventually 5 "[[ \$(state $name) == exited ]]"
            log "$name"
            is "$(sed -n 's/.* reason=//p' "$T/$name.log")" exec-privileged "$name"
            is "$(of "$name" exit "pid=${PID_OF[p]}")" 0 "$name: ends"
        done
        exits_add_up "a$i"
    done
}

# Such a program may exit less than a millisecond after its exec.
#@ slow
t_a_counting_pmc_reports_a_privileged_program_that_exits_at_once() {
    mount_pmcfs
    set_id brief /bin/true
    local i
    as "$ALICE" mkdir "$M/a" "$M/d"
    is "$(result_as "$ALICE" write "$M/a/config" 'event=page-faults start=exec')" ok
    is "$(result_as "$ALICE" write "$M/d/config" 'event=page-faults descendants=on')" ok
    for i in {1..20}; do
        as "$ALICE" sh -c 'echo self >"$1/a/target" && echo self >"$1/d/target" && exec "$2/brief"' sh "$M" "$T"
        for name in a d; do
            eventually 5 "[[ \$(state $name) == exited ]]"
            is "$(status $name partial)" yes "$name, run $i"
            is "$(result_as "$ALICE" write "$M/$name/ctl" reset)" ok
            is "$(status $name partial)" no "$name, run $i, after reset"
        done
    done
    for name in a d; do
        log $name
        is "$(of $name detach) $(of $name detach reason=exec-privileged)" '20 20' "$name"
    done
}

# Only plain: a reload between the kernel's records about the child forgets the child.
#@ plain
t_a_privileged_child_that_exits_at_once_makes_the_count_partial() {
    mount_pmcfs
    set_id brief /bin/true
    local i
    as "$ALICE" mkdir "$M/a"
    is "$(result_as "$ALICE" write "$M/a/config" 'event=page-faults start=exec descendants=on')" ok
    for i in {1..20}; do
        as "$ALICE" sh -c 'echo self >"$1/a/target" && exec sh -c "$2/brief; :"' sh "$M" "$T"
        eventually 5 '[[ $(state a) == exited ]]'
        is "$(status a partial)" yes "run $i"
        is "$(result_as "$ALICE" write "$M/a/ctl" reset)" ok
    done
}

t_programs_that_exit_at_once_are_counted_completely() {
    mount_pmcfs
    local i
    as "$ALICE" mkdir "$M/a"
    is "$(result_as "$ALICE" write "$M/a/config" 'event=page-faults start=exec descendants=on')" ok
    for i in {1..20}; do
        as "$ALICE" sh -c 'echo self >"$1/a/target" && exec sh -c "/bin/true; /bin/true; exec /bin/true"' sh "$M"
        eventually 5 '[[ $(state a) == exited ]]'
        is "$(status a partial)" no "run $i"
    done
    log a
    is "$(of a detach) $(of a detach reason=exited)" '20 20'
}

t_a_child_that_executes_a_privileged_program_has_not_exited() {
    mount_pmcfs
    set_id sleeper /bin/sleep
    shell_waits '"$1/sleeper" 100 & echo $! >"$1/answer"; wait'
    alices a event=page-faults log-exit=on descendants=on
    alices s event=page-faults period=1 descendants=on
    shell_goes
    read -r child <"$T/answer"
    eventually 5 '[[ $(</proc/$child/comm) == sleeper ]]'
    for name in a s; do
        ctl $name stop
        log $name
        is "$(of $name fork "child=$child") $(of $name exit "pid=$child")" '1 0' "$name"
    done
    kill -KILL "$child"
    wait "$JOB"
}

t_a_thread_that_executes_a_privileged_program_has_not_exited() {
    mount_pmcfs
    set_id other "$HELPERS/target"
    target_start p "$ALICE"
    local pid=${PID_OF[p]}
    as "$ALICE" mkdir "$M/a"
    is "$(result_as "$ALICE" write "$M/a/config" "event=page-faults log-exit=on target=tid:$pid")" ok
    pmc root event=page-faults log-exit=on "target=tid:$pid"
    tell p faults 50
    tell p run "$T/other"
    eventually 5 '[[ $(state a) == exited ]]'
    eventually 5 "so_far root >'$T/root.log'; ((\$(of root attach tid=$pid) == 2))"
    tell p faults 50
    target_end p
    eventually 5 '[[ $(state root) == exited ]]'
    log a
    log root
    is "$(of a detach reason=exec-privileged) $(status a partial)" '1 yes'
    is "$(of root detach reason=exec-privileged) $(of root detach reason=exited) $(status root partial)" '1 1 yes'
    ((100 <= $(count root)))
}

# The guard of such a process is on another thread, also if the first one exits after the attach.
t_a_process_without_its_first_thread_executes_a_privileged_program() {
    mount_pmcfs
    set_id sleeper /bin/sleep
    mkfifo -m 666 "$T"/{go,answer}
    as "$ALICE" /usr/bin/python3 -c 'import ctypes, os, sys, threading
def other():
    gone.wait()
    open(sys.argv[1]).read()
    os.execv(sys.argv[3], ["sleeper", "100"])
gone = threading.Event()
threading.Thread(target=other).start()
open(sys.argv[2], "w").write(str(os.getpid()))
open(sys.argv[1]).read()
gone.set()
ctypes.CDLL(None)[sys.argv[4]](0)' "$T/go" "$T/answer" "$T/sleeper" pthread_exit &
    local pid name
    pid=$(<"$T/answer")
    as "$ALICE" mkdir "$M/before" "$M/after"
    is "$(result_as "$ALICE" write "$M/before/config" "event=page-faults log-exit=on target=$pid")" ok
    pmc root event=page-faults log-exit=on "target=$pid"
    echo >"$T/go"
    eventually 10 "grep -q '^State:.Z' /proc/$pid/status"
    is "$(result_as "$ALICE" write "$M/after/config" "event=page-faults log-exit=on target=$pid")" ok
    is "$(status before partial)" no
    echo >"$T/go"
    eventually 10 "[[ \$(state before) == exited && \$(state after) == exited ]]"
    for name in before after; do
        log $name
        is "$(of $name detach reason=exec-privileged) $(status $name partial)" '1 yes' "$name"
    done
    eventually 5 "so_far root >'$T/root.log'; ((\$(of root attach pid=$pid) == 2))"
    is "$(state root) $(status root partial)" 'running yes'
    kill "$pid"
}

t_the_superuser_continues_to_observe_a_privileged_program() {
    mount_pmcfs
    set_id other "$HELPERS/target"
    target_start p "$ALICE"
    local pid=${PID_OF[p]}
    pmc a event=page-faults log-exit=on "target=$pid"
    pmc s event=page-faults period=1 "target=$pid"
    tell p faults 50
    tell p run "$T/other"
    for name in a s; do
        eventually 5 "so_far $name >'$T/$name.log'; ((\$(of $name attach pid=$pid) == 2))"
        is "$(of $name exit "pid=$pid")" 0 "$name: ends of a live one"
        is "$(of $name detach reason=exec-privileged)" 1 "$name"
    done
    tell p faults 50
    target_end p
    for name in a s; do
        eventually 5 "[[ \$(state $name) == exited ]]"
        log $name
        is "$(of $name exit "pid=$pid") $(of $name detach reason=exited)" '1 1' "$name: its end"
    done
    exits_add_up a
}

#@ alone
t_a_privileged_program_on_a_cpu_has_its_name_and_one_end() {
    mount_pmcfs
    set_id other "$HELPERS/hot"
    pmc a event=cpu-clock freq=997 callchain=on kernel=off mode=system-sampling target=all
    echo go >"$T/line"
    shell_waits 'exec "$1/other" own 200 <"$1/line" >/dev/null'
    shell_goes
    wait "$JOB"
    ctl a stop
    log a
    is "$(of a exec "pid=${PID_OF[p]}") $(of a exit "pid=${PID_OF[p]}")" '3 1' "setpriv, sh, other; its end"
    between "$(grep -E '^other;(.*;)?hot_inner [0-9]+$' <(names "$M/a") | awk '{ n += $NF } END { print n + 0 }')" 100 1000
}

# Repeats attach and exec at the same moment: the log never shows the privileged program.
#@ slow
t_an_exec_during_the_attach_reveals_no_address_of_a_set_id_program() {
    mount_pmcfs
    set_id privileged /bin/sleep
    as "$ALICE" mkdir "$M/a"
    is "$(result_as "$ALICE" write "$M/a/config" 'event=cpu-clock freq=500')" ok
    as "$ALICE" /usr/bin/python3 -B -I - "$M/a/target" "$T/privileged" <<'P'
import os, sys, time
target, program = sys.argv[1:]
i = attached = 0
# On a loaded machine most attaches come too late: as many races as it takes, each hundred with twice the time.
while i < 100 or (attached < 20 and i < 800):
    i += 1
    ready, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(ready, 1)
        time.sleep((i % 50) ** 2 * 2e-6 * 2 ** (i // 100)) # an attach takes one or a few milliseconds
        os.execl(program, program, "0.02")
    fd = os.open(target, os.O_WRONLY)
    os.write(go, b"x")
    try:
        os.write(fd, b"%d\n" % child)
        attached += 1
    except OSError:
        pass # it is privileged, or has exited
    for each in fd, ready, go:
        os.close(each)
    os.waitpid(child, 0)
P
    result_as "$ALICE" write "$M/a/ctl" stop >"$T/stop"
    log a
    between "$(of a attach)" 20 1000 "attaches"
    is "$(grep -c ' map-in .*/privileged$' "$T/a.log")" 0 "maps of the privileged program"
    is "$(of a process name=privileged)" 0 "processes found to be it"
}

t_e45_every_kind_of_privileged_program_is_observed_no_further() {
    mount_pmcfs
    local kind pid before
    for kind in 4755 2755 711 caps; do
        set_id "other$kind" "$HELPERS/target"
        chmod "${kind/caps/755}" "$T/other$kind"
        [[ $kind != caps ]] || setcap cap_net_raw+ep "$T/other$kind"
        target_start "p$kind" "$ALICE"
        pid=${PID_OF[p$kind]}
        tell "p$kind" run "$HELPERS/target" # setpriv could read every file until its exec
        PID_OF[p]=$pid
        alices "a$kind" event=page-faults
        tell "p$kind" faults 100
        before=$(count "a$kind")
        tell "p$kind" run "$T/other$kind"
        tell "p$kind" faults 5000
        eventually 5 "[[ \$(state a$kind) == exited ]]"
        between "$(count "a$kind")" "$before" $((before + 2000)) "$kind: its count stays"
        is "$(result_as "$ALICE" write "$M/a$kind/target" "-$pid")" ESRCH "$kind"
        like "$(cat "$M/a$kind/error")" '^ESRCH E45 '
        is "$(result_as "$ALICE" write "$M/a$kind/target" "$pid")" EPERM "$kind: again"
    done
}

t_a_pmc_that_starts_at_an_exec_counts_a_privileged_program() {
    mount_pmcfs
    set_id other "$HELPERS/target"
    target_start p "$ALICE"
    pmc a event=page-faults start=exec "target=${PID_OF[p]}"
    tell p run "$T/other"
    eventually 5 '[[ $(status a partial) == yes ]]'
    tell p faults 1000
    between "$(count a)" 1000 2000
    is "$(state a)" running
}

t_a_user_that_may_still_observe_the_program_continues() {
    mount_pmcfs
    set_id other "$HELPERS/target"
    target_start p "$ALICE"
    as "$ALICE" mkdir "$M/a"
    is "$(result_by setpriv --reuid "$ALICE" --regid "$ALICE" --clear-groups --inh-caps +sys_ptrace \
        --ambient-caps +sys_ptrace -- write "$M/a/config" "event=page-faults target=${PID_OF[p]}")" ok
    tell p run "$T/other"
    eventually 5 '[[ $(status a partial) == yes ]]'
    local before
    before=$(count a)
    tell p faults 1000
    between "$(count a)" $((before + 1000)) $((before + 2000))
    is "$(state a)" running
    like "$(grep '^page-faults/s' "$M/a/metrics")" ' partial$'
}
