/*
 * One recorder and one counter of the tests of records, and their records.
 */
#include "tests/record_test.h"

#include "backends/perf/probe/open.h"
#include "core/base/clock.h"

#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

struct event events[] = {
    {.written = (char *)"page-faults", .scale = 1, .code = {PERF_TYPE_SOFTWARE, 2}},
    {.written = (char *)"cpu-clock", .scale = 1, .code = {PERF_TYPE_SOFTWARE, 0}},
    {.written = (char *)"context-switches", .scale = 1, .code = {PERF_TYPE_SOFTWARE, 3}},
    {.written = (char *)"instructions",
     .scale = 1,
     .code = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, [CODE_FLAGS] = CODE_HARDWARE}},
    {.written = (char *)"cycles",
     .scale = 1,
     .code = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, [CODE_FLAGS] = CODE_HARDWARE}},
    {.written = (char *)"syscalls:sys_enter_getppid", .scale = 1, .code = {PERF_TYPE_TRACEPOINT}},
};

struct plan_event plan_events[SET_MAX];

static void take(void *arg, const struct record *record)
{
    struct run *run = arg;

    run->malformed += !record_is_valid(record, record->size);

    if (run->n + record->size > run->size) {
        run->size = 2 * (run->n + record->size);
        run->bytes = realloc(run->bytes, run->size);
    }
    memcpy(run->bytes + run->n, record, record->size);
    run->n += record->size;
}

static void take_sample(void *arg, const struct sample *sample)
{
    static uint64_t record[RECORD_MAX / sizeof(uint64_t)];

    sample_write(sample, (void *)record);
    take(arg, (const void *)record);
}

void drain(struct run *run, bool all)
{
    perf_drain(run->recorder, all,
               &(struct intake){.put = take, .sample = take_sample, .arg = run});
}

const struct record *first_record(const struct run *run)
{
    return run->n ? (const void *)run->bytes : NULL;
}

const struct record *next_record(const struct run *run, const struct record *record)
{
    const char *next = (const char *)record + record->size;

    return next < run->bytes + run->n ? (const void *)next : NULL;
}

unsigned long count_type(const struct run *run, enum record_type type)
{
    unsigned long n = 0;

    EACH(run, record)
    n += record->type == type;
    return n;
}

unsigned long samples_of(const struct run *run, unsigned place)
{
    unsigned long n = 0;

    EACH(run, record)
    n += record->type == RECORD_SAMPLE &&
         ((const struct record_sample *)(const void *)record)->id == LOG_ID(SET, place);
    return n;
}

unsigned long lost_of(const struct run *run)
{
    unsigned long n = 0;

    EACH(run, record)
    if (record->type == RECORD_LOST)
        n += ((const struct record_lost *)(const void *)record)->lost;
    return n;
}

bool in_order(const struct run *run)
{
    uint64_t last = 0;
    bool ok = true;

    EACH(run, record)
    {
        ok &= record_time(record) >= last;
        last = record_time(record);
    }
    return ok;
}

uint64_t value_at(const struct run *run, unsigned place)
{
    struct reading now;

    return perf_read(run->counter, &now, true) ? UINT64_MAX : now.value[place];
}

void run_plan(struct run *run, struct target *target)
{
    run->plan = (struct plan){
        .events = plan_events,
        .n = 1,
        .fds_left = 10000,
        .fds_quota = 10000,
        .max_covered = 10000,
        .tag = 7,
        .deadline_ns = monotonic_ns() + 60000000000u,
        .target = {.kind = TARGET_PROCESS, .pid = target ? target->pid : 0, .cgroup_fd = -1},
        .set_number = SET,
        .sampling = true,
        .period = 1,
    };
    plan_events[0] = (struct plan_event){&events[FAULTS], true, true};
}

bool recorder_begin_with(struct run *run, uint64_t bytes)
{
    struct recorder_plan plan = {.bytes = bytes, .tag = 7, .fds_left = 100, .fds_quota = 100};

    if (!check(!perf_recorder_new(&state, &plan, &run->recorder, &err), "a recorder", ": %s",
               err.text))
        return false;
    run->plan.recorder = run->recorder;
    return true;
}

bool run_attach(struct run *run)
{
    int rc = perf_attach(&state, &run->plan, &run->counter, &err);

    if (!rc)
        rc = perf_start(run->counter, &err);
    return check(!rc, "attached and started", ": %s", err.text);
}

void run_end(struct run *run)
{
    if (run->malformed)
        check(false, "well-formed records", ": %u are not", run->malformed);
    if (run->counter)
        perf_free(run->counter);
    perf_recorder_free(run->recorder);
    free(run->bytes);
    *run = (struct run){.n = 0};
}
