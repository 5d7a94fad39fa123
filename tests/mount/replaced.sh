# shellcheck shell=bash disable=SC2154,SC2016
# The serving process dies, or another program takes its place: users notice nothing.

# shellcheck source=tests/mount/kills_lib.sh
. "${BASH_SOURCE[0]%/*}/kills_lib.sh"

# worker: prints the PID of the present worker.
worker() { cat "/proc/$DAEMON/task/$DAEMON/children"; }

# worker_kill: kills the worker when it is the only child; the process that guards an upgrade exits a moment later.
worker_kill() {
    eventually 5 '[[ $(worker) =~ ^[0-9]+\ ?$ ]]'
    # shellcheck disable=SC2046 # a blank follows the number
    kill -KILL $(worker)
}

#@ slow alone
t_a_hundred_kills_under_load_fail_no_call_and_lose_no_count() {
    [[ $VARIANT == plain ]] || KILLS=20
    SUPERVISED=1 mount_pmcfs
    kills "${KILLS:-100}" 10000 40000 || die "see above"
    between "$(stat_value restarts)" "${KILLS:-100}" $((${KILLS:-100} * 2))
    eventually 5 '[[ $(stat_value open_files) == 1 ]]'
    unmount_pmcfs
}

#@ slow plain
t_workers_that_are_killed_as_they_start_fail_no_call() {
    mount_pmcfs
    kills 100 0 1500 || die "see above"
    unmount_pmcfs
}

# The kernel, to which the name of a released instance is reported, waits for the lock of the directory, which mkdir(2) holds until
# a worker has answered it.
#@ slow plain
t_workers_that_are_killed_while_names_vanish_are_replaced() {
    SUPERVISED=1 mount_pmcfs
    timeout -s KILL 100 python3 -B -I - "$M" "$DAEMON" >"$T/printed" <<'P' || die "no end: $(cat "$T/printed")"
import os, random, signal, sys, threading, time
mount, supervisor = sys.argv[1:]
calls, ended = 0, False
def churn():
    global calls
    while not ended:
        os.mkdir(mount + "/instances/i")
        fd = os.open(mount + "/admin/instances/i/ctl", os.O_WRONLY)
        os.write(fd, b"release")
        os.close(fd)
        calls += 1
thread = threading.Thread(target=churn)
thread.start()
for kill in range(150):
    print("kill", kill, flush=True)
    time.sleep(random.uniform(0, 0.03))
    children = open("/proc/%s/task/%s/children" % (supervisor, supervisor)).read().split()
    if children:
        os.kill(int(children[0]), signal.SIGKILL)
    before = calls
    while calls < before + 2 and thread.is_alive():
        time.sleep(0.002)
ended = True
thread.join()
P
    is "$(ls "$M/instances")" ''
    between "$(stat_value restarts)" 100 150
}

t_a_held_file_a_bind_mount_and_a_sandbox_outlive_the_worker() {
    SUPERVISED=1 mount_pmcfs
    pmc a event=page-faults count=123456
    mkdir "$M/instances/web" "$T/inside"
    mount --bind "$M/instances/web" "$T/inside"
    mkdir "$T/inside/b"
    accepted "$T/inside/b/config" event=page-faults count=5
    exec {held}<"$M/a/count"
    for i in 1 2 3 4 5; do
        worker_kill
        is "$(cat <&"$held")" "$( ((i > 1)) || echo 123456)"
        is "$(cat "$T/inside/b/count")" 5
        is "$(bwrap --ro-bind / / --bind "$T/inside" /mnt busybox cat /mnt/b/count)" 5
        is "$(count a)" 123456
    done
    rmdir "$T/inside/b"
    umount "$T/inside"
    is "$(stat_value restarts)" 5
}

t_totals_lack_at_most_the_last_second() {
    local before
    SUPERVISED=1 mount_pmcfs
    mkdir "$M/instances/web"
    for _ in {1..300}; do
        cat "$M/instances/web/info/backend" >/dev/null
    done
    sleep 1.1
    cat "$M/instances/web/info/backend" >/dev/null
    before=$(awk '/^syscalls / { print $2 }' "$M/instances/web/info/stats")
    ((before > 300))
    worker_kill
    ((before <= $(awk '/^syscalls / { print $2 }' "$M/instances/web/info/stats") + 10)) || die "of the instance"
    ((before < $(stat_value syscalls))) || die "of all"
}

