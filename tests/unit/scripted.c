/*
 * A recording with a backend that delivers the records of a test, and the log of the recording.
 */
#include "tests/unit/scripted.h"

#include "tests/unit/unit.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

struct scripted sc;

/* ---- the backend ---- */

struct recorder {
    unsigned drains;
};

static int recorder_new(struct backend_state *state, const struct recorder_plan *plan,
                        struct recorder **out, struct err *err)
{
    (void)state;
    if (plan->fds_left < 2)
        return err_set(err, P10, "needs 2 descriptors");
    *out = calloc(1, sizeof(**out));
    sc.n_recorders++;
    return 0;
}

static void recorder_facts(const struct recorder *recorder, struct recorder_facts *out)
{
    (void)recorder;
    *out = (struct recorder_facts){.descriptors = 2};
}

static uint64_t recorder_drain(struct recorder *recorder, bool all, const struct intake *intake)
{
    (void)all;
    recorder->drains++;
    for (size_t at = 0; at < sc.script.len;) {
        const struct record *record = (const struct record *)(sc.script.data + at);

        intake->put(intake->arg, record);
        at += record->size;
    }
    buf_clear(&sc.script);
    if (sc.kill) /* nothing of this drain goes to the log */
        recording_hold(sc.recording, true);
    return 0;
}

static void recorder_print(const struct recorder *recorder, struct buf *out)
{
    buf_printf(out, "scripted %u", recorder->drains);
}

static int recorder_adopt(struct backend_state *state, const struct recorder_plan *plan,
                          const char *printed, struct recorder **out)
{
    unsigned drains;

    (void)state, (void)plan;
    if (sscanf(printed, "scripted %u", &drains) != 1)
        return -EINVAL;
    *out = calloc(1, sizeof(**out));
    (*out)->drains = drains;
    sc.n_recorders++;
    return 0;
}

static void recorder_free(struct recorder *recorder)
{
    sc.n_recorders--;
    free(recorder);
}

static const struct backend scripted = {
    .name = "scripted",
    .recorder_new = recorder_new,
    .recorder_facts = recorder_facts,
    .drain = recorder_drain,
    .recorder_print = recorder_print,
    .recorder_adopt = recorder_adopt,
    .recorder_forget = recorder_free,
    .recorder_free = recorder_free,
};

/* ---- setup ---- */

struct recording_plan scripted_plan(void)
{
    return (struct recording_plan){
        .host = &fake_host,
        .host_state = &sc.host,
        .backend = &scripted,
        .log = sc.log,
        .recorder = {.bytes = 4096, .fds_left = ULONG_MAX, .fds_quota = ULONG_MAX},
        .n = 1,
        .samples = true,
        .kernel = true};
}

static void record_with(const struct recording_plan *plan)
{
    struct err err;

    ck_assert_int_eq(recording_new(plan, &sc.recording, &err), 0);
}

void record_samples(bool kernel)
{
    struct recording_plan plan = scripted_plan();

    plan.kernel = kernel;
    record_with(&plan);
}

void record_counts(bool switches, bool exits)
{
    struct recording_plan plan = scripted_plan();

    plan.samples = false;
    plan.switches = switches;
    plan.exits = exits;
    record_with(&plan);
}

void record_for_outside(void)
{
    struct recording_plan plan = scripted_plan();

    fake_find(&sc.host, 100)->outside = true;
    ck_assert_int_eq(fake_host.view_open(&sc.host, 100, &plan.view), 0);
    record_with(&plan);
}

void scripted_setup(void)
{
    fake_init(&sc.host, &sc.sink);
    fake_add(&sc.host, 100, 1000);
    fake_add(&sc.host, 101, 1000)->tid[0] = 1011;
    sc.script = (struct buf){0};
    sc.taken = (struct buf){0};
    sc.log = log_new(1 << 20);
    sc.cursor = log_open(sc.log);
    sc.recording = NULL;
}

void scripted_teardown(void)
{
    recording_unref(sc.recording);
    log_close(sc.cursor);
    log_unref(sc.log);
    buf_free(&sc.script);
    buf_free(&sc.taken);
    ck_assert_uint_eq(sc.n_recorders, 0);
    fake_clear(&sc.host);
}

/* ---- records of the backend ---- */

void script_sample(uint64_t time, uint32_t pid, unsigned mode, uint64_t ip)
{
    const struct record_sample sample = {
        .id = LOG_ID(1, 0), .ip = ip, .pid = pid, .tid = pid, .time = time, .period = 1};

    record_add_sample(&sc.script, &sample, mode, NULL, 0);
}

void script_chain(unsigned mode, uint64_t ip, const uint64_t *frames, uint64_t n)
{
    const struct record_sample sample = {
        .id = LOG_ID(1, 0), .ip = ip, .pid = 100, .tid = 100, .time = 1, .period = 1};

    record_add_sample(&sc.script, &sample, mode, frames, n);
}

void script_map(uint64_t time, uint32_t pid, uint64_t start, uint64_t length, const char *path)
{
    const struct map_facts map = {
        .pid = pid, .tid = pid, .start = start, .length = length, .offset = 0x1000, .path = path};

    record_add_map(&sc.script, time, &map, RECORD_USERMODE);
}

void script_exec(uint64_t time, uint32_t pid, const char *name)
{
    record_add_comm(&sc.script, time, pid, pid, name, RECORD_EXECUTED);
}

void script_step(uint64_t time, uint32_t pid, uint32_t tid, uint64_t step, unsigned misc)
{
    const uint64_t value[] = {time, step}; /* the time as the id of a new event group */
    const struct note note = {.type = RECORD_VALUES,
                              .misc = misc,
                              .time = time,
                              .pid = pid,
                              .tid = tid,
                              .cpu = 0,
                              .n = 2,
                              .value = value};

    record_add_note(&sc.script, &note);
}

void drain(void)
{
    struct drain_result drained;

    ck_assert(recording_drain(sc.recording, true, &drained));
    buf_clear(&sc.taken);
    while (log_read(sc.cursor, &sc.taken, 1 << 20) > 0)
        ;
}

const void *nth(unsigned type, unsigned n)
{
    for (size_t at = 0; at < sc.taken.len;) {
        const struct record *record = (const struct record *)(sc.taken.data + at);

        if (record->type == type && n-- == 0)
            return record;
        at += record->size;
    }
    return NULL;
}

unsigned count_type(unsigned type)
{
    unsigned n = 0;

    while (nth(type, n))
        n++;
    return n;
}

bool comes_before(unsigned first, unsigned second)
{
    const char *a = nth(first, 0), *b = nth(second, 0);

    return a && b && a < b;
}

bool text_is(const struct record_note *note, const char *text)
{
    return note && note->text_len == strlen(text) &&
           memcmp(note_text(note), text, note->text_len) == 0;
}
