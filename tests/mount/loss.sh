# shellcheck shell=bash disable=SC2016,SC2034,SC2046,SC2086,SC2119,SC2120
# Every loss is counted and reported exactly: in the log, in the kernel, and of hidden samples; sizes and quotas.

# shellcheck source=tests/mount/loss_lib.sh
. "${BASH_SOURCE[0]%/*}/loss_lib.sh"

# ---- the log overruns ----

t_a_reader_gets_every_record_or_a_drop_record() {
    mount_pmcfs
    faults_sampled logsize=100000
    looking "${IN[p]}" "${OUT[p]}" <<'P'
def happens():
    os.write(int(sys.argv[2]), b"faults 2000\n")
    assert os.read(int(sys.argv[3]), 100) == b"ok\n"
    for i in range(150):
        write("a/samples", "%d-" % i + "x" * 900)
slow, slower, never = [opened("a", os.O_NONBLOCK) for _ in range(3)]
texts = {"slow": os.read(slow, 1 << 17), "slower": os.read(slower, 100)}
happens()
texts["slow"] += rest_bytes(slow)
happens()
write("a/ctl", "stop")
texts["slow"] += rest_bytes(slow)
texts["slower"] += rest_bytes(slower)
texts["never"], texts["late"] = rest_bytes(never), rest_bytes(opened("a"))
lines = {name: text.decode().splitlines() for name, text in texts.items()}
missed = {name: overwritten(lines[name]) for name in lines}
for name in lines:
    assert logged(lines[name]) + missed[name] == number("a", "log_records"), (name, missed[name])
assert 100 < missed["slow"] < missed["slower"] <= missed["never"] == missed["late"], missed
assert missed["never"] == number("a", "log_lost") == stat("log_lost"), missed
P
}

#@ slow
t_b02_l02_every_later_reader_misses_the_same_overwritten_records() {
    mount_pmcfs
    quiet a logsize=65536
    for i in {1..200}; do
        echo "$i-$(printf 'x%.0s' {1..900})" >"$M/a/samples"
    done
    local lost
    lost=$(status a log_lost)
    between "$lost" 50 200
    for i in 1 2; do
        so_far a >"$T/a.log"
        is "$(overwritten a)" "$lost" "records that reader $i missed"
        is "$(dropped a log)" 0 "lost samples of reader $i"
        is "$(($(lines a user) + $(lines a allocate) + lost))" "$(status a log_records)" "all records"
    done
    is "$(status a log_lost)" "$lost" "after reading"
}

# ---- the kernel's buffer overruns ----

# No ring buffer is drained while the daemon is stopped.
t_b05_losses_of_the_kernel_are_logged_exactly() {
    mount_pmcfs
    faults_sampled
    server_stop
    tell p faults 40000
    kill -CONT $SERVER
    ctl a stop
    log_of a
    local lost
    lost=$(status a kernel_lost)
    between "$lost" 1 40000
    is "$(dropped a kernel)" "$lost" "in the log"
    is "$(stat_value kernel_lost)" "$lost" "in info/stats"
    is "$(($(lines a sample) + lost))" "$(count c)" "samples and losses"
    is "$(status a log_lost)" 0
}

t_perf_data_has_the_same_losses() {
    mount_pmcfs
    faults_sampled
    server_stop
    tell p faults 30000
    kill -CONT $SERVER
    ctl a stop
    looking <<'P'
data = rest_bytes(opened("a", 0, "samples.perf"))
at, samples, lost = 16, 0, 0
while at < len(data):
    what, _, size = struct.unpack_from("<IHH", data, at)
    assert size >= 8, (at, what, size)
    samples += what == 9
    if what == 2:
        lost += struct.unpack_from("<Q", data, at + 16)[0]
    at += size
assert lost == number("a", "kernel_lost") > 0, lost
assert samples + lost == int(read("c/count")), (samples, lost)
P
}

