/*
 * Records of the kernel's become records of core's: ids are those of the log, losses have one form,
 * the period stands in every sample, samples of values become steps. What is of no use is left out.
 */
#include "backends/perf/record/drain.h"
#include "backends/perf/record/sampling.h"

#include <linux/perf_event.h>
#include <string.h>

enum {
    TIME_IN_SAMPLE = offsetof(struct record_sample, time),
    PERIOD_IN_SAMPLE = offsetof(struct record_sample, period),
    TIME_IN_TAIL = sizeof(struct record_tail) - offsetof(struct record_tail, time)
};

/* Fields are aligned to 8 bytes, so that none goes around the ring's end. */
static const void *ring_at(const struct ring *ring, uint64_t at)
{
    return ring->data + (at & (ring->size - 1));
}

uint64_t kernel_record_time(const struct ring *ring, uint64_t at)
{
    const struct record *head = ring_at(ring, at);
    uint64_t offset = TIME_IN_SAMPLE, time = 0;

    if (head->type != PERF_RECORD_SAMPLE)
        offset = head->size - (uint64_t)TIME_IN_TAIL;
    if (head->size >= sizeof *head + sizeof(struct record_tail))
        memcpy(&time, ring_at(ring, at + offset), sizeof time);
    return time;
}

static struct record_tail *tail_of(struct record *record)
{
    return (void *)((char *)record + record->size - sizeof(struct record_tail));
}

static uint64_t log_id(const struct id *id)
{
    return LOG_ID(id->origin->set, id->place);
}

/*
 * A sample that was prepared for another event too (sampling_shares_id) may be longer than it was
 * written: as long as the other's.
 */
static void sample_cut(const struct origin *origin, struct record_sample *sample)
{
    uint64_t room = (uint64_t)sample->head.size - SAMPLE_SHORT;

    if (sample->head.size <= SAMPLE_SHORT)
        return;
    if (!origin->chains)
        sample->head.size = SAMPLE_SHORT;
    else if (room >= sizeof(uint64_t) && sample->n_frames < room / sizeof(uint64_t))
        sample->head.size = (uint16_t)(SAMPLE_SHORT + (1 + sample->n_frames) * sizeof(uint64_t));
}

static void sample_lose(const struct record_sample *sample, const struct intake *intake)
{
    struct record_lost loss = {
        .head = {.type = RECORD_LOST, .size = sizeof loss},
        .lost = 1,
        .tail = {.time = sample->time, .cpu = sample->cpu},
    };

    intake->put(intake->arg, &loss.head);
}

/*
 * Registers and stack at `at`, of a record that ends at `end`: the kernel says in a word which
 * registers' kind they are, and leaves room for a stack of the size that was asked for, whatever
 * was there; only that much is kept. Where they end then; 0: they cannot be.
 */
static size_t stack_take(char *record, size_t at, size_t end)
{
    const size_t word = sizeof(uint64_t);
    const unsigned most = (unsigned)__builtin_popcountll(sampling_registers());
    uint64_t *abi = (void *)(record + at), *stack;
    const unsigned n = end - at >= word && *abi ? most : 0;

    if (end - at < (2 + n) * word)
        return 0;
    *abi = REGISTERS_WORD(*abi, n);
    at += (1 + n) * word;
    stack = (void *)(record + at);
    at += word;
    if (*stack == 0)
        return at;
    if (*stack % word || end - at < *stack + word)
        return 0;
    const uint64_t there = stack[1 + *stack / word];
    uint64_t kept = record_padded(there), room = RECORD_MAX - at - word;
    if (there > *stack)
        return 0;
    kept = kept < room ? kept : room & ~(word - 1);
    *stack = kept;
    if (kept == 0)
        return at;
    if (there < kept)
        memset((char *)(stack + 1) + there, 0, kept - there);
    stack[1 + kept / word] = there < kept ? there : kept;
    return at + kept + word;
}

/* The fields of a tracepoint, the same way. */
static size_t raw_take(const char *record, size_t at, size_t end)
{
    uint32_t bytes;

    if (end - at < sizeof bytes)
        return 0;
    memcpy(&bytes, record + at, sizeof bytes);
    const size_t part = record_padded(sizeof bytes + (size_t)bytes);
    return end - at < part ? 0 : at + part;
}

