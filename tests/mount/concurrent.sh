# shellcheck shell=bash disable=SC2016
# Many things at once: nothing is torn, nothing hangs, nothing is left. These run under TSan as well.

# for_ms MS 'SHELL TEXT': repeats the text for MS milliseconds, in the background.
for_ms() {
    (
        until=$(($(date +%s%N) / 1000000 + $1))
        while (($(date +%s%N) / 1000000 < until)); do
            eval "$2"
        done
    ) >/dev/null 2>&1 &
    LOOPS+=($!)
}

wait_loops() {
    for pid in "${LOOPS[@]}"; do
        wait "$pid" || :
    done
}

#@ slow
t_targets_die_while_they_are_attached() {
    LOOPS=()
    mount_pmcfs
    pmc a event=page-faults descendants=on
    for_ms 2000 'sleep 0.01 & echo $! >"$M/a/target"'
    # A shell's own commands raise no page fault: without a fork nothing might be counted.
    for_ms 2000 'sh -c "echo self >$M/a/target; (:); true"'
    for_ms 2000 'cat "$M/a/target" "$M/a/detail" "$M/a/status"'
    wait_loops
    eventually 10 '[[ $(state a) == exited ]]'
    empty cat "$M/a/target"
    local n
    n=$(count a)
    [[ $n -gt 0 ]] || die "nothing counted"
}

#@ slow
t_a_hundred_clients_get_only_the_expected_errors() {
    mount_pmcfs
    python <<'P'
import errno, os, random, sys, threading, time
root, until, failures = sys.argv[1], time.monotonic() + 4, []
# Of two clients one is late. The kernel returns ESTALE if the directory was removed and created twice during one open.
OK = {"ENOENT", "EEXIST", "ENODEV", "EBUSY", "ENODATA", "EINVAL", "ESRCH", "ESTALE"}
def operations(me):
    rng, mine = random.Random(me), "c%d" % (me % 20)
    path = root + "/" + mine
    def put(name, text):
        fd = os.open(path + "/" + name, os.O_WRONLY)
        try: os.write(fd, text.encode())
        finally: os.close(fd)
    def get(name):
        with open(path + "/" + name, "rb", buffering=0) as f: return f.read(65536)
    return [lambda: os.mkdir(path), lambda: os.rmdir(path), lambda: put("event", "page-faults"),
            lambda: put("event", "task-clock page-faults"), lambda: put("target", "self"),
            lambda: put("target", "%d" % os.getppid()), lambda: put("ctl", rng.choice(("start", "stop", "reset", "detach"))),
            lambda: put("count", "7"), lambda: get("count"), lambda: get("detail"), lambda: get("status"),
            lambda: os.listdir(root)], rng
def client(me):
    ops, rng = operations(me)
    while time.monotonic() < until:
        try:
            rng.choice(ops)()
        except OSError as e:
            if errno.errorcode[e.errno] not in OK:
                failures.append(e)
                return
threads = [threading.Thread(target=client, args=(i,)) for i in range(100)]
[t.start() for t in threads]
[t.join() for t in threads]
assert not failures, failures[:3]
for name in os.listdir(root):
    if name.startswith("c") and name != "counts":
        os.rmdir(root + "/" + name)
P
    empty cat "$M/counts"
}

#@ slow
t_blocked_readers_and_pollers_return_when_the_pmc_is_removed() {
    local waiters
    mount_pmcfs
    target_start p
    for round in 1 2 3 4 5; do
        pmc a event=page-faults interval=60000 notify=1000000 "target=${PID_OF[p]}"
        waiters=()
        for _ in 1 2 3; do
            timeout 60 cat "$M/a/series" >/dev/null &
            waiters+=($!)
        done
        /usr/bin/python3 -c '
import os, select, sys
p = select.poll()
for name in ("count", "ctl"):
    fd = os.open(sys.argv[1] + "/a/" + name, os.O_RDONLY); os.pread(fd, 99, 0)
    p.register(fd, select.POLLPRI)
open(sys.argv[2], "w").close()
while not any(e & select.POLLHUP for _, e in p.poll(20000)): pass' "$M" "$T/polls" &
        waiters+=($!)
        eventually 20 "[[ -e $T/polls ]]"
        rm "$T/polls"
        sleep 0.3
        rmdir "$M/a"
        wait "${waiters[@]}" || die "round $round: a reader or poller did not end"
    done
}

t_a_target_of_a_thousand_threads_is_exact() {
    mount_pmcfs -o attach_ms=60000
    target_start p
    tell p threads 1000
    pmc a event=page-faults "target=${PID_OF[p]}"
    is "$(status a attach)" exact
    tell p each 2
    between "$(count a)" 2000 4000
    local readers=()
    for _ in 1 2 3; do
        (for _ in {1..20}; do cat "$M/a/count"; done) >/dev/null &
        readers+=($!)
    done
    wait "${readers[@]}"
    rmdir "$M/a"
}

# Two threads read one open file in pieces at the same time: the text is created once, and both get it.
#@ slow
t_one_open_of_metrics_is_one_text_for_all_its_readers() {
    mount_pmcfs
    for i in {1..50}; do pmc "p$i" event=task-clock target=cpu0; done
    python <<'PYTHON' || die "see above"
import os, sys, threading
def read(fd, got, start):
    start.wait()
    text = b''
    while piece := os.pread(fd, 1000, len(text)):
        text += piece
    got.append(text)
for turn in range(100):
    fd, got, start = os.open(sys.argv[1] + "/metrics.prom", os.O_RDONLY), [], threading.Barrier(2)
    threads = [threading.Thread(target=read, args=(fd, got, start)) for _ in range(2)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    os.close(fd)
    if got[0] != got[1]:
        sys.exit(f'turn {turn}: two texts')
PYTHON
}
