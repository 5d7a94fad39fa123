#!/bin/sh
# Long tests. sh tests/soak.sh MINUTES: everything at the same time, with progress;
# sh tests/soak.sh kills [N]: the worker is killed N times (2000) under load;
# sh tests/soak.sh faults: each allocation and system call of an operation fails once. As root.
set -eu
cd "$(dirname "$0")/.."
[ $# = 0 ] || echo "PMCFS_SEED=${PMCFS_SEED:=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}"
export PMCFS_SEED
case ${1:-} in
kills) KILLS=${2:-2000} SOAK_LIMIT=$((60 + ${2:-2000})) sh tests/run.sh -n 'plain/replaced/a_hundred_kills' ;;
[1-9]*)
    PROGRESS=$(mktemp)
    tail -f "$PROGRESS" &
    trap 'kill $!; rm "$PROGRESS"' EXIT
    export PROGRESS SOAK_SECONDS=$(($1 * 60)) SOAK_LIMIT=$(($1 * 70 + 120))
    sh tests/run.sh -n 'plain/soak/'
    ;;
faults) FAULTS=all SOAK_LIMIT=3000 sh tests/run.sh -n 'plain/faults/' ;;
*)
    sed -n 's/^# //p' "$0" >&2
    exit 2
    ;;
esac
