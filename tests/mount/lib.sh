# shellcheck shell=bash disable=SC2034
# The helpers of tests on a real mount. one.sh sources this file and then the file of the test.
#
# Given: BIN (pmcfs), HELPERS (the directory of io, target and other programs), T (the directory of this test), VARIANT
# (plain, asan, tsan). Every test runs in a new mount and PID namespace, so its mounts and processes disappear with it.

ALICE=1000
BOB=1001
M='' DAEMON=0 SERVER=0 MOUNTS=0
declare -A DAEMON_OF=() IN=() OUT=() PID_OF=()

# ---- assertions ----

# die SENTENCE: fails the test, and prints the line outside of this file that led here.
die() {
    local at=1
    while [[ ${BASH_SOURCE[at]-} == "${BASH_SOURCE[0]}" ]]; do
        at=$((at + 1))
    done
    printf 'FAILED at %s:%s: %s\n' "${BASH_SOURCE[at]##*/}" "${BASH_LINENO[at - 1]}" "$*" >&2
    exit 1
}

skip() {
    printf '%s\n' "$*" >"$T/skip"
    exit 77
}

# is ACTUAL EXPECTED [WHAT]
is() {
    [[ $1 == "$2" ]] || die "${3:-value}: got '$1', expected '$2'"
}

# empty COMMAND…: COMMAND must succeed and print nothing.
empty() {
    local printed
    printed=$("$@") || die "failed: $*"
    is "$printed" '' "$*"
}

# like TEXT REGEX [WHAT]
like() {
    [[ $1 =~ $2 ]] || die "${3:-text}: '$1' does not match '$2'"
}

# FAILED: a regex for the start of a line of info/last_error, which is a time.
# shellcheck disable=SC2034 # for the tests
FAILED='^[0-9]{9,}\.[0-9]{9} '

unlike() {
    [[ ! $1 =~ $2 ]] || die "${3:-text}: '$1' matches '$2'"
}

