# shellcheck shell=bash disable=SC2016
# The life of a PMC: operations (OP), flags (F), start rules (ST), values (V), qualifiers (Q), tunables (T),
# signals (SG), and actions of targets and owners.
# shellcheck source=tests/mount/reference_lib.sh
. "${BASH_SOURCE[0]%/*}/reference_lib.sh"

t_op10_op16_one_command_allocates_configures_attaches_and_starts() {
    mount_sim
    target_start p
    mkdir "$M/a"
    accepted "$M/a/config" "event=cycles count=9 row=2 target=${PID_OF[p]}"
    is "$(state a) $(status a row) $(cat "$M/a/target")" "running 2 ${PID_OF[p]}"
    between "$(count a)" 10 1000000000000
}

t_h07_op11_op12_op17_detached_and_stopped_while_running() {
    mount_sim
    target_start p
    target_start q
    pmc a event=cycles "target=${PID_OF[p]}" "target=${PID_OF[q]}"
    attach a "-${PID_OF[p]}"
    is "$(state a) $(cat "$M/a/target")" "running ${PID_OF[q]}"
    ctl a stop
    local before
    before=$(count a)
    sleep 0.02
    is "$(count a)" "$before"
    attach a "-${PID_OF[q]}"
    is "$(count a)" "$before"
}

t_op14_v07_an_exchange_is_refused_completely_while_running() {
    mount_sim
    pmc a event=cycles target=cpu0 count=5
    exec {fd}<>"$M/a/count"
    is "$(result fd "$fd" 7)" EBUSY
    local value
    value=$(cat <&"$fd")
    ((value > 7)) || die "read $value after the refused half"
    is "$(setting a count)" 5
    ctl a stop
    value=$(count a)
    exec {fd}<>"$M/a/count"
    is "$(result fd "$fd" 7)" ok
    is "$(cat <&"$fd")" "$value"
    is "$(count a)" 7
}

t_op15_v05_cf21_count_and_config_both_set_the_initial_count() {
    mount_sim
    target_start p
    pmc a event=cycles autostart=off "target=${PID_OF[p]}"
    accepted "$M/a/config" count=100
    is "$(count a)" 100
    accepted "$M/a/count" 200
    is "$(count a) $(setting a count)" '200 200'
    ctl a start
    ((200 < $(count a))) || die 'does not continue from the initial count'
    ctl a stop
    ctl a reset
    is "$(count a)" 200
}

# The kernel fills a buffer of 256 fresh pages for dd, which touches none of them itself.
t_q01_q02_pm05_faults_in_the_program_and_in_the_kernel_are_distinguished() {
    mount_pmcfs
    local mode size
    local -A faults
    target_start p
    for mode in usr os; do
        pmc $mode "event=page-faults,$mode" "target=${PID_OF[p]}"
    done
    tell p faults 500
    between "$(count usr)" 500 520 'in user mode'
    between "$(count os)" 0 5 'in the kernel'
    for mode in usr os; do
        for size in 4k 1024k; do
            pmc $mode$size "event=page-faults,$mode" start=exec
            sh -c 'echo self >"$1/target" && exec dd if=/dev/zero of=/dev/null bs="$2" count=1' sh \
                "$M/$mode$size" $size 2>/dev/null
            faults[$mode$size]=$(count $mode$size)
        done
    done
    between $((faults[os1024k] - faults[os4k])) 240 270 'in the kernel for dd'
    between $((faults[usr1024k] - faults[usr4k] + 20)) 0 40 'in dd itself'
}

t_op18_e33_no_register_number_is_handed_out() {
    mount_sim
    pmc a event=cycles
    is "$(result open "$M/a/rdpmc" r)" ENOENT
}

t_f01_descendants_present_and_later_and_after_their_parent() {
    mount_pmcfs
    target_start p
    tell p stay 1000
    pmc a event=page-faults descendants=on "target=${PID_OF[p]}"
    tell p bear
    tell p child 1000
    local before
    before=$(count a)
    between "$before" 2000 4000
    pmc b event=page-faults "target=${PID_OF[p]}"
    tell p child 1000
    between "$(count b)" 0 900 'without the flag'
    between "$(($(count a) - before))" 1000 2000
}

t_f06_f07_kgmon_and_force_are_not_supported() {
    mount_sim
    pmc a event=cycles
    steady EOPNOTSUPP P09 "$M/a/config" kgmon=on
    steady EOPNOTSUPP P09 "$M/a/config" force=on
    accepted "$M/a/config" kgmon=off
}

t_st2_a_pmc_without_a_target_is_attached_to_the_process_that_starts_it() {
    mount_sim
    pmc a event=cycles
    # shellcheck disable=SC2016 # its own number
    bash -c 'echo start >"$1/a/ctl"; echo $$; cat "$1/a/target" "$1/a/ctl"' - "$M" >"$T/out"
    is "$(sed -n 2,3p "$T/out" | xargs)" "$(sed -n 1p "$T/out") running"
    eventually 5 '[[ $(state a) == exited ]]'
    ((0 < $(count a))) || die 'nothing was counted'
}

