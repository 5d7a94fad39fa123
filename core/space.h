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
struct held {
    uint64_t refs;
    uint64_t record[]; /* a struct record_map */
};

/* Mappings in order; none overlap. */
struct maps {
    unsigned refs, n, size;
    struct held *held[];
};

struct thread {
    uint32_t tid;
    char *name; /* NULL: as the process */
};

struct process {
    uint32_t pid;
    unsigned n_threads, threads_size;
    struct thread *threads; /* those known to live, by tid */
    char *name;             /* or NULL */
    struct maps *maps;      /* or NULL */
    struct process *next;   /* of its bucket */
    struct process *older, *newer;
};

static inline const struct record_map *map_of(const struct held *held)
{
    return (const struct record_map *)held->record;
}

/* The first mapping that ends behind this address; n: none does. maps may be NULL. */
unsigned maps_search(const struct maps *maps, uint64_t address);
/* The new one in place of those that it overlaps; false: no memory. */
bool process_map(uint64_t *bytes, struct process *process, const struct record_map *map);
void process_share_maps(struct process *child, const struct process *parent);
void process_clear_maps(uint64_t *bytes, struct process *process);

struct thread *thread_find(const struct process *process, uint32_t tid);
/* The thread, known from now on; NULL: no memory. */
struct thread *thread_make(uint64_t *bytes, struct process *process, uint32_t tid);
void thread_end(uint64_t *bytes, struct process *process, struct thread *thread);
/* The thread's name, or the process's, or NULL. */
const char *thread_name(const struct process *process, uint32_t tid);

/* All that it has. */
void process_clear(uint64_t *bytes, struct process *process);
/* At most so many bytes more, once this record of it is taken. */
uint64_t process_need(const struct process *process, const struct record *record);
