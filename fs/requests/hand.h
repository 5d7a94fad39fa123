/*
 * Requests in hand, in memory that outlives the worker: the bytes of each from before it is known
 * until it is answered, and answers that are true with the journal. Each thread has a seat:
 * requests are read right into it, and move to a place of their own if they wait. The next worker
 * sends the answers that were published once more, and does what is without one.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct fuse_session;
struct journal;

#define HAND_SEATS  96
#define HAND_PLACES (1u << 16)
#define HAND_FRAMES 32
#define HAND_RINGS  8192
/* Of a request, and of an answer. */
#define HAND_BYTES ((size_t)320 << 10)

/*
 * Another version's program goes on with what lies here: a field that is new takes of `spare`,
 * where 0 means what was before it. A layout for which that is not enough has another MAGIC
 * (hand.c), and an upgrade between the two is refused. The same holds for a log's numbers
 * (core/log/log_parts.h).
 */

/* A request in hand. */
struct in_hand {
    atomic_bool taken;       /* of a place: it is one's */
    _Atomic uint64_t number; /* of a place: the kernel's; 0: it is done, or not there yet */
    uint64_t block;          /* of a place: the bytes; 0: they are in the seat's buffer */
    uint32_t bytes;
    _Atomic uint32_t crashes;     /* so often a worker crashed with it */
    _Atomic uint64_t interrupted; /* the number of one of which the kernel said so */
    _Atomic int32_t opens;        /* what it has added to the number of open files */
    bool left;                    /* of a place: by an earlier worker, and not taken up yet */
    uint64_t since_ns;            /* CLOCK_MONOTONIC, when it was read; 0: not known */
    uint64_t spare[1];
};

struct answer {
    _Atomic uint64_t number;
    uint32_t published; /* true once the journal was published so often */
    uint32_t bytes;
    bool cut; /* it did not fit */
    uint64_t spare;
};

struct hand {
    uint64_t magic;
    /* For a supervisor, and the program that takes its place. */
    int fuse_fd, journal_fd, arena_fd;
    pid_t worker;
    struct hand_ring {
        int fd; /* 0: none */
        uint64_t bytes;
    } rings[HAND_RINGS];
    uint32_t init_bytes;
    char init[1024];
    uint64_t started_ns;
    pid_t last_worker; /* and how it ended, as wait(2) says it */
    int last_status;

    _Atomic uint64_t last_fh, n_open; /* open files: their last number, and how many there are */
    _Atomic uint64_t restarts;
    atomic_bool serves; /* a worker has taken up all that was there */
    atomic_bool ready;  /* the present one has */
    atomic_bool begun;  /* the starting process was told that the tree is usable */
    struct {            /* of the last worker, as it crashed */
        int signal;
        void *address;
        int n;
        void *frame[HAND_FRAMES];
    } crash;
    struct { /* the last change of n_open: so it becomes, and so `opens` of that request */
        _Atomic uint64_t number, n_open;
        _Atomic int32_t opens;
    } counted;
    uint32_t timeout_s; /* the kernel ends the mount if a request takes longer; 0: no limit */
    bool timeout_known; /* as the mount was made; else device.c takes the present settings */
    uint64_t spare[28];

    _Atomic uint32_t n_places; /* none was taken behind these */
    struct seat_hand {
        struct in_hand request;
        struct answer answer;
    } seats[HAND_SEATS];
    struct in_hand places[HAND_PLACES];
};

/* NULL: errno says why. EPROTO: another version made it. */
struct hand *hand_new(int *fd);
struct hand *hand_open(int fd);

/* ---- a thread's ---- */

/* This thread's, from now on; its memory is there. False: there is none. */
bool hand_sit(struct hand *hand, unsigned seat);
/* What the next request is read into; what was there is done. NULL: it has no seat. */
void *hand_buffer(void);
/* One was read, or is taken up: its place, until another is. */
struct in_hand *hand_begin(struct in_hand *request);
/* It goes to a place of its own, so that the seat takes the next. NULL: no room. */
struct in_hand *hand_park(struct hand *hand, struct in_hand *request);
/* This thread works on it; NULL: on none. */
void hand_work(struct in_hand *request);
struct in_hand *hand_current(void);
/* Of the poll request that this thread works on: what the kernel is told when it is over. */
uint64_t hand_poll_number(void);
uint64_t hand_number(const struct in_hand *request);
/* The kernel's message, from its header on: of a request that was parked, or this thread's. */
const void *hand_bytes(const struct in_hand *request);
/* The kernel said so of this one. False: none with this number is in hand. Any thread. */
bool hand_interrupt(struct hand *hand, uint64_t number);
bool hand_interrupted(const struct in_hand *request);
/* It is answered. */
void hand_done(struct in_hand *request);
/* Is told -code and nothing else, or 0. False: its caller waits for it no more. */
bool hand_tell(const struct hand *hand, uint64_t number, int code);
/*
 * With the engine's lock: the files that this one opens are 1 (an open), -1 (a release) or 0. Once,
 * however often it is said, and however many workers do it.
 */
void hand_count(struct hand *hand, struct in_hand *request, int opens);

/* ---- answers ---- */

/* What is written to the session as the answer of this request is kept instead, as this thread's.
 */
bool hand_answer_begin(uint64_t number);
bool hand_answer_take(const struct iovec *iov, int count);
void hand_answer_end(uint32_t published);
/* Writes it. False: its caller waits for it no more. */
bool hand_answer_send(int fd);

/* ---- the next worker ---- */

/* Answers what was answered, and what crashes every worker; the others get places. */
void hand_recover(struct hand *hand, uint32_t published);
/* The requests that are to be done; *at begins with 0. NULL: no more. Their blocks stay. */
struct in_hand *hand_next(struct hand *hand, uint32_t *at);
/* All are given up: their users are told EIO. */
void hand_give_up(struct hand *hand);
