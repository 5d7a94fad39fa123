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

TEST(samples_do_not_depend_on_when_they_are_taken_out)
{
    struct buf all;

    open_with(NULL, BUFFER);
    sample("cycles", 333333);
    buf_init(&all, NULL, 0);
    for (unsigned i = 0; i < 7; i++) {
        now_ns += 3 * MS + 7;
        drain();
        buf_add(&all, taken.data, taken.len);
    }
    sim_backend.free(counter);
    counter = NULL;
    event_clear(&event[0]);
    now_ns = BEGIN;
    sample("cycles", 333333);
    now_ns += 7 * (3 * MS + 7);
    drain();
    ck_assert_uint_gt(taken.len, 0);
    ck_assert_uint_eq(all.len, taken.len);
    ck_assert_int_eq(memcmp(all.data, taken.data, all.len), 0);
    buf_free(&all);
}

TEST(as_many_samples_as_the_value_has_periods)
{
    struct reading reading;

    open_with(NULL, BUFFER);
    sample("branch-misses", 77);
    now_ns += 12345678;
    drain();
    sim_backend.read(counter, &reading, true);
    ck_assert_uint_eq(count_type(RECORD_SAMPLE), reading.value[0] / 77);
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

TEST(a_sample_says_whose_it_is_and_of_which_event)
{
    struct plan plan;
    const struct record_sample *first, *second;

    open_with(NULL, BUFFER);
    plan = plan_for("cycles", "task-clock");
    plan.sampling = true;
    plan.period = CYCLES;
    start(&plan);
    now_ns += MS;
    drain();
    ck_assert_uint_eq(count_type(RECORD_SAMPLE), 2);
    first = sample_at(0);
    second = sample_at(1);
    ck_assert_uint_eq(first->id, LOG_ID(3, 0));
    ck_assert_uint_eq(second->id, LOG_ID(3, 1));
    ck_assert_uint_eq(first->pid, 100);
    ck_assert_uint_eq(first->tid, 100);
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

TEST(a_task_goes_from_cpu_to_cpu_and_its_samples_stay_in_order)
{
    bool seen[4] = {false};

    open_with(NULL, BUFFER);
    sample("cycles", CYCLES);
    now_ns += 40 * MS;
    drain();
    ck_assert(in_order());
    for (unsigned i = 0; i < 40; i++)
        seen[sample_at(i)->cpu] = true;
    ck_assert(seen[0] && seen[1] && seen[2] && seen[3]);
}

TEST(a_cpus_samples_are_of_that_cpu)
{
    struct plan plan;

    open_with(NULL, BUFFER);
    plan = plan_for("cycles", NULL);
    plan.target = (struct target_ref){.kind = TARGET_CPU, .cpu = 2};
    plan.sampling = true;
    plan.period = CYCLES;
    start(&plan);
    now_ns += 40 * MS;
    drain();
    ck_assert_uint_eq(count_type(RECORD_SAMPLE), 40);
    for (unsigned i = 0; i < 40; i++)
        ck_assert_uint_eq(sample_at(i)->cpu, 2);
}

TEST(nothing_is_recorded_while_it_is_stopped)
{
    open_with(NULL, BUFFER);
    sample("cycles", CYCLES);
    now_ns += 2 * MS;
    sim_backend.stop(counter);
    now_ns += 50 * MS;
    sim_backend.start(counter, &err);
    now_ns += MS;
    drain();
    ck_assert_uint_eq(count_type(RECORD_SAMPLE), 3);
    ck_assert_uint_eq(sample_at(2)->time, BEGIN + 53 * MS);
    ck_assert_uint_eq(count_type(RECORD_MAP), 1);
}

TEST(multiplexed_it_samples_half_as_often)
{
    struct plan plan;

    open_with(NULL, BUFFER);
    plan = plan_for("cycles", NULL);
    plan.multiplex = plan.sampling = true;
    plan.period = CYCLES;
    start(&plan);
    now_ns += 10 * MS;
    drain();
    ck_assert_uint_eq(count_type(RECORD_SAMPLE), 5);
    ck_assert_uint_eq(sample_at(4)->time, BEGIN + 10 * MS);
}

TEST(lost_hardware_takes_no_samples)
{
    open_with("sim_lose_after_ms=3", BUFFER);
    sample("cycles", CYCLES);
    now_ns += 10 * MS;
    drain();
    ck_assert_uint_eq(count_type(RECORD_SAMPLE), 3);
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

TEST(chains_of_user_mode_have_no_frames_of_the_kernel)
{
    open_with(NULL, BUFFER);
    sample_chains(true, false, 127);
    for (unsigned i = 0; i < 4; i++)
        for (uint64_t f = 1; f < sample_at(i)->n_frames; f++)
            ck_assert_uint_lt(sample_at(i)->frame[f], SIM_TEXT + SIM_TEXT_BYTES);
}

TEST(chains_are_no_deeper_than_asked_for)
{
    open_with(NULL, BUFFER);
    sample_chains(true, true, 1);
    for (unsigned i = 0; i < 4; i++)
        ck_assert_uint_eq(sample_at(i)->n_frames, 2); /* a marker and a frame */
}

/* ---- steps ---- */

static uint64_t steps_sum(unsigned place)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < count_type(RECORD_SWITCH); i++)
        sum += ((const struct record_note *)nth(RECORD_SWITCH, i))->value[place];
    return sum;
}

TEST(each_slice_of_10_ms_is_a_step)
{
    open_with(NULL, BUFFER);
    now_ns += 3 * MS;
    count_steps(true, false);
    now_ns += 25 * MS;
    drain();
    ck_assert_uint_eq(count_type(RECORD_SWITCH), 2);
    ck_assert_uint_eq(record_time(nth(RECORD_SWITCH, 0)), BEGIN + 10 * MS);
    ck_assert_uint_eq(((const struct record_note *)nth(RECORD_SWITCH, 0))->value[0], 7 * CYCLES);
    ck_assert_uint_eq(((const struct record_note *)nth(RECORD_SWITCH, 1))->value[0], 10 * CYCLES);
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
    ck_assert_uint_eq(count_type(RECORD_SWITCH), 4);
    last = nth(RECORD_SWITCH, 3);
    ck_assert_uint_eq(last->head.misc, RECORD_LAST | RECORD_EXACT);
    ck_assert_uint_eq(last->n, 2);
    ck_assert_uint_gt(reading.value[0], 0);
    ck_assert_uint_eq(steps_sum(0), reading.value[0]);
    ck_assert_uint_eq(steps_sum(1), reading.value[1]);
}

TEST(where_only_the_last_step_is_wanted_it_is_the_whole)
{
    const struct record_note *step;

    open_with(NULL, BUFFER);
    count_steps(false, true);
    now_ns += 25 * MS;
    target_lives = false;
    drain();
    ck_assert_uint_eq(count_type(RECORD_SWITCH), 1);
    step = nth(RECORD_SWITCH, 0);
    ck_assert_uint_eq(step->value[0], 25 * CYCLES);
    ck_assert_uint_eq(count_type(RECORD_EXIT), 1);
}

TEST(an_exec_is_told_with_its_map_before_its_samples)
{
    struct plan plan;
    const struct record_comm *comm;

    open_with(NULL, BUFFER);
    plan = plan_for("cycles", NULL);
    plan.at_exec = plan.sampling = true;
    plan.period = CYCLES;
    start(&plan);
    now_ns += 3 * MS;
    drain();
    comm = (const struct record_comm *)taken.data;
    ck_assert_uint_eq(comm->head.type, RECORD_COMM);
    ck_assert_uint_eq(comm->head.misc & RECORD_EXECUTED, RECORD_EXECUTED);
    ck_assert_uint_eq(count_type(RECORD_MAP), 1);
    ck_assert_uint_eq(count_type(RECORD_SAMPLE), 2);
    ck_assert_uint_eq(sample_at(0)->time, BEGIN + 2 * MS);
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

TEST(limits_are_those_of_the_options)
{
    struct sample_limits limits;

    open_with("sim_max_freq=5000", BUFFER);
    sim_backend.sample_limits(sim, &limits);
    ck_assert_uint_eq(limits.max_freq, 5000);
    ck_assert_uint_eq(limits.max_frames, 127);
}

TEST(buffers_need_a_descriptor_for_each_cpu)
{
    struct recorder_plan plan = buffers(BUFFER);
    struct recorder_facts facts;
    struct recorder *none;

    open_with("sim_cpus=8 sim_offline=7", 5000);
    sim_backend.recorder_facts(recorder, &facts);
    ck_assert_uint_eq(facts.descriptors, 7);
    ck_assert_uint_eq(facts.bytes, 7 * 4096);
    plan.fds_free = 6;
    ck_assert_int_eq(sim_backend.recorder_new(sim, &plan, &none, &err), -EMFILE);
    plan.fds_free = 7;
    plan.fds_quota = 6;
    ck_assert_int_eq(sim_backend.recorder_new(sim, &plan, &none, &err), -EDQUOT);
}

TEST(some_event_raises_no_interrupt)
{
    open_with(NULL, BUFFER);
    ck_assert(!plan_for("wide", "cycles").events[0].event->sampling);
    ck_assert(event[1].sampling);
}

/* ---- readiness ---- */

TEST(a_buffer_that_is_half_full_is_told_once_until_it_is_drained)
{
    open_with("sim_cpus=1", 4096);
    sample("cycles", CYCLES / 10);
    now_ns += MS;
    watched.fn(watched.arg, 1);
    ck_assert_uint_eq(n_ready, 0);
    now_ns += 5 * MS;
    watched.fn(watched.arg, 1);
    watched.fn(watched.arg, 1);
    ck_assert_uint_eq(n_ready, 1);
    ck_assert_uint_eq(ready_tag, 77);
    drain();
    now_ns += 6 * MS;
    watched.fn(watched.arg, 1);
    ck_assert_uint_eq(n_ready, 2);
}

TEST(two_counters_of_one_recorder_are_told_in_order)
{
    struct counter *other = NULL;
    struct plan plan;

    open_with(NULL, BUFFER);
    sample("cycles", 300000);
    event_clear(&event[0]);
    plan = plan_for("instructions", NULL);
    plan.target.pid = 101;
    plan.sampling = true;
    plan.period = 700000;
    ck_assert_int_eq(sim_backend.attach(sim, &plan, &other, &err), 0);
    sim_backend.start(other, &err);
    now_ns += 10 * MS;
    drain();
    ck_assert(in_order());
    ck_assert_uint_eq(count_type(RECORD_SAMPLE), 33 + 28);
    sim_backend.free(other);
}

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
    ck_assert_int_eq(sim_backend.recorder_adopt(sim, &plan, "00 00 zz", &none), -EINVAL);
}