t_detail_keeps_the_name_of_a_process_that_has_executed_another_program() {
    local pid
    SUPERVISED=1 mount_pmcfs
    mkfifo "$T/go"
    sh -c 'read -r _ <"$1"; exec sleep 1000' sh "$T/go" &
    pid=$!
    eventually 5 "[[ \$(</proc/$pid/comm) == sh ]]"
    pmc a event=page-faults "target=$pid"
    is "$(named a)" "pid:$pid sh
all -"
    echo >"$T/go"
    eventually 5 '[[ $(named a) == "pid:$pid sleep"* ]]'
    worker_kill
    kill "$pid"
    wait "$pid" || :
    is "$(named a)" "pid:$pid sleep
all -" 'after it has exited, read by another worker'
}

# Not with reloads: after each of them the address space is unknown until the next drain.
#@ alone plain
t_address_spaces_outlive_the_worker() {
    SUPERVISED=1 mount_pmcfs
    cp "$HELPERS/io" "$T/one"
    cp "$HELPERS/io" "$T/two"
    cat >"$T/maps.py" <<'P'
import ctypes, sys
mmap = ctypes.CDLL(None).mmap
mmap.restype = ctypes.c_void_p
mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
one, two = (open(name, "rb") for name in sys.argv[1:])
at = mmap(None, 8192, 5, 2, one.fileno(), 0)
print("mapped", flush=True)
sys.stdin.readline()
mmap(at, 8192, 5, 0x12, two.fileno(), 0)  # MAP_PRIVATE | MAP_FIXED
print("mapped", flush=True)
sys.stdin.readline()
P
    talker_start p /usr/bin/python3 -B -I "$T/maps.py" "$T/one" "$T/two"
    pmc a event=cpu-clock freq=50 "target=${PID_OF[p]}"
    worker_kill
    ctl a flush # the next worker has read the address space
    echo go >&"${IN[p]}"
    read -r -t 60 -u "${OUT[p]}" _
    ctl a stop
    so_far a >"$T/log"
    is "$(grep -o ' map-out .*/one$' "$T/log" | cut -d' ' -f4-)" "$(grep -o ' map-in .*/one$' "$T/log" | cut -d' ' -f4-)"
    grep -q ' map-in .*/two$' "$T/log"
}

t_last_error_outlives_the_worker() {
    SUPERVISED=1 mount_pmcfs
    pmc a
    is "$(result write "$M/a/event" nosuch)" EINVAL
    local line
    line=$(cat "$M/info/last_error")
    like "$line" "${FAILED}EINVAL CS01 a/event: "
    worker_kill
    is "$(cat "$M/info/last_error")" "$line"
}

t_a_text_that_is_read_in_pieces_is_one_text() {
    SUPERVISED=1 mount_pmcfs
    head -c 100000 "$M/README" >"$T/whole"
    {
        head -c 700 >"$T/pieces"
        worker_kill
        cat >>"$T/pieces"
    } <"$M/README"
    cmp "$T/whole" "$T/pieces" || die "not the same"
}

t_a_blocked_reader_continues_at_the_next_record() {
    SUPERVISED=1 mount_pmcfs
    target_start p
    pmc a event=page-faults log-exit=on "target=${PID_OF[p]}"
    cat "$M/a/samples" >"$T/printed" &
    eventually 5 "grep -q attach $T/printed"
    for i in 1 2 3 4 5; do
        worker_kill
        echo "n$i" >"$M/a/samples"
    done
    eventually 5 "grep -q text=n5 $T/printed"
    is "$(grep -c initialize "$T/printed")" 1
    is "$(grep -o 'text=n.*' "$T/printed" | tr '\n' ' ')" 'text=n1 text=n2 text=n3 text=n4 text=n5 '
    ctl a stop
    wait $!
}

