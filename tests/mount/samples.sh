# shellcheck shell=bash disable=SC2016,SC2034,SC2046,SC2086,SC1003,SC2119,SC2120
# Reading rules of `samples`: end, waiting, waking; and writing remarks. The records are tested in other files.

# shellcheck source=tests/mount/loss_lib.sh
. "${BASH_SOURCE[0]%/*}/loss_lib.sh"

# sampler [SETTINGS…]: creates a sampling PMC a with a running target.
sampler() {
    target_start p
    pmc a event=cpu-clock freq=100 "$@" "target=${PID_OF[p]}"
}

# Python like looking(), with base = the directory of the PMC, and lines(fd): complete lines of one read.
reading() {
    {
        cat <<'P'
base += "a/"
def open_log(flags=0): return os.open(base + "samples", os.O_RDONLY | flags)
def lines(fd, n=1 << 17):
    got = os.read(fd, n).decode()
    assert not got or got[-1] == "\n", "a torn line"
    return got.splitlines()
def kinds(found): return [kind(line) for line in found]
def again(fd):
    try:
        got = os.read(fd, 1 << 17)
    except BlockingIOError:
        return True
    raise SystemExit("read %r, expected EAGAIN" % got)
def until(fd, last):
    found = []
    while last not in kinds(found):
        more = lines(fd)
        assert more, "the stream ended before " + last
        found += more
    return found
P
        cat
    } | looking "$@"
}

FIRST='^[0-9]+\.[0-9]{9} initialize version=[0-9.]+ machine=[^ ]+ class=[^ ]+ event=[^ ]+ realtime=[0-9]+\.[0-9]{9} tsc=([0-9]+|-)$'

t_the_log_of_a_counting_pmc_ends_after_stop() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    timeout 30 cat "$M/a/samples" >"$T/log"
    like "$(head -1 "$T/log")" "$FIRST"
    like "$(head -1 "$T/log")" ' class=software event=page-faults '
}

t_the_first_line_has_both_clocks_of_one_moment() {
    mount_pmcfs
    pmc a
    read -r line <"$M/a/samples"
    /usr/bin/python3 - "$line" <<'P'
import sys, time
words = sys.argv[1].split()
mono, real = float(words[0]), float([w for w in words if w.startswith("realtime=")][0][9:])
# The least of several differences: this program may lose its CPU between two clocks.
off = min(abs((time.time() - time.monotonic()) - (real - mono)) for _ in range(100))
assert off < 0.01, off
assert mono <= time.monotonic()
P
}

t_a_tree_without_samplers_can_be_searched() {
    mount_pmcfs
    target_start p
    pmc a
    pmc b event=page-faults "target=${PID_OF[p]}"
    pmc c event=page-faults
    timeout 60 grep -r initialize "$M/a" "$M/b" "$M/c" >"$T/found" || [[ $? == 2 ]]
    is "$(grep -c '/samples:' "$T/found")" 3
}

t_a_read_waits_until_somebody_writes() {
    mount_pmcfs
    quiet
    reading <<'P'
fd = open_log()
until(fd, "allocate")
begin = time.monotonic()
later(lambda: write("samples", "hello"), 0.3)
line, = lines(fd)
assert line.endswith(" user text=hello"), line
assert time.monotonic() - begin > 0.25
P
}

t_log_csw_and_log_exit_wait_too() {
    mount_pmcfs
    for key in log-csw log-exit; do
        pmc a event=task-clock $key=on
        reading <<'P'
fd = open_log(os.O_NONBLOCK)
until(fd, "allocate")
assert again(fd)
P
        rmdir "$M/a"
    done
}

t_samples_end_at_stop_and_continue_after_start() {
    mount_pmcfs
    sampler
    reading <<'P'
fd = open_log()
until(fd, "start")
later(lambda: write("ctl", "stop"))
until(fd, "stop")
assert lines(fd) == [] and lines(fd) == []
write("ctl", "start")
assert "start" in kinds(until(fd, "start"))
P
}

t_without_a_log_the_first_line_is_all() {
    mount_pmcfs
    quiet a log=off
    timeout 30 cat "$M/a/samples" >"$T/log"
    is "$(wc -l <"$T/log")" 1
    like "$(cat "$T/log")" "$FIRST"
    refused EINVAL E31 "$M/a/samples" hello
}

t_an_interrupted_read_loses_nothing() {
    mount_pmcfs
    quiet
    reading <<'P'
fd = open_log()
until(fd, "allocate")
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
def remarks():
    for i in range(400):
        write("samples", "remark-%d" % i)
t = threading.Thread(target=remarks)
t.start()
seen = []
while len(seen) < 400:
    seen += [line for line in lines(fd) if " user " in line]
signal.setitimer(signal.ITIMER_REAL, 0)
t.join()
assert [s.split("text=remark-")[1] for s in seen] == [str(i) for i in range(400)]
P
}

#@ slow
t_poll_select_and_epoll_report_new_records() {
    mount_pmcfs
    quiet
    reading <<'P'
for name in "samples", "samples.perf":
    fd = os.open(base + name, os.O_RDONLY | os.O_NONBLOCK)
    p = select.poll()
    p.register(fd, select.POLLIN)
    assert p.poll(0), "the beginning"
    while True:
        try:
            assert os.read(fd, 1 << 17)
        except BlockingIOError:
            break
    assert not p.poll(100), name + ": nothing new"
    e = select.epoll()
    e.register(fd, select.EPOLLIN)
    assert not e.poll(0.05)
    t = later(lambda: write("samples", "x"))
    assert p.poll(30000)[0][1] & select.POLLIN
    assert e.poll(30)[0][1] & select.EPOLLIN
    assert select.select([fd], [], [], 30)[0] == [fd]
    t.join()
    assert os.read(fd, 1 << 17)
    assert not p.poll(50), "read since"
    e.close()
    os.close(fd)
P
}

