# shellcheck shell=bash disable=SC2154
# Answers reveal nothing to users without rights: the opener's rights are checked before the kernel is called.

# shellcheck source=tests/mount/rights_lib.sh
. "${BASH_SOURCE[0]%/*}/rights_lib.sh"

# Addresses where the kernel allows no breakpoint (its per-CPU areas), where it allows one, and unmapped ones.
KERNEL_ADDRESSES=(0xfffffe0000001000 0xffffffff81000000 0xffffffff81000001 0xffff888000000000
    0x80000000000000 0x8000000000000000 0xffffffffffffffff 0x7fffffffffffff)

# answers DIRECTORY WORD…: prints the distinct sentences that alice gets for the words, without the word.
answers() {
    local word
    for word in "${@:2}"; do
        printf '%s ' "$(result_as "$ALICE" write "$1/event" "$word")"
        sed "s|\"[^\"]*\"|WORD|" "$1/error"
    done | sort -u
}

#@ slow
t_kernel_addresses_are_refused_in_one_way() {
    mount_pmcfs
    local sentences words=() at kind
    for at in "${KERNEL_ADDRESSES[@]}"; do
        for kind in '' :rw :w :r :x /8:rw /4:rw:u /2:w:k; do
            words+=("mem:$at$kind")
        done
    done
    alices a
    sentences=$(answers "$M/a" "${words[@]}")
    is "$(wc -l <<<"$sentences")" 1 "different answers"
    like "$sentences" '^EPERM EPERM P18 event: WORD counts kernel mode, and that needs CAP_PERFMON'
    empty cat "$M/a/event"
    mkdir "$M/instances/box"
    chmod 777 "$M/instances/box"
    alices instances/box/a
    is "$(answers "$M/instances/box/a" "${words[@]}" | wc -l)" 1 "different answers in an instance"
    # The kernel allows them only with capabilities, whatever perf_event_paranoid is.
    accepted "$M/admin/tunables/unprivileged_kernel" 1
    sentences=$(answers "$M/a" "${words[@]}")
    is "$(wc -l <<<"$sentences")" 1 "different answers with unprivileged_kernel"
    like "$sentences" '^EPERM EPERM X07 event: WORD also counts other processes than'
}

# A set with such an address is refused before any other check.
t_kernel_addresses_in_a_set_are_refused_in_one_way() {
    mount_pmcfs
    alices a
    for at in "${KERNEL_ADDRESSES[@]}"; do
        is "$(result_as "$ALICE" write "$M/a/event" "page-faults mem:$at/8:rw cpu-clock")" EPERM
        like "$(cat "$M/a/error")" '^EPERM P18 '
        is "$(result_as "$ALICE" write "$M/a/config" "event=mem:$at kernel=on mode=SC")" EPERM
    done
}

t_addresses_of_programs_are_for_everybody() {
    mount_pmcfs
    mkdir "$M/r"
    [[ $(result write "$M/r/event" mem:0x1000:rw) == ok ]] || skip 'no breakpoints here'
    alices a
    is "$(result_as "$ALICE" write "$M/a/event" mem:0x7fffffffe000/8:rw)" ok
    is "$(result_as "$ALICE" write "$M/a/event" mem:0x1000:x)" ok
}

t_tracepoints_are_not_looked_up_for_users_that_may_not_count_them() {
    mount_pmcfs
    [[ -e $M/events/tracepoint/sched:sched_switch ]] || skip 'no tracepoints here'
    alices a
    local sentences
    sentences=$(answers "$M/a" sched:sched_switch sched:nosuch sched:sched_switch:u sched:sched_swich \
        nosuch:sched_switch probe:x foo:bar foo:bar:u)
    is "$(wc -l <<<"$sentences")" 1 "different answers: $sentences"
    like "$sentences" '^EPERM EPERM P18 event: WORD counts kernel mode'
    # The PMU form, patterns and filters do not reveal whether a group exists.
    for how in /x /x/ ':*' ':sched_switch/a==1/'; do
        is "$(answers "$M/a" "sched$how" | sed 's/sched/GROUP/')" \
            "$(answers "$M/a" "nosys$how" | sed 's/nosys/GROUP/')" "$how"
    done
    mkdir "$M/r"
    refused EINVAL CS01 "$M/r/event" sched:nosuch
}

t_no_file_of_an_event_has_the_number_of_a_tracepoint() {
    mount_pmcfs
    [[ -e $M/events/tracepoint/sched:sched_switch ]] || skip 'no tracepoints here'
    like "$(<"$M/events/tracepoint/sched:sched_switch")" $'\nencoding type=2\n?$'
}

# All events of the msr PMU except tsc also count kernel activity.
t_machine_registers_need_the_right_to_kernel_mode() {
    mount_pmcfs
    [[ -e /sys/bus/event_source/devices/msr/events/tsc ]] || skip 'no msr PMU in this machine'
    alices a
    is "$(result_as "$ALICE" write "$M/a/event" msr/tsc/)" ok
    for n in 1 4 5 99; do
        is "$(result_as "$ALICE" write "$M/a/event" "msr/event=$n/")" EPERM "register $n"
        like "$(cat "$M/a/error")" '^EPERM P18 '
    done
    is "$(cat "$M/a/event")" msr/tsc/
}
