/*
 * The rings into which the kernel writes the records of one PMC's counters, one for each CPU; what
 * the kernel's ids in them mean; and taking the records out, in order of time, in core's layout.
 *
 * A ring belongs to a dummy event, so that it outlives all counters that write into it. Those are
 * redirected to it (SET_OUTPUT), each event to the ring of its own CPU.
 */
#pragma once

#include "backends/perf/state.h"

#include "core/base/hash.h"
#include "core/log/record.h"

#include <pthread.h>
#include <sys/queue.h>

struct counter;
struct follow; /* count/follow.h */
struct intake;
struct perf_event_mmap_page;

/* What the records of one counter mean. Lives as long as records of it may come. */
struct origin {
    struct origin *next;
    struct recorder *recorder;
    struct counter *counter; /* for recorders_cpu() */
    struct follow *follow;   /* or NULL. It is told of births, ends and execs before the log is: */
    void (*follow_take)(struct follow *follow, const struct record *record,
                        const struct intake *intake);
    uint64_t closed_ns; /* after that no record of it was written; 0: it lives */
    uint64_t set;
    uint64_t period;           /* of samples that do not say it themselves */
    unsigned n;                /* events */
    unsigned extra;            /* of a group's members: those before the set's events */
    uint8_t order[SET_MAX];    /* place among a group's events -> place in the plan */
    bool descendants, threads; /* their births are covered */
    bool samples, chains;      /* its events do, with call chains; of which … */
    uint8_t shared_parts;      /* as of struct id, of … */
    bool shares_one; /* … exactly one, at the place `shared`, may bear a stranger's id */
    uint8_t shared;
    bool whole; /* what its events count at the end of a thread is told with the end (output.c) */
};

enum id_kind {
    ID_EVENT,  /* samples are samples of the event `place` of the plan */
    ID_SWITCH, /* samples tell a group's values when its thread left the CPU */
    ID_END     /* the same when its thread ended */
};

struct id {
    UT_hash_handle hh;
    uint64_t kernel; /* IOC_ID */
    const struct origin *origin;
    uint64_t root; /* of SWITCH and END: the attached task; the same for all its groups */
    uint32_t cpu;  /* of the group */
    uint8_t kind, place;
    bool says_period; /* of EVENT: its samples do */
    uint8_t
        parts; /* of EVENT: RECORD_RAW, RECORD_STACK: what its samples have behind their frames */
};

/* In the arena. `count` were taken when the kernel is told `position`; if it is not, `before`. */
struct ring_taken {
    uint64_t position, count, before;
};

struct ring {
    unsigned cpu;
    int fd;
    bool outlived; /* it was mapped all the time: events that an earlier worker redirected are so */
    int stand_in; /* an event in place of fd's own, which died with its CPU; or -1. No record of the
                   * journal names it: a later worker has none */
    struct perf_event_mmap_page *page; /* mapped with `size` bytes of records behind it */
    char *data;
    uint64_t size;
    uint64_t tail; /* taken up to here; the kernel is told a little later */
    uint64_t told; /* what it was told */
    uint64_t head;
    uint64_t next_ns; /* of the record at tail, if tail < head */
    /* A loss may have happened of which there is no record yet: not if head is beyond this. */
    bool doubt;
    uint64_t doubt_head;
    uint64_t clock_id;        /* of the last clock of drain.c's */
    uint64_t n;               /* records taken */
    struct ring_taken *taken; /* what a later worker knows of that; NULL: the sideband's */
};

