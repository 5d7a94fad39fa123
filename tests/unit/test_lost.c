/*
 * Targets that lose their events or exit while no request runs, and the set of changed objects
 * (engine_touch()).
 */
#include "tests/unit/unit.h"

#include "core/pmc/pmc.h"
#include "tests/unit/fixture.h"

#include <errno.h>

SUITE_SETUP(lost, fixture_setup, fixture_close);

static struct link *link_of(const char *name)
{
    return pmc_of(name)->links->link[0];
}

/* Reports to the engine that the kernel has removed the events of the PMC's target. */
static void target_loses_events(const char *name)
{
    fx.sink.guard_fired(fx.sink.ctx, link_of(name)->proc->id);
}

static void one_attach_fails(void)
{
    fx.fail[FAIL_ATTACH] = 1;
    works_run();
    ck_assert_uint_eq(fx.fail[FAIL_ATTACH], 0);
}

/* ---- reattaching ---- */

TEST(a_target_that_cannot_be_reattached_has_exited_after_the_next_try)
{
    pmc_with("a", "task-clock", "100");
    pass_ms(1);
    target_loses_events("a");
    one_attach_fails();
    ck_true(link_of("a")->state != LINK_ENDED);
    retries_run();
    ck_true(link_of("a")->state == LINK_ENDED);
    ck_assert_str_eq(read_file("a", "ctl"), "exited\n");
    ck_assert_str_eq(value_of("a", "status", "partial"), "yes");
}

TEST(a_failed_reattach_survives_a_reload)
{
    pmc_with("a", "task-clock", "100");
    target_loses_events("a");
    one_attach_fails();
    engine_reload();
    retries_run();
    ck_assert_str_eq(read_file("a", "ctl"), "exited\n");
}

TEST(losing_events_again_allows_another_reattach)
{
    pmc_with("a", "task-clock", "100");
    target_loses_events("a");
    one_attach_fails();
    target_loses_events("a");
    retries_run();
    ck_assert_str_eq(read_file("a", "ctl"), "running\n");
    const uint64_t before = count_of("a");
    pass_ms(1);
    ck_assert_uint_eq(count_of("a") - before, 1000000);
}

TEST(a_loss_of_a_descendant_allows_another_reattach)
{
    pmc_with("a", "task-clock", "100");
    target_loses_events("a");
    one_attach_fails();
    ck_true(link_of("a")->noted & NOTE_FAILED);
    link_of("a")->loss = LOSS_NONE;
    link_lost_descendant(link_of("a"));
    ck_true(!(link_of("a")->noted & NOTE_FAILED));
    retries_run();
    ck_assert_str_eq(read_file("a", "ctl"), "running\n");
}

TEST(a_failed_reattach_does_not_count_for_a_loss_during_it)
{
    struct held held;

    pmc_with("a", "task-clock", "100");
    target_loses_events("a");
    fx.fail[FAIL_ATTACH] = 1;
    held_task(&held);
    while (fx.fail[FAIL_ATTACH] && held.rc == HELD) {
        held_run(&held);
        if (fx.fail[FAIL_ATTACH])
            held_step(&held);
    }
    ck_assert_int_eq(held.rc, HELD);
    target_loses_events("a");
    held_finish(&held);
    ck_true(!(link_of("a")->noted & NOTE_FAILED));
    retries_run();
    ck_assert_str_eq(read_file("a", "ctl"), "running\n");
}

TEST(a_loss_of_the_target_is_checked_after_a_loss_of_a_descendant)
{
    as_user(101, 1000);
    pmc_with("a", "task-clock", "100");
    link_lost_descendant(link_of("a"));
    fake_find(&fx.host, 100)->uid = 0; /* a set-user-ID program */
    target_loses_events("a");
    works_run();
    ck_assert_str_eq(read_file("a", "ctl"), "exited\n");
}

TEST(events_removed_after_a_refusal_are_checked_again)
{
    struct held held;

    as_user(101, 1000);
    pmc_with("a", "task-clock", "100");
    fake_find(&fx.host, 100)->uid = 0;
    target_loses_events("a");
    held_task(&held);
    held_run(&held); /* the check: refused */
    fake_find(&fx.host, 100)->uid = 1000;
    target_loses_events("a");
    held_finish(&held);
    works_run();
    ck_assert_str_eq(read_file("a", "ctl"), "running\n");
}

