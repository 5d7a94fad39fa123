/*
 * The steps of a PMC's counts: what each thread counted from one switch to the next, made of the
 * cumulative values that samples of its groups carry. Memory only, but for steps_sweep(). No lock:
 * one for each recorder, which calls it in its drain (recorder.h).
 *
 * Kernels that allow PERF_SAMPLE_READ with inherit (6.12 and later): a group for each attached task
 * and CPU, its leader PERF_COUNT_SW_CONTEXT_SWITCHES with period 1, beside the events the
 * tracepoint sched:sched_process_exit with period 1. Measured on 6.18 with 100 and more children,
 * 160 threads that migrate, vfork, exec, exec from a thread that is not the leader, and SIGKILL of
 * a process with six threads:
 *  - values are a thread's own, per CPU group: on another CPU it begins at 0;
 *  - last values over all CPUs and threads add up to the count, page-faults and switches exactly;
 *    the clock lacks 0.6 to 1.5 us for each thread: between the exit's sample and its end;
 *  - the exit's sample comes before the EXIT record, each once for each thread; no switch came
 *    between them;
 *  - a thread that executes in place of its leader keeps its values and takes the leader's number,
 *    sometimes a switch or two before the exec is told.
 * On 6.1 and 6.12 that tracepoint does not tell: what came after a thread's last switch is not
 * known. Older ones than 6.12 refuse inherit with SAMPLE_READ: see follow.h.
 */
#pragma once

#include "core/backend.h"
#include "core/record.h"

struct steps;

struct steps_sample {
    uint32_t pid, tid;
    uint32_t cpu; /* of the group */
    uint64_t time;
    uint64_t root;         /* of the group, the same on all CPUs: a number never used again */
    uint64_t set;          /* the plan's */
    bool end;              /* told by the exit's tracepoint, or a final read */
    bool lower;            /* a lower bound: of who follows the thread (follow.h) */
    const uint64_t *value; /* n, in the plan's order: cumulative, of this thread in this group */
};

/*
 * n events. through: see steps_through(). children: the births of processes, not only of threads,
 * are covered. NULL: no memory.
 */
struct steps *steps_new(unsigned n, uint64_t through, bool children);
void steps_free(struct steps *steps); /* NULL allowed */
/*
 * Bit i set: event i counts nothing in the kernel between the exit's sample and the end of a thread
 * (faults, switches; what counts in user mode only). Where all bits of a set are set, the value
 * told at the exit is exact.
 */
uint64_t steps_through(const struct plan *plan);
/* Was it made with just this? */
bool steps_fit(const struct steps *steps, unsigned n, uint64_t through, bool children);

/* Threads of whose birth nothing is told from now on may have counted before. */
void steps_begun(struct steps *steps);
/* A sample of a switch or an end, in order of time. Puts a RECORD_SWITCH when something was
 * counted. */
void steps_take(struct steps *steps, const struct steps_sample *sample,
                const struct intake *intake);
/*
 * Every record that is not a sample, in order of time among the samples, before it is put itself:
 * FORK, EXIT, COMM, LOST and THROTTLE matter. At EXIT puts the thread's last step (RECORD_LAST, and
 * RECORD_EXACT where nothing of it is missing) and forgets the thread.
 */
void steps_follow(struct steps *steps, const struct record *record, const struct intake *intake);
/* At the end of a drain: after losses, threads that are not there any more are forgotten. Looks at
 * /proc/PID/task. */
void steps_sweep(struct steps *steps, const struct intake *intake);
