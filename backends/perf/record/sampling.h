/*
 * What makes an event tell records into a ring (recorder.h): samples, the events of our own with
 * samples that tell steps, births, ends, names and mappings; and what the kernel can and allows.
 */
#pragma once

#include "backends/perf/state.h"

struct perf_event_attr;

/* Events of our own at the head of a group where the plan wants steps. */
enum extra {
    EXTRA_DUMMY,  /* leads, where samples cannot tell values: it tells births and names */
    EXTRA_SWITCH, /* leads; at each switch its sample tells the group's values */
    EXTRA_END,    /* its sample does so when a thread ends */
    EXTRA_CLOCK   /* of a cgroup: its value is the time that the group was scheduled */
};
#define EXTRAS_MAX 3

/* Which ones (enum extra), in order; their number. */
unsigned sampling_extras(struct backend_state *state, const struct plan *plan,
                         uint8_t extra[EXTRAS_MAX]);
void sampling_extra_attr(struct backend_state *state, enum extra extra,
                         struct perf_event_attr *attr);
/* The event samples, as the plan says. */
void sampling_attr(const struct plan *plan, struct perf_event_attr *attr);
/* All events of a group must have the clock of those that tell. */
void sampling_clock(struct perf_event_attr *attr);
/* Exactly one event of a group tells what happens around the samples. */
void sampling_sideband(struct perf_event_attr *attr);
/* An event that counts nothing, off; what else it is for is set then. */
void sampling_dummy_attr(struct perf_event_attr *attr);
/* The registers that a sample with a stack has, as perf itself asks for them; 0: of no use here. */
uint64_t sampling_registers(void);
/* What stands behind the frames of its samples: RECORD_RAW, RECORD_STACK. */
unsigned sampling_parts(const struct perf_event_attr *attr);
/* The event that owns a ring. */
void sampling_ring_attr(struct perf_event_attr *attr, uint64_t bytes);
/*
 * Can its samples bear another event's id? Kernels since 6.3 prepare the sample of an event that
 * they raise themselves once for all that sample it in a task or on a CPU: the fields that all ask
 * for, the id among them, are those of the one opened last. Clocks and tracepoints are spared.
 */
bool sampling_shares_id(const struct perf_event_attr *attr);
/* Do its samples say their period themselves? */
bool sampling_says_period(const struct perf_event_attr *attr);

/* Where the values of a group stand in a sample of an extra; with both times before them. */
struct sampled_values {
    uint64_t n, enabled_ns, running_ns;
    uint64_t value[];
};

void perf_sample_limits(struct backend_state *state, struct sample_limits *out);