t_st3_e43_a_start_does_not_attach_a_lost_target_again() {
    mount_sim
    target_start p
    pmc a event=cycles descendants=on "target=${PID_OF[p]}"
    attach a "-${PID_OF[p]}"
    ctl a stop
    steady ESRCH E43 "$M/a/ctl" start
    steady ESRCH E43 "$M/a/ctl" restart
    target_start q
    pmc b event=cycles "target=${PID_OF[q]}"
    target_end q
    eventually 5 '[[ $(state b) == exited ]]'
    steady ESRCH E43 "$M/b/ctl" start
    empty cat "$M/a/target" "$M/b/target"
}

t_st4_a_started_pmc_counts_at_once_in_every_thread() {
    mount_pmcfs
    target_start p
    tell p threads 4
    pmc a event=page-faults autostart=off "target=${PID_OF[p]}"
    tell p each 100
    is "$(count a)" 0
    ctl a start
    tell p each 100
    between "$(count a)" 400 600
}

t_st6_v08_a_system_pmc_keeps_its_count_and_continues() {
    mount_sim 'sim_cpus=0-1\,3'
    pmc a event=cycles target=cpu3
    local before
    # The reader runs on another CPU than the counted one.
    before=$(taskset -c 0 cat "$M/a/count")
    ((before > 0)) || die 'nothing was counted'
    sleep 0.3 # more than comes between a start and the next read
    ctl a stop
    before=$(count a)
    sleep 0.02
    is "$(count a)" "$before" 'stopped'
    ctl a start
    ((before <= $(count a))) || die 'started again from below'
}

t_x03_starting_a_running_and_stopping_a_stopped_pmc_changes_nothing() {
    mount_sim
    pmc a event=cycles target=cpu0
    local enabled
    sleep 0.3 # more than comes between a start and the next read
    enabled=$(status a enabled_ns)
    ctl a start
    ((enabled <= $(status a enabled_ns))) || die 'started afresh'
    is "$(state a)" running
    ctl a stop
    local before
    before=$(world)
    ctl a stop
    is "$(world)" "$before"
}

t_x01_a_running_pmc_can_be_attached_to_another_target() {
    mount_sim
    target_start p
    target_start q
    pmc a event=cycles "target=${PID_OF[p]}"
    attach a "${PID_OF[q]}"
    is "$(state a) $(status a targets)" 'running 2'
}

t_v01_v02_one_sum_and_a_part_for_each_target() {
    mount_pmcfs
    target_start p
    target_start q
    pmc a event=page-faults "target=${PID_OF[p]}" "target=${PID_OF[q]}"
    tell p faults 100
    tell q faults 300
    ctl a stop
    part() { awk -F'\t' -v t="$1" '$2 == t { print $3 }' "$M/a/detail"; }
    between "$(part "pid:${PID_OF[p]}")" 100 250
    between "$(part "pid:${PID_OF[q]}")" 300 450
    is "$(part all) $(($(part "pid:${PID_OF[p]}") + $(part "pid:${PID_OF[q]}")))" "$(count a) $(count a)"
}

t_v03_the_count_of_a_busy_target_is_live() {
    mount_pmcfs
    target_start p
    pmc a event=task-clock "target=${PID_OF[p]}"
    echo 'spin 5000' >&"${IN[p]}"
    local before
    before=$(count a)
    for _ in 1 2 3; do
        eventually 5 "((\$(count a) > $before + 1000000))"
        before=$(count a)
    done
}

t_q01_q02_usr_and_os() {
    mount_sim
    pmc a
    local pair
    for pair in cycles,usr=:u cycles,os=:k cycles,usr,os= cycles,OS=:k cycles=; do
        accepted "$M/a/event" "${pair%=*}"
        is "$(cat "$M/a/event") $(status a event)" "${pair%=*} sim::cycles${pair##*=}"
    done
}

