# shellcheck shell=bash
# poll on count, ctl, status and target.

# shellcheck source=tests/mount/loss_lib.sh
. "${BASH_SOURCE[0]%/*}/loss_lib.sh"

# polling: runs Python as looking() does, with root = the mount, and wait(fd, ms) -> event mask or 0.
polling() {
    {
        cat <<'P'
root, put = sys.argv[1], write
def wait(fd, ms, mask=select.POLLPRI):
    p = select.poll()
    p.register(fd, mask)
    got = p.poll(ms)
    return got[0][1] if got else 0
P
        cat
    } | looking "$@"
}

t_count_is_always_readable() {
    mount_pmcfs
    pmc a event=page-faults
    polling <<'P'
fd = os.open(root + "/a/count", os.O_RDONLY)
assert wait(fd, 0, select.POLLIN) & select.POLLIN
assert not wait(fd, 100), "POLLPRI without notify"
P
}

#@ slow
t_a_change_of_state_is_pollpri_on_ctl_status_and_target() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults
    polling "${PID_OF[p]}" <<'P'
for name in ("ctl", "status", "target"):
    fd = os.open(root + "/a/" + name, os.O_RDONLY)
    os.pread(fd, 4096, 0)
    assert not wait(fd, 50), name + ": nothing changed"
    t = later(lambda: put("a/target", sys.argv[2]))
    assert wait(fd, 30000) & select.POLLPRI, name
    t.join()
    assert wait(fd, 0) & select.POLLPRI, "until it is read"
    os.pread(fd, 4096, 0)
    assert not wait(fd, 50), name + ": read since"
    put("a/target", "-" + sys.argv[2])
    os.close(fd)
P
}

# Before the first poll and read, the seen state is that of the open.
t_a_change_between_open_and_the_first_poll_is_pollpri() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults
    polling "${PID_OF[p]}" <<'P'
for name in ("ctl", "status", "target"):
    fd, idle = (os.open(root + "/a/" + name, os.O_RDONLY) for _ in range(2))
    assert not wait(idle, 0), name + ": nothing changed"
    put("a/target", sys.argv[2])
    assert wait(fd, 0) & select.POLLPRI, name
    os.pread(fd, 4096, 0)
    assert not wait(fd, 0), name + ": read since"
    put("a/target", "-" + sys.argv[2])
    os.close(fd)
    os.close(idle)
P
}

t_c16_ce08_count_is_readable_after_notify_more_events() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults notify=1000 "target=${PID_OF[p]}"
    polling <<'P' &
fd = os.open(root + "/a/count", os.O_RDONLY)
before = int(os.pread(fd, 100, 0))
open(root + "/../polling", "w")
assert wait(fd, 30000) & select.POLLPRI
assert int(os.pread(fd, 100, 0)) - before >= 1000
assert not wait(fd, 100), "since this descriptor's last read nothing more"
P
    local poller=$!
    eventually 10 "[[ -e $T/polling ]]"
    tell p faults 100
    sleep 0.2
    kill -0 $poller || die "woken too early"
    tell p faults 1500 # wherever in these it is read, less than 1000 are left
    wait $poller
}

t_release_is_pollhup() {
    mount_pmcfs
    pmc a event=page-faults notify=10
    polling <<'P'
import threading
files = ("ctl", "status", "target", "count") # "detail" wakes no poller
masks, ready = {}, threading.Barrier(len(files) + 1)
def sleeper(name): # sleeps in poll when the PMC is released
    fd = os.open(root + "/a/" + name, os.O_RDONLY)
    os.pread(fd, 4096, 0)
    p = select.poll()
    p.register(fd, select.POLLPRI)
    ready.wait(40)
    masks[name] = [mask for _, mask in p.poll()]
sleepers = [threading.Thread(target=sleeper, args=(name,)) for name in files]
[t.start() for t in sleepers]
late = [os.open(root + "/a/" + name, os.O_RDONLY) for name in (*files, "detail")]
ready.wait(40)
time.sleep(0.5)
assert not masks, masks
os.rmdir(root + "/a")
[t.join() for t in sleepers]
for name in files:
    assert masks[name] and masks[name][0] & select.POLLHUP, (name, masks)
for fd, name in zip(late, (*files, "detail")):
    assert wait(fd, 0) & select.POLLHUP, name + ": polled afterwards"
P
}

# The stream is ready for a reader that has not read yet; then when its line is due, and not before.
#@ slow
t_series_is_readable_when_its_line_is_due() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults interval=700 "target=${PID_OF[p]}"
    polling <<'P'
fd = os.open(root + "/a/series", os.O_RDONLY | os.O_NONBLOCK)
assert wait(fd, 0, select.POLLIN) & select.POLLIN, "the columns"
assert b"a" in os.read(fd, 4096)
number = 0 # of intervals since the start
def line(text):
    global number
    before, number = number, round(float(text.split(b"\n")[-2].split()[0]) * 1e9) // 700000000
    assert number > before, "more than was due"
for i in range(3):
    assert wait(fd, 30000, select.POLLIN) & select.POLLIN, "never due"
    line(os.read(fd, 4096)) # a poller is not woken for nothing
    try:
        line(os.read(fd, 4096)) # on a busy host the next one may be due, too
    except BlockingIOError:
        pass
P
}

#@ slow
t_epoll_reports_series_once_per_line() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults interval=400 "target=${PID_OF[p]}"
    polling <<'P'
fds = [os.open(root + "/a/series", os.O_RDONLY | os.O_NONBLOCK) for i in range(3)]
for fd in fds:
    os.read(fd, 4096)
e = select.epoll()
for fd in fds:
    e.register(fd, select.EPOLLIN)
seen = dict.fromkeys(fds, 0)
until = time.monotonic() + 40
while min(seen.values()) < 3 and time.monotonic() < until:
    for fd, events in e.poll(20):
        assert events & select.EPOLLIN
        assert os.read(fd, 4096)
        seen[fd] += 1
assert min(seen.values()) >= 3, seen
P
}

t_the_end_of_a_series_wakes_a_poller() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults interval=3600000 "target=${PID_OF[p]}"
    polling <<'P'
fd = os.open(root + "/a/series", os.O_RDONLY | os.O_NONBLOCK)
os.read(fd, 4096)
assert not wait(fd, 100, select.POLLIN), "in an hour"
later(lambda: put("a/ctl", "stop"))
assert wait(fd, 30000, select.POLLIN) & select.POLLIN
os.read(fd, 4096)
assert os.read(fd, 4096) == b"", "its end"
P
}
