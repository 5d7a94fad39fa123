/*
 * Forget everything and make it again of the journal: what a new worker does, in the running
 * program. Proves that nothing lives in pointers alone. In debug builds SIGUSR2 does it.
 */
#pragma once

#include "core/base/err.h"
#include "core/pmc/tunable.h"

struct fs;

/* An engine of the journal's records, and what open files remember. False: they cannot be read. */
bool fs_load(struct fs *fs, const struct tunables *tunables, struct err *err);

/* On the main thread. A state that cannot be loaded ends the program with the sentence. */
void fs_reload(struct fs *fs);