t_q03_to_q06_pm06_to_pm08_cs03_cs04_edge_inv_and_cmask() {
    mount_sim
    pmc a
    local text
    for text in cycles,edge cycles,cmask=2 cycles,cmask=2,inv cycles,usr,cmask=0x3,inv,edge cycles,edge,os; do
        accepted "$M/a/event" "$text"
        is "$(cat "$M/a/event")" "$text"
    done
    like "$(accepted "$M/a/event" cycles,cmask=0x3,inv,edge,usr; status a event)" 'cycles.*:u.*cmask=3.*inv.*edge|cycles.*cmask=3.*inv.*edge.*:u'
    accepted "$M/a/event" cycles,count=2 # as on AMD
    is "$(cat "$M/a/event")" cycles,count=2
    like "$(status a event)" 'cmask=2'
    steady EINVAL CS04 "$M/a/event" cycles,count=256
    steady EINVAL CS04 "$M/a/event" cycles,cmask=256
    steady EINVAL CS04 "$M/a/event" cycles,cmask=
    steady EINVAL CS04 "$M/a/event" cycles,cmask=many
    steady EINVAL CS04 "$M/a/event" cycles,inv=2
    for text in cycles,cmsk=2 cycles,invert=2 cycles,pc=1 cycles:z 'loads cycles,colour=2'; do
        steady EINVAL CS03 "$M/a/event" "$text"
    done
    accepted "$M/a/event" r01c2,cmask=3,inv,edge
    like "$(status a event)" 'cmask=3.*inv.*edge'
    steady EINVAL CS04 "$M/a/event" r01c2,cmask=256
}

t_sg2_the_loss_of_the_last_target_is_reported_whatever_the_reason() {
    mount_pmcfs
    set_id suid-target "$HELPERS/target"
    local way poller
    for way in detach privileged exit; do
        target_start "$way" "$ALICE"
        as "$ALICE" mkdir "$M/$way"
        is "$(result_as "$ALICE" write "$M/$way/config" "event=page-faults target=${PID_OF[$way]}")" ok
        timeout 40 /usr/bin/python3 -B - "$M/$way/target" "$T/$way" <<'P' &
import os, select, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
assert os.pread(fd, 100, 0)
p = select.poll()
p.register(fd, select.POLLPRI)
open(sys.argv[2], "w").close()
assert p.poll(30000), "no event"
assert os.pread(fd, 100, 0) == b"", "woken too early"
P
        poller=$!
        eventually 5 '[[ -e $T/$way ]]'
        case $way in
        detach) attach $way "-${PID_OF[$way]}" ;;
        privileged) tell $way run "$T/suid-target" ;;
        exit) target_end $way ;;
        esac
        end_within 8 $poller || die "no event for $way"
    done
}

t_t01_t04_t06_tunables_are_set_by_option_and_by_file() {
    printf '%s\n' 'callchaindepth = 31' 'mincount = none' 'logbuffersize = 32' >"$T/conf"
    mount_pmcfs -c "$T/conf" -o logbuffersize=64,nbuffers=0
    local pair name
    for pair in callchaindepth=31 mincount=1000 logbuffersize=64 nbuffers=32; do
        is "$(head -1 "$M/admin/tunables/${pair%=*}")" "${pair#*=}" "$pair"
    done
    # An invalid value is reported and the default is used.
    grep -q 'mincount' "$T/daemon" || die 'no message about mincount'
    grep -q 'nbuffers' "$T/daemon" || die 'no message about nbuffers'
    for name in callchaindepth logbuffersize nbuffers; do
        is "$(result write "$M/admin/tunables/$name" 32)" EPERM "$name"
        like "$(cat "$M/info/last_error")" "${FAILED}EPERM P32 admin/tunables/$name: "
    done
    accepted "$M/admin/tunables/mincount" 5
}

t_t06_buffers_too_large_together_get_their_defaults() {
    mount_pmcfs -o logbuffersize=16384,nbuffers=1000000
    is "$(head -1 "$M/admin/tunables/logbuffersize") $(head -1 "$M/admin/tunables/nbuffers")" '256 32'
    grep -q 'logbuffersize.*nbuffers\|nbuffers.*logbuffersize' "$T/daemon"
}

t_t08_t11_t12_sighup_takes_tunables_from_the_file() {
    printf '%s\n' 'mincount = 5' 'unprivileged_syspmcs = 1' 'unprivileged_proc_debug = 0' 'nbuffers = 7' >"$T/conf"
    : >"$T/empty"
    cp "$T/empty" "$T/used"
    mount_pmcfs -c "$T/used"
    cp "$T/conf" "$T/used"
    kill -HUP "$DAEMON"
    eventually 5 '[[ $(<"$M/admin/tunables/mincount") == 5 ]]'
    is "$(cat "$M/admin/tunables/unprivileged_syspmcs" "$M/admin/tunables/unprivileged_proc_debug" | xargs)" '1 0'
    is "$(head -1 "$M/admin/tunables/nbuffers")" 32 'fixed at start'
}

# ---- FreeBSD's own acceptance cases that no id names ----

t_a_storm_of_children_leaves_no_descriptor_or_memory() {
    mount_pmcfs
    target_start p
    local before
    before=$(find "/proc/$DAEMON/fd" | wc -l)
    pmc a event=page-faults descendants=on "target=${PID_OF[p]}"
    tell p children 32 10
    between "$(count a)" 320 20000
    rmdir "$M/a"
    is "$(stat_value processes) $(stat_value descriptors)" '0 0'
    between "$(find "/proc/$DAEMON/fd" | wc -l)" 1 $((before + 2))
}
