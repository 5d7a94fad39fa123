/*
 * The mappings of a process, sorted by address, without overlaps. After a fork, parent and child
 * share them until one of the two changes them, which makes fork and exec cheap. Functions add the
 * memory that they allocate to *bytes, and subtract it on free.
 */
#pragma once

#include "core/log/record.h"

#include <stdbool.h>
#include <stdint.h>

#define BLOCK_BYTES(size) ((size) + 16u) /* memory of an allocation, with overhead */

void *block_alloc(uint64_t *bytes, size_t size); /* zeroed; NULL on ENOMEM */
void block_free(uint64_t *bytes, void *block, size_t size);

/* A mapping, shared by any number of processes. Its record has the PID of the first. */
struct held_map {
    uint64_t refs;
    uint64_t record[]; /* contains a struct record_map */
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

/* Returns the index of the first mapping that ends after this address, or n. maps may be NULL. */
unsigned maps_search(const struct maps *maps, uint64_t address);
/* Adds a mapping, which replaces all that it overlaps. Returns false on ENOMEM. */
bool maps_add(uint64_t *bytes, struct maps **maps, const struct record_map *map);
struct maps *maps_share(struct maps *maps); /* maps may be NULL */
void maps_drop(uint64_t *bytes, struct maps **maps);
