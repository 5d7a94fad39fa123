/*
 * Each allocation of each operation fails once: the operation is refused without effect, or done.
 */
#include "tests/unit/unit.h"

#include "core/pmc/pmc.h"
#include "tests/unit/fixture.h"
#include "tests/unit/memory.h"

#include <errno.h>
#include <stdlib.h>

SUITE_SETUP(memory, fixture_setup, fixture_close);

static void prepare(void)
{
    fx.host.cgroup[0] = (struct fake_cgroup){"/a", true};
    fx.host.n_cgroups = 1;
    pmc_with("i", "cycles page-faults", "100 101");
    pmc_with("j", "instructions", "100");
    pmc_with("s", "branches", "cpu0-1");
    ck_assert_int_eq(pmc_make("n"), 0);
    pass_ms(1);
    accepted("i", "ctl", "stop");
}

static const char *const commands[][3] = {
    {"i", "target", "102 103 102"},
    {"i", "target", "-100"},
    {"i", "event", "instructions branches"},
    {"i", "ctl", "start"},
    {"i", "ctl", "restart"},
    {"i", "ctl", "reset"},
    {"i", "ctl", "detach"},
    {"i", "count", "5,6"},
    {"i", "config", "user=off target=105"},
    {"i", "config", "lifetime=owner interval=5"},
    {"s", "target", "all"},
    {"s", "target", "-cpu0 cpu2"},
    {"n", "event", "cycles"},
    {"n", "config", "event=wide target=104"},
    {"n", "config", "event=cycles target=cgroup:/a"},
    {"j", "target", "999 102"},
};

TEST(e32_ce02_a_command_is_done_or_refused_completely)
{
    for (unsigned i = 0; i < sizeof commands / sizeof commands[0]; i++)
        for (unsigned n = 1;; n++) {
            fixture_close();
            fixture_open(NULL);
            prepare();
            const char *before = all_texts();
            memory_fail_at(n);
            int rc = write_file(commands[i][0], commands[i][1], commands[i][2]);
            bool ended = memory_failed();
            struct err err = fx.err;
            memory_fail_at(0);
            works_run();
            if (!ended)
                break;
            if (rc == 0)
                continue; /* only the sentence was lost */
            ck_assert_msg(rc == ENOMEM, "%s: allocation %u: %d %s", commands[i][2], n, rc,
                          err.text);
            ck_assert_msg(texts_same(before), "%s: allocation %u: %s", commands[i][2], n,
                          fx.err.text);
        }
}

TEST(a_snapshot_is_complete_or_enomem)
{
    static const char *const files[] = {"config", "detail", "status", "target", "count", "ctl"};

    for (unsigned i = 0; i < 7; i++)
        for (unsigned n = 1;; n++) {
            struct held held;

            fixture_close();
            fixture_open(NULL);
            prepare();
            memory_fail_at(n);
            held_read(&held, i < 6 ? "i" : NULL, i < 6 ? files[i] : "metrics.prom");
            held_finish(&held);
            bool ended = memory_failed();
            memory_fail_at(0);
            ck_true(held.rc == 0 || held.rc == -ENOMEM);
            buf_free(&held.out);
            works_run();
            if (!ended)
                break;
        }
}

TEST(an_exit_without_memory_is_processed_later)
{
    for (unsigned n = 1; n < 40; n++) {
        fixture_close();
        fixture_open(NULL);
        prepare();
        memory_fail_at(n);
        fake_kill(&fx.host, 100, true);
        works_run();
        memory_fail_at(0);
        works_run();
        ck_assert_str_eq(read_file("i", "target"), "101\n");
        ck_assert_str_eq(read_file("j", "ctl"), "exited\n");
    }
}

TEST(a_failed_change_of_the_tree_leaves_it_consistent)
{
    for (unsigned n = 1; n < 20; n++) {
        fixture_close();
        fixture_open(NULL);
        prepare();
        memory_fail_at(n);
        bool made = pmc_make("new") == 0, renamed = pmc_rename("j", "k") == 0;
        bool removed = pmc_remove("i") == 0;
        memory_fail_at(0);
        ck_true(removed);
        works_run();
        ck_true(made == (pmc_of("new") != NULL));
        ck_true(renamed == (pmc_of("k") != NULL) && renamed == (pmc_of("j") == NULL));
        ck_assert_ptr_eq(pmc_of("i"), NULL);
        ck_assert_uint_eq(fx.host.n_handles, 1);
    }
}

TEST(a_release_is_tried_until_there_is_memory)
{
    prepare();
    fx.lazy = true;
    for (unsigned i = 0; i < 3; i++) {
        memory_fail_at(1);
        if (i == 0)
            ck_assert_int_eq(pmc_remove("s"), 0);
        works_run(); /* terminates */
        ck_true(i > 0 || memory_failed());
        ck_true(!engine_has_task(fx.engine)); /* no immediate retry */
        memory_fail_at(0);
        pass_ms(100);
        engine_tick(fx.engine, fx.host.now_ns);
    }
    works_run();
    pmc_with("t", "cycles instructions", "cpu0"); /* the row is free */
}

TEST(a_wake_needs_no_memory)
{
    uint64_t id;

    prepare();
    memory_fail_at(1);
    fake_kill(&fx.host, 100, true);
    pmc_wake(pmc_of("j"));
    ck_true(engine_next_wake(fx.engine, &id));
    memory_fail_at(0);
    ck_assert_uint_eq(id, pmc_of("j")->id);
}

TEST(a_state_is_loaded_or_refused)
{
    prepare();
    char *text = journal_text();
    unsigned n = 1;
    for (;; n++) {
        struct err err = {0};

        fixture_close();
        fixture_open(NULL);
        prepare();
        engine_recreate();
        memory_fail_at(n);
        int rc = journal_load(text, strlen(text), &err);
        bool ended = memory_failed();
        memory_fail_at(0);
        as_root();
        works_run();
        if (!ended)
            break;
        ck_true(rc == 0 || rc == -EINVAL);
    }
    ck_assert_uint_gt(n, 50);
    free(text);
}

/* If a record does not fit, no record and no answer is published before the next full snapshot. */
TEST(after_a_record_did_not_fit_only_a_full_snapshot_is_published)
{
    prepare();
    engine_write_records(fx.engine);
    ck_true(engine_publish(fx.engine, true, false));
    const uint32_t published = journal_publications(fx.journal);
    ck_assert_int_eq(write_file("i", "event", "nonsense"), EINVAL);
    pmc_make("fresh");
    ck_assert_int_eq(pmc_remove("n"), 0);
    engine_write_records(fx.engine);
    ck_true(!engine_publish(fx.engine, false, true)); /* a record of the caller did not fit */
    ck_assert_uint_eq(journal_publications(fx.journal), published);
    ck_true(engine_write_records(fx.engine));
    ck_true(engine_publish(fx.engine, true, false));
    ck_assert_uint_eq(journal_publications(fx.journal), published + 1);
    engine_reload();
    ck_true(pmc_of("fresh") && !pmc_of("n"));
    ck_assert_ptr_nonnull(strstr(read_file(NULL, "info/last_error"), "nonsense"));
}
