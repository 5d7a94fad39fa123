#!/bin/sh
# Installs what is missing, builds, runs every test; the last line is "N passed, M failed, K skipped".
#
#   sh tests/run.sh [-k] [PATTERN]
#
# PATTERN (grep -E) selects tests by their names; -k keeps the directory with what they wrote. Runs as
# root, or through sudo, on Debian 12. The builds are in build-tests/; nothing else is left.
set -u

packages='gcc clang libc6-dev meson ninja-build pkg-config libfuse3-dev libpfm4-dev libinih-dev libdw-dev
libelf-dev libseccomp-dev libcap-ng-dev check fuse3 mount util-linux procps python3 mandoc shellcheck bash dash gawk linux-perf
prometheus-node-exporter bubblewrap bsdextrautils podman runc'

# Under TSan only what does several things at once: the rest is sequential, and the sanitizer slow.
tsan_files='concurrent poll series shutdown samples loss waits'

root=$(cd "$(dirname "$0")/.." && pwd)
self=$root/tests/run.sh
builds=$root/build-tests

# ---- one test ----

# settle NAME DIRECTORY START STATUS: note the result. 77 is a skip, its reason in DIRECTORY/skip.
settle() {
    seconds=$(($(date +%s) - $3))
    case $4 in
    0) echo "pass $1 $seconds" >>"$WORK/results" ;;
    77)
        echo "skip $1 $seconds" >>"$WORK/results"
        echo "skipped $1: $(cat "$2/skip" 2>/dev/null || tail -n 1 "$2/output")"
        ;;
    *)
        echo "fail $1 $seconds" >>"$WORK/results"
        tell_failure "$1" "$2" "$seconds"
        ;;
    esac
}

# In one piece, though tests run side by side.
tell_failure() {
    (
        flock 9
        echo "FAILED $1 after $3 s. It said:"
        tail -n 60 "$2/output" | sed 's/^/    /'
        if [ -s "$2/daemon" ]; then
            echo "pmcfs said:"
            tail -n 30 "$2/daemon" | sed 's/^/    /'
        fi
    ) 9>"$WORK/lock"
}

# command_test NAME LIMIT COMMAND…: a test that is one program.
command_test() {
    ! selected "$1" || needed_test "$@"
}

# needed_test NAME LIMIT COMMAND…: the same, whatever is selected.
needed_test() {
    name=$1 limit=$2
    shift 2
    dir=$WORK/$name
    mkdir -p "$dir"
    start=$(date +%s)
    timeout -k 5 "$limit" "$@" >"$dir/output" 2>&1 </dev/null
    settle "$name" "$dir" "$start" $?
}

selected() {
    [ -z "${PATTERN-}" ] || echo "$1" | grep -qE -e "$PATTERN"
}

# mount_test VARIANT FILE FUNCTION: in its own mount and PID namespace, so that nothing is left behind.
mount_test() {
    VARIANT=$1 HELPERS=$WORK/bin LIMIT=60 BIN=$WORK/bin/pmcfs
    case $VARIANT in
    asan | tsan) LIMIT=150 BIN=$WORK/bin/pmcfs-$VARIANT ;;
    esac
    export VARIANT BIN HELPERS LIMIT
    name=$VARIANT/$(basename "$2" .sh)/${3#t_}
    dir=$WORK/$name
    mkdir -p "$dir"
    start=$(date +%s)
    timeout -s KILL $((LIMIT + 15)) \
        unshare --mount --pid --fork --kill-child --mount-proc --propagation private \
        "$root/tests/mount/one.sh" "$root/$2" "$3" "$dir" >"$dir/log" 2>&1 </dev/null
    status=$?
    cat "$dir/log" >>"$dir/output"
    settle "$name" "$dir" "$start" $status
    [ $status != 0 ] || rm -rf "$dir"
}

# list_mount_tests VARIANT…: "VARIANT FILE FUNCTION" for every mount test that is selected.
list_mount_tests() {
    for variant in "$@"; do
        for file in tests/mount/*.sh tests/clients/*.sh; do
            group=$(basename "$file" .sh)
            case "$variant $tsan_files " in
            "tsan "*"$group"*) ;;
            tsan*) continue ;;
            esac
            sed -n 's/^\(t_[a-z0-9_]*\)() {.*/\1/p' "$file" | while read -r function; do
                selected "$variant/$group/${function#t_}" && echo "$variant $file $function"
            done
        done
    done
}

# Three tests at once on two busy CPUs: what failed is run once more, alone. It counts then, and it is
# said: a test that needs this twice is to be mended.
again_alone() {
    grep '^fail [a-z]*/[a-z_]*/' "$WORK/results" | while read -r _ name _; do
        variant=${name%%/*} function=t_${name##*/}
        file=${name#*/}
        file=$(ls tests/mount/"${file%%/*}.sh" tests/clients/"${file%%/*}.sh" 2>/dev/null)
        case $variant in plain | reload | asan | tsan) ;; *) continue ;; esac
        [ "$file" ] || continue
        sed -i "\\#^fail $name #d" "$WORK/results"
        echo "once more, alone: $name"
        rm -rf "${WORK:?}/$name"
        mount_test "$variant" "$file" "$function"
    done
}

# Tests on a real PMU report by themselves, in one boot of an emulated machine: ok, not ok and what it
# said, skip.
guest_tests() {
    last=$(date +%s)
    sh tests/guest/run.sh "$builds/guest" "$PATTERN" | while IFS= read -r line; do
        now=$(date +%s)
        case $line in
        'ok '*) echo "pass ${line#ok } $((now - last))" >>"$WORK/results" ;;
        'not ok '*)
            echo "fail ${line#not ok } $((now - last))" >>"$WORK/results"
            echo "FAILED ${line#not ok }. It said:"
            ;;
        'skip '*)
            name=${line#skip }
            echo "skip ${name%% *} 0" >>"$WORK/results"
            echo "skipped ${name%% *}: ${name#* }"
            ;;
        *) echo "$line" ;;
        esac
        last=$now
    done
}

