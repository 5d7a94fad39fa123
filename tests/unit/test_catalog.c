/*
 * The list of events, its order and its ids.
 */
#include "core/base/event.h"

#include "tests/unit/unit.h"

#include <stdio.h>

static struct catalog catalog;

static void before(void)
{
    catalog = (struct catalog){0};
}

static void after(void)
{
    catalog_free(&catalog);
}

SUITE_SETUP(catalog, before, after);

static void add_some(void)
{
    catalog_add(&catalog, "software", "page-faults");
    catalog_add(&catalog, "cpu", "instructions");
    catalog_add(&catalog, "software", "cpu-clock");
    catalog_add(&catalog, "cpu", "cycles");
    catalog_add(&catalog, "cpu", "instructions");
    ck_assert_int_eq(catalog_finish(&catalog), 0);
}

TEST(sorts_by_class_then_event_without_duplicates)
{
    struct buf text = {0};

    add_some();
    for (size_t i = 0; i < catalog.n; i++)
        buf_printf(&text, "%s/%s ", catalog.entries[i].class_name, catalog.entries[i].event);
    ck_buf(&text, "cpu/cycles cpu/instructions software/cpu-clock software/page-faults ");
    buf_free(&text);
    ck_assert_uint_eq(catalog.n_classes, 2);
    ck_assert_str_eq(catalog.classes[1].name, "software");
    ck_assert_uint_eq(catalog.classes[1].first, 2);
    ck_assert_uint_eq(catalog.classes[1].n, 2);
}

TEST(finds_by_name_and_by_id)
{
    const struct catalog_class *cpu;
    const struct catalog_entry *cycles;

    add_some();
    cpu = catalog_class(&catalog, "cpu");
    cycles = catalog_event(&catalog, cpu, "cycles");
    ck_true(cpu && cycles);
    ck_assert_str_eq(cycles->event, "cycles");
    ck_assert_ptr_eq(catalog_class_by_id(&catalog, cpu->id), cpu);
    ck_assert_ptr_eq(catalog_event_by_id(&catalog, cycles->id), cycles);
    ck_assert_ptr_eq(catalog_event_by_id(&catalog, cpu->id), NULL);
    ck_assert_ptr_eq(catalog_class_by_id(&catalog, cycles->id), NULL);
}

TEST(ids_do_not_depend_on_other_events)
{
    uint64_t id;

    add_some();
    id = catalog.entries[0].id;
    catalog_free(&catalog);
    catalog_add(&catalog, "cpu", "cycles");
    ck_assert_int_eq(catalog_finish(&catalog), 0);
    ck_assert_uint_eq(catalog.entries[0].id, id);
}

TEST(many_ids_are_distinct_and_fit_a_node_number)
{
    char name[32];

    for (unsigned i = 0; i < 50000; i++) {
        snprintf(name, sizeof(name), "event-%u", i * 7919 % 50000);
        catalog_add(&catalog, i % 3 ? "cpu" : "tracepoint", name);
    }
    ck_assert_int_eq(catalog_finish(&catalog), 0);
    ck_assert_uint_eq(catalog.n, 50000);
    for (size_t i = 0; i < catalog.n; i++) {
        uint64_t id = catalog.entries[i].id;

        ck_true(id && id < UINT64_C(1) << 52);
        ck_assert_ptr_eq(catalog_event_by_id(&catalog, id), &catalog.entries[i]);
    }
}
