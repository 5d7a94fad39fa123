/*
 * The threads of which steps are told, by their number and by that of their process; what was told
 * of each on each CPU. Only for steps.c.
 */
#pragma once

#include "backends/perf/steps.h"

struct known {
    struct known *next;            /* of the same bucket */
    struct known **of_pid, *along; /* who points here, and the next, among those of its process */
    uint32_t pid, tid;
    uint32_t cpu; /* where it was last */
    uint64_t root, set;
    uint64_t losses; /* as of when its beginning was sure */
    bool ended;      /* an end was told */
    bool gone;       /* a first thread that has ended: another may take its number by an exec */
    bool doubt;      /* it is not sure that it was one thread all the time */
    bool lower;      /* it may have counted more than was told */
    unsigned n_slots, size_slots;
    uint64_t *slots;    /* each the CPU, and n values as last told there */
    uint64_t pending[]; /* n; counted, but not put yet: the end's */
};

struct steps {
    unsigned n;
    uint64_t through;
    bool children;
    uint64_t losses, swept_losses;
    struct known **by_tid, **by_pid; /* size each: a power of two, or 0 */
    size_t size, n_known;
    size_t swept; /* how many there were after the last sweep */
};

/* NULL: not known. */
struct known *known_find(const struct steps *steps, uint32_t tid);
/* Somebody else of its process, or NULL. */
struct known *known_other(const struct steps *steps, uint32_t pid, uint32_t tid);
/* born: from its beginning. NULL: no memory. */
struct known *known_add(struct steps *steps, uint32_t pid, uint32_t tid, bool born);
void known_drop(struct steps *steps, struct known *known);
void known_rename(struct steps *steps, struct known *known, uint32_t tid);
/* The values as last told on this CPU; *made: there were none. NULL: no memory. */
uint64_t *known_slot(const struct steps *steps, struct known *known, uint32_t cpu, bool *made);
