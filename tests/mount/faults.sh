# shellcheck shell=bash disable=SC2016
# Each allocation and each system call of an operation fails once: the operation succeeds, or fails with an errno of
# that cause and changes nothing; nothing leaks. The same is done for a start, a supervisor, the start of a worker and an
# upgrade: the mount survives, or never existed. The number of tries is limited unless FAULTS=all (sh tests/soak.sh
# faults).

# Python that arms faults.c and reads its results, in the memory that it shares with a test.
layer='
import mmap, os, re, shlex, signal, struct, subprocess, sys, time
tree, limit = sys.argv[2], int(sys.argv[3])
MEMORY, CALLS, ALL_CALLS = 1, 2, 3
KINDS = {MEMORY: "memory", CALLS: "call", ALL_CALLS: "call"}
class Layer:
    def __init__(self, file): self.shared = mmap.mmap(os.open(file, os.O_RDWR), 4096)
    def live(self): return struct.unpack_from("i", self.shared, 12)[0]
    def arm(self, kind, at, not_worker=False):
        self.shared[0:12], self.shared[16:52] = struct.pack("iii", 0, at, 0), bytes(32) + struct.pack("i", not_worker)
        struct.pack_into("i", self.shared, 0, kind)
    def disarm(self):
        struct.pack_into("i", self.shared, 0, 0)
        return struct.unpack_from("i", self.shared, 8)[0], self.shared[16:48].rstrip(bytes(1)).decode()
layer = Layer(sys.argv[1])
live, arm, disarm = layer.live, layer.arm, layer.disarm
'

faults='
daemon = sys.argv[4]

RIGHT = {"ENOMEM", "EMFILE", "ENFILE", "EIO", "EAGAIN", "EDQUOT", "ENOSPC"}
def open_flags(how): return os.O_NONBLOCK | (os.O_WRONLY if how == "write" else os.O_RDONLY)
def do(how, file, *words):
    global opened
    opened = False
    path = os.path.join(tree, file)
    try:
        signal.alarm(60)
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
            if simulated or "system" in found[pmc + "/mode"][1]: del found[pmc + "/count"] # it keeps counting
    return found
def clean():
    for file in ("x", "y", "instances/i"):
        code, text = do("rmdir", file)
        if code not in (0, errno.ENOENT): say("rmdir without a fault: " + text)
def held():
    return len(os.listdir("/proc/" + daemon + "/fd"))
def settled(least): # objects freed later get time for that
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
    now = "%s: %s %d (%s): %s:" % (" ".join(step), KINDS[kind], at, failed, name(code))
    if not os.path.exists("/proc/" + daemon + "/fd/0"): raise SystemExit(now + " the daemon is gone")
    error = do("read", step[1].split("/")[0] + "/error")[1] if step[1][0] == "x" and step[0] == "write" and opened else None
    new = state()
    if code:
        if not failed or name(code) not in RIGHT: say("not an errno of that: " + str(error))
        if error is not None and not re.match(name(code) + r" \S+ [a-z]+: .", error):
            # An allocation before the request is read fails without an answer: libfuse and pmcfs make one each.
            mute[step] = mute.get(step, set()) | {at if kind == MEMORY and failed == "calloc" else "no"}
            if "no" in mute[step] or len(mute[step]) > 2: say("error is " + repr(error))
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
        print("%s: %d of kind %s, tried to %d" % (" ".join(line), seen, KINDS[kind], at - stride), flush=True)
print("%d faults, %d refusals, %s" % (tries, refused, by))
sys.exit(1 if problems else 0)
'

# with_faults: the next daemon loads faults.so; FAULTY is the command prefix for other programs. The library of a
# sanitizer must be loaded first; its own allocations never fail.
with_faults() {
    truncate -s 4096 faults
    FAULTY=(env "LD_PRELOAD=$(ldd "$BIN" | awk '/lib.san/ { print $3 }') $HELPERS/faults.so")
    RUN_DAEMON+=("${FAULTY[@]}" "PMCFS_FAULTS=$T/faults")
}

