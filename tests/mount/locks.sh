# shellcheck shell=bash disable=SC2016,SC2034,SC2154
# Requests that the kernel sends with a directory's lock held never wait; slow requests take turns.

# stuck_start NAME USER [N]: starts a process with N children that never finish an exec; PID_OF[NAME]. An attach with its
# descendants takes N times 100 ms (10 s by default, longer than a busy host delays a test), and no CPU time.
STUCK=0
stuck_start() {
    local n=${3:-100}
    if [[ ! -d $T/hang ]]; then
        mkdir -m 755 "$T/hang"
        "$HELPERS/hang" "$T/hang" >"$T/asked" &
        eventually 10 'mountpoint -q "$T/hang"'
    fi
    talker_start "$1" as "$2" /usr/bin/python3 -B -I -c '
import os, sys, time
os.open(sys.argv[1] + "/kept", os.O_RDONLY)
for _ in range(int(sys.argv[2])):
    if os.fork() == 0: os.execv("/bin/sleep", ["sleep", "300"])
print(os.getpid(), flush=True)
time.sleep(300)' "$T/hang" "$n"
    PID_OF[$1]=$GREETING
    STUCK=$((STUCK + n))
    eventually 20 '(($(wc -l <"$T/asked") == STUCK))'
}

# writers USER NAME N: attaches N PMCs of the user to the stuck process NAME, all at once. finished USER: the number of
# these writes that have returned.
writers() {
    local i
    for ((i = 0; i < $3; i++)); do
        as "$1" mkdir "$M/w$1-$i"
        is "$(result_as "$1" write "$M/w$1-$i/config" 'event=page-faults descendants=on')" ok
    done
    for ((i = 0; i < $3; i++)); do
        { result_as "$1" write "$M/w$1-$i/target" "${PID_OF[$2]}" >/dev/null; echo "$i" >>"$T/done$1"; } &
    done
}
finished() { if [[ -e $T/done$1 ]]; then wc -l <"$T/done$1"; else echo 0; fi; }

#@ slow plain
t_a_user_namespaces_mkdir_does_not_wait_for_its_users_slow_requests() {
    as "$ALICE" unshare --user true || skip 'users get no user namespaces'
    mount_pmcfs -o attach_ms=60000
    stuck_start alices "$ALICE"
    writers "$ALICE" alices 16
    eventually 20 '(($(stat_value parked) >= 8))'
    as "$ALICE" unshare --user mkdir "$M/inside"
    is "$(ls -d "$M/inside")" "$M/inside"
    as "$ALICE" unshare --user --map-root-user chown 0:0 "$M/inside"
    between "$(stat_value parked)" 4 16 'requests that still wait'
}

#@ slow plain
t_events_are_listed_while_slow_requests_of_others_wait() {
    local n
    mount_pmcfs -o attach_ms=60000
    stuck_start alices "$ALICE"
    writers "$ALICE" alices 16
    eventually 20 '(($(stat_value parked) >= 8))'
    for n in 1 2; do as "$ALICE" stat "$M/events/nothing$n" >/dev/null 2>&1 & done
    as "$ALICE" mkdir "$M/events/x" 2>/dev/null &
    sleep 0.2
    like "$(as "$BOB" ls "$M/events")" software
    ! as "$BOB" stat "$M/events/nothing" 2>/dev/null || die 'an event that does not exist'
    like "$(as "$ALICE" ls "$M/events/software")" page-faults
    between "$(stat_value parked)" 4 16 'requests that still wait'
}

#@ slow plain
t_the_user_with_the_fewest_slow_requests_is_next() {
    mount_pmcfs -o attach_ms=60000
    stuck_start alices "$ALICE"
    stuck_start carols 1002
    stuck_start bobs "$BOB" 5
    as "$BOB" mkdir "$M/b"
    is "$(result_as "$BOB" write "$M/b/config" 'event=page-faults descendants=on')" ok
    pmc r event=page-faults
    writers "$ALICE" alices 16
    writers 1002 carols 16
    eventually 20 '(($(stat_value parked) >= 20))'
    # One slot is reserved for the superuser.
    attach r $$
    between "$(($(finished "$ALICE") + $(finished 1002)))" 0 9 'writers that were before the superuser'
    # Bob comes before users that wait for a second slot.
    result_as "$BOB" write "$M/b/target" "${PID_OF[bobs]}" >/dev/null
    between "$(($(finished "$ALICE") + $(finished 1002)))" 0 23 'writers that were before bob'
}

# N writes of 128 KiB by USER to N PMCs, each in a separate thread. Prints "started", then the number of refused writes.
# Exits at a line of input.
big_writers='
import errno, os, sys, threading
root, pid, n, refused = sys.argv[1], sys.argv[2], int(sys.argv[3]), []
threading.stack_size(65536)
def write(name, fd):
    text = (b"target=" if name.endswith("config") else b"") + pid.encode()
    try:
        os.write(fd, text + b" " * (131071 - len(text)) + b"\n")
    except OSError as e:
        refused.append(errno.errorcode[e.errno])
        if len(refused) == 1: print(open(os.path.dirname(name) + "/error").read(), end="", flush=True)
