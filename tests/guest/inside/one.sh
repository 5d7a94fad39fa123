# shellcheck shell=dash
# one.sh FILE FUNCTION: runs one test in a new directory; exit status 0 passed, 77 skipped. Its processes are killed
# afterwards. A hanging test times out in virtual time, which passes quickly.
T=/tmp/t
limit=120
rm -rf "$T"
mkdir -m 755 "$T"
cd "$T" || exit 1
# shellcheck source=tests/guest/inside/lib.sh
. /tests/lib.sh
# shellcheck disable=SC1090
. "$1"

(
    set -eu
    "$2"
    end_all
) &
test=$!
(
    exec >/dev/null 2>&1
    sleep $limit
    touch "$T/late"
    kill -KILL $test
) &
watchdog=$!
wait $test
status=$?
kill $watchdog 2>/dev/null
if [ -e "$T/late" ]; then
    echo "no end after $limit s; what is there:"
    ps -o pid,ppid,stat,args | awk '$1 != 2 && $2 != 2'
fi
[ $status = 0 ] || [ $status = 77 ] || tail -n 10 "$T/daemon" 2>/dev/null
# shellcheck disable=SC2046 # word splitting is intended
kill -KILL $(cat "$T/pids" 2>/dev/null) 2>/dev/null
echo 1 >/sys/devices/system/cpu/cpu1/online
awk '$2 ~ /^\/tmp\/t\// { print $2 }' /proc/mounts | xargs -r umount -l
exit $status
