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
int output_begin(struct counter *counter, const struct plan *plan);
/*
 * Behind output_begin(): its threads are followed, where the kernel needs that (follow.h), with at
 * most so many descriptors. Without memory none is. System calls.
 */
void output_follow(struct counter *counter, const struct plan *plan, unsigned long most_fds);
unsigned output_fds(const struct counter *counter);       /* of those, open now; memory only */
unsigned long output_most(const struct counter *counter); /* most_fds */
/* Its descriptors are closed (or forgotten): what was written stays to be taken. */
void output_end(struct counter *counter);

/* Before it is started: what happens on every CPU is told, if it needs that. 0 or -errno. */
int output_track(struct counter *counter);
void output_untrack(struct counter *counter); /* it was stopped, or ends */
/* After its groups were started, before they are stopped: what is followed. */
void output_switch(struct counter *counter, bool on, bool armed);

/* A ring was made for this CPU. With the recorder's locks held. */
void output_cpu(const struct origin *origin, unsigned cpu);
