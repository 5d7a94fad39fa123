# shellcheck shell=bash
# Reading and writing `count` through one descriptor: the next read returns the replaced value.

t_sg1_a_shell_reads_what_its_write_replaced() {
    mount_pmcfs
    pmc i event=page-faults count=5
    exec 9<>"$M/i/count"
    echo 77 >&9
    is "$(cat <&9)" 5 "the old value"
    empty cat <&9
    exec 9>&-
    is "$(count i)" 77
}

# Python with root = the mount and fd = i/count, open for both.
exchanging() {
    {
        echo 'import os, sys; root = sys.argv[1]; fd = os.open(root + "/i/count", os.O_RDWR)'
        cat
    } >"$T/exchange.py"
    /usr/bin/python3 -B "$T/exchange.py" "$M" "$@" || die "see above"
}

t_the_old_value_is_read_at_any_offset() {
    mount_pmcfs
    pmc i event=page-faults count=5
    exchanging <<'P'
old = b"5\n"
for offset in (0, 1, 2, 3, 50, 4096, 1 << 40):
    new = b"%d\n" % (1000 + offset % 997)
    os.write(fd, new)
    got = os.pread(fd, 100, offset)
    assert got == old, (offset, got, old)
    assert os.pread(fd, 100, offset + len(got)) == b"", offset
    assert os.pread(fd, 100, 0) == new, offset
    old = new
P
}

# A replaced value that has been read is not returned again by the next worker.
#@ plain
t_the_replaced_value_of_an_exchange_is_read_once_over_a_kill() {
    mount_pmcfs
    pmc i event=page-faults count=5
    exchanging "$DAEMON" <<'P'
import signal
def kill():
    worker = open("/proc/%s/task/%s/children" % ((sys.argv[2],) * 2)).read().split()
    os.kill(int(worker[0]), signal.SIGKILL)
    while True:
        now = open("/proc/%s/task/%s/children" % ((sys.argv[2],) * 2)).read().split()
        if now and now != worker: return
os.write(fd, b"77\n")
kill()
assert os.pread(fd, 100, 0) == b"5\n", "what the write replaced"
kill()
assert os.pread(fd, 100, 0) == b"77\n", "the value"
os.write(fd, b"78\n")
kill()
assert os.pread(fd, 100, 0) == b"77\n"
assert os.pread(fd, 100, 0) == b"78\n"
kill()
assert os.pread(fd, 100, 0) == b"78\n"
P
    is "$(stat_value restarts)" 4
}

t_f08_after_two_writes_the_first_read_returns_the_value_that_the_second_replaced() {
    mount_pmcfs
    pmc i event=page-faults count=5
    exchanging <<'P'
os.write(fd, b"6\n")
os.write(fd, b"7\n")
assert os.pread(fd, 100, 9) == b"6\n"
try:
    os.write(fd, b"x\n")
    raise SystemExit("accepted x")
except OSError:
    pass
assert os.pread(fd, 100, 0) == b"7\n", "a refused write replaces nothing"
P
}