/* Where the last of the parts ends; 0: they cannot be what they say. */
static size_t parts_take(unsigned parts, struct record_sample *sample, size_t size)
{
    size_t at = sizeof *sample;

    if (size < at || sample->n_frames > (size - at) / sizeof(uint64_t))
        return 0;
    at += sample->n_frames * sizeof(uint64_t);
    if (parts & RECORD_RAW)
        at = raw_take((char *)sample, at, size);
    if (at && parts & RECORD_STACK)
        at = stack_take((char *)sample, at, size);
    return at <= RECORD_MAX ? at : 0;
}

/*
 * One that has more than frames. Of the frames there is always a number, and the period stands
 * before it. Where it was prepared for another event too, it may be shorter than that says.
 */
static void long_sample_take(const struct id *id, struct record_sample *sample,
                             const struct intake *intake)
{
    const struct origin *origin = id->origin;
    char *const period = (char *)&sample->period, *const n_frames = (char *)&sample->n_frames;
    char *const from = id->says_period ? n_frames : period;
    char *const to = origin->chains ? n_frames : n_frames + sizeof sample->n_frames;
    size_t size = sample->head.size;

    if (size < (size_t)(from - (char *)sample))
        return;
    memmove(to, from, size - (size_t)(from - (char *)sample));
    size += (size_t)(to - from);
    if (!id->says_period)
        sample->period = origin->period;
    if (!origin->chains)
        sample->n_frames = 0;
    size = parts_take(id->parts, sample, size);
    sample->head.misc |= id->parts;
    sample->head.size = (uint16_t)size;
    if (size)
        intake->put(intake->arg, &sample->head);
    else
        sample_lose(sample, intake);
}

/* What the kernel leaves out is put in, behind the CPU: there is room. */
static void sample_take(const struct id *id, struct record_sample *sample,
                        const struct intake *intake)
{
    char *period = (char *)&sample->period;

    sample->id = log_id(id);
    sample->head.misc &= RECORD_MODE | PERF_RECORD_MISC_EXACT_IP;
    if (id->parts) {
        long_sample_take(id, sample, intake);
        return;
    }
    if (!id->says_period) {
        if (sample->head.size > RECORD_MAX - sizeof sample->period)
            return;
        memmove(period + sizeof sample->period, period,
                sample->head.size - (size_t)PERIOD_IN_SAMPLE);
        sample->period = id->origin->period;
        sample->head.size = (uint16_t)(sample->head.size + sizeof sample->period);
    }
    if (id->origin->samples) /* else of a counter closed long ago */
        sample_cut(id->origin, sample);
    intake->put(intake->arg, &sample->head);
}

static bool is_own_clock(const struct recorder *recorder, uint64_t kernel)
{
    for (unsigned i = 0; i < recorder->n_rings; i++)
        if (recorder->rings[i].clock_id == kernel)
            return true;
    return false;
}

/* The origin that a sample with a stranger's id is of: one that is open comes first. NULL: of none,
 * or it is not known. */
static const struct origin *origin_of_stray(const struct recorder *recorder, bool *samples)
{
    const struct origin *found = NULL;

    *samples = false;
    for (const struct origin *origin = recorder->origins; origin; origin = origin->next) {
        if (!origin->samples || (found && origin->closed_ns))
            continue;
        if (found && !found->closed_ns && found->set != origin->set)
            return NULL;
        *samples = true;
        found = origin;
    }
    return found && found->shares_one ? found : NULL;
}

/*
 * No other event writes into these rings: where one event alone can come with the id of somebody
 * else's (sampling_shares_id) it is of that event. Else it is said that there was one.
 */
static void stray_take(struct recorder *recorder, struct record_sample *sample,
                       const struct intake *intake)
{
    const struct origin *origin;
    bool samples;

    if (is_own_clock(recorder, sample->id))
        return;
    origin = origin_of_stray(recorder, &samples);
    if (origin) {
        struct id id = {.origin = origin,
                        .kind = ID_EVENT,
                        .place = origin->shared,
                        .says_period = !origin->period,
                        .parts = origin->shared_parts};

        sample_take(&id, sample, intake);
    } else if (samples) {
        sample_lose(sample, intake);
    }
}

void values_put(const struct note *note, const struct intake *intake)
{
    uint64_t room[(sizeof(struct record_note) / sizeof(uint64_t)) + 1 + SET_MAX];
    struct note values = *note;
    struct buf record;

    values.type = RECORD_VALUES;
    buf_init(&record, (char *)room, sizeof room);
    record_add_note(&record, &values);
    intake->put(intake->arg, (const struct record *)record.data);
    buf_free(&record);
}

