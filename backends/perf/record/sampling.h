/*
 * Attributes of events that write records into a ring (recorder.h): samples, records about
 * processes and mappings, and internal events whose samples contain the values of a group. Also
 * what the kernel supports and allows.
 */
#pragma once

#include "backends/perf/state.h"

struct perf_event_attr;

/* Internal events that precede the events of the set in a group. */
enum extra {
    EXTRA_DUMMY,  /* leader if no values are sampled; writes process records */
    EXTRA_SWITCH, /* leader; writes the values of the group at each context switch */
    EXTRA_END,    /* writes the values of the group when a thread exits */
    EXTRA_CLOCK   /* for a cgroup: its value is the time that the group was scheduled */
};
#define EXTRAS_MAX 3

/* Stores the internal events that the plan needs, in order, except EXTRA_CLOCK (see shape_make()).
 * Returns their number; 0 unless the plan records without sampling. */
unsigned sampling_extras(struct backend_state *state, const struct plan *plan,
                         uint8_t extra[EXTRAS_MAX]);
/* Sets the attributes of an internal event, disabled. */
void sampling_extra_attr(struct backend_state *state, enum extra extra,
                         struct perf_event_attr *attr);
/* Makes an event sample as the plan requires. attr is already set by code_to_attr(). */
void sampling_attr(const struct plan *plan, struct perf_event_attr *attr);
/* Sets the clock of the rings, which all events of a group must have. */
void sampling_clock(struct perf_event_attr *attr);
/* Makes an event also write FORK, EXIT, COMM and MMAP2 records. At most one event of a group does
 * so. */
void sampling_sideband(struct perf_event_attr *attr);
/* Sets the attributes of a dummy event, disabled; the caller adds to them. */
void sampling_dummy_attr(struct perf_event_attr *attr);
/* Sets the attributes of an event that owns a ring of this size. */
void sampling_ring_attr(struct perf_event_attr *attr, uint64_t bytes);
/* Returns the mask of registers in samples with a stack, the same as in perf; 0: not supported. */
uint64_t sampling_registers(void);
/* Returns the fields that follow the frames in the event's samples: RECORD_RAW, RECORD_STACK. */
unsigned sampling_parts(const struct perf_event_attr *attr);
/*
 * Returns true if samples of the event may have the id of another event. Since 6.3 the kernel
 * prepares the sample of a software event once for all events of a task or CPU that sample it:
 * fields that all of them have, such as the id, are those of the event that was opened last. PIDs
 * are then those of the PID namespace of its opener. Clock events and tracepoints are not affected.
 */
bool sampling_shares_id(const struct perf_event_attr *attr);

/* The values of a group in a sample of an internal event. */
struct sampled_values {
    uint64_t n, enabled_ns, running_ns;
    uint64_t value[];
};

void perf_sample_limits(struct backend_state *state, struct sample_limits *out);