#@ slow
t_steps_and_exits_add_up_when_the_kernel_lost_records() {
    with_tracefs
    mount_pmcfs
    target_start p
    pmc a event=page-faults log-csw=on log-exit=on logsize=65536 "target=${PID_OF[p]}"
    server_stop
    tell p sleep 2000
    tell p faults 100
    kill -CONT $SERVER
    target_end p
    eventually 10 '[[ $(state a) == exited ]]'
    log_of a
    between "$(status a kernel_lost)" 1 100000
    is "$(dropped a kernel)" "$(status a kernel_lost)" "in the log"
    for type in csw exit; do
        is "$(awk -v type=$type '$2 == type { sub(/.*count=/, ""); sum += $1 } END { print sum + 0 }' "$T/a.log")" \
            "$(count a)" "sum of $type"
    done
}

# The kernel loses samples twice while the daemon is stopped, and the log overwrites the records of these losses.
#@ slow
t_samples_and_drops_of_each_reader_make_the_count() {
    mount_pmcfs
    faults_sampled logsize=65536
    looking "${IN[p]}" "${OUT[p]}" $SERVER <<'P'
def faults(n):
    os.write(int(sys.argv[2]), b"faults %d\n" % n)
    assert os.read(int(sys.argv[3]), 100) == b"ok\n"
def lose(n):
    os.kill(int(sys.argv[4]), signal.SIGSTOP)
    try:
        faults(n)
    finally:
        os.kill(int(sys.argv[4]), signal.SIGCONT)
def streams(*names): return {name: (opened("a", os.O_NONBLOCK), opened("a", os.O_NONBLOCK, "samples.perf")) for name in names}
fds = streams("early", "slow", "never")
got = {name: [b"", b""] for name in ("early", "slow", "never", "late")}
def take(*names):
    for name in names:
        for i in (0, 1):
            got[name][i] += rest_bytes(fds[name][i])
take("early", "slow")
lose(30000)
faults(2000)
write("a/ctl", "flush")
take("early")
faults(2000)
write("a/ctl", "flush")
lose(20000)
write("a/ctl", "flush")
take("slow")
for i in range(10):
    faults(500)
    write("a/ctl", "flush")
write("a/ctl", "stop")
fds.update(streams("late"))
take(*fds)
count, kernel = int(read("c/count")), number("a", "kernel_lost")
assert kernel > 10000, kernel
def perf(data):
    at, samples, lost = 16, 0, 0
    while at < len(data):
        what, _, size = struct.unpack_from("<IHH", data, at)
        assert size >= 8, (at, what, size)
        samples += what == 9
        lost += struct.unpack_from("<Q", data, at + 8)[0] if what == 13 else 0
        at += size
    return samples, lost
for name in got:
    lines = got[name][0].decode().splitlines()
    samples, drops = sum(kind(line) == "sample" for line in lines), {w: drop_sum(lines, w) for w in ("log", "kernel")}
    assert drops["kernel"] == kernel, (name, drops, kernel)
    assert logged(lines) + overwritten(lines) == number("a", "log_records"), (name, drops)
    assert samples + drops["log"] + drops["kernel"] == count, (name, samples, drops, count)
    assert sum(perf(got[name][1])) == count, (name, perf(got[name][1]), count)
    assert drops["log"] > 100, (name, drops)
assert overwritten(got["never"][0].decode().splitlines()) == number("a", "log_lost")
P
}

