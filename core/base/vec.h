/*
 * Containers: growing arrays, hash tables by uthash, and objects by id.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/*
 * uthash, configured to survive ENOMEM. If hash_has(element) is false after HASH_ADD, there was no
 * memory and the table is unchanged.
 */
#define HASH_NONFATAL_OOM 1
/* uthash's default function has fall-throughs that clang warns about. */
#define HASH_FUNCTION HASH_OAT
#include <uthash.h>

#define hash_has(element) ((element)->hh.tbl != NULL)

/* A growing array: any struct with the members items, n and cap. Starts as zeroes; the owner frees
 * items. */
#define VEC(type)                                                                                  \
    struct {                                                                                       \
        type *items;                                                                               \
        size_t n, cap;                                                                             \
    }

/* Makes sure that n items of `size` bytes fit; grows by half. items: address of the pointer to the
 * items. Returns 0, or -ENOMEM without a change. */
static inline int vec_grow(void *items, size_t *cap, size_t n, size_t size)
{
    size_t bigger = n < 4 ? 4 : n + n / 2;
    void *old, *grown;

    if (n <= *cap)
        return 0;
    memcpy(&old, items, sizeof old);
    grown = bigger > SIZE_MAX / 2 / size ? NULL : realloc(old, bigger * size);
    if (!grown)
        return -ENOMEM;
    memcpy(items, &grown, sizeof grown);
    *cap = bigger;
    return 0;
}

/* Makes sure that `more` further items fit. Returns 0, or -ENOMEM without a change. */
#define vec_room(vec, more)                                                                        \
    vec_grow(&(vec)->items, &(vec)->cap, (vec)->n + (more), sizeof *(vec)->items)

/* Adds an item at the end. Returns 0 or -ENOMEM. */
#define vec_push(vec, item)                                                                        \
    (vec_room(vec, 1) ? -ENOMEM : ((vec)->items[(vec)->n] = (item), (vec)->n++, 0))

/* Removes the item at `at`. */
#define vec_remove(vec, at)                                                                        \
    memmove(&(vec)->items[at], &(vec)->items[(at) + 1], (--(vec)->n - (at)) * sizeof *(vec)->items)

/*
 * ---- objects by a 64-bit id, in order ----
 *
 * Most ids are serials, which only grow and are never reused, so adding appends; lookup is a binary
 * search; readdir walks in order with the serial as its cookie. Other ids, such as hashes, work
 * too.
 */

#define IDS_NAME 24 /* bytes for a name, with its NUL */

/* Zeroes are an empty set. */
struct ids {
    struct ids_entry {
        uint64_t id;
        void *object;
        char name[]; /* IDS_NAME bytes, if has_names */
    } * entries;
    size_t n, size;
    size_t first;   /* free entries before the objects, because older ones were removed */
    size_t walked;  /* position of the last ids_next() or ids_next_name() */
    bool has_names; /* for ids_next_name(); set while the set is empty */
};

void ids_free(struct ids *ids); /* asserts that there are no objects */
/* Adds an object. The id must be absent. An id above all others is appended; entries move only if
 * removed ones left much room before them. Returns false on ENOMEM. */
bool ids_add(struct ids *ids, uint64_t id, void *object);
void *ids_find(const struct ids *ids, uint64_t id); /* NULL: absent */
void *ids_remove(struct ids *ids, uint64_t id);     /* the object, or NULL */
/* Returns the first object with an id > after, and its id, or NULL. Objects may be added and
 * removed during a walk. */
void *ids_next(struct ids *ids, uint64_t after, uint64_t *id);
/*
 * ids_set_name() copies a name to an object's entry. ids_next_name() walks like ids_next() and
 * returns the copy, or NULL at the end; "": the name was too long. The walk does not touch the
 * objects, which are far apart in memory.
 */
void ids_set_name(struct ids *ids, uint64_t id, const char *name);
const char *ids_next_name(struct ids *ids, uint64_t after, uint64_t *id);
