/*
 * Sampling and the log in the engine: refusals, recorders, the order of log records, memory. The
 * recorders deliver the records of a test.
 */
#include "tests/unit/unit.h"

#include "core/pmc/pmc.h"
#include "tests/unit/fixture.h"

#include <errno.h>
#include <stdlib.h>

static void setup(void)
{
    fixture_open("sim_cpus=4 sim_rows=4");
    recorders_on();
}

SUITE_SETUP(change_record, setup, fixture_close);

static uint64_t now(void)
{
    return fx.host.now_ns;
}

/* Lets time pass and runs the tick, as the main loop does. */
static void tick(uint64_t ms)
{
    pass_ms(ms);
    if (engine_deadline(fx.engine) <= now())
        engine_tick(fx.engine, now());
    works_run();
}

static void sampler(const char *name, const char *config)
{
    ck_assert_int_eq(pmc_make(name), 0);
    accepted(name, "config", config);
}

static const char *sampling_of(const char *config)
{
    sampler("x", config);
    const char *printed = value_of("x", "status", "sampling");
    ck_assert_int_eq(pmc_remove("x"), 0);
    return printed;
}

static uint64_t charged(uid_t uid)
{
    const struct user *user = user_find(fx.engine, uid);

    return user ? user->used[USED_BYTES] : 0;
}

/* ---- period and frequency ---- */

TEST(fast_events_have_a_least_period_and_a_default_frequency)
{
    ck_assert_str_eq(sampling_of("event=cycles period=10"), "period 1000 (asked 10, mincount)");
    ck_assert_str_eq(sampling_of("event=task-clock period=10"), "period 1000 (asked 10, mincount)");
    ck_assert_str_eq(sampling_of("event=cycles period=1000"), "period 1000");
    ck_assert_str_eq(sampling_of("event=cycles mode=TS"), "freq 997");
    ck_assert_str_eq(sampling_of("event=task-clock mode=TS"), "freq 997");
    tune(TUNABLE_MINCOUNT, "50");
    ck_assert_str_eq(sampling_of("event=cycles period=10"), "period 50 (asked 10, mincount)");
}

TEST(the_counter_is_opened_with_the_settings)
{
    sampler("i", "event=cycles period=7000 callchain=user depth=9 target=100");
    ck_assert_ptr_nonnull(fx.plan.recorder);
    ck_true(fx.plan.sampling && !fx.plan.values_at_switch && !fx.plan.values_at_exit);
    ck_assert_uint_eq(fx.plan.period, 7000);
    ck_assert_uint_eq(fx.plan.freq, 0);
    ck_true(fx.plan.chain_user && !fx.plan.chain_kernel);
    ck_assert_uint_eq(fx.plan.max_frames, 9);
    ck_assert_uint_eq(fx.plan.set_number, pmc_of("i")->set_number);
    const struct log_event *event = log_sets_event(pmc_of("i")->sets, fx.plan.set_number, 0);
    ck_assert_str_eq(event->name, "cycles");
    ck_assert_uint_eq(event->period, 7000);
    ck_true(event->chains);
}

TEST(pmcs_that_count_the_same_share_their_events)
{
    pmc_with("i", "cycles", "100");
    pmc_with("j", "cycles", "101");
    pmc_with("k", "cycles:u", "102");
    ck_assert_ptr_eq(pmc_of("i")->set, pmc_of("j")->set);
    ck_assert_ptr_ne(pmc_of("i")->set, pmc_of("k")->set);
    ck_assert_ptr_null(pmc_of("i")->sets); /* nothing was recorded with ids of events */
    accepted("i", "ctl", "stop");
    accepted("i", "event", "instructions");
    ck_assert_str_eq(read_file("j", "event"), "cycles\n");
}

TEST(switch_and_exit_records_are_requested_when_counting)
{
    sampler("i", "event=cycles log-csw=on target=100");
    ck_true(fx.plan.recorder && !fx.plan.sampling && fx.plan.values_at_switch &&
            fx.plan.values_at_exit);
    sampler("j", "event=cycles log-exit=on target=100");
    ck_true(fx.plan.recorder && !fx.plan.sampling && !fx.plan.values_at_switch &&
            fx.plan.values_at_exit);
    sampler("k", "event=cycles target=100");
    ck_true(!fx.plan.recorder && !fx.plan.values_at_switch && !fx.plan.values_at_exit);
}