# ---- builds ----

# The services of a package are not to run because a test needs its program.
install_packages() {
    missing=
    for package in $packages; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
            missing="$missing $package"
    done
    [ "$missing" ] || return 0
    echo "installing$missing"
    policy=/usr/sbin/policy-rc.d
    if [ -e $policy ]; then
        policy=
    else
        printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy
    fi
    # shellcheck disable=SC2086 # words are wanted
    apt-get -q update &&
        DEBIAN_FRONTEND=noninteractive apt-get -qy install --no-install-recommends $missing
    status=$?
    [ -z "$policy" ] || rm -f "$policy"
    return $status
}

# build NAME MESON-OPTION…
build() {
    dir=$builds/$1
    shift
    if [ ! -e "$dir/build.ninja" ]; then
        rm -rf "$dir"
        meson setup "$dir" "$root" "$@" || return 1
    fi
    ninja -C "$dir"
}

build_plain() { build plain --werror -Ddebug_reload=enabled; }
build_clang() { CC=clang build clang --werror; }
build_asan() { build asan -Db_sanitize=address,undefined -Ddebug_reload=enabled; }
build_tsan() { build tsan -Db_sanitize=thread -Ddebug_reload=enabled; }

# Users 1000 and 1001 of the tests may not be able to reach the checkout.
copy_programs() {
    mkdir -p "$WORK/bin"
    cp "$builds/plain/pmcfs" "$builds/plain/tests/io" "$builds/plain/tests/target" \
        "$builds/plain/tests/hot" "$builds/plain/tests/hang" "$WORK/bin/" ||
        return 1
    for variant in asan tsan; do
        [ ! -e "$builds/$variant/pmcfs" ] || cp "$builds/$variant/pmcfs" "$WORK/bin/pmcfs-$variant"
    done
}

# fuzz PROGRAM: a short run from each of some fixed seeds.
fuzz() {
    for seed in 1 2 3 4; do
        echo "seed $seed"
        "$1" $seed 3000 || return
    done
}

# ---- tests that read the sources ----

check_scripts() {
    cd "$root" || return 1
    shellcheck -x tests/run.sh .ci/run || return 1
    find examples tests -name '*.sh' ! -path tests/run.sh -exec shellcheck -x {} +
}

# ---- the whole ----

# Is anything wanted of this build?
selected_any() {
    selected "build/$1" || selected "$1/unit" || [ "$(list_mount_tests "$1")" ]
}

run_everything() {
    cd "$root" || return
    needed_test build/plain 900 sh "$self" --call build_plain
    for kind in asan tsan clang; do
        ! selected_any "$kind" || needed_test "build/$kind" 900 sh "$self" --call "build_$kind"
    done
    copy_programs || return

    command_test sources/scripts 120 sh "$self" --call check_scripts
    command_test sources/manual 60 sh tests/manual.sh "$WORK/bin/pmcfs"
    for kind in plain asan tsan; do
        for program in unit pool share confine host symbol events machines attach record; do
            # These compare what threads count of themselves: TSan's own page faults are among it.
            case $kind/$program in tsan/attach | tsan/record) continue ;; esac
            [ ! -x "$builds/$kind/tests/$program" ] ||
                command_test "$kind/$program" 300 "$builds/$kind/tests/$program"
        done
        [ $kind != tsan ] || continue # they have one thread
        for program in fuzz_cpus fuzz_scan fuzz_record fuzz_config fuzz_state; do
            [ ! -x "$builds/$kind/tests/$program" ] ||
                command_test "$kind/$program" 300 sh "$self" --call fuzz "$builds/$kind/tests/$program"
        done
    done
    list_mount_tests plain reload asan tsan |
        xargs -r -L 1 -P $(($(nproc) + 1)) sh "$self" --call mount_test
    again_alone
    guest_tests
    if [ "$PATTERN" ] || grep -q '^skip guest' "$WORK/results"; then
        command_test sources/seed 60 sh tests/seed-coverage.sh
    else
        command_test sources/seed 60 sh tests/seed-coverage.sh "$WORK/results"
    fi
}

case ${1-} in
--call)
    shift
    "$@"
    exit
    ;;
esac

[ "$(id -u)" = 0 ] || exec sudo sh "$self" "$@"

keep=
if [ "${1-}" = -k ]; then
    keep=yes
    shift
fi
PATTERN=${1-}
WORK=$(mktemp -d "${TMPDIR:-/tmp}/pmcfs-tests.XXXXXX") || exit 1
export WORK PATTERN
chmod 755 "$WORK"
: >"$WORK/results"
needed_test install 900 sh "$self" --call install_packages

# One namespace around everything: who interrupts this script ends it all.
unshare --mount --pid --fork --kill-child --mount-proc --propagation private \
    sh "$self" --call run_everything &
everything=$!
trap 'kill -KILL $everything; rm -rf "$WORK"; exit 1' INT TERM HUP
wait $everything
trap - INT TERM HUP

passed=$(grep -c ^pass "$WORK/results")
failed=$(grep -c ^fail "$WORK/results")
skipped=$(grep -c ^skip "$WORK/results")
grep ^fail "$WORK/results"
if [ "$keep" ]; then
    echo "kept: $WORK"
else
    rm -rf "$WORK"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