TEST(a_process_without_its_first_thread_has_lost_nothing)
{
    pmc_with("a", "task-clock", "100");
    fx.host.headless = true;
    target_loses_events("a");
    works_run();
    ck_true(link_of("a")->loss == LOSS_NONE);
    fx.host.headless = false;
    ck_assert_str_eq(value_of("a", "status", "partial"), "no");
}

TEST(an_absent_cgroup_is_tried_ten_times)
{
    unsigned tries = 0;

    fx.lazy = true;
    fx.host.cgroup[0] = (struct fake_cgroup){"/a", false};
    fx.host.n_cgroups = 1;
    ck_assert_int_eq(pmc_make("a"), 0);
    accepted("a", "config", "event=cycles reattach=on target=cgroup:/a");
    ck_assert_str_eq(read_file("a", "ctl"), "waiting\n");
    fx.host.cgroup[0].alive = true;
    fx.sink.cgroup_changed(fx.sink.ctx, pmc_of("a")->id);
    for (fx.fail[FAIL_ATTACH] = 1; tries < 30; tries++) {
        pass_ms(1000);
        engine_tick(fx.engine, fx.host.now_ns);
        works_run();
        if (fx.fail[FAIL_ATTACH])
            break;
        fx.fail[FAIL_ATTACH] = 1;
    }
    ck_assert_uint_eq(tries, 11); /* the first one and ten more */
    fx.fail[FAIL_ATTACH] = 0;
    fx.sink.cgroup_changed(fx.sink.ctx, pmc_of("a")->id);
    retries_run();
    ck_assert_str_eq(read_file("a", "ctl"), "running\n");
}

TEST(a_guard_that_has_fired_is_replaced)
{
    guards_on();
    pmc_with("a", "task-clock", "100");
    ck_assert_uint_eq(fx.guards_opened, 1);
    target_loses_events("a");
    works_run();
    ck_assert_uint_eq(fx.guards_opened, 2);
    ck_assert_uint_eq(fx.n_guards, 1);
}

/* ---- exits ---- */

TEST(a_target_without_tasks_has_exited_after_a_reload)
{
    pmc_with("a", "task-clock", "100");
    fx.lazy = true;
    fake_kill(&fx.host, 100, false);
    fx.sink.counter_gone(fx.sink.ctx, link_of("a")->id);
    engine_reload(); /* the report of sink.counter_gone() survives */
    works_run();
    ck_assert_int_eq(pmc_of("a")->state, PMC_EXITED);
}

TEST(a_target_without_tasks_has_exited_without_a_reader)
{
    pmc_with("a", "task-clock", "100");
    fake_kill(&fx.host, 100, false);
    fx.sink.counter_gone(fx.sink.ctx, link_of("a")->id);
    works_run();
    ck_assert_int_eq(pmc_of("a")->state, PMC_EXITED);
}

/* Exits of single threads are not watched. */
TEST(the_exit_of_a_thread_without_events_reaches_all_its_pmcs)
{
    pmc_with("a", "task-clock", "tid:1091");
    pmc_with("b", "task-clock", "tid:1091");
    target_loses_events("a");
    fake_kill(&fx.host, 109, false);
    works_run();
    ck_assert_int_eq(pmc_of("a")->state, PMC_EXITED);
    ck_assert_int_eq(pmc_of("b")->state, PMC_EXITED);
}

TEST(a_thread_that_exits_after_losing_its_events_has_missed_counts)
{
    pmc_with("a", "task-clock", "tid:1091");
    target_loses_events("a");
    works_run();
    ck_assert_str_eq(value_of("a", "status", "partial"), "yes");
    fake_kill(&fx.host, 109, false);
    ck_assert_str_eq(read_file("a", "ctl"), "exited\n");
    ck_assert_str_eq(value_of("a", "status", "partial"), "yes");
}

