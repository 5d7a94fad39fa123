/*
 * Shared by perfdata_head.c, which writes the head of samples.perf, and perfdata.c, which writes
 * the records.
 */
#pragma once

#include "core/log/form.h"

/* The form's state per reader, in one number: the last set written, and the last set whose
 * tracepoint formats were written (0: no formats). */
#define TOLD(sets, fields)  ((uint64_t)(fields) << 32 | (sets))
#define TOLD_SETS(number)   ((number)&UINT32_MAX)
#define TOLD_FIELDS(number) ((number) >> 32)

/* The arguments of a call of the form. */
struct told {
    uint64_t *number;
    const struct log_facts *facts;
    struct buf *out;
};

/* Returns true if the reader may see user stacks of this event. perf then unwinds them; otherwise
 * samples have frames. */
static inline bool told_stack(const struct told *told, const struct log_event *event)
{
    return event->stack && memory_right_covers(&told->facts->reader, &event->observer);
}

/* Returns true if the reader may see the tracepoint fields of this event, which can describe other
 * tasks. */
static inline bool told_fields(const struct told *told, const struct log_event *event, uint64_t id)
{
    return event->raw && LOG_ID_SET(id) <= TOLD_FIELDS(*told->number) &&
           memory_right_covers(&told->facts->reader, &event->observer);
}

/* Appends the head of a record of the stream. */
void perfdata_record(struct buf *out, unsigned type, size_t size);
/* Appends the end of a round. */
void perfdata_round(struct buf *out);
/* Appends the events of all sets that are not written yet. */
void perfdata_sets(struct told *told);
/* Writes the start of the stream: see struct log_form. */
void perfdata_head(uint64_t *number, const struct log_facts *facts, struct buf *out);
