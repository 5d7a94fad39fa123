# shellcheck shell=bash disable=SC2016
# Lists of events and targets as people paste them from perf, files and web pages.

# set_is TEXT EVENTS: the text written to event gives these events, and config gives them again.
set_is() {
    mkdir "$M/a" "$M/b"
    accepted "$M/a/event" "$1"
    is "$(xargs <"$M/a/event")" "$2" "$1"
    accepted "$M/b/config" "$(grep '^event=' "$M/a/config")"
    is "$(xargs <"$M/b/event")" "$2" "config of $1"
    rmdir "$M/a" "$M/b"
}

# event_refused TEXT REGEX: the text is refused as an event with a matching sentence.
event_refused() {
    is "$(result write "$M/a/event" "$1")" EINVAL "$1"
    like "$(cat "$M/a/error")" "^EINVAL CS0[134] event: .*$2" "$1"
}

t_blanks_next_to_a_comma_do_not_end_a_list() {
    mount_pmcfs
    set_is 'page-faults, context-switches' 'page-faults context-switches'
    set_is 'page-faults ,context-switches' 'page-faults context-switches'
    set_is 'page-faults , context-switches' 'page-faults context-switches'
    set_is 'page-faults,\n  context-switches,\n\tcpu-migrations\n' 'page-faults context-switches cpu-migrations'
    set_is 'page-faults, usr,\ntask-clock' 'page-faults,usr task-clock'
}

t_a_comma_at_the_end_of_a_list_is_skipped() {
    mount_pmcfs
    set_is 'page-faults,' page-faults
    set_is 'page-faults,usr,' page-faults,usr
    set_is 'page-faults,\n\ncontext-switches,\n' 'page-faults context-switches'
}

t_comments_blank_lines_and_crlf_in_a_list_are_skipped() {
    mount_pmcfs
    set_is '# faults\npage-faults # all\n\n#context-switches\ncpu-migrations\n' 'page-faults cpu-migrations'
    set_is $'page-faults\r\n\r\ncontext-switches\r\n' 'page-faults context-switches'
    set_is $'page-faults, # all\r\ncontext-switches' 'page-faults context-switches'
}

t_a_byte_order_mark_is_skipped() {
    mount_pmcfs
    set_is $'\357\273\277page-faults\ncontext-switches\n' 'page-faults context-switches'
    pmc a
    accepted "$M/a/config" $'\357\273\277event=page-faults\r\ntarget=self\r\n'
    is "$(cat "$M/a/event")" page-faults
}

t_a_list_that_bash_writes_line_by_line_is_one_set() {
    mount_pmcfs
    pmc a
    printf '%s\n' '# faults' 'page-faults,' '' '# more' context-switches >"$M/a/event"
    is "$(xargs <"$M/a/event")" 'page-faults context-switches'
}

t_braces_around_a_set_are_skipped() {
    mount_pmcfs
    set_is '{page-faults,context-switches}' 'page-faults context-switches'
    set_is '{ page-faults, context-switches, }' 'page-faults context-switches'
    set_is '{\n  page-faults,\n  context-switches\n},' 'page-faults context-switches'
    set_is '{page-faults context-switches\ncpu-clock}' 'page-faults context-switches cpu-clock'
}

t_a_modifier_after_braces_belongs_to_every_event() {
    mount_pmcfs
    set_is '{page-faults,minor-faults}:u' 'page-faults:u minor-faults:u'
    set_is '{page-faults,usr,minor-faults}:u' 'page-faults:u,usr minor-faults:u'
    set_is '{page-faults:k,minor-faults}:u' 'page-faults:k:u minor-faults:u'
    mount_sim
    set_is '{metric/ipc,loads}:u' 'instructions:u cycles:u loads:u'
    pmc a
    is "$(result write "$M/a/event" '{cycles,loads}:S')" EINVAL
    mount_pmcfs
    pmc a
    is "$(result write "$M/a/event" '{page-faults,context-switches}:u')" EINVAL
    like "$(cat "$M/a/error")" '^EINVAL CS03 event: "context-switches:u" happens in the kernel'
}

t_braces_that_do_not_enclose_one_set_are_refused() {
    mount_pmcfs
    pmc a event=page-faults
    event_refused '{page-faults,context-switches' 'no closing brace'
    event_refused '{page-faults},{context-switches}' 'more than one set'
    event_refused '{page-faults}:u,context-switches' 'more than one set'
    event_refused 'page-faults,{context-switches}' 'braces enclose one set'
    event_refused '{}' 'has no name'
    is "$(cat "$M/a/event")" page-faults
}

t_a_list_in_config_stops_at_the_next_setting() {
    mount_pmcfs
    pmc a
    accepted "$M/a/config" 'event={page-faults, minor-faults}:u, descendants=on\nevent=task-clock,\ntarget=self'
    is "$(xargs <"$M/a/event")" 'page-faults:u minor-faults:u task-clock'
    grep -qx descendants=on "$M/a/config" || die "$(cat "$M/a/config")"
}

