# shellcheck shell=bash disable=SC2016,SC2034
# The memory that pmcfs uses for open files is charged to their user and bounded.

ALICES=(setpriv --reuid "$ALICE" --regid "$ALICE" --clear-groups --)

# opens TREE N FILE: opens FILE of the PMC p N times, with one long remark in its log, and reads half of it. OPENED is
# the number of opened files, REFUSAL the error of the next one, GREW the growth of the daemon in MiB.
opens='
import os, resource, sys
tree, n, name, daemon = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
def resident():
    with open(f"/proc/{daemon}/status") as f: return int([l for l in f if "VmRSS" in l][0].split()[1])
with open(tree + "/p/samples", "wb", 0) as f: f.write(b"\1" * 65000 + b"\n")
before, held, printed = resident(), [], "none"
try:
    while len(held) < n:
        held.append(os.open(tree + "/p/" + name, os.O_RDONLY | os.O_NONBLOCK))
        os.read(held[-1], 65536)
        os.read(held[-1], 1)
except OSError as e: printed = os.strerror(e.errno)
print(len(held), printed, max(0, resident() - before) >> 10, sep=";") # it may have trimmed more than it needed'
opens() {
    ulimit -n 20000
    IFS=';' read -r OPENED REFUSAL GREW < <("${ALICES[@]}" /usr/bin/python3 -B -I -c "$opens" "$@" "$SERVER")
    [[ $VARIANT != asan ]] || GREW=0 # ASan keeps freed memory
}

# box LIMIT: creates an instance of ALICE with this max_log
box() {
    mkdir "$M/instances/box"
    chown "$ALICE:$ALICE" "$M/instances/box"
    accepted "$M/admin/instances/box/max_log" "$1"
}

t_streams_that_are_half_read_are_charged_to_their_user() {
    mount_pmcfs -o max_log_per_user=1000000
    as "$ALICE" mkdir "$M/p"
    opens "$M" 3000 samples
    is "$REFUSAL" "${STRERROR[EDQUOT]}" "opened $OPENED"
    between "$OPENED" 50 250 'streams half read'
    between "$GREW" 0 60 'MiB more'
    like "$(as "$BOB" head -n 1 "$M/counts"; echo well)" 'well$'
    like "$(as "$ALICE" head -n 1 "$M/p/samples")" ' initialize ' 'once they are closed'
}

t_streams_that_are_half_read_are_charged_to_their_instance() {
    mount_pmcfs
    box 1000000
    as "$ALICE" mkdir "$M/instances/box/p"
    opens "$M/instances/box" 1000 samples
    is "$REFUSAL" "${STRERROR[EDQUOT]}" "opened $OPENED"
    between "$OPENED" 3 20 'streams half read'
    between "$GREW" 0 8 'MiB more'
    like "$(as "$ALICE" head -n 1 "$M/instances/box/p/samples")" ' initialize ' 'once they are closed'
}

#@ slow plain
t_ten_thousand_open_streams_take_less_than_30_mib() {
    mount_pmcfs
    as "$ALICE" mkdir "$M/p"
    is "$(result_as "$ALICE" write "$M/p/event" page-faults)" ok
    opens "$M" 10000 series
    is "$OPENED $REFUSAL" '10000 none'
    between "$GREW" 0 30 'MiB more'
}

# groups TREE DAEMON N OPENS: a process with 65,536 groups attaches N processes, and then opens a file OPENS times with
# different groups each time. Prints the growth of the daemon and its journal in MiB, the numbers of targets and open
# files, and the error of the next one.
groups='
import os, subprocess, sys
tree, daemon, n, opens, uid = sys.argv[1], *map(int, sys.argv[2:6])
def grown():
    with open(f"/proc/{daemon}/status") as f: kib = sum(int(l.split()[1]) for l in f if "RssAnon" in l)
    for fd in os.listdir(f"/proc/{daemon}/fd"):
        path = f"/proc/{daemon}/fd/{fd}"
        if "pmcfs-journal" in os.readlink(path): return kib * 1024 + os.stat(path).st_blocks * 512
def become(more):
    os.seteuid(0)
    os.setgroups(range(100000 + more, 165536))
    os.seteuid(uid)
others = [subprocess.Popen(["sleep", "1000"], user=uid, group=uid, extra_groups=[]) for i in range(n)]
before = grown()
os.setegid(uid)
become(0)
held, printed = [], "none"
for other in others:
    with open(tree + "/p/target", "w") as f: f.write(str(other.pid) + "\n")
try:
    for i in range(opens):
        become(i + 1)
        held.append(os.open(tree + "/p/config", os.O_WRONLY))
except OSError as e: printed = os.strerror(e.errno)
os.seteuid(0)
with open(tree + "/p/target") as f: targets = len(f.read().split())
print(max(0, grown() - before) >> 20, targets, len(held), printed, sep=";")
for other in others: other.kill()'
groups() {
    IFS=';' read -r GREW TARGETS OPENED REFUSAL < <(/usr/bin/python3 -B -I -c "$groups" "$M" "$SERVER" "$@" "$ALICE")
}

#@ slow plain
t_the_groups_of_an_opener_are_kept_once_for_all_targets() {
    mount_pmcfs
    as "$ALICE" mkdir "$M/p"
    is "$(result_as "$ALICE" write "$M/p/event" page-faults)" ok
    groups 60 0
    is "$TARGETS $REFUSAL" '60 none'
    between "$GREW" 0 5 'MiB more'
}

#@ slow
t_the_groups_of_openers_are_charged() {
    mount_pmcfs -o max_log_per_user=0
    as "$ALICE" mkdir "$M/p"
    groups 0 100
    between "$OPENED" 10 20 "$REFUSAL"
    is "$REFUSAL" "${STRERROR[EDQUOT]}"
    like "$(as "$ALICE" cat "$M/info/last_error")" "${FAILED}EDQUOT P11 p/[a-z]+: open: .* groups"
}

