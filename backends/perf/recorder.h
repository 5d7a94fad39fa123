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

struct counter;
struct perf_event_mmap_page;

/* What the records of one counter mean. Lives as long as records of it may come. */
struct origin {
    struct origin *next;
    struct recorder *recorder;
    struct counter *counter; /* NULL: freed */
    uint64_t closed_ns;      /* after that no record of it was written; 0: it lives */
    uint64_t set;
    uint64_t period; /* of samples that do not say it themselves */
    unsigned n;      /* events */
    unsigned extra;  /* of a group's members: those before the set's events */
    uint8_t order[SET_MAX];
    bool descendants, threads; /* whose births are covered */
    bool samples, chains;      /* its events do, with call chains; of which … */
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
    struct origin *origin;
    uint64_t root; /* of SWITCH and END: the attached task; the same for all its groups */
    uint32_t cpu;  /* of the group */
    uint8_t kind, place;
    bool says_period; /* of EVENT: its samples do */
};

#define STAND_IN_WANTED (-2) /* fd's own died with its CPU */

struct ring {
    unsigned cpu;
    int fd;
    int stand_in; /* an event in place of fd's own; -1, or … */
    bool watched;
    uintptr_t serial;
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
    uint64_t clock_id; /* of the last clock of drain.c's */
};

struct recorder {
    struct recorder *next; /* in the list of all, for the loop */
    struct backend_state *state;
    uint64_t tag;
    bool side;                /* the sideband's: only births, ends and names, of every CPU */
    uint64_t ring_bytes;      /* of records, a power of two */
    pthread_mutex_t setup;    /* rings opened, counters redirected: system calls */
    pthread_mutex_t lock;     /* what follows, while draining: memory, nearly */
    struct ring *rings;       /* room for n_cpus */
    unsigned n_rings;         /* atomic */
    unsigned n_cpus;          /* possible ones */
    unsigned n_stand_ins;     /* atomic */
    unsigned n_tracks;        /* counters that are on, and need to know what happens everywhere */
    struct origin everywhere; /* of what the rings' own events tell (track.h) */
    struct origin *origins;
    struct id *ids; /* by the kernel's */
    char *scratch;     /* RECORD_SPACE: the kernel's pages may only be read */
};

/* Room for a record of the largest size, and what is put into it. */
#define RECORD_SPACE ((size_t)RECORD_MAX + 16)

int perf_recorder_new(struct backend_state *state, const struct recorder_plan *plan,
                      struct recorder **out, struct err *err);
void perf_recorder_facts(const struct recorder *recorder, struct recorder_facts *out);
int perf_drain(struct recorder *recorder, bool all, const struct intake *intake);
void perf_recorder_print(const struct recorder *recorder, struct buf *out);
int perf_recorder_adopt(struct backend_state *state, const struct recorder_plan *plan,
                        const char *printed, struct recorder **out);
void perf_recorder_forget(struct recorder *recorder);
void perf_recorder_free(struct recorder *recorder);
/* The recorder of the sideband, which tells of all tasks as long as it is there; what it has now, in
 * order of time. 0 or -errno. */
int recorder_everywhere(struct backend_state *state, uint64_t bytes, struct recorder **out);
void recorder_take(struct recorder *recorder, const struct intake *intake);
/* A CPU came online: all recorders get a ring for it. */
void recorders_cpu(struct backend_state *state, unsigned cpu);

/* For record_adopt.c and track.c: without rings, NULL: no memory; the event that owns a ring, or
 * -errno; maps the ring of an owner's descriptor (0 or -errno), or takes it as it is mapped; what
 * follows when all rings are there; freed, but for its rings. */
struct recorder *recorder_make(struct backend_state *state, const struct recorder_plan *plan);
int ring_event(const struct recorder *recorder, unsigned cpu);
int ring_map(struct ring *ring, unsigned cpu, int fd, uint64_t bytes);
void ring_found(struct ring *ring, unsigned cpu, int fd, void *map, uint64_t bytes);
void recorder_begin(struct recorder *recorder);
void recorder_forget(struct recorder *recorder);

/* The ring of this CPU, or NULL. With setup or lock held. */
struct ring *recorder_ring(const struct recorder *recorder, unsigned cpu);
/* Record of an event of this CPU go into its ring, when there is one. 0 or -errno. With setup. */
int recorder_redirect(const struct recorder *recorder, int fd, unsigned cpu);
/* From now on this id means this. 0 or -ENOMEM. Takes lock. */
int recorder_add_id(struct recorder *recorder, const struct id *id);
/* With lock held. NULL: not ours, or long gone. */
const struct id *recorder_find_id(const struct recorder *recorder, uint64_t kernel);
/* It means nothing any more, or none does. With lock held. */
void recorder_drop_id(struct recorder *recorder, uint64_t kernel);
void recorder_drop_ids(struct recorder *recorder);
/* Forgets the ids of origins closed at or before this. With setup and lock held. */
void recorder_purge(struct recorder *recorder, uint64_t time_ns);
