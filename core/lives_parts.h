/*
 * Between the parts of lives.h: lives.c, and lives_save.c, which makes it text and back.
 */
#pragma once

#include "core/lives.h"

void *life_find(const struct life_table *table, uint32_t key); /* NULL: not there */
/* born: it is known from its beginning. NULL: no memory. */
struct life *life_make(struct lives *lives, uint32_t pid, bool born);
/* NULL: no memory; then a process without threads goes. */
struct life_thread *life_thread_make(struct lives *lives, struct life *process, uint32_t tid,
                                     enum mark mark);
void life_see(struct lives *lives, struct life *process); /* something came of it */
void life_part_add(struct lives *lives, uint32_t pid);    /* it goes without an end */
