#!/bin/sh
# Installs what is missing, builds, runs every test; the last line is "N passed, M failed, K skipped".
#
#   sh tests/run.sh [-k] [-n] [quick | PATTERN]
#
# quick is for each commit: it leaves out slow tests and uses one variant. PATTERN (grep -E) selects
# tests by their names. -k keeps the output of failed tests, -n installs nothing. Runs as root, or
# through sudo, on Debian 12. The builds are in build-tests/, downloads for the emulated machines in
# ~/.cache/pmcfs-guest and ~/.cache/pmcfs-packaging; installed packages stay. See tests/README.md.
# Environment: TMPDIR, XDG_CACHE_HOME; PMCFS_SEED (random tests, 1), SOAK_LIMIT (seconds a mount test may take, 300),
# SECONDS_MAX (limit of an emulated machine), KERNEL_PACKAGE (kernel of the emulated machines). Users other than
# root need no `sudo` before the command: this script calls it, and keeps these variables.
set -u
umask 022
# Dash has a PATH where the environment has none, but does not pass it on.
export PATH="${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}"
HOME=${HOME:-$(getent passwd "$(id -u)" | cut -d : -f 6)}
export HOME
variables=TMPDIR,XDG_CACHE_HOME,PMCFS_SEED,SOAK_LIMIT,SECONDS_MAX,KERNEL_PACKAGE,SOAK_SECONDS,PROGRESS,KILLS,FAULTS

packages='gcc clang libclang-rt-dev libc6-dev meson ninja-build pkg-config libfuse3-dev libpfm4-dev libinih-dev libdw-dev libiberty-dev
libcap-ng-dev uthash-dev check fuse3 mount util-linux procps python3 mandoc shellcheck bash dash gawk linux-perf
prometheus prometheus-node-exporter collectd-core python3-prometheus-client bubblewrap bsdextrautils podman runc uidmap
python3-yaml zsh ksh busybox perl vim-tiny libncurses-dev tmux bash-completion bc libcap2-bin
jq strace'
# Only the slow tests need these.
slow_packages='chromium chromium-driver gnuplot-nox nodejs'

# Under TSan only what does several things at once: the rest is sequential, and the sanitizer slow.
tsan_files='concurrent poll series shutdown samples loss waits replaced'
tsan_suites='count log_readers sim'

fuzz_drivers='config event ini journal record state stream target unwind'

root=$(cd "$(dirname "$0")/.." && pwd)
self=$root/tests/run.sh
builds=$root/build-tests
# A report of the sanitizer fails the test; a mount test finds it in a file (mount/one.sh).
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
# The same sources give the same result.
export PMCFS_SEED="${PMCFS_SEED:-1}"

# ---- one test ----

# settle NAME DIRECTORY START STATUS: writes the result into $WORK/results. 77 is a skip, its reason in DIRECTORY/skip.
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
        print_failure "$1" "$2" "$seconds"
        ;;
    esac
}

