# shellcheck shell=bash disable=SC2016,SC2034,SC2154
# Containers that see an instance as their /pmc: apart from each other, from the host, and without its rights.

# shellcheck source=tests/mount/boxes_lib.sh
. "${BASH_SOURCE[0]%/*}/boxes_lib.sh"
# shellcheck source=tests/mount/rights_lib.sh
. "${BASH_SOURCE[0]%/*}/rights_lib.sh"

# boxes_start: starts the containers one and two, each with its instance; root inside is uid 1000 outside, in both.
boxes_start() {
    local name
    for name in one two; do
        instance $name "$ALICE"
        box_start $name "$M/instances/$name" "${ROOTLESS[@]}" -- as "$ALICE"
        inside $name 'target_start p; echo $p'
        is "$STATUS" 0
    done
}

# pmc_inside BOX NAME SETTINGS…: creates a PMC in the container; $p is the PID of its target.c there.
pmc_inside() {
    inside "$1" "mkdir /pmc/$2 && echo ${*:3} >/pmc/$2/config || cat /pmc/$2/error"
    is "$STATUS $ANSWER" '0 ' "$1: $2 with ${*:3}"
}

# all_inside BOX: reads every file of its /pmc into ANSWER.
all_inside() {
    inside "$1" 'find /pmc -type d; find /pmc -path "*/samples*" -prune -o -type f -print | while read -r file; do
        timeout 5 cat "$file" 2>/dev/null; done'
}

t_an_instance_looks_like_the_tree() {
    need_boxes
    mount_pmcfs
    boxes_start
    prints_inside one 'README counts events info metrics.prom' 'ls /pmc | xargs'
    for name in admin instances; do
        inside one "test -e /pmc/$name"
        is "$STATUS" 1 "$name inside"
    done
    inside one 'cat /pmc/info/version /pmc/README; ls /pmc/events/software'
    is "$STATUS" 0
    like "$ANSWER" $'\n''page-faults'
}

t_each_counts_its_own_processes_under_the_same_names() {
    need_boxes
    mount_pmcfs
    boxes_start
    for name in one two; do
        pmc_inside $name i 'event=page-faults target=$p'
    done
    inside one 'tell p faults 1000; cat /pmc/i/count'
    between "$ANSWER" 1000 2000 'one'
    inside two 'tell p faults 10; cat /pmc/i/count'
    between "$ANSWER" 10 900 'two'
    inside one 'cat /pmc/counts; cat /pmc/metrics.prom'
    is "$(grep -c $'^i\t' <<<"$ANSWER")" 1
    is "$(grep -c '^pmcfs_count_total{pmc="i",' <<<"$ANSWER")" 1
    is "$(grep -c '^pmcfs_count_total{' <<<"$ANSWER")" 1
    for name in one two; do
        is "$(grep -c "^pmcfs_count_total{pmc=\"i\",.*subtree=\"$name\"}" "$M/metrics.prom")" 1 "$name at the host"
        is "$(cut -f 1 "$M/counts" | grep -cx "instances/$name/i")" 1 "$name at the host"
    done
}

#@ slow
t_nothing_of_the_host_or_the_other_container_is_in_any_file() {
    need_boxes
    mount_sim
    boxes_start
    as "$ALICE" mkdir "$M/tellinghost"
    result_as "$ALICE" write "$M/tellinghost/config" 'event=CYCLES row=0' >"$T/printed"
    pmc_inside one tellingname 'event=CYCLES target=$p'
    inside one 'echo tellingerror >/pmc/tellingname/config; echo tellingtext >/pmc/tellingname/samples
        cat /pmc/info/last_error'
    like "$ANSWER" tellingerror
    all_inside two
    for word in telling CYCLES; do
        ! grep -F "$word" <<<"$ANSWER" || die "the other container reads $word"
    done
    prints_inside two ok 'cat /pmc/info/last_error'
    ! grep -E 'instance=|subtree="one"' <<<"$ANSWER" || die 'the name of another instance'
    all_inside one
    ! grep -F tellinghost <<<"$ANSWER" || die 'the container reads the name of a PMC of the host'
    grep -qF tellingname <<<"$ANSWER"
    unlike "$(cat "$M/info/last_error"; as "$ALICE" cat "$M/info/last_error")" telling
}

t_a_container_cannot_attach_to_processes_outside_of_it() {
    need_boxes
    mount_pmcfs
    target_start host "$ALICE"
    boxes_start
    pmc_inside one a event=page-faults
    # The container has used fewer PIDs than the host.
    local number
    number=$(cat /proc/sys/kernel/ns_last_pid)
    for word in "$number" "tid:$number" "$((number - 1))"; do
        prints_inside one ESRCH "result write /pmc/a/target $word"
    done
    # A PID of the other container does not exist in this one.
    inside two 'target_start q; echo $q'
    prints_inside one ESRCH "result write /pmc/a/target $ANSWER"
    prints_inside one '' 'cat /pmc/a/target'
}

