# shellcheck shell=bash disable=SC2016,SC2034
# Bad input and large numbers: no crash, no leak, no hang.

#@ slow
t_random_bytes_into_every_writable_file() {
    mount_pmcfs
    SEED=${PMCFS_SEED:-1}
    echo "seed $SEED"
    python "$SEED" <<'P'
import errno, os, random, sys, time
root, rng = sys.argv[1], random.Random(int(sys.argv[2]))
os.mkdir(root + "/a")
files = [root + "/a/" + n for n in ("config", "event", "mode", "target", "ctl", "count")]
tunables = root + "/admin/tunables/"
files += [tunables + n for n in os.listdir(tunables)]
words = b"event=|page-faults|cycles:u|msr/tsc/|sched:sched_switch|mem:0x1000:rw|r01c2|,os|self|tid:|cpu0-3|all|cgroup:/|-|start|stop|count=|row=|=|#|\n|\0| |18446744073709551616|on|off|../".split(b"|")
def piece():
    n = rng.choice((1, 2, 5, 20, 100, 1000, 5000))
    if rng.random() < 0.5:
        return bytes(rng.getrandbits(8) for _ in range(n))
    return b"".join(rng.choice(words) for _ in range(min(n, 40)))
sent, until = 0, time.monotonic() + 20
while sent < 1000000 and time.monotonic() < until:
    for name in files:
        try:
            fd = os.open(name, os.O_WRONLY)
        except PermissionError:
            continue
        for _ in range(rng.randint(1, 4)):
            text = piece()
            sent += len(text)
            try:
                os.write(fd, text)
            except OSError as e: # refused, with a sentence that has this errno's name
                printed = open(root + "/info/last_error").read()
                assert printed.split()[1] == errno.errorcode[e.errno], (name, text, e, printed)
                assert e.errno not in (errno.EIO, errno.ENOMEM, errno.EFAULT), (name, text, printed)
        os.close(fd)
for name in os.listdir(root + "/a"):
    try:
        fd = os.open(root + "/a/" + name, os.O_RDONLY | os.O_NONBLOCK)
        os.read(fd, 65536)
    except OSError as e:
        assert e.errno in (errno.EAGAIN, errno.ENODATA, errno.EACCES), (name, e)
print(sent, "bytes")
P
    rmdir "$M/a" 2>/dev/null || [[ ! -e $M/a ]]
    empty cat "$M/counts"
}

t_random_names() {
    mount_pmcfs
    python <<'P'
import errno, os, random, re, sys
rng = random.Random(int(os.environ.get("PMCFS_SEED", 1)))
legal, made = re.compile(rb"[a-zA-Z0-9][a-zA-Z0-9._:@+-]*\Z"), 0
for _ in range(2000):
    name = bytes(rng.choice(b"aZ0._-:@+ \n\x01\xff=\\\"") for _ in range(rng.choice((1, 2, 3, 4, 20, 255, 256, 280))))
    path = os.fsencode(sys.argv[1]) + b"/" + name
    if name in (b".", b".."):
        continue
    try:
        os.mkdir(path)
    except OSError as e:
        assert e.errno == (errno.ENAMETOOLONG if len(name) > 255 else errno.EINVAL), (name, e)
        assert len(name) > 255 or not legal.match(name), (name, e)
        continue
    assert len(name) <= 255 and legal.match(name), name
    os.rmdir(path)
    made += 1
assert made > 50, made
P
}

#@ slow
t_ten_thousand_pmcs() {
    mount_pmcfs -o max_pmcs_per_user=20000
    python <<'P'
import os, sys
root = sys.argv[1]
for i in range(10000):
    os.mkdir("%s/p%d" % (root, i))
    fd = os.open("%s/p%d/event" % (root, i), os.O_WRONLY)
    os.write(fd, b"page-faults")
    os.close(fd)
names = [n for n in os.listdir(root) if n[0] == "p"]
assert len(names) == len(set(names)) == 10000
assert open(root + "/counts").read().count("\n") == 10000
assert open(root + "/metrics.prom").read().count("pmcfs_count_total{") == 10000
for i in range(10000):
    os.rmdir("%s/p%d" % (root, i))
P
    empty cat "$M/counts"
}

