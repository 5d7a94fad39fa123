/*
 * The records of a log: one flat layout, host byte order, each a multiple of 8 bytes and lying in
 * memory at a multiple of 8. What the kernel tells has the layout, type numbers and mode bits of
 * perf_events (attr.sample_type IDENTIFIER | IP | TID | TIME | CPU | PERIOD, and CALLCHAIN where
 * there are frames; sample_id_all), so that draining copies and samples.perf copies. What else a
 * sample may have stands behind its frames, marked in misc. What pmcfs itself tells is a struct
 * record_note. Times are CLOCK_MONOTONIC nanoseconds. PIDs are those of
 * the PID namespace of the attacher.
 */
#pragma once

#include "core/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum record_type {
    /* perf's; the bytes are perf's */
    RECORD_LOST = 2,     /* struct record_lost: the kernel had no room */
    RECORD_COMM = 3,     /* struct record_comm: a name; with RECORD_EXECUTED an exec */
    RECORD_EXIT = 4,     /* struct record_task: a thread ended */
    RECORD_THROTTLE = 5, /* struct record_throttle */
    RECORD_UNTHROTTLE = 6,
    RECORD_FORK = 7,   /* struct record_task: a thread (pid == ppid) or a process was born */
    RECORD_SAMPLE = 9, /* struct record_sample */
    RECORD_MAP = 10,   /* struct record_map (MMAP2): executable, or RECORD_DATA; pid -1: kernel's */
    /* pmcfs's own; all struct record_note */
    RECORD_ALLOCATE = 0x100, /* text: the set, resolved */
    RECORD_ATTACH,           /* pid, tid or cpu; text: the target's word */
    RECORD_DETACH,           /* the same; text: "TARGET REASON" (one blank between) */
    RECORD_START,
    RECORD_STOP,
    RECORD_SWITCH, /* value[]: the steps since that thread's last record; RECORD_LAST */
    RECORD_COUNT,  /* a process's exit: value[]; RECORD_EXACT; pid 0: what is no single process's */
    RECORD_EXEC,   /* pid; text: path */
    RECORD_UNMAP,  /* pid, value[0] start, value[1] end; text: path */
    RECORD_PROCESS, /* pid; text: name. Was there before */
    RECORD_THREAD,  /* pid, tid; text: name. Was there before, or was born */
    RECORD_USER,    /* text */
    RECORD_DROP,    /* value[0]: records lost, value[1]: samples among them, if it is known;
                       text: where ("log", "hidden", "memory", "replaced", "inventory") */
    RECORD_CLOSE,
    /* Only from a backend to a recording: value[0]: which groups tell it, then what this thread
     * counted in them on this CPU so far; RECORD_LAST: at its end, RECORD_EXACT: that was all */
    RECORD_VALUES
};

/* misc of perf's types */
#define RECORD_MODE     7u /* mask: */
#define RECORD_KERNEL   1u
#define RECORD_USERMODE 2u
#define RECORD_EXECUTED 0x2000u /* of COMM */
#define RECORD_DATA     0x2000u /* of MAP: not executable: how a program unwinds may stand there */
/* misc of SAMPLE: behind its frames, of which it has a number then, stand in this order … */
#define RECORD_RAW   0x10u /* … the fields of a tracepoint: struct sample_parts */
#define RECORD_STACK 0x20u /* … the registers and the stack of the user's: struct sample_parts */
/* misc of notes */
#define RECORD_LAST  1u /* of SWITCH: the thread has ended, or the rest is no single thread's */
#define RECORD_EXACT 2u /* of COUNT, and of VALUES with LAST: nothing is missing */
/* of SWITCH, COUNT: something may be missing, or be of what an earlier worker had not told */
#define RECORD_LACKS 8u
/* of COMM, MAP: made by pmcfs from what was there before, not told by the kernel */
#define RECORD_FOUND 0x8000u
/* of DROP: stands in the place of records that are counted as lost with it */
#define RECORD_REFUSED 4u
/* of DROP: in the place of samples that are counted as withheld */
#define RECORD_WITHHELD 8u

#define RECORD_MAX 65528 /* bytes of one record */

struct record {
    uint32_t type;
    uint16_t misc;
    uint16_t size; /* with this head */
};

static inline size_t record_padded(size_t len)
{
    return (len + 7) & ~(size_t)7;
}

/* Ends every record of perf's types but samples. */
struct record_tail {
    uint32_t pid, tid;
    uint64_t time;
    uint32_t cpu, reserved;
    uint64_t id;
};

/* frames: n_frames and the array follow when size > offsetof(…, n_frames). */
struct record_sample {
    struct record head;
    uint64_t id; /* of the event: see log_id */
    uint64_t ip;
    uint32_t pid, tid;
    uint64_t time;
    uint32_t cpu, reserved;
    uint64_t period;
    uint64_t n_frames; /* context markers (>= FRAME_MARKERS) included */
    uint64_t frame[];
};
#define SAMPLE_SHORT  offsetof(struct record_sample, n_frames) /* without a call chain */
#define FRAME_MARKERS ((uint64_t)-4095) /* this and above: what follows is of another mode */
#define FRAME_KERNEL  ((uint64_t)-128)
#define FRAME_USER    ((uint64_t)-512)

/*
 * What a sample has behind its frames, each at a multiple of eight: four bytes with the number of
 * those that follow, which are a tracepoint's fields, and padding; a word (REGISTERS_ABI; how many
 * registers) and the registers; the bytes of the stack that were there (padded), the stack, and,
 * if it is not empty, once more how many bytes. Points into the record.
 */
