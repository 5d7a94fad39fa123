/*
 * The mappings of a process, in order of address; none overlap. A fork shares the parent's until
 * one of the two changes them, so that fork and exec cost nothing. Memory is counted in *bytes.
 */
#pragma once

#include "core/log/record.h"

#include <stdbool.h>
#include <stdint.h>

#define BLOCK_BYTES(size) ((size) + 16u) /* that an allocation costs */

void *block_alloc(uint64_t *bytes, size_t size); /* zeroed; NULL: no memory */
void block_free(uint64_t *bytes, void *block, size_t size);

/* One mapping, of any number of processes: the record names the first. */
struct held_map {
    uint64_t refs;
    uint64_t record[]; /* a struct record_map */
};

struct maps {
    unsigned refs, n, size;
    struct held_map *held[];
};

static inline const struct record_map *map_of(const struct held_map *held)
{
    return (const struct record_map *)held->record;
}

static inline uint64_t map_end(const struct record_map *map)
{
    return map->length <= UINT64_MAX - map->start ? map->start + map->length : UINT64_MAX;
}

/* The first mapping that ends behind this address; n: none does. maps may be NULL. */
unsigned maps_search(const struct maps *maps, uint64_t address);
/* The new one in place of those that it overlaps; false: no memory. */
bool maps_add(uint64_t *bytes, struct maps **maps, const struct record_map *map);
struct maps *maps_share(struct maps *maps); /* NULL: NULL */
void maps_drop(uint64_t *bytes, struct maps **maps);