# The log was created for a refused start.
t_records_after_a_refused_start_survive_the_worker() {
    SUPERVISED=1 mount_pmcfs -o max_fds_per_user=1
    target_start p "$ALICE"
    as "$ALICE" mkdir "$M/a"
    is "$(result_as "$ALICE" write "$M/a/config" "event=page-faults log-exit=on target=${PID_OF[p]}")" EDQUOT
    is "$(result_as "$ALICE" write "$M/a/config" notify=7)" ok
    is "$(result_as "$ALICE" write "$M/a/samples" n1)" ok
    worker_kill
    like "$(timeout 40 grep -m 1 -o 'text=n.*' "$M/a/samples")" text=n1
}

t_a_sleeping_poller_is_woken_by_a_change_in_a_later_worker() {
    SUPERVISED=1 mount_pmcfs
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    python3 - "$M/a/ctl" >"$T/woken" <<'P' &
import select, signal, sys
signal.alarm(60)  # instead of sleeping for ever
f = open(sys.argv[1])
f.read()
p = select.poll()
p.register(f, select.POLLPRI)
print("sleeps", flush=True)
while True:
    for _ in p.poll():
        f.seek(0)
        state = f.read().strip()
        print(state, flush=True)
        if state == "stopped":
            sys.exit(0)
P
    eventually 20 "grep -q sleeps $T/woken"
    worker_kill
    sleep 0.2
    ctl a stop
    wait $!
    is "$(tail -1 "$T/woken")" stopped
}

t_a_request_that_is_interrupted_before_a_worker_dies_returns() {
    SUPERVISED=1 mount_pmcfs
    target_start p
    pmc a event=page-faults log-exit=on "target=${PID_OF[p]}"
    cat "$M/a/samples" >"$T/printed" &
    local reader=$!
    eventually 5 "grep -q attach $T/printed"
    server_stop
    kill -TERM $reader
    sleep 0.1
    worker_kill
    end_within 5 $reader || is $? 143
}

# Each worker crashes by a stack overflow.
#@ reload
t_a_request_that_crashes_every_worker_is_eio_and_the_mount_continues() {
    SUPERVISED=1 mount_pmcfs
    pmc a event=page-faults count=7
    is "$(result write "$M/a/ctl" debug-crash)" EIO
    is "$(count a)" 7
    is "$(stat_value restarts)" 3
    like "$(cat "$T/daemon")" 'killed by signal 11'
    like "$(cat "$T/daemon")" 'crashed 3 processes in a row'
    : >"$T/daemon"
}

t_another_program_takes_over_a_mount() {
    SUPERVISED=1 mount_pmcfs -o fsname=x,max_pmcs=50
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    tell p faults 10
    local before
    before=$(count a)
    exec {held}<"$M/a/count"
    cp "$BIN" "$T/pmcfs-next"
    "$T/pmcfs-next" --upgrade "$M"
    is "$(readlink "/proc/$DAEMON/exe")" "$T/pmcfs-next"
    tell p faults 10
    between "$(cat <&"$held")" $((before + 10)) $((before + 200))
    is "$(cat "$M/admin/tunables/max_pmcs")" 50
    worker_kill
    between "$(count a)" $((before + 10)) $((before + 200))
    unmount_pmcfs
}

# An upgrade needs a request file of a process with the capabilities of pmcfs; uid 0 or a signal is not enough.
t_a_signal_without_a_request_replaces_no_program() {
    SUPERVISED=1 mount_pmcfs
    cp "$(command -v sh)" "$T/--upgrade"
    setpriv --inh-caps=-all --bounding-set=-all --ambient-caps=-all "$T/--upgrade" -c "kill -USR1 $DAEMON; sleep 0.5"
    ! setpriv --inh-caps=-all --bounding-set=-all --ambient-caps=-all "$BIN" --upgrade "$M" 2>"$T/printed" || die "taken over"
    like "$(<"$T/printed")" "was not upgraded: process [0-9]* may not replace it: .* with all capabilities"
    sh -c "kill -USR1 $DAEMON; sleep 0.5"
    is "$(readlink "/proc/$DAEMON/exe")" "$(readlink -f "$BIN")"
    is "$(stat_value restarts)" 0
}

