/*
 * Computes steps from the cumulative values per thread and CPU, adds them up per process, and keeps
 * the totals of all SWITCH and COUNT records so far. Uncertain parts are left out: the sum of a
 * thread's steps never exceeds its count.
 */
#include "core/log/exits.h"

#include "core/base/event.h"
#include "core/base/vec.h"

#include <stdlib.h>
#include <string.h>

/* The last values of a thread. */
struct values {
    uint64_t source;      /* id of the event group that counted them; a new group starts at zero */
    uint32_t cpu;         /* the thread's last CPU */
    bool exited;          /* VALUES with RECORD_LAST were read */
    bool complete;        /* the last VALUES were complete (RECORD_EXACT) */
    bool step_incomplete; /* part of the step was lost, so pending[] is too low */
    VEC(uint64_t) by_cpu; /* per CPU: its number, then the last n values on it */
    uint64_t pending[]; /* n differences that are not in a step yet: the last ones wait for EXIT */
};

struct exits {
    struct tasks tasks;
    unsigned n;
    bool wants_switches, wants_exits;
    struct buf *out;       /* output of the current call */
    uint64_t id;           /* the last VALUES record's set id, for new records */
    uint64_t *in_switches; /* n totals of all SWITCH records */
    uint64_t *in_counts;   /* n totals of all COUNT records */
    uint64_t *to_subtract; /* n: counts reported in remainders, still to be subtracted from the
                              next steps of the threads */
    uint64_t remainder_at, reset_at; /* value of tasks.updates at the last remainder, and at the
                                        reset or the remainder before it */
    uint64_t totals[];               /* memory of in_switches, in_counts and to_subtract */
};

static bool any_value(const uint64_t *value, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (value[i])
            return true;
    return false;
}

/* ---- process exits ---- */

static void count_add(struct exits *exits, uint64_t time, uint32_t pid, unsigned misc,
                      const uint64_t *value)
{
    if (!exits->wants_exits)
        return;
    record_add_note(exits->out, &(struct note){.type = RECORD_COUNT,
                                               .misc = misc,
                                               .time = time,
                                               .pid = pid,
                                               .tid = pid,
                                               .cpu = UINT32_MAX,
                                               .id = exits->id,
                                               .n = exits->n,
                                               .value = value});
    for (unsigned i = 0; i < exits->n; i++)
        exits->in_counts[i] += value[i];
}

static void process_exited(void *arg, const struct logged_process *process, uint32_t pid,
                           uint64_t time)
{
    static const uint64_t none[SET_MAX];

    const struct exits *exits = arg;
    const bool exact = exits->n && process && !process->inexact;

    count_add(arg, time, pid, exact ? RECORD_EXACT : 0, process ? process->value : none);
}

/* ---- steps ---- */

static void switch_add(struct exits *exits, uint64_t time, const struct task *task, unsigned misc,
                       const uint64_t *value)
{
    const struct values *values = task ? task->own : NULL;

    for (unsigned i = 0; i < exits->n; i++)
        exits->in_switches[i] += value[i];
    if (!exits->wants_switches)
        return;
    record_add_note(exits->out, &(struct note){.type = RECORD_SWITCH,
                                               .misc = misc,
                                               .time = time,
                                               .pid = task ? task->process->pid : 0,
                                               .tid = task ? task->tid : 0,
                                               .cpu = values ? values->cpu : UINT32_MAX,
                                               .id = exits->id,
                                               .n = exits->n,
                                               .value = value});
}

/*
 * Writes the pending step of a thread. The first step after a remainder may be part of the
 * remainder already, so that part is subtracted. The first step after a reset may include counts
 * from before the reset, so it counts as 0 and makes the process inexact. In both cases a step of 0
 * gets no record, unless misc has RECORD_LAST.
 */
