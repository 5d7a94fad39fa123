/*
 * Sums per process of what its threads' steps say, and what of the whole was told so far: in steps,
 * and in the counts of processes that ended.
 */
#include "core/exits.h"

#include "core/event.h"
#include "core/lives.h"
#include "core/scan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct exits {
    unsigned n;
    bool switches, exits;
    struct lives lives;
    struct buf *out; /* of the call at work */
    uint64_t id;     /* of the set that was told of last */
    bool settled;    /* nothing is left to be told: at the last rest, and nothing came since */
    uint64_t *told;  /* n: in SWITCH records */
    uint64_t *given; /* n: in COUNT records */
    uint64_t *debt;  /* n: told in rests, to come again in the steps of who owes */
};

static bool some(const uint64_t *value, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (value[i])
            return true;
    return false;
}

/* ---- ends ---- */

static void add_count(struct exits *exits, uint64_t time, uint32_t pid, bool exact,
                      const uint64_t *value)
{
    if (!exits->exits)
        return;
    record_add_note(exits->out, &(struct note){.type = RECORD_COUNT,
                                               .misc = exact ? RECORD_EXACT : 0,
                                               .time = time,
                                               .pid = pid,
                                               .tid = pid,
                                               .cpu = UINT32_MAX,
                                               .id = exits->id,
                                               .n = exits->n,
                                               .value = value});
    for (unsigned i = 0; i < exits->n; i++)
        exits->given[i] += value[i];
}

static void process_ended(void *arg, const struct life *process, uint32_t pid, uint64_t time)
{
    struct exits *exits = arg;
    uint64_t none[SET_MAX];

    if (process) {
        add_count(exits, time, pid, life_is_exact(&exits->lives, process), process->value);
        return;
    }
    memset(none, 0, sizeof(none));
    add_count(exits, time, pid, false, none);
}

/* ---- steps ---- */

/* What of a step the rests have not told already. */
static uint64_t step_owed(struct exits *exits, unsigned i, uint64_t step)
{
    uint64_t known = step < exits->debt[i] ? step : exits->debt[i];

    exits->debt[i] -= known;
    return step - known;
}

/* Appends it as it can be told: the values may be less. Without any only a last one is told. */
static void add_switch(struct exits *exits, const struct record_note *note, unsigned n,
                       enum mark mark)
{
    struct buf *out = exits->out;
    size_t begun = out->len;
    struct record_note *copy = NULL;

    if (exits->switches)
        buf_add(out, note, note->head.size);
    if (exits->switches && !out->failed)
        copy = (struct record_note *)(out->data + begun);
    for (unsigned i = 0; i < n; i++) {
        uint64_t step = note->value[i];

        if (mark != MARK_NONE)
            step = mark == MARK_OWES ? step_owed(exits, i, step) : 0;
        exits->told[i] += step;
        if (!copy || step == note->value[i])
            continue;
        copy->value[i] = step;
        copy->head.misc &= (uint16_t)~RECORD_EXACT;
    }
    if (out->failed ||
        (copy && mark != MARK_NONE && !(copy->head.misc & RECORD_LAST) && !some(copy->value, n)))
        out->len = begun;
}

static void take_switch(struct exits *exits, const struct record_note *note)
{
    struct life_thread *thread = lives_thread(&exits->lives, note->pid, note->tid, note->time);
    unsigned n = note->n < exits->n ? note->n : exits->n;
    enum mark mark = thread ? thread->mark : exits->lives.strangers;

    exits->id = note->id;
    exits->settled = false;
    add_switch(exits, note, n, mark);
    if (!thread)
        return;
    thread->mark = MARK_NONE;
    thread->done = note->head.misc & RECORD_LAST && note->head.misc & RECORD_EXACT;
    thread->process->inexact |= mark == MARK_SPANS;
    for (unsigned i = 0; i < n && mark != MARK_SPANS; i++)
        thread->process->value[i] += note->value[i];
}