# The new program is tested first.
t_a_program_that_does_not_start_changes_nothing() {
    echo >"$T/conf"
    SUPERVISED=1 mount_pmcfs -c "$T/conf"
    pmc a event=page-faults count=7
    rm "$T/conf"
    "$BIN" --upgrade "$M" 2>"$T/printed" && die "taken over"
    like "$(cat "$T/printed")" "was not upgraded: the new program does not start .*: cannot read the configuration \"$T/conf\": No such"
    like "$(cat "$T/daemon")" 'upgrade refused, this program continues: the new program does not start'
    is "$(count a) $(stat_value restarts)" '7 0'
    echo >"$T/conf"
    ! "$BIN" --check --resume=9 "$M" 9<"$T/conf" 2>"$T/printed" || die "it would continue with the state of another version"
    like "$(cat "$T/printed")" 'this version cannot continue'
    "$BIN" --upgrade "$M"
    is "$(count a)" 7
    unmount_pmcfs
}

# Any program of root can request an upgrade to itself.
#@ slow
t_a_program_that_is_not_pmcfs_replaces_nothing() {
    local how why before run=("${RUN_DAEMON[@]}")
    declare -A printed=([0]='the new program is not pmcfs, or its version is too old'
        [3]='the new program does not start with .*: its --check exited with status 3'
        [hang]='the new program does not start with .*: its --check did not exit within 5 s'
        [noise]='the new program does not start with .*: [?]{30} !".*')
    for how in "${!printed[@]}"; do
        RUN_DAEMON=("${run[@]}" env "IO_CHECK=$how")
        SUPERVISED=1 mount_pmcfs
        target_start "p$how"
        pmc a event=page-faults "target=${PID_OF[p$how]}"
        "$HELPERS/io" --upgrade "$DAEMON" &
        tell "p$how" faults 10
        before=$(count a)
        eventually 20 'grep -q "upgrade refused" "$T/daemon"'
        kill $!
        why=$(sed -n 's/^pmcfs: upgrade refused, this program continues: //p' "$T/daemon")
        is "$(grep -c upgrade "$T/daemon")" 1 "lines, $how"
        like "$why" "^${printed[$how]}\$" "$how"
        is "$(readlink "/proc/$DAEMON/exe") $(stat_value restarts)" "$(readlink -f "$BIN") 0" "$how"
        tell "p$how" faults 10
        between "$(count a)" $((before + 10)) $((before + 200)) "count, $how"
        "$BIN" --upgrade "$M" || die "no upgrade after $how"
        between "$(count a)" $((before + 10)) $((before + 200)) "count after an upgrade, $how"
        unmount_pmcfs
        : >"$T/daemon"
    done
}

# The program that requests an upgrade reads no file of the tree, because a stopped worker would not answer.
t_an_upgrade_replaces_a_stopped_worker() {
    SUPERVISED=1 mount_pmcfs
    pmc a event=page-faults count=7
    server_stop
    "$BIN" --upgrade "$M"
    is "$(count a) $(stat_value restarts)" '7 1'
}

t_ps_shows_the_arguments_of_the_mount_after_an_upgrade() {
    SUPERVISED=1 mount_pmcfs -o mincount=2000
    pmc a event=page-faults count=7
    for _ in 1 2; do
        "$BIN" --upgrade "$M"
        is "$(ps -o args= -p "$DAEMON" | sed 's/ *$//')" "pmcfs -f -omincount=2000 pmcfs $M"
        is "$(count a)" 7
    done
}

#@ slow
t_upgrades_requested_at_once_run_one_after_the_other() {
    local i pid pids
    SUPERVISED=1 mount_pmcfs
    for i in {1..10}; do
        pids=()
        for _ in 1 2 3; do
            "$BIN" --upgrade "$M" 2>>"$T/printed" &
            pids+=($!)
        done
        for pid in "${pids[@]}"; do wait "$pid" || die "round $i: $(<"$T/printed")"; done
    done
    is "$(stat_value restarts)" 30
}

