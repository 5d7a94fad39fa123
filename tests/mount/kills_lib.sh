# shellcheck shell=bash disable=SC2016,SC2154
# Users of a mount while its worker is killed: kills.c, a busybox shell and a container.

# FILE TEXT END: reads FILE, which must contain TEXT, until the file END exists, at least once.
reader='
n=0
while [ "$n" = 0 ] || [ ! -e "$3" ]; do
    printed=$(busybox cat "$1" 2>&1) && [ "$printed" = "$2" ] || echo "FAILED: $1: $printed"
    n=$((n + 1))
done
echo "$n reads of $1"'

# kills ARG…: runs kills.c, together with a busybox shell and a bubblewrap container with a bind mount of an instance.
# Fails after printing all output if a call failed.
kills() {
    local rc=0 users=()
    rm -f "$T/end" "$T/readers"
    mkdir "$M/boxed" "$M/instances/boxed" "$T/inside"
    echo event=page-faults count=654321 >"$M/boxed/config"
    mount --bind "$M/instances/boxed" "$T/inside"
    mkdir "$T/inside/b"
    echo event=page-faults count=54321 >"$T/inside/b/config"
    busybox sh -c "$reader" - "$M/boxed/count" 654321 "$T/end" >>"$T/readers" 2>&1 &
    users+=($!)
    bwrap --ro-bind / / --bind "$T/inside" /mnt busybox sh -c "$reader" - /mnt/b/count 54321 "$T/end" \
        >>"$T/readers" 2>&1 &
    users+=($!)
    "$HELPERS/kills" "$M" "$DAEMON" "$@" || rc=1
    touch "$T/end"
    wait "${users[@]}" || rc=1
    rmdir "$T/inside/b" "$M/boxed" || rc=1
    umount "$T/inside"
    rmdir "$M/instances/boxed" "$T/inside" || rc=1
    cat "$T/readers"
    ! grep -q FAILED "$T/readers" && return $rc
}
