/*
 * Events, as the backend resolves them from the spelling of a user, and the catalog: the names of
 * all events that this host counts, by class, which is the content of events/.
 */
#pragma once

#include "core/base/buf.h"
#include "core/base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define SET_MAX          64 /* events in one set */
#define EVENT_CODE_WORDS 16

enum event_scope {
    EVENT_PROCESS = 1,
    EVENT_CPU = 2,
    EVENT_PACKAGE = 4
};

enum event_modifier {
    MODIFIER_NONE,
    MODIFIER_OFF,
    MODIFIER_ON
}; /* whether the spelling's modifiers (:u, :k) switch a mode on or off */

struct event {
    char *written;          /* as written; owned */
    char *resolved;         /* canonical form without mode modifiers, can be written back; owned */
    unsigned class_index;   /* index into backend.classes() */
    uint64_t rows;          /* rows of its class that can count it, one bit each; 0: no rows */
    unsigned rows_needed;   /* number of rows: 1, or 2 for a wide event; 0 without rows */
    unsigned scope;         /* mask of enum event_scope */
    bool sampling;          /* can be sampled */
    bool counts_both_modes; /* user and kernel mode cannot be counted separately */
    bool needs_kernel;      /* needs the right to kernel mode (tracepoints) */
    bool needs_superuser;   /* only the superuser may count it */
    enum event_modifier user, kernel;
    char generic[32];                /* the kernel's generic name of the event, or "" */
    char unit[16];                   /* "" for a plain count */
    double scale;                    /* value * scale is in unit; 1 without one */
    uint64_t code[EVENT_CODE_WORDS]; /* the backend's encoding; the first two words are
                                      * type and config in perf.data */
};

/* Frees the strings. */
static inline void event_clear(struct event *event)
{
    free(event->written);
    free(event->resolved);
    *event = (struct event){0};
}

/* Prints the first lines of an event's text: event (the spelling), description (about), scope,
 * sampling, unit, scale and rows. */
void event_print(const struct event *event, const char *spelling, const char *about,
                 struct buf *out);

/* ---- the catalog ---- */

#define CATALOG_ID_BITS 28 /* a node id also holds an instance's number */

/* Zeroes are an empty catalog. */
struct catalog {
    struct catalog_entry {
        const char *class_name; /* interned in the catalog */
        char *event;            /* file name below events/CLASS: no '/', owned */
        uint64_t id; /* stable 28-bit hash of "class/event", unique in the catalog, not 0 */
    } * entries;     /* sorted by class, then event, after catalog_finish() */
    size_t n, size;
    struct catalog_class {
        char *name;
        uint64_t id;
        size_t first, n; /* range of its entries */
    } * classes;         /* sorted by name */
    size_t n_classes, classes_size;
    struct catalog_id {
        uint64_t id;
        size_t at; /* index into entries, or n + index into classes */
        UT_hash_handle hh;
    } * ids, *by_id;
    bool failed; /* ENOMEM: the catalog is incomplete */
};

void catalog_free(struct catalog *catalog);
/* Adds an event with copies of both names. On ENOMEM sets `failed`. Duplicates are allowed. */
void catalog_add(struct catalog *catalog, const char *class_name, const char *event);
/* Sorts, drops duplicates and sets the ids. Returns 0, or -ENOMEM, also if catalog_add() failed. */
int catalog_finish(struct catalog *catalog);
/* Find a class or an event after catalog_finish(). Return NULL if there is none. */
const struct catalog_class *catalog_class(const struct catalog *catalog, const char *name);
const struct catalog_class *catalog_class_by_id(const struct catalog *catalog, uint64_t id);
const struct catalog_entry *catalog_event(const struct catalog *catalog,
                                          const struct catalog_class *class, const char *event);
const struct catalog_entry *catalog_event_by_id(const struct catalog *catalog, uint64_t id);
