/*
 * For the tests of records (record*.c, one program): the commands of the target, a recorder with
 * one counter, and checks of its records.
 */
#pragma once

#include "tests/perf_test.h"

#include "backends/perf/count/counter.h"
#include "backends/perf/record/recorder.h"

#include <stdint.h>

enum {
    SET = 5,
    RING = 256 * 1024
};

extern size_t page;

/*
 * record_target.c: for a line with a letter and a number (see target_do()) the target answers the
 * number of page faults. After target_begin() the commands p and s have no first-time page faults.
 */
void target_main(void);
struct target target_begin(void);
long ask(struct target *target, char what, unsigned long n);

enum {
    FAULTS,
    CLOCK,
    SWITCHES,
    INSTRUCTIONS,
    CYCLES,
    GETPPID
};
extern struct event events[];
extern struct plan_event plan_events[SET_MAX];

struct run {
    struct recorder *recorder;
    struct counter *counter;
    struct plan plan;
    char *bytes; /* the records */
    size_t n, size;
    unsigned malformed;
    bool over; /* atomic: stop draining */
};

/* Plans page faults of this target with a sample for each. */
void run_plan(struct run *run, struct target *target);
/* After run_plan(): recorder_begin_with() creates the recorder with ring buffers of this size, then
 * run_attach() attaches and starts the counter. A failure returns false and is a failed check. */
bool recorder_begin_with(struct run *run, uint64_t bytes);
bool run_attach(struct run *run);
/* Frees everything, and checks that every record was well-formed. */
void run_end(struct run *run);

void drain(struct run *run, bool all);
/* Returns the value of the event at this index, or UINT64_MAX if the read fails. */
uint64_t value_at(const struct run *run, unsigned place);

const struct record *first_record(const struct run *run);
const struct record *next_record(const struct run *run, const struct record *record);
#define EACH(run, record)                                                                          \
    for (const struct record *record = first_record(run); record; record = next_record(run, record))

unsigned long count_type(const struct run *run, enum record_type type);
/* Returns the number of samples of the event at this index. */
unsigned long samples_of(const struct run *run, unsigned place);
unsigned long lost_of(const struct run *run);
bool in_order(const struct run *run);

/* record_rings.c */
void test_losses(bool goes_on);
void test_around(void);
void test_young(void);
void test_ready(void);
void test_freed(void);
void test_concurrent(void);
void test_late_cpu(void);
void test_everywhere(void);

/* record_hardware.c */
bool hardware_here(void);
void test_hardware(void);
