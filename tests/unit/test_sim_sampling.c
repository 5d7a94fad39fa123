/*
 * What simulated counters record, on a clock that stands still until it is told to go.
 */
#include "backends/backends.h"
#include "backends/sim/tape.h"
#include "core/record.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <limits.h>

#define MS     UINT64_C(1000000)
#define BEGIN  (5000 * MS)
#define BUFFER (1 << 20)
#define CYCLES 1000000 /* a millisecond, user and kernel mode */

static uint64_t now_ns;
static bool target_lives;
static struct backend_state *sim;
static struct recorder *recorder;
static struct counter *counter;
static struct err err;
static struct event event[2];
static struct plan_event planned[2];
static struct buf taken;

static uint64_t fake_now(struct host_state *state)
{
    (void)state;
    return now_ns;
}

static const struct host clock_host = {.name = "clock", .now_ns = fake_now};

static bool fake_alive(void *arg)
{
    (void)arg;
    return target_lives;
}

/* ---- a loop that calls back when told to ---- */

static struct {
    unsigned n;
    void (*fn)(void *arg, uint32_t events);
    void *arg;
} watched;

static int loop_watch(void *ctx, int fd, uint32_t events, void (*fn)(void *arg, uint32_t events),
                      void *arg)
{
    (void)ctx, (void)events, (void)fd;
    watched.n++;
    watched.fn = fn;
    watched.arg = arg;
    return 0;
}

static void loop_unwatch(void *ctx, int fd)
{
    (void)ctx, (void)fd;
    watched.n--;
}

static const struct loop loop = {.watch = loop_watch, .unwatch = loop_unwatch};
static unsigned n_ready;
static uint64_t ready_tag;

static void sink_ready(void *ctx, uint64_t tag)
{
    (void)ctx;
    n_ready++;
    ready_tag = tag;
}

static const struct sink sink = {.ready = sink_ready};

/* ---- setting up ---- */

static void setup(void)
{
    now_ns = BEGIN;
    target_lives = true;
    sim = NULL;
    recorder = NULL;
    counter = NULL;
    watched.n = 0;
    n_ready = 0;
    buf_init(&taken, NULL, 0);
}

static void teardown(void)
{
    if (counter)
        sim_backend.free(counter);
    sim_backend.recorder_free(recorder);
    ck_assert_uint_eq(watched.n, 0);
    for (unsigned i = 0; i < 2; i++)
        event_clear(&event[i]);
    sim_backend.close(sim);
    buf_free(&taken);
}

SUITE_SETUP(sim_sampling, setup, teardown);

static struct recorder_plan buffers(uint64_t bytes)
{
    return (struct recorder_plan){
        .bytes = bytes, .tag = 77, .fds_free = ULONG_MAX, .fds_quota = ULONG_MAX};
}

static void open_with(const char *options, uint64_t bytes)
{
    const struct recorder_plan plan = buffers(bytes);

    ck_assert_int_eq(sim_backend.open(options, &clock_host, NULL, &loop, &sink, &sim, &err), 0);
    ck_assert_int_eq(sim_backend.recorder_new(sim, &plan, &recorder, &err), 0);
}

/* For process 100; to be completed. other NULL: one event. */
static struct plan plan_for(const char *text, const char *other)
{
    const char *const texts[] = {text, other};
    const unsigned n = other ? 2 : 1;

    for (unsigned i = 0; i < n; i++) {
        ck_assert_int_eq(sim_backend.resolve(sim, texts[i], &event[i], &err), 0);
        planned[i] =
            (struct plan_event){&event[i], event[i].user != SAID_OFF, event[i].kernel != SAID_OFF};
    }
    return (struct plan){.events = planned,
                         .n = n,
                         .fds_free = 100,
                         .fds_quota = 100,
                         .max_covered = 100,
                         .target = {.kind = TARGET_PROCESS, .pid = 100, .alive = fake_alive},
                         .recorder = recorder,
                         .set = 3,
                         .depth = 127};
}

static void start(const struct plan *plan)
{
    ck_assert_int_eq(sim_backend.attach(sim, plan, &counter, &err), 0);
    ck_assert_int_eq(sim_backend.start(counter, &err), 0);
}

static void sample(const char *text, uint64_t period)
{
    struct plan plan = plan_for(text, NULL);

    plan.sampling = true;
    plan.period = period;
    start(&plan);
}

static void count_steps(bool steps, bool lasts)
{
    struct plan plan = plan_for("cycles", "task-clock");

    plan.steps = steps;
    plan.lasts = lasts;
    start(&plan);
}

/* ---- what was recorded ---- */

static void take(void *arg, const struct record *record)
{
    (void)arg;
    ck_assert(record_fits(record, record->size));
    buf_add(&taken, record, record->size);
}

static void drain(void)
{
    const struct intake intake = {.put = take};

    buf_clear(&taken);
    ck_assert_int_eq(sim_backend.drain(recorder, true, &intake), 0);
}

