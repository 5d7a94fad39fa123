/*
 * The numbered sets of events of a log.
 */
#include "core/log/log_sets.h"

#include "tests/unit/memory.h"
#include "tests/unit/unit.h"

SUITE(log_sets);

static const struct log_event two_events[] = {
    {.name = (char *)"cycles", .resolved = (char *)"cpu/cycles/u", .freq = 997, .chains = true},
    {.name = (char *)"a b\n", .resolved = (char *)"", .period = 5, .type = 4, .config = UINT64_MAX},
};

TEST(sets_are_numbered_and_keep_their_events)
{
    struct log_sets *sets = log_sets_new();

    ck_assert_uint_eq(log_sets_last(sets), 0);
    ck_assert_ptr_null(log_sets_event(sets, 0, 0));
    ck_assert_uint_eq(log_sets_add(sets, two_events, 2), 1);
    ck_assert_uint_eq(log_sets_add(sets, two_events, 1), 2);
    ck_assert_uint_eq(log_sets_last(sets), 2);
    ck_assert_uint_eq(log_sets_events(sets, 1), 2);
    ck_assert_uint_eq(log_sets_events(sets, 3), 0);
    ck_assert_str_eq(log_sets_event(sets, 1, 0)->resolved, "cpu/cycles/u");
    ck_assert_ptr_ne(log_sets_event(sets, 1, 0)->name, two_events[0].name);
    ck_assert_ptr_null(log_sets_event(sets, 2, 1));
    ck_assert_ptr_null(log_sets_event(sets, 3, 0));
    log_sets_unref(sets);
}

TEST(a_set_without_memory_has_no_number)
{
    struct log_sets *sets = log_sets_new();

    for (unsigned n = 1; n <= 9; n++) {
        memory_fail_at(n);
        ck_assert_uint_eq(log_sets_add(sets, two_events, 2), 0);
        memory_fail_at(0);
    }
    ck_assert_uint_eq(log_sets_add(sets, two_events, 2), 1);
    log_sets_unref(sets);
}
