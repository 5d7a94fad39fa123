/*
 * One program for all unit tests. A file has SUITE(name) once, and TEST(behaviour) { … } for each
 * test; tests register themselves. A new file also needs an entry in SUITES below.
 */
#pragma once

#include "core/base/buf.h"
#include "core/base/scan.h"

#include <assert.h>
#include <check.h>
#include <string.h>

#define SUITES(X)                                                                                  \
    X(access)                                                                                      \
    X(buf)                                                                                         \
    X(catalog)                                                                                     \
    X(change)                                                                                      \
    X(change_record)                                                                               \
    X(containers)                                                                                  \
    X(count)                                                                                       \
    X(cpus)                                                                                        \
    X(drain)                                                                                       \
    X(engine)                                                                                      \
    X(err)                                                                                         \
    X(exits)                                                                                       \
    X(folded)                                                                                      \
    X(follow)                                                                                      \
    X(inflight)                                                                                    \
    X(ids)                                                                                         \
    X(instance)                                                                                    \
    X(kept)                                                                                        \
    X(journal)                                                                                     \
    X(log)                                                                                         \
    X(log_memory)                                                                                  \
    X(log_readers)                                                                                 \
    X(log_keep)                                                                                    \
    X(log_sets)                                                                                    \
    X(lost)                                                                                        \
    X(logtext)                                                                                     \
    X(memory)                                                                                      \
    X(perfdata)                                                                                    \
    X(record)                                                                                      \
    X(reader)                                                                                      \
    X(recording)                                                                                   \
    X(recording_life)                                                                              \
    X(row)                                                                                         \
    X(row_model)                                                                                   \
    X(save)                                                                                        \
    X(scan)                                                                                        \
    X(series)                                                                                      \
    X(settings)                                                                                    \
    X(sim)                                                                                         \
    X(spaces)                                                                                      \
    X(target)                                                                                      \
    X(tunable)

#define X(name) Suite *suite_##name(void);
SUITES(X)
#undef X

struct unit_tests {
    const TTest *test[200];
    unsigned n;
};

/* SUITE(name) defines suite_name(); SUITE_SETUP also runs functions before and after each test. */
#define SUITE(name) SUITE_SETUP(name, NULL, NULL)
#define SUITE_SETUP(name, before, after)                                                           \
    static struct unit_tests unit_tests;                                                           \
    Suite *suite_##name(void)                                                                      \
    {                                                                                              \
        return unit_suite(#name, &unit_tests, before, after);                                      \
    }                                                                                              \
    struct unit_tests /* the macro is followed by a semicolon or a body */

#define TEST(name)                                                                                 \
    static void name(int unit_loop);                                                               \
    static const TTest name##_test = {#name, name, __FILE__, __LINE__};                            \
    __attribute__((constructor)) static void name##_add(void)                                      \
    {                                                                                              \
        assert(unit_tests.n < sizeof(unit_tests.test) / sizeof(unit_tests.test[0]));               \
        unit_tests.test[unit_tests.n++] = &name##_test;                                            \
    }                                                                                              \
    static void name(int unit_loop __attribute__((unused)))

/* Assert the exact text of a struct buf, a part of the sentence of a struct err, a condition. */
#define ck_buf(buf, expected) ck_assert_str_eq(buf_text(buf), expected)
#define ck_err_has(err, part) ck_assert_ptr_ne(strstr((err).text, part), NULL)
#define ck_true(condition)    ck_assert_msg(condition, "%s", #condition)

static inline Suite *unit_suite(const char *name, const struct unit_tests *tests,
                                void (*before)(void), void (*after)(void))
{
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);

    tcase_add_checked_fixture(tcase, before, after);
    tcase_set_timeout(tcase, 60);
    for (unsigned i = 0; i < tests->n; i++)
        tcase_add_test(tcase, tests->test[i]);
    suite_add_tcase(suite, tcase);
    return suite;
}

static inline struct word unit_word(const char *text)
{
    return (struct word){.p = text, .len = strlen(text)};
}
