#!/bin/sh
# libFuzzer's drivers, tests/fuzz/fuzz_NAME.c: sh tests/fuzz.sh MINUTES [NAME]…, as root, each for so long.
#
# It begins with the cases that are kept, tests/fuzz/corpus/NAME; what is new stays in build-tests/fuzz-corpus/NAME
# for the next time, and what fails in build-tests/fuzz-found.
set -eu
cd "$(dirname "$0")/.."
minutes=${1:?how many minutes}
shift
sh tests/run.sh --call build_fuzz >/dev/null
# shellcheck disable=SC2046 # word splitting is intended
[ $# != 0 ] || set -- $(sed -n "s/^fuzz_drivers='\(.*\)'/\1/p" tests/run.sh)
for name in "$@"; do
    sh tests/run.sh --call fuzz "$name" $((minutes * 60)) build-tests/fuzz-corpus/"$name" build-tests/fuzz-found
done
