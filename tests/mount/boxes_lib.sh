# shellcheck shell=bash disable=SC2016,SC2034
# Containers for the tests: bubblewrap with a shell inside that executes commands and prints their exit status.

# The shell in a container: result, target_start and tell as in lib.sh, and a loop that executes commands.
BOX_WORDS='
result() { /helpers/io "$@" || :; }
target_start() {
    mkfifo "/tmp/$1.in" "/tmp/$1.out"
    /helpers/target <"/tmp/$1.in" >"/tmp/$1.out" 9<&- &
    exec {in}>"/tmp/$1.in" {out}<"/tmp/$1.out"
    eval "${1}_in=$in ${1}_out=$out"
    read -r -u "$out" _ "$1"
}
tell() {
    local in=${1}_in out=${1}_out
    printf "%s\n" "${*:2}" >&"${!in}"
    read -r -u "${!out}" _
}
while IFS= read -r -d "" -u 9 command; do
    eval "$command" >/tmp/printed 2>&1 </dev/null
    status=$?
    printf "%s %s\0" "$status" "$(cat /tmp/printed)"
done'

declare -A BOX_IN=() BOX_OUT=()

need_boxes() {
    command -v bwrap >/dev/null || skip "no bubblewrap here"
    as "$ALICE" bwrap --unshare-all --ro-bind / / true 2>/dev/null || skip "bubblewrap gets no namespaces here"
}

# box_start NAME DIRECTORY OPTION… [-- COMMAND…]: starts a container with a new PID namespace and DIRECTORY as /pmc, by
# COMMAND (as "$ALICE", …) or as root.
box_start() {
    local name=$1 dir=$2 in out options=()
    shift 2
    while (($#)) && [[ $1 != -- ]]; do
        options+=("$1")
        shift
    done
    mkfifo -m 666 "$T/$name.commands" "$T/$name.answers"
    "${@:2}" bwrap --unshare-pid --unshare-ipc --die-with-parent --ro-bind /usr /usr --symlink usr/bin /bin \
        --symlink usr/sbin /sbin --symlink usr/lib /lib --symlink usr/lib64 /lib64 --proc /proc --dev /dev \
        --tmpfs /tmp --ro-bind "$HELPERS" /helpers --bind "$dir" /pmc --setenv LC_ALL C "${options[@]}" \
        /usr/bin/bash -c "$BOX_WORDS" box 9<"$T/$name.commands" >"$T/$name.answers" 2>"$T/$name.errors" &
    exec {in}>"$T/$name.commands" {out}<"$T/$name.answers"
    BOX_IN[$name]=$in BOX_OUT[$name]=$out
    inside "$name" true
    is "$STATUS" 0 "a command in $name: $(cat "$T/$name.errors")"
}

# inside NAME 'SHELL TEXT': runs the text; ANSWER is its output, STATUS its exit status.
inside() {
    printf '%s\0' "$2" >&"${BOX_IN[$1]}"
    IFS= read -r -d '' -t 120 -u "${BOX_OUT[$1]}" ANSWER || die "no answer from $1 to '$2': $(cat "$T/$1.errors")"
    STATUS=${ANSWER%% *} ANSWER=${ANSWER#* }
}

# prints_inside NAME EXPECTED 'SHELL TEXT': the command must print EXPECTED. fails_inside NAME ERRNO 'SHELL TEXT': the
# command must fail and print the text of that errno.
prints_inside() {
    inside "$1" "$3"
    is "$ANSWER" "$2" "$1: $3"
}
fails_inside() {
    inside "$1" "$3"
    ((STATUS)) || die "$1 succeeded, expected $2: $3"
    [[ ${ANSWER,,} == *"${STRERROR[$2],,}"* ]] || die "$1: expected $2 from: $3; it printed: $ANSWER"
}

# box_end NAME: stops the container and all its processes.
box_end() {
    local in=${BOX_IN[$1]} out=${BOX_OUT[$1]}
    printf 'exit\0' >&"$in"
    exec {in}>&- {out}<&-
}

# Options for box_start. ROOTLESS: uid 1000 is root inside, with all capabilities there. ROOTFUL: uid 0 of the host with
# the capabilities that containers usually have. PRIVILEGED: uid 0 of the host with all capabilities.
ROOTLESS=(--unshare-user --uid 0 --gid 0 --cap-add ALL)
ROOTFUL=(--cap-drop ALL)
for word in CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP SYS_CHROOT KILL; do
    ROOTFUL+=(--cap-add "CAP_$word")
done
PRIVILEGED=(--cap-add ALL)
