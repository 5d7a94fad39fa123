/*
 * Objects by serial number, in order. Serials only grow and are never reused, so adding appends;
 * lookup is a binary search; readdir walks in order with the serial as its cookie.
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
    size_t walked; /* position of the last ids_next() */
};

void ids_init(struct ids *ids);
void ids_free(struct ids *ids); /* asserts that there are no objects */
/* Adds an object. The id must be larger than all earlier ones; while a state is loaded, any absent
 * id. Returns false on ENOMEM. */
bool ids_add(struct ids *ids, uint64_t id, void *object);
void *ids_find(const struct ids *ids, uint64_t id); /* NULL: absent */
void *ids_remove(struct ids *ids, uint64_t id);     /* the object, or NULL */
/* Returns the first object with an id > after, and its id, or NULL. Objects may be added and
 * removed during a walk. */
void *ids_next(struct ids *ids, uint64_t after, uint64_t *id);
