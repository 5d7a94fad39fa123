/*
 * A recording over a backend that tells what a test wrote down for it, and the log that it writes.
 */
#pragma once

#include "core/recording/recording.h"
#include "tests/unit/fake_host.h"

#define NOBODY UINT32_MAX
#define KERNEL UINT64_C(0xffffffff81000010)

struct scripted {
    struct host_state host;
    struct sink sink;
    struct buf script; /* what the next drain tells */
    int drain_result;
    struct log *log;
    struct log_cursor *cursor;
    struct recording *recording;
    struct buf taken;     /* what the last drain put into the log */
    unsigned n_recorders; /* that exist */
};
extern struct scripted sc;

/* Process 100, and 101 with a thread 1011. */
void scripted_setup(void);
void scripted_teardown(void); /* nothing may be left */

/* Samples with the kernel's, for the daemon's own numbers. */
struct recording_plan scripted_plan(void);
void record_samples(bool kernel);
void record_counts(bool switches, bool exits);
void record_for_outside(void); /* which has all numbers FAKE_OUTSIDE higher */

void say_sample(uint64_t time, uint32_t pid, unsigned mode, uint64_t ip);
void say_chain(unsigned mode, uint64_t ip, const uint64_t *frames, uint64_t n);
void say_map(uint64_t time, uint32_t pid, uint64_t start, uint64_t length, const char *path);
void say_exec(uint64_t time, uint32_t pid, const char *name);
void say_step(uint64_t time, uint32_t pid, uint32_t tid, uint64_t step, unsigned misc);

void drain(void);
/* The n-th record of a type that the last drain put, or NULL. */
const void *nth(unsigned type, unsigned n);
unsigned count_type(unsigned type);
/* Does the first come before the other? */
bool comes_before(unsigned first, unsigned second);
bool text_is(const struct record_note *note, const char *text);