t_a_container_does_not_reach_others_pmcs_by_any_path() {
    need_boxes
    mount_pmcfs
    boxes_start
    pmc roots event=page-faults
    pmc_inside one a event=page-faults
    for path in /pmc/../roots /pmc/../instances/two /pmc/a/../../two /pmc/a/../../instances/two \
        /pmc/instances/two /pmc/roots; do
        inside two "ls $path"
        ((STATUS)) || die "two reads $path: $ANSWER"
    done
    for path in /pmc/a /pmc/a/count; do
        fails_inside two ENOENT "cat $path"
    done
    # The host's user who owns both cannot move a PMC from one to the other either.
    like "$(result_as "$ALICE" rename "$M/instances/one/a" "$M/instances/two/a")" '^E(XDEV|PERM)$'
    like "$(result_as "$ALICE" rename "$M/instances/one/a" "$M/a")" '^E(XDEV|PERM)$'
    like "$(result rename "$M/roots" "$M/instances/one/roots")" '^E(XDEV|PERM)$'
    for command in "mkdir $M/instances/three" "rmdir $M/instances/one" "mv $M/instances/one $M/instances/three"; do
        # shellcheck disable=SC2086 # word splitting is intended
        ! as "$ALICE" $command 2>"$T/printed" || die "done: $command"
        grep -qE 'Permission denied|not permitted' "$T/printed"
    done
    like "$(result_as "$ALICE" write "$M/admin/instances/one/max_pmcs" 5)" '^E(ACCES|PERM)$'
}

t_the_hosts_cgroups_are_not_a_containers() {
    need_boxes
    with_cgroup2
    mount_pmcfs
    instance one
    instance two
    box_start one "$M/instances/one" "${ROOTFUL[@]}"
    box_start two "$M/instances/two" "${PRIVILEGED[@]}"
    for name in one two; do
        inside $name 'mkdir /pmc/a; echo event=context-switches mode=SC >/pmc/a/config'
        prints_inside $name EPERM 'result write /pmc/a/target cgroup:/'
        prints_inside $name '' 'cat /pmc/a/target'
    done
    limit one system_scope 1
    prints_inside one ok 'result write /pmc/a/target cgroup:/'
}

t_a_container_counts_the_cgroup_it_was_given() {
    need_boxes
    cgroup_make
    mount_pmcfs
    instance one "$ALICE"
    mkdir "$GROUP/below"
    chown -R "$ALICE" "$GROUP"
    limit one system_scope 1
    box_start one "$M/instances/one" "${ROOTLESS[@]}" -- sh -c \
        'echo $$ >"$0/cgroup.procs"; n=$1; shift
        exec unshare --cgroup setpriv --reuid "$n" --regid "$n" --clear-groups -- "$@"' \
        "$GROUP" "$ALICE"
    inside one 'target_start p; mkdir /pmc/a; echo page-faults >/pmc/a/event'
    prints_inside one ok 'result write /pmc/a/target cgroup:/'
    prints_inside one cgroup:/ 'cat /pmc/a/target'
    inside one 'tell p faults 1000; cat /pmc/a/count'
    between "$ANSWER" 1000 100000
    for word in cgroup:/.. "cgroup:$GROUP_NAME" cgroup:/../below; do
        inside one "result write /pmc/a/target $word"
        like "$ANSWER" '^(ENOENT|EINVAL)$' "$word"
    done
}

t_a_container_waits_for_its_cgroup_with_its_own_rights() {
    need_boxes
    cgroup_make
    mount_pmcfs
    instance one "$ALICE"
    mkdir "$GROUP/below"
    chown -R "$ALICE" "$GROUP"
    limit one system_scope 1
    box_start one "$M/instances/one" "${ROOTLESS[@]}" -- sh -c \
        'echo $$ >"$0/cgroup.procs"; n=$1; shift
        exec unshare --cgroup setpriv --reuid "$n" --regid "$n" --clear-groups -- "$@"' \
        "$GROUP" "$ALICE"
    inside one 'mkdir /pmc/a; echo "event=page-faults reattach=on" >/pmc/a/config'
    prints_inside one ok 'result write /pmc/a/target cgroup:/below/x'
    prints_inside one 'cgroup:/below/x waiting' 'cat /pmc/a/target'
    pmc mine event=page-faults reattach=on "target=cgroup:$GROUP_NAME/below/x"
    mkdir "$GROUP/below/x"
    eventually 5 '[[ $(cat "$M/instances/one/a/ctl") == running ]]'
    rmdir "$GROUP/below/x"
    eventually 5 '[[ $(cat "$M/instances/one/a/ctl") == waiting ]]'
    limit one system_scope 0
    eventually 5 '[[ $(state mine) == waiting ]]'
    mkdir "$GROUP/below/x"
    eventually 5 '[[ $(state mine) == running ]]'
    prints_inside one waiting 'cat /pmc/a/ctl'
    rmdir "$GROUP/below/x"
    limit one system_scope 1
    mkdir "$GROUP/below/x"
    eventually 5 '[[ $(cat "$M/instances/one/a/ctl") == running ]]'
}

t_no_file_handle_leads_out_of_an_instance() {
    local major minor
    IFS=.- read -r major minor _ < <(uname -r)
    ((major * 1000 + minor >= 6009)) || skip 'before Linux 6.9 FUSE cannot refuse file handles'
    mount_sim
    instance one
    mkdir "$T/box"
    mount --bind "$M/instances/one" "$T/box"
    # The root of every FUSE mount is inode 1, generation 0.
    is "$(python "$T/box" <<'P'
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.open_by_handle_at(os.open(sys.argv[2], os.O_RDONLY), struct.pack("=IiIII", 12, 0x81, 0, 1, 0), os.O_RDONLY)
print(os.listdir(fd) if fd >= 0 else os.strerror(ctypes.get_errno()))
P
    )" 'Stale file handle'
    umount "$T/box"
}
