/*
 * Records of all CPUs are kept in one text, in the order in which they were made; how much of it
 * each CPU has taken is counted apart.
 */
#include "backends/sim/recorder.h"

#include "backends/sim/counter.h"
#include "backends/sim/sim.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define PAGE_BYTES 4096
#define LOOK_NS    10000000
#define MAX_FRAMES 127

struct recorder {
    struct backend_state *state;
    LIST_ENTRY(recorder) of_all;
    uintptr_t serial;
    uint64_t tag, bytes;
    int timer; /* -1: nobody looks by itself */
    bool forgotten;
    LIST_HEAD(, counter) counters;

    struct buf queue;
    size_t begun;           /* of the record that is being written */
    unsigned n_cpus;        /* highest possible number + 1 */
    uint64_t *used;         /* bytes, by CPU */
    uint64_t *lost;         /* records, by CPU */
    bool ready, ready_told; /* a CPU's buffer is half full since the last drain */
};

/* The loop may still call back when a recorder is freed: it is given a serial. */
static LIST_HEAD(, recorder) recorders;
static uintptr_t last_serial;

/* ---- writing ---- */

struct buf *recorder_open(struct recorder *recorder)
{
    recorder->begun = recorder->queue.len;
    return &recorder->queue;
}

/* The builders know no CPU. */
static void tail_cpu(struct record *record, unsigned cpu)
{
    struct record_tail *tail = record_tail(record);

    if (tail)
        tail->cpu = cpu;
}

bool recorder_shut(struct recorder *recorder, unsigned cpu)
{
    struct buf *queue = &recorder->queue;
    const uint64_t size = queue->len - recorder->begun;
    const bool kept = !queue->failed && recorder->used[cpu] + size <= recorder->bytes;

    if (kept) {
        tail_cpu((struct record *)(queue->data + recorder->begun), cpu);
        recorder->used[cpu] += size;
    } else {
        queue->len = recorder->begun;
        queue->failed = false;
        recorder->lost[cpu]++;
    }
    recorder->ready |= recorder->used[cpu] >= recorder->bytes / 2;
    return kept;
}

void recorder_lose(struct recorder *recorder, unsigned cpu, uint64_t n)
{
    recorder->lost[cpu] += n;
}

/* ---- readiness ---- */

static struct recorder *recorder_find(uintptr_t serial)
{
    struct recorder *recorder;

    LIST_FOREACH (recorder, &recorders, of_all)
        if (recorder->serial == serial)
            break;
    return recorder;
}

static void counters_look(struct recorder *recorder, uint64_t now)
{
    struct counter *counter;

    LIST_FOREACH (counter, &recorder->counters, of_recorder)
        counter_look(counter, now);
}

static void timer_ran(void *arg, uint32_t events)
{
    const struct sink *sink = NULL;
    struct recorder *recorder;
    uint64_t times, tag = 0;

    (void)events;
    pthread_mutex_lock(&sim_lock);
    recorder = recorder_find((uintptr_t)arg);
    if (recorder) {
        ssize_t n = read(recorder->timer, &times, sizeof times); /* or it would go on telling */

        (void)n;
        counters_look(recorder, sim_now(recorder->state));
        if (recorder->ready && !recorder->ready_told) {
            recorder->ready_told = true;
            sink = recorder->state->sink;
            tag = recorder->tag;
        }
    }
    pthread_mutex_unlock(&sim_lock);
    if (sink)
        sink->ready(sink->ctx, tag);
}

/* It ticks while there are counters. */
static void timer_set(const struct recorder *recorder, bool on)
{
    const struct timespec step = {.tv_nsec = on ? LOOK_NS : 0};
    const struct itimerspec spec = {.it_interval = step, .it_value = step};

    if (recorder->timer >= 0)
        timerfd_settime(recorder->timer, 0, &spec, NULL);
}

static int timer_make(struct recorder *recorder)
{
    const struct loop *loop = recorder->state->loop;
    int rc;

    if (!loop)
        return 0;
    recorder->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (recorder->timer < 0)
        return -errno;
    rc = loop->watch(loop->ctx, recorder->timer, EPOLLIN, timer_ran, (void *)recorder->serial);
    if (rc != 0) {
        close(recorder->timer);
        recorder->timer = -1;
    }
    return rc;
}

