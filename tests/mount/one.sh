#!/bin/bash
# one.sh FILE FUNCTION DIRECTORY: runs one test on a real mount. run.sh starts it as the first process of a new mount
# and PID namespace, so nothing survives it. Exit status: 0 passed, 77 skipped, otherwise failed.
# Environment: BIN, HELPERS, VARIANT, LIMIT (seconds).
set -uo pipefail
export LC_ALL=C PATH=$PATH:$HELPERS
TEST_FILE=$1 FUNCTION=$2 T=$3
chmod 755 "$T"
cd "$T" || exit 1
# Messages of a daemon in the background go to syslog and are not seen; sanitizers write to a separate file.
export ASAN_OPTIONS=log_path=$T/report:detect_leaks=1 UBSAN_OPTIONS=log_path=$T/report:print_stacktrace=1
export TSAN_OPTIONS=log_path=$T/report:second_deadlock_stack=1
# Old versions of TSan do not start with all of today's address randomisation.
RUN_DAEMON=()
if [[ $VARIANT == tsan ]] && setarch -R true 2>/dev/null; then
    # shellcheck disable=SC2034 # lib.sh uses it
    RUN_DAEMON=(setarch -R)
fi
# shellcheck source=tests/mount/lib.sh
. "${0%/*}/lib.sh"
# shellcheck disable=SC1090
. "$TEST_FILE"

run_test() {
    set -eE -o functrace
    trap 'echo "FAILED at ${BASH_SOURCE[0]##*/}:$LINENO: $BASH_COMMAND" >&2' ERR
    trap reload_before_step DEBUG
    "$FUNCTION"
    trap - DEBUG
    if [[ $VARIANT == asan && $DAEMON != 0 ]]; then
        eventually 5 "((\$(reloads) > RELOAD_FROM))"
    fi
    for dir in "${!DAEMON_OF[@]}"; do
        unmount_pmcfs "$dir"
    done
}

(run_test) >"$T/output" 2>&1 &
test=$!
(
    sleep "$LIMIT"
    echo "no end after $LIMIT s; what hangs:" >>"$T/output"
    timeout -s KILL 5 ps -e -o pid,ppid,stat,wchan:24,args >>"$T/output"
    kill -KILL $test
) &
watchdog=$!
wait $test
rc=$?
kill $watchdog 2>/dev/null
if compgen -G "$T/report*" >/dev/null; then
    cat "$T"/report* >>"$T/output"
    rc=1
fi
exit $rc
