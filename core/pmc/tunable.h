/*
 * The tunables: what the administrator sets for all PMCs, in the configuration file, as mount
 * options and in admin/tunables. A plain value: copy it, change the copy, swap. Seed: kern.hwpmc.*,
 * T01–T12.
 */
#pragma once

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/scan.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The numbers are part of node ids: a new one comes last. */
enum tunable {
    TUNABLE_CALLCHAINDEPTH,
    TUNABLE_LOGBUFFERSIZE,
    TUNABLE_MINCOUNT,
    TUNABLE_NBUFFERS,
    TUNABLE_UNPRIVILEGED_PROC_DEBUG,
    TUNABLE_UNPRIVILEGED_SYSPMCS,
    TUNABLE_UNPRIVILEGED_KERNEL,
    TUNABLE_STRICT_ROWS,
    TUNABLE_ROOTMODE,
    TUNABLE_DIRMODE,
    TUNABLE_READERS,
    TUNABLE_MAX_PMCS,
    TUNABLE_MAX_PMCS_PER_USER,
    TUNABLE_MAX_EVENTS_PER_PROCESS,
    TUNABLE_MAX_FDS_PER_USER,
    TUNABLE_MAX_LOG_PER_USER,
    TUNABLE_MAX_WAITING_PER_USER,
    TUNABLE_MAX_COVERED_PER_PMC,
    TUNABLE_ATTACH_MS,
    TUNABLE_NOTIFY_MS,
    TUNABLE_THREADS,
    TUNABLE_COUNT
};

enum tunable_type {
    TUNABLE_NUMBER,
    TUNABLE_BOOL,  /* printed as 0 or 1 */
    TUNABLE_MODE,  /* permission bits, octal */
    TUNABLE_GROUP, /* a group's name or number; "-" or nothing: none */
};

struct tunable_row {
    const char *name;
    enum tunable_type type;
    bool at_start;     /* fixed once the tree is mounted */
    bool bad_is_max;   /* at start a bad value becomes max, not the default */
    uint64_t value;    /* the default; of groups and texts it is "none" */
    uint64_t min, max; /* numbers; of modes max is the bits that may be set */
    const char *help;
    const char *effect; /* for what a change holds; or that there is none */
};

struct tunables {
    struct tunable_value {
        uint64_t number; /* also bools (0, 1) and modes */
        uint64_t max;
        char text[64]; /* groups and texts; "" is none */
    } value[TUNABLE_COUNT];
};

/* All defaults. */
void tunables_init(struct tunables *tunables);
/* '-' and '_' alike; -1: no such tunable. */
int tunable_find(struct word name);
const struct tunable_row *tunable_row(enum tunable which);

/*
 * Lower the largest value allowed (callchaindepth: what the kernel can do), and the value if it is
 * above. Stays within the table's range.
 */
void tunable_limit(struct tunables *tunables, enum tunable which, uint64_t max);

/*
 * Set from text. P27 for what the tunable does not take, naming what it does. While mounted
 * (at_start false) P32 for those fixed at start, and what is refused changes nothing. At start
 * the default (callchaindepth: the largest) stands in for what is refused, the sentence says so,
 * and the caller prints it: no tunable prevents the mount.
 */
int tunable_set(struct tunables *tunables, enum tunable which, struct word value, bool at_start,
                struct err *err);

/*
 * Once all are set at start: logbuffersize × nbuffers is at most 32 MiB (T06), else both get their
 * defaults and the result is P27.
 */
int tunables_settle(struct tunables *tunables, struct err *err);

/* The value as tunable_set() reads it: "127", "1", "0700", "wheel", "-". */
void tunable_print(const struct tunables *tunables, enum tunable which, struct buf *out);
/* What may be written: "1 to 512", "0 or 1", "octal, within 1777", "less than 64 bytes of text" */
void tunable_range_print(const struct tunables *tunables, enum tunable which, struct buf *out);

/* Works read them without the engine's lock; a reload of the configuration sets them with it. */
static inline uint64_t tunable_u64(const struct tunables *tunables, enum tunable which)
{
    return __atomic_load_n(&tunables->value[which].number, __ATOMIC_RELAXED);
}

static inline void tunable_put(struct tunables *tunables, enum tunable which,
                               const struct tunable_value *value)
{
    struct tunable_value *own = &tunables->value[which];

    __atomic_store_n(&own->number, value->number, __ATOMIC_RELAXED);
    own->max = value->max;
    memcpy(own->text, value->text, sizeof(own->text));
}

static inline bool tunable_bool(const struct tunables *tunables, enum tunable which)
{
    return tunable_u64(tunables, which) != 0;
}

/* Of a group or text; "" is none. */
static inline const char *tunable_text(const struct tunables *tunables, enum tunable which)
{
    return tunables->value[which].text;
}