void recorder_join(struct recorder *recorder, struct counter *counter)
{
    if (!recorder)
        return;
    if (LIST_EMPTY(&recorder->counters))
        timer_set(recorder, true);
    LIST_INSERT_HEAD(&recorder->counters, counter, of_recorder);
}

void recorder_leave(struct recorder *recorder, struct counter *counter)
{
    if (!recorder)
        return;
    LIST_REMOVE(counter, of_recorder);
    if (LIST_EMPTY(&recorder->counters))
        timer_set(recorder, false);
}

/* ---- draining ---- */

struct place {
    uint64_t time;
    size_t at;
};

static int place_compare(const void *a, const void *b)
{
    const struct place *one = a, *other = b;

    if (one->time != other->time)
        return one->time < other->time ? -1 : 1;
    return one->at < other->at ? -1 : one->at > other->at;
}

static size_t places_list(const struct buf *records, struct place *place)
{
    size_t n = 0;

    for (size_t at = 0; at < records->len; n++) {
        const struct record *record = (const struct record *)(records->data + at);

        if (place)
            place[n] = (struct place){record_time(record), at};
        at += record->size;
    }
    return n;
}

/* What was lost stands behind what was kept. */
static void losses_tell(struct recorder *recorder, struct buf *records, uint64_t now)
{
    for (unsigned cpu = 0; cpu < recorder->n_cpus; cpu++) {
        const size_t begun = records->len;

        if (recorder->lost[cpu] == 0)
            continue;
        record_add_lost(records, now, 0, recorder->lost[cpu]);
        if (!records->failed)
            tail_cpu((struct record *)(records->data + begun), cpu);
        recorder->lost[cpu] = 0;
    }
}

static unsigned record_cpu(const struct recorder *recorder, struct record *record)
{
    const struct record_tail *tail = record_tail(record);
    uint32_t cpu = tail ? tail->cpu : 0;

    if (record->type == RECORD_SAMPLE)
        cpu = ((const struct record_sample *)record)->cpu;
    else if (record_is_note(record))
        cpu = ((const struct record_note *)record)->cpu;
    return cpu < recorder->n_cpus ? cpu : 0;
}

/* In order; what is later than `until` stays for the next time. */
static void records_hand(struct recorder *recorder, const struct buf *records,
                         const struct place *place, size_t n, uint64_t until,
                         const struct intake *intake)
{
    for (size_t i = 0; i < n; i++) {
        struct record *record = (struct record *)(records->data + place[i].at);

        if (place[i].time <= until) {
            intake->put(intake->arg, record);
            continue;
        }
        pthread_mutex_lock(&sim_lock);
        buf_add(&recorder->queue, record, record->size);
        recorder->used[record_cpu(recorder, record)] += record->size;
        pthread_mutex_unlock(&sim_lock);
    }
}

/* All counters have told what was before `now`; some that were read since told more. */
int sim_drain(struct recorder *recorder, bool all, const struct intake *intake)
{
    const uint64_t now = sim_now(recorder->state);
    struct buf records;
    struct place *places;
    size_t n;

    pthread_mutex_lock(&sim_lock);
    counters_look(recorder, now);
    losses_tell(recorder, &recorder->queue, now);
    records = recorder->queue;
    buf_init(&recorder->queue, NULL, 0);
    memset(recorder->used, 0, recorder->n_cpus * sizeof recorder->used[0]);
    recorder->ready = recorder->ready_told = false;
    pthread_mutex_unlock(&sim_lock);

    n = places_list(&records, NULL);
    places = malloc(n * sizeof *places);
    if (places) {
        places_list(&records, places);
        qsort(places, n, sizeof *places, place_compare);
        records_hand(recorder, &records, places, n, all ? UINT64_MAX : now, intake);
    }
    if (!places && n > 0)
        recorder->lost[0] += n;
    free(places);
    buf_free(&records);
    return 0;
}

/* ---- life ---- */