# with_layer PROGRAM LIMIT WORD…: about LIMIT faults of each kind are tried, fewer where a sanitizer makes it slow.
with_layer() {
    local limit=$2
    [[ $VARIANT == plain ]] || limit=$((limit / 3))
    [[ ${FAULTS:-} != all ]] || limit=100000
    /usr/bin/python3 -B -I -c "$layer$1" "$T/faults" "$M" "$limit" "${@:3}" ||
        die "see above; the last fault: $(awk '/^fault/ { printed = "" } { printed = printed "\n" $0 } END { print printed }' "$T/faults.printed")"
}

# steps: runs each line of standard input with faults: HOW FILE WORDS…. "+" repeats the lines before; an empty line
# starts a new sequence.
steps() {
    with_layer "$faults" "${1:-12}" "$SERVER"
}

#@ slow plain
t_creating_a_pmc_succeeds_or_changes_nothing() {
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
t_creating_a_simulated_pmc_succeeds_or_changes_nothing() {
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
t_creating_a_sampling_pmc_succeeds_or_changes_nothing() {
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
t_a_read_is_complete_or_refused() {
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
t_creating_cpu_pmcs_and_instances_succeeds_or_changes_nothing() {
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

# Texts that must stay the same whatever happens to the worker.
served='
supervisor = sys.argv[4]
def children(): return open("/proc/%s/task/%s/children" % (supervisor, supervisor)).read().split()
def worker():
    while True:
        found = children()
        if found: return int(found[0])
def text(file): return open(os.path.join(tree, file)).read()
def log(): # after the line that names the processor
    with open(os.open(os.path.join(tree, "b/samples"), os.O_NONBLOCK), "rb") as f: return f.raw.read(2000).split(b" class=")[1]
def state(): return [sorted(set(os.listdir(tree)) - {"made"}), text("info/backend"), log()] + [
    text(name + "/" + file) for name in ("a", "b", "c") for file in ("count", "config", "target", "ctl", "mode")] + [os.pread(held, 100, 0)]
held = os.open(os.path.join(tree, "a/count"), os.O_RDONLY)
expected = state()
def differs(found): # from where on
    pairs = [(a, b, len(os.path.commonprefix([a, b]))) for a, b in zip(expected, found) if a != b]
    return [(a[at:at + 100], b[at:at + 100]) for a, b, at in pairs]
'

replaced='
def write(file, words):
    with open(os.path.join(tree, file), "w") as f: f.write(words)
def killed(): # the next read waits for the next worker
    os.kill(worker(), signal.SIGKILL)
    os.pread(held, 100, 0)
def begun():
    try: killed()
    except OSError: pass # the fault was of this request
def sampled(): # rings are mapped a second time, and no more
    os.mkdir(tree + "/d")
    write("d/config", "event=page-faults period=1 target=%d" % os.getpid())
    write("d/ctl", "stop")
    os.rmdir(tree + "/d")
def configured():
    os.kill(int(supervisor), signal.SIGHUP)
    os.pread(held, 100, 0)
bad, done = 0, 0
def faults(act, kind, not_worker):
    global bad, done
    arm(kind, 0, not_worker)
    act()
    seen, _ = disarm()
    for at in range(1, seen + 1, max(1, seen // limit)):
        signal.alarm(60)
        arm(kind, at, not_worker)
        act()
        _, failed = disarm()
        found = state()
        done += failed != ""
        if found != expected or not os.path.exists("/proc/" + supervisor + "/fd/0"):
            print("%s %d: %s" % (failed, at, differs(found)))
            bad += 1
    print("%d of kind %s: %s" % (seen, KINDS[kind], act.__name__), flush=True)
if sys.argv[5] == "worker":
    for kind in (MEMORY, CALLS): faults(begun, kind, False)
else:
    for act in (killed, sampled, configured):
        for kind in (MEMORY, ALL_CALLS): faults(act, kind, True)
print("%d faults" % done)
sys.exit(bad > 0 or not done)
'

# mount_with_faults: with PMCs a, b, c that count.
mount_with_faults() {
    with_faults
    SUPERVISED=1 mount_pmcfs
    target_start p
    pmc a event=page-faults,task-clock descendants=on log-exit=on "target=${PID_OF[p]}"
    pmc b event=page-faults period=1 "target=${PID_OF[p]}"
    pmc c event=context-switches target=cpu0
    ctl c stop
    tell p faults 100
    eventually 10 '(($(status b log_records) > 100))' # and not more later
}

#@ slow
t_a_worker_that_starts_with_a_fault_continues_with_all_state() {
    mount_with_faults
    with_layer "$served$replaced" 40 "$DAEMON" worker
}

#@ slow
t_a_supervisor_with_a_fault_fails_no_request_and_continues() {
    mount_with_faults
    with_layer "$served$replaced" 100 "$DAEMON" supervisor
}

starts='
words, others = sys.argv[4:], os.path.dirname(tree)
program = os.path.realpath(words[words.index("--") + 1])
del words[words.index("--")]
def alive(): # processes of the program
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try: found += [int(pid)] if os.readlink("/proc/%s/exe" % pid) == program else []
        except OSError: pass
    return found
def eventually(what):
    until = time.monotonic() + 40
    while not what():
        if time.monotonic() > until: return False
        time.sleep(0.005)
    return True
def text(file): return open(os.path.join(tree, file)).read()
def works(): # what there is, as far as it is always the same
    made = os.path.join(tree, "x")
    os.mkdir(made)
    with open(made + "/config", "w") as f: f.write("event=page-faults count=7 target=%d" % os.getpid())
    with open(made + "/ctl", "w") as f: f.write("detach")
    found = [int(text("x/count")) >= 7, text("x/config"), os.stat(made + "/count").st_gid] + [sorted(os.listdir(os.path.join(tree, d))) for d in ("", "events", "events/software")]
    os.rmdir(made)
    return found + [text(f) for f in ("info/backend", "info/rows", "admin/tunables/max_pmcs", "admin/tunables/mincount", "admin/tunables/readers")]
def end():
    first = min(alive(), default=0) # the supervisor was there before its worker
    if first: os.kill(first, signal.SIGTERM)
    return eventually(lambda: not alive()) and not os.path.ismount(tree)
def start(kind, at):
    with open(others + "/printed", "w+") as printed:
        arm(kind, at)
        try: rc = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=printed, stderr=printed, timeout=30).returncode
        except subprocess.TimeoutExpired: rc = "no end"
        seen, failed = disarm()
        printed.seek(0)
        lines = printed.read().splitlines()
    return rc, seen, failed, lines
rc, _, _, usual = start(0, 0)
expected = works()
if rc or not end(): raise SystemExit("no start without a fault")
bad, done, refused, reasons = [], 0, 0, set()
def judge(rc, lines):
    if rc == 0:
        try: found = works()
        except (OSError, ValueError) as e: found = [e]
        wrong = [] if found == expected else ["it does not work", [pair for pair in zip(expected, found) if pair[0] != pair[1]]]
        return wrong + ([] if end() else ["it does not end"])
    ours = [line for line in lines if not re.match("pmcfs: (fuse: |Failed to allocate)", line)] # libfuse has its own
    wrong = [] if rc == 1 and len(ours) == 1 and re.match(r"pmcfs: \S+ .+ .+", ours[0]) else ["no status 1 and one sentence"]
    if not eventually(lambda: not alive()): wrong.append("still there: %s" % alive())
    if os.path.ismount(tree): wrong.append("mounted")
    again, _, _, lines = start(0, 0)
    return wrong + ([] if again == 0 and lines == usual and end() else ["the next start fails: %s" % lines])
for kind in (MEMORY, ALL_CALLS):
    _, seen, _, _ = start(kind, 0)
    end()
    at = 1
    while True:
        rc, _, failed, lines = start(kind, at)
        more = [line for line in lines if line not in usual]
        wrong = judge(rc, more)
        if wrong: bad.append(print("%s %d (%s): status %s, printed %s: %s" % (KINDS[kind], at, failed, rc, more, wrong), flush=True))
        if alive() or os.path.ismount(tree):
            for pid in alive(): os.kill(pid, signal.SIGKILL)
            eventually(lambda: not alive())
            subprocess.run(["umount", "-l", tree], stderr=subprocess.DEVNULL)
        if not failed: break
        done, refused, reasons = done + 1, refused + (rc != 0), reasons | set(more)
        at += max(1, seen // limit)
    print("%d of kind %s" % (seen, KINDS[kind]), flush=True)
for line in sorted(reasons): print(line)
print("%d faults, %d refusals" % (done, refused))
sys.exit(1 if bad or not done else 0)
'

# start_with_faults OPTION…
start_with_faults() {
    with_faults
    M=$T/pmc
    mkdir "$M"
    printf 'max_pmcs = 50\nmincount = 70\n' >"$T/conf"
    with_layer "$starts" 25 "${RUN_DAEMON[@]}" -- "$BIN" -c "$T/conf" -o fsname=x,readers=daemon "$@" "$M"
}

#@ slow
t_a_start_with_a_fault_mounts_or_prints_one_sentence_and_leaves_nothing() { start_with_faults; }

#@ slow
t_a_start_as_one_process_with_a_fault_mounts_or_prints_one_sentence_and_leaves_nothing() {
    start_with_faults -o single
}

control='
import mmap, os, struct, sys
tree, shared = sys.argv[1], mmap.mmap(os.open(sys.argv[2], os.O_RDWR), 4096)
MEMORY, ENDS, FREES, OPENED, SWITCHED = 1, 4, 5, 6, 7
def disarm(): struct.pack_into("i", shared, 0, 0)
def arm(kind, at):
    shared[0:12] = struct.pack("iii", 0, at, 0)
    struct.pack_into("i", shared, 0, kind)
'

# with_control: runs the Python program of standard input, with arm() and disarm().
with_control() {
    /usr/bin/python3 -B -I -c "$control$(cat)" "$M" "$T/faults"
}

# The kernel reports a close once. If the close needs no memory, the next operation gets the fault.
#@ plain
t_a_file_is_closed_without_memory() {
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

# The lookup process is killed after a time limit, before it could report its descriptor.
#@ plain
t_a_file_that_a_killed_lookup_process_opened_is_closed() {
    with_faults
    mount_pmcfs -o single
    target_start p
    pmc x event=page-faults log-exit=on
    with_control <<P
held = lambda: len(os.listdir("/proc/$SERVER/fd"))
def attach():
    for word in "${PID_OF[p]}", "-${PID_OF[p]}":
        fd = os.open(tree + "/x/target", os.O_WRONLY)
        try: os.write(fd, word.encode())
        except OSError: pass
        os.close(fd)
attach()
before, hit = held(), 0
for at in range(1, 9):
    arm(OPENED, at)
    attach()
    hit += struct.unpack_from("i", shared, 8)[0] >= at
    disarm()
    attach()
assert hit > 0, "no file was opened by a lookup"
assert held() == before, "%d descriptors, before %d killed lookups %d" % (held(), hit, before)
P
}

#@ plain
t_a_file_is_counted_once_wherever_its_worker_dies() {
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

# The worker frees memory between the moment when the record is in the log and its answer to the writer.
#@ plain
t_a_text_written_to_samples_is_stored_once_wherever_the_worker_dies() {
    with_faults
    mount_pmcfs
    exec {held}<"$M/README"
    pmc a event=cpu-clock freq=100
    with_control <<'P'
for n in range(24):
    fd = os.open(os.path.join(tree, "a/samples"), os.O_WRONLY)
    arm(FREES, n // 2 + 1)
    os.write(fd, b"text %d" % n)
    os.close(fd)
    open(os.path.join(tree, "a/status")).read()
    disarm()
reads = os.open(os.path.join(tree, "a/samples"), os.O_RDONLY | os.O_NONBLOCK)
found = [line.split("text=")[1] for line in os.read(reads, 1 << 17).decode().splitlines() if " user " in line]
assert found == ["text\\040%d" % n for n in range(24)], found
P
    between "$(stat_value restarts)" 12 48
}

# The worker frees memory while it adds up the counts of threads that exited, before their records are in the log, and
# after the remainder of a stop is there.
#@ plain
t_steps_and_exits_add_up_wherever_the_worker_ends() {
    with_faults
    with_tracefs # otherwise threads have no last values
    mount_pmcfs
    exec {held}<"$M/README"
    with_control <<'P'
import subprocess, time
def write(file, text):
    with open(os.path.join(tree, "a", file), "w") as out: out.write(text)
def text(file):
    with open(os.path.join(tree, "a", file)) as of: return of.read()
os.mkdir(os.path.join(tree, "a"))
shell = subprocess.Popen(["sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def run(line):
    print(line, "; echo", file=shell.stdin, flush=True)
    shell.stdout.readline()
write("config", "event=page-faults descendants=on log-csw=on log-exit=on target=%d" % shell.pid)
for n in range(40):
    run("sh -c : & sh -c : & wait")
    arm(FREES, n + 1)
    write("samples", "drains")
    text("count")
    disarm()
for n in range(40):
    run("sh -c :")
    arm(FREES, n + 1)
    write("ctl", "stop")
    text("count")
    disarm()
    write("ctl", "start")
shell.stdin.close()
shell.wait()
until = time.monotonic() + 60
while text("ctl") != "exited\n" and time.monotonic() < until: time.sleep(0.02)
counted, log, sums = int(text("count")), text("samples"), {"csw": 0, "exit": 0}
for line in log.splitlines():
    fields = line.split()
    if fields[1] in sums: sums[fields[1]] += sum(int(field[6:]) for field in fields if field.startswith("count="))
assert sums == {"csw": counted, "exit": counted}, (counted, sums, log[-3000:])
stops = [line for line in log.splitlines() if line.split()[1] == "stop"]
assert len(stops) == 40 + (log.splitlines()[-1].split()[1] == "stop"), (len(stops), log[-3000:])
P
    between "$(stat_value restarts)" 40 160
}

# refused_after_a_switch TEXT: Alice writes TEXT, with the new target q, to the target file of a. The worker is
# killed after it started or stopped the other target, and the next one refuses the command, because the quota is smaller.
refused_after_a_switch() {
    with_control <<<'arm(SWITCHED, 1)'
    result_as "$ALICE" write "$M/a/target" "$1" >"$T/answer" &
    eventually 10 'grep -qs "^fault: ioctl" "$T/faults.printed"'
    accepted "$M/admin/tunables/max_fds_per_user" 1
    kill -KILL "$SERVER"
    wait $!
    is "$(<"$T/answer")" EDQUOT
    is "$(stat_value restarts)" 1
}

# of_alice SETTINGS…: a mount with a PMC a of Alice and her processes p, which is its target, and q, which has two
# threads.
of_alice() {
    with_faults
    mount_pmcfs
    target_start p "$ALICE"
    target_start q "$ALICE"
    tell q threads 1
    as "$ALICE" mkdir "$M/a"
    is "$(result_as "$ALICE" write "$M/a/config" "event=page-faults $* target=${PID_OF[p]}")" ok
}

#@ plain
t_a_target_that_a_dead_worker_stopped_for_a_refused_command_counts_on() {
    of_alice
    refused_after_a_switch "-${PID_OF[p]} ${PID_OF[q]}"
    is "$(state a) $(cat "$M/a/target")" "running ${PID_OF[p]}"
    local before
    before=$(count a)
    tell p faults 10
    between "$(count a)" $((before + 10)) $((before + 200))
}

#@ plain
t_a_target_that_a_dead_worker_started_for_a_refused_command_does_not_count() {
    of_alice autostart=off
    is "$(result_as "$ALICE" write "$M/a/config" autostart=on)" ok
    refused_after_a_switch "${PID_OF[q]}"
    is "$(state a) $(cat "$M/a/target")" "allocated ${PID_OF[p]}"
    local before
    before=$(count a)
    tell p faults 10
    is "$(count a)" "$before"
}

upgraded='
import threading
asks, programs, prefix = Layer(sys.argv[5]), sys.argv[6:8], sys.argv[8:]
def serves(): return os.readlink("/proc/%s/exe" % supervisor)
def settled(): # one worker, which runs
    until = time.monotonic() + 40
    while time.monotonic() < until:
        found = children()
        try:
            if len(found) == 1 and open("/proc/%s/stat" % found[0]).read().rsplit(")", 1)[1].split()[0] in "RSD": return True
        except OSError: pass
        time.sleep(0.005)
    return False
failures = []
def client(): # until the end
    while True:
        try:
            if text("a/count") != counted: failures.append("another count")
            os.mkdir(tree + "/made")
            os.rmdir(tree + "/made")
        except OSError as e: failures.append(e)
        time.sleep(0.001)
counted = text("a/count")
threading.Thread(target=client, daemon=True).start()
def upgrade(layer, kind, at):
    old = serves()
    new = programs[old == programs[0]]
    layer.arm(kind, at, True)
    try: ran = subprocess.run(prefix + [new, "--upgrade", tree], capture_output=True, text=True, timeout=40)
    except subprocess.TimeoutExpired: raise SystemExit("%s %d: no end" % (KINDS[kind], at))
    seen, failed = layer.disarm()
    printed = [line for line in ran.stderr.splitlines() if line.startswith("pmcfs: ")]
    now = "%s %d (%s): status %d, printed %s:" % (KINDS[kind], at, failed, ran.returncode, printed)
    if not os.path.exists("/proc/%s/fd/0" % supervisor): raise SystemExit(now + " the mount is gone")
    wrong = [] if settled() else ["children %s" % children()]
    if serves() != (old if ran.returncode else new): wrong.append("serves %s" % serves())
    if ran.returncode and (ran.returncode != 1 or len(printed) != 1 or len(printed[0].split()) < 6): wrong.append("no sentence")
    found = state()
    if found != expected: wrong.append(differs(found))
    if failures: wrong.append("a client: %s" % failures)
    if wrong: print(now, wrong, flush=True)
    failures.clear()
    return seen, failed, ran.returncode, printed, wrong
bad, done, refused, reasons = 0, 0, 0, set()
may = not upgrade(layer, MEMORY, 0)[2]
for what, which in (("answers", layer), ("asks", asks)):
    for kind in (MEMORY, ALL_CALLS):
        seen = upgrade(which, kind, 0)[0]
        at = 1
        while True:
            _, failed, rc, printed, wrong = upgrade(which, kind, at)
            bad += wrong != [] or (not may and not rc)
            if not failed: break
            done, refused, reasons = done + 1, refused + rc, reasons | set(printed)
            at += max(1, seen // limit)
        print("%d of kind %s: %s" % (seen, KINDS[kind], what), flush=True)
for line in sorted(reasons): print(line)
print("%d faults, %d refusals" % (done, refused))
sys.exit(1 if bad or not done else 0)
'

# upgrade_with_faults LIMIT COMMAND…: COMMAND starts the program that requests the upgrade.
upgrade_with_faults() {
    mount_with_faults
    cp "$BIN" "$T/one"
    cp "$BIN" "$T/other"
    truncate -s 4096 asks
    with_layer "$served$upgraded" "$1" "$DAEMON" "$T/asks" "$T/one" "$T/other" \
        "${@:2}" "${FAULTY[@]}" "PMCFS_FAULTS=$T/asks"
}

#@ slow
t_an_upgrade_with_a_fault_happens_or_is_refused_with_a_reason() { upgrade_with_faults 15; }

#@ slow
t_an_upgrade_without_capabilities_is_refused_whatever_fails() { upgrade_with_faults 8 "${POWERLESS[@]}"; }