/* The values follow the CPU, in the group's order. */
static void values_take(const struct id *id, const struct record *record,
                        const struct intake *intake)
{
    const struct record_sample *sample = (const void *)record;
    const struct sampled_values *values = (const void *)((const char *)record + PERIOD_IN_SAMPLE);
    const struct origin *origin = id->origin;
    uint64_t value[1 + SET_MAX];

    if (record->size < (size_t)PERIOD_IN_SAMPLE + sizeof *values +
                           (origin->extra + origin->n) * sizeof value[0] ||
        values->n != origin->extra + origin->n)
        return;
    value[0] = id->root;
    for (unsigned i = 0; i < origin->n; i++)
        value[1 + origin->order[i]] = values->value[origin->extra + i];
    values_put(&(struct note){.misc = id->kind == ID_END
                                          ? RECORD_LAST | (origin->whole ? RECORD_EXACT : 0)
                                          : 0,
                              .time = sample->time,
                              .pid = sample->pid,
                              .tid = sample->tid,
                              .cpu = id->cpu,
                              .id = LOG_ID(origin->set, 0),
                              .n = 1 + origin->n,
                              .value = value},
               intake);
}

static void any_sample_take(struct recorder *recorder, struct record *record,
                            const struct intake *intake)
{
    struct record_sample *sample = (void *)record;
    const struct id *id;

    if (record->size < (size_t)PERIOD_IN_SAMPLE)
        return;
    id = recorder_find_id(recorder, sample->id);
    if (id && id->kind == ID_EVENT)
        sample_take(id, sample, intake);
    else if (id)
        values_take(id, record, intake);
    else
        stray_take(recorder, sample, intake);
}

/* The next event that can write tells it, perhaps one that is ours no more: it is told all the
 * same. */
static void loss_take(struct recorder *recorder, const struct record *record, uint64_t lost,
                      const struct intake *intake)
{
    const struct record_tail *tail = tail_of((struct record *)(uintptr_t)record);
    const struct id *id = recorder_find_id(recorder, tail->id);
    struct record_lost loss = {
        .head = {.type = RECORD_LOST, .size = sizeof loss},
        .id = id ? log_id(id) : 0,
        .lost = lost,
        .tail = *tail,
    };

    if (!loss.lost)
        return;
    loss.tail.id = loss.id;
    if (!id) /* told by a part of ours */
        loss.tail.pid = loss.tail.tid = 0;
    intake->put(intake->arg, &loss.head);
}

/* A child that is not covered is of no PMC: of its end nothing would be told. */
static bool birth_is_covered(const struct origin *origin, const struct record_task *task)
{
    return task->pid == task->ppid ? origin->threads : origin->descendants;
}

static void event_take(struct recorder *recorder, struct record *record,
                       const struct intake *intake)
{
    struct record_tail *tail = tail_of(record);
    const struct id *id = recorder_find_id(recorder, tail->id);
    const struct origin *origin = id ? id->origin : NULL;

    if (!id || (record->type == RECORD_FORK &&
                !birth_is_covered(origin, (struct record_task *)(void *)record)))
        return;
    tail->id = log_id(id);
    record->misc &= (uint16_t)~RECORD_FOUND;
    if (record->type == RECORD_THROTTLE || record->type == RECORD_UNTHROTTLE) {
        struct record_throttle *throttle = (void *)record;

        throttle->id = throttle->stream = tail->id;
    }
    record_set_time(record, tail->time); /* the kernel took a second time a moment later */
    if (origin->follow)
        origin->follow_take(origin->follow, record, intake);
    intake->put(intake->arg, record);
}

static uint64_t lost_of(const struct record *record)
{
    const uint64_t *word = (const void *)(record + 1);

    return record->type == RECORD_LOST ? word[1] : word[0];
}

void kernel_record_take(struct recorder *recorder, struct record *record,
                        const struct intake *intake)
{
    if (record->size < sizeof *record + sizeof(struct record_tail) + sizeof(uint64_t))
        return;
    switch (record->type) {
    case PERF_RECORD_SAMPLE:
        any_sample_take(recorder, record, intake);
        break;
    case PERF_RECORD_LOST:
    case PERF_RECORD_LOST_SAMPLES:
        loss_take(recorder, record, lost_of(record), intake);
        break;
    case PERF_RECORD_COMM:
    case PERF_RECORD_MMAP2:
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT:
    case PERF_RECORD_THROTTLE:
    case PERF_RECORD_UNTHROTTLE:
        event_take(recorder, record, intake);
        break;
    default:
        break;
    }
}
