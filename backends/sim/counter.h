/*
 * Simulated counters: value = rate × time run. What an event's code words mean.
 */
#pragma once

#include "core/backend.h"

#include <sys/queue.h>

enum sim_code {
    SIM_RATE,   /* events per millisecond of time run, user and kernel mode together */
    SIM_DIVISOR /* of the rate: from edge and cmask; 0 is 1 */
};

struct counter {
    struct backend_state *state;
    struct plan plan; /* its pointers are not looked at, but for the recorder */
    bool hardware;    /* a member can be lost */
    uint64_t number;
    LIST_ENTRY(counter) of_state;
    bool forgotten; /* the engine does not know it any more: it counts on until it is adopted */

    bool on, dead, execed;
    uint64_t exec_at_ns; /* at_exec, not execed, on: then it will be */
    uint64_t lose_at_ns; /* UINT64_MAX: never */
    uint64_t last_ns;    /* accounted up to here */
    uint64_t covered_ns, running_ns;
    struct tally {
        uint64_t rate, divisor; /* rate / divisor events a millisecond */
        bool user, kernel;      /* 3/4 of them in user mode, the rest in kernel mode */
        uint64_t sampled;       /* samples that were taken */
    } tally[SET_MAX];
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
/* Time passes for it up to now. With the lock. */
void counter_look(struct counter *counter, uint64_t now);
/* P10 or P11 when there are not so many descriptors; `what` begins the sentence. */
int descriptors_check(unsigned need, unsigned long fds_free, unsigned long fds_quota,
                      const char *limit, const char *what, struct err *err);
/* What its event has counted by now. With the lock. */
uint64_t counter_value(const struct counter *counter, unsigned event);
void counter_forget(struct counter *counter); /* it counts on */
void counter_free(struct counter *counter);
