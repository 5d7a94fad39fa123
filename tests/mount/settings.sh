# shellcheck shell=bash disable=SC2016,SC2094
# Every key of config: accepted and refused values, and states in which it may change.

t_defaults_are_those_of_the_table() {
    mount_pmcfs
    pmc a event=page-faults
    local pair
    for pair in autostart=on start=now count=0 callchain=off descendants=off log-csw=off log-exit=off \
        kgmon=off multiplex=off row=any interval=off log=on notify=off user=on; do
        is "$(setting a "${pair%%=*}")" "${pair#*=}" "${pair%%=*}"
    done
    is "$(cat "$M/a/mode")" process-counting
}

t_switches_take_on_and_off_only() {
    mount_pmcfs
    pmc a event=page-faults
    for key in autostart user kernel descendants multiplex log log-csw log-exit; do
        accepted "$M/a/config" $key=on
        is "$(setting a $key)" on $key
        accepted "$M/a/config" $key=off
        is "$(setting a $key)" off $key
        refused EINVAL P02 "$M/a/config" $key=perhaps
        refused EINVAL P02 "$M/a/config" $key=
        accepted "$M/a/config" user=on
    done
}

t_modes_have_long_and_short_names() {
    mount_pmcfs
    pmc a event=page-faults
    accepted "$M/a/mode" SC
    is "$(cat "$M/a/mode")" system-counting
    accepted "$M/a/mode" process-counting
    is "$(cat "$M/a/mode")" process-counting
    accepted "$M/a/config" mode=TC
    is "$(cat "$M/a/mode")" process-counting
    refused EINVAL E20 "$M/a/mode" sampling
}

t_period_or_freq_make_it_sampling_and_both_are_refused() {
    mount_pmcfs
    for text in period=100000 freq=997 mode=TS mode=process-sampling; do
        pmc a event=cpu-clock
        accepted "$M/a/config" $text
        is "$(cat "$M/a/mode")" process-sampling $text
        rmdir "$M/a"
    done
    pmc b event=cpu-clock period=100000
    refused EINVAL P07 "$M/b/config" freq=99
    accepted "$M/b/config" period=off freq=99
    is "$(status b sampling)" 'freq 99'
    accepted "$M/b/config" freq=off
    is "$(cat "$M/b/mode")" process-counting
    is "$(status b sampling)" -
}

t_the_refusal_of_a_sampling_setting_names_a_command_that_works() {
    mount_pmcfs
    pmc a event=cpu-clock
    refused EINVAL P07 "$M/a/config" callchain=on
    like "$(<"$M/a/error")" 'set period= or freq= too$'
    accepted "$M/a/config" "callchain=on freq=99"
    pmc b event=cpu-clock mode=TC
    refused EINVAL P07 "$M/b/config" freq=99
    like "$(<"$M/b/error")" 'write mode=process-sampling$'
    accepted "$M/b/config" "freq=99 mode=process-sampling"
    accepted "$M/b/config" "freq=off mode=SC"
    refused EINVAL X04 "$M/b/config" callchain=user
    like "$(<"$M/b/error")" 'write mode=system-sampling$'
}

t_settings_in_use_that_differ_are_shown_in_status() {
    mount_pmcfs
    pmc a event=cpu-clock period=10
    is "$(status a sampling)" 'period 1000 (asked 10, mincount)'
    is "$(setting a period)" 10 # as it was written
    pmc b event=page-faults period=1
    is "$(status b sampling)" 'period 1' # mincount does not apply to page faults
    local most
    most=$(</proc/sys/kernel/perf_event_max_sample_rate)
    pmc c event=cpu-clock freq=1000000000
    is "$(status c sampling)" "freq $most (asked 1000000000, the system allows $most)"
    pmc d event=cpu-clock mode=TS
    is "$(status d sampling)" 'freq 997'
    pmc e event=page-faults mode=TS callchain=on depth=20
    is "$(status e sampling)" 'period 1, depth 20'
}

t_depth_is_taken_in_every_mode_and_holds_when_it_samples() {
    mount_pmcfs
    pmc a event=page-faults depth=5
    is "$(setting a depth)" 5
    accepted "$M/a/config" 'period=1 callchain=on'
    is "$(status a sampling)" 'period 1, depth 5'
    accepted "$M/a/config" 'period=off callchain=off'
    is "$(cat "$M/a/mode")" process-counting
    is "$(setting a depth)" 5
    pmc b depth=7
    accepted "$M/b/event" page-faults
    is "$(setting b depth)" 7
}

