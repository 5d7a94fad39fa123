/*
 * The catalog: names of all events that this machine counts, by class. It is the content of
 * events/.
 */
#pragma once

#include "core/base/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CATALOG_ID_BITS 28 /* a node id also holds an instance's number */

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

void catalog_init(struct catalog *catalog);
void catalog_free(struct catalog *catalog);
/* Adds an event and copies both names. catalog_finish() drops duplicates. */
void catalog_add(struct catalog *catalog, const char *class_name, const char *event);
/* Sorts, drops duplicates and sets the ids. Returns 0 or -ENOMEM. */
int catalog_finish(struct catalog *catalog);
const struct catalog_class *catalog_class(const struct catalog *catalog, const char *name);
const struct catalog_class *catalog_class_by_id(const struct catalog *catalog, uint64_t id);
const struct catalog_entry *catalog_event(const struct catalog *catalog,
                                          const struct catalog_class *class, const char *event);
const struct catalog_entry *catalog_event_by_id(const struct catalog *catalog, uint64_t id);
