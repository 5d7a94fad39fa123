# shellcheck shell=bash disable=SC2034,SC2046,SC2086,SC2119,SC2120
# Shared by loss.sh, poll.sh, samples.sh and waits.sh: Python for reading a mount, PMCs with known records, sums of a log.

# looking [ARG…]: runs the Python program on its input after the following functions. base: the mount with a "/";
# number(pmc, key): a number of status; stat(key): of info/stats; rest(fd): all present lines, up to the end or EAGAIN;
# drop_sum(lines, where, key): the sum of a key of drop records; logged(lines): the number of records of the log.
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
def drop_sum(lines, where, key="lost"):
    return sum(int(re.search(r" %s=(\d+)" % key, line)[1]) for line in lines
               if kind(line) == "drop" and line.split(" ")[3] == "where=" + where)
# The number of overwritten records of all types.
def overwritten(lines): return drop_sum(lines, "log", "records")
# Names and mappings known before a gap are repeated before its drop record, with its time.
def logged(lines):
    found = []
    for line in lines:
        fact = kind(line) in ("process", "thread", "map-in")
        if kind(line) == "drop" and line.split(" ")[3] == "where=log":
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

# quiet [NAME [SETTINGS…]]: creates a sampling PMC, a by default, and does not start it: its log has only remarks.
quiet() {
    pmc "${1:-a}" event=cpu-clock freq=100 "${@:2}"
}

# faults_sampled [SETTINGS…]: starts target p; each of its page faults is a sample of PMC a, and counted by PMC c.
faults_sampled() {
    target_start p
    pmc c event=page-faults "target=${PID_OF[p]}"
    pmc a event=page-faults period=1 "$@" "target=${PID_OF[p]}"
}

# log_of NAME: copies its log to $T/NAME.log; the PMC must not be running.
log_of() {
    timeout 40 cat "$M/$1/samples" >"$T/$1.log" || die "samples does not end"
}

# After log_of NAME. lines NAME TYPE: prints the number of records of a type; dropped NAME WHERE: of samples lost at
# this place; overwritten NAME: of overwritten records of all types.
lines() { awk -v type="$2" '$2 == type { n++ } END { print n + 0 }' "$T/$1.log"; }
dropped() {
    awk -v where="where=$2" '$2 == "drop" && $4 == where { sub("lost=", "", $3); n += $3 } END { print n + 0 }' \
        "$T/$1.log"
}
overwritten() {
    awk '$2 == "drop" && $4 == "where=log" { sub("records=", "", $5); n += $5 } END { print n + 0 }' "$T/$1.log"
}
