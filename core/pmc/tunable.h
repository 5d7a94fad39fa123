/*
 * The tunables: parameters of the mount, set in the configuration file, as mount options and in
 * admin/tunables. struct tunables is a plain value that can be copied. Reference: kern.hwpmc.*.
 */
#pragma once

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/scan.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The numbers are part of node ids: append only. */
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
    TUNABLE_GROUP, /* name or number of a group; "-" or empty: none */
};

struct tunable_row {
    const char *name;
    enum tunable_type type;
    bool at_start;     /* cannot change after the mount */
    bool bad_is_max;   /* at the start a bad value becomes max instead of the default */
    uint64_t value;    /* the default; groups have none */
    uint64_t min, max; /* numbers; for modes max is the mask of allowed bits */
    const char *help;
    const char *effect; /* objects that a new value applies to */
    const char *unit;   /* of numbers, for error sentences; NULL: none */
};

struct tunables {
    struct tunable_value {
        uint64_t number; /* numbers, bools (0, 1) and modes */
        uint64_t max;    /* the table's, unless tunable_limit() has lowered it */
        char text[64];   /* groups; "": none */
    } value[TUNABLE_COUNT];
};

void tunables_init(struct tunables *tunables);
/* Finds a tunable; '-' and '_' are equal. Returns -1 if there is none. */
int tunable_find(struct word name);
const struct tunable_row *tunable_row(enum tunable which);

/*
 * Sets the maximum, for example of callchaindepth to the kernel's limit, within the table's range.
 * Lowers the value if it is higher.
 */
void tunable_limit(struct tunables *tunables, enum tunable which, uint64_t max);

/*
 * Sets a tunable from text. Returns 0, or P27 for an invalid value, with the valid ones. After the
 * mount (at_start false) P32 for tunables that cannot change, and a refusal changes nothing. At the
 * start an invalid value is replaced by the default (callchaindepth: the maximum), and the sentence
 * names it for the caller to log: no tunable prevents the mount.
 */
int tunable_set(struct tunables *tunables, enum tunable which, struct word value, bool at_start,
                struct err *err);

/*
 * Called when all are set at the start. If logbuffersize × nbuffers is more than 32 MiB, sets both
 * to their defaults and returns P27.
 */
int tunables_limit_log_size(struct tunables *tunables, struct err *err);

/* Prints the value in the form that tunable_set() reads: "127", "1", "0700", "wheel", "-". */
void tunable_print(const struct tunables *tunables, enum tunable which, struct buf *out);
/* Prints the valid values: "1 to 512", "0 or 1", "an octal mode within 1777". */
void tunable_range_print(const struct tunables *tunables, enum tunable which, struct buf *out);

/* Returns a number. May be called without the engine's lock; values are set with it. */
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

/* Returns a group; "": none. */
static inline const char *tunable_text(const struct tunables *tunables, enum tunable which)
{
    return tunables->value[which].text;
}
