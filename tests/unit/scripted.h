/*
 * A recording with a backend that delivers the records of a test, and the log of the recording.
 */
#pragma once

#include "core/log/recording.h"
#include "tests/unit/fake_host.h"

#define NOBODY UINT32_MAX
#define KERNEL UINT64_C(0xffffffff81000010)

struct scripted {
    struct host_state host;
    struct sink sink;
    struct buf script; /* the records of the next drain */
    bool kill;         /* as if the worker were killed before the log has the records */
    struct log *log;
    struct log_cursor *cursor;
    struct recording *recording;
    struct buf taken;     /* the records that the last drain put into the log */
    unsigned n_recorders; /* existing recorders */
};
extern struct scripted sc;

/* The host has process 100, and process 101 with thread 1011. There is no recording before
 * record_…(). */
void scripted_setup(void);
void scripted_teardown(void); /* asserts that nothing is leaked */

/* A plan for samples including the kernel's, with PIDs of the daemon's namespace. */
struct recording_plan scripted_plan(void);
void record_samples(bool kernel);
void record_counts(bool switches, bool exits);
/* A recording for the PID namespace where all PIDs are FAKE_OUTSIDE higher. */
void record_for_outside(void);

void script_sample(uint64_t time, uint32_t pid, unsigned mode, uint64_t ip);
void script_chain(unsigned mode, uint64_t ip, const uint64_t *frames, uint64_t n);
void script_map(uint64_t time, uint32_t pid, uint64_t start, uint64_t length, const char *path);
void script_exec(uint64_t time, uint32_t pid, const char *name);
void script_step(uint64_t time, uint32_t pid, uint32_t tid, uint64_t step, unsigned misc);

void drain(void);
/* Returns the n-th record (from 0) of a type in sc.taken, or NULL. */
const void *nth(unsigned type, unsigned n);
unsigned count_type(unsigned type);
/* Returns whether the first record of type `first` precedes the first of type `second`. */
bool comes_before(unsigned first, unsigned second);
bool text_is(const struct record_note *note, const char *text);
