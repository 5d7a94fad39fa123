/*
 * Requests in flight, in memory that survives the worker: the bytes of each request from its read
 * to its reply, and answers that become valid with a publication of the journal. Each thread of
 * serve.c has a buffer in this memory, into which it reads requests; a request that waits moves to
 * a place. The next worker sends published answers again and processes the requests without one.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#define INFLIGHT_BUFFERS 96
#define INFLIGHT_PLACES  (1u << 16)
#define INFLIGHT_FRAMES  32
#define INFLIGHT_RINGS   8192
/* Size of the buffer of a request, and of an answer. */
#define INFLIGHT_BYTES ((size_t)320 << 10)

/*
 * After an upgrade another version of the program uses this memory. A new field takes space from
 * `spare`, and its value 0 means what the older version did. Any other change of the layout needs a
 * new MAGIC (inflight.c), and an upgrade between the two versions is refused. The same rule holds
 * for struct log_state (core/log/log_parts.h).
 */

/* A request in flight, in the buffer of a thread or in a place. */
struct inflight_request {
    atomic_bool taken;        /* place: in use */
    _Atomic uint64_t number;  /* the kernel's number; 0: finished, or not complete yet */
    uint64_t block;           /* place: arena block of the bytes; 0: the bytes are in a buffer */
    uint32_t bytes;           /* length of the kernel's message */
    _Atomic uint32_t crashes; /* number of workers that crashed with it */
    _Atomic uint64_t interrupted; /* equals `number` if the kernel interrupted the request */
    _Atomic int32_t open_change;  /* how it has changed the number of open files: 1, -1 or 0 */
    bool inherited;               /* place: read by an earlier worker; inflight_next() clears it */
    uint64_t since_ns;            /* time of the read (CLOCK_MONOTONIC); 0: unknown */
    uint64_t spare[1];
};

struct answer {
    _Atomic uint64_t number; /* of the request; 0: no answer */
    uint32_t publication;    /* valid once the journal has at least this number of publications */
    uint32_t bytes;
    bool cut; /* too long for the buffer */
    uint64_t spare;
};

struct inflight {
    uint64_t magic;
    /* For the supervisor, and for the next program in an upgrade. */
    int fuse_fd, journal_fd, arena_fd;
    pid_t worker;
    struct inflight_ring {
        int fd; /* 0: none */
        uint64_t bytes;
    } rings[INFLIGHT_RINGS];
    uint32_t init_bytes;
    char init[1024];
    uint64_t started_ns;
    pid_t last_worker; /* its exit status is last_status, as of wait(2) */
    int last_status;

    _Atomic uint64_t last_fh, n_open; /* last handle number (fh); number of open files */
    _Atomic uint64_t restarts;
    atomic_bool has_served; /* a worker has served since the mount */
    atomic_bool ready;      /* the current worker serves */
    atomic_bool was_usable; /* the tree was usable once; the starting process was notified */
    struct {                /* crash record of the last worker */
        int signal;
        void *address;
        int n;
        void *frame[INFLIGHT_FRAMES];
    } crash;
    struct { /* the last change of n_open and of a request's open_change, for replay */
        _Atomic uint64_t number, n_open;
        _Atomic int32_t change;
    } last_open_change;
    uint32_t timeout_s; /* the kernel aborts the mount after a request takes longer; 0: no limit */
    bool timeout_known; /* timeout_s is set; false after an upgrade from an old version */
    uint64_t spare[28];

    _Atomic uint32_t n_places; /* places from here on were never used */
    struct inflight_buffer {
        struct inflight_request request;
        struct answer answer;
    } buffers[INFLIGHT_BUFFERS];
    struct inflight_request places[INFLIGHT_PLACES];
};

/* Create or open the memory. Return NULL and set errno on failure; EPROTO: made by an incompatible
 * version. */
struct inflight *inflight_new(int *fd);
struct inflight *inflight_open(int fd);

/* ---- in a serving thread ---- */

/* Takes buffer i for this thread, populates its memory, and sets a signal stack. Returns false if
 * there is no such buffer. */
bool inflight_take_buffer(struct inflight *inflight, unsigned i);
/* Returns the buffer for the next request; the earlier one must be finished or in a place. NULL:
 * the thread has no buffer. */
void *inflight_buffer(void);
/* Starts the request that was read into this thread's buffer (NULL), or a request in a place. Makes
 * it the thread's current one and returns it; NULL: the thread has no buffer. */
struct inflight_request *inflight_begin(struct inflight_request *request);
/* Moves a request from its buffer to a place, so that it can wait; a request in a place stays
 * there. Returns its new address, or NULL if no memory or no place is left. */
struct inflight_request *inflight_move_to_place(struct inflight *inflight,
                                                struct inflight_request *request);
/* Sets the request on which this thread works; NULL: none. */
void inflight_set_current(struct inflight_request *request);
struct inflight_request *inflight_current(void);
/* Returns the kernel's message with its header, of a request in a place or of this thread. */
const void *inflight_message(const struct inflight_request *request);
/* Marks a request as interrupted. Returns false if no request in flight has this number.
 * Thread-safe. */
bool inflight_interrupt(struct inflight *inflight, uint64_t number);
bool inflight_interrupted(const struct inflight_request *request);
/* Frees the buffer or place of a finished request. */
void inflight_done(struct inflight_request *request);
/* Replies with -code (0: success). Returns false if the kernel no longer waits for it (ENOENT). */
bool inflight_reply(const struct inflight *inflight, uint64_t number, int code);
/*
 * Sets how this request changes the number of open files: 1 (open), -1 (release) or 0. Repeated
 * calls, also by later workers, have no further effect. Needs the engine's lock.
 */
void inflight_set_open_change(struct inflight *inflight, struct inflight_request *request,
                              int change);

/* ---- answers ---- */

/* inflight_answer_begin() stores the reply that libfuse writes next, instead of sending it. Returns
 * false if number is 0 or the thread has no buffer. inflight_answer_store() is called for each
 * write, and returns true if it stored the bytes. inflight_answer_end() sets the publication that
 * makes the answer valid. */
bool inflight_answer_begin(uint64_t number);
bool inflight_answer_store(const struct iovec *iov, int count);
void inflight_answer_end(uint32_t publication);
/* Sends this thread's stored answer. Returns false if the kernel no longer waits for it. */
bool inflight_answer_send(int fd);

/* ---- the next worker ---- */

/* Sends valid answers. Moves requests without one to places, or refuses them: with EIO after three
 * crashes, with ENOMEM if no memory or place is left. published: as of journal_publications(). */
void inflight_recover(struct inflight *inflight, uint32_t published);
/* Returns the next request of an earlier worker, or NULL. *at is the position, 0 at first. */
struct inflight_request *inflight_next(struct inflight *inflight, uint32_t *at);
/* Replies EIO to all requests and clears all buffers and places. */
void inflight_give_up(struct inflight *inflight);
