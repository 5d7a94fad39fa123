# shellcheck shell=bash disable=SC2016
# Each piece of memory and each call to the kernel that an operation needs is refused once, in turn: the operation
# works all the same, or fails with an errno of that and changes nothing; nothing stays behind. How many of them are
# tried is bounded, but for FAULTS=all (sh tests/soak.sh faults).

faults='
import mmap, os, re, shlex, signal, struct, sys, time
tree, daemon, control, limit = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
MEMORY, CALLS = 1, 2
shared = mmap.mmap(os.open(control, os.O_RDWR), 4096)
def live(): return struct.unpack_from("i", shared, 12)[0]
def arm(kind, at):
    shared[0:12], shared[16:48] = struct.pack("iii", 0, at, 0), bytes(32)
    struct.pack_into("i", shared, 0, kind)
def disarm():
    struct.pack_into("i", shared, 0, 0)
    return struct.unpack_from("i", shared, 8)[0], shared[16:48].rstrip(bytes(1)).decode()

RIGHT = {"ENOMEM", "EMFILE", "ENFILE", "EIO", "EAGAIN", "EDQUOT", "ENOSPC"}
def open_flags(how): return os.O_NONBLOCK | (os.O_WRONLY if how == "write" else os.O_RDONLY)
def do(how, file, *words):
    global opened
    opened = False
    path = os.path.join(tree, file)
    try:
        signal.alarm(15)
        if how == "mkdir": os.mkdir(path)
        elif how == "rmdir": os.rmdir(path)
        elif how == "list": return 0, "\n".join(sorted(os.listdir(path)))
        elif how == "rename": os.rename(path, os.path.join(tree, words[0]))
        else:
            fd = os.open(path, open_flags(how))
            try:
                opened = True
                if how == "write": os.write(fd, " ".join(words).encode())
                else: return 0, os.read(fd, 1 << 17).decode("latin1")
            finally: os.close(fd)
    except OSError as e: return e.errno, os.strerror(e.errno)
    finally: signal.alarm(0)
    return 0, ""
import errno
def name(code): return errno.errorcode.get(code, str(code)) if code else "ok"
def hangs(*_): raise SystemExit("an operation does not end: " + str(now))
signal.signal(signal.SIGALRM, hangs)

def state(): # of all PMCs, and which instances there are
    found = {"": do("list", "")[1], "instances": do("list", "instances")[1]}
    found["readers"] = do("read", "admin/tunables/readers"), os.path.exists(tree + "/x") and os.stat(tree + "/x").st_gid
    for pmc in ("x", "y"):
        if os.path.exists(os.path.join(tree, pmc)):
            for file in ("config", "event", "mode", "target", "ctl", "count"):
                found[pmc + "/" + file] = do("read", pmc + "/" + file)
            if simulated or "system" in found[pmc + "/mode"][1]: del found[pmc + "/count"] # it goes on
    return found
def clean():
    for file in ("x", "y", "instances/i"):
        code, text = do("rmdir", file)
        if code not in (0, errno.ENOENT): say("rmdir without a fault: " + text)
def held():
    return len(os.listdir("/proc/" + daemon + "/fd"))
def settled(least): # what is let go of later has its time
    until = time.monotonic() + 1
    while (held(), live()) > least and (held() > least[0] or live() > least[1]) and time.monotonic() < until: time.sleep(0.002)
    return held(), live()
os.umask(0o077) # so that a PMC is shown as of the readers
problems = []
def say(text):
    problems.append(text)
    print(now, text.rstrip(), flush=True)

mute = {}
def once(before, step, kind, at, expected):
    global now
    clean()
    for command in before:
        code, text = do(*command)
        if code: say("%s without a fault: %s" % (command, text))
    old = state()
    arm(kind, at)
    code, text = do(*step)
    seen, failed = disarm()
    now = "%s: %s %d (%s): %s:" % (" ".join(step), {MEMORY: "memory", CALLS: "call"}[kind], at, failed, name(code))
    if not os.path.exists("/proc/" + daemon + "/fd/0"): raise SystemExit(now + " the daemon is gone")
    told = do("read", step[1].split("/")[0] + "/error")[1] if step[1][0] == "x" and step[0] == "write" and opened else None
    new = state()
    if code:
        if not failed or name(code) not in RIGHT: say("not an errno of that: " + str(told))
        if told is not None and not re.match(name(code) + r" \S+ [a-z]+: .", told):
            # Before there is a request nothing can be told of it: libfuse and pmcfs take memory for one each.
            mute[step] = mute.get(step, set()) | {at if kind == MEMORY and failed == "calloc" else "no"}
            if "no" in mute[step] or len(mute[step]) > 2: say("error says " + repr(told))
        if new != old: say("changed: %s" % [(k, old.get(k), new.get(k)) for k in set(old) | set(new) if old.get(k) != new.get(k)])
        again, words = do(*step)
        if again: say("fails without a fault: " + words)
        new = state()
    if expected and new != expected[0]:
        say("not as without a fault: %s" % [(k, expected[0].get(k), new.get(k)) for k in set(new) | set(expected[0]) if new.get(k) != expected[0].get(k)])
    if expected and not code and step[0] in ("read", "list") and not "samples" in step[1] and len(text.split("\n")) != expected[1]:
        say("the text has %d lines, %d without a fault" % (len(text.split("\n")), expected[1]))
    clean()
    return seen, failed, (new, len(text.split("\n"))), code

