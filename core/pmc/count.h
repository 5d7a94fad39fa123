/*
 * Counts of PMCs: the PMC's base plus each link's reading minus the link's base. Counters are read
 * without the lock, in snapshots.
 */
#pragma once

#include "core/pmc/metric.h"
#include "core/pmc/pmc.h"

#define COST_SMALL 8 /* system calls that count as cheap */

/* Returns the number of system calls of a snapshot. Stops adding when it is more than 100. */
unsigned count_cost(const struct pmc *pmc);
/* Returns true if more than 1 ms and more than 0.1 % of covered_ns was not counted. */
bool tally_partial(const struct tally *tally);
/* Returns the value of event i that `count` shows: raw, or the estimate with multiplex=on. */
uint64_t count_shown(const struct pmc *pmc, const struct tally *tally, unsigned i);

/*
 * Counts for metrics. count_for_metrics() subtracts the initial values from the counts that `count`
 * shows, or last[] (a value for each event) if it is not NULL. reading.elapsed_ns is the time of
 * all runs, also with `last`. `reading` points into the struct.
 */
struct counted {
    struct metric_reading reading;
    struct plan_event events[SET_MAX];
    int64_t value[SET_MAX];
};
void count_for_metrics(const struct pmc *pmc, const struct tally *tally, const uint64_t *last,
                       uint64_t now_ns, struct counted *out);

struct snapshot_item {
    struct pmc *pmc;     /* a reference; may be released during the snapshot */
    struct links *links; /* a reference */
    struct set *set;     /* a reference, or NULL */
    uint64_t epoch;
    uint64_t change_number;     /* pmc.change_number; if it has changed, item_sum() sets no state */
    struct tally *total;        /* the PMC's base; at the end the total */
    struct tally **link;        /* per link: its reading; at the end the reading minus its base */
    pid_t *shown;               /* per link: PID in the reader's namespace */
    char (*name)[PROCESS_NAME]; /* per link: name of a living process; "": not read */
    void *own_block;            /* memory of an item that was read again; NULL: in the snapshot's */
    bool reads_names;           /* read the names of processes */
    bool partial, off_hardware; /* some counts are missing; no counter is on the hardware now */
    bool was_read;              /* item_read() has read it, in this pass or an earlier one */
    bool failed;                /* a counter could not be read; there is no total */
    bool kept_changing; /* failed after the last pass, because its bases changed in each pass */
    bool needs_wait;    /* failed because the kernel would have made the reader wait */
    /* For print(), if counts were read: there is a total. False if the PMC has no event, a counter
     * could not be read, or the PMC was released or got another set during the snapshot. */
    bool is_valid;
};

struct snapshot {
    struct engine *engine;
    pid_t tid;   /* thread whose PID namespace is used */
    bool counts; /* read the counters */
    bool pids;   /* translate PIDs; with `counts` also read names that are older than a second */
    bool slow;   /* may wait for the kernel */
    uint64_t time_ns, tsc;
    bool is_of_one_pmc; /* for a file of one PMC: ENODEV if released, EIO if unreadable */
    unsigned n;
    struct snapshot_item *item;
};

/*
 * Takes a snapshot of n PMCs, which may be without events. counts, pids: see struct snapshot. Drops
 * the lock while it reads, then calls print() with the lock and returns its result. Without calling
 * print() returns CALL_WAIT (no slow slot is free), E32, -EINTR, and if call->pmc is set: P26 if it
 * was released, P14 if a counter could not be read. Otherwise print() has to skip such items.
 */
int snapshot_take(struct call *call, struct pmc *const *pmcs, unsigned n, bool counts, bool pids,
                  int (*print)(struct call *call, struct snapshot *snapshot));