#!/bin/sh
# Runs pmcfs on a real PMU: boots an emulated arm64 machine and reports each test of tests/guest/inside
# as "ok NAME", "not ok NAME" (followed by the indented output) or "skip NAME reason".
#
#   sh tests/guest/run.sh BUILD-DIRECTORY | -l [PATTERN]
#
# PATTERN (grep -E) selects tests by their names; -l lists them. Downloads stay in
# ${XDG_CACHE_HOME:-~/.cache}/pmcfs-guest. SECONDS_MAX (2700) limits the time of the machine;
# KERNEL_PACKAGE is another kernel package of Debian. The exit status is 1 if a test failed.
set -u
export LC_ALL=C

ROOT=$(cd "$(dirname "$0")/../.." && pwd)
[ $# -ge 1 ] || {
    sed -n '2,10s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
PATTERN=${2-} KIND=guest ARCH=arm64 KERNEL_META=linux-image-arm64
# shellcheck source=tests/machine.sh
. "$ROOT/tests/machine.sh"
# shellcheck source=tests/guest/machine.sh
. "$ROOT/tests/guest/machine.sh"

# Every function t_NAME of inside/FILE.sh is the test guest/FILE/NAME; below a line "#@ asked" it is run only
# when a pattern asks for it.
list_tests() {
    awk -v all="$PATTERN" '
    FNR == 1 { group = FILENAME; sub(/.*\//, "", group); sub(/\.sh$/, "", group) }
    /^t_[a-z0-9_]*\(\) \{/ && (all != "" || last !~ /^#@ asked/) {
        sub(/\(.*/, "")
        print "guest/" group "/" substr($0, 3)
    }
    { last = $0 }' "$ROOT"/tests/guest/inside/*.sh | grep -E -e "$PATTERN"
}

[ "$1" != -l ] || {
    list_tests
    exit 0
}
[ "$(list_tests)" ] || exit 0
mkdir -p "$1" && BUILD=$(cd "$1" && pwd) || exit 2
console=$BUILD/console
stage need_tools
stage need_arm64_lists
# shellcheck disable=SC2086 # word splitting is intended
stage fetch $DEVELOPMENT
# shellcheck disable=SC2086 # word splitting is intended
stage unpack "$BUILD/sysroot" $DEBS
stage fetch $MACHINE
# shellcheck disable=SC2086 # word splitting is intended
stage unpack "$BUILD/machine" $DEBS
stage prepare_kernel
stage build_all
list_tests >"$BUILD/selected"
stage pack "$BUILD/selected"
boot "${SECONDS_MAX:-2700}" | tee "$console" | report
