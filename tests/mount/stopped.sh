# shellcheck shell=bash disable=SC2154
# A user who stops the lookup processes of pmcfs delays only requests of the same user, and cannot keep pmcfs alive.

# shellcheck source=tests/mount/rights_lib.sh
. "${BASH_SOURCE[0]%/*}/rights_lib.sh"

# stop_helpers STEP: alice, who owns a user namespace, attaches in it with four threads and stops the lookup processes
# of the daemon there. STEP others: bob attaches while she waits for an answer; STEP kill: the daemon is killed while a
# lookup process is stopped.
stop_helpers() {
    python "$DAEMON" "$1" "$ALICE" "$BOB" <<'P'
import ctypes, errno, os, signal, sys, threading, time
root, daemon, step, alice, bob = sys.argv[1], *(int(a) if a.isdigit() else a for a in sys.argv[2:])
out_r, out_w = os.pipe()
libc = ctypes.CDLL(None)
CLONE_NEWUSER, PR_SET_DUMPABLE = 0x10000000, 4

def put(path, text):
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, str(text).encode())
    except OSError as e:
        return errno.errorcode[e.errno]
    finally:
        os.close(fd)
    return "ok"

def become(user):
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    libc.prctl(PR_SET_DUMPABLE, 1)

def sleeper():
    pid = os.fork()
    if pid == 0:
        signal.pause()
        os._exit(0)
    return pid

def printed(*words):
    os.write(out_w, (" ".join(map(str, words)) + "\n").encode())

def attach(who, pmc, pid):
    began = time.monotonic_ns()
    got = put(f"{root}/{pmc}/target", pid)
    if got == "EAGAIN" and "in your user namespace is stopped" not in open(f"{root}/{pmc}/error").read():
        got = "another sentence"
    printed(who, began, time.monotonic_ns(), got)
    if got == "ok":
        put(f"{root}/{pmc}/target", f"-{pid}")

def attach_always(who, pmc, pid):
    while True:
        attach(who, pmc, pid)

def stop_all():
    done = os.getpid()
    at = os.open("/proc/loadavg", os.O_RDONLY)
    while True:
        last = int(os.pread(at, 200, 0).split()[-1])
        for pid in range(max(done + 1, last - 3), last + 2):
            try:
                os.kill(pid, signal.SIGSTOP)
                printed("stopped", time.monotonic_ns(), pid)
                done = pid
            except OSError:
                pass

def attacker():
    become(alice)
    libc.unshare(CLONE_NEWUSER)
    for name, text in ("setgroups", "deny"), ("uid_map", f"0 {alice} 1"), ("gid_map", f"0 {alice} 1"):
        with open(f"/proc/self/{name}", "w") as f:
            f.write(text)
    target = sleeper()
    for i in range(4):
        os.mkdir(f"{root}/a{i}")
        put(f"{root}/a{i}/event", "page-faults")
    for i in range(4):
        threading.Thread(target=attach_always, args=("alice", f"a{i}", target)).start()
    if os.fork() == 0:
        stop_all() # processes started after this one

def bystander():
    become(bob)
    target = sleeper()
    os.mkdir(f"{root}/b")
    put(f"{root}/b/event", "page-faults")
    attach_always("bob", "b", target)

def state_of(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return None

def killed(helper):
    os.kill(daemon, signal.SIGSTOP)
    while state_of(daemon) not in ("T", "t"):
        time.sleep(0.001)
    if state_of(helper) != "T":
        os.kill(daemon, signal.SIGCONT)
        return False
    os.kill(daemon, signal.SIGKILL)
    return True

parts = []
for part in (attacker,) if step == "kill" else (attacker, bystander):
    parts.append(os.fork())
    if parts[-1] == 0:
        os.setpgid(0, 0)
        try:
            part()
            threading.Event().wait()
        finally:
            printed(part.__name__, 0, 0, "an exception")
    os.setpgid(parts[-1], parts[-1])
waits, stops, passed = {}, [], []

def answered(rest):
    """Did bob get in and out after a stop, while alice waited for the answer that it delayed?"""
    began, ended, got = int(rest[0]), int(rest[1]), rest[2]
    return got == "EAGAIN" and any(
        began <= stop <= b0 and b1 <= ended for stop in stops[-9:] for b0, b1 in passed[-9999:])

def watch():
    for line in open(out_r):
        who, *rest = line.split()
        if who == "stopped":
            stops.append(int(rest[0]))
            if step == "kill" and killed(int(rest[1])):
                return f"killed beside {rest[1]}"
        elif rest[2] != "ok" and (who, rest[2]) != ("alice", "EAGAIN"):
            return f"{who} got {rest[2]}"
        elif who == "bob":
            passed.append((int(rest[0]), int(rest[1])))
        elif step == "others" and answered(rest):
            return "others go on"

print(watch())
for part in parts:
    os.killpg(part, signal.SIGKILL)
P
}

#@ alone plain
t_others_continue_while_a_namespace_owner_stops_the_lookup_process() {
    need_user_namespaces
    mount_pmcfs
    is "$(stop_helpers others)" 'others go on'
}

#@ alone plain
t_a_killed_daemon_unmounts_whatever_is_stopped() {
    need_user_namespaces
    mount_pmcfs -o single
    local printed
    printed=$(stop_helpers kill)
    like "$printed" '^killed beside [0-9]+$'
    unset "DAEMON_OF[$M]"
    DAEMON=0
    is "$(timeout -s KILL 20 "$HELPERS/io" open "$M/README" r 2>&1 || :)" ENOTCONN
    umount "$M"
    # A process that was stopped before it set its parent-death signal checks for the daemon when it continues.
    kill -CONT "${printed##* }" 2>/dev/null || :
    eventually 5 "! kill -0 ${printed##* } 2>/dev/null"
}