# ---- replies end after a complete line ----

# remarks PMC: writes lines of many lengths, more than fit into one reply.
remarks() {
    python3 -c '
import sys
with open(sys.argv[1], "wb", 0) as f:
    for n in range(1500): f.write(b"%d-" % n + b"\2" * (n * 37 % 600) + b"\n")' "$M/$1/samples"
}

# The line is not lost: a reader with a larger buffer gets it.
t_a_line_that_may_not_be_kept_is_not_lost() {
    mount_pmcfs
    box 100000
    as "$ALICE" mkdir "$M/instances/box/p"
    local limit printed
    is "$("${ALICES[@]}" "$HELPERS/io" write "$M/instances/box/p/samples" "$(printf 'y%.0s' {1..3000})\n")" ok
    # Find a limit at which the open fits but the kept text does not.
    for limit in 100000 102000 104000 106000; do
        accepted "$M/admin/instances/box/max_log" $limit
        printed=$("${ALICES[@]}" /usr/bin/python3 -B -I -c '
import os, sys
path = sys.argv[1]
held = []
try:
    while len(held) < 1000:
        opened = False
        held.append(os.open(path, os.O_RDONLY))
        opened = True
        os.read(held[-1], 1000)
        os.read(held[-1], 10)
except OSError as e:
    if not opened: sys.exit()
    line = os.read(held[-1], 65536)
    print(os.strerror(e.errno), line.count(b"y"), line[-1:])' "$M/instances/box/p/samples")
        [[ ! $printed ]] || break
    done
    is "$printed" "${STRERROR[EDQUOT]} 3000 b'\n'"
}

# ---- subordinate ids ----

# TREE USER: each of four ids of a user namespace, which USER creates, creates PMCs until one is refused.
ids='
import ctypes, os, sys
tree, maker = sys.argv[1], int(sys.argv[2])
ready, mapped = os.pipe(), os.pipe()
pid = os.fork()
if pid == 0:
    os.setgroups([]); os.setresgid(maker, maker, maker); os.setresuid(maker, maker, maker)
    libc = ctypes.CDLL(None)
    libc.prctl(4, 1, 0, 0, 0)
    if libc.unshare(0x10000000): os._exit(1)
    os.write(ready[1], b"x"); os.read(mapped[0], 1)
    for inner in reversed(range(4)):
        if os.fork() == 0:
            os.setresgid(inner, inner, inner); os.setresuid(inner, inner, inner)
            made, printed = 0, ""
            try:
                for i in range(10):
                    os.mkdir(f"{tree}/s{inner}_{i}"); made += 1
            except OSError as e: printed = e.strerror
            print(made, printed, flush=True)
            os._exit(0)
        os.wait()
    os._exit(0)
os.read(ready[0], 1)
for ids in "uid", "gid":
    with open(f"/proc/{pid}/{ids}_map", "w") as f: f.write(f"0 {maker} 1\n1 {100000 + maker} 65536\n")
os.write(mapped[1], b"x"); os.waitpid(pid, 0)'

t_subordinate_ids_are_charged_to_the_user_who_has_them() {
    need_user_namespaces
    mount_pmcfs -o max_pmcs_per_user=5
    is "$(/usr/bin/python3 -B -I -c "$ids" "$M" "$ALICE" | tr '\n' ' ')" \
        "5 ${STRERROR[EDQUOT]} 0 ${STRERROR[EDQUOT]} 0 ${STRERROR[EDQUOT]} 0 ${STRERROR[EDQUOT]} "
    as "$BOB" mkdir "$M/b"
}

t_each_id_that_root_gave_to_a_container_has_its_quota() {
    need_user_namespaces
    mount_pmcfs -o max_pmcs_per_user=5
    is "$(/usr/bin/python3 -B -I -c "$ids" "$M" 0 | tail -n 2 | tr '\n' ' ')" \
        "5 ${STRERROR[EDQUOT]} 5 ${STRERROR[EDQUOT]} "
}

# memory_group BYTES: creates a cgroup GROUP with this memory limit.
memory_group() {
    local root=/sys/fs/cgroup file=memory.max
    if [[ -d $root/memory ]]; then
        root+=/memory file=memory.limit_in_bytes
    fi
    GROUP=$(mktemp -d "$root/pmcfs-XXXXXX" 2>/dev/null) || skip 'cgroups cannot be made here'
    trap 'rmdir "$GROUP"' EXIT
    [[ -e $GROUP/$file ]] || skip 'no control of memory'
    echo "$1" >"$GROUP/$file"
}

#@ plain
t_one_users_logs_are_refused_before_the_daemon_is_killed() {
    memory_group $((40 << 20))
    RUN_DAEMON=(sh -c "echo \$\$ >$GROUP/cgroup.procs; exec \"\$@\"" sh)
    mount_pmcfs
    is "$(<"$M/admin/tunables/max_log_per_user")" $((10 << 20))
    refused EINVAL '' "$M/admin/tunables/max_log_per_user" $((10 << 20 | 1))
    is "$("${ALICES[@]}" /usr/bin/python3 -B -I - "$M" <<'P'
import os, sys
try:
    for i in range(250):
        os.mkdir(f"{sys.argv[1]}/p{i}")
        with open(f"{sys.argv[1]}/p{i}/samples", "wb", 0) as f:
            for _ in range(100): f.write(b"x" * 60000 + b"\n")
except OSError as e: print(os.strerror(e.errno))
P
    )" 'Cannot allocate memory'
    is "$(as "$BOB" head -n 1 "$M/info/version")" "$(head -n 1 "$M/info/version")"
    unmount_pmcfs "$M"
}