struct recorder {
    LIST_ENTRY(recorder) along; /* of all, for CPUs that come; with the state's setup */
    struct backend_state *state;
    uint64_t tag;
    bool data_maps; /* as in struct recorder_plan: of what the rings' own events tell */
    bool side;      /* the sideband's: only births, ends and names, of every CPU */
    void (*ready)(void *state, uint64_t tag); /* half of a ring was written; the loop's */
    uint64_t ring_bytes;                      /* of records, a power of two */
    pthread_mutex_t lock;     /* counters redirected, records taken: memory, nearly */
    struct ring *rings;       /* room for n_cpus; changed with setup and lock, read with one */
    uint64_t taken_block;     /* of struct ring_taken for each of them; 0: none */
    size_t largest;           /* no record of the kernel's is larger */
    bool taking;              /* a drain is under way: this thread's, where that is of interest */
    unsigned n_rings;         /* atomic */
    unsigned n_cpus;          /* possible ones */
    unsigned n_stand_ins;     /* atomic */
    unsigned n_tracks;        /* counters that are on, and need to know what happens everywhere */
    struct origin everywhere; /* of what the rings' own events tell (track.h) */
    struct origin *origins;   /* with lock, and what follows */
    struct id *ids;           /* by the kernel's */
    char *scratch;            /* RECORD_SPACE: the kernel's pages may only be read */
};

/* Room for a record of the largest size, and what is put into it. */
#define RECORD_SPACE ((size_t)RECORD_MAX + 16)

#define RECORD_USUAL                                                                               \
    ((size_t)8192) /* no record without a stack is larger: a path, a deep chain                    \
                    */

int perf_recorder_new(struct backend_state *state, const struct recorder_plan *plan,
                      struct recorder **out, struct err *err);
void perf_recorder_facts(const struct recorder *recorder, struct recorder_facts *out);
int perf_drain(struct recorder *recorder, bool all, const struct intake *intake);
uint64_t perf_taken(struct recorder *recorder);
void perf_recorder_print(const struct recorder *recorder, struct buf *out);
int perf_recorder_adopt(struct backend_state *state, const struct recorder_plan *plan,
                        const char *printed, struct recorder **out);
void perf_recorder_forget(struct recorder *recorder);
void perf_recorder_free(struct recorder *recorder);
/* A CPU came online: all recorders get a ring for it, and came() redirects their counters, with
 * both locks. */
void recorders_cpu(struct backend_state *state, unsigned cpu,
                   void (*came)(const struct origin *origin, unsigned cpu));

/* Without rings; NULL: no memory. Freed, but for its rings. */
struct recorder *recorder_make(struct backend_state *state, const struct recorder_plan *plan);
void recorder_release(struct recorder *recorder);
/* A ring for each CPU that is online, as large as can be up to that, watched: 0 or -errno. With
 * setup. Watched; closed. */
int rings_open(struct recorder *recorder, uint64_t bytes);
void rings_watch(struct recorder *recorder);
void rings_close(struct recorder *recorder);
void rings_unwatch(const struct recorder *recorder);
/* The event that owns a ring, or -errno; the ring of an owner's descriptor, mapped, if it is not
 * `left` mapped: 0 or -errno. */
int ring_event(const struct recorder *recorder, unsigned cpu);
int ring_take_on(const struct recorder *recorder, struct ring *ring, unsigned cpu, int fd,
                 void *left);

/* The ring of this CPU, or NULL. With setup or lock held. */
struct ring *recorder_ring(const struct recorder *recorder, unsigned cpu);
/* Record of an event of this CPU go into its ring, when there is one. 0 or -errno. With setup or
 * lock. */
int recorder_redirect(const struct recorder *recorder, int fd, unsigned cpu);

/* ids.c, with lock held. From now on this id means this. 0 or -ENOMEM. */
int recorder_add_id(struct recorder *recorder, const struct id *id);
/* NULL: not ours, or long gone. */
struct id *recorder_find_id(const struct recorder *recorder, uint64_t kernel);
/* It means nothing any more; none of this origin, or (NULL) none at all does. */
void recorder_drop_id(struct recorder *recorder, uint64_t kernel);
void recorder_drop_ids(struct recorder *recorder, const struct origin *origin);
/* Forgets origins closed at or before this, and their ids. */
void recorder_purge(struct recorder *recorder, uint64_t time_ns);
