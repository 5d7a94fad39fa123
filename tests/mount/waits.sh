# shellcheck shell=bash disable=SC2016,SC2034,SC2046,SC2086,SC2119,SC2120
# Promises to readers of a log: waiting, the end, the form of reads, and completeness.

# shellcheck source=tests/mount/loss_lib.sh
. "${BASH_SOURCE[0]%/*}/loss_lib.sh"

# ---- readers that wait ----

t_a_waiting_request_sleeps_and_any_signal_interrupts_it() {
    mount_pmcfs
    quiet
    quiet b
    looking <<'P'
for form in "a/samples", "a/samples.perf", "b/samples":
    for sig in signal.SIGINT, signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1:
        cat = subprocess.Popen(["cat", base + form], stdout=subprocess.PIPE)
        assert os.read(cat.stdout.fileno(), 100)
        deadline = time.monotonic() + 40
        while stat("parked") != 1 or state_of(cat.pid) != "S":
            assert time.monotonic() < deadline, state_of(cat.pid)
        time.sleep(0.05)
        assert state_of(cat.pid) == "S"
        cat.send_signal(sig)
        assert cat.wait(40) == -sig, (form, sig)
assert stat("parked") == 0
P
}

t_a_reader_that_waits_by_aio_can_be_killed() {
    mount_pmcfs
    quiet
    looking <<'P'
import ctypes, fcntl
syscall = ctypes.CDLL(None).syscall
def wait_by_aio():
    fd = os.open(base + "a/samples", os.O_RDONLY | os.O_NONBLOCK)
    at, context, text = 0, ctypes.c_ulong(), ctypes.create_string_buffer(4096)
    try:
        while got := os.read(fd, 4096):
            at += len(got)
    except BlockingIOError:
        fcntl.fcntl(fd, fcntl.F_SETFL, 0)
    syscall(206, 1, ctypes.byref(context))  # io_setup
    iocb = ctypes.create_string_buffer(
        struct.pack("QIIHhIQQqQII", 0, 0, 0, 0, 0, fd, ctypes.addressof(text), 4096, at, 0, 0, 0), 64)
    syscall(209, context, 1, ctypes.byref(ctypes.c_void_p(ctypes.addressof(iocb))))  # io_submit
    time.sleep(60)
child = os.fork()
if child == 0:
    wait_by_aio()
deadline = time.monotonic() + 40
while stat("parked") != 1:
    assert time.monotonic() < deadline
    time.sleep(0.05)
os.kill(child, signal.SIGKILL)
while os.waitpid(child, os.WNOHANG) == (0, 0):
    assert time.monotonic() < deadline + 10
    time.sleep(0.05)
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
assert overwritten(lines) == 0, "a reader loses nothing"
assert sum(kind(line) == "user" for line in lines) == 2000
assert number("a", "log_bytes") <= 262144
for other in idle[::50]:
    old = rest(other)
    assert logged(old) + overwritten(old) == number("a", "log_records")
P
}

t_the_wait_of_a_poller_ends_when_the_log_ends() {
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
assert poll.poll(30000)[0][1] & select.POLLIN
assert epoll.poll(30)[0][1] & select.EPOLLIN
t.join()
assert kind(rest(fd)[-1]) == "close"
assert os.read(fd, 100) == b"" and poll.poll(0)[0][1] & select.POLLIN, "the end is readable"
os.rmdir(base + "a")
assert poll.poll(30000)[0][1] & select.POLLHUP
assert os.read(fd, 100) == b""
P
}

# ---- the form of reads ----

#@ slow
t_any_size_of_reads_gives_the_same_text_and_records() {
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
        if what != 68: # the end of a read
            yield data[at:at + size]
        at += size
    assert at == len(data)
streams = [list(records(rest_bytes(opened("a", 0, "samples.perf"), size))) for size in (1 << 17, 1, 7, 4096)]
assert len(streams[0]) > 100 and all(s == streams[0] for s in streams[1:])
P
}

# perf reads more than it needs from a seekable file, and seeks back.
#@ slow
t_shells_and_tools_read_a_stream_line_by_line() {
    mount_pmcfs
    faults_sampled
    tell p faults 500
    ctl a stop
    local all n=0 line
    all=$(wc -l <"$M/a/samples")
    while read -r line; do
        n=$((n + 1))
    done <"$M/a/samples"
    is "$n" "$all" "lines that bash reads"
    is "$({
        head -n 1 >/dev/null
        cat
    } <"$M/a/samples" | wc -l)" $((all - 1)) "lines after head"
    like "$line" '^$'
}

t_a_stream_is_read_at_its_position_or_again_within_the_last_reply() {
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
    assert os.pread(fd, 100, 0) == first and os.pread(fd, 5, 10) == first[10:15], "the last reply again"
    assert fails(lambda: os.pread(fd, 100, 21)), form + " ahead"
    assert len(first + os.read(fd, 1 << 17)) > 60, "and continues where it was"
    os.lseek(fd, 0, os.SEEK_SET)
    assert fails(lambda: os.read(fd, 100)), form + " after a seek back"
P
}

# ---- flush, close, log=off ----

t_op02_b03_flush_makes_everything_readable_at_once() {
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

t_readers_of_a_released_log_get_all_of_it() {
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
    timeout 60 cat <&$text >>"$T/text"
    timeout 60 cat <&$early >>"$T/early"
    timeout 60 cat <&$perf >>"$T/perf"
    cmp "$T/text" "$T/early"
    is "$(($(grep -c ' sample ' "$T/text") + lost))" "$(count c)" "samples"
    like "$(tail -n 1 "$T/text")" '^[0-9.]+ close$'
    is "$(perf script -i - -F comm <"$T/perf" 2>/dev/null | grep -c target)" "$(grep -c ' sample ' "$T/text")" \
        "samples that perf sees"
    exec {text}<&- {perf}<&- {early}<&-
}

# ---- series ----

#@ slow
t_lines_and_skipped_lines_of_series_are_complete() {
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
