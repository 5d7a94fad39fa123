/*
 * Converts records of the kernel to records of the log: with ids of the log, one kind of LOST
 * record, and the period in every sample. Samples of a group's values become RECORD_VALUES. Records
 * that the log does not use are skipped. The event's id gives the meaning of a record.
 */
#include "backends/perf/record/recorder.h"
#include "backends/perf/record/sampling.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

enum {
    TIME_IN_SAMPLE = offsetof(struct record_sample, time),
    PERIOD_IN_SAMPLE = offsetof(struct record_sample, period),
    TIME_IN_TAIL = sizeof(struct record_tail) - offsetof(struct record_tail, time)
};

/* ---- ids ---- */

/* Returns NULL if the id is unknown or was removed. */
static struct event_id *recorder_find_id(struct recorder *recorder, uint64_t kernel)
{
    struct event_id **recent = &recorder->recent[kernel % RECENT_IDS];

    if (!*recent || (*recent)->kernel_id != kernel)
        HASH_FIND(hh, recorder->ids, &kernel, sizeof kernel, *recent);
    return *recent;
}

int recorder_add_id(struct recorder *recorder, const struct event_id *like)
{
    struct event_id *id = recorder_find_id(recorder, like->kernel_id);
    const UT_hash_handle hh = id ? id->hh : (UT_hash_handle){.tbl = NULL};

    if (!id && !(id = malloc(sizeof *id)))
        return -ENOMEM;
    *id = *like;
    id->hh = hh;
    if (hash_has(id))
        return 0;
    HASH_ADD(hh, recorder->ids, kernel_id, sizeof id->kernel_id, id);
    if (hash_has(id))
        return 0;
    free(id);
    return -ENOMEM;
}

void recorder_drop_id(struct recorder *recorder, uint64_t kernel)
{
    struct event_id *id = recorder_find_id(recorder, kernel);

    if (!id)
        return;
    recorder->recent[kernel % RECENT_IDS] = NULL;
    HASH_DEL(recorder->ids, id);
    free(id);
}

void recorder_drop_ids(struct recorder *recorder, const struct origin *origin)
{
    struct event_id *id, *next;

    memset(recorder->recent, 0, sizeof recorder->recent);
    HASH_ITER (hh, recorder->ids, id, next) {
        if (origin && id->origin != origin)
            continue;
        HASH_DEL(recorder->ids, id);
        free(id);
    }
}

void recorder_purge(struct recorder *recorder, uint64_t time_ns)
{
    struct origin *origin;

    for (struct origin **at = &recorder->origins; (origin = *at);) {
        if (!origin->closed_ns || origin->closed_ns > time_ns) {
            at = &origin->next;
            continue;
        }
        recorder_drop_ids(recorder, origin);
        *at = origin->next;
        free(origin);
    }
}

/* ---- records ---- */

/* Returns the address of an aligned 8-byte word, which is never split at the end of the ring.
 * Longer data can be. */
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

static struct record_tail *kernel_tail(struct record *record)
{
    return (void *)((char *)record + record->size - sizeof(struct record_tail));
}

/* Bits of misc that the log stores for a sample. */
#define SAMPLE_MISC (RECORD_MODE | PERF_RECORD_MISC_EXACT_IP)