# Prints in one piece, although other tests run at the same time.
print_failure() {
    (
        flock 9
        echo "FAILED $1 after $3 s. It printed:"
        tail -n 120 "$2/output" | sed 's/^/    /'
        if [ -s "$2/daemon" ]; then
            echo "pmcfs printed:"
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
    [ -z "$PATTERN" ] || echo "$1" | grep -qE -e "$PATTERN"
}

# mount_test VARIANT FILE FUNCTION: runs a test in a new mount and PID namespace, so that nothing remains.
mount_test() {
    VARIANT=$1 HELPERS=$WORK/bin BIN=$WORK/bin/pmcfs-$1 LIMIT=${SOAK_LIMIT:-300}
    export VARIANT BIN HELPERS LIMIT
    name=$VARIANT/$(basename "$2" .sh)/${3#t_}
    dir=$WORK/$name
    mkdir -p "$dir"
    start=$(date +%s)
    timeout -s KILL $((LIMIT + 15)) \
        unshare --mount --pid --fork --kill-child --mount-proc --propagation private \
        "$root/tests/mount/one.sh" "$root/$2" "$3" "$dir" >"$dir/runner" 2>&1 </dev/null
    status=$?
    cat "$dir/runner" >>"$dir/output"
    settle "$name" "$dir" "$start" $status
    [ $status != 0 ] || rm -rf "$dir"
}

# list_mount_tests: "VARIANT/GROUP/NAME|HOW|mount_test VARIANT FILE FUNCTION" for every selected mount test; HOW is wide,
# alone or early. A line "#@ WORDS" above a function can contain: slow (more than half a second), alone (not at the same
# time as other tests), plain (only in the build for users: sanitizers and reloads disturb it), reload (only if SIGUSR2
# makes the daemon reload its state from the journal), early (for plain tests: changes a setting of the host that other
# mounts must not have, then waits; runs before all others, while the other variants are built).
list_mount_tests() {
    awk -v pattern="$PATTERN" -v quick="$QUICK" -v tsan_files=" $tsan_files " '
    function offer(variant, name) {
        name = variant "/" group "/" substr(function_name, 3)
        if (pattern == "" || name ~ pattern)
            print name "|" how "|mount_test " variant " " FILENAME " " function_name
    }
    FNR == 1 { group = FILENAME; sub(/.*\//, "", group); sub(/\.sh$/, "", group); tags = " " }
    /^#@ / { tags = substr($0, 3) " "; next }
    /^t_[a-z0-9_]*\(\) \{/ {
        function_name = $0
        sub(/\(.*/, "", function_name)
        how = tags ~ / early / ? "early" : tags ~ / alone / ? "alone" : "wide"
        if (tags !~ / plain /) {
            if (!quick || tags !~ / (slow|alone) /) offer("asan")
            if (!quick && index(tsan_files, " " group " ")) offer("tsan")
        }
        if (!quick && tags !~ / reload / && (tags !~ / slow / || tags ~ / plain / || pattern != ""))
            offer("plain")
    }
    { tags = " " }' tests/mount/*.sh tests/clients/*.sh
}

# list_programs: the same for programs without a mount. Those of the backends do not run under TSan: they compare a counter
# with the page faults of threads, and TSan causes some of its own.
list_programs() {
    [ "$QUICK" ] || echo "sources/warnings|wide|command_test sources/warnings 1800 sh $self --call check_warnings"
    echo "sources/scripts|wide|command_test sources/scripts 1800 sh $self --call check_scripts"
    echo "sources/manual|wide|command_test sources/manual 600 sh tests/manual.sh $WORK/bin/pmcfs-plain"
    for name in includes security words runner messages; do
        echo "sources/$name|wide|command_test sources/$name 600 sh tests/$name.sh"
    done
    echo "sources/figures|wide|command_test sources/figures 600 python3 -B tests/bench/pages.py"
    for part in tasks race recorded; do
        echo "asan/attach/$part|wide|command_test asan/attach/$part 600 $builds/asan/tests/attach $part"
    done
    for program in record host events machines; do
        echo "asan/$program|wide|command_test asan/$program 600 $builds/asan/tests/$program"
    done
    list_suites asan
    [ "$QUICK" ] || for name in $fuzz_drivers; do
        echo "fuzz/$name|wide|command_test fuzz/$name 600 sh $self --call fuzz $name 20 $WORK/corpus/$name $WORK/fuzz/$name 1"
    done
    [ "$QUICK" ] || {
        echo "tsan/unit|wide|command_test tsan/unit 1200 $builds/tsan/tests/unit $tsan_suites"
        echo "tsan/machines|wide|command_test tsan/machines 1200 $builds/tsan/tests/machines"
    }
    [ "$QUICK" ] || echo "plain/bench|wide|command_test plain/bench 600 sh tests/bench/test.sh $WORK/bin/pmcfs-plain"
    [ -z "$PATTERN" ] || { # if selected by name
        for program in attach record events host; do
            echo "plain/$program|wide|command_test plain/$program 600 $builds/plain/tests/$program"
        done
        list_suites plain
    }
}

# list_suites VARIANT: each suite of the unit tests is a test.
list_suites() {
    sed -n 's/^ *X(\([a-z_]*\)).*/\1/p' tests/unit/unit.h | while read -r suite; do
        echo "$1/unit/$suite|wide|command_test $1/unit/$suite 1200 $builds/$1/tests/unit $suite"
    done
}

# list_wanted: the selected tests, programs first: some of them take longest.
list_wanted() {
    list_programs | while IFS='|' read -r name rest; do
        ! selected "$name" || echo "$name|$rest"
    done
    list_mount_tests
}

# list_emulated: the selected tests of the emulated machines.
list_emulated() {
    [ "$QUICK" ] || {
        sh tests/guest/run.sh -l "$PATTERN"
        ! sh packaging/test.sh -l | grep -qE -e "$PATTERN" || sh packaging/test.sh -l
    }
}

# run_list HOW AT-ONCE: runs the tests of $WORK/list with this HOW. When one of its processes is killed, xargs stops.
run_list() {
    grep "^[^|]*|$1|" "$WORK/list" | cut -d '|' -f 3 | xargs -r -L 1 -P "$2" sh "$self" --call
}

# Every test of the list has a result, or failed.
settle_missing() {
    {
        cut -d '|' -f 1 "$WORK/list" && cat "$WORK/emulated"
        ! selected sources/reference || echo sources/reference
    } | awk -v results="$WORK/results" '
        BEGIN { while ((getline line < results) > 0) { split(line, word, " "); has[word[2]] = 1 } }
        !has[$1] { print "fail " $1 " 0 (it did not run)" }' >"$WORK/missing"
    cat "$WORK/missing" >>"$WORK/results"
}

# Progress, every ten seconds.
print_progress() {
    all=$(wc -l <"$WORK/list") last=
    while sleep 10; do
        now="$(grep -cE '^[a-z]+ (plain|asan|tsan|fuzz|sources)/' "$WORK/results") of $all done"
        [ "$now" = "$last" ] || echo "$now, $(grep -c '^fail' "$WORK/results") failed"
        last=$now
    done
}

# Tests in emulated machines print all their results: ok, not ok with output, skip. Such a machine has a virtual clock, so
# other tests can run at the same time.
take_report() {
    awk -v results="$WORK/results" '
    /^ok / { print "pass " $2 " 0" >>results; next }
    /^not ok / { print "fail " $3 " 0" >>results; print "FAILED " $3 ". It printed:"; next }
    /^skip / { name = $2; sub(/^skip [^ ]* /, ""); print "skip " name " 0" >>results; print "skipped " name ": " $0; next }
    { print }' "$1"
}

# Tests in an emulated machine that has a PMU.
guest_tests() {
    grep -q ^guest/ "$WORK/emulated" || return 0
    sh tests/guest/run.sh "$builds/guest" "$PATTERN" >"$WORK/guest" 2>&1
    take_report "$WORK/guest"
}

# Tests of the Debian packages: each depends on the previous ones, so they run together.
package_tests() {
    grep -q ^packaging/ "$WORK/emulated" || return 0
    sh packaging/test.sh "$builds/packaging" >"$WORK/packaging" 2>&1
    take_report "$WORK/packaging"
}

machine_tests() {
    guest_tests &
    package_tests
    wait
}

# ---- builds ----

# Another apt may be at work: `install` waits for it by an option, `update` has none.
update_lists() {
    for _ in $(seq 100); do
        printed=$(LC_ALL=C apt-get -q update 2>&1) && return
        case $printed in
        *'Could not get lock'*) sleep 3 ;;
        *) break ;;
        esac
    done
    echo "$printed"
    return 1
}

# The services of a package are not to run because a test needs its program.
install_packages() {
    missing=
    [ "$QUICK" ] || packages="$packages $slow_packages"
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
    # shellcheck disable=SC2086 # word splitting is intended
    update_lists && DEBIAN_FRONTEND=noninteractive \
        apt-get -qy -o DPkg::Lock::Timeout=300 install --no-install-recommends $missing
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

# plain is what users build.
build_plain() { build plain --werror; }
build_asan() { build asan -Db_sanitize=address,undefined -Doptimization=1 -Ddebug_reload=enabled; }
build_fuzz() {
    CC=clang build fuzz --werror -Dtests=false -Dfuzzing=true -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 \
        -Ddebug_reload=enabled
}
build_tsan() { CC=clang build tsan --werror -Db_sanitize=thread -Db_lundef=false -Ddebug_reload=enabled; }

# copy_helpers: what the mount tests need besides pmcfs. copy_variants VARIANT…: pmcfs and the tools of those that the
# selected tests need. Users 1000 and 1001 of the tests may not be able to reach the checkout.
copy_helpers() {
    mkdir -p "$WORK/bin"
    for program in io target hot hang uring kills faults.so; do
        cp "$builds/plain/tests/$program" "$WORK/bin/" || return
    done
    cp "$builds/plain/examples/pmc-names/pmc-names" "$WORK/bin/" && copy_variants plain
}

copy_variants() {
    for variant in "$@"; do
        [ "$variant" = plain ] || grep -q "^$variant/" "$WORK/list" || continue
        cp "$builds/$variant/pmcfs" "$WORK/bin/pmcfs-$variant" &&
            cp "$builds/$variant/examples/pmc-names/pmc-names" "$WORK/bin/pmc-names-$variant" &&
            cp "$builds/$variant/examples/pmc-names/pmc-perfdata" "$WORK/bin/pmc-perfdata-$variant" &&
            cp "$builds/$variant/examples/pmctop/pmctop" "$WORK/bin/pmctop-$variant" || return
    done
}

# fuzz NAME SECONDS CORPUS FOUND [SEED]: starts from the committed cases; new cases go to the directory CORPUS. A run of
# all tests has a fixed seed: its result depends on the sources and on the number of inputs that fit into the time.
fuzz() {
    mkdir -p "$3" "$4"
    nice -n 19 "$builds/fuzz/tests/fuzz_$1" -seed="${5:-0}" -max_total_time="$2" -max_len=3000 -timeout=100 \
        -print_final_stats=1 -artifact_prefix="$4/" "$3" "$root/tests/fuzz/corpus/$1"
}

# ---- tests that read the sources ----

# A quick run checks the scripts that changed since they were last found right.
check_scripts() {
    cd "$root" || return 1
    known=$builds/shellchecked
    touch "$known"
    libraries=$(find tests -name '*lib.sh' -o -name machine.sh | sort | xargs cat | sha256sum | cut -c 1-16)
    {
        echo .ci/run
        find examples tests packaging -name '*.sh'
        grep -rl '^#!/bin/sh' debian examples --exclude='*.sh'
    } | xargs sha256sum | sed "s/^/$libraries /" >"$WORK/scripts"
    if [ "$QUICK" ]; then
        grep -vxF -f "$known" "$WORK/scripts"
    else
        cat "$WORK/scripts"
    fi | cut -d ' ' -f 4 | xargs -r -n 4 -P "$(nproc)" shellcheck -x || return
    cp "$WORK/scripts" "$known"
}

# ---- warnings of the compilers ----

# The build type release has no warnings either. plain is debugoptimized by gcc, and tsan by clang.
check_warnings() {
    cd "$root" || return 1
    CC=gcc build warnings-gcc --werror --buildtype=release &&
        CC=clang build warnings-clang --werror --buildtype=release -Dtests=false
}

# ---- a run ----

# timed WHAT COMMAND…
timed() {
    echo "$1"
    began=$(date +%s)
    shift
    "$@" && echo "    $(($(date +%s) - began)) s"
}

# build_wanted KIND…: builds the variants that the selected tests need. Test programs are those of plain. The emulated
# machines, which take longest, have priority.
build_wanted() {
    for kind in "$@"; do
        [ "$kind" = plain ] || grep -q "^$kind/" "$WORK/list" || continue
        timed "building $kind" needed_test "build/$kind" 1800 nice -n 10 sh "$self" --call "build_$kind"
        ! grep -q "^fail build/" "$WORK/results" || return
    done
}

# build_all: also runs the early tests.
build_all() {
    build_wanted plain || return
    sh "$self" --call copy_helpers || return
    run_list early 9 &
    early=$!
    build_wanted asan tsan fuzz || return
    needed_test build/programs 60 sh "$self" --call copy_variants asan tsan
    wait $early
    ! grep -q "^fail build/" "$WORK/results"
}

# The emulated machines take longest and need none of the builds.
run_everything() {
    cd "$root" || return
    export CK_FORK=no
    machine_tests &
    machines=$!
    if [ -s "$WORK/list" ]; then
        build_all || return
        echo "$(wc -l <"$WORK/list") tests, $(grep -c '|alone|' "$WORK/list") of them alone, later"
        print_progress &
        ticker=$!
        run_list wide $(($(nproc) * 3))
        kill $ticker
    fi
    ! kill -0 $machines 2>/dev/null || timed "waiting for the emulated machines" wait $machines
    timed "$(grep -c '|alone|' "$WORK/list") tests alone" run_list alone 1
    if [ "$PATTERN$QUICK" ] || grep -q '^skip guest' "$WORK/results"; then
        command_test sources/reference 60 sh tests/reference-coverage.sh
    else
        command_test sources/reference 60 sh tests/reference-coverage.sh "$WORK/results"
    fi
}

# ---- requirements ----

# cannot SENTENCE: nothing is run, which is a failure.
cannot() {
    echo "run.sh: $*" >&2
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
}

# WORK is a new directory in which set-user-ID programs work and which other users reach.
make_work() {
    for where in "${TMPDIR:-/tmp}" /var/tmp; do
        options=,$(findmnt -n -o OPTIONS -T "$where"),
        case $options in
        *,nosuid,* | *,noexec,* | *,ro,*)
            echo "$where is mounted nosuid, noexec or read-only: not used"
            continue
            ;;
        esac
        WORK=$(mktemp -d "$where/pmcfs-tests.XXXXXX") || continue
        chmod 755 "$WORK"
        setpriv --reuid 1000 --regid 1000 --clear-groups test -x "$WORK/." && return
        echo "$where cannot be searched by other users: not used"
        rmdir "$WORK"
    done
    cannot "no directory for the tests' files: set TMPDIR to one without nosuid and noexec that all users may search"
}

check_machine() {
    case $root in
    *[[:space:]]*) cannot "the path of the checkout contains a blank, with which Debian's package tools do not work: $root" ;;
    esac
    printed=$(unshare --mount --pid --fork --mount-proc --propagation private true 2>&1) ||
        cannot "no mount namespace can be created (needs CAP_SYS_ADMIN, and a mount point as root directory, which a plain chroot has not): $printed"
}

case ${1-} in
--call)
    shift
    "$@"
    exit
    ;;
esac

usage() { sed -n '2,/^set /s/^# \{0,1\}//p' "$self"; }

keep='' bare=''
while [ $# != 0 ]; do
    case $1 in
    -k) keep=$1 ;;
    -n) bare=$1 ;;
    -h | --help)
        usage
        exit
        ;;
    -*)
        echo "no such option: $1" >&2
        usage >&2
        exit 2
        ;;
    *) break ;;
    esac
    shift
