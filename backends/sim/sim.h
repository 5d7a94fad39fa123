/*
 * The simulated PMU. Only the PMU is simulated: processes, clock and rights are the host's, so a
 * mount behaves as on a host with such a PMU, and with a fake clock a test can compute every value.
 * Functions without a comment are members of struct backend (core/backend.h), which describes them.
 */
#pragma once

#include "core/backend.h"

#include <pthread.h>
#include <sys/queue.h>

/* ---- sim.c: the CPUs of the simulated host and the classes of its counters ---- */

#define SIM_CLASSES 8 /* "software" included, which is the last */
#define SIM_ROWS    64
#define SIM_NAME    32

struct sim_pmu {
    struct cpus possible, online;
    struct class_info classes[SIM_CLASSES];
    char names[SIM_CLASSES][SIM_NAME];
    unsigned row_events[SIM_CLASSES][SIM_ROWS];
    unsigned n_classes;
    uint64_t fixed;         /* number of fixed rows in each hardware class: 0 or 1 */
    uint64_t lose_after_ms; /* 0: never */
};

struct backend_state {
    const struct host *host;
    struct host_state *host_state;
    struct sim_pmu pmu;
    pthread_mutex_t lock; /* a leaf; protects the members below and the counters and recorders */
    uint64_t last_number; /* of a counter or recorder */
    LIST_HEAD(, counter) counters;
    LIST_HEAD(, recorder) recorders;
};

static inline uint64_t sim_now(const struct backend_state *state)
{
    return state->host->now_ns(state->host_state);
}

/* ---- events.c: names and sets of events ---- */

/* The code words of a simulated event. */
enum sim_code {
    SIM_RATE,   /* events per millisecond of running time, both modes together */
    SIM_DIVISOR /* divides the rate (edge, cmask); 0 means 1 */
};

/* Fills pmu->row_events, which must be 0: how many events can use each row. */
void events_count_for_rows(struct sim_pmu *pmu);
bool sim_is_qualifier(struct word name);
int events_resolve(struct backend_state *state, const char *text, struct event *out,
                   struct err *err);
int events_check_set(struct backend_state *state, const struct plan_event *events, unsigned n,
                     bool multiplex, struct err *err);
int events_catalog_add_all(struct backend_state *state, struct catalog *out, struct err *err);
int events_describe(struct backend_state *state, const char *class_name, const char *event,
                    struct buf *out);

/* ---- counter.c: value = rate x running time ---- */

struct counter {
    struct backend_state *state;
    struct plan plan; /* of its pointers only recorder, target.alive and its argument are used */
    bool hardware;    /* an event is of a hardware class, so without multiplex it can be lost */
    uint64_t number;
    LIST_ENTRY(counter) of_state;
    bool forgotten; /* left for a later worker, which adopts it; continues to count */

    bool on, dead, execed;
    uint64_t exec_at_ns; /* with at_exec: the time of the simulated exec, set by the start */
    uint64_t lose_at_ns; /* UINT64_MAX: never */
    uint64_t last_ns;    /* counts are complete up to this time */
    uint64_t covered_ns, running_ns;
    struct tally {
        uint64_t rate, divisor; /* rate / divisor events per millisecond */
        bool user, kernel;      /* modes that are counted: 3/4 of the events are in user mode */
        uint64_t sampled;       /* samples taken */
    } tally[SET_MAX];
};

int counter_attach(struct backend_state *state, const struct plan *plan, struct counter **out,
                   struct err *err);
int counter_start(struct counter *counter, struct err *err);
int counter_stop(struct counter *counter);
int counter_read(struct counter *counter, struct reading *out, bool patient);
unsigned counter_read_cost(const struct counter *counter);
void counter_facts(const struct counter *counter, struct counter_facts *out);
bool counter_covers(struct counter *counter, pid_t pid);
void counter_print(const struct counter *counter, struct buf *out);
int counter_adopt(struct backend_state *state, const struct plan *plan, const char *printed,
                  struct counter **out);
void counter_each_process(const struct counter *counter, void (*fn)(void *arg, pid_t pid),
                          void *arg);
/* Updates the counts up to now. Needs the lock of the state. */
void counter_update(struct counter *counter, uint64_t now);
/* Returns 0, P10 or P11 (there are not enough descriptors). limit: the name of the quota. The
 * sentence starts with `what`, which is "" or has a blank at its end. */
int descriptors_check(unsigned need, unsigned long fds_left, unsigned long fds_quota,
                      const char *limit, const char *what, struct err *err);
/* Returns the count of one event. Needs the lock of the state. */
uint64_t counter_value(const struct counter *counter, unsigned event);
void counter_forget(struct counter *counter);
void counter_free(struct counter *counter);

/* ---- recorder.c: samples ---- */

int sim_recorder_new(struct backend_state *state, const struct recorder_plan *plan,
                     struct recorder **out, struct err *err);
void sim_recorder_facts(const struct recorder *recorder, struct recorder_facts *out);
uint64_t sim_drain(struct recorder *recorder, bool all, const struct intake *intake);
void sim_recorder_print(const struct recorder *recorder, struct buf *out);
int sim_recorder_adopt(struct backend_state *state, const struct recorder_plan *plan,
                       const char *printed, struct recorder **out);
void sim_recorder_forget(struct recorder *recorder);
void sim_recorder_free(struct recorder *recorder);
void sim_sample_limits(struct backend_state *state, struct sample_limits *out);