TEST(the_exit_of_a_privileged_program_has_missed_counts)
{
    guards_on();
    pmc_with("a", "task-clock", "100");
    pmc_with("b", "task-clock", "101");
    fake_kill(&fx.host, 101, true);
    works_run();
    ck_assert_str_eq(value_of("b", "status", "partial"), "no");
    fx.guard_lost_events = true; /* but the engine notices the exit first */
    fake_kill(&fx.host, 100, true);
    works_run();
    ck_assert_int_eq(pmc_of("a")->state, PMC_EXITED);
    ck_assert_str_eq(value_of("a", "status", "partial"), "yes");
    ck_true(link_of("a")->loss == LOSS_TARGET);
    ck_true(strstr(log_words("a"), "/exec-privileged"));
}

TEST(the_exit_of_a_target_is_noticed_after_a_reload)
{
    pmc_with("a", "task-clock", "100");
    engine_reload();
    ck_assert_uint_eq(fx.host.n_watches, 1);
    fake_kill(&fx.host, 100, true);
    works_run();
    ck_assert_int_eq(pmc_of("a")->state, PMC_EXITED);
}

TEST(a_dead_process_is_not_watched_after_a_reload)
{
    pmc_with("a", "task-clock", "");
    accepted("a", "config", "descendants=on target=100");
    fx.lazy = true;
    fake_kill(&fx.host, 100, true);
    engine_reload();
    ck_assert_uint_eq(fx.host.n_watches, 0);
    fx.lazy = false;
    works_run();
}

/* ---- changed objects ---- */

static void changes_write(void)
{
    engine_write_records(fx.engine);
    ck_true(engine_publish(fx.engine, true, false));
}

static size_t touched(enum journal_kind kind, uint64_t id)
{
    engine_touch(fx.engine, kind, id);
    return fx.engine->touched.n;
}

TEST(a_changed_object_is_noted_once_by_kind_and_id)
{
    changes_write();
    ck_assert_uint_eq(touched(JOURNAL_PMC, 1u << 20), 1);
    ck_assert_uint_eq(touched(JOURNAL_PROCESS, 1u << 20), 2);
    ck_assert_uint_eq(touched(JOURNAL_PMC, (1u << 20) + 1), 3);
    ck_assert_uint_eq(touched(JOURNAL_PMC, UINT64_C(1) << 40), 4);
    ck_assert_uint_eq(touched(JOURNAL_PMC, 1u << 20), 4);
    ck_assert_uint_eq(touched(JOURNAL_PROCESS, 1u << 20), 4);
    ck_assert_uint_eq(touched(JOURNAL_PMC, UINT64_C(1) << 40), 4);
    engine_touched_clear(fx.engine);
    ck_assert_uint_eq(touched(JOURNAL_PMC, 1u << 20), 1);
    engine_touched_clear(fx.engine);
}

static uint64_t random_id(void)
{
    static uint64_t state = UINT64_C(88172645463325252);

    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state >> 40;
}

/* The table is full, so that a search passes the object of the other kind with the same id. */
TEST(objects_of_two_kinds_with_one_id_are_two_objects)
{
    const struct touches *touches = &fx.engine->touched;

    changes_write();
    for (unsigned round = 0; round < 2000; round++) {
        for (size_t n = 0; n < 30; n += 2) {
            const uint64_t id = random_id() << 8 | n;

            touched(JOURNAL_PMC, id);
            ck_assert_uint_eq(touched(id & 256 ? JOURNAL_ERROR : JOURNAL_INSTANCE, id), n + 2);
        }
        engine_touched_clear(fx.engine);
        for (size_t i = 0; i < touches->table_size; i++)
            ck_assert_uint_eq(touches->table[i], 0);
    }
}

/* A linear search for each object would not finish in time. */
TEST(a_million_changed_objects_are_noted_in_time)
{
    const enum journal_kind kinds[] = {JOURNAL_PMC, JOURNAL_PROCESS};

    changes_write();
    for (unsigned round = 0; round < 2; round++)
        for (uint64_t i = 0; i < 1000000; i++)
            touched(kinds[i % 2], 1000 + i / 2);
    ck_assert_uint_eq(fx.engine->touched.n, 1000000);
    engine_touched_clear(fx.engine);
    ck_assert_uint_eq(touched(JOURNAL_PMC, 1000), 1);
    engine_touched_clear(fx.engine);
}