# between ACTUAL MIN MAX [WHAT]
between() {
    [[ $1 =~ ^[0-9]+$ ]] || die "${4:-value}: '$1' is not a number"
    ((10#$1 >= $2 && 10#$1 <= $3)) || die "${4:-value}: $1 is not in $2…$3"
}

# eventually SECONDS 'SHELL CONDITION': waits for the condition. SECONDS are enough where nothing else runs; fails after
# four times as long, for busy hosts.
eventually() {
    local until=$((SECONDS + 4 * $1 + 1))
    while ! eval "$2"; do
        ((SECONDS < until)) || die "not within $((4 * $1)) s: $2"
        sleep 0.05
    done
}

declare -A STRERROR=(
    [E2BIG]='Argument list too long' [EACCES]='Permission denied'
    [EAGAIN]='Resource temporarily unavailable' [EBUSY]='Device or resource busy'
    [EDESTADDRREQ]='Destination address required' [EDQUOT]='Disk quota exceeded'
    [EEXIST]='File exists' [EINVAL]='Invalid argument' [EIO]='Input/output error'
    [EMFILE]='Too many open files' [ENAMETOOLONG]='File name too long'
    [ENODATA]='No data available' [ENODEV]='No such device'
    [ENOENT]='No such file or directory' [ENOSPC]='No space left on device'
    [ENOTCONN]='Transport endpoint is not connected'
    [ENOTEMPTY]='Directory not empty' [ENXIO]='No such device or address'
    [EOPNOTSUPP]='Operation not supported' [EPERM]='Operation not permitted'
    [ESRCH]='No such process' [EXDEV]='Invalid cross-device link')

# fails_with ERRNO 'SHELL TEXT': the command must fail and print the text of that errno.
fails_with() {
    local printed rc=0
    printed=$(eval "$2" 2>&1) || rc=$?
    ((rc != 0)) || die "succeeded, expected $1: $2${printed:+ ($printed)}"
    [[ ${printed,,} == *"${STRERROR[$1],,}"* ]] || die "expected $1 from: $2; it printed: $printed"
}

# result ARG…, result_as USER ARG…, result_by COMMAND… -- ARG…: run io.c with ARG… (such as write FILE TEXT…) as root,
# as USER, or by COMMAND, and print its answer: "ok" or the name of the errno.
result() { "$HELPERS/io" "$@" || :; }
result_as() { as "$1" "$HELPERS/io" "${@:2}" || :; }
result_by() {
    local command=()
    while [[ $1 != -- ]]; do
        command+=("$1")
        shift
    done
    "${command[@]}" "$HELPERS/io" "${@:2}" || :
}

# accepted FILE TEXT…: each TEXT is one write(2) on one descriptor; \n \0 \t are understood.
accepted() {
    local got file=$1
    shift
    got=$("$HELPERS/io" write "$file" "$@") ||
        die "$got from writing '$*' to ${file##*/}: $(cat "${file%/*}/error" 2>/dev/null)"
}

# refused ERRNO ID FILE TEXT: the write fails with ERRNO, and `error` is "ERRNO ID FILE: sentence". ID may be a regex;
# it is '' if the file does not belong to a PMC.
refused() {
    local got line
    got=$("$HELPERS/io" write "$3" "$4") && die "accepted '$4' in ${3##*/}, expected $1"
    is "$got" "$1" "writing '$4' to ${3##*/}: errno"
    [[ -n $2 ]] || return 0
    line=$(<"${3%/*}/error")
    [[ $line =~ ^$1\ ($2)\ ${3##*/}:\ .+[^.]$ ]] || die "writing '$4': error is '$line', expected '$1 $2 ${3##*/}: …'"
}

# unchanged DIRECTORY 'SHELL TEXT': settings, targets and state of the PMC are the same before and after.
unchanged() {
    local before after
    before=$(cat "$1"/{config,event,mode,target,ctl} 2>&1)
    eval "$2"
    after=$(cat "$1"/{config,event,mode,target,ctl} 2>&1)
    is "$after" "$before" "settings after: $2"
}

# ---- the mount ----

# mount_pmcfs [OPTION…]: mounts in the foreground on a new directory; sets M, DAEMON and the PID of the worker, SERVER.
# Under sanitizers SERVER is DAEMON, unless SUPERVISED is set.
mount_pmcfs() {
    local dir=$T/pmc$((MOUNTS += 1)) how=()
    [[ $VARIANT == plain || ${SUPERVISED:-} ]] || how=(-o single)
    mkdir -m 755 "$dir"
    M=$dir
    "${RUN_DAEMON[@]}" "$BIN" -f "${how[@]}" "$@" "$dir" >>"$T/daemon" 2>&1 &
    DAEMON=$!
    DAEMON_OF[$dir]=$DAEMON
    local until=$((SECONDS + 60))
    while [[ ! -e $dir/info/version ]]; do
        kill -0 "$DAEMON" 2>/dev/null || die "pmcfs ended before the tree was there: $(tail -3 "$T/daemon")"
        ((SECONDS < until)) || die "no tree after 60 s"
        sleep 0.01
    done
    SERVER=$(cat "/proc/$DAEMON/task/$DAEMON/children")
    SERVER=${SERVER%% *}
    SERVER=${SERVER:-$DAEMON}
    RELOAD_FROM=$(reloads)
}

# mount_sim [SIM_OPTIONS [OPTION…]]: mounts with a simulated PMU; SIM_OPTIONS instead of 4 CPUs and 4 rows.
mount_sim() {
    mount_pmcfs -o "backend=sim,${1:-sim_cpus=4,sim_rows=4}" "${@:2}"
}

# unmount_pmcfs [DIRECTORY]: sends SIGTERM; the daemon must unmount DIRECTORY (M) and exit with status 0.
unmount_pmcfs() {
    local dir=${1:-$M} rc=0
    local pid=${DAEMON_OF[$dir]}
    unset "DAEMON_OF[$dir]"
    [[ $dir != "$M" ]] || DAEMON=0
    kill -TERM "$pid" 2>/dev/null || die "pmcfs has ended by itself: $(tail -3 "$T/daemon")"
    end_within 20 "$pid" || rc=$?
    is "$rc" 0 "exit status of pmcfs after SIGTERM"
    ! mountpoint -q "$dir" || die "still mounted after SIGTERM"
}

# server_stop: stops all threads of the worker; kill(1) returns before they have stopped. `kill -CONT $SERVER`
# continues it.
server_stop() {
    kill -STOP "$SERVER"
    eventually 5 "awk '/^State:/ && \$2 != \"T\" { exit 1 }' /proc/$SERVER/task/*/status"
}

# end_within SECONDS PID: waits for a child and returns its status, or 124 if it does not exit. SECONDS are as for
# eventually.
end_within() {
    local until=$((SECONDS + 4 * $1 + 1))
    # Not ps(1): it reads all processes, and waits for those that are in an exec.
    while kill -0 "$2" 2>/dev/null && ! grep -q '^State:.Z' "/proc/$2/status" 2>/dev/null; do
        ((SECONDS < until)) || return 124
        sleep 0.02
    done
    wait "$2"
}

# ---- PMCs ----

# pmc NAME [SETTINGS…]: creates a PMC, and writes the settings as one command.
pmc() {
    mkdir "$M/$1"
    (($# == 1)) || accepted "$M/$1/config" "${*:2}"
}

count() { cat "$M/$1/count"; }
state() { cat "$M/$1/ctl"; }
ctl() { accepted "$M/$1/ctl" "$2"; }
attach() { accepted "$M/$1/target" "${*:2}"; }

# setting NAME KEY of config, status NAME KEY of status, stat_value KEY of info/stats: they print the value.
setting() { sed -n "s/^$2=//p" "$M/$1/config"; }
status() { sed -n "s/^$2 //p" "$M/$1/status"; }
# named NAME: prints the targets of `detail` with the names of their processes.
named() { awk -F'\t' 'NR > 2 { print $2, $NF }' "$M/$1/detail"; }
stat_value() { sed -n "s/^$1 //p" "$M/info/stats"; }

# so_far NAME: prints the records that are in the log now, and does not wait for others.
so_far() { timeout 60 dd "if=$M/$1/samples" iflag=nonblock bs=1M status=none 2>/dev/null || :; }

# ---- programs ----

# talker_start NAME COMMAND…: starts a program that executes lines of input and answers each with a line. Its first line
# is GREETING; PID_OF[NAME] is the PID of COMMAND.
talker_start() {
    local in out
    mkfifo -m 666 "$T/$1.in" "$T/$1.out"
    "${@:2}" <"$T/$1.in" >"$T/$1.out" &
    PID_OF[$1]=$!
    exec {in}>"$T/$1.in" {out}<"$T/$1.out"
    IN[$1]=$in OUT[$1]=$out
    read -r -t 60 -u "$out" GREETING || die "$1 did not start"
}

names_program() { # built with the sanitizers of the daemon
    echo "$HELPERS/pmc-names-$VARIANT"
}

# names [DIRECTORY]: prints samples.folded with names. names_as USER [DIRECTORY]
names() { "$(names_program)" "$@"; }
names_as() { as "$1" "$(names_program)" "${@:2}"; }

# target_start NAME [USER]: starts a target.c for `tell`; its PID is PID_OF[NAME].
target_start() {
    if [[ ${2:-} ]]; then
        talker_start "$1" as "$2" "$HELPERS/target"
    else
        talker_start "$1" "$HELPERS/target"
    fi
    PID_OF[$1]=${GREETING#ready }
}

# tell NAME WORDS…: sends a command to a target program; ANSWER is its answer.
tell() {
    printf '%s\n' "${*:2}" >&"${IN[$1]}"
    read -r -t 60 -u "${OUT[$1]}" ANSWER || die "no answer from target $1 to '${*:2}'"
}

# target_end NAME: lets the target program exit, and reaps it.
target_end() {
    local in=${IN[$1]} out=${OUT[$1]}
    echo quit >&"$in"
    exec {in}>&- {out}<&-
    wait "${PID_OF[$1]}" 2>/dev/null || :
}

# runs_until 'SHELL CONDITION' COMMAND…: COMMAND gets a file as its last argument. The file ends when the condition
# is true. With asan there is no reload while COMMAND runs.
runs_until() {
    local input pid
    mkfifo "$T/input"
    "${@:2}" "$T/input" &
    pid=$!
    exec {input}>"$T/input"
    eventually 20 "$1"
    exec {input}>&-
    wait "$pid" || die "status $? of ${*:2}"
    rm "$T/input"
}

# leaves_cpu NAME: waits until a target program sleeps and its last context switch is done, which is a little after its
# answer. Until then /proc/PID/syscall contains "running".
leaves_cpu() {
    eventually 10 "[[ \$(</proc/${PID_OF[$1]}/syscall) != running ]]"
}

# hot_run NAME: NAME is a hot.c that talker_start started: lets it work, and waits until it has finished.
hot_run() {
    echo go >&"${IN[$1]}"
    read -r -t 40 -u "${OUT[$1]}" _ || die "$1 did not finish its work"
}

hot_end() {
    local in=${IN[$1]} out=${OUT[$1]}
    exec {in}>&- {out}<&-
    wait "${PID_OF[$1]}" 2>/dev/null || :
}

# faults_of PID: prints the page faults of a process as /proc shows them.
faults_of() {
    local line
    line=$(<"/proc/$1/stat")
    # shellcheck disable=SC2086 # word splitting is intended
    set -- ${line##*) }
    echo $((${8} + ${10}))
}

# as USER COMMAND…: runs the command with this uid and gid, without root's rights and groups.
as() {
    setpriv --reuid "$1" --regid "$1" --clear-groups -- "${@:2}"
}

# POWERLESS: a prefix that runs a command as uid 0 without capabilities.
# shellcheck disable=SC2034
POWERLESS=(setpriv --bounding-set=-all --inh-caps=-all)

# set_id NAME PROGRAM [MODE]: copies PROGRAM to $T/NAME with the set-user-ID bit, or with MODE.
set_id() {
    cp "$2" "$T/$1"
    chmod "${3:-4755}" "$T/$1"
}

# instance NAME [USER]: creates $M/instances/NAME, for this user.
instance() {
    mkdir "$M/instances/$1"
    [[ ! ${2:-} ]] || chown "$2:$2" "$M/instances/$1"
}

# limit INSTANCE FILE VALUE: writes a limit of the instance.
limit() { accepted "$M/admin/instances/$1/$2" "$3"; }

python() { /usr/bin/python3 -B -I - "$M" "$@"; }

need_user_namespaces() {
    as "$ALICE" unshare --user --map-root-user true 2>/dev/null || skip "no user namespaces for users here"
}

with_tracefs() {
    [[ -e /sys/kernel/tracing/events ]] || mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null ||
        skip "the kernel has no tracefs"
}

with_cgroup2() {
    CGROUP_ROOT=$(awk '$(NF-2) == "cgroup2" { print $5; exit }' /proc/self/mountinfo)
    [[ $CGROUP_ROOT ]] || skip "no cgroup v2 mounted"
}

# forbid_call NUMBER NUMBER: this system call (its numbers on x86-64 and arm64) fails with EPERM in each daemon that is
# mounted later.
forbid_call() {
    cat >"$T/filtered" <<'P'
import ctypes, os, platform, struct, sys
number = int(sys.argv[{"x86_64": 1, "aarch64": 2}[platform.machine()]])
def op(code, jt, jf, k):
    return struct.pack("HBBI", code, jt, jf, k)
rules = op(0x20, 0, 0, 0) + op(0x15, 0, 1, number) + op(0x06, 0, 0, 0x00050001) + op(0x06, 0, 0, 0x7fff0000)
keep = ctypes.create_string_buffer(rules)
class Program(ctypes.Structure):
    _fields_ = [("n", ctypes.c_ushort), ("rules", ctypes.c_void_p)]
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(22, 2, ctypes.byref(Program(len(rules) // 8, ctypes.addressof(keep))), 0, 0):
    sys.exit("no filter: errno %d" % ctypes.get_errno())
os.execv(sys.argv[3], sys.argv[3:])
P
    RUN_DAEMON+=(/usr/bin/python3 -I "$T/filtered" "$1" "$2")
}

# ---- SIGUSR2: the variant asan ----

reloads() {
    local lines line
    mapfile -t lines 2>/dev/null <"$M/info/stats" || :
    for line in "${lines[@]}"; do
        [[ $line != 'reloads '* ]] || echo "${line#reloads }"
    done
}

# Before every simple command of a test, in the variant asan: makes the daemon drop its state and load its journal.
reload_before_step() {
    [[ $VARIANT == asan && ${BASH_SOURCE[1]} == "$TEST_FILE" && $DAEMON != 0 ]] || return 0
    kill -USR2 "$DAEMON" 2>/dev/null || :
}
