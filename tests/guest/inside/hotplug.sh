# shellcheck shell=dash disable=SC2034,SC2086,SC2154 # PID_p is set by run
# CPU 1 goes and comes back.

N=$((5 * MILLION))

cpu1() {
    echo "$1" >/sys/devices/system/cpu/cpu1/online
    eventually 5 grep -qx "online $2" "$M/info/cpus"
}

t_an_absent_cpu_is_enxio() {
    mount_pmcfs
    pmc i 'event=instructions:u mode=SC'
    cpu1 0 0
    refused ENXIO "$M/i/target" cpu1
    refused EINVAL "$M/i/target" cpu9
    attach i cpu0
    cpu1 1 0-1
    attach i cpu1
}

t_e38_x11_st5_cpu_scope_keeps_its_count_and_continues() {
    local before
    mount_pmcfs
    run p load
    pmc i 'event=instructions:u target=cpu1'
    tell p cpu 1
    tell p work $N
    tell p cpu 0
    cpu1 0 0
    before=$(count i)
    between "$before" $N $((N * 5))
    tell p work $N
    is "$(count i)" "$before" "count of a CPU that is away"
    refused ENXIO "$M/i/ctl" stop 'E38'
    cpu1 1 0-1
    tell p cpu 1
    between "$(counted i tell p work $N)" $N $((N * 5))
    [ "$(count i)" -gt $((before + N)) ] || die "the count before is gone"
}

t_the_counts_of_a_set_are_complete_though_nobody_read_them() {
    mount_pmcfs
    run p load cpu 1
    pmc i 'event=cycles:u,instructions:u target=cpu1'
    pmc g 'event=cycles:u,instructions:u,page-faults target=cgroup:/'
    tell p work $N
    tell p cpu 0
    cpu1 0 0
    for pmc in i g; do
        between "$(count $pmc | sed -n 1p)" $N $((N * 10000)) "cycles of $pmc"
        between "$(count $pmc | sed -n 2p)" $N $((N * 10000)) "instructions of $pmc"
        is "$(status $pmc partial)" no
    done
}

t_the_gap_is_marked() {
    mount_pmcfs
    run p load
    pmc i 'event=instructions:u target=cpu1'
    cpu1 0 0
    sleep 0.2
    cpu1 1 0-1
    tell p cpu 1
    between "$(counted i tell p work $N)" $N $((N * 5))
    between "$(status i gap_ns)" $((150 * MILLION)) $((1000 * MILLION)) gap
}

t_all_continues_on_the_other_cpus_and_adds_the_cpu_again() {
    mount_pmcfs
    run p load
    pmc i 'event=instructions:u target=all'
    cpu1 0 0
    tell p cpu 0
    between "$(counted i tell p work $N)" $N $((N * 5)) "on CPU 0 alone"
    is "$(state i)" running
    cpu1 1 0-1
    tell p cpu 1
    between "$(counted i tell p work $N)" $N $((N * 5)) "on CPU 1 again"
}

t_process_scope_is_not_affected() {
    mount_pmcfs
    run p load
    pmc i "event=instructions:u target=$PID_p"
    tell p work $N
    cpu1 0 0
    tell p work $N
    cpu1 1 0-1
    tell p cpu 1
    tell p work $N
    near "$(count i)" $((3 * N)) 10
    is "$(status i partial)" no
}

# Counters of processes and of the CPU and samplers are created and read at the same time.
t_a_cpu_comes_and_goes_under_load() {
    local before
    mount_pmcfs
    run p load
    pmc i "event=instructions:u target=$PID_p"
    pmc all 'event=cpu-clock target=all'
    pmc s 'event=cpu-clock freq=200 target=all'
    cat "$M/s/samples" >"$T/samples" &
    (while mkdir "$M/b" && echo "event=page-faults target=self" >"$M/b/config" && rmdir "$M/b"; do :; done) &
    (while cat "$M/counts" "$M/metrics.prom" >"$T/counts"; do :; done) &
    for _ in 1 2 3 4 5 6; do
        cpu1 0 0
        tell p work $N
        cpu1 1 0-1
        tell p work $N
    done
    between "$(count i)" $((12 * N)) $((60 * N))
    is "$(state all)" running
    is "$(state s)" running
    before=$(count all)
    sleep 0.2
    between $(($(count all) - before)) $((200 * MILLION)) $((4000 * MILLION)) "two CPUs in 0.2 s or more"
    [ -s "$T/samples" ] || die "no samples"
}

# A child that stays, children that exit, a cgroup, and all CPUs. The cgroup gets its counters on CPU 1 again after the
# CPU is online, so its processes execute on CPU 0.
t_descendants_and_cgroups_are_counted_while_it_comes_and_goes() {
    local group=/sys/fs/cgroup/plugged
    mount_pmcfs
    run p load cpu 0
    tell p stay
    mkdir $group
    echo $PID_p >$group/cgroup.procs
    pmc d "event=instructions:u descendants=on log-exit=on target=$PID_p"
    pmc g 'event=instructions:u target=cgroup:/plugged'
    pmc all 'event=instructions:u target=all'
    (while cat "$M/d/detail" "$M/g/detail" "$M/all/status" >"$T/texts"; do :; done) 2>"$T/refused" &
    echo $! >>"$T/pids"
    for _ in 1 2 3 4 5; do
        cpu1 0 0
        tell p child $N
        tell p bear $N
        cpu1 1 0-1
        tell p child $N
        tell p bear $N
    done
    near "$(count d)" $((20 * N)) 20 'descendants'
    near "$(count g)" $((10 * N)) 20 'cgroup'
    between "$(count all)" $((20 * N)) $((10000 * N)) 'all CPUs'
    is "$(state d) $(state g) $(state all)" 'running running running'
    is "$(status d partial) $(status g partial)" 'no no'
    is "$(cat "$T/refused")" '' 'failed reads'
    order p quit
    eventually 5 grep -qx exited "$M/d/ctl"
    is "$(grep -c ' exit pid=[0-9]' "$M/d/samples")" 12 'exits in the log'
    release g
    rmdir $group
}
