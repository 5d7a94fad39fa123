/*
 * The records of a log: flat structures in host byte order. Size and address are multiples of 8.
 * Kernel records have the layout, type numbers and mode bits of perf_events (sample_type IDENTIFIER
 * | IP | TID | TIME | CPU | PERIOD, with CALLCHAIN if there are frames; sample_id_all). So drains
 * and samples.perf can copy them. Optional parts of a sample follow its frames and have a flag in
 * misc. Record types of pmcfs are struct record_note. Times are CLOCK_MONOTONIC in nanoseconds.
 * PIDs in a log are those of the attacher's PID namespace.
 */
#pragma once

#include "core/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum record_type {
    /* types of perf, in its binary format */
    RECORD_LOST = 2,     /* struct record_lost: a ring buffer of the kernel was full */
    RECORD_COMM = 3,     /* struct record_comm: a new name; RECORD_EXECUTED: by an exec */
    RECORD_EXIT = 4,     /* struct record_task: a thread exited */
    RECORD_THROTTLE = 5, /* struct record_throttle */
    RECORD_UNTHROTTLE = 6,
    RECORD_FORK = 7,   /* struct record_task: new thread (pid == ppid) or process */
    RECORD_SAMPLE = 9, /* struct record_sample */
    RECORD_MAP = 10,   /* struct record_map (MMAP2): executable, or RECORD_DATA; pid -1: kernel */
    /* Passed from a backend to a recording, never logged. Contains only head and struct
     * record_tail: a thread runs again or, with RECORD_OFF, left its CPU. */
    RECORD_SCHED = 14,
    /* types of pmcfs, all struct record_note */
    RECORD_ALLOCATE = 0x100, /* text: the resolved events */
    RECORD_ATTACH,           /* pid, tid or cpu; text: the target */
    RECORD_DETACH,           /* pid, tid or cpu; text: "TARGET REASON", separated by one space */
    RECORD_START,
    RECORD_STOP,
    RECORD_SWITCH,  /* value[]: counts since the last record of the thread; RECORD_LAST */
    RECORD_COUNT,   /* process exit; value[]: its counts; RECORD_EXACT; pid 0: unknown processes */
    RECORD_EXEC,    /* pid; text: path */
    RECORD_UNMAP,   /* pid, value[0] start, value[1] end, value[2] offset; text: path */
    RECORD_PROCESS, /* pid; text: name. A process that already ran */
    RECORD_THREAD,  /* pid, tid; text: name. A thread that already ran or is new */
    RECORD_USER,    /* text */
    RECORD_DROP,    /* value[0]: records lost, value[1]: samples among them, if it is known;
                       text: where ("log", "hidden", "memory", "replaced", "inventory") */
    RECORD_CLOSE,
    RECORD_RUN, /* pid, tid, cpu: a thread runs again; value[0]: ns since it left its CPU, if that
                   is known; RECORD_WAS_PREEMPTED */
    /* Passed from a backend to a recording, never logged. value[0]: id of the event group; then the
     * thread's cumulative counts on this CPU. RECORD_LAST: the thread exited. RECORD_EXACT: the
     * counts are complete. */
    RECORD_VALUES
};

/* misc of perf types */
#define RECORD_MODE     7u /* mask of the mode: */
#define RECORD_KERNEL   1u
#define RECORD_USERMODE 2u
#define RECORD_EXECUTED 0x2000u /* of COMM */
#define RECORD_DATA     0x2000u /* of MAP: not executable; may contain unwind data */
/* misc of SAMPLE: optional parts after the frames, in this order; n_frames is present then. */
#define RECORD_RAW   0x10u /* tracepoint fields: see struct sample_parts */
#define RECORD_STACK 0x20u /* user registers and user stack: see struct sample_parts */
/* misc of SAMPLE: its weight is the time until the next RUN record of its thread */
#define RECORD_WEIGHED 0x40u
/* misc of SCHED */
#define RECORD_OFF           0x2000u
#define RECORD_OFF_PREEMPTED 0x4000u /* with RECORD_OFF: the thread could have continued */
/* misc of notes */
/* of SWITCH and VALUES: the thread exited; of SWITCH with pid 0: counts of unknown threads */
#define RECORD_LAST  1u
#define RECORD_EXACT 2u /* of COUNT, and of VALUES with RECORD_LAST: the counts are complete */
/* of SWITCH, COUNT: counts may be missing, or include unreported counts of an earlier worker */
#define RECORD_INCOMPLETE    8u
#define RECORD_WAS_PREEMPTED 16u /* of RUN */
/* of COMM, MAP: created by pmcfs for existing tasks and mappings, not by the kernel */
#define RECORD_FOUND 0x8000u
/* of DROP: the records were never stored. They count as lost when the DROP is added. */
#define RECORD_REFUSED 4u
/* of DROP: counts hidden kernel samples */
#define RECORD_HIDDEN 8u

