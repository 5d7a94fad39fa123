/*
 * A recorder: the rings into which the kernel writes the records of one PMC's counters, one per
 * CPU, and the meaning of the kernel's event ids in these records. Records are taken out in order
 * of time, in the log's layout (core/log/record.h). The perf_ functions are those of struct backend
 * (core/backend.h).
 *
 * A ring belongs to a dummy event, so that it outlives all counters that write to it. Events of
 * counters are redirected to it (PERF_EVENT_IOC_SET_OUTPUT), each to the ring of its CPU.
 */
#pragma once

#include "backends/perf/state.h"

#include "core/base/vec.h"
#include "core/log/record.h"

#include <pthread.h>
#include <sys/queue.h>

struct counter;
struct follow; /* count/follow.c */
struct intake;
struct perf_event_mmap_page;

/* The meaning of one counter's records. Exists as long as records of the counter may be in a ring.
 */
struct origin {
    struct origin *next;
    struct recorder *recorder;
    struct counter *counter; /* NULL after it was closed */
    struct follow *follow;   /* or NULL; receives FORK, EXIT and COMM records before the log: */
    void (*follow_receive)(struct follow *follow, const struct record *record,
                           const struct intake *intake);
    uint64_t closed_ns; /* no record was written after this time; 0: the counter is open */
    uint64_t set_number;
    uint64_t period;        /* of samples without a period field */
    unsigned n;             /* events of the set */
    unsigned n_extras;      /* members of a group before the events of the set */
    uint8_t order[SET_MAX]; /* index among the set's events in a group -> index in the plan */
    bool descendants;       /* new processes are covered */
    bool threads;           /* new threads are covered */
    bool samples, chains;   /* the events sample, with call chains */
    bool weighed;           /* samples are RECORD_WEIGHED */
    bool shares_one;        /* exactly one event may get another event's id in its samples
                             * (sampling_shares_id()) */
    uint8_t shared_event;   /* index in the plan of the event of shares_one */
    uint8_t shared_parts;   /* `parts` of the event of shares_one, see struct event_id */
    bool exact_last;        /* the last values of a thread are exact */
};

enum id_kind {
    ID_EVENT,  /* samples of event plan_event of the plan, or other records of any event */
    ID_SWITCH, /* samples with the values of a group at the moment its thread left the CPU */
    ID_END     /* samples with the values of a group at the exit of its thread */
};

/* The meaning of one event id of the kernel. */
struct event_id {
    UT_hash_handle hh;
    uint64_t kernel_id; /* PERF_EVENT_IOC_ID */
    const struct origin *origin;
    uint64_t root; /* ID_SWITCH, ID_END: the attached task; the same for all its groups */
    uint32_t cpu;  /* of the group */
    uint8_t kind, plan_event;
    bool has_period; /* ID_EVENT: its samples have a period field */
    uint8_t parts;   /* ID_EVENT: RECORD_RAW, RECORD_STACK if its samples have these after frames */
};

/* Number of records taken from a ring, in the arena, for the next worker: `count` if the ring's
 * data_tail is `position`, else `before`. */
struct ring_taken {
    uint64_t position, count, before;
};

struct ring {
    unsigned cpu;
    int fd;
    bool outlived; /* mapped without a gap, so redirections of an earlier worker are still valid */
    int stand_in;  /* the event that replaces fd's event, which died with its CPU; or -1. Not in the
                    * journal, so the next worker has none */
    struct perf_event_mmap_page *page; /* followed by `size` bytes of records */
    char *data;
    uint64_t size;
    uint64_t tail;     /* position of the next record to take */
    uint64_t released; /* position up to which the kernel may overwrite; <= tail */
    uint64_t head;
    uint64_t next_ns;   /* time of the record at tail, if tail < head */
    bool loss_possible; /* records may be lost for which the kernel wrote no LOST record yet */
    uint64_t loss_head; /* loss_possible ends when head is greater than this */
    uint64_t clock_id;  /* id of the last clock event of drain.c */
    uint64_t n_taken;   /* records */
    struct ring_taken *taken; /* NULL: the sideband's, or no arena memory */
};

#define RECENT_IDS 16