static uint64_t log_id(const struct event_id *id)
{
    return LOG_ID(id->origin->set_number, id->plan_event);
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
 * Checks registers and stack at offset `at` of a record of size `end`. The kernel writes a word
 * with the ABI of the registers, and a stack area of the full configured size; this shortens the
 * area to the bytes in use. Returns the offset after it, or 0 if the record is malformed.
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

/* Checks the frames, the raw data of a tracepoint, and registers and stack. Returns the offset
 * after the last part of a sample, or 0 if it is malformed. */
static size_t parts_take(unsigned parts, struct record_sample *sample, size_t size)
{
    size_t at = sizeof *sample;
    uint32_t raw_bytes;

    if (size < at || sample->n_frames > (size - at) / sizeof(uint64_t))
        return 0;
    at += sample->n_frames * sizeof(uint64_t);
    if (parts & RECORD_RAW) {
        if (size - at < sizeof raw_bytes)
            return 0;
        memcpy(&raw_bytes, (char *)sample + at, sizeof raw_bytes);
        const size_t part = record_padded(sizeof raw_bytes + (size_t)raw_bytes);
        if (size - at < part)
            return 0;
        at += part;
    }
    if (parts & RECORD_STACK)
        at = stack_take((char *)sample, at, size);
    return at <= RECORD_MAX ? at : 0;
}

/*
 * Converts a sample that has parts after the frames: inserts the period and the number of frames if
 * they are missing. A sample that was prepared for another event too may be shorter than its fields
 * require; then puts a LOST record.
 */
static void long_sample_pass(const struct event_id *id, struct record_sample *sample,
                             const struct intake *intake)
{
    const struct origin *origin = id->origin;
    char *const period = (char *)&sample->period, *const n_frames = (char *)&sample->n_frames;
    char *const from = id->has_period ? n_frames : period;
    char *const to = origin->chains ? n_frames : n_frames + sizeof sample->n_frames;
    size_t size = sample->head.size;

    if (size < (size_t)(from - (char *)sample))
        return;
    memmove(to, from, size - (size_t)(from - (char *)sample));
    size += (size_t)(to - from);
    if (!id->has_period)
        sample->period = origin->period;
    if (!origin->chains)
        sample->n_frames = 0;
    size = parts_take(id->parts, sample, size);
    if (size)
        intake->sample(intake->arg,
                       &(struct sample){.fixed = sample,
                                        .misc = (sample->head.misc & SAMPLE_MISC) | id->parts |
                                                (origin->weighed ? RECORD_WEIGHED : 0),
                                        .id = log_id(id),
                                        .period = sample->period,
                                        .rest = &sample->n_frames,
                                        .rest_len = size - SAMPLE_SHORT});
    else
        sample_lose(sample, intake);
}

/*
 * Passes a sample without parts after the frames. If it was prepared for another event too
 * (sampling_shares_id()), it can have the larger size of the other event's sample, and is cut.
 */
static void short_sample_pass(const struct event_id *id, const struct record_sample *sample,
                              const struct intake *intake)
{
    const struct origin *origin = id->origin;
    const size_t before = id->has_period ? SAMPLE_SHORT : PERIOD_IN_SAMPLE;
    const uint64_t *const rest = (const void *)((const char *)sample + before);
    struct sample out = {.fixed = sample,
                         .misc = (sample->head.misc & SAMPLE_MISC) |
                                 (origin->weighed ? RECORD_WEIGHED : 0),
                         .id = log_id(id),
                         .period = origin->period,
                         .rest = rest};

    if (sample->head.size < before)
        return;
    if (id->has_period)
        out.period = sample->period;
    /* origin->samples is false for ids of dummy events, which should write no samples */
    if ((origin->chains || !origin->samples) && sample->head.size > before) {
        const uint64_t room = (sample->head.size - before) / sizeof *rest;

        if (*rest >= room || SAMPLE_SHORT + (1 + *rest) * sizeof *rest > RECORD_MAX) {
            sample_lose(sample, intake);
            return;
        }
        out.rest_len = (1 + *rest) * sizeof *rest;
    }
    intake->sample(intake->arg, &out);
}

/* Passes a sample of an event. Changes it if it has parts after the frames. */
static void event_sample_pass(const struct event_id *id, struct record_sample *sample,
                              const struct intake *intake)
{
    if (id->parts)
        long_sample_pass(id, sample, intake);
    else
        short_sample_pass(id, sample, intake);
}

bool kernel_sample_pass(struct recorder *recorder, const struct record *record,
                        const struct intake *intake)
{
    const struct record_sample *sample = (const void *)record;

    if (record->type != PERF_RECORD_SAMPLE || record->size < (size_t)PERIOD_IN_SAMPLE ||
        !intake->sample)
        return false;
    const struct event_id *id = recorder_find_id(recorder, sample->id);
    if (!id || id->kind != ID_EVENT || id->parts)
        return false;
    short_sample_pass(id, sample, intake);
    return true;
}

/*
 * Converts a sample with an unknown id. Skips it if it is from a clock event of drain.c, or if no
 * origin samples. Chooses an open sampling origin if all of these have the same set or, if none is
 * open, the first closed one. If exactly one event of this origin can get another event's id
 * (shares_one), the sample belongs to that event. Otherwise puts a LOST record.
 */
static void stray_pass(struct recorder *recorder, struct record_sample *sample,
                       const struct intake *intake)
{
    const struct origin *found = NULL;
    bool certain = true;

    for (unsigned i = 0; i < recorder->n_rings; i++)
        if (recorder->rings[i].clock_id == sample->id)
            return;
    for (const struct origin *origin = recorder->origins; origin; origin = origin->next) {
        if (!origin->samples || (found && origin->closed_ns))
            continue;
        if (found && !found->closed_ns && found->set_number != origin->set_number)
            certain = false;
        found = origin;
    }
    if (found && certain && found->shares_one) {
        struct event_id id = {.origin = found,
                              .kind = ID_EVENT,
                              .plan_event = found->shared_event,
                              .has_period = !found->period,
                              .parts = found->shared_parts};

        event_sample_pass(&id, sample, intake);
    } else if (found) {
        sample_lose(sample, intake);
    }
}

void values_put(const struct note *note, const struct intake *intake)
{
    uint64_t room[(sizeof(struct record_note) / sizeof(uint64_t)) + 1 + SET_MAX];
    struct note values = *note;
    struct buf record = buf_in((char *)room, sizeof room);

    values.type = RECORD_VALUES;
    record_add_note(&record, &values);
    intake->put(intake->arg, (const struct record *)record.data);
    buf_free(&record);
}

/* Converts a sample with the values of a group, which follow the CPU field in the group's order, to
 * a RECORD_VALUES. Skips it if it is malformed. */
static void values_pass(const struct event_id *id, const struct record *record,
                        const struct intake *intake)
{
    const struct record_sample *sample = (const void *)record;
    const struct sampled_values *values = (const void *)((const char *)record + PERIOD_IN_SAMPLE);
    const struct origin *origin = id->origin;
    uint64_t value[1 + SET_MAX];

    if (record->size < (size_t)PERIOD_IN_SAMPLE + sizeof *values +
                           (origin->n_extras + origin->n) * sizeof value[0] ||
        values->n != origin->n_extras + origin->n)
        return;
    value[0] = id->root;
    for (unsigned i = 0; i < origin->n; i++)
        value[1 + origin->order[i]] = values->value[origin->n_extras + i];
    values_put(&(struct note){.misc = id->kind == ID_END
                                          ? RECORD_LAST | (origin->exact_last ? RECORD_EXACT : 0)
                                          : 0,
                              .time = sample->time,
                              .pid = sample->pid,
                              .tid = sample->tid,
                              .cpu = id->cpu,
                              .id = LOG_ID(origin->set_number, 0),
                              .n = 1 + origin->n,
                              .value = value},
               intake);
}

/* A LOST record has the id of the event that writes next after the loss. If that id was removed
 * from the recorder, the loss is reported without an id. */
static void loss_pass(struct recorder *recorder, const struct record *record, uint64_t lost,
                      const struct intake *intake)
{
    const struct record_tail *tail = kernel_tail((struct record *)(uintptr_t)record);
    const struct event_id *id = recorder_find_id(recorder, tail->id);
    struct record_lost loss = {
        .head = {.type = RECORD_LOST, .size = sizeof loss},
        .id = id ? log_id(id) : 0,
        .lost = lost,
        .tail = *tail,
    };

    if (!loss.lost)
        return;
    loss.tail.id = loss.id;
    if (!id) /* the PID may be that of another thread of pmcfs */
        loss.tail.pid = loss.tail.tid = 0;
    intake->put(intake->arg, &loss.head);
}

/* Converts a record that is neither a sample nor a loss, such as FORK or THROTTLE. Skips it if its
 * id is unknown, and a FORK if the child is not covered. */
static void task_record_convert(struct recorder *recorder, struct record *record,
                                const struct intake *intake)
{
    struct record_tail *tail = kernel_tail(record);
    const struct event_id *id = recorder_find_id(recorder, tail->id);
    const struct origin *origin = id ? id->origin : NULL;

    if (!id)
        return;
    if (record->type == RECORD_FORK) {
        const struct record_task *task = (const void *)record;

        /* A child that is not covered would have no EXIT record. */
        if (!(task->pid == task->ppid ? origin->threads : origin->descendants))
            return;
    }
    tail->id = log_id(id);
    record->misc &= (uint16_t)~RECORD_FOUND;
    if (record->type == RECORD_THROTTLE || record->type == RECORD_UNTHROTTLE) {
        struct record_throttle *throttle = (void *)record;

        throttle->id = throttle->stream = tail->id;
    }
    record_set_time(record, tail->time); /* the kernel's second time field is slightly later */
    if (origin->follow)
        origin->follow_receive(origin->follow, record, intake);
    intake->put(intake->arg, record);
}

void kernel_record_pass(struct recorder *recorder, struct record *record,
                        const struct intake *intake)
{
    const uint64_t *word = (const void *)(record + 1);
    struct record_sample *sample = (void *)record;
    const struct event_id *id;

    if (record->type == PERF_RECORD_SWITCH &&
        record->size >= sizeof *record + sizeof(struct record_tail))
        task_record_convert(recorder, record, intake);
    if (record->size < sizeof *record + sizeof(struct record_tail) + sizeof(uint64_t))
        return;
    switch (record->type) {
    case PERF_RECORD_SAMPLE:
        if (!intake->sample || record->size < (size_t)PERIOD_IN_SAMPLE)
            break;
        id = recorder_find_id(recorder, sample->id);
        if (!id)
            stray_pass(recorder, sample, intake);
        else if (id->kind == ID_EVENT)
            event_sample_pass(id, sample, intake);
        else
            values_pass(id, record, intake);
        break;
    case PERF_RECORD_LOST:
        loss_pass(recorder, record, word[1], intake);
        break;
    case PERF_RECORD_LOST_SAMPLES:
        loss_pass(recorder, record, word[0], intake);
        break;
    case PERF_RECORD_COMM:
    case PERF_RECORD_MMAP2:
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT:
    case PERF_RECORD_THROTTLE:
    case PERF_RECORD_UNTHROTTLE:
        task_record_convert(recorder, record, intake);
        break;
    default:
        break;
    }
}