#define RECORD_MAX 65528 /* bytes of one record */

struct record {
    uint32_t type;
    uint16_t misc;
    uint16_t size; /* including the head */
};

static inline size_t record_padded(size_t len)
{
    return (len + 7) & ~(size_t)7;
}

/* The end of all records of perf types except samples. */
struct record_tail {
    uint32_t pid, tid;
    uint64_t time;
    uint32_t cpu, reserved;
    uint64_t id;
};

/* n_frames and frame[] are absent if size is SAMPLE_SHORT. */
struct record_sample {
    struct record head;
    uint64_t id; /* id of the event: see LOG_ID */
    uint64_t ip;
    uint32_t pid, tid;
    uint64_t time;
    uint32_t cpu, reserved;
    uint64_t period;
    uint64_t n_frames; /* including context markers (>= FRAME_MARKERS) */
    uint64_t frame[];
};
#define SAMPLE_SHORT  offsetof(struct record_sample, n_frames) /* size without a call chain */
#define FRAME_MARKERS ((uint64_t)-4095) /* and above: markers with the mode of later frames */
#define FRAME_KERNEL  ((uint64_t)-128)
#define FRAME_USER    ((uint64_t)-512)

/*
 * The optional parts of a sample after its frames, each padded to a multiple of eight:
 * RECORD_RAW: a size in four bytes and that many bytes of tracepoint fields.
 * RECORD_STACK: a word with ABI and number of registers (REGISTERS_WORD), the registers, the size
 * of the stack, the stack, and, if the size is not 0, the number of valid bytes. The pointers point
 * into the record.
 */
struct sample_parts {
    const uint64_t *raw;       /* includes the four bytes of the size; NULL: no such part */
    size_t raw_bytes;          /* includes size and padding */
    const uint64_t *registers; /* after REGISTERS_WORD; NULL: no such part */
    uint64_t abi;              /* PERF_SAMPLE_REGS_ABI_*; 0: no registers */
    uint64_t n_registers;
    const uint64_t *stack; /* starts at the word with its size */
    size_t stack_bytes;    /* includes the words before and after the stack */
};
#define REGISTERS_WORD(abi, n) ((abi) | (uint64_t)(n) << 32)
#define REGISTERS_ABI(word)    ((word)&0xffffffff)
#define REGISTERS_N(word)      ((word) >> 32)
/* Finds the optional parts. Returns false if the sample is invalid or has size SAMPLE_SHORT. */
bool sample_parts(const struct record_sample *sample, struct sample_parts *out);
/* Returns the number of frames, limited to the size of the record. */
uint64_t sample_frames(const struct record_sample *sample);

