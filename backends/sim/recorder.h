/*
 * The buffers into which simulated counters write their records: one per CPU, of a bounded size;
 * what does not fit is lost and told at the next drain. Time passes for them when somebody looks:
 * at a drain, a read, a stop, and every 10 ms where there is a loop.
 */
#pragma once

#include "core/backend.h"
#include "core/log/record.h"

struct counter;

int sim_recorder_new(struct backend_state *state, const struct recorder_plan *plan,
                     struct recorder **out, struct err *err);
void sim_recorder_facts(const struct recorder *recorder, struct recorder_facts *out);
int sim_drain(struct recorder *recorder, bool all, const struct intake *intake);
void sim_recorder_print(const struct recorder *recorder, struct buf *out);
int sim_recorder_adopt(struct backend_state *state, const struct recorder_plan *plan,
                       const char *printed, struct recorder **out);
void sim_recorder_forget(struct recorder *recorder); /* it goes on; */
void sim_recorders_close(struct backend_state *state); /* … so long */
void sim_recorder_free(struct recorder *recorder);
void sim_sample_limits(struct backend_state *state, struct sample_limits *out);

/* With the lock, as what follows. The counter's records go there; recorder NULL: nothing is done. */
void recorder_join(struct recorder *recorder, struct counter *counter);
void recorder_leave(struct recorder *recorder, struct counter *counter);

/*
 * Writing: recorder_open() gives the text to which one record is appended, recorder_shut() keeps it
 * if the CPU's buffer has room for it, or counts it as lost (false).
 */
struct buf *recorder_open(struct recorder *recorder);
bool recorder_shut(struct recorder *recorder, unsigned cpu);
void recorder_lose(struct recorder *recorder, unsigned cpu, uint64_t n);
