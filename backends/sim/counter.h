/*
 * Simulated counters: value = rate × time run. What an event's code words mean.
 */
#pragma once

#include "core/backend.h"

enum sim_code {
    SIM_RATE,    /* events per millisecond of time run, user and kernel mode together */
    SIM_DIVISOR, /* of the rate: from edge and cmask; 0 is 1 */
    SIM_EDGE,
    SIM_INVERT,
    SIM_CMASK
};

int counter_attach(struct backend_state *state, const struct plan *plan, struct counter **out,
                   struct err *err);
int counter_start(struct counter *counter, struct err *err);
int counter_stop(struct counter *counter);
int counter_read(struct counter *counter, struct reading *out, bool patient);
unsigned counter_cost(const struct counter *counter);
void counter_facts(const struct counter *counter, struct counter_facts *out);
bool counter_covers(struct counter *counter, pid_t pid);
void counter_print(const struct counter *counter, struct buf *out);
int counter_adopt(struct backend_state *state, const struct plan *plan, const char *printed,
                  struct counter **out);
void counter_processes(const struct counter *counter, void (*fn)(void *arg, pid_t pid), void *arg);
/* Time passes for it up to now. */
void counter_look(struct counter *counter, uint64_t now);
/* The next in its recorder's list; the recorder's. */
struct counter **counter_next(struct counter *counter);
void counter_forget(struct counter *counter); /* it counts on; */
void sim_counters_close(struct backend_state *state); /* … so long */
void counter_free(struct counter *counter);
