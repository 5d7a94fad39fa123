/*
 * From a counter's descriptors to its recorder's rings: the ids of its events, and where their
 * records go.
 */
#pragma once

#include "backends/perf/count/counter.h"
#include "backends/perf/recorder.h"

/*
 * Redirects all events that tell records, and makes their ids known. Before it is started; after
 * an adoption too. 0 or -errno. Nothing to do without a recorder.
 */
int output_begin(struct counter *counter, const struct plan *plan);
/* Its descriptors are closed (or forgotten): what was written stays to be taken. */
void output_end(struct counter *counter);
/* A ring was made for this CPU. With the recorder's setup held. */
void output_cpu(const struct origin *origin, unsigned cpu);
