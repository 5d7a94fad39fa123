/*
 * Differences of cumulative values, per thread and CPU. What is not sure is left out: the steps of
 * a thread never say more than it counted.
 */
#include "backends/perf/steps.h"

#include "backends/perf/code.h"
#include "backends/perf/known.h"

#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SWEEP_LEAST = 64
};

/* ---- steps ---- */

static bool known_is_sure(const struct steps *steps, const struct known *known)
{
    return !known->doubt && known->losses == steps->losses;
}

static bool all_through(const struct steps *steps)
{
    uint64_t all = steps->n < 64 ? ((uint64_t)1 << steps->n) - 1 : UINT64_MAX;

    return (steps->through & all) == all;
}

static bool some(const uint64_t *value, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (value[i])
            return true;
    return false;
}

/* What is pending is told. */
static void known_put(const struct steps *steps, struct known *known, uint64_t time, unsigned misc,
                      const struct intake *intake)
{
    uint64_t room[(sizeof(struct record_note) / sizeof(uint64_t)) + SET_MAX];
    struct buf record;

    buf_init(&record, (char *)room, sizeof room);
    record_add_note(&record, &(struct note){.type = RECORD_SWITCH,
                                            .misc = misc,
                                            .time = time,
                                            .pid = known->pid,
                                            .tid = known->tid,
                                            .cpu = known->cpu,
                                            .id = LOG_ID(known->set, 0),
                                            .n = steps->n,
                                            .value = known->pending});
    intake->put(intake->arg, (const struct record *)record.data);
    buf_free(&record);
    memset(known->pending, 0, steps->n * sizeof known->pending[0]);
}

/* The last of it is told. */
static void known_last(const struct steps *steps, struct known *known, uint64_t time, bool sure,
                       const struct intake *intake)
{
    bool exact =
        sure && known->ended && !known->lower && all_through(steps) && known_is_sure(steps, known);

    if (known->ended || some(known->pending, steps->n))
        known_put(steps, known, time, RECORD_LAST | (exact ? RECORD_EXACT : 0), intake);
    known->ended = false;
}

/* Its end was not told, or is not worth remembering. */
static void known_end(struct steps *steps, struct known *known, uint64_t time, bool sure,
                      const struct intake *intake)
{
    known_last(steps, known, time, sure, intake);
    known_drop(steps, known);
}

/* Who has begun anew under an old number is not who was known. */
static bool values_went_back(const uint64_t *value, const uint64_t *before, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (value[i] < before[i])
            return true;
    return false;
}

static void known_take(const struct steps *steps, struct known *known,
                       const struct steps_sample *sample)
{
    bool made, sure = known_is_sure(steps, known);
    uint64_t *slot = known_slot(steps, known, sample->cpu, &made);

    if (!slot) {
        known->doubt = true;
        return;
    }
    if (!made && values_went_back(sample->value, slot, steps->n)) {
        known->doubt = true;
        known->n_slots = 0;
        slot = known_slot(steps, known, sample->cpu, &made);
        sure = false;
    }
    /* where something was lost others may have told of these values, under another number */
    for (unsigned i = 0; i < steps->n && (sure || !made); i++)
        known->pending[i] += sample->value[i] - slot[i];
    memcpy(slot, sample->value, steps->n * sizeof *slot);
}

/*
 * Who executes takes the number of its process's first thread, which has ended; everybody else of
 * the process has, too. It is at work under that number before the exec is told.
 */
static struct known *heir_of(struct steps *steps, struct known *first)
{
    struct known *heir = known_other(steps, first->pid, first->tid);
    uint32_t tid = first->tid;

    known_drop(steps, first);
    if (!heir)
        return NULL;
    known_rename(steps, heir, tid);
    if (known_other(steps, heir->pid, tid)) { /* it is not sure which of them it was */
        heir->doubt = true;
        heir->n_slots = 0;
    }
    return heir;
}

void steps_take(struct steps *steps, const struct steps_sample *sample, const struct intake *intake)
{
    struct known *known = known_find(steps, sample->tid);

    if (known && known->pid != sample->pid) {
        known_end(steps, known, sample->time, false, intake);
        known = NULL;
    }
    if (known && known->gone)
        known = heir_of(steps, known);
    if (!known)
        known = known_add(steps, sample->pid, sample->tid, false);
    if (!known)
        return;
    if (known->root != sample->root) {
        known->n_slots = 0;
        known->ended = false;
    }
    known->root = sample->root;
    known->set = sample->set;
    known->cpu = sample->cpu;
    known->lower |= sample->lower;
    known_take(steps, known, sample);
    known->ended |= sample->end;
    if (!sample->end) /* at each, whether or not it counted anything: the switch is told, too */
        known_put(steps, known, sample->time, 0, intake);
}