void exits_take(struct exits *exits, const struct record *record, struct buf *out)
{
    exits->out = out;
    if (record->type == RECORD_SWITCH)
        take_switch(exits, (const struct record_note *)record);
    else
        lives_take(&exits->lives, record);
}

void exits_leave(struct exits *exits, uint32_t pid)
{
    lives_leave(&exits->lives, pid);
}

/* ---- rests ---- */

/* Counted less what was said; never below zero, whatever came after it was counted. */
static bool rest_of(const struct exits *exits, const uint64_t *counted, const uint64_t *said,
                    uint64_t *rest)
{
    for (unsigned i = 0; i < exits->n; i++)
        rest[i] = (int64_t)(counted[i] - said[i]) > 0 ? counted[i] - said[i] : 0;
    return some(rest, exits->n);
}

static void rest_tell(struct exits *exits, uint64_t time, const uint64_t *rest)
{
    if (exits->switches)
        record_add_note(exits->out, &(struct note){.type = RECORD_SWITCH,
                                                   .misc = RECORD_LAST,
                                                   .time = time,
                                                   .cpu = UINT32_MAX,
                                                   .id = exits->id,
                                                   .n = exits->n,
                                                   .value = rest});
    for (unsigned i = 0; i < exits->n; i++) {
        exits->told[i] += rest[i];
        exits->debt[i] += rest[i];
    }
    lives_mark(&exits->lives, MARK_NONE, MARK_OWES);
}

void exits_rest(struct exits *exits, uint64_t time, const uint64_t *counted, bool over,
                struct buf *out)
{
    uint64_t rest[SET_MAX];

    exits->out = out;
    if (rest_of(exits, counted, exits->told, rest))
        rest_tell(exits, time, rest);
    exits->settled = !some(exits->debt, exits->n);
    if (!over)
        return;
    if (rest_of(exits, counted, exits->given, rest))
        add_count(exits, time, 0, false, rest);
    lives_clear(&exits->lives);
    memset(exits->debt, 0, exits->n * sizeof(exits->debt[0]));
    exits->lives.strangers = MARK_NONE;
    exits->settled = true;
}

void exits_reset(struct exits *exits)
{
    lives_reset(&exits->lives);
    memset(exits->told, 0, 3 * exits->n * sizeof(exits->told[0]));
    if (!exits->settled)
        lives_mark(&exits->lives, MARK_NONE, MARK_SPANS);
    lives_mark(&exits->lives, MARK_OWES, exits->settled ? MARK_NONE : MARK_SPANS);
    exits->settled = true;
}

/* ---- made, freed, begun anew ---- */

struct exits *exits_new(unsigned n, bool switches, bool want_exits)
{
    struct exits *exits = n <= SET_MAX ? calloc(1, sizeof(*exits)) : NULL;

    if (!exits)
        return NULL;
    exits->n = n;
    exits->switches = switches;
    exits->exits = want_exits;
    exits->settled = true;
    exits->lives.n = n;
    exits->lives.ended = process_ended;
    exits->lives.arg = exits;
    exits->told = calloc(3 * (size_t)n + 1, sizeof(exits->told[0]));
    if (!exits->told) {
        free(exits);
        return NULL;
    }
    exits->given = exits->told + n;
    exits->debt = exits->given + n;
    return exits;
}

void exits_free(struct exits *exits)
{
    if (!exits)
        return;
    lives_free(&exits->lives);
    free(exits->told);
    free(exits);
}

void exits_print(const struct exits *exits, struct buf *out)
{
    for (unsigned i = 0; i < 3 * exits->n; i++)
        buf_printf(out, "%" PRIu64 " ", exits->told[i]);
}

bool exits_resume(struct exits *exits, const char *sums)
{
    struct scan scan;

    scan_init(&scan, sums, strlen(sums));
    for (unsigned i = 0; i < 3 * exits->n; i++)
        if (!scan_u64(&scan, UINT64_MAX, &exits->told[i]))
            return false;
    exits->settled = false;
    exits->lives.parted_many = true;
    exits->lives.strangers = MARK_OWES;
    return true;
}