done
[ "$(id -u)" = 0 ] || {
    command -v sudo >/dev/null || cannot 'run this as root, or install sudo'
    # The dynamic linker removes TMPDIR from the environment of sudo, because sudo is set-user-ID.
    exec sudo --preserve-env="$variables" ${TMPDIR:+env "TMPDIR=$TMPDIR"} sh "$self" ${keep:+"$keep"} ${bare:+"$bare"} "$@"
}
PATTERN=${1-} QUICK=
[ "$PATTERN" != quick ] || PATTERN='' QUICK=yes
check_machine
make_work
export WORK PATTERN QUICK
cd "$root" || exit
: >"$WORK/results"
list_wanted >"$WORK/list"
list_emulated >"$WORK/emulated"
[ -s "$WORK/list" ] || [ -s "$WORK/emulated" ] || selected sources/reference || {
    rm -rf "$WORK"
    cannot "no test has a name that matches $PATTERN"
}
[ "$bare" ] || needed_test install 1800 sh "$self" --call install_packages

# One namespace around everything, so that an interrupt of this script kills all processes.
unshare --mount --pid --fork --kill-child --mount-proc --propagation private \
    sh "$self" --call run_everything &
everything=$!
trap 'kill -KILL $everything; rm -rf "$WORK"; exit 1' INT TERM HUP
wait $everything
trap - INT TERM HUP

settle_missing
passed=$(grep -c ^pass "$WORK/results")
failed=$(grep -c ^fail "$WORK/results")
skipped=$(grep -c ^skip "$WORK/results")
[ "$PATTERN" ] || {
    echo "The ten slowest:"
    sort -k 3nr "$WORK/results" | awk 'NR <= 10 { print "    " $3 " s  " $2 }'
}
grep ^fail "$WORK/results" | head -n 50
[ "$failed" -le 50 ] || echo "and $((failed - 50)) more"
if [ "$keep" ]; then
    echo "kept: $WORK"
else
    rm -rf "$WORK"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