TEST(a_user_without_the_right_gets_no_kernel_frames)
{
    as_user(100, 1000);
    sampler("i", "event=cycles freq=99 callchain=on target=101");
    ck_true(fx.plan.chain_user && !fx.plan.chain_kernel);
    ck_true(!pmc_of("i")->recorded.kernel);
    as_root();
    sampler("j", "event=cycles freq=99 callchain=on target=101");
    ck_true(fx.plan.chain_user && fx.plan.chain_kernel);
    ck_true(pmc_of("j")->recorded.kernel);
}

/* ---- refusals ---- */

TEST(an_event_without_interrupts_is_not_sampled)
{
    pmc_with("i", "package", "");
    refused("i", "config", "mode=SS", EOPNOTSUPP, E36);
    refused("i", "config", "event=package freq=99", EOPNOTSUPP, E36);
    ck_err_has(fx.err, "package");
}

TEST(a_pmc_that_becomes_a_sampler_has_no_initial_count)
{
    char *config;

    sampler("i", "event=cycles count=5");
    accepted("i", "config", "freq=99");
    ck_assert_str_eq(value_of("i", "config", "count"), "0");
    config = strdup(read_file("i", "config"));
    sampler("j", "event=instructions count=6");
    accepted("j", "config", config); /* config is writable as it is read */
    ck_assert_str_eq(read_file("j", "config"), config);
    free(config);
}

TEST(sampling_cpus_needs_the_superuser_whatever_the_tunable)
{
    fx.host.cgroup[0] = (struct fake_cgroup){"/a", true};
    fx.host.n_cgroups = 1;
    tune(TUNABLE_UNPRIVILEGED_SYSPMCS, "1");
    as_user(100, 1000);
    sampler("i", "event=cycles freq=99");
    refused("i", "target", "cpu0", EPERM, X07);
    refused("i", "target", "cgroup:/a", EPERM, X07);
    as_root();
    accepted("i", "target", "cpu0");
}

TEST(kernel_addresses_are_not_passed_on_with_another_target)
{
    as_root();
    sampler("i", "event=cycles:u freq=99 target=50");
    as_user(100, 1000);
    refused("i", "target", "101", EPERM, P18);
    as_root();
    accepted("i", "ctl", "detach");
    as_user(100, 1000);
    accepted("i", "target", "101");
    ck_true(!pmc_of("i")->recorded.kernel);
}

/* ---- records of the engine ---- */

TEST(the_life_of_a_pmc_is_logged_in_order)
{
    sampler("i", "event=cycles:u freq=99");
    accepted("i", "target", "100");
    pending_sample(now(), 100, 0x11);
    tick(80);
    accepted("i", "target", "101");
    accepted("i", "target", "-100");
    accepted("i", "ctl", "stop");
    accepted("i", "ctl", "start");
    accepted("i", "ctl", "close");
    ck_assert_str_eq(log_words("i"),
                     "allocate:sim::cycles:u attach:100 start maps sample:11 attach:101 maps "
                     "detach:100/command stop start maps stop close");
}

/* Only a drain after the stop takes all records, and knows all losses. */
TEST(an_exited_target_is_stopped_before_its_last_records_are_taken)
{
    sampler("i", "event=cycles:u period=5000 target=100");
    tick(80);
    ck_assert_uint_eq(fx.n_stopped, 0);
    fake_kill(&fx.host, 100, true);
    works_run();
    ck_assert_str_eq(read_file("i", "ctl"), "exited\n");
    ck_assert_uint_eq(fx.n_stopped, 1);
    ck_assert_msg(fx.in_pool, "the drain did not run in a slow part");
}

TEST(a_counting_pmc_logs_attaches_and_detaches)
{
    pmc_with("i", "cycles", "100 101");
    accepted("i", "target", "-100");
    fake_kill(&fx.host, 101, true);
    works_run();
    ck_assert_str_eq(log_words("i"),
                     "allocate:sim::cycles attach:100 attach:101 start detach:100/command "
                     "detach:101/exited stop");
    ck_assert_uint_eq(fx.n_recorders, 0);
}

TEST(with_log_off_nothing_is_logged)
{
    sampler("i", "log=off event=cycles target=100");
    accepted("i", "ctl", "stop");
    ck_assert_str_eq(log_words("i"), "");
    ck_assert_ptr_null(pmc_of("i")->log);
    ck_assert_uint_eq(charged(0), pmc_of("i")->sets_bytes);
}

