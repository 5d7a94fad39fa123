/*
 * Serial numbers and their objects.
 */
#include "core/base/vec.h"

#include "tests/unit/unit.h"

#include <stdlib.h>

static struct ids ids;
static char objects[2000]; /* the object of an id is &objects[id] */

static void before(void)
{
    ids = (struct ids){0};
}

static void after(void)
{
    for (uint64_t id; ids_next(&ids, 0, &id);)
        ids_remove(&ids, id);
    ids_free(&ids);
}

SUITE_SETUP(ids, before, after);

static void add_range(uint64_t first, uint64_t last)
{
    for (uint64_t id = first; id <= last; id++)
        ck_true(ids_add(&ids, id, &objects[id]));
}

static void check_walk(const char *expected)
{
    struct buf seen = {0};

    for (uint64_t id = 0; ids_next(&ids, id, &id);)
        buf_printf(&seen, "%u ", (unsigned)id);
    ck_buf(&seen, expected);
    buf_free(&seen);
}

TEST(finds_added_ids)
{
    ck_assert_ptr_eq(ids_find(&ids, 1), NULL);
    add_range(1, 1000);
    for (uint64_t id = 1; id <= 1000; id++)
        ck_assert_ptr_eq(ids_find(&ids, id), &objects[id]);
    ck_assert_ptr_eq(ids_find(&ids, 0), NULL);
    ck_assert_ptr_eq(ids_find(&ids, 1001), NULL);
    ck_assert_uint_eq(ids.n, 1000);
}

TEST(removes_once)
{
    add_range(1, 3);
    ck_assert_ptr_eq(ids_remove(&ids, 2), &objects[2]);
    ck_assert_ptr_eq(ids_remove(&ids, 2), NULL);
    ck_assert_ptr_eq(ids_find(&ids, 2), NULL);
    ck_assert_ptr_eq(ids_remove(&ids, 9), NULL);
    check_walk("1 3 ");
}

TEST(walks_on_while_others_come_and_go)
{
    uint64_t id = 0;

    add_range(1, 6);
    ck_true(ids_next(&ids, id, &id) && id == 1);
    ids_remove(&ids, 1);
    ids_remove(&ids, 2);
    ck_true(ids_next(&ids, id, &id) && id == 3);
    add_range(7, 7);
    ids_remove(&ids, 4);
    ids_remove(&ids, 5);
    ids_remove(&ids, 6);
    ck_true(ids_next(&ids, id, &id) && id == 7);
    ck_assert_ptr_eq(ids_next(&ids, id, &id), NULL);
    ck_assert_ptr_eq(ids_next(&ids, UINT64_MAX, &id), NULL);
}

TEST(takes_absent_ids_in_any_order_while_loading)
{
    static const unsigned order[] = {50, 10, 30, 20, 60, 40};

    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
        ck_true(ids_add(&ids, order[i], &objects[order[i]]));
    check_walk("10 20 30 40 50 60 ");
    ids_remove(&ids, 30);
    ck_true(ids_add(&ids, 30, &objects[30]));
    ck_true(ids_add(&ids, 5, &objects[5]));
    check_walk("5 10 20 30 40 50 60 ");
}

TEST(behaves_like_a_plain_array)
{
    bool model[1000] = {false};
    unsigned live = 0;

    for (unsigned round = 0, random = 1; round < 20000; round++) {
        unsigned id = (random = random * 1103515245 + 12345) / 65536 % 999 + 1;

        if (model[id])
            ck_assert_ptr_eq(ids_remove(&ids, id), &objects[id]);
        else
            ck_true(ids_add(&ids, id, &objects[id]));
        live += model[id] ? -1u : 1u;
        model[id] = !model[id];
        ck_assert_uint_eq(ids.n, live);
        ck_assert_ptr_eq(ids_find(&ids, id), model[id] ? &objects[id] : NULL);
    }
    for (uint64_t id = 0, expected = 0; ids_next(&ids, id, &id);) {
        while (!model[++expected])
            ;
        ck_assert_uint_eq(id, expected);
    }
}

TEST(names_follow_their_ids)
{
    static const char *const expected[] = {"first", "", "a name of twenty-three.", "last", "again"};
    uint64_t id = 0;

    ids.has_names = true;
    for (unsigned i = 10; i > 0; i--) {
        ck_true(ids_add(&ids, i, &objects[i]));
        ids_set_name(&ids, i, "other");
    }
    ids_set_name(&ids, 2, "first");
    ids_set_name(&ids, 4, "a name of 24 bytes, here");
    ids_set_name(&ids, 6, "a name of twenty-three.");
    ids_set_name(&ids, 8, "last");
    for (unsigned i = 1; i <= 10; i += 2)
        ids_remove(&ids, i);
    ids_remove(&ids, 10);
    ck_true(ids_add(&ids, 10, &objects[10])); /* moves the others to the start */
    ids_set_name(&ids, 10, "again");
    for (unsigned i = 0; i < 5; i++) {
        ck_assert_str_eq(ids_next_name(&ids, id, &id), expected[i]);
        ck_assert_uint_eq(id, 2 * i + 2);
        ck_assert_ptr_eq(ids_find(&ids, id), &objects[id]);
    }
    ck_assert_ptr_eq(ids_next_name(&ids, id, &id), NULL);
}

TEST(releases_ten_thousand_in_any_order)
{
    for (uint64_t id = 1; id <= 10000; id++)
        ck_true(ids_add(&ids, id, objects));
    for (uint64_t id = 1; id <= 10000; id += 2)
        ck_assert_ptr_ne(ids_remove(&ids, id), NULL);
    for (uint64_t id; ids_next(&ids, 0, &id);)
        ids_remove(&ids, id);
    ck_assert_uint_eq(ids.n, 0);
}
