/*
 * Memory and descriptors that survive a worker. The arena is a memfd that is mapped once; records
 * of the journal refer to its blocks by number. Descriptors stay open, because workers share a
 * table.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

/*
 * Opens the arena of another process instead of the present one. The descriptor stays open and is
 * arena_fd() from now on. Its blocks stay in use until arena_free_unkept() frees those that
 * arena_keep() did not name. Returns false if the descriptor is not an arena or cannot be mapped.
 */
bool arena_open(int fd);
bool arena_clear(int fd); /* empties an arena that no process uses; false on error */
int arena_fd(void);       /* creates the arena if necessary; -1 on error */
/* Keeps a block of the opened arena. bytes: as allocated; block 0 is allowed. */
void arena_keep(uint64_t block, size_t bytes);
void arena_free_unkept(void);

/* Allocates a zeroed block and returns its number, the offset from arena_base. Returns 0 if the
 * arena is full or cannot be created. Thread-safe. */
uint64_t arena_alloc(size_t bytes);
/* Allocates a zeroed block that is larger than needed now: only written pages use memory. Returns 0
 * if no such block is free and the first half of the arena is in use; the second half is left to
 * arena_alloc(). */
uint64_t arena_alloc_sparse(size_t bytes);
/* Frees a block. bytes: as allocated; block 0 is allowed. Thread-safe. */
void arena_free(uint64_t block, size_t bytes);
/* Frees like arena_free() a block whose bytes were all written. The last such block of up to 1 MiB
 * keeps its pages until arena_trim(), so that the next arena_alloc() of its size needs no new ones.
 */
void arena_free_warm(uint64_t block, size_t bytes);
void arena_trim(void); /* returns to the kernel the pages that arena_free_warm() keeps */
/* Returns the address of a block, or NULL without an arena, or if a block of this size cannot have
 * this number. */
void *arena_at(uint64_t block, size_t bytes);
/* The address of offset 0, set by arena_open() or the first allocation. */
extern char *arena_base;

/* ---- descriptors ---- */

/* Exempts a descriptor: the next fds_close_unkept() of this process, and of children created until
 * then, does not close it. Returns false on ENOMEM or for -1. */
bool fd_exempt(int fd);
/* Marks all open descriptors that are not exempt as an earlier worker's. fds_close_unkept() closes
 * those of them that fd_keep() did not name. Returns false on ENOMEM, or if /proc is not readable.
 */
bool fds_mark_old(void);
void fds_close_unkept(void);
/* Closes descriptors opened since fds_mark_old(), for a worker that cannot load the state. The
 * supervisor, which shares them, opens none until a worker serves. */
void fds_close_new(void);
/* Keeps a descriptor that a record refers to. Returns false if it is not open. */
bool fd_keep(int fd);
/* Closes a descriptor. Ignores a negative number. */
static inline void fd_close(int fd)
{
    if (fd >= 0)
        close(fd);
}
