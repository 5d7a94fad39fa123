#!/bin/sh
# From nothing to a first table: installs what is missing, builds pmcfs, mounts it on a temporary
# directory, counts a command from its first instruction to its last, counts and samples a running
# process, and then removes the mount. For Debian 12, as root or with sudo.
#
# usage: sh examples/quickstart.sh
set -eu

case ${1-} in
-h | --help)
    sed -n '2,/^set /s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
esac

packages='gcc meson ninja-build pkg-config libfuse3-dev fuse3 libpfm4-dev libinih-dev libcap-ng-dev
uthash-dev libdw-dev libiberty-dev libncurses-dev'
root=$(cd "$(dirname "$0")/.." && pwd)
work='' mnt='' busy_pid='' mounted='' no_pmu=''

message() { printf '%s\n' "$*"; }
die() { printf 'quickstart: %s\n' "$*" >&2; exit 1; }

clean() {
    trap - EXIT
    trap '' INT TERM HUP
    [ -z "$busy_pid" ] || kill "$busy_pid" 2>/dev/null || :
    if [ -n "$mounted" ]; then
        $sudo umount "$mnt" 2>/dev/null || $sudo umount -l "$mnt" || :
    fi
    [ -z "$mnt" ] || rmdir "$mnt" 2>/dev/null || :
    [ -z "$work" ] || rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

sudo=
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die 'mounting needs root: run this script as root, or install sudo.'
    sudo=sudo
fi

install_missing() {
    missing=
    for package in $packages; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
            missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    message "Installing$missing."
    # shellcheck disable=SC2086
    $sudo env DEBIAN_FRONTEND=noninteractive sh -c '
        apt-get install -qq --no-install-recommends "$@" ||
            { apt-get update -qq && apt-get install -qq --no-install-recommends "$@"; }' \
        apt $missing >"$work/log" 2>&1 ||
        die "the packages$missing could not be installed: $(tail -n 1 "$work/log")"
}

# build_in DIRECTORY: leaves DIRECTORY/pmcfs, which README's `ninja -C build install` installs: with its prefix
build_in() {
    if [ ! -f "$1/build.ninja" ]; then
        meson setup --prefix=/usr -Dtests=false "$1" "$root" >"$work/log" 2>&1 || return 1
    fi
    ninja -C "$1" >"$work/log" 2>&1
}

build() {
    message 'Building pmcfs.'
    bin=$root/build
    build_in "$bin" && return
    bin=$work/build
    build_in "$bin" || die "the build failed: $(grep -i -m 1 error "$work/log" || tail -n 1 "$work/log")"
}

mount_tree() {
    [ -c /dev/fuse ] || $sudo modprobe fuse 2>/dev/null || :
    [ -c /dev/fuse ] || die 'no /dev/fuse: load the kernel module fuse, or pass the device to this container.'
    mnt=$(mktemp -d /tmp/pmcfs.XXXXXX)
    $sudo "$bin/pmcfs" "$mnt" || die "pmcfs could not mount: see its message above."
    mounted=yes
}

# put FILE WORD...: writes a command to a file of the tree; dies with the reason if it is refused
put() {
    file=$1
    shift
    echo "$*" 2>/dev/null >"$mnt/$file" ||
        die "writing \"$*\" to $file was refused: $(cat "$mnt/${file%/*}/error" 2>/dev/null || echo pmcfs gave no reason)"
}

# make_pmcs NAME SETTING...: creates NAME for software events, and NAME-hw if there is a PMU
make_pmcs() {
    name=$1
    shift
    mkdir "$mnt/$name"
    put "$name/config" event=task-clock event=page-faults event=context-switches "$@"
    mkdir "$mnt/$name-hw"
    if ! echo event=instructions event=cycles "$@" 2>/dev/null >"$mnt/$name-hw/config"; then
        no_pmu=$(sed 's/^[^:]*: //' "$mnt/$name-hw/error")
        rmdir "$mnt/$name-hw"
    fi
}

# values NAME: prints "event value" lines of both PMCs
values() {
    paste -d ' ' "$mnt/$1/event" "$mnt/$1/count"
    if [ -d "$mnt/$1-hw" ]; then
        paste -d ' ' "$mnt/$1-hw/event" "$mnt/$1-hw/count"
    fi
}

now_ms() { echo $(($(date +%s%N) / 1000000)); }

# The shell attaches itself; counting starts when it executes the command.
count_command() {
    awk 'BEGIN { for (i = 0; i < 400000; i++) print int(rand() * 1e9), "some text to sort" }' >"$work/data"
    make_pmcs sort start=exec descendants=on
    begin=$(now_ms)
    # shellcheck disable=SC2016
    PMC=$mnt/sort DATA=$work/data sh -c '
        echo self >"$PMC/target" || exit 1
        [ ! -d "$PMC-hw" ] || echo self >"$PMC-hw/target" || exit 1
        exec sh -c "sort \"\$DATA\" | gzip >/dev/null"' ||
        die "counting sort was refused: $(cat "$mnt/sort/error")"
    sort_ms=$(($(now_ms) - begin))
    values sort >"$work/sort"
}

count_running() {
    gzip -c </dev/urandom >/dev/null &
    busy_pid=$!
    make_pmcs busy
    begin=$(now_ms)
    put busy/target "$busy_pid"
    [ ! -d "$mnt/busy-hw" ] || put busy-hw/target "$busy_pid"
    mkdir "$mnt/where"
    put where/config event=cpu-clock freq=997 "target=$busy_pid"
    sleep 1
    values busy >"$work/busy"
    busy_ms=$(($(now_ms) - begin))
    put where/ctl stop
    cat "$mnt/where/samples.folded" >"$work/where"
}

# Lines "program;place N": a sample without a call chain has one place.
print_places() {
    message '  Where that gzip was, by samples (perf report -i - <samples.perf has more):'
    message ''
    sort -t ' ' -k 2 -rn "$work/where" | awk '
        { sub(/^[^;]*;/, ""); sum += $2; if (NR <= 3) { place[NR] = $1; n[NR] = $2 } }
        END { for (i in n) printf "  %5.1f %%  %s\n", 100 * n[i] / sum, place[i] | "sort -rn" }'
    message ''
}

print_table() {
    awk -v sort_ms="$sort_ms" -v busy_ms="$busy_ms" '
        function commas(text,    rest, out) {
            rest = match(text, /\./) ? substr(text, RSTART) : ""
            text = substr(text, 1, length(text) - length(rest))
            for (out = ""; length(text) > 3; text = substr(text, 1, length(text) - 3))
                out = "," substr(text, length(text) - 2) out
            return text out rest
        }
        function line(label, format, left, right, unit) {
            if (left == "" && right == "")
                return
            printf "  %-22s %14s %14s%s\n", label, left == "" ? "-" : commas(sprintf(format, left)),
                right == "" ? "-" : commas(sprintf(format, right)), unit == "" ? "" : "  " unit
        }
        function ratio(a, b, factor) { return b > 0 ? a / b * factor : "" }
        { v[FILENAME == ARGV[1] ? 1 : 2, $1] = $2 }
        END {
            ms[1] = sort_ms; ms[2] = busy_ms
            for (i = 1; i <= 2; i++) {
                cpu[i] = v[i, "task-clock"] / 1e6
                busy[i] = ratio(cpu[i], ms[i], 1)
                rate[i] = ratio(v[i, "context-switches"], ms[i], 1000)
                if ((i, "cycles") in v) {
                    ipc[i] = ratio(v[i, "instructions"], v[i, "cycles"], 1)
                    ghz[i] = ratio(v[i, "cycles"], v[i, "task-clock"], 1)
                }
            }
            printf "\n  %-22s %14s %14s\n", "", "sort | gzip", "gzip"
            printf "  %-22s %14s %14s\n\n", "", "whole command", "while running"
            line("elapsed time", "%.0f", ms[1], ms[2], "ms")
            line("CPU time", "%.1f", cpu[1], cpu[2], "ms")
            line("page faults", "%.0f", v[1, "page-faults"], v[2, "page-faults"], "")
            line("context switches", "%.0f", v[1, "context-switches"], v[2, "context-switches"], "")
            if ((1, "cycles") in v) {
                line("instructions", "%.0f", v[1, "instructions"], v[2, "instructions"], "")
                line("cycles", "%.0f", v[1, "cycles"], v[2, "cycles"], "")
            }
            print ""
            line("CPUs used", "%.2f", busy[1], busy[2], "")
            line("switches a second", "%.0f", rate[1], rate[2], "")
            line("instructions a cycle", "%.2f", ipc[1], ipc[2], "")
            line("clock", "%.2f", ghz[1], ghz[2], "GHz")
            print ""
        }' "$work/sort" "$work/busy"
}

work=$(mktemp -d /tmp/pmcfs-quickstart.XXXXXX)
command -v dpkg-query >/dev/null || die "this is not Debian: install the packages that correspond to $packages, then follow README.md."
install_missing
build
mount_tree
message 'Counting sort and gzip from their first instruction, then a gzip that runs already.'
count_command
count_running
print_table
[ ! -s "$work/where" ] || print_places
[ -z "$no_pmu" ] || message "  No hardware events: $no_pmu."
if [ "$bin" = "$root/build" ]; then
    message "To go on: ${sudo:+sudo }mkdir -p /pmc && ${sudo:+sudo }$bin/pmcfs /pmc && cat /pmc/README"
fi
