#!/bin/sh
# Runs as the last service of each boot: executes the tests of this boot in order and prints the results on the
# console. Mounts and processes of a test remain for the next test.
here=/packaging
boot=$(cat $here/boot)
T=/run/packaging
mkdir -p $T
chmod 755 $T

file=$(echo $here/inside/"$boot"-*.sh)
# shellcheck disable=SC2013,SC2016
for function in $(sed -n 's/^\(t_[a-z0-9_]*\)() {.*/\1/p' "$file"); do
    name=packaging/${function#t_}
    echo "@@ begin $name"
    begin=$(date +%s)
    if timeout -k 5 600 sh -c 'set -eu; . /packaging/inside/lib.sh; . "$0"; "$1"' "$file" "$function" \
        </dev/null >$T/printed 2>&1; then
        echo "@@ ok $name"
    else
        echo "@@ not ok $name"
        echo "    after $(($(date +%s) - begin)) s of at most 600 s; it printed:"
        tail -n 40 $T/printed | sed 's/^/    /'
        journalctl -q --no-pager -b -u pmcfs -u pmc.mount -o cat | tail -n 20 | sed 's/^/    journal: /'
    fi
    pkill -KILL -u 1000
done

echo $((boot + 1)) >$here/boot
if [ "$boot" -lt 3 ]; then
    systemctl reboot 2>/dev/null
else
    echo "@@ end"
    systemctl poweroff 2>/dev/null
fi
