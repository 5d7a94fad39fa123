/*
 * Tests by opening events: whether a core PMU counts on this host, the number of its counters, the
 * rows that fit an event, and the reason of a refusal.
 */
#pragma once

#include "backends/perf/probe/pmu.h"
#include "backends/perf/state.h"

struct perf_event_attr;

/* ---- probe.c ---- */

/* Finds all PMUs below root and probes the core PMUs. Returns NULL on ENOMEM, or if the directory
 * cannot be read or the idle thread cannot be created. If memory or descriptors are short,
 * everything is read a second time; PMUs that fail again are left out. */
struct pmus *pmus_new(const char *root);
void pmus_free(struct pmus *pmus);
/* Returns the reason why a code of the processor's own events would open but never count, or NULL.
 */
const char *probe_why_uncounted(const struct pmu *pmu, uint64_t code);
/* Opens an event, disabled, on this thread (cpu < 0) or CPU, and closes it. Returns 0 or -errno. */
int probe_try_open(const struct perf_event_attr *attr, int cpu);
/* Sets attr to an event that only general counters count. */
void probe_filler(const struct pmu *pmu, struct perf_event_attr *attr);
/* Sets attr to a generic event (PERF_COUNT_HW_…) of this PMU. */
void probe_generic(const struct pmu *pmu, uint64_t which, struct perf_event_attr *attr);
/* Starts a thread with all signals blocked, because the main loop receives them. */
bool probe_start_thread(pthread_t *thread, void *(*run)(void *), void *arg);

/* ---- why.c: from errno and perf_event_attr, which is all that perf_event_open(2) gives, to an
 * error id and a sentence ---- */

struct why {
    int code;                           /* positive errno */
    const struct perf_event_attr *attr; /* the refused event */
    const char *event;                  /* as written, or a description of an internal event */
    const struct target_ref *target; /* NULL: a check before the attach, or the event of a ring */
    bool member;                     /* the event was to join a group */
    bool needs_row;                  /* a check of a hardware event without multiplex=on */
};

/* Sets the sentence and returns the negative errno of its id. */
int why_refused(struct err *err, const struct why *why);
/* Returns /proc/sys/kernel/perf_event_paranoid, or 2 if it cannot be read. */
int why_paranoid(void);

/* ---- trial.c ---- */

/* Start and stop the thread on which trials are opened. idle_thread_start() returns false if no
 * thread could be created. */
bool idle_thread_start(struct idle_thread *idle);
void idle_thread_stop(struct idle_thread *idle);
/* Sets n_general, n_fixed and fixed_event of a core PMU that can count. */
void probe_counters(const struct pmus *pmus, struct pmu *pmu);
/* Finds the rows of the PMU that can count attr (0: none) and how many of them it needs. */
void probe_rows(const struct pmus *pmus, const struct pmu *pmu, const struct perf_event_attr *attr,
                uint64_t *rows, unsigned *needed);

/*
 * Member of struct backend: checks that the events can be counted together. Returns 0 without a
 * check for a single event that needs no hardware counter, and for a set with an event that only
 * counts on CPUs. Errors: CS08 the members do not go together, E19 not enough counters, P09 the
 * kernel does not have an event, and P10, P14 and E32 (why.c).
 */
int perf_check_set(struct backend_state *state, const struct plan_event *events, unsigned n,
                   bool multiplex, struct err *err);
/*
 * Member of struct backend: returns the rows of a class on a CPU that others hold, i.e. rows that
 * are not in `own` (rows of pmcfs's counters) and are not free. Returns 0 if that cannot be found
 * out: the class has no single core PMU, or the CPU is offline.
 */
uint64_t perf_foreign_rows(struct backend_state *state, unsigned class_index, unsigned cpu,
                           uint64_t own);
