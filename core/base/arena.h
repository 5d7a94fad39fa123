/*
 * Memory that outlives the process which wrote it: one memfd, mapped once, of which blocks are
 * given out. What a block means is known from the records that name it (journal.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Another process's: the descriptor, which stays the caller's. Its blocks are given out no more,
 * until arena_settle() frees those that were not kept. False: it is none.
 */
bool arena_open(int fd);
bool arena_clear(int fd); /* nothing is in use any more, in no process */
int arena_fd(void); /* -1: no memory */
void arena_keep(uint64_t block, size_t bytes); /* as it was asked for; block 0 allowed */
void arena_settle(void);

/* Zeroed; 0: no memory. Numbers of blocks are never 0. Any thread. */
uint64_t arena_alloc(size_t bytes);
void arena_free(uint64_t block, size_t bytes); /* as it was asked for; block 0 allowed */
/* NULL: no such block, or it would not be of so many bytes. */
void *arena_at(uint64_t block, size_t bytes);
/* Where block 0 would be, once a block was given out. */
extern char *arena_base;