t_other_modifiers_of_perf_are_refused_with_the_alternative() {
    mount_pmcfs
    pmc a event=context-switches
    event_refused '{page-faults,task-clock}:S' '"S" cannot be part of an event: leave it out'
    event_refused '{page-faults,task-clock}:W' 'write multiplex=on to config'
    while read -r letter sentence; do
        event_refused "page-faults:$letter" "\"$letter\" cannot be part of an event: $sentence"
    done <<'L'
S leave it out
W write multiplex=on to config
D leave it out, because events are always pinned unless multiplex=on
e leave it out, because exclusive use
b leave it out, because .* BPF
I leave it out, and write PIDs
R leave it out, because the retirement latency
X leave it out, because the events of a set
G leave it out, because guests
H leave it out, because only the host
h hypervisor mode is counted with kernel mode
L
    event_refused page-faults:Z 'write u .user mode., k .kernel mode., uk .both., or p, pp, ppp, P'
    is "$(cat "$M/a/event")" context-switches
}

t_terms_of_perf_are_refused_with_the_setting_or_target() {
    mount_pmcfs
    pmc a event=context-switches
    while read -r term sentence; do
        event_refused "cycles/$term/" "\"${term%%=*}\" cannot be part of an event: $sentence"
        event_refused "cpu_nowhere/event=0x3c,$term/" "\"${term%%=*}\" cannot be part of an event: $sentence"
    done <<'L'
freq=99 write freq=N to config
period=1000 write period=N to config
call-graph=dwarf write callchain=on
name=mine a PMC has the name of its directory
cpu=0 write cpuN to target
percore write the CPUs of one core to target
max-stack=5 write depth=N to config
stack-size=4096 write stack=BYTES to config
inherit write descendants=on to config
L
    event_refused 'cycles/freq=99,call-graph=dwarf/' 'write freq=N to config'
    event_refused syscalls:sys_enter_openat/filter=x/ 'write filter=EXPRESSION to config'
    is "$(cat "$M/a/event")" context-switches
}

t_values_that_perf_measures_itself_are_refused_with_their_place() {
    mount_pmcfs
    pmc a event=context-switches
    while read -r name sentence; do
        event_refused "$name" "\"${name%:*}\" $sentence"
    done <<'L'
duration_time is a time that perf measures itself: see enabled_ns
user_time is a time that perf measures itself: .*task-clock
system_time is a time that perf measures itself: .*task-clock
dummy counts nothing
dummy:u counts nothing
bpf-output counts nothing
temp1 is a sensor .*/sys/class/hwmon
fan2 is a sensor .*/sys/class/hwmon
L
    event_refused tool/duration_time/ '"duration_time" is a time'
    event_refused hwmon_coretemp/temp1/ '"temp1" is a sensor'
    is "$(cat "$M/a/event")" context-switches
}

t_lines_of_perf_list_are_refused_with_the_word_to_write() {
    mount_pmcfs
    pmc a event=page-faults
    event_refused 'context-switches OR cs' 'write one of them'
    event_refused 'context-switches [Software event]' 'leave out the text that perf list prints in brackets'
    is "$(cat "$M/a/event")" page-faults
}

t_a_mode_of_a_clock_event_is_refused_with_the_behaviour_of_perf() {
    mount_pmcfs
    pmc a
    for name in task-clock cpu-clock; do
        event_refused "$name:u" "\(perf counts both, whatever the modifier\): write $name"
    done
}

# ---- targets ----

t_commas_separate_targets_like_blanks() {
    mount_pmcfs
    target_start p
    target_start q
    for text in "${PID_OF[p]},${PID_OF[q]}" "${PID_OF[p]}, ${PID_OF[q]}," "pid:${PID_OF[p]},pid:${PID_OF[q]}"; do
        pmc a event=task-clock
        accepted "$M/a/target" "$text"
        is "$(sort -n <"$M/a/target" | xargs)" "$(printf '%s\n' "${PID_OF[p]}" "${PID_OF[q]}" | sort -n | xargs)" "$text"
        rmdir "$M/a"
        pmc a event=task-clock
        accepted "$M/a/config" "target=${text// /}"
        is "$(wc -l <"$M/a/target")" 2 "$text"
        rmdir "$M/a"
    done
    pmc a event=task-clock
    refused EINVAL E27 "$M/a/target" "cpu0, ${PID_OF[p]}"
    refused EINVAL E27 "$M/a/target" "${PID_OF[p]},x7"
    is "$(cat "$M/a/target")" '' 'a refused list attaches nothing'
}

t_target_0_is_refused_as_a_stopped_service() {
    mount_pmcfs
    pmc a event=task-clock
    refused EINVAL E27 "$M/a/target" 0
    like "$(cat "$M/a/error")" 'a stopped service has MainPID 0'
}

t_a_second_tid_of_a_process_is_refused_with_the_word_tid() {
    mount_pmcfs
    target_start p
    pmc a event=task-clock "target=${PID_OF[p]}"
    refused EEXIST E10 "$M/a/target" "${PID_OF[p]}"
    like "$(cat "$M/a/error")" 'the number of a thread selects its process; write tid:TID for one thread'
}
