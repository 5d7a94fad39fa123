/*
 * What PMCs have counted: base + every link's reading since its own base. They are looked at
 * without the lock.
 */
#pragma once

#include "core/pmc/metric.h"
#include "core/pmc/pmc.h"

#define COST_SMALL 8 /* system calls that are made at once */

unsigned count_cost(const struct pmc *pmc); /* system calls of a look at it, or very many */
bool tally_partial(const struct tally *tally);
/* The value that `count` shows of event i: raw, or the estimate with multiplex=on. */
uint64_t count_shown(const struct pmc *pmc, const struct tally *tally, unsigned i);

/* What was counted since the initial value, or since `last` (a value for each event), for metrics;
 * enabled_ns and elapsed_ns are those of the whole. */
struct counted {
    struct metric_reading reading;
    struct plan_event events[SET_MAX];
    int64_t value[SET_MAX];
};
void count_for_metrics(const struct pmc *pmc, const struct tally *tally, const uint64_t *last,
                       uint64_t now_ns, struct counted *out);

/* One PMC of a look. */
struct looked {
    struct pmc *pmc;     /* a reference; may be released meanwhile */
    struct links *links; /* a reference */
    struct set *set;     /* a reference, or NULL */
    uint64_t epoch;
    uint64_t change;     /* of the PMC then, or that which this look made: a reading from before
                          * says nothing of a later state */
    struct tally *total; /* that of the PMC without its links; at the end, with them */
    struct tally **link; /* per link: what it counted (relative), filled by the look */
    pid_t *shown;        /* per link: PID as the reader knows it */
    void *own; /* the block of these, where it was taken again; NULL: they are the look's */
    bool partial, off;
    bool done;    /* read in an earlier pass */
    bool failed;  /* one of its counters could not be read: there is no total */
    bool moved;   /* … because it was set anew each time */
    bool hurried; /* … because the kernel would have to be waited for */
};

struct look {
    struct engine *engine;
    pid_t tid;   /* PIDs as this thread knows them */
    bool counts; /* read the counters */
    bool pids;   /* translate PIDs */
    bool slow;   /* there is time to wait for the kernel */
    uint64_t time_ns, tsc;
    bool one; /* for a file of this PMC: released meanwhile is ENODEV, unread EIO */
    unsigned n;
    struct looked *item;
};

/*
 * A look at n PMCs (PMCs without an event are fine), without the lock. Answers what print answers,
 * which is called when all is read, and for a file of a PMC only while it is not released; or
 * CALL_WAIT, or an errno.
 */
int pmcs_look(struct call *call, struct pmc *const *pmcs, unsigned n, bool counts, bool pids,
              int (*print)(struct call *call, struct look *look));