TEST(closing_a_log_stops_recording_and_loses_nothing)
{
    sampler("i", "event=cycles freq=99 target=100");
    pending_sample(now(), 100, 0x22);
    accepted("i", "ctl", "close");
    ck_assert_str_eq(read_file("i", "ctl"), "stopped\n");
    ck_assert_str_eq(log_words("i"),
                     "allocate:sim::cycles attach:100 start maps sample:22 stop close");
    refused("i", "ctl", "start", EDESTADDRREQ, E09);
}

TEST(the_exit_of_the_last_target_is_logged_after_its_records)
{
    sampler("i", "event=cycles freq=99 target=100");
    pending_sample(now(), 100, 0x44);
    fake_kill(&fx.host, 100, true);
    works_run();
    ck_assert_str_eq(read_file("i", "ctl"), "exited\n");
    ck_assert_str_eq(log_words("i"),
                     "allocate:sim::cycles attach:100 start maps sample:44 detach:100/exited stop");
}

TEST(a_cpu_that_goes_offline_and_online_is_logged)
{
    sampler("i", "event=cycles freq=99 target=cpu1,2");
    fake_cpu(&fx.host, 1, false);
    works_run();
    fake_cpu(&fx.host, 1, true);
    works_run();
    ck_assert_str_eq(log_words("i"), "allocate:sim::cycles attach:cpu1 attach:cpu2 start maps "
                                     "detach:cpu1/cpu-offline attach:cpu1");
}

static void tell_at_start(void)
{
    pending_sample(now(), 100, 0x55);
    fx.sink.drain_due(fx.sink.ctx, pmc_of("i")->id);
    works_run(); /* a drain in the middle of the attach */
}

TEST(a_start_is_logged_before_its_records)
{
    sampler("i", "event=cycles freq=99");
    fx.on_start = tell_at_start;
    accepted("i", "target", "100");
    works_run();
    accepted("i", "ctl", "flush");
    ck_assert_str_eq(log_words("i"), "allocate:sim::cycles attach:100 start maps sample:55");
}

TEST(existing_processes_are_logged_at_each_start)
{
    sampler("i", "event=cycles freq=99 autostart=off target=100");
    ck_assert_str_eq(log_words("i"), "allocate:sim::cycles attach:100");
    accepted("i", "ctl", "start");
    accepted("i", "ctl", "stop");
    accepted("i", "ctl", "start");
    ck_assert_str_eq(log_words("i"), "allocate:sim::cycles attach:100 start maps stop start maps");
}

TEST(pids_are_of_the_openers_namespace)
{
    fake_find(&fx.host, 50)->outside = true;
    pmc_with("i", "cycles", "10100");
    ck_assert_str_eq(log_words("i"), "allocate:sim::cycles attach:10100 start");
}

/* ---- sums of switch and exit records ---- */

TEST(the_remainder_of_switch_records_is_logged_at_the_stop)
{
    sampler("i", "event=task-clock log-csw=on target=100");
    pending_note(RECORD_VALUES, now(), 100, 2000000, 0);
    pass_ms(5);
    accepted("i", "ctl", "stop");
    ck_assert_uint_eq(count_of("i"), 5000000);
    ck_assert_str_eq(
        log_words("i"),
        "allocate:software::task-clock attach:100 start maps csw:2000000 csw:3000000 stop");
}

TEST(an_initial_count_is_not_in_switch_records)
{
    sampler("i", "event=task-clock log-csw=on count=77 target=100");
    pass_ms(5);
    accepted("i", "ctl", "stop");
    ck_assert_ptr_nonnull(strstr(log_words("i"), "csw:5000000 stop"));
}

TEST(exits_add_up_when_the_last_process_is_gone)
{
    sampler("i", "event=task-clock log-exit=on target=100");
    pass_ms(5);
    fake_kill(&fx.host, 100, true);
    works_run();
    ck_assert_ptr_nonnull(strstr(log_words("i"), "exit:5000000 detach:100/exited stop"));
}

TEST(switch_records_enabled_later_count_from_then)
{
    pmc_with("i", "task-clock", "100");
    pass_ms(5);
    accepted("i", "ctl", "stop");
    accepted("i", "config", "log-csw=on");
    accepted("i", "ctl", "start");
    pass_ms(3);
    accepted("i", "ctl", "stop");
    ck_assert_uint_eq(count_of("i"), 8000000);
    ck_assert_ptr_nonnull(strstr(log_words("i"), "start maps csw:3000000 stop"));
}