def grows(before, step, kind, at, expected, least):
    got = settled(least)
    if got[0] <= least[0] and got[1] <= least[1]: return got
    trail = [got]
    for _ in range(4):
        once(before, step, kind, at, expected)
        trail.append(settled(trail[-1]))
    for i, what in enumerate(("descriptors", "pieces of memory")):
        if all(a[i] < b[i] for a, b in zip(trail, trail[1:])): say("%s stay behind: %s" % (what, [t[i] for t in trail]))
    return trail[-1]

simulated = not do("read", "info/backend")[1].startswith("perf")
opened, now, tries, refused, by = False, "", 0, 0, {}
before = []
for line in sys.stdin:
    line = tuple(shlex.split(line))
    if not line: before = []; continue
    if line[0] == "+": before.append(line[1:]); continue
    for kind in (MEMORY, CALLS):
        for _ in range(3): seen, _, expected, code = once(before, line, kind, 0, None)
        if code: say("fails without a fault")
        least = settled((0, 0))
        at, stride = 1, max(1, seen // limit)
        while True:
            _, failed, _, code = once(before, line, kind, at, expected)
            if not failed: break
            tries, refused, by[failed] = tries + 1, refused + (code != 0), by.get(failed, 0) + 1
            least = grows(before, line, kind, at, expected, least)
            at += stride
        print("%s: %d of %s, tried to %d" % (" ".join(line), seen, {MEMORY: "memory", CALLS: "calls"}[kind], at - stride), flush=True)
print("%d faults, %d refusals, %s" % (tries, refused, by))
sys.exit(1 if problems else 0)
'

# with_faults: a daemon that the library is loaded into.
with_faults() {
    truncate -s 4096 faults
    RUN_DAEMON+=(env "LD_PRELOAD=$HELPERS/faults.so" "PMCFS_FAULTS=$T/faults")
}

# steps: of standard input, each is run with faults: HOW FILE WORDS…; "+" are those before it; an empty line begins
# anew.
steps() {
    /usr/bin/python3 -B -I -c "$faults" "$M" "$SERVER" "$T/faults" "$([[ ${FAULTS:-} == all ]] && echo 100000 || echo "${1:-12}")" ||
        die "see above"
}

#@ slow plain
t_what_makes_a_pmc_is_whole_or_nothing() {
    with_faults
    mount_pmcfs -o single
    target_start p
    steps <<E
mkdir x
+ mkdir x
write x/config event=page-faults,task-clock descendants=on log-exit=on count=5,6 logsize=1000000
rename x y
rmdir x
+ write x/config event=page-faults,task-clock descendants=on count=5,6
write x/target ${PID_OF[p]}
+ write x/target ${PID_OF[p]}
write x/ctl stop
write x/target -${PID_OF[p]}
write x/ctl detach
rmdir x
+ write x/ctl stop
write x/ctl start
write x/ctl restart
write x/ctl reset
write x/config event=context-switches
E
}

#@ slow plain
t_what_makes_a_pmc_of_a_simulated_machine_is_whole_or_nothing() {
    with_faults
    mount_sim sim_cpus=4,sim_rows=4 -o single
    target_start p
    steps 8 <<E
+ mkdir x
write x/config event=instructions,cycles count=5,6
+ write x/config event=instructions,cycles count=5,6
write x/target ${PID_OF[p]}
+ write x/target ${PID_OF[p]}
write x/ctl stop
read x/detail
rmdir x
E
}

#@ slow plain
t_what_samples_is_whole_or_nothing() {
    with_faults
    mount_pmcfs -o single
    target_start p
    steps 8 <<E
+ mkdir x
+ write x/config event=cpu-clock freq=100 callchain=on descendants=on log-exit=on log-csw=on
write x/target ${PID_OF[p]}
+ write x/target ${PID_OF[p]}
write x/ctl stop
write x/ctl close
read x/samples
read x/samples.perf
read x/samples.folded
write x/samples hello
rmdir x
E
}

#@ slow plain
t_what_is_read_is_whole_or_refused() {
    with_faults
    mount_pmcfs -o single
    target_start p
    steps <<E
+ mkdir x
+ write x/config event=page-faults,task-clock descendants=on "target=${PID_OF[p]}"
read x/count
read x/detail
read x/status
read x/config
read x/metrics
read counts
read metrics.prom
read info/rows
read info/stats
read events/software/page-faults
list events
list x
E
}

#@ slow plain
t_what_counts_cpus_and_instances_is_whole_or_nothing() {
    with_faults
    mount_pmcfs -o single
    steps 8 <<E
mkdir instances/i
+ mkdir instances/i
rmdir instances/i

+ mkdir x
+ write admin/tunables/readers 1234
write admin/tunables/readers root

+ mkdir x
+ write x/config event=context-switches
write x/target all
+ write x/target cpu0
write x/ctl stop
rmdir x
E
}

replaced='
import mmap, os, signal, struct, sys
tree, supervisor, control, limit = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
shared = mmap.mmap(os.open(control, os.O_RDWR), 4096)
def worker():
    while True:
        children = open("/proc/%s/task/%s/children" % (supervisor, supervisor)).read().split()
        if children: return int(children[0])
def text(file): return open(os.path.join(tree, file)).read()
def state(): return [sorted(os.listdir(tree))] + [text(name + "/" + file) for name in ("a", "b", "c")
    for file in ("count", "config", "target", "ctl", "mode")] + [os.pread(held, 100, 0)]
def kill(kind, at): # the next read waits for the one that serves
    shared[0:12], shared[16:48] = struct.pack("iii", 0, at, 0), bytes(32)
    struct.pack_into("i", shared, 0, kind)
    os.kill(worker(), signal.SIGKILL)
    try: found = state()
    except OSError: found = None # it was of one of these requests
    struct.pack_into("i", shared, 0, 0)
    found = found or state()
    return struct.unpack_from("i", shared, 8)[0], shared[16:48].rstrip(bytes(1)).decode(), found
held, bad, done = os.open(os.path.join(tree, "a/count"), os.O_RDONLY), 0, 0
expected = state()
for kind in (1, 2):
    seen, _, found = kill(kind, 0)
    for at in range(1, seen, max(1, seen // limit)):
        signal.alarm(20)
        _, failed, found = kill(kind, at)
        done += failed != ""
        if found != expected or not os.path.exists("/proc/" + supervisor + "/fd/0"):
            print("%s %d: %s" % (failed, at, [pair for pair in zip(expected, found) if pair[0] != pair[1]]))
            bad += 1
    print("%d of kind %d in a start" % (seen, kind))
print("%d faults" % done)
sys.exit(bad > 0 or done < limit)
'

#@ slow plain
t_a_worker_that_begins_with_a_fault_goes_on_with_all_there_is() {
    with_faults
    mount_pmcfs
    target_start p
    pmc a event=page-faults,task-clock descendants=on log-exit=on "target=${PID_OF[p]}"
    pmc b event=page-faults period=1 "target=${PID_OF[p]}"
    pmc c event=context-switches target=cpu0
    ctl c stop
    tell p faults 100
    /usr/bin/python3 -B -I -c "$replaced" "$M" "$DAEMON" "$T/faults" \
        "$([[ ${FAULTS:-} == all ]] && echo 100000 || echo 25)" || die "see above"
}

control='
import mmap, os, struct, sys
tree, shared = sys.argv[1], mmap.mmap(os.open(sys.argv[2], os.O_RDWR), 4096)
MEMORY, ENDS = 1, 3
def disarm(): struct.pack_into("i", shared, 0, 0)
def arm(kind, at):
    shared[0:12] = struct.pack("iii", 0, at, 0)
    struct.pack_into("i", shared, 0, kind)
'

# with_control: the program of standard input.
with_control() {
    /usr/bin/python3 -B -I -c "$control$(cat)" "$M" "$T/faults"
}

# The kernel tells of a close once. What is asked for next takes the fault where the close needs no memory.
#@ plain
t_a_file_is_closed_where_there_is_no_memory() {
    with_faults
    mount_pmcfs -o single
    pmc x event=page-faults
    with_control <<'P'
for file in ("x/detail", "x/count", "x/samples", "info/stats") * 20:
    fd = os.open(os.path.join(tree, file), os.O_RDONLY | os.O_NONBLOCK)
    try: os.read(fd, 10)
    except BlockingIOError: pass
    arm(MEMORY, 1)
    os.close(fd)
    try: os.listdir(tree)
    except OSError: pass
    disarm()
P
    eventually 5 '[[ $(stat_value open_files) == 1 ]]'
}

#@ plain
t_a_file_is_counted_once_wherever_its_worker_ends() {
    with_faults
    mount_pmcfs
    exec {held}<"$M/README"
    with_control <<'P'
x = os.path.join(tree, "x")
for gone in (False, True):
    for file, flags in (("count", os.O_RDONLY), ("ctl", os.O_RDONLY), ("ctl", os.O_WRONLY)):
        for at in range(1, 9):
            os.mkdir(x)
            os.stat(os.path.join(x, file))
            arm(ENDS, at)
            fd = os.open(os.path.join(x, file), flags)
            if gone: os.rmdir(x)
            os.close(fd)
            disarm()
            if not gone: os.rmdir(x)
P
    between "$(stat_value restarts)" 12 48
    eventually 5 '[[ $(stat_value open_files) == 2 ]]'
    exec {held}<&-
    eventually 5 '[[ $(stat_value open_files) == 1 ]]'
}
