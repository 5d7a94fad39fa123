# shellcheck shell=bash disable=SC2016
# reattach=on: cgroup targets that are removed and created again, as those of services are.

# shellcheck source=tests/mount/rights_lib.sh
. "${BASH_SOURCE[0]%/*}/rights_lib.sh"

t_a_service_that_restarts_keeps_its_count() {
    cgroup_make
    rmdir "$GROUP"
    mount_pmcfs
    target_start p
    local before faults=0
    mkdir "$M/a"
    refused ENOENT P33 "$M/a/config" "event=page-faults target=cgroup:$GROUP_NAME"
    like "$(cat "$M/a/error")" 'reattach=on waits for it$'
    accepted "$M/a/config" "event=page-faults reattach=on target=cgroup:$GROUP_NAME target=cgroup:$GROUP_NAME"
    is "$(state a)" waiting
    is "$(count a)" 0
    for _ in 1 2 3; do
        is "$(cat "$M/a/target")" "cgroup:$GROUP_NAME waiting"
        mkdir "$GROUP"
        eventually 5 '[[ $(state a) == running ]]'
        is "$(cat "$M/a/target")" "cgroup:$GROUP_NAME"
        leaves_cpu p
        before=$(faults_of "${PID_OF[p]}")
        echo "${PID_OF[p]}" >"$GROUP/cgroup.procs"
        tell p faults 1000
        leaves_cpu p
        echo "${PID_OF[p]}" >"$CGROUP_ROOT/cgroup.procs"
        faults=$((faults + $(faults_of "${PID_OF[p]}") - before))
        rmdir "$GROUP"
        eventually 5 '[[ $(state a) == waiting ]]'
    done
    is "$(count a)" "$faults"
    between "$(status a gap_ns)" 1 999999999999
    is "$(status a partial)" no
    is "$(grep -c ' attach ' "$M/a/samples")" 3
    is "$(grep -c ' detach .*reason=removed' "$M/a/samples")" 3
    mkdir "$GROUP"
}

t_a_cgroup_is_waited_for_with_its_missing_ancestors() {
    cgroup_make
    mount_pmcfs
    pmc a event=page-faults reattach=on "target=cgroup:$GROUP_NAME/x/y/z"
    target_start p
    for _ in 1 2; do
        is "$(state a)" waiting
        mkdir -p "$GROUP/x/y/z"
        eventually 5 '[[ $(state a) == running ]]'
        local before
        before=$(count a)
        echo "${PID_OF[p]}" >"$GROUP/x/y/z/cgroup.procs"
        tell p faults 500
        between "$(($(count a) - before))" 500 700
        echo "${PID_OF[p]}" >"$CGROUP_ROOT/cgroup.procs"
        rmdir "$GROUP/x/y/z" "$GROUP/x/y" "$GROUP/x"
        eventually 5 '[[ $(state a) == waiting ]]'
    done
}

t_without_reattach_a_removed_cgroup_is_detached() {
    cgroup_make
    mount_pmcfs
    pmc a event=page-faults "target=cgroup:$GROUP_NAME"
    refused ENOENT P33 "$M/a/target" "cgroup:$GROUP_NAME/no"
    rmdir "$GROUP"
    is "$(state a)" exited
    empty cat "$M/a/target"
    mkdir "$GROUP"
    is "$(state a)" exited
}

t_reattach_is_turned_on_and_off_with_targets() {
    cgroup_make
    mount_pmcfs
    pmc a event=page-faults "target=cgroup:$GROUP_NAME"
    accepted "$M/a/ctl" stop
    accepted "$M/a/config" reattach=on
    accepted "$M/a/ctl" start
    rmdir "$GROUP"
    eventually 5 '[[ $(state a) == waiting ]]'
    refused EEXIST E10 "$M/a/target" "cgroup:$GROUP_NAME"
    accepted "$M/a/config" reattach=off
    is "$(state a)" exited
    empty cat "$M/a/target"
    mkdir "$GROUP"
}

