/*
 * Memory that survives the process that wrote it: blocks of one memfd, which is mapped once.
 * Records of the journal refer to blocks by number.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Opens the arena of another process by its descriptor, which the caller keeps. Its blocks stay in
 * use until arena_settle() frees those that arena_keep() did not name. Returns false if the
 * descriptor is not an arena.
 */
bool arena_open(int fd);
bool arena_clear(int fd);                      /* frees all blocks; no process may use them */
int arena_fd(void);                            /* -1 on ENOMEM */
void arena_keep(uint64_t block, size_t bytes); /* bytes: as allocated; block 0 is allowed */
void arena_settle(void);

/* Allocates a zeroed block and returns its number, or 0 on ENOMEM. Thread-safe. */
uint64_t arena_alloc(size_t bytes);
void arena_free(uint64_t block, size_t bytes); /* bytes: as allocated; block 0 is allowed */
/* Returns the address of a block, or NULL if there is no block of this number and size. */
void *arena_at(uint64_t block, size_t bytes);
/* The address of block 0, set by the first allocation. */
extern char *arena_base;
