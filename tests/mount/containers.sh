# shellcheck shell=bash disable=SC2016,SC2034,SC2154
# The root tree in a container: PIDs, user namespace, rights.

# shellcheck source=tests/mount/boxes_lib.sh
. "${BASH_SOURCE[0]%/*}/boxes_lib.sh"

t_pids_in_target_and_detail_are_those_of_the_container() {
    need_boxes
    mount_pmcfs
    box_start one "$M" "${ROOTLESS[@]}" -- as "$ALICE"
    inside one 'target_start p; mkdir /pmc/a; echo page-faults >/pmc/a/event; echo $p >/pmc/a/target; cat /pmc/a/error'
    is "$STATUS $ANSWER" '0 ok'
    inside one 'tell p faults 100; echo $p; cat /pmc/a/target /pmc/a/count; grep -o "pid:[0-9]*" /pmc/a/detail'
    mapfile -t lines <<<"$ANSWER"
    is "${lines[1]}" "${lines[0]}" 'target as read inside'
    between "${lines[2]}" 100 1000
    is "${lines[3]}" "pid:${lines[0]}"
    # The same process has another number outside.
    local outside
    outside=$(cat "$M/a/target")
    [[ $outside != "${lines[0]}" ]] || die 'the numbers are the same'
    is "$(awk '/^NSpid:/ { print $NF }' "/proc/$outside/status")" "${lines[0]}"
}

t_self_is_the_writer_in_the_container() {
    need_boxes
    mount_pmcfs
    box_start one "$M" "${ROOTLESS[@]}" -- as "$ALICE"
    inside one 'mkdir /pmc/a; echo page-faults >/pmc/a/event; echo self >/pmc/a/target; cat /pmc/a/target; echo $$'
    is "${ANSWER%%$'\n'*}" "${ANSWER##*$'\n'}"
    inside one 'mkdir /pmc/c && echo event=page-faults start=exec descendants=on >/pmc/c/config
        sh -c "echo self >/pmc/c/target && exec sh -c \"/bin/true; /bin/true; :\""; cat /pmc/c/count'
    between "$ANSWER" 100 100000
}

t_pids_of_the_host_are_esrch_in_a_container() {
    need_boxes
    mount_pmcfs
    target_start p "$ALICE"
    for _ in {1..20}; do true & done
    target_start q "$ALICE"
    box_start one "$M" "${ROOTLESS[@]}" -- as "$ALICE"
    inside one 'mkdir /pmc/a; echo page-faults >/pmc/a/event'
    [[ ${PID_OF[q]} -gt 15 ]]
    for word in "${PID_OF[q]}" "tid:${PID_OF[q]}" "$DAEMON$DAEMON"; do
        prints_inside one ESRCH "result write /pmc/a/target $word"
        inside one 'cat /pmc/a/error'
        like "$ANSWER" '^ESRCH E44 target: '
    done
    empty cat "$M/a/target"
}

