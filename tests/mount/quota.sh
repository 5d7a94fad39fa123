# shellcheck shell=bash disable=SC2016,SC2034
# A user at a limit gets an error that names it, and other users are not affected.

ALICES=(setpriv --reuid "$ALICE" --regid "$ALICE" --clear-groups --)

# started PROGRAM: waits until the last job executes it; STARTED is its PID
started() {
    STARTED=$!
    eventually 10 "[[ \$(</proc/$STARTED/comm) == $1 ]]"
}

# all_sleep PID…: waits until all of them execute sleep
all_sleep() { eventually 30 "[[ \$(cut -d ' ' -f 2,3 $(printf '/proc/%s/stat ' "$@") | sort -u) == '(sleep) S' ]]"; }

# users NAME USER [SETTINGS]: creates a PMC as USER
users() {
    as "$2" mkdir "$M/$1"
    (($# == 2)) || is "$(result_as "$2" write "$M/$1/config" "${*:3}") $(<"$M/$1/error")" "ok ok" "settings of $1"
}

# bob_continues: operations that always work if other users only exhaust their own quotas.
bob_continues() {
    users bobs "$BOB" event=page-faults
    is "$(result_as "$BOB" write "$M/bobs/target" "${PID_OF[bob]}")" ok "bob attaches"
    tell bob faults 100
    between "$(as "$BOB" cat "$M/bobs/count")" 100 1000 "bob's count"
    as "$BOB" rmdir "$M/bobs"
}

# hang_start: mounts a file system that does not answer (hang.c) on $T/hang
hang_start() {
    mkdir -m 755 "$T/hang"
    "$HELPERS/hang" "$T/hang" >"$T/asked" &
    eventually 10 'mountpoint -q "$T/hang"'
}

# FILE N: N threads read FILE until it blocks. Prints "started"; after a line of input waits for three refusals and prints
# them; exits after the next line.
waiters='
import errno, os, sys, threading, time
path, n, refused = sys.argv[1], int(sys.argv[2]), []
threading.stack_size(65536)
def wait(fd):
    try:
        while os.read(fd, 65536): pass
    except OSError as e:
        refused.append(errno.errorcode[e.errno])
for _ in range(n):
    threading.Thread(target=wait, args=(os.open(path, os.O_RDONLY),), daemon=True).start()
print("started", flush=True)
sys.stdin.readline()
while len(refused) < 3: time.sleep(0.01)
print(" ".join(refused), flush=True)
sys.stdin.readline()
os._exit(0)'

# ---- waits ----

#@ slow
t_a_user_has_a_thousand_waiting_readers_and_the_next_is_edquot() {
    mount_pmcfs
    target_start alice "$ALICE"
    target_start bob "$BOB"
    users a "$ALICE" event=page-faults period=1000000 "target=${PID_OF[alice]}"
    users b "$BOB" event=page-faults period=1 "target=${PID_OF[bob]}"
    coproc WAITERS { as "$ALICE" /usr/bin/python3 -B -I -c "$waiters" "$M/a/samples" 1003; }
    local line in=${WAITERS[1]} out=${WAITERS[0]} waiters=$WAITERS_PID
    read -r -t 60 -u "$out" line
    is "$line" started
    # One command, because after a reload the readers wait again, one after the other.
    eventually 20 '(($(stat_value parked) >= 1000)) && [[ $(result_as "$ALICE" read "$M/a/samples") == EDQUOT ]]'
    eventually 20 '(($(stat_value parked) == 1000))'
    echo >&"$in"
    read -r -t 60 -u "$out" line
    is "$line" 'EDQUOT EDQUOT EDQUOT'

    # Others wait, and are woken.
    timeout 60 setpriv --reuid "$BOB" --regid "$BOB" --clear-groups -- cat "$M/b/samples" >"$T/bobs" &
    local reader=$!
    eventually 10 '(($(stat_value parked) == 1001))'
    tell bob faults 10
    eventually 10 'grep -q " sample " "$T/bobs"'
    as "$BOB" rmdir "$M/b"
    wait "$reader"
    bob_continues

    # After they exit, requests may wait again.
    echo >&"$in"
    wait "$waiters" || :
    eventually 20 '(($(stat_value parked) == 0))'
    is "$(result_as "$ALICE" read "$M/a/samples" nonblock)" EAGAIN
}

t_pollers_count_as_waiting_requests() {
    mount_pmcfs -o max_waiting_per_user=3
    for n in 1 2 3 4; do users "a$n" "$ALICE" event=page-faults; done
    users b "$BOB" event=page-faults
    is "$(as "$ALICE" /usr/bin/python3 -B -I - "$M" <<'P'
import os, select, sys
def polled(names):
    p, fds = select.poll(), [os.open(sys.argv[1] + "/" + n + "/ctl", os.O_RDONLY) for n in names]
    for fd in fds: p.register(fd, select.POLLPRI)
    events = [e for _, e in p.poll(200)]
    for fd in fds: os.close(fd)
    return events
print(polled(["a1", "a2", "a3"]), polled(["a1", "a2", "a3", "a4"]) == [select.POLLERR], polled(["a2", "a3", "a4"]))
P
    )" '[] True []'
}

# ---- the daemon's time ----

# flood_start FILE N SETTINGS: N threads of alice read a/FILE continuously; flooder is their PID; a line to TO_FLOOD stops
# them
flood_start() {
    users a "$ALICE" event=page-faults "${@:3}"
    coproc FLOOD { exec "${ALICES[@]}" "$HELPERS/io" flood "$M/a/$1" "$2"; }
    flooder=$FLOOD_PID
    TO_FLOOD=${FLOOD[1]} OF_FLOOD=${FLOOD[0]}
    local line
    read -r -t 60 -u "$OF_FLOOD" line
    is "$line" fast
}

#@ slow
t_a_user_who_reads_continuously_stops_nothing_for_others() {
    mount_pmcfs
    target_start bob "$BOB"
    users b "$BOB" event=page-faults interval=20 "target=${PID_OF[bob]}"
    local pids
    mapfile -t pids < <(as "$ALICE" bash -c 'for _ in {1..48}; do sleep 90 >/dev/null & echo $!; done')
    all_sleep "${pids[@]}"
    flood_start config 200 "${pids[@]/#/target=}"
    sleep 1.5
    is "$(timeout 60 setpriv --reuid "$BOB" --regid "$BOB" --clear-groups -- head -n 50 "$M/b/series" | wc -l)" 50 \
        "lines of bob's series"
    echo >&"$TO_FLOOD"
    wait "$flooder" || die "a read was short"
    kill "${pids[@]}"
}

# ---- at every limit at once ----

#@ slow
t_a_user_at_every_limit_affects_no_other_user() {
    mount_pmcfs -o max_pmcs_per_user=4,max_fds_per_user=8,max_events_per_process=3,max_log_per_user=1500000,max_waiting_per_user=2
    target_start alice "$ALICE"
    target_start bob "$BOB"
    local waiting=()
    "${ALICES[@]}" sleep 60 &
    started sleep
    users e "$ALICE" event=page-faults event=task-clock event=minor-faults "target=${PID_OF[alice]}"
    users s "$ALICE" event=page-faults period=1000000 logsize=1000000 "target=$STARTED"
    users t "$ALICE" event=page-faults period=1000000 logsize=1000000
    users f "$ALICE" event=page-faults
    for _ in 1 2; do
        as "$ALICE" cat "$M/s/samples" >/dev/null &
        waiting+=($!)
    done
    eventually 10 '(($(stat_value parked) == 2))'

    fails_with EDQUOT "as $ALICE mkdir $M/more"
    is "$(result_as "$ALICE" write "$M/f/target" "${PID_OF[alice]}")" EDQUOT 'events on one process'
    like "$(cat "$M/f/error")" 'max_events_per_process allows 3'
    is "$(result_as "$ALICE" write "$M/t/target" "$STARTED")" EDQUOT 'log'
    like "$(cat "$M/t/error")" '^EDQUOT P11 '
    is "$(result_as "$ALICE" read "$M/s/samples")" EDQUOT 'waiting'

    bob_continues
    users s2 "$BOB" event=page-faults period=1 logsize=1000000 "target=${PID_OF[bob]}"
    tell bob faults 10
    eventually 10 'grep -q " sample " < <(so_far s2)'
    as "$ALICE" rmdir "$M/s"
    wait "${waiting[@]}"
    is "$(result_as "$ALICE" write "$M/t/target" "${PID_OF[alice]}")" EDQUOT 'events on one process'
}

# For an open file of a process in another user namespace pmcfs keeps a descriptor of that namespace.
t_open_files_from_another_user_namespace_are_charged_as_descriptors() {
    need_user_namespaces
    mount_pmcfs -o max_fds_per_user=20
    target_start bob "$BOB"
    users a "$ALICE" event=page-faults
    local before during
    before=$(stat_value descriptors)
    coproc OPENER { as "$ALICE" unshare --user --map-root-user /usr/bin/python3 -B -I -c '
import ctypes, errno, os, sys
fds = []
libc = ctypes.CDLL(None)
try:
    for _ in range(30):
        assert libc.unshare(0x10000000) == 0 # a user namespace within the last one
        for what in "uid_map", "gid_map": open("/proc/self/" + what, "w").write("0 0 1")
        for _ in range(10): fds.append(os.open(sys.argv[1] + "/a/ctl", os.O_WRONLY))
except OSError as e: print(len(fds), errno.errorcode[e.errno], flush=True)
sys.stdin.readline()
for fd in fds: os.close(fd)
os.close(os.open(sys.argv[1] + "/a/ctl", os.O_WRONLY))
print("ok", flush=True)
sys.stdin.readline()' "$M"; }
    local line in=${OPENER[1]} out=${OPENER[0]}
    read -r -t 60 -u "$out" line
    is "$line" '200 EDQUOT'
    like "$(as "$ALICE" cat "$M/info/last_error")" "${FAILED}EDQUOT P11 [a-z]+/[a-z]+: open: .*user namespace.*max_fds_per_user"
    during=$(stat_value descriptors)
    is $((during - before)) 20 'descriptors'
    bob_continues
    echo >&"$in"
    read -r -t 60 -u "$out" line
    is "$line" ok
    eventually 10 '(($(stat_value descriptors) == before))'
    echo >&"$in"
}

# ---- targets that are replaced ----

t_a_replaced_target_frees_its_descriptor_for_the_new_one() {
    local name
    mount_pmcfs -o max_fds_per_user=1
    for name in p q r; do target_start "$name" "$ALICE"; done
    users a "$ALICE" event=page-faults "target=${PID_OF[p]}"
    is "$(result_as "$ALICE" write "$M/a/target" "-${PID_OF[p]} ${PID_OF[q]} ${PID_OF[r]}")" EDQUOT
    like "$(<"$M/a/error")" '^EDQUOT P11 target: .*max_fds_per_user'
    is "$(<"$M/a/target")" "${PID_OF[p]}"
    is "$(result_as "$ALICE" write "$M/a/target" "-${PID_OF[p]} ${PID_OF[q]}")" ok
    is "$(<"$M/a/target")" "${PID_OF[q]}"
}

# A PMC that waits for an exec is stopped by new counters and buffers, which replace the old ones.
t_a_pmc_that_uses_the_quota_can_be_reopened() {
    mount_pmcfs
    target_start p "$ALICE"
    users a "$ALICE" event=cpu-clock freq=10 start=exec "target=${PID_OF[p]}"
    is "$(state a)" armed
    accepted "$M/admin/tunables/max_fds_per_user" "$(status a descriptors)"
    is "$(result_as "$ALICE" write "$M/a/ctl" stop)" ok
    is "$(state a)" stopped
}

# ---- owners that change ----

#@ slow
t_charges_follow_the_owner_however_often_it_changes() {
    mount_pmcfs -o max_fds_per_user=2,max_pmcs_per_user=2
    target_start alice "$ALICE"
    target_start bob "$BOB"
    users a "$ALICE" event=page-faults "target=${PID_OF[alice]}"
    users b "$ALICE" event=page-faults
    (for _ in {1..100}; do chown "$BOB" "$M/a"; chown "$ALICE" "$M/a"; done) 2>/dev/null &
    local changing=$!
    for _ in {1..20}; do
        result_as "$ALICE" write "$M/b/target" "${PID_OF[alice]}" >/dev/null
        result_as "$ALICE" write "$M/b/target" "-${PID_OF[alice]}" >/dev/null
    done
    wait "$changing"
    chown "$ALICE" "$M/a"
    # Two descriptors, and not one more or less.
    is "$(result_as "$ALICE" write "$M/b/target" "${PID_OF[alice]}")" ok
    fails_with EDQUOT "as $ALICE mkdir $M/c"
    bob_continues
    as "$ALICE" rmdir "$M/a"
    as "$ALICE" rmdir "$M/b"
    empty cat "$M/counts"
}

# ---- hostile targets ----

t_a_target_stuck_in_exec_holds_nothing_up() {
    mount_pmcfs
    hang_start
    target_start alice "$ALICE"
    target_start bob "$BOB"
    users a "$ALICE" event=page-faults
    users s "$ALICE" event=cpu-clock freq=99 callchain=on
    users d "$ALICE" event=page-faults descendants=on log-exit=on
    echo "run $T/hang/program" >&"${IN[alice]}"
    eventually 10 '[[ -s $T/asked ]]'
    for n in a s d; do
        is "$(result_as "$ALICE" write "$M/$n/target" "${PID_OF[alice]}")" ok "attach of $n"
    done
    bob_continues
    as "$ALICE" cat "$M"/{a,d}/{count,detail,status} >/dev/null
    kill -KILL "${PID_OF[alice]}"
    for n in a s d; do eventually 10 "[[ \$(state $n) == exited ]]"; done
    for n in a s d; do as "$ALICE" rmdir "$M/$n"; done
}

#@ slow
t_a_program_whose_file_system_does_not_answer_is_sampled() {
    mount_pmcfs
    hang_start
    target_start bob "$BOB"
    "${ALICES[@]}" /usr/bin/python3 -B -I -c '
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
fd = os.open(sys.argv[1] + "/program", os.O_RDONLY)
assert libc.mmap(None, 1 << 20, 5, 2, fd, 0) != ctypes.c_void_p(-1).value
while True: pass' "$T/hang" &
    started python3
    eventually 10 'grep -q hang/program "/proc/$STARTED/maps"'
    ls "$T/hang/silent" >/dev/null &
    eventually 10 '[[ -s $T/asked ]]'
    kill -KILL $!
    ! timeout -s KILL 2 ls "$T/hang/program" >/dev/null || die "it still answers"
    local asked
    asked=$(<"$T/asked")
    users s "$ALICE" event=cpu-clock freq=199 callchain=on "target=$STARTED"
    eventually 20 'grep -q " callchain " < <(so_far s)'
    grep -q 'map-in .*hang/program' < <(so_far s)
    timeout 60 setpriv --reuid "$ALICE" --regid "$ALICE" --clear-groups -- cat "$M/s/samples.folded" >"$T/folded"
    [[ -s $T/folded ]]
    bob_continues
    kill -KILL "$STARTED"
    as "$ALICE" rmdir "$M/s"
    is "$(<"$T/asked")" "$asked" 'requests to the file system'
}

t_a_huge_sparse_program_is_sampled() {
    mount_pmcfs
    target_start bob "$BOB"
    cp "$HELPERS/hot" "$T/huge"
    truncate -s 1T "$T/huge" || skip 'no sparse files of 1 TiB here'
    mkfifo -m 666 "$T/orders"
    "${ALICES[@]}" "$T/huge" own 3000 <"$T/orders" >"$T/printed" &
    exec {orders}>"$T/orders"
    started huge
    users s "$ALICE" event=cpu-clock freq=199 callchain=on "target=$STARTED"
    echo >&"$orders"
    eventually 20 'grep -q " callchain " < <(so_far s)'
    timeout 60 setpriv --reuid "$ALICE" --regid "$ALICE" --clear-groups -- cat "$M/s/samples.folded" >"$T/folded"
    grep -q '^huge;' "$T/folded"
    bob_continues
    between "$(awk '/^VmRSS/ { print $2 }' "/proc/$SERVER/status")" 1 1000000 "KiB resident"
}

#@ slow
t_a_fork_bomb_under_descendants_stops_nothing_for_others() {
    mount_pmcfs
    target_start bob "$BOB"
    users a "$ALICE" event=page-faults descendants=on log-exit=on
    as "$ALICE" bash -c 'echo $$ >"$0/a/target"
        for i in {1..8}; do (n=0; until ((SECONDS >= 4 && ++n > 20)); do (: & : & wait); done) & done; wait' "$M" &
    local bomb=$!
    sleep 1
    for _ in 1 2 3; do bob_continues; done
    wait "$bomb"
    eventually 20 '[[ $(state a) == exited ]]'
    (($(status a log_records) > 100)) || die "nothing was logged"
    as "$ALICE" rmdir "$M/a"
    empty cat "$M/counts"
}

# stuck: a program that prints "ready", and after a line of input hangs in an exec (STUCK). Reading its mappings and
# opening events on it must wait for the exec.
stuck='
import mmap, os, sys
fd = os.open(sys.argv[1] + "/kept", os.O_RDONLY)
print("ready", flush=True)
sys.stdin.readline()
maps = []
for path in sorted(os.listdir("/usr/bin"))[:50]:
    try:
        with open("/usr/bin/" + path, "rb") as f: maps.append(mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ | mmap.PROT_EXEC, flags=mmap.MAP_PRIVATE))
    except OSError: pass
os.execv("/bin/sleep", ["sleep", "60"])'

stuck_start() {
    coproc STUCK_IN_EXEC { exec "${ALICES[@]}" /usr/bin/python3 -B -I -c "$stuck" "$T/hang"; }
    local line
    STUCK=$STUCK_IN_EXEC_PID TO_STUCK=${STUCK_IN_EXEC[1]}
    read -r -t 60 -u "${STUCK_IN_EXEC[0]}" line
    is "$line" ready
}

#@ slow
t_an_exec_that_never_finishes_delays_nothing() {
    mount_pmcfs
    hang_start
    target_start alice "$ALICE"
    target_start bob "$BOB"
    stuck_start
    users s "$ALICE" event=cpu-clock freq=997
    users a "$ALICE" event=page-faults
    users d "$ALICE" event=page-faults descendants=on log-csw=on log-exit=on
    is "$(result_as "$ALICE" write "$M/s/target" "$STUCK ${PID_OF[alice]}")" ok
    is "$(result_as "$ALICE" write "$M/d/target" "${PID_OF[alice]}")" ok
    echo >&"$TO_STUCK"
    eventually 10 '[[ -s $T/asked ]]'

    # Logging continues, and an attach finishes in time.
    tell alice spin 300
    eventually 10 'grep -q "sample pid=${PID_OF[alice]} " < <(so_far s)'
    is "$(result_as "$ALICE" write "$M/a/target" "$STUCK")" EAGAIN
    like "$(cat "$M/a/error")" '^EAGAIN P13 target: could not check within 100 ms whether you may observe process [0-9]+ .it is in execve'
    users sys 0 event=cpu-clock freq=99
    attach sys all
    is "$(result_as "$ALICE" write "$M/d/ctl" stop) $(result_as "$ALICE" write "$M/d/ctl" start)" 'ok ok'
    is "$(result_as "$ALICE" write "$M/s/ctl" stop) $(result_as "$ALICE" write "$M/s/ctl" start)" 'ok ok'
    bob_continues
    users s2 "$BOB" event=cpu-clock freq=997 "target=${PID_OF[bob]}"
    tell bob spin 300
    eventually 10 'grep -q " sample " < <(so_far s2)'
    as "$ALICE" cat "$M"/{a,d,s}/{count,detail,status} >/dev/null || :
    for n in a s d; do as "$ALICE" timeout 30 rmdir "$M/$n"; done
    unmount_pmcfs
}

# hanging_children N: starts a process of alice, HANGING, with N children that never finish an exec. An attach with its
# descendants takes N times 100 ms.
hanging_children() {
    hang_start
    coproc PARENT { exec "${ALICES[@]}" /usr/bin/python3 -B -I -c '
import os, sys
fd = os.open(sys.argv[1] + "/kept", os.O_RDONLY)
for _ in range(int(sys.argv[2])):
    if os.fork() == 0: os.execv("/bin/sleep", ["sleep", "60"])
print("ready", flush=True)
sys.stdin.readline()' "$T/hang" "$1"; }
    local line
    HANGING=$PARENT_PID
    read -r -t 60 -u "${PARENT[0]}" line
    eventually 10 "((\$(wc -l <'$T/asked') == $1))"
}

#@ slow
t_an_attach_with_children_stuck_in_exec_is_eagain_after_attach_ms() {
    mount_pmcfs -o attach_ms=1000
    hanging_children 40
    users a "$ALICE" event=page-faults descendants=on
    is "$(result_as "$ALICE" write "$M/a/target" "$HANGING")" EAGAIN
    like "$(cat "$M/a/error")" '^EAGAIN P13 target: .*attach_ms'
    as "$ALICE" rmdir "$M/a"
}

# Four attaches run at a time, and each takes attach_ms, which is longer than a busy host delays bob. A reload would wait
# for all of them.
#@ slow plain
t_slow_requests_wait_only_for_their_users_slow_requests() {
    mount_pmcfs -o attach_ms=25000
    hanging_children 300
    target_start bob "$BOB"
    for i in {1..12}; do users "a$i" "$ALICE" event=page-faults descendants=on; done
    local writers=()
    for i in {1..12}; do
        (is "$(result_as "$ALICE" write "$M/a$i/target" "$HANGING")" EAGAIN && echo "$i" >>"$T/written") &
        writers+=($!)
    done
    eventually 5 '(($(stat_value parked) == 8))'
    for _ in 1 2 3; do bob_continues; done
    between "$(find "/proc/$SERVER/task" -mindepth 1 -maxdepth 1 | wc -l)" 5 22 "threads"
    is "$(stat_value parked)" 8 "writes that wait for the four, which have not finished"
    for i in 10 11 12; do as "$ALICE" rmdir "$M/a$i"; done
    [[ ! -e $T/written ]] || die "rmdir or bob waited for a write"
    accepted "$M/admin/tunables/attach_ms" 500
    wait "${writers[@]:0:9}" || die "a write of alice's had another end"
    wait "${writers[@]}" || :
}

# The kernel takes 20 ms to list 65,536 groups. Alone, because root's opens are counted for a time.
#@ slow plain alone
t_openers_with_many_groups_wait_only_for_each_other() {
    mount_pmcfs
    between "$(python "$ALICE" <<'P'
import ctypes, os, sys, time
path, alice, n = sys.argv[1] + "/info/rows", int(sys.argv[2]), 65536
libc = ctypes.CDLL(None, use_errno=True)
def opened(seconds):
    end, times = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        os.close(os.open(path, os.O_RDONLY))
        times += 1
    return times
def attack(go, ready):
    os.setgid(alice)
    os.setuid(alice)
    libc.prctl(4, 1)
    assert libc.unshare(0x10000000) == 0 and os.write(ready, b"1") and os.read(go, 1)
    assert libc.setgroups(n, (ctypes.c_uint * n)(*range(1, n + 1))) == 0, ctypes.get_errno()
    os.write(ready, b"2")
    assert 0 < opened(3) < 1000
pids = []
for _ in range(12):
    (go, to_go), (read, ready) = os.pipe(), os.pipe()
    pids.append(os.fork())
    if pids[-1] == 0:
        attack(go, ready)
        os._exit(0)
    os.read(read, 1)
    for name, ids in ("uid", 0), ("gid", n):
        with open("/proc/%d/%s_map" % (pids[-1], name), "w") as f:
            f.write("0 %d 1\n" % alice + ("1 100000 %d\n" % ids if ids else ""))
    os.write(to_go, b"x")
    os.read(read, 1)
times = opened(2)
for pid in pids: assert os.waitpid(pid, 0)[1] == 0
print(times)
P
    )" 500 1000000 "opens by root at the same time"
}

t_rows_are_shown_whatever_their_owners_do() {
    mount_sim
    hang_start
    "${ALICES[@]}" /usr/bin/python3 -B -I -c '
import os, sys
fd = os.open(sys.argv[1] + "/kept", os.O_RDONLY)
os.mkdir(sys.argv[2] + "/a")
with open(sys.argv[2] + "/a/event", "w") as f: f.write("cycles")
os.execv("/bin/sleep", ["sleep", "60"])' "$T/hang" "$M" &
    eventually 10 '[[ -s $T/asked ]]'
    for _ in {1..8}; do
        timeout 30 cat "$M/info/rows" >"$T/rows"
        grep -q " a $ALICE - cycles " "$T/rows" || die "$(<"$T/rows")"
    done
    as "$ALICE" rmdir "$M/a"
}

# ---- long commands ----

# Commands of 128 KiB are parsed without the lock, with the same errors.
t_long_commands_are_checked_like_short_ones() {
    mount_pmcfs
    target_start bob "$BOB"
    users a "$ALICE" event=page-faults
    local many
    many=$(printf 'interval=%s ' {1..9000})
    is "$(result_as "$ALICE" write "$M/a/config" "$many\n")" ok
    is "$(setting a interval)" 9000
    unchanged "$M/a" 'is "$(result_as "$ALICE" write "$M/a/config" "${many}intervall=1\n")" EINVAL'
    like "$(cat "$M/a/error")" '^EINVAL E24 config: .*"intervall"'
    many=$(printf 'cpu0-8191,%s ' {0..2000})
    unchanged "$M/a" 'is "$(result_as "$ALICE" write "$M/a/target" "$many\n")" EINVAL'
    like "$(cat "$M/a/error")" '^EINVAL [A-Z0-9]+ target: .*cpu0-8191,'
    is "$(result_as "$ALICE" write "$M/a/target" "$(printf '0%.0s ' {1..2000})\n")" EINVAL
    is "$(result_as "$ALICE" write "$M/a/target" "${PID_OF[bob]} $(printf '%2000s' '')\n")" EPERM
    bob_continues
}

# begun: opens texts and reads only their start, until one more is refused. Prints the kept bytes, whether the user can
# still read other files, and whether everything is freed after closing.
begun='
import os, sys
tree, name = sys.argv[1:]
size = len(open(tree + "/" + name, "rb").read())
held, printed = [], "none"
while printed == "none" and len(held) < 400:
    held.append(os.open(tree + "/" + name, os.O_RDONLY))
    try: os.read(held[-1], 1)
    except OSError as e: printed = os.strerror(e.errno)
line = os.open(tree + "/p1/config", os.O_RDONLY)
piece = os.read(line, 5).decode() + os.read(line, 1).decode()
for fd in held: os.close(fd)
fd = os.open(tree + "/" + name, os.O_RDONLY)
rest, whole = os.read(fd, 100), 100
while rest:
    rest = os.read(fd, 65536)
    whole += len(rest)
print(size * (len(held) - 1), printed, piece, whole - size, sep=";")'

#@ slow
t_texts_that_are_not_read_to_their_end_are_charged() {
    mount_pmcfs -o max_log_per_user=0
    local n kept printed piece rest events
    events=$(printf 'page-faults %.0s' {1..64})
    for n in {1..60}; do
        users "p$n" "$ALICE"
        is "$(result_as "$ALICE" write "$M/p$n/event" "$events")" ok
    done
    for n in metrics.prom counts; do
        IFS=';' read -r kept printed piece rest < <("${ALICES[@]}" /usr/bin/python3 -B -I -c "$begun" "$M" "$n")
        is "$printed" "${STRERROR[EDQUOT]}" "one more $n"
        between "$kept" 10000000 16777216 "bytes kept of $n"
        is "$piece" 'multip' 'a short text in pieces'
        between "${rest#-}" 0 1000 "$n in pieces, when the others are closed: difference"
    done
    like "$(as "$BOB" dd if="$M/metrics.prom" bs=100 2>/dev/null)" 'pmcfs_instances 0$'
}

# PMC LAST_ERROR: opens samples.folded of PMC and reads one byte, until a read is refused
folders='
import os, sys
path, held, refused = sys.argv[1] + "/samples.folded", [], 0
def whole():
    with open(path, "rb", 0) as f: return len(f.readall())
size = whole()
while not refused and len(held) < 100:
    held.append(os.open(path, os.O_RDONLY))
    try: os.read(held[-1], 1)
    except OSError as e: refused = e.errno
print(os.strerror(refused), open(sys.argv[2]).read(), end="")
for fd in held: os.close(fd)
for _ in range(30): assert whole() == size'

#@ slow
t_memory_for_counting_stacks_is_charged_while_they_are_counted() {
    mount_pmcfs
    users a "$ALICE" event=page-faults period=1 logsize=8388608
    as "$ALICE" /usr/bin/python3 -B -I - "$M/a" <<'P'
import ctypes, mmap, sys
libc, page = ctypes.CDLL(None), mmap.mmap(-1, 4096)
with open(sys.argv[1] + "/target", "w") as f: f.write("self")
for i in range(20000): # each sample has another stack
    libc.prctl(15, b"%d" % i)
    page.madvise(mmap.MADV_DONTNEED)
    page[0] = 1
P
    eventually 10 '[[ $(state a) == exited ]]'
    between "$(wc -l <"$M/a/samples.folded")" 15000 30000 stacks
    echo 0 >"$M/admin/tunables/max_log_per_user"
    like "$("${ALICES[@]}" /usr/bin/python3 -B -I -c "$folders" "$M/a" "$M/info/last_error")" \
        "^${STRERROR[EDQUOT]} [0-9.]+ EDQUOT P11 a/samples.folded: counting the stacks of this log needs [0-9]+ bytes of memory, and max_log_per_user .0 bytes of logs. leaves less: close other files"
}

# dying_start: starts 60 processes of alice, PIDS, and waits for their exec, during which an attach is EAGAIN.
dying_start() {
    mapfile -t PIDS < <(as "$ALICE" bash -c 'for _ in {1..60}; do sleep 90 >/dev/null & echo $!; done')
    all_sleep "${PIDS[@]}"
}

# dying_attach NAME: alice attaches 60 processes, which are then killed; prints the result of the attach
dying_attach() {
    dying_start
    result_as "$ALICE" write "$M/$1/target" "${PIDS[*]}"
    kill -KILL "${PIDS[@]}"
    eventually 10 "[[ \$(state $1) == exited ]]"
}

t_targets_that_have_exited_are_charged_until_a_reset() {
    mount_pmcfs -o max_log_per_user=100000,attach_ms=60000
    target_start bob "$BOB"
    local detail
    users a "$ALICE" log=off event=page-faults
    is "$(dying_attach a) $(dying_attach a)" 'ok ok' # the quota is enough for 120 targets, not for 180
    detail=$(grep -v '^#' "$M/a/detail")
    is "$(dying_attach a)" EDQUOT '60 more'
    like "$(<"$M/a/error")" '^EDQUOT P11 target: the memory for 180 targets .*max_log_per_user \(100000 bytes.*reset'
    is "$(grep -v '^#' "$M/a/detail")" "$detail" 'detail after that'
    bob_continues
    is "$(result_as "$ALICE" write "$M/a/ctl" reset)" ok
    is "$(dying_attach a) $(dying_attach a) $(dying_attach a)" 'ok ok EDQUOT' 'after a reset'

    # After a chown they are charged to the new owner, until the PMC is released.
    users b "$ALICE" log=off event=page-faults
    dying_start
    is "$(result_as "$ALICE" write "$M/b/target" "${PIDS[*]}")" EDQUOT
    chown "$BOB" "$M/a"
    is "$(result_as "$ALICE" write "$M/b/target" "${PIDS[*]}")" ok
    kill -KILL "${PIDS[@]}"
    chown "$ALICE" "$M/a"
    eventually 10 '[[ $(state b) == exited ]]'
    as "$ALICE" rmdir "$M/a"
    is "$(dying_attach b)" ok
}
