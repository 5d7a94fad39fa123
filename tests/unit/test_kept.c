/*
 * A text that is read in pieces is kept for its reader, and charged to who opened it.
 */
#include "tests/unit/unit.h"

#include "core/files.h"
#include "core/pmc.h"
#include "tests/unit/fixture.h"

#include <errno.h>
#include <stdio.h>

static void setup(void)
{
    fixture_open("sim_cpus=4 sim_rows=4");
    recorders_on();
}

SUITE_SETUP(kept, setup, fixture_close);

static uint64_t now(void)
{
    return fx.host.now_ns;
}

static void sampler(const char *name, const char *config)
{
    ck_assert_int_eq(pmc_make(name), 0);
    accepted(name, "config", config);
}

static uint64_t charged(uid_t uid)
{
    const struct user *user = user_find(fx.engine, uid);

    return user ? user->log : 0;
}

static int fold(struct open_file *open, size_t room)
{
    struct buf out;
    struct call call = {.engine = fx.engine,
                        .instance = engine_root(fx.engine),
                        .pmc = pmc_of("i"),
                        .open = open,
                        .rights = fx.rights,
                        .out = &out,
                        .room = room};

    buf_init(&out, NULL, 0);
    int rc = show_samples_folded(&call);
    while (rc == CALL_WORK) {
        struct work *work = call.work;

        work->run(work);
        rc = work->finish(&call, work);
    }
    buf_free(&out);
    return rc < 0 ? rc : (int)open->kept_bytes;
}

static void folded_sampler(void)
{
    sampler("i", "event=cycles freq=99 logsize=65536 target=100");
    for (unsigned ip = 0x100; ip < 0x200; ip++)
        tell_sample(now(), 100, ip);
    accepted("i", "ctl", "stop");
}

TEST(a_text_that_is_kept_is_charged_to_who_opened_it)
{
    struct open_file file;
    uint64_t before;

    folded_sampler();
    file_open(&file);
    before = charged(0);
    ck_assert_int_eq(fold(&file, 1 << 17), 0);
    ck_assert_int_gt(fold(&file, 5), 5);
    ck_assert_uint_eq(charged(0), before + file.kept_bytes);
    ck_assert_int_eq(fold(&file, 1 << 17), 0);
    ck_assert_uint_eq(charged(0), before);
    fold(&file, 5);
    ck_assert_uint_gt(charged(0), before);
    file_close(&file);
    ck_assert_uint_eq(charged(0), before);
}

TEST(who_may_keep_no_more_is_told)
{
    struct open_file file, other;
    char limit[32];

    folded_sampler();
    file_open(&file);
    file_open(&other);
    const int len = fold(&file, 5);

    snprintf(limit, sizeof limit, "%llu", (unsigned long long)charged(0) + 5);
    tune(TUNABLE_MAX_LOG_PER_USER, limit);
    ck_assert_int_eq(fold(&other, 5), -EDQUOT);
    ck_assert_int_eq(fold(&other, 1 << 17), 0); /* nothing is kept */
    ck_assert_int_eq((int)file.kept_bytes, len);
    file_close(&file);
    ck_assert_int_eq(fold(&other, 5), len);
    file_close(&other);
}

TEST(what_is_kept_is_charged_in_the_next_worker)
{
    struct open_file file;
    struct buf line;

    folded_sampler();
    file_open(&file);
    fold(&file, 5);
    const uint64_t before = charged(0);
    buf_init(&line, NULL, 0);
    open_file_print(&file, &line);
    open_file_clear(&file);
    engine_reload();
    file = (struct open_file){.cut = false};
    ck_true(open_file_scan(&file, buf_text(&line), fx.engine));
    buf_free(&line);
    ck_assert_uint_eq(charged(0), before);
    file_close(&file);
    ck_assert_uint_lt(charged(0), before);
}
