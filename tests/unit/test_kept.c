/*
 * The memory of an open file, and of a text kept for its reader, is charged to the user that opened
 * it and to the instance.
 */
#include "tests/unit/unit.h"

#include "core/engine.h"
#include "core/pmc/pmc.h"
#include "core/users/users.h"
#include "tests/unit/fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define MIB (UINT64_C(1) << 20)

static void setup(void)
{
    fixture_open("sim_cpus=4 sim_rows=4");
}

SUITE_SETUP(kept, setup, fixture_close);

static uint64_t charged(uid_t uid)
{
    const struct user *user = user_find(fx.engine, uid);

    return user ? user->used[USED_BYTES] : 0;
}

static struct call call_of(struct open_file *open)
{
    return (struct call){
        .engine = fx.engine, .instance = fx.engine->root, .payer = 7, .open = open};
}

/* Opens a file as uid 7 with this number of groups. */
static int opened(struct open_file *open, unsigned groups)
{
    struct call call = call_of(open);
    struct rights *rights = fake_rights(7, false);
    int rc;

    *open = (struct open_file){.cut = false};
    rights->n_groups = groups;
    rights->groups = calloc(groups + 1, sizeof *rights->groups);
    rc = open_file_start_charge(&call, groups ? rights : NULL);
    if (rc || !groups)
        rights_free(rights);
    return rc;
}

static void closed(struct open_file *open)
{
    open_file_release(fx.engine, open);
    open_file_clear(open);
}

static int keep(struct open_file *open, uint64_t bytes)
{
    struct call call = call_of(open);

    return open_file_charge_texts(&call, bytes);
}

TEST(an_open_file_is_charged_until_it_is_closed)
{
    struct open_file file;

    ck_assert_int_eq(opened(&file, 0), 0);
    const uint64_t one = charged(7);
    ck_assert_uint_gt(one, 0);
    ck_assert_int_eq(keep(&file, 5000), 0);
    ck_assert_uint_eq(charged(7), one + 5000);
    ck_assert_int_eq(keep(&file, 10), 0);
    ck_assert_uint_eq(charged(7), one + 10);
    closed(&file);
    ck_assert_uint_eq(charged(7), 0);
}

TEST(the_groups_of_openers_are_charged_once)
{
    struct open_file files[3];

    ck_assert_int_eq(opened(&files[0], 0), 0);
    const uint64_t one = charged(7);
    ck_assert_int_eq(opened(&files[1], 65536), 0);
    const uint64_t kept = charged(7) - 2 * one;
    ck_assert_uint_ge(kept, 65536 * (sizeof(gid_t) + sizeof "65535,"));
    ck_assert_int_eq(opened(&files[2], 65536), 0);
    ck_assert_uint_eq(charged(7), 3 * one + kept);
    ck_assert_ptr_eq(files[1].rights, files[2].rights);
    closed(&files[1]);
    ck_assert_uint_eq(charged(7), 2 * one + kept);
    closed(&files[2]);
    ck_assert_uint_eq(charged(7), one);
    closed(&files[0]);
}

TEST(rights_beyond_the_limit_are_not_kept)
{
    struct open_file file, other;

    tune(TUNABLE_MAX_LOG_PER_USER, "0");
    ck_assert_int_eq(opened(&file, 0), 0);
    ck_assert_int_eq(keep(&file, 16 * MIB - 65536), 0);
    const uint64_t before = charged(7);
    ck_assert_int_eq(opened(&other, 65536), -EDQUOT);
    ck_assert_uint_eq(charged(7), before);
    ck_assert_int_eq(opened(&other, 7), 0);
    closed(&other);
    closed(&file);
}

TEST(beyond_the_limit_nothing_is_kept)
{
    struct open_file file, other;

    tune(TUNABLE_MAX_LOG_PER_USER, "0");
    ck_assert_int_eq(opened(&file, 0), 0);
    ck_assert_int_eq(opened(&other, 0), 0);
    ck_assert_int_eq(keep(&file, 15 * MIB), 0);
    ck_assert_int_eq(keep(&other, 2 * MIB), -EDQUOT);
    ck_assert_uint_eq(other.kept_bytes, 0);
    ck_assert_int_eq(keep(&file, 0), 0);
    ck_assert_int_eq(keep(&other, 2 * MIB), 0);
    closed(&file);
    closed(&other);
    ck_assert_uint_eq(charged(7), 0);
}

TEST(kept_memory_is_charged_in_the_next_worker)
{
    struct open_file file;
    struct buf line = {0};

    ck_assert_int_eq(opened(&file, 0), 0);
    ck_assert_int_eq(keep(&file, 5000), 0);
    const uint64_t before = charged(7);
    open_file_print(&file, &line);
    open_file_forget(&file);
    engine_reload();
    file.kept_bytes = 5000; /* fs still keeps the text */
    ck_true(open_file_load(&file, line.data, line.len, fx.engine));
    buf_free(&line);
    ck_assert_uint_eq(charged(7), before);
    closed(&file);
    ck_assert_uint_eq(charged(7), 0);
}

TEST(a_user_may_use_a_quarter_of_the_descriptors)
{
    struct user *user = user_get(fx.engine, 7, NULL);

    tune(TUNABLE_MAX_FDS_PER_USER, "100000");
    fx.engine->fd_limit = 4000;
    ck_assert_uint_eq(user_left(user, USED_FDS, 0), 1000);
    tune(TUNABLE_MAX_FDS_PER_USER, "1001");
    ck_assert_uint_eq(user_left(user, USED_FDS, 0), 1000);
    tune(TUNABLE_MAX_FDS_PER_USER, "999");
    ck_assert_uint_eq(user_left(user, USED_FDS, 0), 999);
    user_unref(user);
}