# Forks, execs, exits, names and mappings are in the log between the samples, and it overwrites all of them.
t_samples_and_drops_make_the_count_where_other_records_are_overwritten() {
    mount_pmcfs
    pmc c event=page-faults descendants=on
    pmc a event=page-faults period=1 descendants=on log-exit=on logsize=400000
    looking <<'P'
script = "while read n; do while [ $n -gt 0 ]; do /bin/true; n=$((n - 1)); done; echo ok; done"
p = subprocess.Popen(["/bin/sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
for name in ("c", "a"):
    write(name + "/target", str(p.pid))
def happens(n):
    p.stdin.write(b"%d\n" % n)
    p.stdin.flush()
    assert p.stdout.readline() == b"ok\n"
    write("a/ctl", "flush")
early, slow, never = [opened("a", os.O_NONBLOCK) for _ in range(3)]
lines = {"early": [], "slow": [], "never": []}
for i in range(6):
    happens(3)
    lines["early"] += rest(early)
    for _ in range(4):
        happens(5)
    if i == 2:
        lines["slow"] += rest(slow)
write("a/ctl", "stop")
write("c/ctl", "stop")
for i in range(350):
    write("a/samples", "x" * 900)
lines["early"] += rest(early)
lines["slow"] += rest(slow)
lines["never"] += rest(never)
lines["late"] = rest(opened("a"))
count, kernel = int(read("a/count")), number("a", "kernel_lost")
assert count == int(read("c/count")) > 3000, count
for name in lines:
    samples = sum(kind(line) == "sample" for line in lines[name])
    lost = sum(int(re.search(r" lost=(\d+)", line)[1]) for line in lines[name] if kind(line) == "drop")
    # the kernel counts lost samples and other lost records together
    assert count <= samples + lost <= count + kernel, (name, samples, lost, count, kernel)
    assert drop_sum(lines[name], "log") + 100 < overwritten(lines[name]) <= number("a", "log_records"), name
assert not any(kind(line) == "sample" for line in lines["late"])
assert kernel or drop_sum(lines["never"], "log") == drop_sum(lines["late"], "log") == count
assert kernel < count / 2, kernel
p.stdin.close()
p.wait()
P
}

# ---- throttled ----

# This tracepoint counts nanoseconds: with a period of 1 the kernel throttles it at once, whatever its limit.
throttled_start() {
    with_tracefs
    [[ -e /sys/kernel/tracing/events/sched/sched_stat_runtime ]] || skip "no sched:sched_stat_runtime"
    mount_pmcfs -o mincount=1
    target_start p
    pmc a event=sched:sched_stat_runtime "$@" period=1 "target=${PID_OF[p]}"
}

throttled_run() {
    tell p spin 100
    tell p sleep 300
    tell p faults 500
}

t_throttling_is_logged() {
    throttled_start
    throttled_run
    ctl a stop
    log_of a
    local throttled
    throttled=$(status a throttled)
    between "$throttled" 1 100000
    is "$(grep -c ' drop lost=- where=throttle$' "$T/a.log")" "$throttled" "in the log"
    is "$(stat_value throttled)" "$throttled" "in info/stats"
    grep -q ' sample ' "$T/a.log"
}

#@ slow
t_a_throttled_count_is_partial_until_reset() {
    throttled_start
    throttled_run
    eventually 5 '[[ $(status a partial) == yes ]]'
    ctl a stop
    is "$(status a partial)" yes "when it is stopped"
    is "$(awk -F '\t' 'NR > 2 { print $7 }' "$M/a/detail" | xargs)" "yes yes" detail
    is "$(grep -c '^pmcfs_partial{.*} 1$' "$M/metrics.prom")" 1 metrics.prom
    ctl a reset
    is "$(status a partial)" no "after reset"
    # An event that is throttled while it leaves its CPU stays disabled in Linux 6.18 until it is reopened.
    ctl a detach
    ctl a reset
    attach a "${PID_OF[p]}"
    throttled_run
    ctl a stop
    is "$(status a partial)" yes "throttled again"
}

t_a_throttled_event_of_a_set_does_not_stop_the_others() {
    throttled_start event=page-faults event=raw_syscalls:sys_enter
    pmc b event=page-faults event=raw_syscalls:sys_enter "target=${PID_OF[p]}"
    local a b
    a=$(detail_of a) b=$(detail_of b)
    throttled_run
    leaves_cpu p # it enters a system call after its answer
    like "$(status a throttled)" '^[1-9]' "times throttled"
    is "$(growth "$a" "$(detail_of a)")" "$(growth "$b" "$(detail_of b)")" "counts of its neighbours in the set"
}

# detail_of NAME: page faults and system calls.  growth BEFORE AFTER
detail_of() {
    awk -F '\t' '$2 == "all" && ($1 == "page-faults" || $1 == "raw_syscalls:sys_enter") { print $3 }' "$M/$1/detail" | xargs
}

growth() {
    # shellcheck disable=SC2086 # word splitting is intended
    set -- $1 $2
    echo "$(($3 - $1)) $(($4 - $2))"
}

# ---- hidden ----

# Events raised by the kernel occur in kernel mode: a user counts all of them, but may not see their addresses.
t_hidden_samples_are_counted_exactly() {
    mount_pmcfs
    target_start p $ALICE
    for name in a c; do
        as $ALICE mkdir "$M/$name"
    done
    is "$(result_as $ALICE write "$M/c/config" "event=context-switches target=${PID_OF[p]}")" ok
    is "$(result_as $ALICE write "$M/a/config" "event=context-switches period=1 target=${PID_OF[p]}")" ok
    tell p sleep 300
    leaves_cpu p
    is "$(result_as $ALICE write "$M/a/ctl" stop)" ok
    log_of a
    local hidden
    hidden=$(status a hidden)
    between "$hidden" 300 "$(count c)"
    is "$(dropped a hidden)" "$hidden" "in the log"
    is "$(stat_value hidden)" "$hidden" "in info/stats"
    is "$(lines a sample)" 0 "samples that are shown"
    is "$((hidden + $(dropped a kernel)))" "$(count c)" "hidden, and all there were"
}

# ---- sizes and quotas ----

t_a_log_has_no_memory_before_it_has_records() {
    mount_pmcfs
    pmc a
    is "$(status a log_bytes)" 0 "of a new PMC"
    local before after
    before=$(ps -o rss= -p $DAEMON)
    for i in {1..30}; do
        quiet "q$i"
        between "$(status "q$i" log_bytes)" 1 1000 "its first record"
    done
    after=$(ps -o rss= -p $DAEMON)
    [[ $VARIANT == [at]san ]] || between "$((after - before + 10000))" 0 14000 "KiB more than 10000 for 30 logs of 8 MiB"
}

# The mappings of the program do not fit.
t_the_smallest_log_keeps_the_name_of_a_program() {
    mount_pmcfs
    faults_sampled logsize=4096
    tell p faults 2000
    ctl a stop
    log_of a
    between "$(dropped a log)" 100 2000
    is "$(sed -n 's/.* process //p' "$T/a.log")" "pid=${PID_OF[p]} name=target"
    is "$(perf script -i - -F comm <"$M/a/samples.perf" 2>/dev/null | sort -u | tr -d ' ')" target "in perf script"
    is "$(cut -d';' -f1 "$M/a/samples.folded" | sort -u)" target "in samples.folded"
}

t_the_tunables_limit_a_log() {
    mount_pmcfs -o nbuffers=4,logbuffersize=16
    as $ALICE mkdir "$M/a"
    is "$(result_as $ALICE write "$M/a/config" logsize=65537)" EINVAL
    like "$(cat "$M/a/error")" '^EINVAL P02 config: logsize=65537.*65536.*nbuffers'
    is "$(result_as $ALICE write "$M/a/config" logsize=65536)" ok
    is "$(result_as $ALICE write "$M/a/config" logsize=0)" EINVAL
    pmc b event=cpu-clock freq=100
    for i in {1..200}; do
        echo "$i-$(printf 'x%.0s' {1..900})" >"$M/b/samples"
    done
    between "$(status b log_bytes)" 30000 65536 "of the usual size"
}

# It is set without a new mount; the owner's max_log_per_user limits it.
t_the_superusers_log_may_be_larger_than_the_tunables() {
    mount_pmcfs -o nbuffers=4,logbuffersize=16,max_log_per_user=3000000
    target_start p
    pmc a event=page-faults period=1 logsize=2900000 "target=${PID_OF[p]}"
    tell p faults 4000
    ctl a stop
    log_of a
    is "$(setting a logsize)" 2900000
    is "$(status a log_lost) $(lines a sample)" "0 $(count a)" "lost, and samples in the log"
    between "$(status a log_bytes)" 200000 2900000
    refused EINVAL P02 "$M/a/config" logsize=3000001
    like "$(cat "$M/a/error")" 'logsize=3000001.* 3000000 bytes.*max_log_per_user .3000000'
    echo 4000000 >"$M/admin/tunables/max_log_per_user"
    accepted "$M/a/config" logsize=3000001
    accepted "$M/a/config" logsize=default
    is "$(setting a logsize)" default
}

# At its start a log is charged 65536 bytes and the ring buffers, later more as records are added.
#@ slow
t_logs_are_charged_to_their_owner() {
    mount_pmcfs -o max_log_per_user=1000000
    target_start p $ALICE
    local n descriptors
    for n in {1..16}; do
        as $ALICE mkdir "$M/a$n"
        is "$(result_as $ALICE write "$M/a$n/config" "event=cpu-clock freq=100 logsize=1000000 autostart=off")" ok
        descriptors=$(stat_value descriptors)
        [[ $(result_as $ALICE write "$M/a$n/config" "autostart=on target=${PID_OF[p]}") == ok ]] || break
    done
    between "$n" 2 15 "the PMC that was refused"
    like "$(<"$M/a$n/error")" \
        "^EDQUOT P11 config: .*a$n.*logsize 1000000.*max_log_per_user .1000000"
    empty cat "$M/a$n/target"
    is "$(state "a$n")" allocated
    is "$(stat_value descriptors)" "$descriptors"
    mkdir "$M/root"
    is "$(result write "$M/root/config" "event=cpu-clock freq=100 logsize=1000000 target=${PID_OF[p]}")" ok
    as $ALICE rmdir "$M/a1"
    is "$(result_as $ALICE write "$M/a$n/config" "autostart=on target=${PID_OF[p]}")" ok
}

# The log uses the rest of the quota and overwrites its oldest records, and status has the reason.
t_a_log_that_may_not_grow_overwrites_its_oldest() {
    mount_pmcfs -o max_log_per_user=600000
    faults_sampled logsize=1000000
    is "$(status a log_short)" -
    looking "${IN[p]}" "${OUT[p]}" <<'P'
fd = opened("a")
for i in range(40):
    os.write(int(sys.argv[2]), b"faults 500\n")
    assert os.read(int(sys.argv[3]), 100) == b"ok\n"
    write("a/ctl", "flush")
write("a/ctl", "stop")
lines = rest(fd)
assert 50000 < number("a", "log_bytes") < 600000
assert overwritten(lines) > 1000
assert logged(lines) + overwritten(lines) == number("a", "log_records")
assert values(read("a/status"))["log_short"] == "max_log_per_user"
P
}

t_a_log_outlives_its_pmc_and_so_does_its_charge() {
    mount_pmcfs -o max_log_per_user=550000
    target_start p
    quiet a logsize=500000 "target=${PID_OF[p]}"
    local long
    long=$(printf 'x%.0s' {1..30000})
    for i in {1..15}; do
        accepted "$M/a/samples" "$long\n"
    done
    is "$(status a log_short)" -
    exec {held}<"$M/a/samples"
    read -r -u $held _
    rmdir "$M/a"
    quiet b logsize=1000000
    if [[ $VARIANT != asan ]]; then
        refused EDQUOT P11 "$M/b/target" "${PID_OF[p]}"
    fi
    exec {held}<&-
    eventually 5 '[[ $(result write $M/b/target ${PID_OF[p]}) == ok ]]'
}

# Locked memory is counted for each real user: with a separate real user the daemon may lock perf_event_mlock_kb,
# whatever others have locked.
#@ slow
t_a_locked_memory_limit_is_named() {
    RUN_DAEMON+=(prlimit --memlock=0 setpriv --ruid 54321 --bounding-set=-ipc_lock --inh-caps=-ipc_lock)
    mount_pmcfs
    target_start p
    local i descriptors
    for i in {1..300}; do
        quiet "q$i"
        descriptors=$(stat_value descriptors)
        [[ $(result write "$M/q$i/target" "${PID_OF[p]}") == ok ]] || break
    done
    between "$i" 2 200 "the PMC that was refused"
    like "$(cat "$M/q$i/error")" '^EIO P14 target: .*CAP_IPC_LOCK.*perf_event_mlock_kb'
    is "$(state "q$i")" allocated
    is "$(stat_value descriptors)" "$descriptors" "after it was refused"
    for ((j = 1; j < i; j++)); do
        rmdir "$M/q$j"
    done
    eventually 5 "[[ \$(result write $M/q$i/target ${PID_OF[p]}) == ok ]]"
    is "$(state "q$i")" running
}
