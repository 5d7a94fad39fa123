/*
 * The engine: deferred work, tasks, statistics, lists of events, ENOMEM at any allocation.
 */
#include "tests/unit/unit.h"

#include "core/pmc/pmc.h"
#include "tests/unit/fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

SUITE_SETUP(engine, fixture_setup, fixture_close);

TEST(nothing_is_left_of_an_empty_engine)
{
    uint64_t id;

    ck_assert_uint_eq(fx.engine->pmcs.n, 0);
    ck_assert_ptr_eq(engine_pmc_next(fx.engine->root, 0, &id), NULL);
    ck_assert_uint_eq(engine_deadline(fx.engine), UINT64_MAX);
}

TEST(serials_are_never_used_again)
{
    struct pmc first, second;

    ck_assert_int_eq(pmc_make("a"), 0);
    first = *pmc_of("a");
    ck_assert_int_eq(pmc_remove("a"), 0);
    ck_assert_int_eq(pmc_make("a"), 0);
    second = *pmc_of("a");
    ck_assert_uint_gt(second.id, first.id);
    ck_assert_ptr_eq(ids_find(&fx.engine->pmcs, first.id), NULL);
    engine_reload();
    ck_assert_int_eq(pmc_make("b"), 0);
    first = *pmc_of("b");
    ck_assert_uint_gt(first.id, second.id);
}

TEST(each_touched_object_is_remembered_once)
{
    const struct touches *touched = &fx.engine->touched;
    const uint64_t n = 5000;

    engine_write_records(fx.engine);
    for (unsigned round = 1; round <= 3; round++) {
        for (uint64_t i = 0; i < 2 * n; i++) {
            engine_touch(fx.engine, JOURNAL_PMC, 1000000 + i % n * round);
            engine_touch(fx.engine, JOURNAL_PROCESS, 1000000 + i % n * round);
        }
        ck_assert_uint_eq(touched->n, 2 * n);
        for (uint64_t i = 0; i < 2 * n; i++) {
            ck_assert_uint_eq(touched->items[i].id, 1000000 + i / 2 * round);
            ck_assert_uint_eq(touched->items[i].kind, i % 2 ? JOURNAL_PROCESS : JOURNAL_PMC);
        }
        engine_touched_clear(fx.engine);
        for (size_t i = 0; i < touched->table_size; i++)
            ck_assert_uint_eq(touched->table[i], 0);
    }
}

TEST(readdir_walks_in_order_while_others_come_and_go)
{
    char name[3] = "a0";
    uint64_t id = 0;
    unsigned n = 0;

    for (unsigned i = 0; i < 5; i++, name[1]++)
        ck_assert_int_eq(pmc_make(name), 0);
    for (; engine_pmc_next(fx.engine->root, id, &id); n++) {
        if (n == 1) {
            ck_assert_int_eq(pmc_remove("a0"), 0);
            ck_assert_int_eq(pmc_remove("a3"), 0);
        }
    }
    ck_assert_uint_eq(n, 4);
}

TEST(a_death_wakes_waiting_requests_and_a_removal_is_announced)
{
    struct gone_name gone;
    uint64_t id;

    as_user(100, 1000);
    pmc_with("i", "cycles", "");
    accepted("i", "config", "lifetime=owner");
    fake_kill(&fx.host, 100, true);
    ck_true(engine_next_wake(fx.engine, &id));
    ck_true(engine_next_name(fx.engine, &gone) && !gone.is_instance && gone.instance == 0);
    ck_assert_str_eq(gone.name, "i");
}

TEST(descriptors_come_back_after_refusals)
{
    pmc_with("i", "cycles page-faults", "100");
    fx.fail[FAIL_ATTACH] = 2;
    refused("i", "target", "101 102", EIO, P14);
    fx.fail[FAIL_START] = 2;
    refused("i", "target", "101 102", EIO, P14);
    ck_assert_str_eq(value_of(NULL, "info/stats", "descriptors"), "3");
}

static int catalog_operation(struct held *held)
{
    return engine_catalog_load(&held->call, false);
}

TEST(the_catalogue_is_made_once)
{
    struct held held[2];

    for (unsigned i = 0; i < 2; i++) {
        memset(&held[i], 0, sizeof held[i]);
        held[i].call = (struct call){.engine = fx.engine, .instance = fx.engine->root};
        held_start(&held[i], catalog_operation);
        ck_assert_int_eq(held[i].rc, HELD);
        held_run(&held[i]);
    }
    ck_assert_int_eq(held_step(&held[1]), 0);
    ck_assert_int_eq(held_step(&held[0]), 0);
    ck_assert_ptr_ne(engine_catalog(fx.engine), NULL);
}
