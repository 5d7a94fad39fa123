/*
 * One process of the address spaces: the names of its threads, and its mappings in order of
 * address. A fork shares the parent's mappings until one of the two changes them, so that fork and
 * exec cost nothing. All memory is counted in *bytes of whom it belongs to.
 */
#pragma once

#include "core/record.h"

#include <stdbool.h>
#include <stdint.h>

#define SPACE_BLOCK(size) ((size) + 16u) /* bytes that an allocation costs */
#define SPACE_NAME        64u            /* bytes of a name at most, NUL included */

void *space_alloc(uint64_t *bytes, size_t size); /* zeroed; NULL: no memory */
void space_free(uint64_t *bytes, void *block, size_t size);
/* A copy of at most len bytes, cut to SPACE_NAME; NULL: no memory. */
char *space_name(uint64_t *bytes, const char *text, size_t len);
void space_name_free(uint64_t *bytes, char *name);

/* One mapping, of any number of processes: whose it was at first stands in the record. */
struct held_map {
    uint64_t refs;
    uint64_t record[]; /* a struct record_map */
};

/* Mappings in order; none overlap. */
struct maps {
    unsigned refs, n, size;
    struct held_map *held[];
};

struct space_thread {
    uint32_t tid;
    char *name; /* NULL: as the process */
};

struct space {
    uint32_t pid;
    uint64_t news; /* the number of the last news of it, among those of all */
    unsigned n_threads, threads_size;
    struct space_thread *threads; /* those known to live, by tid */
    char *name;                   /* or NULL */
    struct maps *maps;            /* or NULL */
    struct space *next;           /* of its bucket */
    struct space *older, *newer;
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
bool space_map(uint64_t *bytes, struct space *space, const struct record_map *map);
void space_share_maps(struct space *child, const struct space *parent);
void space_clear_maps(uint64_t *bytes, struct space *space);

struct space_thread *space_thread(const struct space *space, uint32_t tid);
/* The thread, known from now on; NULL: no memory. */
struct space_thread *space_thread_make(uint64_t *bytes, struct space *space, uint32_t tid);
void space_thread_end(uint64_t *bytes, struct space *space, struct space_thread *thread);
/* The first of n_threads with this number or a higher one. */
unsigned space_thread_place(const struct space *space, uint32_t tid);
/* The thread's name, or the process's, or NULL. */
const char *space_thread_name(const struct space *space, uint32_t tid);

/* All that it has. */
void space_clear(uint64_t *bytes, struct space *space);
/* At most so many bytes more, once this record of it is taken. */
uint64_t space_need(const struct space *space, const struct record *record);

/* All of them (spaces.c). */
#define SPACE_KERNEL  UINT32_MAX
#define SPACE_BUCKETS 64u /* at first */

struct spaces {
    uint64_t max_bytes, bytes, lost;
    uint64_t news; /* so many there were */
    struct space **buckets, *first_buckets[SPACE_BUCKETS];
    size_t n_buckets, n_spaces; /* n_buckets: a power of two */
    struct space *oldest, *newest;
};
struct space *space_of(const struct spaces *spaces, uint32_t pid); /* NULL: nothing is known */
uint64_t space_facts(const struct space *space);