t_the_rest_of_a_small_read_is_readable() {
    mount_pmcfs
    quiet
    reading <<'P'
fd = open_log(os.O_NONBLOCK)
assert os.read(fd, 5)
p = select.poll()
p.register(fd, select.POLLIN)
assert p.poll(0), "the rest of the first line"
P
}

t_lines_are_in_the_order_of_time() {
    mount_pmcfs
    sampler
    for i in 1 2 3 4 5; do
        tell p spin 50
        echo "remark $i" >"$M/a/samples"
    done
    ctl a stop
    timeout 30 cat "$M/a/samples" >"$T/log"
    is "$(grep -c ' user ' "$T/log")" 5
    cut -d' ' -f1 "$T/log" | sort -c -t. -k1,1n -k2,2n
}

# Two samples of one clock on one CPU cannot be of one moment.
#@ slow
t_samples_before_and_after_a_command_keep_their_times() {
    mount_pmcfs
    target_start p
    target_start q
    pmc a event=cpu-clock period=1000000 "target=${PID_OF[p]}"
    printf 'spin 600\n' >&"${IN[p]}"
    for _ in {1..5}; do
        accepted "$M/a/target" "${PID_OF[q]}"
        ctl a restart
        accepted "$M/a/target" "-${PID_OF[q]}"
    done
    target_end p
    target_end q
    eventually 10 '[[ $(state a) == exited ]]'
    timeout 30 cat "$M/a/samples" >"$T/log"
    between "$(grep -c ' sample ' "$T/log")" 50 10000 "samples"
    is "$(awk '$2 == "sample" { print $1, $5 }' "$T/log" | uniq -d | head -3)" '' "moments of two samples"
}

t_a_remark_is_one_line_whatever_it_contains() {
    mount_pmcfs
    quiet
    accepted "$M/a/samples" '1.0 stop\n2.0 close\t"a" b=c \\'
    printf 'bytes \377\033[2J\302\205 \342\200\250' >"$M/a/samples"
    reading <<'P'
found = until(open_log(), "user")
assert len(found) == 4, found
assert found[2].endswith(' user text=1.0\\040stop\\0122.0\\040close\\011\\042a\\042\\040b\\075c\\040\\134'), found[2]
assert found[3].endswith(' user text=bytes\\040\\377\\033[2J\\302\\205\\040\\342\\200\\250'), found[3]
P
}

#@ slow
t_a_remark_follows_the_rules_of_all_commands() {
    mount_pmcfs
    quiet
    refused EINVAL P05 "$M/a/samples" '\n'
    refused EINVAL P05 "$M/a/samples" 'a\0b'
    is "$(result fill "$M/a/samples" 2000 x)" EINVAL 'split by stdio buffering'
    is "$(result fill "$M/a/samples" 200000 x)" E2BIG
    accepted "$M/a/samples" one two 'three\n'
    : >"$M/a/samples"
    is "$(so_far a | sed -n 's/.* user text=//p' | paste -sd,)" one,two,three
}

#@ slow
t_a_remark_that_does_not_fit_into_a_small_log_is_refused_and_nothing_is_lost() {
    mount_pmcfs
    quiet a logsize=4096
    accepted "$M/a/samples" first
    is "$(result write "$M/a/samples" "$(printf 'x%.0s' {1..4000})
")" E2BIG
    like "$(cat "$M/a/error")" '^E2BIG P04 samples: .*logsize=4096.* takes at most 3032 at once'
    is "$(so_far a | sed -n 's/.* user text=//p')" first
    is "$(status a log_lost)" 0
}

t_a_remark_is_stored_completely_or_refused() {
    mount_pmcfs
    quiet
    python3 -B - "$M/a/samples" <<'P'
import errno, os, sys
def write(n):
    fd = os.open(sys.argv[1], os.O_WRONLY)
    try: return os.write(fd, b"x" * (n - 1) + b"\n")
    except OSError as error: return errno.errorcode[error.errno]
    finally: os.close(fd)
for n in (65489, 65488):
    assert write(n) == n, n
for n in (65490, 65496, 65530, 65537, 131072):
    assert write(n) == "E2BIG", n
P
    like "$(cat "$M/a/error")" '^E2BIG P04 samples: a text of 131071 bytes: a record of a log has room for 65488; write less'
    is "$(so_far a | sed -n 's/.* user text=//p' | LC_ALL=C awk '{ print length($0) }' | xargs)" "32771 32771"
}

t_samples_opens_for_reading_or_writing_and_not_both() {
    mount_pmcfs
    quiet
    for name in samples samples.perf; do
        is "$(result open "$M/a/$name" rw)" EINVAL "$name read-write"
        is "$(result open "$M/a/$name" r)" ok
    done
    is "$(result open "$M/a/samples" w)" ok
    is "$(result open "$M/a/samples" append)" ok
    is "$(result open "$M/a/samples.perf" w)" EACCES
    is "$(result open "$M/a/samples.folded" w)" EACCES
}
