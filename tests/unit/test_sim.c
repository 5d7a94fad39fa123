/*
 * The simulated PMU, with a clock that only the test moves.
 */
#include "backends/backends.h"

#include "tests/unit/unit.h"

#include <errno.h>
#include <pthread.h>

static uint64_t now_ns;
static bool target_lives;
static struct backend_state *sim;
static struct err err;
static struct event events[SET_MAX];
static unsigned n_events;

static uint64_t fake_now(struct host_state *state)
{
    (void)state;
    return __atomic_load_n(&now_ns, __ATOMIC_RELAXED);
}

static const struct host fake_host = {.name = "fake", .now_ns = fake_now};

static bool fake_alive(void *arg)
{
    (void)arg;
    return target_lives;
}

static void sim_setup(void)
{
    now_ns = UINT64_C(5000000000);
    target_lives = true;
    sim = NULL;
    n_events = 0;
}

static void sim_teardown(void)
{
    while (n_events > 0)
        event_clear(&events[--n_events]);
    sim_backend.close(sim);
}

SUITE_SETUP(sim, sim_setup, sim_teardown);

/* ---- helpers ---- */

static int open_with(const char *options)
{
    return sim_backend.open(options, &fake_host, NULL, NULL, NULL, &sim, &err);
}

static void pass_us(uint64_t us)
{
    __atomic_add_fetch(&now_ns, us * 1000, __ATOMIC_RELAXED);
}

static struct event *resolve(const char *text)
{
    struct event *event = &events[n_events++];

    ck_assert_msg(sim_backend.resolve(sim, text, event, &err) == 0, "%s: %s", text, err.text);
    return event;
}

static struct plan_event planned[SET_MAX]; /* of the plan of plan_for() */

/* A plan for process 100 and one event, which counts all modes unless its modifiers select one. */
static struct plan plan_for(const char *text)
{
    const struct event *event = resolve(text);

    planned[0] =
        (struct plan_event){event, event->user != MODIFIER_OFF, event->kernel != MODIFIER_OFF};
    return (struct plan){.events = planned,
                         .n = 1,
                         .fds_left = 100,
                         .fds_quota = 100,
                         .max_covered = 100,
                         .target = {.kind = TARGET_PROCESS, .pid = 100, .alive = fake_alive}};
}

static struct counter *attach(const struct plan *plan)
{
    struct counter *counter = NULL;

    ck_assert_msg(sim_backend.attach(sim, plan, &counter, &err) == 0, "%s", err.text);
    return counter;
}

static struct counter *running(const char *text)
{
    struct plan plan = plan_for(text);
    struct counter *counter = attach(&plan);

    ck_assert_int_eq(sim_backend.start(counter, &err), 0);
    return counter;
}

static struct reading read_of(struct counter *counter)
{
    struct reading reading;

    ck_assert_int_eq(sim_backend.read(counter, &reading, true), 0);
    return reading;
}

static uint64_t value(struct counter *counter)
{
    return read_of(counter).value[0];
}

/* ---- shape ---- */

TEST(impossible_shapes_are_refused)
{
    static const char *const bad[] = {"sim_rows=0",
                                      "sim_rows=64",
                                      "sim_cpus=0",
                                      "sim_cpus=3-1",
                                      "sim_cpus=9999",
                                      "sim_row=4",
                                      "sim_cpus",
                                      "sim_fixed=maybe",
                                      "sim_class=A:4",
                                      "sim_class=A:4:65",
                                      "sim_class=A:4:48:9",
                                      "sim_class=A:4:48 sim_class=a:4:48",
                                      "sim_class=software:4:48",
                                      "sim_offline=7",
                                      "sim_offline=0-3",
                                      "sim_class=A:4:48 sim_rows=3",
                                      "sim_lose_after_ms=x",
                                      "sim_class=:1:1"};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(open_with(bad[i]) == -EINVAL, "%s", bad[i]);
        ck_assert_uint_gt(strlen(err.text), 10);
    }
    ck_assert_int_eq(open_with("perf_something=1"), 0);
}

/* ---- counting ---- */

static void *read_often(void *arg)
{
    uint64_t last = 0;

    for (unsigned i = 0; i < 2000; i++) {
        struct reading reading;

        sim_backend.read(arg, &reading, true);
        if (reading.value[0] < last)
            return arg;
        last = reading.value[0];
        pass_us(1);
    }
    return NULL;
}

TEST(reads_by_many_threads_never_go_back)
{
    pthread_t threads[4];
    struct counter *counter;
    void *any_decreased;

    ck_assert_int_eq(open_with(NULL), 0);
    counter = running("cycles");
    for (unsigned i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, read_often, counter), 0);
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(threads[i], &any_decreased);
        ck_assert_ptr_null(any_decreased);
    }
    ck_assert_uint_eq(value(counter), 8000000);
    sim_backend.free(counter);
}
