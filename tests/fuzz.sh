#!/bin/sh
# Runs the fuzz drivers tests/fuzz/fuzz_NAME.c, each for MINUTES, as root: sh tests/fuzz.sh MINUTES [NAME]…
#
# A driver starts with the cases in tests/fuzz/corpus/NAME. New cases stay in build-tests/fuzz-corpus/NAME for the next
# run, failing ones in build-tests/fuzz-found.
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