/* ---- recordings ---- */

TEST(settings_reopen_the_counters_on_a_new_recording)
{
    sampler("i", "event=cycles freq=99 target=100");
    accepted("i", "ctl", "stop");
    uint64_t set = fx.plan.set_number;
    struct recorder *recorder = fx.plan.recorder;
    accepted("i", "config", "freq=199");
    ck_assert_ptr_ne(fx.plan.recorder, recorder);
    ck_assert_uint_eq(fx.n_recorders, 1);
    ck_assert_uint_eq(fx.plan.freq, 199);
    ck_assert_uint_ne(fx.plan.set_number, set);
    accepted("i", "config", "freq=99");
    ck_assert_uint_eq(fx.plan.set_number, set); /* the id of the same set is reused */
    ck_assert_str_eq(log_words("i"), "allocate:sim::cycles attach:100 start maps stop");
}

TEST(another_event_has_another_recording)
{
    sampler("i", "event=cycles freq=99 target=100");
    accepted("i", "ctl", "stop");
    accepted("i", "event", "instructions branches");
    ck_assert_uint_eq(fx.n_recorders, 1);
    ck_assert_uint_eq(fx.plan.n, 2);
    accepted("i", "ctl", "start");
    accepted("i", "ctl", "stop");
    accepted("i", "config", "freq=off mode=TC");
    ck_assert_uint_eq(fx.n_recorders, 0);
    ck_assert_ptr_null(fx.plan.recorder);
}

TEST(descriptors_of_a_recorder_are_charged_to_the_pmc)
{
    pmc_with("c", "cycles", "100");
    unsigned long counting = pmc_of("c")->fds, used = fx.engine->fds_used;
    sampler("i", "event=cycles freq=99 target=101");
    ck_assert_uint_eq(pmc_of("i")->fds, counting + 3);
    ck_assert_int_eq(pmc_remove("i"), 0);
    works_run();
    ck_assert_uint_eq(fx.engine->fds_used, used);
    tune(TUNABLE_MAX_FDS_PER_USER, "3");
    as_user(100, 1000);
    sampler("j", "event=cycles freq=99");
    refused("j", "target", "101", EDQUOT, P11);
    ck_assert_uint_eq(fx.n_recorders, 0);
    ck_assert_uint_eq(user_find(fx.engine, 1000)->used[USED_FDS], 0);
}

TEST(a_change_that_fails_leaves_no_recording)
{
    sampler("i", "event=cycles freq=99");
    uint64_t before = charged(0);
    fx.fail[FAIL_START] = 1;
    refused("i", "target", "100", EIO, P14);
    ck_assert_uint_eq(fx.n_recorders, 0);
    ck_assert_uint_le(charged(0), before + 65536);
    accepted("i", "target", "100");
    ck_assert_uint_eq(fx.n_recorders, 1);
}

TEST(buffers_are_an_eighth_of_the_log_within_bounds)
{
    sampler("a", "event=cycles freq=99 logsize=65536 target=100");
    ck_assert_uint_eq(fx.ring_bytes, 16384);
    sampler("b", "event=task-clock freq=99 logsize=1000000 target=100");
    ck_assert_uint_eq(fx.ring_bytes, 65536);
    sampler("c", "event=task-clock freq=99 target=100");
    ck_assert_uint_eq(fx.ring_bytes, 524288);
}

/* ---- memory ---- */

TEST(logs_are_charged_to_their_user_and_refused_beyond_the_quota)
{
    tune(TUNABLE_MAX_LOG_PER_USER, "300000");
    as_user(100, 1000);
    sampler("i", "event=cycles freq=99 logsize=100000");
    accepted("i", "target", "101");
    uint64_t one = charged(1000);
    ck_assert_uint_ge(one, 65536 + 4 * 16384);
    ck_assert_uint_lt(one, 65536 + 5 * 16384);
    sampler("j", "event=cycles freq=99 logsize=400000");
    refused("j", "target", "101", EDQUOT, P11);
    ck_err_has(fx.err, "max_log_per_user");
    ck_assert_uint_eq(fx.n_recorders, 1);
    as_user(200, 2000);
    sampler("k", "event=cycles freq=99 logsize=200000 target=201");
    as_user(100, 1000);
    ck_assert_int_eq(pmc_remove("i"), 0);
    works_run();
    ck_assert_uint_lt(charged(1000), one);
    accepted("j", "config", "logsize=100000 target=101");
}

