/*
 * What is held open so that names can be had later: files that processes have mapped, and the roots
 * of processes that make code themselves. Nothing is read here; opening for reading, which may wait
 * for ever, is the helper's. Thread-safe, but files_take() has one caller at a time.
 */
#pragma once

#include "backends/linux/linux.h"
#include "backends/linux/symbol.h"
#include "core/record.h"

/* The functions of core/host.h. */
struct log_files *linux_files_new(struct host_state *state, unsigned max);
void linux_files_take(struct log_files *files, pid_t pid, uint32_t shown,
                      const struct record_map *map);
void linux_files_free(struct log_files *files);
unsigned linux_files_count(const struct log_files *files);
void linux_files_print(const struct log_files *files, struct buf *out);
int linux_files_adopt(struct host_state *state, const char *printed, struct log_files **files);
void linux_files_keep(struct log_files *files);

/* A thing held, for as long as `files` lives: SYMBOL_NONE if there is none. */
uint32_t symbol_files_of_map(struct log_files *files, const struct record_map *map);
/* What it says of itself is for its own user, and for the superuser: it may have executed a set-id
 * program before it was looked at. */
uint32_t symbol_files_of_process(struct log_files *files, uint32_t shown, uid_t uid, bool anybodys);
/* What to tell the helper, and a descriptor to give it (close). -1: it is not asked any more. */
int symbol_files_pick(struct log_files *files, uint32_t held, struct symbol_module *out);
/* A helper ended or hung over it. After a few times it is not asked any more. */
void symbol_files_blame(struct log_files *files, uint32_t held);
