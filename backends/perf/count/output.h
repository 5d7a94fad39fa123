/*
 * From a counter's descriptors to its recorder's rings: the ids of its events, and where their
 * records go.
 */
#pragma once

#include "backends/perf/count/counter.h"
#include "backends/perf/record/recorder.h"

/*
 * Nothing to do without a recorder, here and below. Redirects all events that tell records, and
 * makes their ids known. Before it is started, while its shape has attrs; after an adoption too. 0
 * or -errno.
 */
int output_begin(struct counter *counter, const struct plan *plan, bool adopted);
/* The same for one group, with the recorder's lock. *root: 0 for the first of a task. */
int group_output(const struct origin *origin, const struct shape *shape, const int *group,
                 bool adopted, uint64_t *root);
/* Its descriptors are closed (or forgotten): what was written stays to be taken. */
void output_end(struct counter *counter);

/* Before it is started: what happens on every CPU is told, if it needs that. 0 or -errno. */
int output_track(struct counter *counter);
/* It was stopped, or ends; or (forget) another will go on with the descriptors. */
void output_untrack(struct counter *counter, bool forget);

/* A ring was made for this CPU. With the recorder's locks held. */
void output_cpu(const struct origin *origin, unsigned cpu);
