/*
 * Drains: when, by which tasks, and which of them wait.
 */
#include "tests/unit/unit.h"

#include "core/pmc/pmc.h"
#include "tests/unit/fixture.h"

#include <stdio.h>

static void setup(void)
{
    fixture_open("sim_cpus=4 sim_rows=4");
    recorders_on();
}

SUITE_SETUP(drain, setup, fixture_close);

static uint64_t now(void)
{
    return fx.host.now_ns;
}

static bool task(void)
{
    struct call call = {.engine = fx.engine, .instance = fx.engine->root};

    return engine_task(&call);
}

static void sampler(const char *name, const char *config)
{
    ck_assert_int_eq(pmc_make(name), 0);
    accepted(name, "config", config);
}

TEST(a_running_sampler_is_drained_at_each_tick_and_readers_are_woken)
{
    uint64_t id;
    bool woken = false;

    sampler("i", "event=cycles freq=99 target=100");
    works_run();
    pending_sample(now(), 100, 0x66);
    pass_ms(100);
    ck_assert_uint_le(engine_deadline(fx.engine), now());
    engine_tick(fx.engine, now());
    ck_true(task());
    while (engine_next_wake(fx.engine, &id))
        woken |= id == pmc_of("i")->id;
    ck_true(woken);
    ck_assert_ptr_nonnull(strstr(log_words("i"), "sample:66"));
    ck_assert_str_eq(value_of(NULL, "info/stats", "log_sweeps"), "1");
}

TEST(an_empty_drain_wakes_nobody)
{
    uint64_t id;

    sampler("i", "event=cycles freq=99 target=100");
    works_run();
    pass_ms(100);
    engine_tick(fx.engine, now());
    ck_true(task());
    ck_true(!engine_next_wake(fx.engine, &id));
    ck_assert_str_eq(value_of(NULL, "info/stats", "log_sweeps"), "0");
}

TEST(a_full_buffer_is_drained_at_once)
{
    sampler("i", "event=cycles freq=99 target=100");
    pending_sample(now(), 100, 0x77);
    fx.sink.drain_due(fx.sink.ctx, pmc_of("i")->id);
    works_run();
    ck_assert_ptr_nonnull(strstr(log_words("i"), "sample:77"));
}

TEST(a_sampler_that_does_not_run_needs_no_tick)
{
    sampler("i", "event=cycles freq=99");
    ck_assert_uint_eq(engine_deadline(fx.engine), UINT64_MAX);
    accepted("i", "target", "100");
    ck_assert_uint_ne(engine_deadline(fx.engine), UINT64_MAX);
    accepted("i", "ctl", "stop");
    ck_assert_uint_eq(engine_deadline(fx.engine), UINT64_MAX);
    accepted("i", "ctl", "start");
    ck_assert_int_eq(pmc_remove("i"), 0);
    ck_assert_uint_eq(engine_deadline(fx.engine), UINT64_MAX);
}

TEST(many_are_drained_by_few_tasks)
{
    char name[8];
    unsigned tasks = 0;

    for (unsigned i = 0; i < 70; i++) {
        snprintf(name, sizeof name, "p%u", i);
        sampler(name, "event=task-clock freq=99 logsize=65536 target=100");
    }
    works_run();
    pass_ms(100);
    engine_tick(fx.engine, now());
    while (task())
        tasks++;
    ck_assert_uint_eq(tasks, 2);
}

/* Runs the next task, which must be a drain of this PMC, until it drops the lock. held_finish()
 * runs the rest. */
static void drain_of(struct held *held, const char *name)
{
    held_task(held);
    ck_assert_int_eq(held->rc, HELD);
    ck_true(pmc_of(name)->drain.running);
}

static void drain_end(struct held *held)
{
    ck_assert_int_eq(held_step(held), CALL_DONE);
}

TEST(nobody_waits_for_the_drain_of_another_user)
{
    struct held first, second;

    sampler("r1", "event=task-clock freq=99 target=100");
    sampler("r2", "event=task-clock freq=99 target=100");
    as_user(100, 1000);
    sampler("a", "event=task-clock freq=99 target=100");
    works_run();
    pass_ms(100);
    engine_tick(fx.engine, now());
    held_task(&first);
    ck_assert_int_eq(first.rc, HELD);
    ck_assert_uint_ne(pmc_of("a")->drain.running, pmc_of("r1")->drain.running);
    ck_assert_uint_eq(pmc_of("r1")->drain.running, pmc_of("r2")->drain.running);
    held_task(&second);
    ck_assert_int_eq(second.rc, HELD);
    ck_true(pmc_of("a")->drain.running && pmc_of("r1")->drain.running);
    drain_end(&second);
    drain_end(&first);
    ck_true(!task());
}

TEST(one_task_at_a_time_drains_for_a_user)
{
    struct held first, second;

    sampler("i", "event=task-clock freq=99 target=100");
    sampler("j", "event=task-clock freq=99 target=100");
    works_run();
    fx.sink.drain_due(fx.sink.ctx, pmc_of("i")->id);
    drain_of(&first, "i");
    fx.sink.drain_due(fx.sink.ctx, pmc_of("j")->id);
    ck_true(!engine_has_task(fx.engine) && !task());
    drain_end(&first);
    drain_of(&second, "j");
    drain_end(&second);
}

TEST(a_pmc_is_released_while_it_is_drained)
{
    sampler("i", "event=cycles freq=99 target=100");
    works_run();
    pass_ms(100);
    engine_tick(fx.engine, now());
    struct held drain;
    drain_of(&drain, "i");
    ck_assert_int_eq(pmc_remove("i"), 0);
    drain_end(&drain);
    works_run();
    ck_assert_uint_eq(fx.n_recorders, 0);
}
