#!/bin/sh
# Prints the counts of each interval with their sum, until the PMC is stopped: stream.sh PMC
set -eu

while read -r seconds counts; do
    case $seconds in '#'*) continue ;; esac # the names of the columns, or skipped lines
    sum=0
    for count in $counts; do sum=$((sum + count)); done
    # shellcheck disable=SC2086 # one word per count
    echo "$seconds:" $counts "(sum $sum)"
done <"$1/series"