t_a_waiting_target_is_detached_stopped_and_given_another_event() {
    cgroup_make
    mount_pmcfs
    pmc a event=page-faults reattach=on "target=cgroup:$GROUP_NAME/b"
    is "$(state a)" waiting
    accepted "$M/a/event" context-switches
    is "$(state a)" waiting
    is "$(cat "$M/a/target")" "cgroup:$GROUP_NAME/b waiting"
    accepted "$M/a/ctl" stop
    is "$(state a)" stopped
    mkdir "$GROUP/b"
    eventually 5 '[[ $(cat "$M/a/target") == "cgroup:$GROUP_NAME/b" ]]'
    is "$(state a)" stopped
    accepted "$M/a/ctl" start
    is "$(state a)" running
    rmdir "$GROUP/b"
    eventually 5 '[[ $(state a) == waiting ]]'
    accepted "$M/a/target" "-cgroup:$GROUP_NAME/b"
    is "$(state a)" exited
    accepted "$M/a/target" "cgroup:$GROUP_NAME/b"
    is "$(state a)" waiting
    refused EINVAL E28 "$M/a/target" "-cgroup:$GROUP_NAME"
    sed 's/^/-/' "$M/a/target" >"$T/back"
    cat "$T/back" >"$M/a/target"
    empty cat "$M/a/target"
    accepted "$M/a/target" "cgroup:$GROUP_NAME/b"
    accepted "$M/a/ctl" detach
    empty cat "$M/a/target"
    accepted "$M/a/target" "cgroup:$GROUP_NAME/b"
    rmdir "$M/a"
    mkdir "$GROUP/b"
    pmc a event=page-faults
}

t_some_targets_wait_and_others_count() {
    cgroup_make
    mount_pmcfs
    mkdir "$GROUP/one"
    pmc a event=page-faults reattach=on "target=cgroup:$GROUP_NAME/one" \
        "target=cgroup:$GROUP_NAME/two"
    is "$(state a)" running
    is "$(cat "$M/a/target")" "cgroup:$GROUP_NAME/one
cgroup:$GROUP_NAME/two waiting"
    refused EEXIST E10 "$M/a/target" "cgroup:$GROUP_NAME/two/below"
    rmdir "$GROUP/one"
    eventually 5 '[[ $(state a) == waiting ]]'
    mkdir "$GROUP/two"
    eventually 5 '[[ $(state a) == running ]]'
    is "$(sort "$M/a/target")" "cgroup:$GROUP_NAME/one waiting
cgroup:$GROUP_NAME/two"
}

t_config_is_written_back_with_a_waiting_target() {
    cgroup_make
    mount_pmcfs
    pmc a event=page-faults reattach=on "target=cgroup:$GROUP_NAME/b"
    cat "$M/a/config" >"$T/config"
    like "$(cat "$T/config")" "target=cgroup:[^ ]*/b$"
    pmc b
    cat "$T/config" >"$M/b/config"
    is "$(cat "$M/b/target")" "$(cat "$M/a/target")"
    is "$(state b)" waiting
    accepted "$M/b/config" "target=cgroup:$GROUP_NAME/b"
}

t_poll_reports_that_a_target_waits_and_returns() {
    cgroup_make
    mount_pmcfs
    mkdir "$GROUP/b"
    pmc a event=page-faults reattach=on "target=cgroup:$GROUP_NAME/b"
    poll_state() {
        python3 - "$M/a/ctl" "$@" <<'P'
import os, select, subprocess, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
os.read(fd, 100)
p = select.poll()
p.register(fd, select.POLLPRI | select.POLLERR)
subprocess.run(sys.argv[2:], check=True)
for _ in range(10):
    if not p.poll(40000):
        sys.exit("no event")
    text = os.pread(fd, 100, 0).decode().strip()
    if text in ("waiting", "running"):
        print(text)
        break
P
    }
    is "$(poll_state rmdir "$GROUP/b")" waiting
    is "$(poll_state mkdir "$GROUP/b")" running
}

t_a_waiting_target_outlives_the_worker_and_an_upgrade() {
    cgroup_make
    SUPERVISED=1 mount_pmcfs
    pmc a event=page-faults reattach=on "target=cgroup:$GROUP_NAME/b"
    kill -KILL "$(cat "/proc/$DAEMON/task/$DAEMON/children")"
    is "$(state a)" waiting
    mkdir "$GROUP/b"
    eventually 5 '[[ $(state a) == running ]]'
    "$BIN" --upgrade "$M"
    is "$(state a)" running
    rmdir "$GROUP/b"
    eventually 5 '[[ $(state a) == waiting ]]'
    "$BIN" --upgrade "$M"
    is "$(cat "$M/a/target")" "cgroup:$GROUP_NAME/b waiting"
    mkdir "$GROUP/b"
    eventually 5 '[[ $(state a) == running ]]'
}