/* ---- records ---- */

static void take_fork(struct steps *steps, const struct record_task *task,
                      const struct intake *intake)
{
    struct known *old = known_find(steps, task->tid);

    if (task->pid != task->ppid && !steps->children)
        return;
    if (old)
        known_end(steps, old, task->time, false, intake);
    known_add(steps, task->pid, task->tid, true);
}

static void take_exit(struct steps *steps, const struct record_task *task,
                      const struct intake *intake)
{
    struct known *known = known_find(steps, task->tid), *first;

    if (!known)
        return;
    if (known->pid == task->pid && known->tid == task->pid &&
        known_other(steps, task->pid, task->tid)) {
        known_last(steps, known, task->time, true, intake);
        known->gone = true;
        known->n_slots = 0;
        return;
    }
    known_end(steps, known, task->time, known->pid == task->pid, intake);
    first = known_find(steps, task->pid);
    if (first && first->gone && !known_other(steps, task->pid, task->pid))
        known_drop(steps, first);
}

static void take_exec(struct steps *steps, const struct record_comm *comm)
{
    struct known *first = known_find(steps, comm->pid);

    if (first && first->gone)
        heir_of(steps, first);
}

void steps_follow(struct steps *steps, const struct record *record, const struct intake *intake)
{
    const struct record_comm *comm = (const struct record_comm *)record;
    struct known *known;

    switch ((enum record_type)record->type) {
    case RECORD_FORK:
        take_fork(steps, (const struct record_task *)record, intake);
        break;
    case RECORD_EXIT:
        take_exit(steps, (const struct record_task *)record, intake);
        break;
    case RECORD_COMM:
        if (record->misc & RECORD_EXECUTED && comm->pid == comm->tid)
            take_exec(steps, comm);
        break;
    case RECORD_LOST:
        steps->losses += ((const struct record_lost *)record)->lost > 0;
        break;
    case RECORD_THROTTLE: /* until a tick its switches are not told: where it was may be missing */
        known = known_find(steps, record_tail(record)->tid);
        if (known)
            known->lower = true;
        break;
    default:
        break;
    }
}

/* ---- after losses ---- */

static bool thread_lives(const struct known *known)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%" PRIu32 "/task/%" PRIu32, known->pid, known->tid);
    return access(path, F_OK) == 0;
}

/* Those that ended, and those that are not there although their end was not told. */
void steps_sweep(struct steps *steps, const struct intake *intake)
{
    bool all = steps->n_known > 2 * steps->swept + SWEEP_LEAST;

    if (steps->losses == steps->swept_losses)
        return;
    for (size_t i = 0; i < steps->size; i++) {
        for (struct known *known = steps->by_tid[i], *next; known; known = next) {
            next = known->next;
            if (known->losses != steps->losses &&
                (known->ended || (all && (known->gone || !thread_lives(known)))))
                known_end(steps, known, 0, false, intake);
        }
    }
    if (!all)
        return;
    steps->swept = steps->n_known;
    steps->swept_losses = steps->losses;
}

/* ---- made and freed ---- */

struct steps *steps_new(unsigned n, uint64_t through, bool children)
{
    struct steps *steps = calloc(1, sizeof *steps);

    if (!steps)
        return NULL;
    steps->n = n;
    steps->through = through;
    steps->children = children;
    return steps;
}

void steps_begun(struct steps *steps)
{
    steps->losses++;
}

bool steps_fit(const struct steps *steps, unsigned n, uint64_t through, bool children)
{
    return steps->n == n && steps->through == through && steps->children == children;
}

void steps_free(struct steps *steps)
{
    if (!steps)
        return;
    for (size_t i = 0; i < steps->size; i++)
        while (steps->by_tid[i])
            known_drop(steps, steps->by_tid[i]);
    free(steps->by_tid);
    free(steps->by_pid);
    free(steps);
}

static bool event_is_through(const struct plan_event *plan)
{
    const uint64_t *code = plan->event->code;

    if (code[CODE_FLAGS] & CODE_NO_EXCLUDE)
        return false;
    if (code[CODE_TYPE] != PERF_TYPE_SOFTWARE)
        return !plan->kernel && code[CODE_TYPE] != PERF_TYPE_TRACEPOINT;
    return code[CODE_CONFIG] != PERF_COUNT_SW_CPU_CLOCK &&
           code[CODE_CONFIG] != PERF_COUNT_SW_TASK_CLOCK;
}

uint64_t steps_through(const struct plan *plan)
{
    uint64_t through = 0;

    for (unsigned i = 0; i < plan->n; i++)
        through |= (uint64_t)event_is_through(&plan->events[i]) << i;
    return through;
}
