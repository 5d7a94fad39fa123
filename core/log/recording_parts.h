/*
 * Shared by recording.c (creation and drains) and recording_put.c (processing of a record). All
 * functions need the recording's lock unless noted otherwise.
 */
#pragma once

#include "core/log/log_parts.h"
#include "core/log/recording.h"

#include <pthread.h>
#include <stdatomic.h>

#define NOBODY UINT32_MAX /* PID of a task that has exited; in maps: the kernel */

struct recording {
    atomic_uint refs;
    struct recording_plan plan;
    struct recorder *recorder;
    /* Arena blocks for the totals of exits.h. The log publishes which of them is valid together
     * with the records that it includes: log_progress.totals is totals[0] + valid_totals. */
    uint64_t totals[2];
    bool valid_totals;   /* index of the valid block */
    struct exits *exits; /* without counts if the PMC samples */
    struct tasks *tasks; /* of exits */

    pthread_mutex_t lock; /* protects the recorder, exits and the fields below */
    atomic_bool held;
    bool kernel_found;
    VEC(pid_t) inventories_due; /* processes whose inventory the next drain reads */
    bool has_log_locked;        /* the log is locked for samples: log_samples_begin() was called */
    struct buf batch;           /* other records for the log; empty while `has_log_locked` */
    size_t inventory_end;       /* limit of the batch length during an inventory */
    struct buf scratch;         /* output of exits_apply() */
    uint64_t n_put;             /* records added to log or batch, never reset */
    uint64_t taken;             /* records read from the recorder, as stored in the log */
    uint64_t replaced;          /* read by an earlier worker but not logged; no DROP record yet */
    uint64_t dropped;           /* dropped on ENOMEM; no DROP record yet */
    uint64_t hidden;            /* hidden samples; no DROP record yet */
    uint64_t last_time;         /* time of the last record */

    bool keep; /* on free, keep file descriptors open for a new worker */
};

/* Callbacks of the backend's drain: process a record or a sample. They publish samples or put the
 * batch before they process the record, if at all, because backend.commit_taken() does not include
 * it yet. */
void recording_put(void *arg, const struct record *record);
void recording_sample(void *arg, const struct sample *sample);
/* Callback of the host's inventory: appends a record to the batch without any derived records. */
void recording_put_found(void *arg, const struct record *record);
/* If the log is locked for samples (has_log_locked), publishes them and unlocks the log, even if
 * the recording is held. */
void samples_publish(struct recording *recording);
/* Moves the batch to the log, with DROP records for the losses so far. Does nothing if the
 * recording is held. Not while the log is locked for samples. */
void batch_put(struct recording *recording);
/* Stores the totals of exits.h. They are valid when the log publishes the returned numbers. */
struct log_progress recording_store(struct recording *recording);
/* Forgets when the threads of a process left their CPUs. */
void recording_forget_off_times(const struct logged_process *process);