names = []
for i in range(n // 2):
    directory = "%s/big%d" % (root, i)
    os.mkdir(directory)
    fd = os.open(directory + "/config", os.O_WRONLY)
    os.write(fd, b"event=page-faults descendants=on")
    os.close(fd)
    names += [directory + "/config", directory + "/target"]
writers = [threading.Thread(target=write, args=(name, os.open(name, os.O_WRONLY)), daemon=True) for name in names]
for writer in writers: writer.start()
print("started", flush=True)
sys.stdin.readline()
print(" ".join(sorted(set(refused))), len(refused), flush=True)
sys.stdin.readline()
os._exit(0)'

#@ slow plain
t_commands_that_wait_are_charged_to_their_user() {
    mount_pmcfs -o max_log_per_user=1048576,attach_ms=60000
    stuck_start alices "$ALICE"
    stuck_start bobs "$BOB" 5
    talker_start big as "$ALICE" /usr/bin/python3 -B -I -c "$big_writers" "$M" "${PID_OF[alices]}" 240
    if [[ $GREETING == started ]]; then read -r -t 60 -u "${OUT[big]}" GREETING; fi
    like "$GREETING" "^EDQUOT P11 (config|target): a command that waits for others needs [0-9]+ bytes of memory, and max_log_per_user .* leaves less"
    eventually 20 '(($(stat_value parked) >= 100))'
    between "$(stat_value parked)" 100 137 'commands that wait'
    as "$BOB" mkdir "$M/b"
    is "$(result_as "$BOB" write "$M/b/config" event=page-faults "target=${PID_OF[bobs]}")" ok
}

#@ slow plain
t_a_command_that_waits_is_kept_once() {
    local before after
    mount_pmcfs -o attach_ms=60000
    stuck_start alices "$ALICE"
    before=$(awk '/^Rss(Anon|Shmem)/ { n += $2 } END { print n }' "/proc/$SERVER/status")
    talker_start big as "$ALICE" /usr/bin/python3 -B -I -c "$big_writers" "$M" "${PID_OF[alices]}" 240
    is "$GREETING" started
    eventually 20 '(($(stat_value parked) >= 230))'
    after=$(awk '/^Rss(Anon|Shmem)/ { n += $2 } END { print n }' "/proc/$SERVER/status")
    between "$((after - before))" 27000 46000 'KiB for 30 MiB of commands that wait'
}

# ---- the kernel's timeout ----

# mount_with_timeout DEFAULT MOST: mounts with these sysctls of FUSE. They are global: one test at a time sets them, and
# restores them at once.
mount_with_timeout() {
    local settings=/proc/sys/fs/fuse default most lock
    [[ -w $settings/max_request_timeout ]] || skip 'the kernel has no timeout of FUSE requests'
    exec {lock}<"$HELPERS"
    flock "$lock"
    default=$(<$settings/default_request_timeout) most=$(<$settings/max_request_timeout)
    trap 'echo "$default" >$settings/default_request_timeout; echo "$most" >$settings/max_request_timeout' EXIT
    echo "$2" >$settings/max_request_timeout
    echo "$1" >$settings/default_request_timeout
    mount_pmcfs
    echo "$default" >$settings/default_request_timeout
    echo "$most" >$settings/max_request_timeout
    trap - EXIT
    flock -u "$lock" # which the daemon has inherited
    exec {lock}<&-
}

#@ slow early plain
t_streams_wait_for_longer_than_the_kernels_request_timeout() {
    mount_with_timeout 15 20
    target_start p
    pmc a event=page-faults period=1 interval=3600000 "target=${PID_OF[p]}"
    local file readers=()
    for file in samples samples.perf series; do
        cat "$M/a/$file" >"$T/$file" &
        readers+=($!)
    done
    eventually 10 '(($(stat_value parked) == 3))'
    sleep 40
    kill -KILL "$SERVER" # the next worker has the timeout and the start of each wait
    sleep 30
    eventually 10 '(($(stat_value parked) == 3))'
    tell p faults 20
    ctl a stop
    wait "${readers[@]}" || die 'a reader failed'
    between "$(grep -c '^# waiting$' "$T/samples")" 5 30 'comments in samples'
    between "$(grep -c '^# waiting$' "$T/series")" 5 30 'comments in series'
    is "$(grep -c ' sample ' "$T/samples")" "$(count a)"
    HOME=$T perf script -i - -F comm <"$T/samples.perf" >"$T/script" 2>"$T/printed"
    is "$(wc -l <"$T/script")" "$(count a)"
    unlike "$(<"$T/printed")" 'rror|ailed|corrupt|unexpected|nvalid|ut of order' 'perf script printed'
}

#@ slow alone plain
t_commands_that_would_wait_for_too_long_are_eagain_and_the_mount_stays() {
    mount_with_timeout 0 15
    accepted "$M/admin/tunables/attach_ms" 60000
    stuck_start alices "$ALICE" 40
    writers "$ALICE" alices 24
    eventually 60 '(($(finished "$ALICE") == 24))'
    between "$(cat "$M"/w*/error | grep -c '^EAGAIN P37 target: waited 5 s for other requests')" 4 20 \
        'commands that were not run'
    mkdir "$M/after"
}

#@ slow early plain
t_the_kernels_default_timeout_does_not_apply() {
    mount_with_timeout 15 0
    target_start p
    pmc a event=page-faults period=1 "target=${PID_OF[p]}"
    cat "$M/a/samples" >"$T/samples" &
    local reader=$!
    sleep 45
    tell p faults 5
    ctl a stop
    wait "$reader"
    is "$(grep -c ' sample ' "$T/samples")" "$(count a)"
    ! grep waiting "$T/samples" || die 'nothing had to be printed'
}