/* The parts of a sample that is not written as a record yet. */
struct sample {
    const struct record_sample *fixed; /* only its ip, pid, tid, time, cpu and reserved are valid */
    unsigned misc;
    uint64_t id, period;
    const void *rest; /* the fields after the period */
    size_t rest_len;  /* 0: no call chain and no other parts */
};
/* Writes the record, of SAMPLE_SHORT + rest_len bytes. */
static inline void sample_write(const struct sample *sample, struct record_sample *to)
{
    to->head = (struct record){RECORD_SAMPLE, (uint16_t)sample->misc,
                               (uint16_t)(SAMPLE_SHORT + sample->rest_len)};
    to->id = sample->id;
    to->ip = sample->fixed->ip;
    to->pid = sample->fixed->pid;
    to->tid = sample->fixed->tid;
    to->time = sample->fixed->time;
    to->cpu = sample->fixed->cpu;
    to->reserved = sample->fixed->reserved;
    to->period = sample->period;
    if (sample->rest_len)
        memcpy((char *)to + SAMPLE_SHORT, sample->rest, sample->rest_len);
}

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
    uint32_t pid, tid; /* 0 if unused */
    uint32_t cpu;      /* UINT32_MAX if unused */
    uint16_t n, text_len;
    uint64_t id; /* id of the event or set, or 0 */
    uint64_t value[];
    /* followed by text_len bytes of text without escapes, padded with NULs to 8 */
};

/*
 * The id of an event with its settings: the set number, which increases when events or sampling
 * settings change, and the index of the event in the set.
 */
#define LOG_ID(set, index) ((uint64_t)(set) << 8 | (index))
#define LOG_ID_SET(id)     ((id) >> 8)
#define LOG_ID_INDEX(id)   ((unsigned)((id)&0xff))

static inline bool record_is_note(const struct record *record)
{
    return record->type >= RECORD_ALLOCATE;
}
/* Returns the offset of the time in a record, in bytes. Reads only the head. */
static inline unsigned record_time_offset(const struct record *head)
{
    if (head->type == RECORD_SAMPLE)
        return offsetof(struct record_sample, time);
    if (record_is_note(head))
        return offsetof(struct record_note, time);
    return head->size - (unsigned)(sizeof(struct record_tail) - offsetof(struct record_tail, time));
}
uint64_t record_time(const struct record *record);
void record_set_time(struct record *record, uint64_t time_ns);
/* Returns the tail of a record, or NULL for samples and notes, which have none. */
struct record_tail *record_tail(const struct record *record);
const char *note_text(const struct record_note *note); /* not NUL-terminated; text_len bytes */
/* Checks a record from memory that may be damaged. Returns true if the type is known, the sizes fit
 * it, the text of COMM and MAP has a NUL, and the record has at most `room` bytes. */
bool record_is_valid(const struct record *record, size_t room);

/* The record_add functions append one record to out, whose end must be aligned to eight bytes;
 * record_add_lost() needs no alignment. On ENOMEM they append nothing. Text is cut to fit
 * RECORD_MAX. */
struct note {
    enum record_type type;
    unsigned misc;
    uint64_t time;
    uint32_t pid, tid, cpu; /* unused: 0, cpu UINT32_MAX */
    uint64_t id;
    unsigned n;
    const uint64_t *value;
    const char *text;
    size_t text_len;
};
void record_add_note(struct buf *out, const struct note *note);
/* Appends a DROP note: value[0] lost records, of which, if n is 2, value[1] are samples. */
void record_add_drop(struct buf *out, uint64_t time, unsigned misc, const char *where, unsigned n,
                     const uint64_t *value);
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
/* Appends a copy of a mapping with another time, process, thread and misc. */
void record_add_map_of(struct buf *out, uint64_t time, const struct record_map *map, uint32_t pid,
                       uint32_t tid, unsigned misc);
void record_add_lost(struct buf *out, uint64_t time, uint64_t id, uint64_t lost);
void record_add_task(struct buf *out, enum record_type type, uint64_t time, uint32_t pid,
                     uint32_t ppid, uint32_t tid, uint32_t ptid);
/* Copies the fields id to period of `fixed`. mode: for misc, such as RECORD_KERNEL. frames may be
 * NULL: no call chain. */
void record_add_sample(struct buf *out, const struct record_sample *fixed, unsigned mode,
                       const uint64_t *frames, uint64_t n_frames);

/* The record types as documented: the word in `samples`, its description, and hwpmc's name. */
struct record_row {
    enum record_type type;
    const char *word;   /* "sample", "map-in", … */
    const char *fields; /* as printed, in order: "pid tid cpu ip event period" */
    const char *help;
    const char *reference; /* "PCSAMPLE (L04)" … */
};
extern const struct record_row record_table[];
extern const unsigned record_rows;
