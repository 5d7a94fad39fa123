# shellcheck shell=bash disable=SC2016,SC2034,SC2046,SC2086,SC2119,SC2120
# Every loss is counted and told, exactly: in the log, before it, in what is withheld. And what a log's
# memory and its readers may rely on: sizes and quotas, waits, ends, the form of reads.

# Python with base = the mount, write(file, text), number(pmc, key) of status, stat(key) of info/stats;
# rest(fd): all lines that are there, up to the end or EAGAIN; told(lines, where): the sum of their drops;
# given(lines): how many of them are records of the log.
looking() {
    {
        cat <<'P'
import errno, os, re, select, signal, struct, subprocess, sys, threading, time
base = sys.argv[1] + "/"
def write(name, text):
    fd = os.open(base + name, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
def read(name): return open(base + name).read()
def values(text): return dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
def number(pmc, key): return int(values(read(pmc + "/status"))[key])
def stat(key): return int(values(read("info/stats"))[key])
def opened(pmc, flags=0, form="samples"): return os.open(base + pmc + "/" + form, os.O_RDONLY | flags)
def rest_bytes(fd, size=1 << 17):
    text = b""
    while True:
        try:
            got = os.read(fd, size)
        except BlockingIOError:
            return text
        if not got:
            return text
        text += got
def rest(fd, size=1 << 17): return rest_bytes(fd, size).decode().splitlines()
def kind(line): return line.split(" ")[1]
def told(lines, where):
    return sum(int(re.search(r" records=(\d+)", line)[1]) for line in lines
               if kind(line) == "drop" and line.endswith(" where=" + where))
# What was known before a gap is said again in front of its drop, at the time of the drop.
def given(lines):
    found = []
    for line in lines:
        fact = kind(line) in ("process", "thread", "map-in")
        if kind(line) == "drop" and line.endswith(" where=log"):
            while found and found[-1] == (line.split(" ")[0], True):
                found.pop()
        elif kind(line) != "initialize":
            found.append((line.split(" ")[0], fact))
    return len(found)
def later(what, seconds=0.2):
    t = threading.Timer(seconds, what)
    t.start()
    return t
def state_of(pid):
    with open("/proc/%d/stat" % pid) as f:
        return f.read().rpartition(")")[2].split()[0]
P
        cat
    } >"$T/looking.py"
    timeout 50 /usr/bin/python3 -B "$T/looking.py" "$M" "$@"
}

# A PMC that samples and was never started: a read waits, and only what is written here comes.
quiet() {
    pmc "${1:-a}" event=cpu-clock freq=100 "${@:2}"
}

# Every page fault of target p is a sample; c counts the same ones.
faults_sampled() {
    target_start p
    pmc c event=page-faults "target=${PID_OF[p]}"
    pmc a event=page-faults period=1 "$@" "target=${PID_OF[p]}"
}

# log_of NAME: its log up to now, in $T/NAME.log; the PMC is not running.
log_of() {
    timeout 40 cat "$M/$1/samples" >"$T/$1.log" || die "samples does not end"
}

# lines NAME TYPE, dropped NAME WHERE: of its log; how many lines, the sum of what they tell.
lines() { awk -v type="$2" '$2 == type { n++ } END { print n + 0 }' "$T/$1.log"; }
dropped() {
    awk -v where="where=$2" '$2 == "drop" && $4 == where { sub("records=", "", $3); n += $3 } END { print n + 0 }' \
        "$T/$1.log"
}

# ---- the log overruns ----

t_a_reader_is_given_or_told_of_every_record() {
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
missed = {name: told(lines[name], "log") for name in lines}
for name in lines:
    assert given(lines[name]) + missed[name] == number("a", "log_records"), (name, missed[name])
assert 100 < missed["slow"] < missed["slower"] <= missed["never"] == missed["late"], missed
assert missed["slower"] == number("a", "log_lost") == stat("log_lost"), missed
P
}

t_what_nobody_read_is_lost_once_whoever_opens_it_later() {
    mount_pmcfs
    quiet a logsize=65536
    for i in {1..200}; do
        echo "$i-$(printf 'x%.0s' {1..900})" >"$M/a/samples"
    done
    local lost
    lost=$(status a log_lost)
    between "$lost" 50 200
    for i in 1 2; do
        timeout 1 cat "$M/a/samples" >"$T/a.log" || [[ $? == 124 ]]
        is "$(dropped a log)" "$lost" "what reader $i is told"
        is "$(($(lines a user) + $(lines a allocate) + lost))" "$(status a log_records)" "all records"
    done
    is "$(status a log_lost)" "$lost" "after it was told"
}

# log_lost counts what the readers that had it open then have not read.
t_what_was_read_is_not_lost_when_it_is_overwritten() {
    mount_pmcfs
    quiet a logsize=65536
    looking <<'P'
fd = opened("a", os.O_NONBLOCK)
lines = []
for i in range(300):
    write("a/samples", "%d-" % i + "x" * 900)
    lines += rest(fd)
assert given(lines) == number("a", "log_records") == 301, given(lines)
assert number("a", "log_lost") == 0
late = rest(opened("a", os.O_NONBLOCK))
assert told(late, "log") > 100 and given(late) + told(late, "log") == 301
assert number("a", "log_lost") == 0 == stat("log_lost")
P
}

t_statistics_keep_what_a_released_log_lost() {
    mount_pmcfs
    quiet a logsize=65536
    for i in {1..100}; do
        echo "$i-$(printf 'x%.0s' {1..900})" >"$M/a/samples"
    done
    local lost
    lost=$(status a log_lost)
    between "$lost" 1 100
    rmdir "$M/a"
    is "$(stat_value log_lost)" "$lost"
}

# ---- the kernel's buffer overruns ----

# Nobody empties it while the daemon stands.
t_what_the_kernel_lost_is_told_exactly() {
    mount_pmcfs
    faults_sampled
    kill -STOP $DAEMON
    tell p faults 40000
    kill -CONT $DAEMON
    ctl a stop
    log_of a
    local lost
    lost=$(status a kernel_lost)
    between "$lost" 1 40000
    is "$(dropped a kernel)" "$lost" "what the log tells"
    is "$(stat_value kernel_lost)" "$lost" "in info/stats"
    is "$(($(lines a sample) + lost))" "$(count c)" "samples and losses"
    is "$(status a log_lost)" 0
}

t_what_the_kernel_lost_of_many_threads_is_told_exactly() {
    mount_pmcfs
    target_start p
    tell p threads 6
    pmc c event=page-faults "target=${PID_OF[p]}"
    pmc a event=page-faults period=1 callchain=on depth=4 "target=${PID_OF[p]}"
    for i in 1 2 3; do
        kill -STOP $DAEMON
        tell p each 2500
        kill -CONT $DAEMON
        tell p each 100
    done
    ctl a stop
    log_of a
    is "$(status a log_lost)" 0
    between "$(status a kernel_lost)" 1 60000
    is "$(dropped a kernel)" "$(status a kernel_lost)" "what the log tells"
    is "$(($(lines a callchain) + $(status a kernel_lost)))" "$(count c)" "samples and losses"
}

t_what_the_kernel_lost_of_a_tracepoint_is_told_exactly() {
    with_tracefs
    mount_pmcfs
    target_start p
    pmc c event=syscalls:sys_enter_clock_nanosleep "target=${PID_OF[p]}"
    pmc a event=syscalls:sys_enter_clock_nanosleep period=1 logsize=65536 "target=${PID_OF[p]}"
    kill -STOP $DAEMON
    tell p sleep 800
    kill -CONT $DAEMON
    ctl a stop
    log_of a
    is "$(count c)" 800
    between "$(status a kernel_lost)" 1 800
    is "$(($(lines a sample) + $(dropped a kernel)))" 800 "samples and losses"
}

t_perf_data_has_the_same_losses() {
    mount_pmcfs
    faults_sampled
    kill -STOP $DAEMON
    tell p faults 30000
    kill -CONT $DAEMON
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

t_steps_still_add_up_when_the_kernel_lost_some() {
    with_tracefs
    mount_pmcfs
    target_start p
    pmc a event=page-faults log-csw=on log-exit=on logsize=65536 "target=${PID_OF[p]}"
    kill -STOP $DAEMON
    tell p sleep 2000
    tell p faults 100
    kill -CONT $DAEMON
    target_end p
    eventually 10 '[[ $(state a) == exited ]]'
    log_of a
    between "$(status a kernel_lost)" 1 100000
    is "$(dropped a kernel)" "$(status a kernel_lost)" "what the log tells"
    for type in csw exit; do
        is "$(awk -v type=$type '$2 == type { sub(/.*count=/, ""); sum += $1 } END { print sum + 0 }' "$T/a.log")" \
            "$(count a)" "sum of $type"
    done
}

# ---- throttled ----

t_throttling_is_told() {
    local rate=/proc/sys/kernel/perf_event_max_sample_rate
    RATE_BEFORE=$(<$rate)
    mount_pmcfs
    target_start p
    pmc a event=cpu-clock period=10000 "target=${PID_OF[p]}"
    trap 'echo "$RATE_BEFORE" >/proc/sys/kernel/perf_event_max_sample_rate' EXIT
    echo 2000 2>/dev/null >$rate || skip "the kernel's highest sample rate cannot be set here"
    tell p spin 200
    echo "$RATE_BEFORE" >$rate
    ctl a stop
    log_of a
    local throttled
    throttled=$(status a throttled)
    between "$throttled" 1 100000
    is "$(grep -c ' drop records=- where=throttle$' "$T/a.log")" "$throttled" "what the log tells"
    is "$(stat_value throttled)" "$throttled" "in info/stats"
    grep -q ' sample ' "$T/a.log"
}

# ---- hidden ----

# What the kernel raises itself is in the kernel: a user counts it whole, but may not see where.
t_hidden_samples_are_told_exactly() {
    mount_pmcfs
    target_start p $ALICE
    for name in a c; do
        as $ALICE mkdir "$M/$name"
    done
    is "$(result_as $ALICE write "$M/c/config" "event=context-switches target=${PID_OF[p]}")" ok
    is "$(result_as $ALICE write "$M/a/config" "event=context-switches period=1 target=${PID_OF[p]}")" ok
    tell p sleep 300
    eventually 5 '[[ $(ps -o stat= -p ${PID_OF[p]}) == S* ]]'
    sleep 0.1
    is "$(result_as $ALICE write "$M/a/ctl" stop)" ok
    log_of a
    local hidden
    hidden=$(status a hidden)
    between "$hidden" 300 400
    is "$(dropped a hidden)" "$hidden" "what the log tells"
    is "$(stat_value hidden)" "$hidden" "in info/stats"
    is "$(lines a sample)" 0 "samples that are shown"
    is "$((hidden + $(dropped a kernel)))" "$(count c)" "hidden, and all there were"
}

t_what_alice_may_not_see_root_sees() {
    mount_pmcfs
    target_start p
    pmc a event=context-switches period=1 "target=${PID_OF[p]}"
    tell p sleep 100
    ctl a stop
    log_of a
    is "$(status a hidden)" 0
    between "$(lines a sample)" 100 200
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

t_a_log_stays_within_its_size() {
    mount_pmcfs
    faults_sampled logsize=100000
    for i in {1..150}; do
        tell p faults 20
        echo "$i-$(printf 'x%.0s' {1..900})" >"$M/a/samples"
    done
    between "$(status a log_bytes)" 50000 100000
    is "$(setting a logsize)" 100000
}

t_the_tunables_limit_a_log() {
    mount_pmcfs -o nbuffers=4,logbuffersize=16
    pmc a event=cpu-clock freq=100
    refused EINVAL P02 "$M/a/config" logsize=65537
    like "$(cat "$M/a/error")" 'logsize=65537.*65536.*nbuffers'
    accepted "$M/a/config" logsize=65536
    refused EINVAL P02 "$M/a/config" logsize=0
    pmc b event=cpu-clock freq=100
    for i in {1..200}; do
        echo "$i-$(printf 'x%.0s' {1..900})" >"$M/b/samples"
    done
    between "$(status b log_bytes)" 30000 65536 "of the usual size"
}

t_logs_are_charged_to_their_owner() {
    mount_pmcfs -o max_log_per_user=3000000
    target_start p $ALICE
    local descriptors sentence
    for i in 1 2 3; do
        as $ALICE mkdir "$M/a$i"
        is "$(result_as $ALICE write "$M/a$i/config" "event=cpu-clock freq=100 logsize=1000000 autostart=off")" ok
    done
    descriptors=$(stat_value descriptors)
    is "$(result_as $ALICE write "$M/a1/config" "autostart=on target=${PID_OF[p]}")" ok
    is "$(result_as $ALICE write "$M/a2/config" "autostart=on target=${PID_OF[p]}")" ok
    is "$(result_as $ALICE write "$M/a3/config" "autostart=on target=${PID_OF[p]}")" EDQUOT
    sentence=$(<"$M/a3/error")
    like "$sentence" '^EDQUOT P11 config: .*a3.*logsize 1000000.*max_log_per_user .3000000'
    is "$(cat "$M/a3/target")" '' "targets of what was refused"
    is "$(state a3)" allocated
    mkdir "$M/root"
    is "$(result write "$M/root/config" "event=cpu-clock freq=100 logsize=1000000 target=${PID_OF[p]}")" ok
    as $ALICE rmdir "$M/a1"
    is "$(result_as $ALICE write "$M/a3/config" "autostart=on target=${PID_OF[p]}")" ok
    as $ALICE rmdir "$M/a2" "$M/a3"
    rmdir "$M/root"
    eventually 5 "[[ \$(stat_value descriptors) == $descriptors ]]"
}

t_an_attach_refused_for_its_log_leaves_nothing() {
    mount_pmcfs -o max_log_per_user=1000000
    target_start p
    quiet a logsize=2000000
    local descriptors rss
    descriptors=$(stat_value descriptors)
    for _ in {1..20}; do
        refused EDQUOT P11 "$M/a/target" "${PID_OF[p]}"
    done
    is "$(stat_value descriptors)" "$descriptors"
    is "$(state a)" allocated
    accepted "$M/a/config" logsize=300000
    attach a "${PID_OF[p]}"
    is "$(state a)" running
}

t_a_log_outlives_its_pmc_and_so_does_its_charge() {
    mount_pmcfs -o max_log_per_user=3000000
    target_start p
    quiet a logsize=2000000 "target=${PID_OF[p]}"
    exec {held}<"$M/a/samples"
    read -r -u $held _
    rmdir "$M/a"
    quiet b logsize=2000000
    if [[ $VARIANT != reload ]]; then
        refused EDQUOT P11 "$M/b/target" "${PID_OF[p]}"
    fi
    exec {held}<&-
    eventually 5 '[[ $(result write $M/b/target ${PID_OF[p]}) == ok ]]'
}

# Locked memory is counted for each real user: as one of its own the daemon has what perf_event_mlock_kb
# says, whatever others have locked.
t_locked_memory_that_is_not_to_be_had_is_said() {
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

# ---- readers that wait ----

t_who_waits_is_asleep_and_any_signal_ends_it() {
    mount_pmcfs
    quiet
    quiet b
    looking <<'P'
for form in "a/samples", "a/samples.perf", "b/samples":
    for sig in signal.SIGINT, signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1:
        cat = subprocess.Popen(["cat", base + form], stdout=subprocess.PIPE)
        assert os.read(cat.stdout.fileno(), 100)
        deadline = time.monotonic() + 10
        while state_of(cat.pid) != "S":
            assert time.monotonic() < deadline, state_of(cat.pid)
        time.sleep(0.05)
        assert state_of(cat.pid) == "S"
        cat.send_signal(sig)
        assert cat.wait(10) == -sig, (form, sig)
assert stat("parked") == 0
P
}

t_twenty_readers_at_once_get_the_same() {
    mount_pmcfs
    faults_sampled logsize=4194304
    local readers=()
    for i in {1..10}; do
        timeout 40 cat "$M/a/samples" >"$T/log$i" &
        readers+=($!)
        timeout 40 cat "$M/a/samples.perf" >"$T/perf$i" &
        readers+=($!)
    done
    tell p faults 3000
    sleep 0.1
    tell p faults 3000
    ctl a stop
    wait "${readers[@]}" || die "a reader failed"
    for i in {1..10}; do
        cmp "$T/log1" "$T/log$i"
        between "$(stat -c %s "$T/perf$i")" 200000 2000000 "bytes of perf.data of reader $i"
    done
    is "$(($(grep -c ' sample ' "$T/log1") + $(status a kernel_lost)))" "$(count c)"
    is "$(status a log_lost)" 0
}

t_a_reader_that_never_reads_holds_nothing_up() {
    mount_pmcfs
    faults_sampled logsize=262144
    looking <<'P'
idle = [opened("a", os.O_NONBLOCK) for _ in range(200)]
fd = opened("a", os.O_NONBLOCK)
lines = rest(fd)
for i in range(2000):
    write("a/samples", "%d-" % i + "x" * 500)
    if i % 100 == 0:
        lines += rest(fd)
lines += rest(fd)
assert told(lines, "log") == 0, "who reads loses nothing"
assert sum(kind(line) == "user" for line in lines) == 2000
assert number("a", "log_bytes") <= 262144
for other in idle[::50]:
    old = rest(other)
    assert given(old) + told(old, "log") == number("a", "log_records")
P
}

t_the_wait_of_a_poller_ends_with_the_log() {
    mount_pmcfs
    quiet
    looking <<'P'
fd = opened("a", os.O_NONBLOCK)
rest(fd)
poll, epoll = select.poll(), select.epoll()
poll.register(fd, select.POLLIN)
epoll.register(fd, select.EPOLLIN)
assert not poll.poll(50) and not epoll.poll(0.05)
t = later(lambda: write("a/ctl", "close"))
assert poll.poll(10000)[0][1] & select.POLLIN
assert epoll.poll(10)[0][1] & select.EPOLLIN
t.join()
assert kind(rest(fd)[-1]) == "close"
assert os.read(fd, 100) == b"" and poll.poll(0)[0][1] & select.POLLIN, "the end is readable"
os.rmdir(base + "a")
assert poll.poll(10000)[0][1] & select.POLLHUP
assert os.read(fd, 100) == b""
P
}

t_notify_wakes_while_it_samples() {
    mount_pmcfs
    faults_sampled
    ctl c stop
    accepted "$M/c/config" log-exit=on notify=500
    ctl c start
    looking <<'P' &
fd = os.open(base + "c/count", os.O_RDONLY)
os.pread(fd, 100, 0)
poll = select.poll()
poll.register(fd, select.POLLPRI)
assert not poll.poll(100)
open(base + "../ready", "w").close()
assert poll.poll(10000)[0][1] & select.POLLPRI
P
    local reader=$!
    eventually 10 '[[ -e $T/ready ]]'
    tell p faults 600
    wait $reader || die "nobody was woken"
}

# ---- the form of reads ----

t_any_size_of_reads_gives_the_same_bytes() {
    mount_pmcfs
    faults_sampled
    tell p faults 300
    ctl a stop
    looking <<'P'
texts = [rest_bytes(opened("a"), size) for size in (1 << 17, 1, 7, 4096, 1 << 20)]
assert len(texts[0]) > 10000 and all(text == texts[0] for text in texts[1:]), [len(t) for t in texts]
def records(data):
    at = 16
    while at < len(data):
        what, _, size = struct.unpack_from("<IHH", data, at)
        if what != 68: # where one read ended
            yield data[at:at + size]
        at += size
    assert at == len(data)
streams = [list(records(rest_bytes(opened("a", 0, "samples.perf"), size))) for size in (1 << 17, 1, 7, 4096)]
assert len(streams[0]) > 100 and all(s == streams[0] for s in streams[1:])
P
}

t_head_and_tail_of_a_stream() {
    mount_pmcfs
    faults_sampled
    tell p faults 500
    local text
    text=$(head -n 5 "$M/a/samples")
    is "$(wc -l <<<"$text")" 5
    like "$text" '^[0-9.]+ initialize '
    head -c 10 "$M/a/samples" >"$T/ten"
    is "$(stat -c %s "$T/ten")" 10
    ctl a stop
    like "$(tail -n 1 "$M/a/samples")" '^[0-9.]+ stop$'
    is "$(timeout 10 dd if="$M/a/samples" bs=100 count=1 2>/dev/null | wc -c)" 100
}

t_a_stream_cannot_be_read_elsewhere() {
    mount_pmcfs
    quiet
    looking <<'P'
def fails(what):
    try:
        what()
    except OSError as e:
        return e.errno == errno.ESPIPE
for form in "samples", "samples.perf":
    fd = opened("a", os.O_NONBLOCK, form)
    first = os.read(fd, 20)
    assert fails(lambda: os.pread(fd, 100, 0)), form + " from the beginning again"
    assert fails(lambda: os.pread(fd, 100, 21)), form + " ahead"
    assert len(first + os.read(fd, 1 << 17)) > 60, "and goes on where it was"
    os.lseek(fd, 0, os.SEEK_SET)
    assert fails(lambda: os.read(fd, 100)), form + " after a seek back"
P
}

# ---- flush, close, log=off ----

t_flush_makes_everything_readable_at_once() {
    mount_pmcfs
    faults_sampled
    looking "${IN[p]}" "${OUT[p]}" <<'P'
fd = opened("a", os.O_NONBLOCK)
rest(fd)
samples = 0
for i in range(1, 21):
    os.write(int(sys.argv[2]), b"faults 200\n")
    assert os.read(int(sys.argv[3]), 100) == b"ok\n"
    write("a/ctl", "flush")
    samples += sum(kind(line) == "sample" for line in rest(fd))
    assert samples + number("a", "kernel_lost") >= 200 * i, (i, samples)
P
}

t_without_a_log_flush_close_and_text_are_refused() {
    mount_pmcfs
    quiet a log=off
    refused EINVAL E15 "$M/a/ctl" flush
    refused EINVAL E14 "$M/a/ctl" close
    refused EINVAL E31 "$M/a/samples" text
    target_start p
    refused EDESTADDRREQ E09 "$M/a/target" "${PID_OF[p]}"
    is "$(cat "$M/a/target")" ''
    pmc b event=page-faults log-csw=on log=off
    refused EDESTADDRREQ E08 "$M/b/target" "${PID_OF[p]}"
    accepted "$M/b/config" log-csw=off
    attach b "${PID_OF[p]}"
}

t_a_log_in_use_is_not_switched_off_but_closed() {
    mount_pmcfs
    faults_sampled
    refused EBUSY P06 "$M/a/config" log=off
    is "$(state a)" running
    ctl a close
    is "$(state a)" stopped
    is "$(setting a log)" off
}

t_after_close_the_rest_is_read_and_it_can_begin_anew() {
    mount_pmcfs
    faults_sampled
    looking <<'P' &
fd = opened("a")
os.read(fd, 100)
open(base + "../ready", "w").close()
while not os.path.exists(base + "../closed"):
    time.sleep(0.01)
old = rest(fd)
assert kind(old[-1]) == "close", old[-1]
assert sum(kind(line) == "sample" for line in old) >= 100
assert os.read(fd, 100) == b""
open(base + "../go", "w").close()
while not os.path.exists(base + "../again"):
    time.sleep(0.01)
new = rest(fd)
kinds = [kind(line) for line in new]
assert "start" in kinds and kinds[-1] == "stop" and kinds.count("sample") >= 50, kinds
assert "close" not in kinds and "initialize" not in kinds
P
    local reader=$!
    eventually 10 '[[ -e $T/ready ]]'
    tell p faults 100
    ctl a close
    touch "$T/closed"
    eventually 10 '[[ -e $T/go ]]'
    refused EDESTADDRREQ E09 "$M/a/ctl" start
    accepted "$M/a/config" log=on
    ctl a start
    tell p faults 50
    ctl a stop
    touch "$T/again"
    wait $reader || die "the reader of a log that began anew"
}

t_close_of_a_pmc_that_only_counts_does_not_stop_it() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    echo remark >"$M/a/samples"
    ctl a close
    is "$(state a)" running
    refused EINVAL E31 "$M/a/samples" another
    log_of a
    like "$(tail -n 1 "$T/a.log")" ' close$'
}

t_who_reads_a_released_log_gets_all_of_it() {
    mount_pmcfs
    faults_sampled
    tell p faults 300
    local text perf early
    exec {text}<"$M/a/samples" {perf}<"$M/a/samples.perf" {early}<"$M/a/samples"
    dd bs=2000 count=1 status=none <&$text >"$T/text"
    dd bs=2000 count=1 status=none <&$perf >"$T/perf"
    dd bs=100 count=1 status=none <&$early >"$T/early"
    ctl a stop
    local lost
    lost=$(status a kernel_lost)
    rmdir "$M/a"
    timeout 20 cat <&$text >>"$T/text"
    timeout 20 cat <&$early >>"$T/early"
    timeout 20 cat <&$perf >>"$T/perf"
    cmp "$T/text" "$T/early"
    is "$(($(grep -c ' sample ' "$T/text") + lost))" "$(count c)" "samples"
    like "$(tail -n 1 "$T/text")" '^[0-9.]+ close$'
    is "$(perf script -i - -F comm <"$T/perf" 2>/dev/null | grep -c target)" "$(grep -c ' sample ' "$T/text")" \
        "samples that perf sees"
    exec {text}<&- {perf}<&- {early}<&-
}

# ---- series ----

t_what_series_shows_and_skips_is_all_there_was() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults interval=20 "target=${PID_OF[p]}"
    looking <<'P'
f = open(base + "a/series", "rb", buffering=0)
seen, skipped, first = 0, 0, None
for pause in [0, 0, 0.3, 0, 0.01, 0.17, 0, 0.05] * 4:
    time.sleep(pause)
    for line in f.read(4096).decode().splitlines():
        if line.startswith("# skipped "):
            skipped += int(line.split()[2])
        elif not line.startswith("#"):
            last = float(line.split()[0])
            if first is None:
                first, skipped = last, 0
            else:
                seen += 1
assert skipped > 10 and seen > 10, (seen, skipped)
assert abs(seen + skipped - (last - first) / 0.020) <= 1, (seen, skipped, first, last)
P
}