struct recorder {
    LIST_ENTRY(recorder) along; /* in state->recorders; needs the state's setup lock */
    struct backend_state *state;
    uint64_t tag;
    bool data_maps;        /* as in struct recorder_plan; for tracking, see track_begin() */
    bool is_sideband;      /* only FORK, EXIT and COMM records, of every CPU */
    uint64_t ring_bytes;   /* for records; a power of two */
    pthread_mutex_t lock;  /* redirections and records. Held during some waits: drain.c, up to 1 s
                              for each ring; follow.c, to open groups */
    struct ring *rings;    /* n_cpus allocated; changed with setup and lock, read with either */
    uint64_t taken_block;  /* arena block of n_cpus struct ring_taken; 0: none */
    size_t largest_record; /* upper bound of the size of the kernel's records */
    bool passing;          /* rings_pass() is running */
    unsigned n_rings;      /* atomic */
    unsigned n_cpus;       /* number of possible CPUs */
    unsigned n_stand_ins;  /* atomic */
    unsigned n_tracks;     /* counters that are on and use tracking, see track_begin() */
    struct origin ring_origin;           /* of the rings' events while they track */
    struct origin *origins;              /* needs lock, like the next fields */
    struct event_id *ids;                /* by struct event_id.kernel_id */
    struct event_id *recent[RECENT_IDS]; /* elements of ids that were found last, or NULL */
    char *scratch; /* RECORD_SPACE bytes: a copy of the record that is converted */
};

/* Size of a buffer for the largest record and the fields that are added to it. */
#define RECORD_SPACE ((size_t)RECORD_MAX + 16)
/* Upper bound of the size of a record without a stack (a path, a deep call chain). */
#define RECORD_USUAL ((size_t)8192)

int perf_recorder_new(struct backend_state *state, const struct recorder_plan *plan,
                      struct recorder **out, struct err *err);
void perf_recorder_facts(const struct recorder *recorder, struct recorder_facts *out);
uint64_t perf_drain(struct recorder *recorder, bool all, const struct intake *intake);
uint64_t perf_commit_taken(struct recorder *recorder);
void perf_recorder_print(const struct recorder *recorder, struct buf *out);
int perf_recorder_adopt(struct backend_state *state, const struct recorder_plan *plan,
                        const char *printed, struct recorder **out);
void perf_recorder_forget(struct recorder *recorder);
void perf_recorder_free(struct recorder *recorder);
/* A CPU came online: opens a ring for it in all recorders that have rings. If the ring is new,
 * calls came() for each open origin, with both locks, to redirect the events of this CPU. */
void recorders_add_cpu(struct backend_state *state, unsigned cpu,
                       void (*came)(const struct origin *origin, unsigned cpu));

/* Returns a recorder without rings, or NULL on ENOMEM. Takes the setup lock. */
struct recorder *recorder_make(struct backend_state *state, const struct recorder_plan *plan);
/* Opens and watches a ring for each online CPU, up to `bytes` large; smaller if locked memory is
 * short. Returns 0 or -errno. Needs setup, like rings_close(). */
int rings_open(struct recorder *recorder, uint64_t bytes);
void rings_close(struct recorder *recorder);
/* Opens an event that can own a ring of this CPU. Returns its descriptor or -errno. */
int ring_event(const struct recorder *recorder, unsigned cpu);
/* Returns the ring of this CPU, or NULL. Needs setup or lock. */
struct ring *recorder_ring(const struct recorder *recorder, unsigned cpu);
/* Redirects an event of this CPU to its ring, if there is one. Returns 0 or -errno. Needs setup or
 * lock. */
int recorder_redirect(const struct recorder *recorder, int fd, unsigned cpu);

/* The functions for ids and origins all need lock. Adds a copy of *like, or replaces the id with
 * the same number. Returns 0 or -ENOMEM. */
int recorder_add_id(struct recorder *recorder, const struct event_id *like);
void recorder_drop_id(struct recorder *recorder, uint64_t kernel);
/* Drops all ids of this origin; NULL: all ids. */
void recorder_drop_ids(struct recorder *recorder, const struct origin *origin);
/* Frees origins that were closed at or before time_ns, and their ids. */
void recorder_purge(struct recorder *recorder, uint64_t time_ns);

/* ---- records (drain.c, sample.c) ---- */

/* Passes the records of all rings up to this time, in order of time. Needs the recorder's lock. */
void recorder_pass(struct recorder *recorder, uint64_t until_ns, const struct intake *intake);
/* Returns the time of the record at position `at` of the ring, or 0 if it is too short. */
uint64_t kernel_record_time(const struct ring *ring, uint64_t at);
/* Passes a sample of a known event that has no other parts after its frames. Returns false for all
 * other records, which kernel_record_pass() handles. */
bool kernel_sample_pass(struct recorder *recorder, const struct record *record,
                        const struct intake *intake);
/* Converts a record for which kernel_sample_pass() returned false, and passes the result, if there
 * is one. Changes the record, which must be in a buffer of RECORD_SPACE bytes. */
void kernel_record_pass(struct recorder *recorder, struct record *record,
                        const struct intake *intake);
/* Puts a RECORD_VALUES with the fields of the note, whose type is ignored. */
void values_put(const struct note *note, const struct intake *intake);
