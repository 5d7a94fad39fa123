/*
 * Why the kernel refused an event: errno and attr (perf_event_open says no more) -> id and
 * sentence.
 */
#pragma once

#include "core/backend.h"

struct perf_event_attr;

struct why {
    int code;                           /* positive errno */
    const struct perf_event_attr *attr; /* what was refused */
    const char *event;                  /* as written, or what else it is: "the witness of time" */
    const struct target_ref *target;    /* NULL: a check on an idle thread */
    bool member;                        /* it was to join a group */
};

/* Sets the sentence; returns the negative errno of its id. */
int why_refused(struct err *err, const struct why *why);
/* /proc/sys/kernel/perf_event_paranoid; 2 when it cannot be read. */
int why_paranoid(void);
