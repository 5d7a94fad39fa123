/*
 * Two hash tables of the same threads; slots; and all of it as text, for a later worker.
 */
#include "backends/perf/known.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TABLE_FIRST = 64,
    SLOTS_FIRST = 2
};

static struct known **bucket_of(struct known **bucket, size_t size, uint32_t number)
{
    return &bucket[(number * 2654435769u) & (size - 1)];
}

static void link_tid(struct steps *steps, struct known *known)
{
    struct known **at = bucket_of(steps->by_tid, steps->size, known->tid);

    known->next = *at;
    *at = known;
}

static void unlink_tid(struct steps *steps, struct known *known)
{
    struct known **at = bucket_of(steps->by_tid, steps->size, known->tid);

    while (*at != known)
        at = &(*at)->next;
    *at = known->next;
}

static void link_pid(struct steps *steps, struct known *known)
{
    struct known **at = bucket_of(steps->by_pid, steps->size, known->pid);

    known->of_pid = at;
    known->along = *at;
    if (*at)
        (*at)->of_pid = &known->along;
    *at = known;
}

static void unlink_pid(struct known *known)
{
    *known->of_pid = known->along;
    if (known->along)
        known->along->of_pid = known->of_pid;
}

/* False: there is no room at all. */
static bool table_grow(struct steps *steps)
{
    size_t old_size = steps->size, size = old_size ? 2 * old_size : TABLE_FIRST;
    struct known **by_tid = calloc(size, sizeof *by_tid), **by_pid = calloc(size, sizeof *by_pid);
    struct known **old = steps->by_tid;

    if (!by_tid || !by_pid) {
        free(by_tid);
        free(by_pid);
        return old_size > 0;
    }
    free(steps->by_pid);
    steps->by_tid = by_tid;
    steps->by_pid = by_pid;
    steps->size = size;
    for (size_t i = 0; i < old_size; i++) {
        for (struct known *known = old[i], *next; known; known = next) {
            next = known->next;
            link_tid(steps, known);
            link_pid(steps, known);
        }
    }
    free(old);
    return true;
}

struct known *known_find(const struct steps *steps, uint32_t tid)
{
    struct known *known = steps->size ? *bucket_of(steps->by_tid, steps->size, tid) : NULL;

    while (known && known->tid != tid)
        known = known->next;
    return known;
}

struct known *known_other(const struct steps *steps, uint32_t pid, uint32_t tid)
{
    struct known *known = steps->size ? *bucket_of(steps->by_pid, steps->size, pid) : NULL;

    while (known && (known->pid != pid || known->tid == tid))
        known = known->along;
    return known;
}

struct known *known_add(struct steps *steps, uint32_t pid, uint32_t tid, bool born)
{
    struct known *known;

    if (steps->n_known >= steps->size && !table_grow(steps))
        return NULL;
    known = calloc(1, sizeof *known + steps->n * sizeof known->pending[0]);
    if (!known)
        return NULL;
    known->pid = pid;
    known->tid = tid;
    known->cpu = UINT32_MAX;
    known->losses = born ? steps->losses : 0;
    link_tid(steps, known);
    link_pid(steps, known);
    steps->n_known++;
    return known;
}

void known_drop(struct steps *steps, struct known *known)
{
    unlink_tid(steps, known);
    unlink_pid(known);
    steps->n_known--;
    free(known->slots);
    free(known);
}

void known_rename(struct steps *steps, struct known *known, uint32_t tid)
{
    unlink_tid(steps, known);
    known->tid = tid;
    link_tid(steps, known);
}

uint64_t *known_slot(const struct steps *steps, struct known *known, uint32_t cpu, bool *made)
{
    size_t stride = 1 + (size_t)steps->n;
    uint64_t *slot = known->slots;

    *made = false;
    for (unsigned i = 0; i < known->n_slots; i++, slot += stride)
        if (*slot == cpu)
            return slot + 1;
    if (known->n_slots == known->size_slots) {
        unsigned size = known->size_slots ? 2 * known->size_slots : SLOTS_FIRST;

        slot = realloc(known->slots, size * stride * sizeof *slot);
        if (!slot)
            return NULL;
        known->slots = slot;
        known->size_slots = size;
    }
    slot = known->slots + known->n_slots++ * stride;
    memset(slot, 0, stride * sizeof *slot);
    *slot = cpu;
    *made = true;
    return slot + 1;
}
