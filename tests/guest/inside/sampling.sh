# shellcheck shell=dash disable=SC2034,SC2046,SC2086,SC2119,SC2120,SC2154 # PID_p is set by run
# Sampling by the overflow interrupts of a real PMU.

# shellcheck source=tests/guest/inside/sampling_lib.sh
. /tests/sampling_lib.sh

# ---- how many, and where ----

# Both PMCs start and stop while the program waits, so they differ by a few cycles.
t_a_period_gives_as_many_samples_as_it_fits_into_the_count() {
    sampling
    run p load cpu 0
    for period in 20000 100000 1000000; do
        pmc a "event=cycles:u period=$period target=$PID_p"
        pmc c "event=cycles:u target=$PID_p"
        tell p work $N
        ctl a stop
        log_of a
        nothing_lost a
        between "$(taken)" $(($(count c) / period - 1)) $(($(count c) / period + 1)) "samples each $period"
        is "$(taken " pid=$PID_p tid=$PID_p cpu=0 .* event=cycles:u period=$period\$")" "$(taken)" \
            "samples of the program"
        release a c
    done
}

t_a_rate_is_kept() {
    sampling
    run p load cpu 1
    for freq in 500 5000; do
        pmc a "event=cycles:u freq=$freq target=$PID_p"
        pmc c "event=cycles:u target=$PID_p"
        tell p work $((200 * MILLION))
        ctl a stop
        log_of a
        nothing_lost a
        near "$(taken)" $((freq / 5)) 150 "samples in 200 ms"
        near "$(awk '$2 == "sample" { sub(/.* period=/, ""); sum += $0 } END { printf "%d", sum }' "$T/log")" \
            "$(count c)" 50 "sum of periods"
        release a c
    done
}

t_addresses_lie_in_the_loop() {
    sampling
    run p load cpu 1
    for event in cycles:u cycles r11:u armv8_pmuv3/cpu_cycles/u PAPI_tot_cyc; do
        pmc a "event=$event period=$P target=$PID_p"
        tell p work $N
        ctl a stop
        log_of a
        between "$(in_loop)" $(($(taken) * 9 / 10)) "$(taken)" "$event: samples in the loop"
        between "$(taken)" $((S - 2)) $((S * 2)) "$event: samples"
        release a
    done
}

t_all_cpus_in_one_log() {
    sampling
    run p load cpu 0
    run q load cpu 1
    pmc a "event=cycles:u freq=5000 target=all"
    tell p work $N
    tell q work $N
    ctl a stop
    log_of a
    nothing_lost a
    between "$(taken " pid=$PID_p tid=$PID_p cpu=0 ")" 50 500 "of the program on CPU 0"
    between "$(taken " pid=$PID_q tid=$PID_q cpu=1 ")" 50 500 "of the program on CPU 1"
    cut -d' ' -f1 "$T/log" | sort -c -t. -k1,1n -k2,2n || die "not in the order of time"
}

