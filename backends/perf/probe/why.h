/*
 * The reason why the kernel refused an event: from errno and perf_event_attr, which is all that
 * perf_event_open(2) gives, to an error id and a sentence.
 */
#pragma once

#include "core/backend.h"

struct perf_event_attr;

struct why {
    int code;                           /* positive errno */
    const struct perf_event_attr *attr; /* the refused event */
    const char *event;                  /* as written, or a description of an internal event */
    const struct target_ref *target;    /* NULL: a check on an idle thread */
    bool member;                        /* the event was to join a group */
};

/* Sets the sentence and returns the negative errno of its id. */
int why_refused(struct err *err, const struct why *why);
/* Returns /proc/sys/kernel/perf_event_paranoid, or 2 if it cannot be read. */
int why_paranoid(void);
