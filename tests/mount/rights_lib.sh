# shellcheck shell=bash disable=SC2034
# Shared by the tests of rights: processes with other user ids, capabilities and user namespaces.

# CONTAINED: a prefix for uid 0 with the capabilities that containers usually have.
KEPT=+chown,+dac_override,+fsetid,+fowner,+mknod,+net_raw,+setgid,+setuid,+setfcap,+setpcap
KEPT+=,+net_bind_service,+sys_chroot,+kill,+audit_write
CONTAINED=(setpriv --inh-caps=-all --bounding-set "-all,$KEPT")

# with CAPABILITY: WITH becomes a prefix for uid 1000 with this capability.
with() { WITH=(setpriv --reuid "$ALICE" --regid "$ALICE" --clear-groups --inh-caps "+$1" --ambient-caps "+$1"); }

# alices NAME [SETTINGS]: creates a PMC as alice
alices() {
    as "$ALICE" mkdir "$M/$1"
    (($# == 1)) || is "$(result_as "$ALICE" write "$M/$1/config" "${*:2}")" ok "settings of $1"
}

# target_by NAME COMMAND…: COMMAND must execute target.c; PID_OF[NAME] is its PID in the namespace of the test.
target_by() {
    talker_start "$1" "${@:2}"
}

# user_namespace: creates a user namespace of alice's, and two targets that are root in it: boxed with all capabilities,
# bare without any. INSIDE becomes a prefix for a command as that root, INSIDE_BARE for one without capabilities.
user_namespace() {
    need_user_namespaces
    target_by boxed setpriv --reuid "$ALICE" --regid "$ALICE" --clear-groups -- \
        unshare --user --map-root-user "$HELPERS/target"
    INSIDE=(as "$ALICE" nsenter --user --preserve-credentials --target "${PID_OF[boxed]}")
    INSIDE_BARE=("${INSIDE[@]}" "${POWERLESS[@]}")
    target_by bare setpriv --reuid "$ALICE" --regid "$ALICE" --clear-groups -- \
        nsenter --user --preserve-credentials --target "${PID_OF[boxed]}" "${POWERLESS[@]}" "$HELPERS/target"
}

# may COMMAND… -- NAME: COMMAND can attach the target NAME to PMC a. may_not: the attach is refused with E40.
may() {
    is "$(result_by "${@:1:$#-1}" write "$M/a/target" "${PID_OF[${!#}]}")" ok "attach to ${!#} by $1"
    is "$(cat "$M/a/target")" "${PID_OF[${!#}]}"
    tell "${!#}" faults 100
    between "$(count a)" 100 100000
    ctl a detach
    ctl a reset
}
may_not() {
    is "$(result_by "${@:1:$#-1}" write "$M/a/target" "${PID_OF[${!#}]}")" EPERM "attach to ${!#}"
    like "$(cat "$M/a/error")" "^EPERM E40 target: .*${PID_OF[${!#}]}"
    empty cat "$M/a/target"
}

# cgroup_make: creates a cgroup, and removes it at the end of the test. GROUP is its directory, GROUP_NAME its name.
cgroup_make() {
    with_cgroup2
    GROUP=$(mktemp -d "$CGROUP_ROOT/pmcfs-XXXXXX" 2>/dev/null) || skip "cgroups cannot be made here"
    GROUP_NAME=${GROUP#"$CGROUP_ROOT"}
    trap cgroup_remove EXIT # the cgroup outlives the namespaces of the test
}
cgroup_remove() {
    local member
    umount -q "$GROUP"/* 2>/dev/null || :
    find "$GROUP" -name cgroup.procs -exec cat {} + | while read -r member; do
        echo "$member" >"$CGROUP_ROOT/cgroup.procs"
    done
    find "$GROUP" -depth -type d -exec rmdir {} + || :
}