static const void *nth(unsigned type, unsigned n)
{
    for (size_t at = 0; at < taken.len;) {
        const struct record *record = (const struct record *)(taken.data + at);

        if (record->type == type && n-- == 0)
            return record;
        at += record->size;
    }
    return NULL;
}

static unsigned count_type(unsigned type)
{
    unsigned n = 0;

    for (size_t at = 0; at < taken.len;) {
        const struct record *record = (const struct record *)(taken.data + at);

        n += record->type == type;
        at += record->size;
    }
    return n;
}

static const struct record_sample *sample_at(unsigned n)
{
    const struct record_sample *record = nth(RECORD_SAMPLE, n);

    ck_assert_ptr_nonnull(record);
    return record;
}

static bool in_order(void)
{
    uint64_t last = 0;

    for (size_t at = 0; at < taken.len;) {
        const struct record *record = (const struct record *)(taken.data + at);

        if (record_time(record) < last)
            return false;
        last = record_time(record);
        at += record->size;
    }
    return true;
}

/* ---- samples ---- */

TEST(a_period_gives_its_samples_at_even_times)
{
    open_with(NULL, BUFFER);
    sample("cycles", CYCLES / 4);
    now_ns += 10 * MS;
    drain();
    ck_assert_uint_eq(count_type(RECORD_SAMPLE), 40);
    for (unsigned i = 0; i < 40; i++) {
        ck_assert_uint_eq(sample_at(i)->time, BEGIN + (i + 1) * MS / 4);
        ck_assert_uint_eq(sample_at(i)->period, CYCLES / 4);
    }
}

TEST(a_frequency_gives_so_many_samples_a_second_with_what_was_counted_between)
{
    struct plan plan;

    open_with(NULL, BUFFER);
    plan = plan_for("cycles", NULL);
    plan.sampling = true;
    plan.freq = 1000;
    start(&plan);
    now_ns += 100 * MS;
    drain();
    ck_assert_uint_eq(count_type(RECORD_SAMPLE), 100);
    ck_assert_uint_eq(sample_at(50)->period, CYCLES);
    ck_assert_uint_eq(sample_at(50)->time, BEGIN + 51 * MS);
}

TEST(addresses_lie_in_the_mapping_that_is_told_first)
{
    const struct record_map *map;

    open_with(NULL, BUFFER);
    sample("cycles:u", 10000);
    now_ns += 10 * MS;
    drain();
    map = (const struct record_map *)taken.data;
    ck_assert_uint_eq(map->head.type, RECORD_MAP);
    ck_assert_uint_eq(map->pid, 100);
    for (unsigned i = 0; i < count_type(RECORD_SAMPLE); i++) {
        ck_assert_uint_ge(sample_at(i)->ip, map->start);
        ck_assert_uint_lt(sample_at(i)->ip, map->start + map->length);
        ck_assert_uint_eq(sample_at(i)->head.misc & RECORD_MODE, RECORD_USERMODE);
    }
}

TEST(a_fourth_of_the_samples_is_of_the_kernel)
{
    unsigned kernel = 0;

    open_with(NULL, BUFFER);
    sample("cycles", 100000);
    now_ns += 4 * MS;
    drain();
    for (unsigned i = 0; i < 40; i++)
        kernel += (sample_at(i)->head.misc & RECORD_MODE) == RECORD_KERNEL;
    ck_assert_uint_eq(kernel, 10);
}

/* ---- chains ---- */

static void sample_chains(bool user, bool kernel, unsigned depth)
{
    struct plan plan = plan_for("cycles", NULL);

    plan.sampling = true;
    plan.period = CYCLES;
    plan.chain_user = user;
    plan.chain_kernel = kernel;
    plan.depth = depth;
    start(&plan);
    now_ns += 4 * MS;
    drain();
}

TEST(chains_have_the_frames_of_both_modes)
{
    bool kernel = false;

    open_with(NULL, BUFFER);
    sample_chains(true, true, 127);
    for (unsigned i = 0; i < 4; i++) {
        const struct record_sample *record = sample_at(i);
        const bool in_kernel = (record->head.misc & RECORD_MODE) == RECORD_KERNEL;

        kernel |= in_kernel;
        ck_assert_uint_eq(record->frame[0], in_kernel ? FRAME_KERNEL : FRAME_USER);
        ck_assert_uint_eq(record->frame[1], record->ip);
        ck_assert_uint_eq(record->n_frames, in_kernel ? 6 : 3);
    }
    ck_assert(kernel);
}

/* ---- steps ---- */

/* What the values say in all: on each CPU the last ones. */
static uint64_t values_sum(unsigned place)
{
    uint64_t sum = 0, last[64] = {0};

    for (unsigned i = 0; i < count_type(RECORD_VALUES); i++) {
        const struct record_note *note = (const struct record_note *)nth(RECORD_VALUES, i);

        sum += note->value[1 + place] - last[note->cpu];
        last[note->cpu] = note->value[1 + place];
    }
    return sum;
}

