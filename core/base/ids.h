/*
 * Serial number -> object, in order. Serials only grow and are never used again, so adding appends;
 * lookup is a binary search; the ordered walk is what readdir needs (cookie = serial).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ids {
    struct ids_slot {
        uint64_t id;
        void *object;
    } * slots;
    size_t n, size;
    size_t walked; /* where ids_next() was last */
};

void ids_init(struct ids *ids);
void ids_free(struct ids *ids); /* asserts that it is empty */
/* id must be larger than every id ever added, or (while a state is loaded) any absent one. */
bool ids_add(struct ids *ids, uint64_t id, void *object); /* false: no memory */
void *ids_find(const struct ids *ids, uint64_t id);       /* NULL: absent */
void *ids_remove(struct ids *ids, uint64_t id);           /* the object, or NULL */
/* The first object with an id > after, its id in *id; NULL at the end. Safe while others come and
 * go. */
void *ids_next(struct ids *ids, uint64_t after, uint64_t *id);