t_settings_are_busy_while_running() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults count=5 "target=${PID_OF[p]}"
    is "$(state a)" running
    for text in event=context-switches mode=SC descendants=on multiplex=on start=exec kernel=off; do
        refused EBUSY P06 "$M/a/config" $text
    done
    refused EBUSY E07 "$M/a/config" count=6
    refused EBUSY E06 "$M/a/count" 6
    refused EBUSY P06 "$M/a/event" context-switches
}

t_a_setting_given_its_value_is_accepted_at_any_time() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults count=5 "target=${PID_OF[p]}"
    accepted "$M/a/config" event=page-faults
    accepted "$M/a/config" count=5 descendants=off mode=process-counting "target=${PID_OF[p]}"
    accepted "$M/a/event" page-faults
    busybox cat "$M/a/config" >"$M/a/config"
    is "$(state a)" running
}

t_config_reads_live_targets_and_no_lifetime() {
    mount_pmcfs
    target_start p
    target_start q
    pmc a event=page-faults
    echo "lifetime=owner target=${PID_OF[p]} target=${PID_OF[q]}" >"$M/a/config"
    target_end q
    eventually 5 '[[ $(xargs <"$M/a/target") == "${PID_OF[p]}" ]]'
    is "$(setting a target)$(setting a lifetime)" "${PID_OF[p]}"
}

t_settings_change_while_stopped_with_targets() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    tell p faults 100
    ctl a stop
    accepted "$M/a/config" event=context-switches count=1000
    is "$(count a)" 1000 'a new event starts afresh from the initial count'
    is "$(cat "$M/a/target")" "${PID_OF[p]}"
    ctl a start
    tell p sleep 20
    between "$(count a)" 1010 3000
}

t_a_change_of_scope_with_targets_is_busy() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    ctl a stop
    refused EBUSY P17 "$M/a/config" mode=SC
    ctl a detach
    accepted "$M/a/config" mode=SC
}

t_h01_lifetime_owner_releases_when_the_writer_exits() {
    mount_pmcfs
    mkdir "$M/a"
    bash -c "echo event=page-faults lifetime=owner >$M/a/config; [ -d $M/a ] && echo >$T/there; sleep 0.3"
    [[ -e $T/there ]] || die "released before its owner ended"
    eventually 5 "[[ ! -e $M/a ]]"
}

t_kernel_mode_of_events_without_modes_needs_the_right_too() {
    mount_pmcfs
    as "$ALICE" mkdir "$M/a"
    is "$(result_as "$ALICE" write "$M/a/config" kernel=on)" EPERM
    like "$(cat "$M/a/error")" '^EPERM P18 config: '
    is "$(result_as "$ALICE" write "$M/a/config" 'event=page-faults kernel=on')" EPERM
    is "$(result_as "$ALICE" write "$M/a/event" context-switches:k)" EPERM
    is "$(result_as "$ALICE" write "$M/a/event" context-switches)" ok
    is "$(result_as "$ALICE" write "$M/a/target" self)" ok
}

t_the_refusal_of_kernel_mode_names_a_command_that_works() {
    mount_pmcfs
    as "$ALICE" mkdir "$M/a"
    is "$(result_as "$ALICE" write "$M/a/config" 'event=mem:0x1000:w:k kernel=off')" EPERM
    like "$(<"$M/a/error")" 'write it without :k or os$'
    is "$(result_as "$ALICE" write "$M/a/config" 'event=mem:0x1000:w kernel=off')" ok
    pmc b event=mem:0x1000:w kernel=on
    chown "$ALICE" "$M/b"
    is "$(result_as "$ALICE" write "$M/b/target" self)" EPERM
    like "$(<"$M/b/error")" 'write kernel=off$'
    is "$(result_as "$ALICE" write "$M/b/config" 'kernel=off target=self')" ok
}

t_a_set_has_one_initial_value_for_each_event() {
    mount_pmcfs
    pmc a event=page-faults event=task-clock count=5,6
    unchanged "$M/a" 'refused EINVAL P02 "$M/a/config" count=7'
    unchanged "$M/a" 'refused EINVAL P02 "$M/a/count" 7'
    like "$(cat "$M/a/error")" '1 value for 2 events: write 2 numbers'
    accepted "$M/a/count" 7,8
    is "$(count a | xargs)" '7 8'
}

t_initial_values_beyond_a_smaller_set_are_dropped() {
    mount_pmcfs
    pmc a event=page-faults event=task-clock count=5,6
    accepted "$M/a/event" task-clock
    is "$(count a) $(setting a count)" "5 5"
}