TEST(each_slice_of_10_ms_is_a_step)
{
    open_with(NULL, BUFFER);
    now_ns += 3 * MS;
    count_steps(true, false);
    now_ns += 25 * MS;
    drain();
    ck_assert_uint_eq(count_type(RECORD_VALUES), 2);
    ck_assert_uint_eq(record_time(nth(RECORD_VALUES, 0)), BEGIN + 10 * MS);
    ck_assert_uint_eq(((const struct record_note *)nth(RECORD_VALUES, 0))->value[1], 7 * CYCLES);
    ck_assert_uint_eq(((const struct record_note *)nth(RECORD_VALUES, 1))->value[1], 10 * CYCLES);
}

TEST(steps_with_the_last_add_up_to_the_count)
{
    const struct record_note *last;
    struct reading reading;

    open_with(NULL, BUFFER);
    count_steps(true, false);
    now_ns += 33 * MS + 333;
    target_lives = false;
    drain();
    sim_backend.read(counter, &reading, true);
    ck_assert_uint_eq(count_type(RECORD_VALUES), 4);
    last = nth(RECORD_VALUES, 3);
    ck_assert_uint_eq(last->head.misc, RECORD_LAST | RECORD_EXACT);
    ck_assert_uint_eq(last->n, 3);
    ck_assert_uint_gt(reading.value[0], 0);
    ck_assert_uint_eq(values_sum(0), reading.value[0]);
    ck_assert_uint_eq(values_sum(1), reading.value[1]);
}

/* ---- limits ---- */

TEST(what_does_not_fit_is_lost_and_told)
{
    const struct record_lost *lost;
    unsigned kept;

    open_with("sim_cpus=1", 4096);
    sample("cycles", CYCLES / 1000);
    now_ns += 2 * MS;
    drain();
    kept = count_type(RECORD_SAMPLE);
    ck_assert_uint_gt(kept, 0);
    ck_assert_uint_le(taken.len, 4096 + sizeof *lost);
    ck_assert_uint_eq(count_type(RECORD_LOST), 1);
    lost = nth(RECORD_LOST, 0);
    ck_assert_uint_eq(kept + lost->lost, 2000);
    now_ns += MS / 100;
    drain();
    ck_assert_uint_eq(count_type(RECORD_LOST), 0);
    ck_assert_uint_eq(count_type(RECORD_SAMPLE), 10);
}

TEST(an_event_that_samples_too_often_is_throttled_until_the_next_slice)
{
    const struct record_throttle *throttle, *unthrottle;

    open_with("sim_throttle=5", BUFFER);
    sample("cycles", CYCLES);
    now_ns += 20 * MS;
    drain();
    ck_assert_uint_eq(count_type(RECORD_SAMPLE), 10);
    ck_assert_uint_eq(count_type(RECORD_THROTTLE), 2);
    ck_assert_uint_eq(count_type(RECORD_UNTHROTTLE), 1);
    throttle = nth(RECORD_THROTTLE, 0);
    unthrottle = nth(RECORD_UNTHROTTLE, 0);
    ck_assert_uint_eq(throttle->time, BEGIN + 6 * MS);
    ck_assert_uint_eq(throttle->id, LOG_ID(3, 0));
    ck_assert_uint_eq(unthrottle->time, BEGIN + 10 * MS);
    ck_assert(in_order());
}

/* ---- readiness ---- */

/* ---- a later worker ---- */

TEST(printed_recorder_and_counter_go_on_without_a_gap)
{
    const struct recorder_plan again = buffers(BUFFER);
    struct plan plan;
    struct buf text, own;
    struct reading reading;

    open_with(NULL, BUFFER);
    plan = plan_for("cycles", NULL);
    plan.sampling = true;
    plan.period = CYCLES;
    start(&plan);
    now_ns += 5 * MS + 5;
    sim_backend.read(counter, &reading, true); /* samples lie in the buffers now */
    buf_init(&text, NULL, 0);
    buf_init(&own, NULL, 0);
    sim_backend.recorder_print(recorder, &text);
    sim_backend.print(counter, &own);
    sim_backend.forget(counter);
    sim_backend.recorder_forget(recorder);
    counter = NULL;
    recorder = NULL;
    ck_assert_int_eq(sim_backend.recorder_adopt(sim, &again, buf_text(&text), &recorder), 0);
    plan.recorder = recorder;
    ck_assert_int_eq(sim_backend.adopt(sim, &plan, buf_text(&own), &counter), 0);
    now_ns += 5 * MS;
    drain();
    ck_assert_uint_eq(count_type(RECORD_MAP), 1);
    ck_assert_uint_eq(count_type(RECORD_SAMPLE), 10);
    for (unsigned i = 0; i < 10; i++)
        ck_assert_uint_eq(sample_at(i)->time, BEGIN + (i + 1) * MS);
    buf_free(&text);
    buf_free(&own);
}

TEST(what_was_not_printed_is_no_recorder)
{
    const struct recorder_plan plan = buffers(BUFFER);
    struct recorder *none;

    open_with(NULL, BUFFER);
    ck_assert_int_eq(sim_backend.recorder_adopt(sim, &plan, "", &none), -EINVAL);
    ck_assert_int_eq(sim_backend.recorder_adopt(sim, &plan, "99", &none), -EINVAL);
}