t_an_upgrade_has_one_mountpoint_and_no_options() {
    local words rc
    SUPERVISED=1 mount_pmcfs
    for words in "$M extra" "-o single $M"; do
        rc=0
        # shellcheck disable=SC2086 # word splitting is intended
        "$BIN" --upgrade $words 2>"$T/printed" || rc=$?
        is "$rc" 2 "$words"
    done
    like "$(<"$T/printed")" 'keeps the options of the mount: remove -o single'
    is "$(stat_value restarts)" 0
}

t_an_upgrade_of_a_directory_that_is_not_a_mount_is_refused() {
    local rc=0
    mkdir "$T/none"
    "$BIN" --upgrade "$T/none" 2>"$T/printed" || rc=$?
    is $rc 1
    like "$(cat "$T/printed")" 'no pmcfs that can be upgraded is mounted there'
    SUPERVISED=1 mount_pmcfs
    "$BIN" --upgrade "$M/info" 2>"$T/printed" && die "a directory below the mount"
    like "$(cat "$T/printed")" 'no pmcfs that can be upgraded is mounted there'
    is "$(stat_value restarts)" 0
}

#@ plain
t_the_death_of_the_supervisor_unmounts_and_the_next_start_works() {
    SUPERVISED=1 mount_pmcfs
    local dir=$M
    pmc a event=page-faults
    kill -KILL "$DAEMON"
    eventually 5 "! mountpoint -q $M"
    unset "DAEMON_OF[$dir]"
    "$BIN" "$dir"
    mkdir "$dir/b"
    umount "$dir"
}

#@ plain
t_the_death_of_the_supervisor_kills_a_stopped_worker_too() {
    SUPERVISED=1 mount_pmcfs
    local SERVER
    SERVER=$(cut -d ' ' -f 1 "/proc/$DAEMON/task/$DAEMON/children")
    server_stop
    kill -KILL "$DAEMON"
    eventually 5 "! mountpoint -q $M"
    eventually 5 "[[ ! -e /proc/$SERVER ]]"
    unset "DAEMON_OF[$M]"
}

#@ slow
t_a_worker_that_is_stopped_holds_up_requests_and_nothing_else() {
    SUPERVISED=1 mount_pmcfs
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    server_stop
    cat "$M/a/count" >"$T/count" &
    tell p faults 10
    sleep 1
    is "$(cat "$T/count")" ''
    kill -CONT "$SERVER"
    wait $!
    between "$(cat "$T/count")" 10 1000
    is "$(stat_value restarts)" 0
}

t_with_the_option_single_one_process_serves() {
    mount_pmcfs -o single
    is "$(worker)" ''
    pmc a event=page-faults
    is "$(stat_value restarts)" 0
}

t_neither_the_supervisor_nor_the_worker_is_a_target() {
    SUPERVISED=1 mount_pmcfs
    pmc a event=page-faults
    is "$(result write "$M/a/target" "$DAEMON")" EPERM
    is "$(result write "$M/a/target" "$SERVER")" EPERM
}

# Longer than six attempts to load the state take.
#@ slow
t_a_shortage_of_descriptors_for_seconds_loses_nothing() {
    local more used
    SUPERVISED=1 mount_pmcfs
    target_start p
    pmc a event=page-faults descendants=on log-exit=on count=123456 "target=${PID_OF[p]}"
    for more in -30 4 8 12; do
        used=$(find "/proc/$DAEMON/fd" -mindepth 1 | wc -l)
        : >"$T/daemon"
        prlimit --pid "$DAEMON" --nofile=$((used + more)):
        worker_kill
        sleep 2
        prlimit --pid "$DAEMON" --nofile=20000:
        between "$(count a)" 123456 200000 "count after $more descriptors"
        between "$(grep -c 'cannot start' "$T/daemon" || :)" 0 1 "messages with $more descriptors"
        ((more > 0)) || eventually 5 '[[ $(<"$T/daemon") =~ "Too many open files".*"the shortage has ended" ]]'
    done
}
