/*
 * For the tests of exact attach (attach*.c, one program): a target that counts its page faults, and
 * a counter to compare with it.
 */
#pragma once

#include "tests/perf_test.h"

#include "backends/perf/count/counter.h"
#include "backends/perf/record/recorder.h"

enum {
    PAGES = 4 /* touched by each thread for one piece of work */
};

/* attach_target.c: ask() sends the target a line with a letter and numbers, and returns the answer,
 * a number of page faults. */
int target_main(void);
struct target target_begin(void);
long ask(struct target *target, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Page faults, task-clock, and an event that does not exist. */
extern struct event events[];
extern struct plan_event plan_events[];
struct plan plan_for(struct target *target);
struct counter *attach_started(const struct plan *plan);
long value(struct counter *counter);
/* Sends the target the command `what`. Returns whether the counter counted as many page faults as
 * the target answers, at least one; *off is the counted number minus the answer. */
bool agrees(struct counter *counter, struct target *target, const char *what, long *off);

/* attach_race.c. test_race(): attaches `races` times while a target creates a thread (or a process)
 * every `us` us; with a recorder each page fault is sampled, too. */
void test_race(unsigned us, unsigned races, bool processes, struct recorder *recorder);
void test_switch_race(void);
void test_raced(void);

/* attach_covered.c */
void test_threads(void);
void test_descendants(void);
void test_admitted_once(void);
void test_suspect(void);
void test_lost_events(mode_t mode, bool loses);
pid_t child_of(pid_t pid); /* returns the first child, or 0 */

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
