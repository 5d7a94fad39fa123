/*
 * Simulated counters: value = rate × running time. Functions without a comment are members of
 * struct backend.
 */
#pragma once

#include "core/backend.h"

#include <sys/queue.h>

/* The code words of a simulated event. */
enum sim_code {
    SIM_RATE,   /* events per millisecond of running time, both modes together */
    SIM_DIVISOR /* divides the rate (edge, cmask); 0 means 1 */
};

struct counter {
    struct backend_state *state;
    struct plan plan; /* of its pointers only the recorder is used */
    bool hardware;    /* can be lost */
    uint64_t number;
    LIST_ENTRY(counter) of_state;
    bool forgotten; /* left for a later worker; counts until it is adopted */

    bool on, dead, execed;
    uint64_t exec_at_ns; /* if at_exec and not yet execed: the time of the exec */
    uint64_t lose_at_ns; /* UINT64_MAX: never */
    uint64_t last_ns;    /* counts are complete up to this time */
    uint64_t covered_ns, running_ns;
    struct tally {
        uint64_t rate, divisor; /* rate / divisor events per millisecond */
        bool user, kernel;      /* 3/4 of them in user mode, the rest in kernel mode */
        uint64_t sampled;       /* samples taken */
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
/* Updates the counts up to now. Needs the lock. */
void counter_look(struct counter *counter, uint64_t now);
/* Refuses with P10 or P11 if there are not enough descriptors; the sentence starts with `what`. */
int descriptors_check(unsigned need, unsigned long fds_free, unsigned long fds_quota,
                      const char *limit, const char *what, struct err *err);
/* Returns the count of one event. Needs the lock. */
uint64_t counter_value(const struct counter *counter, unsigned event);
void counter_forget(struct counter *counter);
void counter_free(struct counter *counter);
