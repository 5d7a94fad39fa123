/*
 * Sets of CPU numbers, sparse ones included, in the kernel's list syntax ("0-3,6").
 */
#pragma once

#include "core/base/buf.h"
#include "core/base/scan.h"

#include <stdbool.h>
#include <stdint.h>

#define CPUS_MAX 8192 /* the kernel's largest NR_CPUS */

/* Zeroes are an empty set. */
struct cpus {
    uint64_t *bits;
    unsigned words;
};

void cpus_free(struct cpus *cpus);
bool cpus_add(struct cpus *cpus, unsigned cpu); /* false: ENOMEM, or cpu >= CPUS_MAX */
void cpus_remove(struct cpus *cpus, unsigned cpu);
bool cpus_has(const struct cpus *cpus, unsigned cpu);
bool cpus_copy(struct cpus *to, const struct cpus *from);    /* replaces *to; false on ENOMEM */
bool cpus_add_all(struct cpus *to, const struct cpus *from); /* false on ENOMEM */
bool cpus_equal(const struct cpus *a, const struct cpus *b);
unsigned cpus_count(const struct cpus *cpus);
/* Returns the first member >= from, or -1. Loop: for (int c = cpus_next(s, 0); c >= 0; c =
 * cpus_next(s, c + 1)) */
int cpus_next(const struct cpus *cpus, int from);
/*
 * Replaces the set by a parsed list. Returns 0, -EINVAL for bad syntax or a reversed range, -ERANGE
 * for a number >= CPUS_MAX, or -ENOMEM. On failure the set is empty.
 */
int cpus_parse(struct cpus *cpus, struct word list);
void cpus_print(const struct cpus *cpus, struct buf *out); /* "0-3,6", "" when empty */