t_samples_have_pids_of_the_openers_namespace() {
    need_boxes
    mount_pmcfs
    box_start one "$M" "${ROOTLESS[@]}" -- as "$ALICE"
    inside one 'target_start p; mkdir /pmc/a; echo event=page-faults period=1 log-exit=on descendants=on >/pmc/a/config
        echo $p >/pmc/a/target; tell p faults 100; tell p child 50; echo stop >/pmc/a/ctl; echo $p'
    local pid=$ANSWER numbers
    [[ $pid -lt 20 ]]
    inside one "grep -c ' sample pid=$pid tid=$pid ' /pmc/a/samples"
    between "$ANSWER" 100 1000
    inside one 'cat /pmc/a/samples'
    numbers=$(grep -oE ' (pid|tid|child)=[0-9]+' <<<"$ANSWER" | sed 's/.*=//' | sort -un | xargs)
    inside one 'echo $BASHPID; sh -c "echo \$\$"'
    local highest=${ANSWER##*$'\n'}
    for number in $numbers; do
        ((number <= highest)) || die "$number is not of the container, which has come to $highest"
    done
    # The host reads the same numbers: the log has PIDs of the namespace of the process that attached.
    between "$(grep -c " sample pid=$pid " "$M/a/samples")" 100 1000
    ! grep -q "pid=$(cat "$M/a/target") " "$M/a/samples" || die "the host's number is in the log"
}

t_root_of_a_rootless_container_is_its_user() {
    need_boxes
    mount_sim
    target_start mine "$ALICE"
    pmc roots event=cycles
    box_start one "$M" "${ROOTLESS[@]}" -- as "$ALICE"
    prints_inside one 0 'id -u'
    inside one 'mkdir /pmc/a; echo cycles >/pmc/a/event; stat -c %u /pmc/a'
    is "$ANSWER" 0
    is "$(stat -c %u "$M/a")" "$ALICE"
    prints_inside one EPERM 'result write /pmc/a/target cpu0'
    prints_inside one EPERM 'result write /pmc/a/event cycles:k'
    prints_inside one EACCES 'result write /pmc/admin/tunables/mincount 1'
    prints_inside one EACCES 'result write /pmc/admin/cpu0/1 disabled'
    fails_inside one EACCES 'cat /pmc/roots/count'
    fails_inside one EPERM 'rmdir /pmc/roots'
    prints_inside one '' 'grep roots /pmc/counts /pmc/metrics.prom'
}

t_uid_0_of_a_container_observes_its_processes_and_is_not_the_superuser() {
    need_boxes
    mount_sim
    box_start one "$M" "${ROOTFUL[@]}"
    inside one 'target_start p; setpriv --reuid 1000 --regid 1000 --clear-groups sleep 100 & alices=$!
        until [ "$(cat /proc/$alices/comm)" = sleep ]; do :; done
        mkdir /pmc/a; echo page-faults >/pmc/a/event'
    prints_inside one ok 'result write /pmc/a/target $p'
    inside one 'tell p faults 100; cat /pmc/a/count'
    between "$ANSWER" 1 100000
    # The kernel's check refuses it: without CAP_SYS_PTRACE uid 0 may not observe processes of other users.
    prints_inside one EPERM 'result write /pmc/a/target $alices'
    inside one 'echo detach >/pmc/a/ctl'
    prints_inside one EPERM 'result write /pmc/a/target cpu0'
    prints_inside one EPERM 'result write /pmc/a/event cycles:k'
    prints_inside one EPERM 'result write /pmc/admin/tunables/mincount 1'
    prints_inside one EPERM 'result write /pmc/admin/cpu0/1 disabled'
}

# many_users 'SHELL': runs it as root of a user namespace that has the users 100000 to 165535 of the host as 0 to 65535.
many_users() {
    python "$1" <<'P'
import ctypes, os, sys
made, mapped = os.pipe(), os.pipe()
pid = os.fork()
if pid == 0:
    assert ctypes.CDLL(None).unshare(0x10000000) == 0
    os.write(made[1], b"x")
    os.read(mapped[0], 1)
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    os.execv("/bin/sh", ["sh", "-c", sys.argv[2], "sh", sys.argv[1]])
os.read(made[0], 1)
for which in "uid_map", "gid_map":
    with open("/proc/%d/%s" % (pid, which), "w") as file:
        file.write("0 100000 65536")
os.write(mapped[1], b"x")
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
P
}

# The tables list exactly the PMCs that the kernel lets it read: those of all users of the container.
t_root_of_a_container_reads_the_pmcs_of_all_its_users() {
    need_user_namespaces
    mount_pmcfs
    mkdir -m 755 "$M/instances/one"
    chown 100000:100000 "$M/instances/one"
    chmod 1777 "$M/instances/one"
    as 100033 mkdir "$M/instances/one/w" "$M/w"
    as "$ALICE" mkdir "$M/instances/one/a" "$M/a"
    for pmc in instances/one/w instances/one/a w a; do accepted "$M/$pmc/event" page-faults; done
    local readable='for n; do cat "$n/count" >/dev/null 2>&1 && echo "$n"; done'
    for dir in "$M" "$M/instances/one"; do
        is "$(many_users "cd '$dir'; set -- a w; $readable")" w
        is "$(many_users "cut -f 1 '$dir/counts'" | grep -v /)" w
        is "$(many_users "grep -c '^pmcfs_count_total{.*scope=.process.[,}]' '$dir/metrics.prom'")" \
            "$(many_users "cut -f 1 '$dir/counts'" | wc -l)"
    done
    is "$(many_users "cut -f 1 '$M/counts'" | xargs)" 'instances/one/w w'
    chmod 1700 "$M/instances/one"
    is "$(many_users "cut -f 1 '$M/counts'" | xargs)" 'instances/one/w w'
    chown 0:0 "$M/instances/one"
    is "$(many_users "cut -f 1 '$M/counts'" | xargs)" w
    is "$(many_users "setpriv --reuid 33 --regid 33 --clear-groups cut -f 1 '$M/counts'")" w
    empty many_users "setpriv --reuid 34 --regid 34 --clear-groups cut -f 1 '$M/counts'"
}

t_the_root_tree_in_a_privileged_container_belongs_to_the_superuser() {
    need_boxes
    mount_sim
    box_start one "$M" "${PRIVILEGED[@]}"
    inside one 'mkdir /pmc/a; echo page-faults >/pmc/a/event'
    prints_inside one ok 'result write /pmc/a/target cpu0'
    prints_inside one ok 'result write /pmc/admin/tunables/mincount 1'
}

t_an_owner_in_a_container_that_stops_releases_its_pmcs() {
    need_boxes
    mount_pmcfs
    box_start one "$M" "${ROOTLESS[@]}" -- as "$ALICE"
    inside one 'mkdir /pmc/a; sh -c "echo event=page-faults lifetime=owner >/pmc/a/config; test -d /pmc/a"'
    is "$STATUS" 0
    eventually 5 '[[ ! -e $M/a ]]'
    inside one 'mkdir /pmc/b; echo event=page-faults lifetime=owner target=self >/pmc/b/config; cat /pmc/b/ctl'
    is "$ANSWER" running
    box_end one
    eventually 5 '[[ ! -e $M/b ]]'
}

t_two_containers_of_one_user_do_not_observe_each_other() {
    need_boxes
    mount_pmcfs
    box_start one "$M" "${ROOTLESS[@]}" -- as "$ALICE"
    box_start two "$M" "${ROOTLESS[@]}" -- as "$ALICE"
    inside one 'target_start p; mkdir /pmc/a; echo page-faults >/pmc/a/event; echo $p >/pmc/a/target; echo $p'
    local pid=$ANSWER
    # In the other container the PID does not exist or is another process; the targets of the PMC are not shown.
    inside two "cat /pmc/a/target; grep -o 'pid:[0-9]*' /pmc/a/detail"
    unlike "$ANSWER" "(^|[^0-9])$pid(\$|[^0-9])" 'numbers of another namespace'
    inside two "mkdir /pmc/b; echo page-faults >/pmc/b/event; result write /pmc/b/target $pid"
    like "$ANSWER" '^(ESRCH|ok)$'
    inside one 'tell p faults 1000'
    inside two 'cat /pmc/b/count'
    between "$ANSWER" 0 900
}

#@ slow
t_a_shell_in_a_container_pastes_the_readme() {
    need_boxes
    mount_pmcfs
    box_start one "$M" "${ROOTLESS[@]}" -- as "$ALICE"
    inside one 'target_start p; PID=$p
        mkdir /pmc/i && echo page-faults > /pmc/i/event && echo $PID > /pmc/i/target
        tell p faults 10; cat /pmc/i/count && rmdir /pmc/i'
    is "$STATUS" 0
    between "$ANSWER" 10 1000
    inside one 'mkdir /pmc/p && echo event=cpu-clock freq=997 callchain=on > /pmc/p/config
        echo $p > /pmc/p/target; tell p spin 300; echo stop >/pmc/p/ctl; cat /pmc/p/samples.folded; rmdir /pmc/p'
    like "$ANSWER" '^target;.* [0-9]+'
}
