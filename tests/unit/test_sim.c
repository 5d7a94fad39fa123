/*
 * The simulated PMU, on a clock that stands still until it is told to go.
 */
#include "backends/backends.h"

#include "tests/unit/unit.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>

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

static void unresolved(const char *text, int code, enum err_id id, const char *says)
{
    struct event event;

    ck_assert_msg(sim_backend.resolve(sim, text, &event, &err) == -code, "%s", text);
    ck_assert_msg(err.id == id, "%s: %s", text, err.text);
    ck_assert_msg(strstr(err.text, says) != NULL, "%s: %s", text, err.text);
}

/* A plan for process 100 and this one event; its own modifiers decide, else all is counted. */
static struct plan_event planned[SET_MAX];

static struct plan plan_for(const char *text)
{
    const struct event *event = resolve(text);

    planned[0] = (struct plan_event){event, event->user != SAID_OFF, event->kernel != SAID_OFF};
    return (struct plan){.events = planned,
                         .n = 1,
                         .fds_free = 100,
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

static void not_attached(const struct plan *plan, int code, enum err_id id)
{
    struct counter *counter;

    ck_assert_int_eq(sim_backend.attach(sim, plan, &counter, &err), -code);
    ck_assert_int_eq(err.id, id);
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

static const struct class_info *class_at(unsigned i)
{
    unsigned n;
    const struct class_info *classes = sim_backend.classes(sim, &n);

    ck_assert_uint_lt(i, n);
    return &classes[i];
}

/* ---- shape ---- */

TEST(without_options_four_cpus_and_a_class_of_four_rows)
{
    struct cpus possible, online;
    unsigned n;

    ck_assert_int_eq(open_with(NULL), 0);
    sim_backend.classes(sim, &n);
    ck_assert_uint_eq(n, 2);
    ck_assert_str_eq(class_at(0)->name, "sim");
    ck_assert_uint_eq(class_at(0)->rows, 4);
    ck_assert_uint_eq(class_at(0)->width, 48);
    ck_assert_str_eq(class_at(1)->name, "software");
    ck_assert_uint_eq(class_at(1)->rows, 0);
    cpus_init(&possible);
    cpus_init(&online);
    sim_backend.cpus(sim, &possible, &online);
    ck_assert_uint_eq(cpus_count(&possible), 4);
    ck_true(cpus_equal(&possible, &online));
    cpus_free(&possible);
    cpus_free(&online);
}

TEST(shape_is_made_from_words)
{
    struct cpus possible, online;
    struct buf list;

    ck_assert_int_eq(open_with("sim_cpus=0-1,5 sim_offline=1 sim_class=BIG:6:48:0 sim_fixed=1 "
                               "sim_class=LITTLE:2:32:1,5"),
                     0);
    ck_assert_str_eq(class_at(0)->name, "BIG");
    ck_assert_uint_eq(class_at(0)->rows, 7);
    ck_assert_uint_eq(class_at(1)->rows, 3);
    ck_assert_uint_eq(class_at(1)->width, 32);
    ck_true(cpus_has(&class_at(1)->cpus, 5) && !cpus_has(&class_at(1)->cpus, 0));
    cpus_init(&possible);
    cpus_init(&online);
    buf_init(&list, NULL, 0);
    sim_backend.cpus(sim, &possible, &online);
    cpus_print(&online, &list);
    ck_buf(&list, "0,5");
    buf_free(&list);
    cpus_free(&possible);
    cpus_free(&online);
}

TEST(shapes_that_cannot_be_are_refused)
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

/* ---- events ---- */

TEST(spellings_of_one_event)
{
    static const char *const same[] = {"cycles",       "CYCLES",       "sim::cycles",
                                       "sim/cycles/",  "SIM/Cycles/",  "generic/cycles",
                                       "PAPI_tot_cyc", "papi-tot.cyc", "generic/PAPI_TOT_CYC"};

    ck_assert_int_eq(open_with(NULL), 0);
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        struct event *event = resolve(same[i]);

        ck_assert_str_eq(event->resolved, "sim::cycles");
        ck_assert_str_eq(event->written, same[i]);
        ck_assert_uint_eq(event->rows, 15);
        ck_assert_int_eq(event->user, SAID_NOTHING);
    }
    ck_assert_str_eq(resolve("branch_misses")->resolved, "sim::branch-misses");
    ck_assert_str_eq(resolve("r01c2")->resolved, "sim::r1c2");
}

TEST(modifiers_and_qualifiers_say_user_and_kernel)
{
    static const struct {
        const char *text;
        enum event_said user, kernel;
    } said[] = {
        {"cycles:u", SAID_ON, SAID_OFF},
        {"cycles:k", SAID_OFF, SAID_ON},
        {"cycles:uk", SAID_ON, SAID_ON},
        {"sim/cycles/u", SAID_ON, SAID_OFF},
        {"sim::cycles:k", SAID_OFF, SAID_ON},
        {"cycles,usr", SAID_ON, SAID_OFF},
        {"cycles,os,cmask=2,inv,edge", SAID_OFF, SAID_ON},
        {"cycles,usr,os", SAID_ON, SAID_ON},
        {"sim/cycles,cmask=2/k", SAID_OFF, SAID_ON},
        {"generic/cycles:u", SAID_ON, SAID_OFF},
        {"page-faults:u", SAID_ON, SAID_OFF},
    };

    ck_assert_int_eq(open_with(NULL), 0);
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        struct event *event = resolve(said[i].text);

        ck_assert_msg(event->user == said[i].user && event->kernel == said[i].kernel, "%s",
                      said[i].text);
        ck_assert_ptr_null(strchr(event->resolved, '/'));
        ck_assert_str_eq(resolve(event->resolved)->resolved, event->resolved);
    }
    ck_assert_str_eq(resolve("cycles,os,cmask=2,inv,edge")->resolved,
                     "sim::cycles,cmask=2,inv,edge");
}

TEST(wrong_spellings_get_a_sentence)
{
    ck_assert_int_eq(open_with(NULL), 0);
    unresolved("cycels", EINVAL, CS01, "did you mean cycles");
    unresolved("simm::cycles", EINVAL, X06, "did you mean sim");
    unresolved("software::cycles", EINVAL, CS01, "class \"software\"");
    unresolved("r", EINVAL, CS01, "\"r\"");
    unresolved("rxyz", EINVAL, CS01, "rxyz");
    unresolved("r12345678901234567", EINVAL, CS01, "r123");
    unresolved("", EINVAL, CS01, "names no event");
    unresolved("/", EINVAL, CS01, "names no event");
    unresolved("sim//", EINVAL, CS01, "names no event");
    unresolved("::", EINVAL, CS01, "names no event");
    unresolved("cycles:x", EINVAL, CS03, "\"x\"");
    unresolved("cycles,egde", EINVAL, CS03, "did you mean edge");
    unresolved("cycles,cmask=256", EINVAL, CS04, "0-255");
    unresolved("cycles,cmask", EINVAL, CS04, "0-255");
    unresolved("cycles,inv=2", EINVAL, CS04, "inv=2");
    unresolved("page-faults,edge", EOPNOTSUPP, E35, "page-faults");
    unresolved("task-clock,cmask=2", EOPNOTSUPP, E35, "cmask");
    unresolved("package:u", EINVAL, CS03, "user mode");
    unresolved("fixed-instructions", EOPNOTSUPP, P09, "sim_fixed=1");
}

TEST(rows_that_fit_follow_the_shape)
{
    ck_assert_int_eq(open_with("sim_rows=5 sim_fixed=1"), 0);
    ck_assert_uint_eq(resolve("cycles")->rows, 0x1f);
    ck_assert_uint_eq(resolve("instructions")->rows, 0x3f);
    ck_assert_uint_eq(resolve("fixed-instructions")->rows, 0x20);
    ck_assert_uint_eq(resolve("loads")->rows, 0x15);
    ck_assert_uint_eq(resolve("wide")->rows_needed, 2);
    ck_assert_uint_eq(resolve("page-faults")->rows_needed, 0);
    ck_assert_uint_lt(class_at(0)->row_events[5], class_at(0)->row_events[1]);
    ck_assert_uint_lt(class_at(0)->row_events[1], class_at(0)->row_events[0]);
}

TEST(hybrid_classes_have_their_own_events)
{
    ck_assert_int_eq(open_with("sim_class=BIG:4:48:0-1 sim_class=LITTLE:1:32:2-3"), 0);
    ck_assert_uint_eq(resolve("cycles")->class_index, 0);
    ck_assert_uint_eq(resolve("LITTLE/cycles/u")->class_index, 1);
    ck_assert_uint_eq(resolve("little::r7")->class_index, 1);
    unresolved("LITTLE::wide", EOPNOTSUPP, P09, "2 rows");
}

TEST(sets_lie_in_one_class_and_in_its_rows)
{
    static const char *const names[] = {"loads", "loads", "loads", "page-faults"};
    struct plan_event set[4];

    ck_assert_int_eq(open_with("sim_class=A:4:48 sim_class=B:4:48"), 0);
    for (unsigned i = 0; i < 4; i++)
        set[i] = (struct plan_event){resolve(names[i]), true, true};
    ck_assert_int_eq(sim_backend.check_set(sim, set, 2, false, &err), 0);
    ck_assert_int_eq(sim_backend.check_set(sim, &set[2], 2, false, &err), 0);
    ck_assert_int_eq(sim_backend.check_set(sim, set, 4, false, &err), -EINVAL);
    ck_assert_int_eq(err.id, E19);
    set[1].event = resolve("B::cycles");
    ck_assert_int_eq(sim_backend.check_set(sim, set, 2, false, &err), -EINVAL);
    ck_assert_int_eq(err.id, CS08);
}

TEST(all_that_is_listed_can_be_described_and_resolved)
{
    struct catalog catalog;

    ck_assert_int_eq(open_with("sim_class=A:4:48 sim_class=B:1:48"), 0);
    catalog_init(&catalog);
    ck_assert_int_eq(sim_backend.list(sim, &catalog, &err), 0);
    ck_assert_uint_gt(catalog.n, 30);
    for (size_t i = 0; i < catalog.n; i++) {
        const struct catalog_entry *entry = &catalog.entries[i];
        struct event event;
        struct buf text;
        char spelling[64];

        buf_init(&text, NULL, 0);
        ck_assert_int_eq(sim_backend.describe(sim, entry->class_name, entry->event, &text), 0);
        ck_assert_int_eq(sscanf(buf_text(&text), "event %63s", spelling), 1);
        ck_assert_msg(sim_backend.resolve(sim, spelling, &event, &err) == 0, "%s", err.text);
        if (strcmp(entry->class_name, "generic") != 0) {
            ck_assert_str_eq(class_at(event.class_index)->name, entry->class_name);
            ck_assert_ptr_nonnull(strstr(event.resolved, entry->event));
        }
        event_clear(&event);
        buf_free(&text);
    }
    catalog_free(&catalog);
}

TEST(description_has_its_lines_in_order)
{
    struct buf text;

    ck_assert_int_eq(open_with(NULL), 0);
    buf_init(&text, NULL, 0);
    ck_assert_int_eq(sim_backend.describe(sim, "sim", "package", &text), 0);
    ck_buf(&text, "event package\ndescription energy of the package, about 15 W; CPUs only\n"
                  "scope package\nsampling no\nunit Joules\nscale 2.3283064365386963e-10\n"
                  "rows 0-3\nencoding sim::package rate_per_ms=64000000\n");
    ck_assert_int_eq(sim_backend.describe(sim, "sim", "wide-not", &text), -ENOENT);
    ck_assert_int_eq(sim_backend.describe(sim, "sim", "r1c2", &text), -ENOENT);
    ck_assert_int_eq(sim_backend.describe(sim, "sim", "page-faults", &text), -ENOENT);
    buf_free(&text);
}

/* ---- counting ---- */

TEST(value_is_rate_times_time_while_running)
{
    struct plan plan;
    struct counter *counter;

    ck_assert_int_eq(open_with(NULL), 0);
    plan = plan_for("cycles");
    counter = attach(&plan);
    pass_us(10);
    ck_assert_uint_eq(value(counter), 0);
    sim_backend.start(counter, &err);
    pass_us(10);
    ck_assert_uint_eq(value(counter), 10000);
    sim_backend.stop(counter);
    pass_us(10);
    ck_assert_uint_eq(value(counter), 10000);
    sim_backend.start(counter, &err);
    pass_us(5);
    ck_assert_uint_eq(value(counter), 15000);
    ck_assert_uint_eq(read_of(counter).covered_ns, 15000);
    ck_assert_uint_eq(read_of(counter).running_ns, 15000);
    sim_backend.free(counter);
}

TEST(user_and_kernel_add_up_exactly)
{
    struct counter *both, *user, *kernel;

    ck_assert_int_eq(open_with(NULL), 0);
    both = running("r1f");
    user = running("r1f:u");
    kernel = running("r1f,os");
    for (unsigned i = 0; i < 50; i++) {
        pass_us(37);
        ck_assert_uint_eq(value(both), value(user) + value(kernel));
    }
    ck_assert_uint_eq(value(both), 57);
    ck_assert_uint_eq(value(kernel), 14);
    sim_backend.free(both);
    sim_backend.free(user);
    sim_backend.free(kernel);
}

TEST(values_wrap_at_64_bits_whatever_the_width)
{
    struct counter *fast;

    ck_assert_int_eq(open_with("sim_class=narrow:4:16"), 0);
    fast = running("rffffffffffffffff");
    pass_us(1000);
    ck_assert_uint_eq(value(fast), UINT64_MAX);
    pass_us(1000);
    ck_assert_uint_eq(value(fast), UINT64_MAX - 1);
    sim_backend.free(fast);
}

TEST(set_is_read_at_one_instant)
{
    struct plan plan;
    struct counter *counter;
    struct reading reading;

    ck_assert_int_eq(open_with(NULL), 0);
    plan = plan_for("cycles");
    planned[1] = (struct plan_event){resolve("instructions"), true, true};
    planned[2] = (struct plan_event){resolve("page-faults"), true, true};
    plan.n = 3;
    counter = attach(&plan);
    sim_backend.start(counter, &err);
    pass_us(2000);
    reading = read_of(counter);
    ck_assert_uint_eq(reading.value[0], 2000000);
    ck_assert_uint_eq(reading.value[1], 4000000);
    ck_assert_uint_eq(reading.value[2], 4);
    ck_assert_uint_eq(reading.time_ns, now_ns);
    sim_backend.free(counter);
}

TEST(value_stays_after_death)
{
    struct counter *counter;

    ck_assert_int_eq(open_with(NULL), 0);
    counter = running("cycles");
    pass_us(3);
    target_lives = false;
    ck_assert_uint_eq(value(counter), 3000);
    pass_us(3);
    ck_assert_uint_eq(value(counter), 3000);
    sim_backend.stop(counter);
    sim_backend.start(counter, &err);
    pass_us(3);
    ck_assert_uint_eq(value(counter), 3000);
    ck_true(!sim_backend.covers(counter, 100));
    sim_backend.free(counter);
}

TEST(at_exec_counts_from_the_exec_a_millisecond_later)
{
    struct plan plan;
    struct counter *counter;

    ck_assert_int_eq(open_with(NULL), 0);
    plan = plan_for("cycles");
    plan.at_exec = true;
    counter = attach(&plan);
    sim_backend.start(counter, &err);
    pass_us(900);
    ck_assert_uint_eq(value(counter), 0);
    sim_backend.stop(counter);
    sim_backend.start(counter, &err);
    pass_us(1001);
    ck_assert_uint_eq(value(counter), 1000);
    sim_backend.stop(counter);
    sim_backend.start(counter, &err);
    pass_us(1);
    ck_assert_uint_eq(value(counter), 2000);
    sim_backend.free(counter);
}

TEST(multiplex_runs_half_of_the_time_and_estimates_the_whole)
{
    struct plan plan;
    struct counter *counter;
    struct reading reading;

    ck_assert_int_eq(open_with(NULL), 0);
    plan = plan_for("cycles");
    plan.multiplex = true;
    counter = attach(&plan);
    sim_backend.start(counter, &err);
    __atomic_add_fetch(&now_ns, 1, __ATOMIC_RELAXED);
    ck_true(read_of(counter).never_ran);
    pass_us(100);
    __atomic_sub_fetch(&now_ns, 1, __ATOMIC_RELAXED);
    reading = read_of(counter);
    ck_assert_uint_eq(reading.enabled_ns, 100000);
    ck_assert_uint_eq(reading.running_ns, 50000);
    ck_assert_uint_eq(reading.value[0], 50000);
    ck_assert_uint_eq(reading.estimate[0], 100000);
    ck_true(!reading.never_ran);
    sim_backend.free(counter);
}

TEST(lost_counter_stands_still_until_started_again)
{
    struct counter *counter, *software;
    struct reading reading;

    ck_assert_int_eq(open_with("sim_lose_after_ms=2"), 0);
    counter = running("cycles");
    software = running("task-clock");
    pass_us(1999);
    ck_true(!read_of(counter).off);
    pass_us(3001);
    reading = read_of(counter);
    ck_true(reading.off);
    ck_assert_uint_eq(reading.value[0], 2000000);
    ck_assert_uint_eq(reading.covered_ns, 5000000);
    ck_assert_uint_eq(reading.running_ns, 2000000);
    ck_true(!read_of(software).off);
    ck_assert_uint_eq(value(software), 5000000);
    sim_backend.start(counter, &err);
    pass_us(1000);
    reading = read_of(counter);
    ck_true(!reading.off);
    ck_assert_uint_eq(reading.value[0], 3000000);
    pass_us(1000);
    ck_true(read_of(counter).off);
    sim_backend.free(counter);
    sim_backend.free(software);
}

TEST(targets_that_cannot_be_are_refused)
{
    struct plan plan;

    ck_assert_int_eq(open_with("sim_cpus=0-1,3 sim_offline=1 sim_class=A:2:48:0-1"), 0);
    plan = plan_for("cycles");
    plan.target = (struct target_ref){.kind = TARGET_CPU, .cpu = 2};
    not_attached(&plan, EINVAL, E21);
    plan.target.cpu = 1;
    not_attached(&plan, ENXIO, E37);
    plan.target.cpu = 3;
    not_attached(&plan, EINVAL, P30);
    plan.target.cpu = 0;
    sim_backend.free(attach(&plan));
    plan.fds_free = 0;
    not_attached(&plan, EMFILE, P10);
    plan.fds_free = ULONG_MAX;
    plan.fds_quota = 0;
    not_attached(&plan, EDQUOT, P11);
    plan = plan_for("package");
    not_attached(&plan, EINVAL, P30);
    target_lives = false;
    plan = plan_for("cycles");
    not_attached(&plan, ESRCH, E44);
}

TEST(facts_and_cover_of_targets)
{
    struct plan plan;
    struct counter *counter;
    struct counter_facts facts;

    ck_assert_int_eq(open_with(NULL), 0);
    plan = plan_for("cycles");
    plan.descendants = true;
    counter = attach(&plan);
    sim_backend.facts_of(counter, &facts);
    ck_assert_uint_eq(facts.threads, 1);
    ck_assert_uint_eq(facts.covered, 1);
    ck_assert_uint_eq(facts.left_out, 0);
    ck_assert_uint_eq(sim_backend.cost(counter), 1);
    ck_true(sim_backend.covers(counter, 100) && !sim_backend.covers(counter, 101));
    sim_backend.free(counter);
    plan.target = (struct target_ref){.kind = TARGET_CGROUP, .cgroup_fd = -1};
    counter = attach(&plan);
    sim_backend.facts_of(counter, &facts);
    ck_assert_uint_eq(facts.descriptors, 4);
    ck_true(!sim_backend.covers(counter, 0));
    sim_backend.free(counter);
}

TEST(printed_counter_is_adopted_and_goes_on)
{
    struct plan plan;
    struct counter *counter, *next;
    struct buf text;

    ck_assert_int_eq(open_with(NULL), 0);
    plan = plan_for("cycles");
    counter = attach(&plan);
    sim_backend.start(counter, &err);
    pass_us(4);
    value(counter);
    buf_init(&text, NULL, 0);
    sim_backend.print(counter, &text);
    ck_assert_ptr_null(strchr(buf_text(&text), '\n'));
    sim_backend.forget(counter);
    pass_us(6);
    ck_assert_int_eq(sim_backend.adopt(sim, &plan, buf_text(&text), &next), 0);
    ck_assert_uint_eq(value(next), 10000);
    sim_backend.free(next);
    ck_assert_int_eq(sim_backend.adopt(sim, &plan, "sim on=1", &next), -EINVAL);
    buf_free(&text);
}

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

TEST(reads_of_many_threads_never_go_back)
{
    pthread_t threads[4];
    struct counter *counter;
    void *went_back;

    ck_assert_int_eq(open_with(NULL), 0);
    counter = running("cycles");
    for (unsigned i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, read_often, counter), 0);
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(threads[i], &went_back);
        ck_assert_ptr_null(went_back);
    }
    ck_assert_uint_eq(value(counter), 8000000);
    sim_backend.free(counter);
}
