/*
 * What the tests of exact attach share (attach*.c, one program): a target that counts its own page
 * faults, and a counter to compare with it.
 */
#pragma once

#include "tests/perf_test.h"

#include "backends/perf/count/counter.h"
#include "backends/perf/count/end_events.h"
#include "backends/perf/record/recorder.h"

enum {
    PAGES = 4 /* that each thread touches when everybody works */
};

/* attach_target.c: told a letter and numbers, it answers with the page faults that this took. */
int target_main(void);
struct target target_begin(void);
long ask(struct target *target, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Page faults, task-clock, and an event that does not exist. */
extern struct event events[];
extern struct plan_event plan_events[];
struct plan plan_for(struct target *target);
struct counter *attach_started(const struct plan *plan);
long value(struct counter *counter);
/* What the counter says about a piece of work, and what the target does. */
bool agrees(struct counter *counter, struct target *target, const char *what, long *off);

/* attach_race.c; recorder NULL: it only counts. */
void test_race(unsigned us, unsigned races, bool processes, struct recorder *recorder);
void test_switch_race(void);

/* attach_covered.c */
void test_threads(void);
void test_descendants(void);
void test_admitted_once(void);
void test_suspect(void);
void test_dropped(mode_t mode, bool drops);
pid_t child_of(pid_t pid); /* the first one; 0: there is none */

/* attach_sideband.c */
void test_choices(void);
void test_choices_late(void);
void test_reused_number(void);
void test_lost_records(void);

/* attach_life.c */
void test_switch_without_descriptors(void);
void test_set(void);
void test_blind(void);
void test_adopt(void);
void test_adopt_cgroup(void);
