/*
 * Between the parts of a recording (recording.c: its life and drains; recording_put.c: what becomes
 * of one record; recording_pids.c: its numbers). Everything is used under the recording's lock,
 * unless it says otherwise.
 */
#pragma once

#include "core/log/spaces.h"
#include "core/recording/recording.h"

#include <pthread.h>
#include <stdatomic.h>

#define NOBODY UINT32_MAX /* of a task that is gone; in maps the kernel */

struct recording {
    atomic_uint refs;
    struct recording_plan plan;
    struct recorder *recorder;
    uint64_t sums;       /* the block of exits' */
    struct exits *exits; /* the tasks; what each counted, or (it samples) their ends alone */
    unsigned n_execs;    /* processes that executed a program and do not have its path yet */

    pthread_mutex_t lock; /* of what comes out of the recorder, and of what is made of it */
    atomic_bool held;
    bool kernel_told;
    struct buf batch;   /* records for the log */
    size_t found_end;   /* so long may an inventory make the batch */
    struct buf scratch; /* what exits make of a record */
    uint64_t put;       /* into the batch; not reset */
    uint64_t taken;     /* of the recorder, with what is in the log */
    uint64_t replaced;  /* which an earlier worker had taken, and not put; not told yet */
    uint64_t dropped;   /* which found no memory on the way, not told yet */
    uint64_t hidden;    /* samples withheld, not told yet */
    uint64_t last_time; /* of the last record that came */

    bool keep; /* descriptors stay open for a later worker */
};

/* For the backend's drain: into the batch, which goes on into the log when it is long. */
void recording_put(void *arg, const struct record *record);
/* For the host's inventory: into the batch, nothing else is made of it. */
void recording_put_found(void *arg, const struct record *record);
/* The batch goes into the log, unless the recording is held. */
void recording_flush(struct recording *recording);
/* As the attacher knows it; 0: not at all, or NOBODY. */
uint32_t recording_shown_pid(const struct recording *recording, uint32_t pid);
void recording_forget_pid(const struct recording *recording, uint32_t pid); /* it is gone */
/* All numbers of a record that lies in the batch. */
void recording_translate(const struct recording *recording, struct record *record);
