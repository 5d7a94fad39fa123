# shellcheck shell=bash disable=SC2154,SC2016
# Everything at the same time: no call fails, and nothing leaks. sh tests/soak.sh MINUTES.

# shellcheck source=tests/mount/kills_lib.sh
. "${BASH_SOURCE[0]%/*}/kills_lib.sh"

# report WORDS…: prints a line with the time, also to the file PROGRESS.
report() {
    printf '%(%T)T %s\n' -1 "$*" | tee -a "${PROGRESS:-/dev/null}"
}

# server: prints the worker if it is the only child of the supervisor. The file has no newline.
server() {
    [[ $(cat "/proc/$DAEMON/task/$DAEMON/children") =~ ^([0-9]+)\ ?$ ]] && echo "${BASH_REMATCH[1]}"
}

# every SECONDS COMMAND…: repeats the command in the background until the end of the round.
every() {
    (
        for ((i = 1; ; i++)); do
            sleep 1
            [[ ! -e $T/end ]] || exit 0
            ((i % $1)) || "${@:2}"
        done
    ) &
    BACKGROUND+=($!)
}

drop_caches() { echo 2 >/proc/sys/vm/drop_caches; }

# upgrade: upgrades to one of two copies of this program, in turn.
upgrade() {
    local next=$T/pmcfs-one
    [[ $(readlink "/proc/$DAEMON/exe") != "$next" ]] || next=$T/pmcfs-other
    "$next" --upgrade "$M"
    echo "$next" >>"$T/upgrades"
}

# Fails with the stack of a thread that was in state D at five checks in a row without a context switch.
look_for_sleepers() {
    local -A before=()
    local sleep n
    for sleep in "${!SLEEPS[@]}"; do
        before[$sleep]=${SLEEPS[$sleep]}
    done
    SLEEPS=()
    while read -r sleep; do
        n=$((${before[$sleep]:-0} + 1))
        SLEEPS[$sleep]=$n
        ((n < 5)) || die "asleep for good: $(cat "/proc/${sleep% *}"/{comm,stack,status})"
    done < <({ cat /proc/[0-9]*/task/[0-9]*/status 2>/dev/null || :; } | awk '
        /^State:/ { state = $2 } /^Pid:/ { pid = $2 } /^voluntary/ && state == "D" { print pid, $2 }')
}

# round SECONDS: clients, kills for three quarters of the time, upgrades, drop_caches, and a look at all.
round() {
    local -A SLEEPS=()
    BACKGROUND=()
    rm -f "$T/end"
    every 1 look_for_sleepers
    every 3 drop_caches
    every "${UPGRADE_EACH:-20}" upgrade
    kills $(($1 * 3 / 4))s 50000 400000 >"$T/printed" 2>&1 || die "$(cat "$T/printed")"
    report "$(grep -v '^  ' "$T/printed")"
    kills $(($1 / 4))s 100000 100000 0 >"$T/printed" 2>&1 || die "$(cat "$T/printed")"
    report "$(grep -v '^  ' "$T/printed")"
    touch "$T/end"
    for pid in "${BACKGROUND[@]}"; do
        wait "$pid" || die "see above"
    done
    eventually 10 'server >/dev/null'
}

# Resources that must be the same after each round.
held() {
    local pid
    for pid in "$DAEMON" "$(server)"; do
        find "/proc/$pid/fd" -type l -printf '%l\n' | sed 's/\[[0-9]*\]//' | sort | uniq -c
    done
    ls "$M" "$M/instances" "$M/admin/instances"
    grep -E '^(pmcs|descriptors|processes|instances|parked) ' "$M/info/stats"
}

# KiB of both processes, and of their memory that outlives them.
resident() {
    local pid
    {
        for pid in "$DAEMON" "$(server)"; do
            awk '/^RssAnon/ { print $2 }' "/proc/$pid/status"
        done
        find "/proc/$DAEMON/fd" -lname '/memfd:*' -exec find -L {} -printf '%k\n' \;
    } | awk '{ sum += $1 } END { print sum }'
}

#@ slow plain alone
t_everything_at_once_leaks_nothing() {
    local left=${SOAK_SECONDS:-24} seconds memory
    ((left > 120)) || UPGRADE_EACH=4
    mount_pmcfs
    cp "$BIN" "$T/pmcfs-one"
    cp "$BIN" "$T/pmcfs-other"
    round $((left < 180 ? left / 3 : 60))
    held >"$T/before"
    memory=$(resident)
    report "$memory KiB resident; held:
$(cat "$T/before")"
    for ((left -= left < 180 ? left / 3 : 60; left > 0; left -= seconds)); do
        seconds=$((left < 120 ? left : 120))
        round $seconds
        (eventually 20 "held | diff '$T/before' - >'$T/more'") || die "left behind: $(cat "$T/more")"
        eventually 5 '[[ $(stat_value open_files) == 1 ]]'
        report "$(resident) KiB resident, $(wc -l <"$T/upgrades") upgrades, $(stat_value restarts) restarts"
        eventually 5 '(($(resident) <= memory + 8192))' # freed memory is given back a second later
    done
    ! grep -vE 'no usable PMU|killed by signal 9 |upgrade: this program now serves' "$T/daemon" || die "pmcfs printed that"
    unmount_pmcfs
}