static void step_put(struct exits *exits, struct task *task, uint64_t time, unsigned misc)
{
    struct values *values = task->own;
    const bool spans_reset = task->since < exits->reset_at,
               follows_remainder = task->since < exits->remainder_at;
    uint64_t step[SET_MAX] = {0};

    for (unsigned i = 0; i < exits->n && !spans_reset; i++) {
        task->process->value[i] += values->pending[i];
        step[i] = values->pending[i];
        if (!follows_remainder)
            continue;
        step[i] -= step[i] < exits->to_subtract[i] ? step[i] : exits->to_subtract[i];
        exits->to_subtract[i] -= values->pending[i] - step[i];
    }
    task->process->inexact |= spans_reset;
    task->since = exits->tasks.updates;
    if (!follows_remainder || misc & RECORD_LAST || any_value(step, exits->n))
        switch_add(exits, time, task, misc | (values->step_incomplete ? RECORD_INCOMPLETE : 0),
                   step);
    values->step_incomplete = false;
    memset(values->pending, 0, exits->n * sizeof(values->pending[0]));
}

static void thread_exited(void *arg, struct task *task, uint64_t time)
{
    struct exits *exits = arg;
    struct values *values = task->own;

    task->process->inexact |= !task_is_complete(&exits->tasks, task);
    task->process->inexact |= exits->n && !(values && values->exited && values->complete);
    if (values && (values->exited || any_value(values->pending, exits->n)))
        step_put(exits, task, time, RECORD_LAST);
}

static void thread_removed(void *arg, struct task *task)
{
    struct values *values = task->own;

    (void)arg;
    if (values)
        free(values->by_cpu.items);
    free(values);
    task->own = NULL;
}

/* ---- values ---- */

/* Returns the last values on this CPU, or NULL on ENOMEM. Sets *made if they are new, thus zero. */
static uint64_t *values_on_cpu(const struct exits *exits, struct values *values, uint32_t cpu,
                               bool *made)
{
    const size_t stride = 1 + (size_t)exits->n;

    *made = false;
    for (size_t at = 0; at < values->by_cpu.n; at += stride)
        if (values->by_cpu.items[at] == cpu)
            return &values->by_cpu.items[at + 1];
    if (vec_room(&values->by_cpu, stride))
        return NULL;
    uint64_t *last = &values->by_cpu.items[values->by_cpu.n];
    values->by_cpu.n += stride;
    memset(last, 0, stride * sizeof(*last));
    *last = cpu;
    *made = true;
    return last + 1;
}

static void values_add(const struct exits *exits, struct task *task, const uint64_t *value)
{
    struct values *values = task->own;
    bool made, complete = task_is_complete(&exits->tasks, task);
    uint64_t *last = values_on_cpu(exits, values, values->cpu, &made);
    bool reused = false; /* a value decreased: another thread reuses the number */

    for (unsigned i = 0; last && !made && i < exits->n; i++)
        reused |= value[i] < last[i];
    if (reused) {
        complete = false;
        values->by_cpu.n = 0;
        last = values_on_cpu(exits, values, values->cpu, &made);
    }
    if (!last || !complete)
        task->losses = UINT64_MAX;
    if (!last)
        return;
    /* after a loss, the first values on a CPU may include counts of an earlier thread */
    values->step_incomplete |= made && !complete;
    for (unsigned i = 0; i < exits->n && (complete || !made); i++)
        values->pending[i] += value[i] - last[i];
    memcpy(last, value, exits->n * sizeof(*last));
}

static void apply_values(struct exits *exits, const struct record_note *note)
{
    struct task *task = tasks_thread(&exits->tasks, note->pid, note->tid, note->time);
    struct values *values = task ? task->own : NULL;

    if (!task || note->n != 1 + exits->n)
        return;
    if (!values)
        task->own = values = calloc(1, sizeof(*values) + exits->n * sizeof(uint64_t));
    if (!values) {
        task->losses = UINT64_MAX;
        return;
    }
    if (values->source != note->value[0]) {
        values->by_cpu.n = 0;
        values->exited = false;
    }
    values->source = note->value[0];
    values->cpu = note->cpu;
    exits->id = note->id;
    values_add(exits, task, note->value + 1);
    values->exited |= note->head.misc & RECORD_LAST;
    values->complete = note->head.misc & RECORD_EXACT;
    if (!(note->head.misc & RECORD_LAST)) /* every switch gets a record, even with a step of 0 */
        step_put(exits, task, note->time, 0);
}

