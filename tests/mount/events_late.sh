# shellcheck shell=bash disable=SC2016,SC2012
# Changes while pmcfs is mounted: tracefs and new tracepoints are found at once, new PMUs at the next mount.

DEVICES=/sys/bus/event_source/devices

# own_devices: replaces the list of PMUs, in this test's mount namespace, by one that it can change. MSR is the type
# number of msr.
own_devices() {
    [[ -e $DEVICES/msr/events/tsc ]] || skip 'no msr PMU in this machine'
    MSR=$(<$DEVICES/msr/type)
    mkdir "$T/devices"
    for name in software tracepoint breakpoint; do
        mkdir "$T/devices/$name"
        cp "$DEVICES/$name/type" "$T/devices/$name/"
    done
    mount --bind "$T/devices" $DEVICES || skip 'no place for other PMUs'
}

# driver NAME NUMBER: adds a PMU as a driver does, in one step.
driver() {
    mkdir -p "$T/driver/format" "$T/driver/events"
    echo "$2" >"$T/driver/type"
    echo config:0-63 >"$T/driver/format/event"
    echo event=0x00 >"$T/driver/events/ticks"
    mv "$T/driver" "$T/devices/$1"
}

t_a_drivers_pmu_that_comes_later_is_found_at_the_next_mount() {
    own_devices
    mount_pmcfs
    pmc a
    driver late "$MSR"
    refused EINVAL X06 "$M/a/event" late/ticks/
    [[ ! -e $M/events/late ]] || die 'listed'
    unmount_pmcfs
    mount_pmcfs
    is "$(ls "$M/events/late")" ticks
    pmc a event=late/ticks/
    attach a cpu0
    [[ $(count a) -gt 0 ]] || die 'counts nothing'
}

t_a_pmu_whose_type_another_driver_got_is_refused() {
    own_devices
    driver first "$MSR"
    mount_pmcfs
    pmc a event=first/ticks/
    mv "$T/devices/first" "$T/gone"
    driver second "$MSR"
    refused EOPNOTSUPP P09 "$M/a/event" first/event=0/
    like "$(cat "$M/a/error")" 'the driver of first was unloaded or loaded again.*Mount pmcfs again'
}

# The kernel has one tracefs, so the tracepoints defined by the test below are left out.
tracepoints() { find "$M/events/tracepoint" -mindepth 1 ! -name 'pmcfs_test_*' -printf '%f\n' | sort; }

t_tracefs_can_be_unmounted_and_mounted_while_tracepoints_count() {
    with_tracefs
    mount_pmcfs
    target_start p
    pmc a event=sched:sched_switch "target=${PID_OF[p]}"
    tracepoints >"$T/before"
    umount /sys/kernel/tracing || die 'pmcfs keeps it mounted'
    [[ ! -e /sys/kernel/tracing/events ]] || die 'it is mounted twice'
    pmc b event=sched:sched_switch "target=${PID_OF[p]}"
    tracepoints >"$T/after"
    cmp "$T/before" "$T/after"
    mount -t tracefs tracefs /sys/kernel/tracing
    tell p sleep 20
    between "$(count a)" 20 500
    between "$(count b)" 20 500
    umount /sys/kernel/tracing
}

# If pmcfs may not mount tracefs, it uses the place where others mounted it.
t_tracefs_that_is_mounted_later_is_found() {
    with_tracefs
    umount /sys/kernel/tracing || skip 'tracefs is in use'
    forbid_call 430 430 # fsopen
    mount_pmcfs
    pmc a
    refused EOPNOTSUPP P09 "$M/a/event" sched:sched_switch
    like "$(cat "$M/a/error")" 'tracefs is not mounted'
    like "$(cat "$M/info/backend")" 'tracefs no: '
    [[ ! -e $M/events/tracepoint ]] || die 'listed'
    mount -t tracefs tracefs /sys/kernel/tracing
    accepted "$M/a/event" sched:sched_switch
    [[ -e $M/events/tracepoint/sched:sched_switch ]] || die 'not listed'
}

t_a_new_tracepoint_is_listed_until_it_is_removed() {
    local system=pmcfs_test_$RANDOM
    with_tracefs
    [[ -w /sys/kernel/tracing/uprobe_events ]] || skip 'no uprobes'
    mount_pmcfs
    ls "$M/events/tracepoint" >"$T/before"
    printf 'p:%s/late /bin/true:0x1000' "$system" >>/sys/kernel/tracing/uprobe_events || skip 'no uprobes'
    trap 'printf -- "-:$system/late" >>/sys/kernel/tracing/uprobe_events' EXIT
    ls "$M/events/tracepoint" >"$T/during"
    pmc a
    accepted "$M/a/event" "$system:late"
    rmdir "$M/a"
    trap - EXIT
    printf -- '-:%s/late' "$system" >>/sys/kernel/tracing/uprobe_events
    ls "$M/events/tracepoint" >"$T/after"
    is "$(comm -13 "$T/before" "$T/during" | grep "$system")" "$system:late"
    ! grep "$system" "$T/after" || die 'still listed'
}
