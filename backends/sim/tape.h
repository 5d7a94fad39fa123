/*
 * What one counter writes into its recorder while time passes for it: samples, steps, the records
 * of a made-up program. Everything follows from the clock: the same times give the same records.
 */
#pragma once

#include "backends/sim/recorder.h"
#include "backends/sim/tally.h"

#define SIM_PROGRAM    "/simulated" /* mapped into every sampled process */
#define SIM_TEXT       UINT64_C(0x10000000000)
#define SIM_TEXT_BYTES UINT64_C(0x10000)
#define SIM_KERNEL     UINT64_C(0xffffffff81000000)
#define SIM_SLICE_NS                                                                               \
    UINT64_C(10000000) /* a task is switched out, and to the next CPU, so often                    \
                        */

struct tape {
    struct recorder *recorder; /* NULL: nothing is written */
    const struct shape *shape;
    uint64_t set, period, freq;
    bool sampling, chain_user, chain_kernel, steps, lasts;
    unsigned depth;
    uint32_t pid, tid; /* 0: not a task */
    int cpu;           /* -1: goes from one CPU to the next */
    uint64_t factor;   /* it runs every so many nanoseconds: 2 when multiplexed */
    unsigned n;
    struct tally tally[SET_MAX];

    uint64_t source;           /* of the values: a number of its own */
    uint64_t stepped[SET_MAX]; /* values at the last step */
    uint64_t *on_cpu;          /* n for each of n_cpus: as much of them as there */
    unsigned n_cpus;
    uint64_t slice;          /* the one that `taken` is of */
    uint64_t taken[SET_MAX]; /* samples in it */
    bool throttled[SET_MAX];
};

void tape_init(struct tape *tape, struct backend_state *state, const struct plan *plan);
/* It begins to count a program that is there, or (executed) one that begins at this moment. */
void tape_begin(struct tape *tape, uint64_t time, bool executed);
/* From one moment to another it counted; its time on before this was `before`. */
void tape_run(struct tape *tape, uint64_t from, uint64_t until, uint64_t before);
/* The task has ended; `on` is its time on in all. */
void tape_end(struct tape *tape, uint64_t time, uint64_t on);
void tape_free(struct tape *tape); /* what it has allocated */
