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

/* ---- for a later worker ---- */

static void print_numbers(struct buf *out, const uint64_t *value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buf_printf(out, ",%" PRIu64, value[i]);
}

void steps_print(const struct steps *steps, struct buf *out)
{
    buf_printf(out, "%u,%" PRIu64 ",%d,%" PRIu64, steps->n, steps->through, steps->children,
               steps->losses);
    for (size_t i = 0; i < steps->size; i++) {
        for (const struct known *known = steps->by_tid[i]; known; known = known->next) {
            buf_printf(out,
                       ";%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
                       ",%d,%d,%d,%d,%u",
                       known->pid, known->tid, known->cpu, known->root, known->set, known->losses,
                       known->ended, known->gone, known->doubt, known->lower, known->n_slots);
            print_numbers(out, known->pending, steps->n);
            print_numbers(out, known->slots, known->n_slots * (1 + (size_t)steps->n));
        }
    }
}

static bool scan_numbers(const char **at, uint64_t *value, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int used = 0;

        if (sscanf(*at, ",%" SCNu64 "%n", &value[i], &used) != 1)
            return false;
        *at += used;
    }
    return true;
}

static bool scan_known(struct steps *steps, const char **at)
{
    struct known *known, read;
    int ended, gone, doubt, lower, used = 0;
    size_t words;

    if (sscanf(*at,
               ";%" SCNu32 ",%" SCNu32 ",%" SCNu32 ",%" SCNu64 ",%" SCNu64 ",%" SCNu64
               ",%d,%d,%d,%d,%u%n",
               &read.pid, &read.tid, &read.cpu, &read.root, &read.set, &read.losses, &ended, &gone,
               &doubt, &lower, &read.n_slots, &used) < 11 ||
        known_find(steps, read.tid) || read.n_slots > UINT16_MAX)
        return false;
    *at += used;
    known = known_add(steps, read.pid, read.tid, false);
    if (!known)
        return false;
    known->cpu = read.cpu;
    known->root = read.root;
    known->set = read.set;
    known->losses = read.losses;
    known->ended = ended;
    known->gone = gone;
    known->doubt = doubt;
    known->lower = lower;
    words = read.n_slots * (1 + (size_t)steps->n);
    known->slots = calloc(words + 1, sizeof *known->slots);
    if (!known->slots)
        return false;
    known->n_slots = known->size_slots = read.n_slots;
    return scan_numbers(at, known->pending, steps->n) && scan_numbers(at, known->slots, words);
}

struct steps *steps_scan(const char *text, unsigned *n)
{
    struct steps *steps;
    uint64_t through, losses;
    int children, used = 0;

    if (sscanf(text, "%u,%" SCNu64 ",%d,%" SCNu64 "%n", n, &through, &children, &losses, &used) <
            4 ||
        *n > SET_MAX)
        return NULL;
    steps = steps_new(*n, through, children);
    if (!steps)
        return NULL;
    steps->losses = losses;
    for (text += used; *text == ';';) {
        if (!scan_known(steps, &text)) {
            steps_free(steps);
            return NULL;
        }
    }
    return steps;
}
