/*
 * How the perf backend keeps an event in struct event's code words: the part of a perf_event_attr
 * that says what to count. The task or CPU, user and kernel mode are added by counter.c.
 */
#pragma once

#include "core/base/event.h"

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
    CODE_HARDWARE = 2,   /* takes a counter of the processor: pinned, with a witness */
    CODE_CPU_ONLY = 4,   /* no task context (uncore, power) */
    CODE_EXCLUDE_GUEST = 8
};

/* Programs have none of the addresses from here on; not all of them are the kernel's. */
#define USER_END ((uint64_t)1 << (sizeof(long) == 8 ? 55 : 31))

struct perf_event_attr;
/* Size, type, config words, breakpoint fields, exclude_user/kernel/hv/guest; nothing else is set.
 */
void code_to_attr(const struct event *event, bool user, bool kernel, struct perf_event_attr *attr);