TEST(a_referenced_log_of_a_released_pmc_is_charged)
{
    as_user(100, 1000);
    pmc_with("i", "cycles", "101");
    ck_true(pmc_ensure_log(pmc_of("i")));
    struct log *log = log_ref(pmc_of("i")->log);
    struct log_stats stats;
    ck_assert_int_eq(pmc_remove("i"), 0);
    works_run();
    log_stats(log, &stats);
    ck_assert_uint_gt(stats.memory, 0);
    ck_assert_uint_eq(charged(1000), stats.memory);
    log_unref(log);
    ck_assert_uint_eq(charged(1000), 0);
}

TEST(a_log_is_charged_to_its_new_owner)
{
    struct call call = {.engine = fx.engine, .instance = fx.engine->root};

    pmc_with("i", "cycles", "101");
    ck_true(pmc_ensure_log(pmc_of("i")));
    uint64_t bytes = charged(0);
    call.pmc = pmc_of("i");
    call.rights = fx.rights;
    ck_assert_int_eq(engine_chown(&call, 2000, (gid_t)-1), 0);
    ck_assert_uint_eq(charged(0), 0);
    ck_assert_uint_eq(charged(2000), bytes);
}

TEST(a_released_pmcs_log_contains_the_release)
{
    sampler("i", "event=cycles freq=99 target=100");
    struct log *log = log_ref(pmc_of("i")->log);
    pending_sample(now(), 100, 0x88);
    ck_assert_int_eq(pmc_remove("i"), 0);
    works_run();
    pmc_with("j", "cycles", "");
    struct log *own = pmc_of("j")->log;
    pmc_of("j")->log = log;
    ck_assert_str_eq(log_words("j"), "allocate:sim::cycles attach:100 start maps sample:88 "
                                     "detach:100/released stop close");
    pmc_of("j")->log = own;
    log_unref(log);
}

/* ---- numbers ---- */

TEST(losses_of_a_log_are_shown_everywhere)
{
    sampler("i", "event=cycles freq=99 target=100");
    record_add_lost(&fx.pending, now(), 0, 7);
    tick(80);
    ck_assert_str_eq(value_of("i", "status", "kernel_lost"), "7");
    ck_assert_str_eq(value_of(NULL, "info/stats", "kernel_lost"), "7");
    ck_assert_str_eq(value_of(NULL, "info/stats", "intr_bufferfull"), "7");
    ck_assert_ptr_nonnull(
        strstr(read_file(NULL, "metrics.prom"), "pmcfs_lost_records_total{pmc=\"i\"} 7\n"));
    ck_assert_int_eq(pmc_remove("i"), 0);
    works_run();
    ck_assert_str_eq(value_of(NULL, "info/stats", "kernel_lost"), "7");
}

/* ---- a later worker ---- */

TEST(a_later_worker_continues_to_record)
{
    sampler("i", "event=cycles period=5000 callchain=on target=100");
    pending_sample(now(), 100, 0x99);
    tick(80);
    const char *words = log_words("i");
    const char *status = read_file("i", "status");
    uint64_t bytes = charged(0);
    engine_reload();
    ck_assert_str_eq(log_words("i"), words);
    ck_assert_str_eq(read_file("i", "status"), status);
    ck_assert_uint_eq(charged(0), bytes);
    ck_assert_ptr_nonnull(fx.plan.recorder);
    ck_assert_uint_eq(fx.plan.period, 5000);
    pending_sample(now(), 100, 0xaa);
    tick(80);
    ck_assert_ptr_nonnull(strstr(log_words("i"), "sample:aa"));
    accepted("i", "ctl", "stop");
    ck_assert_ptr_nonnull(strstr(log_words("i"), "stop"));
}

TEST(switch_records_add_up_in_a_later_worker)
{
    sampler("i", "event=task-clock log-csw=on count=9 target=100");
    pending_note(RECORD_VALUES, now(), 100, 2000000, 0);
    tick(80);
    engine_reload();
    pass_ms(5);
    accepted("i", "ctl", "stop");
    ck_assert_ptr_nonnull(strstr(log_words("i"), "csw:2000000 csw:83000000 stop"));
}
