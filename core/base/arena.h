/*
 * Memory and descriptors that survive a worker. The arena is a memfd that is mapped once; records
 * of the journal refer to its blocks by number. Descriptors stay open, because workers share a
 * table.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Opens the arena of another process by its descriptor, which the caller keeps. Its blocks stay in
 * use until arena_free_unkept() frees those that arena_keep() did not name. Returns false if the
 * descriptor is not an arena.
 */
bool arena_open(int fd);
bool arena_clear(int fd);                      /* frees all blocks; no process may use them */
int arena_fd(void);                            /* creates the arena if necessary; -1 on ENOMEM */
void arena_keep(uint64_t block, size_t bytes); /* bytes: as allocated; block 0 is allowed */
void arena_free_unkept(void);

/* Allocates a zeroed block and returns its number, or 0 on ENOMEM. Thread-safe. */
uint64_t arena_alloc(size_t bytes);
/* The same for a block that will be filled slowly: only written pages use memory. Returns 0 if half
 * of the arena's numbers are in use. */
uint64_t arena_alloc_sparse(size_t bytes);
void arena_free(uint64_t block, size_t bytes); /* bytes: as allocated; block 0 is allowed */
/* Returns the address of a block, or NULL if a block of this size cannot have this number. */
void *arena_at(uint64_t block, size_t bytes);
/* The address of offset 0, set by arena_open() or the first allocation. */
extern char *arena_base;

/* ---- descriptors ---- */

/* Exempts a descriptor in this process and its children: fds_settle() does not close it. Returns
 * false on ENOMEM. */
bool fd_exempt(int fd);
/* Marks all other open descriptors as an earlier worker's. fds_settle() closes those not kept.
 * Returns false on ENOMEM, or if /proc is not readable. */
bool fds_begin(void);
void fds_settle(void);
/* Keeps a descriptor that a record refers to. Returns false if it is not open. */
bool fd_keep(int fd);
