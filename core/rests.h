/*
 * Logs of released PMCs that open files still read, for a later worker: printed with the first file
 * that reads one, found again by the others. Files are scanned in the order they were printed.
 */
#pragma once

#include "core/log.h"
#include "core/log_sets.h"

#include <sys/types.h>

struct engine;

/* To the line's end. */
void rest_print(struct engine *engine, uint64_t pmc, uid_t uid, struct log *log,
                struct log_sets *sets, struct buf *out);
/* References; sets may be NULL. False: not readable, or no memory. The log is its user's again. */
bool rest_scan(struct engine *engine, uint64_t pmc, const char *text, struct log **log,
               struct log_sets **sets);
/* All files were printed, or all were scanned. */
void rests_free(struct engine *engine);
