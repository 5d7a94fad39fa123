# shellcheck shell=bash disable=SC2016,SC2012
# What comes and goes while pmcfs is mounted: tracefs, tracepoints, drivers' PMUs.

DEVICES=/sys/bus/event_source/devices

# own_devices: in this test's mount namespace a list of PMUs that it can change; msr's number is MSR.
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

# driver NAME NUMBER: a PMU as a driver shows it, all at once.
driver() {
    mkdir -p "$T/driver/format" "$T/driver/events"
    echo "$2" >"$T/driver/type"
    echo config:0-63 >"$T/driver/format/event"
    echo event=0x00 >"$T/driver/events/ticks"
    mv "$T/driver" "$T/devices/$1"
}

t_a_drivers_pmu_that_comes_later_is_found() {
    own_devices
    mount_pmcfs
    pmc a
    refused EINVAL X06 "$M/a/event" late/ticks/
    [[ ! -e $M/events/late ]] || die 'listed too early'
    driver late "$MSR"
    is "$(ls "$M/events/late")" ticks
    like "$(cat "$M/events/late/ticks")" '^event late/ticks/'
    grep -q '^late ' "$M/info/classes" || die 'no class'
    accepted "$M/a/event" late/ticks/
    attach a cpu0
    [[ $(count a) -gt 0 ]] || die 'counts nothing'
}

t_a_drivers_pmu_is_found_by_who_writes_its_event() {
    own_devices
    mount_pmcfs
    ls "$M/events" >/dev/null
    pmc a
    driver late "$MSR"
    accepted "$M/a/event" late/ticks/
    attach a cpu0
    [[ $(count a) -gt 0 ]] || die 'counts nothing'
    grep -q '^late ' "$M/info/classes" || die 'no class'
}

t_a_drivers_pmu_that_went_is_not_listed() {
    own_devices
    driver early "$MSR"
    mount_pmcfs
    is "$(ls "$M/events/early")" ticks
    pmc a event=early/ticks/
    mv "$T/devices/early" "$T/gone"
    ls "$M/events" >"$T/list"
    ! grep -q early "$T/list" || die 'listed'
    pmc b
    refused EOPNOTSUPP P09 "$M/b/event" early/ticks/
    like "$(cat "$M/b/error")" 'the driver of early was unloaded'
}

t_a_drivers_number_may_be_another_the_next_time() {
    own_devices
    driver early 4711
    mount_pmcfs
    pmc a
    refused EOPNOTSUPP P09 "$M/a/event" early/ticks/
    mv "$T/devices/early" "$T/gone"
    driver early "$MSR"
    accepted "$M/a/event" early/ticks/
    is "$(ls "$M/events/early")" ticks
    like "$(cat "$M/events/early/ticks")" "type=$MSR "
    is "$(grep -c '^early ' "$M/info/classes")" 1
}

t_a_number_that_another_driver_got_does_not_stand_for_the_first() {
    own_devices
    driver first "$MSR"
    mount_pmcfs
    pmc a event=first/ticks/
    mv "$T/devices/first" "$T/gone"
    driver second "$MSR"
    refused EOPNOTSUPP P09 "$M/a/event" first/event=0/
    accepted "$M/a/event" second/event=0/
}

t_a_core_pmu_that_comes_later_says_what_to_do() {
    own_devices
    mount_pmcfs
    pmc a
    driver cpum_cf 4711
    refused EOPNOTSUPP P09 "$M/a/event" cpum_cf/ticks/
    like "$(cat "$M/a/error")" 'came after pmcfs was mounted; mount it again'
    [[ ! -e $M/events/cpum_cf ]] || die 'listed'
}

# There is one tracefs in the machine: not those that the test below defines beside this one.
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

# Where pmcfs may not mount it, it looks where others did.
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

t_a_tracepoint_that_somebody_defines_is_listed_until_it_is_taken_back() {
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
