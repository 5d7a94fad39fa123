# shellcheck shell=bash disable=SC2016,SC2094
# States and verbs of INTERFACE section 3, the initial count, and the exchange.

t_new_has_no_count_and_no_verbs() {
    mount_pmcfs
    pmc a
    is "$(state a)" new
    fails_with ENODATA "cat $M/a/count"
    for verb in start stop reset restart; do
        refused ENODATA P08 "$M/a/ctl" $verb
    done
    refused ENODATA P08 "$M/a/count" 5
}

t_life_from_allocated_to_exited() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults
    is "$(state a)" allocated
    attach a "${PID_OF[p]}"
    is "$(state a)" running
    ctl a stop
    is "$(state a)" stopped
    ctl a start
    is "$(state a)" running
    target_end p
    eventually 5 '[[ $(state a) == exited ]]'
}

t_armed_until_the_targets_next_exec() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults start=exec
    attach a "${PID_OF[p]}"
    is "$(state a)" armed
    pmc b event=page-faults start=exec "target=${PID_OF[p]}"
    is "$(state b)" armed "all in one command"
    tell p exec
    tell p faults 1
    eventually 5 '[[ $(state a) == running ]]'
    is "$(state b)" running
}

t_start_and_stop_are_idempotent() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    ctl a start
    ctl a start
    ctl a stop
    ctl a stop
    is "$(state a)" stopped
}

t_stop_before_any_start_is_einval() {
    mount_pmcfs
    pmc a event=page-faults
    refused EINVAL X02 "$M/a/ctl" stop
    is "$(state a)" allocated
}

t_an_unknown_verb_is_einval() {
    mount_pmcfs
    pmc a event=page-faults
    refused EINVAL X17 "$M/a/ctl" begin
    refused EINVAL X17 "$M/a/ctl" 'start stop'
}

t_start_attaches_the_caller_if_it_never_had_a_target() {
    mount_pmcfs
    pmc a event=page-faults
    bash -c "echo start >$M/a/ctl; cat $M/a/target; echo \$\$" >"$T/out"
    is "$(sed -n 1p "$T/out")" "$(sed -n 2p "$T/out")"
    eventually 5 '[[ $(state a) == exited ]]'
    [[ $(count a) -gt 0 ]] || die "nothing was counted of the caller"
}

t_start_after_losing_all_targets_is_esrch() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    ctl a detach
    refused ESRCH E43 "$M/a/ctl" start
    is "$(cat "$M/a/target")" ""
}

t_system_scope_without_a_target_does_not_start() {
    mount_pmcfs
    pmc a event=page-faults mode=SC
    refused EINVAL E23 "$M/a/ctl" start
}

t_a_stopped_pmc_does_not_count_and_start_continues() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    tell p faults 100
    ctl a stop
    local before
    before=$(count a)
    tell p faults 1000
    is "$(count a)" "$before"
    ctl a start
    tell p faults 100
    between "$(count a)" $((before + 100)) $((before + 900))
}

t_reset_goes_back_to_the_initial_count() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults count=7 "target=${PID_OF[p]}"
    tell p faults 100
    refused EBUSY 'P06|E06|E07' "$M/a/ctl" reset
    ctl a stop
    ctl a reset
    is "$(count a)" 7
    is "$(status a enabled_ns)" 0
    is "$(cat "$M/a/target")" "${PID_OF[p]}"
}

t_restart_resets_and_starts_as_one() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    tell p faults 10000
    ctl a restart
    is "$(state a)" running
    tell p faults 10
    between "$(count a)" 10 5000
}

t_reset_forgets_exited_targets() {
    mount_pmcfs
    target_start p
    target_start q
    pmc a event=page-faults "target=${PID_OF[p]}" "target=${PID_OF[q]}"
    target_end p
    eventually 5 '[[ $(wc -l <"$M/a/target") == 1 ]]'
    grep -q "pid:${PID_OF[p]}" "$M/a/detail"
    ctl a stop
    ctl a reset
    ! grep -q "pid:${PID_OF[p]}" "$M/a/detail" || die "still in detail"
}

t_detach_takes_all_targets_and_keeps_the_count() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    tell p faults 100
    ctl a detach
    is "$(cat "$M/a/target")" ""
    between "$(count a)" 100 10000
}

t_write_and_read_before_start() {
    mount_pmcfs
    pmc a event=page-faults
    accepted "$M/a/count" 42
    is "$(count a)" 42
    is "$(setting a count)" 42
    refused EINVAL P02 "$M/a/count" forty
    refused EINVAL 'P02|P28' "$M/a/count" '1 2'
}

t_exchange_gives_what_the_write_replaced_once() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults count=42 "target=${PID_OF[p]}"
    tell p faults 100
    ctl a stop
    local old
    old=$(count a)
    python "$old" <<'P'
import os, sys
fd = os.open(sys.argv[1] + "/a/count", os.O_RDWR)
os.write(fd, b"1000")
assert os.pread(fd, 100, 0).decode() == sys.argv[2] + "\n"
assert os.pread(fd, 100, 0) == b"1000\n"
assert open(sys.argv[1] + "/a/count").read() == "1000\n"
P
}

t_counts_are_64_bits_modulo() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults count=18446744073709551615 "target=${PID_OF[p]}"
    tell p faults 100
    between "$(count a)" 99 100000
}

t_h11_counts_go_beyond_the_width_of_the_hardware() {
    mount_sim sim_cpus=1,sim_class=narrow:2:32
    pmc a event=r3e8 count=4294967290 target=cpu0
    local last=4294967290 now
    for _ in {1..20}; do
        now=$(count a)
        between "$now" "$last" 4400000000
        last=$now
    done
    [[ $last -gt 4294967296 ]] || die "did not pass 2^32: $last"
    ctl a stop
    accepted "$M/a/count" 1099511627776123
    is "$(count a)" 1099511627776123
}

t_a_set_counts_in_its_order() {
    mount_pmcfs
    target_start p
    pmc a event=context-switches event=page-faults count=1000000,2000000 "target=${PID_OF[p]}"
    tell p faults 500
    tell p sleep 10
    mapfile -t values <"$M/a/count"
    is "${#values[@]}" 2
    between "${values[0]}" 1000010 1001000
    between "${values[1]}" 2000500 2009000
    is "$(paste "$M/a/event" "$M/a/count" | cut -f1 | xargs)" "context-switches page-faults"
}

t_log_verbs_without_a_log_are_einval() {
    mount_pmcfs
    pmc a event=page-faults log=off
    refused EINVAL E15 "$M/a/ctl" flush
    refused EINVAL E14 "$M/a/ctl" close
}

t_close_ends_the_log_stops_what_needs_one_and_log_on_begins_it_again() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    pmc b event=cpu-clock freq=99 "target=${PID_OF[p]}"
    for name in a b; do
        refused EBUSY P06 "$M/$name/config" log=off
        accepted "$M/$name/ctl" close
        is "$(setting $name log)" off
    done
    is "$(cat "$M/a/ctl")" running # it needs none
    is "$(cat "$M/b/ctl")" stopped
    refused EDESTADDRREQ E09 "$M/b/ctl" start
    accepted "$M/b/config" log=on
    accepted "$M/b/ctl" start
    is "$(cat "$M/b/ctl")" running
    accepted "$M/b/ctl" stop
    is "$(awk '$2 ~ /^(start|stop|close)$/ {print $2}' "$M/b/samples" | xargs)" \
        'start stop close start stop'
}