t_a_set_samples_each_of_its_events_into_one_log() {
    local values
    sampling
    run p load cpu 1
    for pmc in a c; do
        pmc $pmc "event=cycles:u event=instructions:u event=r11:u event=cpu-clock"
        [ $pmc = c ] || accepted "$M/a/config" period=$P
        attach $pmc "$PID_p"
    done
    tell p work $N
    ctl a stop
    values=$(count c | xargs)
    log_of a
    nothing_lost a
    for event in cycles:u instructions:u r11:u; do
        near "$(taken " event=$event period=$P\$")" $((${values%% *} / P)) 30 "samples of $event"
        values=${values#* }
    done
    # The timer is late when the emulator does not run, and then has one sample for several periods.
    near "$(taken " event=cpu-clock period=$P\$")" $((values / P)) 100 "samples of cpu-clock"
    between "$(in_loop)" $(($(taken) * 9 / 10)) "$(taken)" "samples in the loop"
}

# One sample per tick: the events in between count for the next one.
t_a_general_counter_gives_no_sample_too_many() {
    sampling
    run p load cpu 1
    pmc a "event=instructions:u period=$P target=$PID_p"
    pmc c "event=instructions:u target=$PID_p"
    tell p work $((5 * N))
    ctl a stop
    log_of a
    nothing_lost a
    between "$(taken)" $((5 * N / (4 * MILLION) - 3)) $(($(count c) / P)) samples
    between "$(in_loop)" $(($(taken) * 9 / 10)) "$(taken)" "samples in the loop"
}

# 32 bits are 4.3 seconds of cycles. The cycle counter runs while the CPU is idle.
t_a_period_may_be_longer_than_the_counter_is_wide() {
    sampling
    pmc a "event=cycles period=6000000000 target=cpu1"
    sleep 20
    ctl a stop
    log_of a
    nothing_lost a
    is "$(taken ' period=6000000000$')" 3 "samples in 20 s"
}

t_call_chains_reach_from_main_into_the_kernel() {
    sampling
    run p load cpu 1
    pmc a "event=cycles period=20000 callchain=on target=$PID_p"
    for _ in 1 2 3 4 5 6 7 8; do tell p child 1000; done
    ctl a stop
    cat "$M/a/samples.folded" >"$T/folded"
    like "$(cat "$T/folded")" '^load;(\[/[^;]*\+0x[0-9a-f]+\];){3,}(\[kernel\+0xffff[0-9a-f]+\];)+\[kernel\+0xffff[0-9a-f]+\] [0-9]+$'
    log_of a
    like "$(grep ' callchain ' "$T/log")" ' ip=0xffff[0-9a-f]+ .* ips=k:0xffff[0-9a-f,:kx]+,0x4[0-9a-f]+,'
}

# ---- samples that a user may see ----

# The interrupt is late: an overflow in the program is noticed in the kernel.
t_kernel_addresses_are_hidden_from_a_user() {
    sampling
    run p as $ALICE load cpu 1
    USER=$ALICE
    pmc a "event=instructions:u freq=997 callchain=on target=$PID_p"
    tell p work $((5 * N))
    ctl a stop
    log_of a
    between "$(grep -c ' callchain ' "$T/log")" 10 100 samples
    is "$(grep -cE '0x[0-9a-f]{13}' "$T/log")" 0 "addresses in the kernel"
    between "$(status a hidden)" 1 20 hidden
    is "$(dropped hidden)" "$(status a hidden)" "in the log"
    is "$(stat intr_ignored)" "$(status a hidden)" "in info/stats"
    if grep -q '_\[k\]' "$M/a/samples.folded"; then die "the kernel's functions are named"; fi
}

# ---- events that can be sampled ----

t_every_event_listed_as_sampled_can_be_sampled() {
    local file event
    sampling
    for file in "$M"/events/armv8_pmuv3/* "$M"/events/generic/* "$M"/events/software/*; do
        event=$(sed -n 's/^event //p' "$file")
        pmc e
        if grep -qx 'sampling yes' "$file"; then
            accepted "$M/e/config" "event=$event period=$P target=self"
        else
            refused EOPNOTSUPP "$M/e/config" "event=$event period=$P" 'E36 config: .*cannot be sampled'
        fi
        release e
    done
}

# ---- losses ----

t_throttling_is_logged() {
    sampling
    run p load cpu 1
    any_rate 10000
    pmc a "event=cycles:u period=20000 target=$PID_p"
    tell p work $((5 * N))
    ctl a stop
    any_rate
    log_of a
    between "$(status a throttled)" 20 30 "throttled, once a tick"
    is "$(grep -c ' drop lost=- where=throttle$' "$T/log")" "$(status a throttled)" "in the log"
    is "$(stat throttled)" "$(status a throttled)" "in info/stats"
    between "$(taken)" $((20 * 40)) $((30 * 42)) "samples, 40 a tick"
}

# ---- CPUs that go and come ----

cpu1() {
    echo "$1" >/sys/devices/system/cpu/cpu1/online
    eventually 5 grep -qx "online $2" "$M/info/cpus"
}

# away: prints the time between detach and attach records of CPU 1 in the log, and their number.
away() {
    awk '$2 == "detach" && /target=cpu1 .*reason=cpu-offline/ { gone = $1; n++ }
        $2 == "sample" && / cpu=1 / && gone && !back { print "a sample of a CPU that is away"; exit }
        $2 == "attach" && /target=cpu1 / && gone { back = $1 }
        END { printf "%d %d\n", n, (back - gone) * 1000 }' "$T/log"
}

t_a_cpu_that_goes_and_comes_leaves_a_gap_in_the_log() {
    sampling
    run p load cpu 1
    pmc a "event=cycles:u period=$P target=all"
    tell p work $N
    tell p cpu 0
    cpu1 0 0
    is "$(state a)" running
    tell p work $N
    sleep 0.3
    cpu1 1 0-1
    eventually 5 grep -qx "gap_ns [1-9].*" "$M/a/status"
    tell p cpu 1
    tell p work $N
    ctl a stop
    log_of a
    between "$(status a gap_ns)" $((300 * MILLION)) $((2000 * MILLION)) gap_ns
    set -- $(away)
    is "$1" 1 "times it went"
    near "$2" $(($(status a gap_ns) / MILLION)) 50 "ms away"
    near "$(taken " pid=$PID_p .* cpu=1 ")" $((2 * S)) 60 "samples on CPU 1"
    near "$(taken " pid=$PID_p .* cpu=0 ")" $S 60 "samples on CPU 0"
}

t_a_log_of_one_cpu_waits_until_it_is_back() {
    local reader
    sampling
    run p load cpu 1
    pmc a "event=cycles:u period=$P target=cpu1"
    timeout 60 cat "$M/a/samples" >"$T/log" &
    reader=$!
    tell p work $N
    tell p cpu 0
    cpu1 0 0
    refused ENXIO "$M/a/ctl" stop 'E38'
    tell p work $N
    cpu1 1 0-1
    tell p cpu 1
    tell p work $N
    ctl a stop
    wait $reader || die "the reader did not end"
    near "$(taken " pid=$PID_p ")" $((2 * S)) 60 samples
}

# Both CPUs have a ring buffer, whichever were online at the start.
t_a_cpu_that_comes_later_is_recorded() {
    sampling
    run p load
    cpu1 0 0
    pmc a "event=cycles:u period=$P target=$PID_p"
    tell p work $N
    cpu1 1 0-1
    tell p cpu 1
    tell p work $N
    ctl a stop
    log_of a
    near "$(taken ' cpu=0 ')" $S 60 "samples on CPU 0"
    near "$(taken ' cpu=1 ')" $S 60 "samples on CPU 1"
}