#@ slow plain
t_memory_and_descriptors_are_flat() {
    mount_pmcfs
    storm() {
        python <<'P'
import os, sys
root = sys.argv[1]
for i in range(1000):
    os.mkdir(root + "/a")
    fd = os.open(root + "/a/config", os.O_WRONLY)
    os.write(fd, b"event=page-faults event=task-clock target=self")
    os.close(fd)
    open(root + "/a/count").read()
    os.rmdir(root + "/a")
    try:
        os.stat(root + "/nothing%d" % i)
    except FileNotFoundError:
        pass
P
        awk '/^VmRSS/ { print $2 }' "/proc/$SERVER/status"
    }
    local fds first
    storm >/dev/null # after this all serving threads exist
    first=$(storm)
    fds=$(find "/proc/$DAEMON/fd" -type l | wc -l)
    storm >/dev/null
    # Some memory and descriptors are freed a little later.
    eventually 5 "((\$(awk '/^VmRSS/ { print \$2 }' /proc/$SERVER/status) <= $first + 1024))"
    eventually 5 "((\$(find /proc/$DAEMON/fd -type l | wc -l) <= $fds))"
}

# A user's words are escaped in sentences: they cannot look like other words, and contain no terminal commands.
t_words_in_sentences_do_not_look_alike() {
    mount_pmcfs
    mkdir "$M/a"
    refused EINVAL '.*' "$M/a/event" $'\e[2J'
    like "$(cat "$M/a/error")" '"\\033\[2J"'
    refused EINVAL '.*' "$M/a/event" '\\033[2J'
    like "$(cat "$M/a/error")" '"\\134033\[2J"'
    refused EINVAL '.*' "$M/a/config" $'"=\xff'
    like "$(cat "$M/a/error")" '\\042'
    unlike "$(cat "$M/a/error")" $'\xff'
    fails_with EINVAL "mkdir '$M/x\"\\y'"
    like "$(cat "$M/info/last_error")" '"x\\042\\134y"'
}

# An attach checks from time to time whether its writer was killed; then it attaches nothing.
#@ slow
t_a_long_attach_stops_when_its_writer_is_killed() {
    mount_pmcfs
    for i in 1 2 3 4 5 6; do
        target_start "p$i"
        tell "p$i" threads 700
    done
    accepted "$M/admin/tunables/attach_ms" 60000
    pmc a event=page-faults event=task-clock event=context-switches event=minor-faults
    local writer attached before=${EPOCHREALTIME/./}
    attach a "${PID_OF[p1]}"
    local each=$((${EPOCHREALTIME/./} - before))
    attach a "-${PID_OF[p1]}"
    for ((;; each /= 2)); do
        "$HELPERS/io" write "$M/a/target" "${PID_OF[*]}" >"$T/printed" &
        writer=$!
        sleep "$(awk "BEGIN { print $each / 1000000 }")"
        kill -KILL "$writer" 2>/dev/null || :
        wait "$writer" 2>/dev/null || :
        attached=$(wc -l <"$M/a/target")
        ((attached > 0)) || break
        is "$attached" 6 "targets of a write that was over"
        ((each > 1000)) || die "every write was over before its writer could be killed"
        ctl a detach
    done
}

#@ slow plain
t_memory_of_a_burst_is_freed() {
    mount_pmcfs -o max_pmcs_per_user=20000
    resident() { awk '/^VmRSS/ { print $2 }' "/proc/$SERVER/status"; }
    local before
    before=$(resident)
    python <<'P'
import os, sys
root = sys.argv[1]
for i in range(10000):
    os.mkdir("%s/p%d" % (root, i))
    fd = os.open("%s/p%d/event" % (root, i), os.O_WRONLY)
    os.write(fd, b"page-faults")
    os.close(fd)
open(root + "/metrics.prom").read()
for i in range(10000):
    os.rmdir("%s/p%d" % (root, i))
P
    eventually 5 "(( \$(resident) < $before + 6144 ))"
}

# The kernel sends uevents for all devices; pmcfs only gets those of CPUs.
#@ plain
t_mounts_of_others_do_not_wake_the_daemon() {
    mount_pmcfs
    mkdir "$T/other"
    eventually 5 "was=\$(switches); sleep 0.3; [[ \$(switches) == \"\$was\" ]]"
    local was
    was=$(switches)
    for _ in {1..10}; do
        mount -t tmpfs none "$T/other"
        umount "$T/other"
        sleep 0.02
    done
    between "$(switches)" "$was" $((was + 3)) # a CPU may go offline or online in between
}

switches() { sed -n 's/^voluntary_ctxt_switches:\t//p' "/proc/$DAEMON/task/$DAEMON/status"; }