void exits_apply(struct exits *exits, const struct record *record, struct buf *out)
{
    exits->out = out;
    if (record->type == RECORD_VALUES) {
        apply_values(exits, (const struct record_note *)record);
    } else if (record->type == RECORD_THROTTLE) {
        struct task *task = tasks_find(&exits->tasks, record_tail(record)->tid);

        /* a throttled thread has no switch records until the next tick: values may be missing */
        if (task)
            task->losses = UINT64_MAX;
    } else {
        tasks_apply(&exits->tasks, record);
    }
}

/* ---- remainders ---- */

/* Sets remainder[] to counted minus reported values, at least 0: records may be newer than the
 * count. Returns false if all are 0. */
static bool remainder_of(const struct exits *exits, const uint64_t *counted,
                         const uint64_t *reported, uint64_t *remainder)
{
    for (unsigned i = 0; i < exits->n; i++)
        remainder[i] = (int64_t)(counted[i] - reported[i]) > 0 ? counted[i] - reported[i] : 0;
    return any_value(remainder, exits->n);
}

void exits_remainder(struct exits *exits, uint64_t time, const uint64_t *counted, bool over,
                     struct buf *out)
{
    const unsigned incomplete = exits->tasks.losses ? RECORD_INCOMPLETE : 0;
    uint64_t remainder[SET_MAX];
    struct logged_process *process;

    exits->out = out;
    if (remainder_of(exits, counted, exits->in_switches, remainder)) {
        switch_add(exits, time, NULL, RECORD_LAST | incomplete, remainder);
        for (unsigned i = 0; i < exits->n; i++)
            exits->to_subtract[i] += remainder[i];
        exits->remainder_at = ++exits->tasks.updates;
    }
    if (!over)
        return;
    if (remainder_of(exits, counted, exits->in_counts, remainder))
        count_add(exits, time, 0, incomplete, remainder);
    TAILQ_FOREACH (process, &exits->tasks.by_update, by_update)
        tasks_leave(&exits->tasks, process);
    memset(exits->to_subtract, 0, exits->n * sizeof(exits->to_subtract[0]));
    exits->remainder_at = exits->reset_at = 0;
}

void exits_reset(struct exits *exits, bool runs)
{
    struct logged_process *process, *next;

    for (process = TAILQ_FIRST(&exits->tasks.by_update); process; process = next) {
        next = TAILQ_NEXT(process, by_update);
        memset(process->value, 0, exits->n * sizeof(process->value[0]));
        if (TAILQ_EMPTY(&process->threads)) /* no thread is left, and its count is obsolete */
            tasks_drop(&exits->tasks, process);
    }
    memset(exits->in_switches, 0, 3 * exits->n * sizeof(exits->in_switches[0]));
    exits->reset_at = runs ? ++exits->tasks.updates : exits->remainder_at;
}

/* ---- creation and destruction ---- */

struct exits *exits_new(unsigned n, bool switches, bool exit_counts)
{
    struct exits *exits =
        n <= SET_MAX ? calloc(1, sizeof(*exits) + 3 * n * sizeof(exits->totals[0])) : NULL;

    if (!exits)
        return NULL;
    exits->n = n;
    exits->wants_switches = switches;
    exits->wants_exits = exit_counts;
    tasks_init(&exits->tasks);
    exits->tasks.n_values = n;
    exits->tasks.thread_exited = thread_exited;
    exits->tasks.process_exited = process_exited;
    exits->tasks.thread_removed = thread_removed;
    exits->tasks.arg = exits;
    exits->in_switches = exits->totals;
    exits->in_counts = exits->in_switches + n;
    exits->to_subtract = exits->in_counts + n;
    return exits;
}

void exits_free(struct exits *exits)
{
    if (!exits)
        return;
    tasks_free(&exits->tasks);
    free(exits);
}

struct tasks *exits_tasks(struct exits *exits)
{
    return &exits->tasks;
}

const uint64_t *exits_totals(const struct exits *exits)
{
    return exits->totals;
}

void exits_restore(struct exits *exits, const uint64_t *totals)
{
    exits->tasks.losses = 1; /* earlier counts of the tasks are unknown */
    memcpy(exits->totals, totals,
           2 * exits->n * sizeof(exits->totals[0])); /* to_subtract stays 0 */
}
