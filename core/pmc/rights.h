/*
 * Rights of open files and targets. Equal rights share one object with a reference count, which is
 * charged to the first user. All functions need the engine's lock.
 */
#pragma once

#include "core/log/log_sets.h"
#include "core/pmc/parts.h"

struct user;

/*
 * Replaces *at by a reference to a shared object. Returns 0, or P10, P11 or E32, and then the
 * caller keeps the rights. user NULL: not charged.
 */
int rights_keep(struct engine *engine, struct user *user, struct rights **at, struct err *err);
struct rights *rights_ref(struct rights *rights); /* NULL allowed */
void rights_unref(struct rights *rights);         /* NULL allowed */
/* Adds loaded rights with their id and user, without a reference. Returns false on ENOMEM. */
bool rights_add(struct engine *engine, struct rights *rights);
/* Frees loaded rights that nothing refers to. */
void rights_sweep(struct engine *engine);
/* Returns the rights to the memory of processes; for NULL: none. */
struct memory_right rights_to_memory(const struct rights *rights);
/* Frees unused rights after their records were deleted. */
void rights_end(struct engine *engine);