struct sample_parts {
    const uint64_t *raw;       /* with the four bytes before it; NULL: no such part */
    size_t raw_bytes;          /* … and the padding */
    const uint64_t *registers; /* behind the word; NULL: no such part */
    uint64_t abi;              /* PERF_SAMPLE_REGS_ABI_*; 0: there are no registers */
    uint64_t n_registers;
    const uint64_t *stack; /* with the words before and behind it */
    size_t stack_bytes;    /* of all that */
};
#define REGISTERS_WORD(abi, n) ((abi) | (uint64_t)(n) << 32)
#define REGISTERS_ABI(word)    ((word)&0xffffffff)
#define REGISTERS_N(word)      ((word) >> 32)
/* False: it is not well-formed. */
bool sample_parts(const struct record_sample *sample, struct sample_parts *out);
/* Those of its own frames that are in the record. */
uint64_t sample_frames(const struct record_sample *sample);

struct record_lost {
    struct record head;
    uint64_t id, lost;
    struct record_tail tail;
};

struct record_comm {
    struct record head;
    uint32_t pid, tid;
    char name[]; /* NUL-terminated, padded to 8; then the tail */
};

struct record_task {
    struct record head;
    uint32_t pid, ppid, tid, ptid;
    uint64_t time;
    struct record_tail tail;
};

struct record_throttle {
    struct record head;
    uint64_t time, id, stream;
    struct record_tail tail;
};

struct record_map {
    struct record head;
    uint32_t pid, tid;
    uint64_t start, length, offset;
    uint32_t major, minor;
    uint64_t inode, generation;
    uint32_t protection, flags;
    char path[]; /* NUL-terminated, padded to 8; then the tail */
};

struct record_note {
    struct record head;
    uint64_t time;
    uint32_t pid, tid; /* 0: none */
    uint32_t cpu;      /* UINT32_MAX: none */
    uint16_t n, text_len;
    uint64_t id; /* of the event or set, 0: none */
    uint64_t value[];
    /* text_len bytes of text (as they are: blanks and all), padded with NULs to 8 */
};

/*
 * An id says which event of the PMC, and with which settings, a sample is of: a number of the set
 * (grows when events or sampling settings change) and the event's place.
 */
#define LOG_ID(set, place) ((uint64_t)(set) << 8 | (place))
#define LOG_ID_SET(id)     ((id) >> 8)
#define LOG_ID_PLACE(id)   ((unsigned)((id)&0xff))

static inline bool record_is_note(const struct record *record)
{
    return record->type >= RECORD_ALLOCATE;
}
/* Where in a record its time stands, by the head alone; and where once more, 0: nowhere. */
static inline unsigned record_time_place(const struct record *head)
{
    if (head->type == RECORD_SAMPLE)
        return offsetof(struct record_sample, time);
    if (record_is_note(head))
        return offsetof(struct record_note, time);
    return head->size - (unsigned)(sizeof(struct record_tail) - offsetof(struct record_tail, time));
}
static inline unsigned record_second_time_place(const struct record *head)
{
    if (head->type == RECORD_FORK || head->type == RECORD_EXIT)
        return offsetof(struct record_task, time);
    if (head->type == RECORD_THROTTLE || head->type == RECORD_UNTHROTTLE)
        return offsetof(struct record_throttle, time);
    return 0;
}
uint64_t record_time(const struct record *record);
void record_set_time(struct record *record, uint64_t time_ns);
/* NULL for samples and notes. */
struct record_tail *record_tail(const struct record *record);
const char *note_text(const struct record_note *note); /* not NUL-terminated; text_len bytes */
/* Is it well-formed and of a known type, and does it end within `room` bytes? For what comes from
 * outside. */
bool record_fits(const struct record *record, size_t room);

/* Making records: each appends one whole record to out. Text is cut so that the record fits. */
struct note {
    enum record_type type;
    unsigned misc;
    uint64_t time;
    uint32_t pid, tid, cpu; /* cpu UINT32_MAX: none */
    uint64_t id;
    unsigned n;
    const uint64_t *value;
    const char *text;
    size_t text_len;
};
void record_add_note(struct buf *out, const struct note *note);
void record_add_comm(struct buf *out, uint64_t time, uint32_t pid, uint32_t tid, const char *name,
                     unsigned misc);
struct map_facts {
    uint32_t pid, tid;
    uint64_t start, length, offset;
    uint32_t major, minor;
    uint64_t inode, generation;
    uint32_t protection, flags;
    const char *path;
};
void record_add_map(struct buf *out, uint64_t time, const struct map_facts *map, unsigned misc);
/* A mapping once more, as one of this process, told by this thread. */
void record_add_map_of(struct buf *out, uint64_t time, const struct record_map *map, uint32_t pid,
                       uint32_t tid, unsigned misc);
void record_add_lost(struct buf *out, uint64_t time, uint64_t id, uint64_t lost);
void record_add_task(struct buf *out, enum record_type type, uint64_t time, uint32_t pid,
                     uint32_t ppid, uint32_t tid, uint32_t ptid);
/* frames NULL: without a call chain. */
void record_add_sample(struct buf *out, const struct record_sample *fixed, unsigned mode,
                       const uint64_t *frames, uint64_t n_frames);

/* The types as people meet them: word in `samples`, what it stands for, hwpmc's name. */
struct record_row {
    enum record_type type;
    const char *word;   /* "sample", "map-in", … */
    const char *fields; /* as printed, in order: "pid tid cpu ip event period" */
    const char *help;
    const char *seed; /* "PCSAMPLE (L04)" … */
};
extern const struct record_row record_table[];
extern const unsigned record_rows;
