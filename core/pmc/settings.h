/*
 * The settings of a PMC: one table of keys, from which parser, printer, help and manual are made.
 * `event` and `target` are rows of the table, but their values are a set and links, not settings.
 */
#pragma once

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/event.h"
#include "core/base/scan.h"

#include <stdbool.h>
#include <stdint.h>

enum mode {
    PROCESS_COUNTING,
    PROCESS_SAMPLING,
    SYSTEM_COUNTING,
    SYSTEM_SAMPLING,
    MODE_COUNT
};

struct mode_row {
    const char *name;       /* printed form */
    const char *short_name; /* TC TS SC SS */
    bool system, sampling;
    const char *help;
};
extern const struct mode_row mode_table[MODE_COUNT];

/* In the order of lines in config, which can be written back line by line. */
enum key {
    KEY_MULTIPLEX,
    KEY_MODE,
    KEY_EVENT,
    KEY_AUTOSTART,
    KEY_START,
    KEY_COUNT,
    KEY_FILTER,
    KEY_PERIOD,
    KEY_FREQ,
    KEY_USER,
    KEY_KERNEL,
    KEY_CALLCHAIN,
    KEY_DEPTH,
    KEY_STACK,
    KEY_RAW,
    KEY_OFFCPU,
    KEY_DESCENDANTS,
    KEY_LOG_CSW,
    KEY_LOG_EXIT,
    KEY_KGMON,
    KEY_FORCE,
    KEY_ROW,
    KEY_INTERVAL,
    KEY_LOG,
    KEY_LOGSIZE,
    KEY_NOTIFY,
    KEY_METRICS,
    KEY_LIFETIME,
    KEY_REATTACH,
    KEY_REALTIME,
    KEY_TARGET,
    KEYS
};

enum {
    CALLCHAIN_OFF,
    CALLCHAIN_ON,
    CALLCHAIN_USER,
    CALLCHAIN_KERNEL,
    CALLCHAIN_DWARF
};
#define STACK_STANDARD 8192 /* bytes; also perf's default */
#define STACK_MAX      65528

enum {
    METRICS_SUM,
    METRICS_CPU
};
enum {
    LIFETIME_MOUNT,
    LIFETIME_OWNER,
    LIFETIME_OPEN
};

/* The form of a plain key's value; words are the row's values, in this order. */
enum value_form {
    VALUE_NONE,
    VALUE_SWITCH,
    VALUE_OFF_NUMBER,
    VALUE_WORDS,
    VALUE_TEXT
};
#define FILTER_MAX 1000 /* bytes */

struct key_row {
    const char *name;
    const char *values;   /* "on, off", "now, exec", "N", "N or off" … for help and manual */
    const char *standard; /* the default, as written */
    enum {
        MODES_ANY,
        MODES_PROCESS,
        MODES_CPUS, /* not with process targets: the mode follows the targets */
        MODES_SAMPLING
    } modes;    /* modes in which it is valid */
    bool opens; /* a change opens the counters again */
    const char *help;
    const char *reference; /* operation of the reference systems */
    enum value_form form;
    uint8_t word; /* the default of switches and words, as it is stored */
    uint64_t min, max;
    /* VALUE_OFF_NUMBER: the word for "no number", which is the default; unit and example (or NULL)
     * for the sentence of a refusal. */
    const char *off, *unit, *example;
};
extern const struct key_row key_table[KEYS];

struct settings {
    uint32_t written_keys; /* bit per key: written, not a default */
    enum mode mode;        /* if not written, change_check.c chooses it */
    uint8_t word[KEYS];    /* on/off (1/0) and words (index) of the plain keys */
    unsigned n_counts;     /* number of initial values; the rest is 0 */
    uint64_t *counts;      /* owned */
    char *filter;          /* of tracepoints, or NULL; owned */
    uint64_t *numbers;     /* numbers of plain keys, KEYS of them; NULL: none; owned */
};

/* Returns a key's number; UINT64_MAX: the word for "no number". */
static inline uint64_t settings_number(const struct settings *settings, enum key key)
{
    return settings->numbers ? settings->numbers[key] : UINT64_MAX;
}

#define KEY_BIT(key) (UINT32_C(1) << (key))

void settings_init(struct settings *settings);
void settings_clear(struct settings *settings);
/* Overwrites *to without freeing it. On ENOMEM returns false, and *to has the defaults. */
bool settings_copy(struct settings *to, const struct settings *from);

/* Kinds of words that other tools use instead of those of pmcfs. */
enum foreign {
    FOREIGN_SETTING = 1,
    FOREIGN_VERB = 2,
    FOREIGN_EVENT = 4
};
/* Returns a sentence with the word to write instead, or NULL if no other tool uses this word. */
const char *foreign_word_hint(struct word word, enum foreign where);

/* Finds a key; '-' and '_' are equal. Returns KEYS if there is none. */
enum key key_find(struct word word);
/*
 * Parses a value of a plain key (neither event nor target) and sets its bit of `written_keys`.
 * Returns 0, P02 with the valid values, P09 for kgmon=on and force=on, E20 for a bad mode, or E32.
 */
int settings_set(struct settings *settings, enum key key, struct word value, struct err *err);
/* Returns true if kernel=off was written; false if only missing rights exclude kernel mode. */
bool settings_skip_kernel(const struct settings *settings);
/* Returns true if the key has the same value in both. */
bool settings_same(const struct settings *a, const struct settings *b, enum key key);
/* Returns true if the key has its default. Not for KEY_MODE. */
bool settings_standard(const struct settings *settings, enum key key);
/* Prints the value of a plain key in its written form. n_events: count= has at least as many
 * numbers. */
void settings_print(const struct settings *settings, enum key key, unsigned n_events,
                    struct buf *out);
/* Refuses an unknown key (E24), with foreign_word_hint()'s sentence or near misses. */
int key_unknown(struct word word, struct err *err);
/* Refuses a setting without a value (P02), with values to write. */
int key_empty(enum key key, struct err *err);
