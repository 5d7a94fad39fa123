/*
 * The rights that open files and targets have: one object of all that are equal, which is counted,
 * and charged to the user that opened with them first. With the engine's lock.
 */
#pragma once

#include "core/log/log_sets.h"
#include "core/pmc/parts.h"

struct user;

/*
 * From now on *at is a reference to what is kept of these rights: 0. Or P10, P11, E32, and they are
 * the caller's still. Without a user they are not charged.
 */
int rights_keep(struct engine *engine, struct user *user, struct rights **at, struct err *err);
struct rights *rights_ref(struct rights *rights); /* NULL allowed */
void rights_unref(struct rights *rights);         /* NULL allowed */
/* With an id and a user that are known already, as another worker kept them; no reference yet.
 * False: no memory. */
bool rights_add(struct engine *engine, struct rights *rights);
/* Those that were loaded and nothing has are let go. */
void rights_sweep(struct engine *engine);
/* As far as the memory of processes goes; NULL: none. */
struct memory_right rights_to_memory(const struct rights *rights);
/* Frees those that no record names any more. */
void rights_end(struct engine *engine);
