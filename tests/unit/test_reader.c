/*
 * Readers of a log: records, waiting, the end of the stream, remarks, saved state.
 */
#include "tests/unit/unit.h"

#include "core/engine.h"
#include "core/pmc/pmc.h"
#include "core/read/reader.h"
#include "tests/unit/fixture.h"
#include "tests/unit/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>

static struct open_file file, other;

/* Sim has no records; in this file no target is attached while a PMC samples. */
static struct backend backend;

static int no_recorder(struct backend_state *state, const struct recorder_plan *plan,
                       struct recorder **out, struct err *err)
{
    (void)state, (void)plan, (void)out;
    return err_set(err, P14, "made to fail");
}

static void limits(struct backend_state *state, struct sample_limits *out)
{
    (void)state;
    *out = (struct sample_limits){.max_freq = UINT64_MAX, .max_frames = 127};
}

static void recording_allow(void)
{
    backend = *fx.engine->backend;
    backend.recorder_new = no_recorder;
    backend.sample_limits = limits;
    fx.engine->backend = &backend;
}

static void setup(void)
{
    fixture_setup();
    recording_allow();
    file_open(&file);
    file_open(&other);
}

static void teardown(void)
{
    file_close(&file);
    file_close(&other);
    fixture_close();
}

SUITE_SETUP(reader, setup, teardown);

static const char *next(struct open_file *open)
{
    return read_open(open, "i", "samples");
}

/* Creates a sampling PMC that has not started: its log contains only remarks. */
static void quiet(void)
{
    ck_assert_int_eq(pmc_make("i"), 0);
    accepted("i", "config", "event=cpu-clock mode=process-sampling period=1000000");
}

TEST(a_restarted_log_is_followed)
{
    quiet();
    next(&file);
    accepted("i", "config", "log=off");
    while (*next(&file))
        ;
    accepted("i", "config", "log=on");
    ck_assert_int_eq(write_file("i", "samples", "again"), 0);
    ck_true(strstr(next(&file), " user text=again\n"));
}

TEST(running_out_of_memory_for_remarks_is_reported)
{
    unsigned n = 0;

    for (bool ended = true; ended; n++) {
        char name[16];

        snprintf(name, sizeof name, "m%u", n);
        ck_assert_int_eq(pmc_make(name), 0);
        memory_fail_at(n + 1);
        int rc = write_file(name, "samples", "x");
        ended = memory_failed();
        memory_fail_at(0);
        ck_assert_msg(rc == 0 || (rc == ENOMEM && fx.err.id == X14), "%u: %d %s", n, rc,
                      fx.err.text);
    }
    ck_assert_uint_gt(n, 2);
}

TEST(a_read_without_memory_is_enomem_and_loses_no_record)
{
    unsigned n = 0;

    quiet();
    next(&file);
    for (bool ended = true; ended; n++) {
        ck_assert_int_eq(write_file("i", "samples", "x"), 0);
        memory_fail_at(n + 1);
        const char *text = next(&file);
        ended = memory_failed();
        memory_fail_at(0);
        if (!text) /* only the fixture had no memory, for its copy of the text */
            break;
        if (strcmp(text, "ENOMEM") == 0)
            text = next(&file);
        ck_assert_msg(strstr(text, " user text=x\n"), "%u: %s", n, text);
    }
    ck_assert_uint_gt(n, 1);
}

TEST(a_reader_continues_after_a_reload)
{
    struct buf line = {0};

    quiet();
    next(&file);
    ck_assert_int_eq(write_file("i", "samples", "a"), 0);
    ck_assert_int_eq(write_file("i", "samples", "b"), 0);
    open_file_print(&file, &line);
    open_file_forget(&file);
    engine_reload();
    recording_allow();
    ck_true(open_file_load(&file, line.data, line.len, fx.engine));
    engine_finish_load(fx.engine);
    buf_free(&line);
    const char *text = next(&file);
    ck_true(!strstr(text, "initialize") && !strstr(text, "allocate"));
    ck_true(strstr(text, " user text=a\n") && strstr(text, " user text=b\n"));
    ck_assert_str_eq(next(&file), "WAIT");
}

/* Reads the rest of an open file of a released PMC. */
static void rest_of(struct open_file *open, struct buf *out)
{
    struct call call = {.engine = fx.engine,
                        .instance = fx.engine->root,
                        .open = open,
                        .out = out,
                        .room = 1 << 17};

    ck_assert_int_eq(stream_samples(&call), CALL_DONE);
}

/* The log of a released PMC belongs only to its readers; two readers share it. */
TEST(records_of_a_released_log_are_read_after_a_reload)
{
    struct buf line[2];

    quiet();
    next(&file);
    next(&other);
    ck_assert_int_eq(write_file("i", "samples", "a"), 0);
    ck_assert_int_eq(pmc_remove("i"), 0);
    for (unsigned i = 0; i < 2; i++) {
        line[i] = (struct buf){0};
        open_file_print(i ? &other : &file, &line[i]);
    }
    open_file_forget(&file);
    open_file_forget(&other);
    engine_reload();
    ck_true(open_file_load(&file, line[0].data, line[0].len, fx.engine));
    ck_true(open_file_load(&other, line[1].data, line[1].len, fx.engine));
    engine_finish_load(fx.engine);
    for (unsigned i = 0; i < 2; i++) {
        buf_free(&line[i]);
        rest_of(i ? &other : &file, &line[i]);
        ck_true(strstr(buf_text(&line[i]), " user text=a\n") &&
                strstr(buf_text(&line[i]), " close\n"));
        buf_free(&line[i]);
        rest_of(i ? &other : &file, &line[i]);
        ck_assert_uint_eq(line[i].len, 0);
        buf_free(&line[i]);
    }
}

TEST(an_invalid_saved_reader_is_refused)
{
    static const char *const wrong[] = {"reader\nform=text", "file\nreader\nform=nothing",
                                        "file\ncut=2", "file\nseries\nn=65"};
    struct open_file open = {.cut = false};

    quiet();
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ck_true(!open_file_load(&open, wrong[i], strlen(wrong[i]), fx.engine));
        open_file_end_charge(&open);
        open_file_clear(&open);
    }
}
