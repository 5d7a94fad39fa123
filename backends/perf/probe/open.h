/*
 * The code words of a struct event, which hold the part of a perf_event_attr that selects what is
 * counted, and perf_event_open(2). The caller passes the target and the modes.
 */
#pragma once

#include "core/base/event.h"

#include <stdint.h>
#include <sys/types.h>

struct perf_event_attr;

enum {
    CODE_TYPE,
    CODE_CONFIG,
    CODE_CONFIG1,
    CODE_CONFIG2,
    CODE_CONFIG3,
    CODE_BP_TYPE,
    CODE_FLAGS,
    CODE_PRECISE
};

enum code_flag {
    CODE_NO_EXCLUDE = 1, /* the PMU refuses exclude_* bits (msr, power, uncore) */
    CODE_HARDWARE = 2,   /* hardware counter: pinned unless multiplexed, with time_check */
    CODE_CPU_ONLY = 4,   /* no task context (uncore, power) */
    CODE_EXCLUDE_GUEST = 8,
    CODE_EVERY_CORE = 16 /* a generic event without PMU, counted on every core PMU */
};

/* From here on an address may be the kernel's: a breakpoint there needs the superuser. Some
 * programs also have addresses above it (32-bit; five-level page tables). */
#define USER_END ((uint64_t)1 << (sizeof(long) == 8 ? 55 : 31))

/* Returns true if the event needs a hardware counter. */
static inline bool event_is_hardware(const struct event *event)
{
    return event->code[CODE_FLAGS] & CODE_HARDWARE;
}
/* Sets size, type, config words, breakpoint fields, precise_ip and exclude_user/kernel/hv/guest;
 * clears all other fields. With CODE_NO_EXCLUDE user and kernel have no effect. */
void code_to_attr(const struct event *event, bool user, bool kernel, struct perf_event_attr *attr);

/*
 * Binds a generic event without PMU to the core PMU of this type; 0 and other events: unchanged.
 * An unbound event on a CPU is counted by the PMU of the CPU, on a task only by one PMU.
 */
void attr_bind(struct perf_event_attr *attr, uint32_t type);

/* Sets the time (CLOCK_MONOTONIC) until which calls of event_open() in this thread wait while the
 * target executes a program; each waits at least 10 ms. 0 (the default): each call waits up to
 * 200 ms. Set it to 0 again after the last call. */
void event_set_deadline(uint64_t until_ns);
/* Call before each event_open() of a loop, and event_set_deadline(0) after the loop: each call
 * waits 200 to 400 ms, and the timer is not set for each call. */
void event_extend_deadline(void);
/* Opens an event with CLOEXEC, by perf_event_open(2). group: the descriptor of the leader, or -1.
 * Returns a descriptor or -errno; -ETIME if the target was executing a program for all of the time
 * of event_set_deadline(). */
int event_open(const struct perf_event_attr *attr, pid_t pid, int cpu, int group,
               unsigned long flags);
/* Closes *fd if it is open and sets it to -1. */
void event_close(int *fd);
