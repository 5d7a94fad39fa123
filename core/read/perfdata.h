/*
 * Between the parts of samples.perf: perfdata_head.c tells perf what there is, perfdata.c gives it
 * the records.
 */
#pragma once

#include "core/log/form.h"

/* What a stream has told so far, in the one number that its reader keeps: sets; and up to which set
 * it has told the formats of tracepoints, 0: none. */
#define TOLD(sets, fields)  ((uint64_t)(fields) << 32 | (sets))
#define TOLD_SETS(number)   ((number)&UINT32_MAX)
#define TOLD_FIELDS(number) ((number) >> 32)

/* One call of the form. */
struct told {
    uint64_t *number;
    const struct log_facts *facts;
    struct buf *out;
};

/* Of processes' memory, is this reader given any? Then callers are found in it, else in frames. */
static inline bool told_stack(const struct told *told, const struct log_event *event)
{
    return event->stack && memory_right_covers(&told->facts->reader, &event->observer);
}

/* The fields of a tracepoint, which can be of other tasks, go the same way. */
static inline bool told_fields(const struct told *told, const struct log_event *event, uint64_t id)
{
    return event->raw && LOG_ID_SET(id) <= TOLD_FIELDS(*told->number) &&
           memory_right_covers(&told->facts->reader, &event->observer);
}

/* The head of a record of the stream's own. */
void perfdata_record(struct buf *out, unsigned type, size_t size);
/* The end of a round: all records before it can be shown. */
void perfdata_round(struct buf *out);
/* Sets that came since. */
void perfdata_sets(struct told *told);
/* The form's head. */
void perfdata_head(uint64_t *number, const struct log_facts *facts, struct buf *out);