/* NULL: no memory, no descriptor. */
static struct recorder *recorder_make(struct backend_state *state, const struct recorder_plan *plan)
{
    struct recorder *recorder = calloc(1, sizeof *recorder);
    uint64_t bytes = PAGE_BYTES;

    if (!recorder)
        return NULL;
    while (bytes <= plan->bytes / 2)
        bytes *= 2;
    recorder->state = state;
    recorder->timer = -1;
    recorder->tag = plan->tag;
    recorder->bytes = bytes;
    recorder->n_cpus = CPUS_MAX;
    while (recorder->n_cpus > 1 && !cpus_has(&state->shape.possible, recorder->n_cpus - 1))
        recorder->n_cpus--;
    recorder->used = calloc(recorder->n_cpus, sizeof recorder->used[0]);
    recorder->lost = calloc(recorder->n_cpus, sizeof recorder->lost[0]);
    pthread_mutex_lock(&sim_lock);
    recorder->serial = ++last_serial;
    LIST_INSERT_HEAD(&recorders, recorder, of_all);
    pthread_mutex_unlock(&sim_lock);
    if (recorder->used && recorder->lost && timer_make(recorder) == 0)
        return recorder;
    sim_recorder_free(recorder);
    return NULL;
}

void sim_recorder_free(struct recorder *recorder)
{
    if (!recorder)
        return;
    pthread_mutex_lock(&sim_lock);
    LIST_REMOVE(recorder, of_all);
    pthread_mutex_unlock(&sim_lock);
    if (recorder->timer >= 0 && recorder->state->loop) {
        recorder->state->loop->unwatch(recorder->state->loop->ctx, recorder->timer);
        close(recorder->timer);
    }
    buf_free(&recorder->queue);
    free(recorder->used);
    free(recorder->lost);
    free(recorder);
}

/* As many descriptors as the kernel's buffers would need. */
void sim_recorder_facts(const struct recorder *recorder, struct recorder_facts *out)
{
    const unsigned cpus = cpus_count(&recorder->state->shape.online);

    *out = (struct recorder_facts){.descriptors = cpus, .bytes = cpus * recorder->bytes};
}

int sim_recorder_new(struct backend_state *state, const struct recorder_plan *plan,
                     struct recorder **out, struct err *err)
{
    const unsigned cpus = cpus_count(&state->shape.online);

    if (cpus > plan->fds_free)
        return err_set(err, P10, "a buffer for each CPU needs %u descriptors, %lu may be used",
                       cpus, plan->fds_free);
    if (cpus > plan->fds_quota)
        return err_set(err, P11,
                       "a buffer for each CPU needs %u descriptors, quota has %lu left "
                       "(%s)",
                       cpus, plan->fds_quota, plan->fds_limit);
    *out = recorder_make(state, plan);
    return *out ? 0 : err_nomem(err);
}

void sim_sample_limits(struct backend_state *state, struct sample_limits *out)
{
    *out = (struct sample_limits){.max_freq = state->shape.max_freq, .max_frames = MAX_FRAMES};
}

/* ---- for a later worker: the simulated machine knows its buffers by their numbers ---- */

void sim_recorder_print(const struct recorder *recorder, struct buf *out)
{
    buf_u64(out, recorder->serial);
}

void sim_recorder_forget(struct recorder *recorder)
{
    recorder->forgotten = true;
}

int sim_recorder_adopt(struct backend_state *state, const struct recorder_plan *plan,
                       const char *printed, struct recorder **out)
{
    const uintptr_t serial = strtoul(printed, NULL, 10);
    struct recorder *recorder;

    pthread_mutex_lock(&sim_lock);
    recorder = recorder_find(serial);
    if (recorder && (recorder->state != state || !recorder->forgotten || recorder->tag != plan->tag))
        recorder = NULL;
    if (recorder)
        recorder->forgotten = false;
    pthread_mutex_unlock(&sim_lock);
    *out = recorder;
    return recorder ? 0 : -EINVAL;
}

void sim_recorders_close(struct backend_state *state)
{
    for (struct recorder *recorder = LIST_FIRST(&recorders), *next; recorder; recorder = next) {
        next = LIST_NEXT(recorder, of_all);
        if (recorder->state == state && recorder->forgotten)
            sim_recorder_free(recorder);
    }
}