# idle_second: in the next second the server uses at most 20 ms of CPU time.
idle_second() {
    local before after
    before=$(cat "/proc/$SERVER/task"/*/stat | awk '{ n += $14 + $15 } END { print n }')
    sleep 1
    after=$(cat "/proc/$SERVER/task"/*/stat | awk '{ n += $14 + $15 } END { print n }')
    ((after - before <= 2))
}

# On a busy host the work of the attach may take longer.
#@ plain
t_waiting_for_a_cgroup_takes_no_time() {
    cgroup_make
    mount_pmcfs
    pmc a event=page-faults reattach=on "target=cgroup:$GROUP_NAME/b"
    is "$(state a)" waiting
    eventually 5 'idle_second && idle_second'
}

t_a_path_too_deep_to_watch_is_refused() {
    cgroup_make
    mount_pmcfs
    local deep=$GROUP_NAME
    for i in {1..32}; do
        deep+=/$i
        mkdir "$CGROUP_ROOT$deep" || skip "no cgroups so deep"
    done
    pmc a event=page-faults reattach=on
    refused EIO P14 "$M/a/target" "cgroup:$deep"
    like "$(cat "$M/a/error")" 'up to 32 parts'
    accepted "$M/a/target" "cgroup:${deep%/*}"
}

t_waiting_targets_count_as_descriptors_of_their_user() {
    cgroup_make
    mount_pmcfs -o unprivileged_syspmcs=1,max_fds_per_user=3
    as "$ALICE" mkdir "$M/a"
    is "$(result_as "$ALICE" write "$M/a/config" "event=page-faults reattach=on")" ok
    for i in 1 2 3; do
        is "$(result_as "$ALICE" write "$M/a/target" "cgroup:$GROUP_NAME/$i")" ok
    done
    is "$(status a descriptors)" 3
    is "$(result_as "$ALICE" write "$M/a/target" "cgroup:$GROUP_NAME/4")" EDQUOT
    like "$(cat "$M/a/error")" '^EDQUOT P11 target: .*max_fds_per_user'
    is "$(result_as "$ALICE" write "$M/a/target" "-cgroup:$GROUP_NAME/1")" ok
    is "$(result_as "$ALICE" write "$M/a/target" "cgroup:$GROUP_NAME/4")" ok
}

t_the_reason_why_a_cgroup_is_not_attached_is_shown() {
    cgroup_make
    mount_pmcfs -o unprivileged_syspmcs=1
    as "$ALICE" mkdir "$M/a"
    is "$(result_as "$ALICE" write "$M/a/config" "event=page-faults reattach=on target=cgroup:$GROUP_NAME/b")" ok
    is "$(status a attach_error)" -
    echo 0 >"$M/admin/tunables/unprivileged_syspmcs"
    mkdir "$GROUP/b"
    eventually 5 '[[ $(status a attach_error) != - ]]'
    like "$(status a attach_error)" '^EPERM X07: counting CPUs or cgroups '
    is "$(state a)" waiting
    is "$(cat "$M/a/error")" ok
    echo 1 >"$M/admin/tunables/unprivileged_syspmcs"
    rmdir "$GROUP/b"
    mkdir "$GROUP/b"
    eventually 5 '[[ $(state a) == running ]]'
    is "$(status a attach_error)" -
}

t_a_cgroup_is_attached_when_there_are_descriptors_again() {
    cgroup_make
    RUN_DAEMON+=(prlimit --nofile=200:200 setpriv --bounding-set=-sys_resource --)
    mount_pmcfs
    pmc a event=page-faults,minor-faults,major-faults,context-switches,cpu-migrations,task-clock \
        reattach=on "target=cgroup:$GROUP_NAME/b"
    target_start p
    for i in {1..200}; do
        pmc "h$i" event=page-faults
        [[ $(result write "$M/h$i/target" "${PID_OF[p]}") == ok ]] || break
    done
    like "$(cat "$M/h$i/error")" '^EMFILE P10 '
    mkdir "$GROUP/b"
    eventually 10 '[[ $(status a attach_error) == EMFILE* ]]'
    is "$(state a)" waiting
    rmdir "$M"/h*
    rmdir "$GROUP/b"
    mkdir "$GROUP/b"
    eventually 10 '[[ $(state a) == running ]]'
    is "$(status a attach_error)" -
}
