/*
 * Containers: a hash table and an array are unchanged after ENOMEM.
 */
#include "core/base/vec.h"
#include "tests/unit/memory.h"
#include "tests/unit/unit.h"

SUITE(containers);

struct element {
    int key;
    UT_hash_handle hh;
};

TEST(a_table_without_memory_is_as_it_was)
{
    static struct element elements[100];

    for (unsigned n = 1; n < 6; n++) {
        struct element *table = NULL, *found;
        unsigned in = 0;

        memory_fail_at(n);
        for (int i = 0; i < 100; i++) {
            elements[i].key = i;
            HASH_ADD_INT(table, key, &elements[i]);
            in += hash_has(&elements[i]);
        }
        memory_fail_at(0);
        ck_assert_uint_eq(HASH_COUNT(table), in);
        for (int i = 0; i < 100; i++) {
            HASH_FIND_INT(table, &i, found);
            ck_assert_ptr_eq(found, hash_has(&elements[i]) ? &elements[i] : NULL);
        }
        HASH_CLEAR(hh, table);
    }
}

TEST(an_array_without_memory_is_as_it_was)
{
    VEC(int) array = {0};
    int rc;

    for (int i = 0; i < 100; i++)
        ck_true(vec_push(&array, i) == 0);
    while (array.n < array.cap)
        ck_true(vec_push(&array, (int)array.n) == 0);
    memory_fail_at(1);
    rc = vec_push(&array, 0);
    memory_fail_at(0);
    ck_assert_int_eq(rc, -ENOMEM);
    vec_remove(&array, 50);
    for (int i = 0; i < (int)array.n; i++)
        ck_assert_int_eq(array.items[i], i < 50 ? i : i + 1);
    free(array.items);
}
