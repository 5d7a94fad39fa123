/*
 * A growing array: any struct with the members items, n and cap. It starts as zeroes; free(items)
 * ends it.
 */
#pragma once

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define VEC(type)                                                                                  \
    struct {                                                                                       \
        type *items;                                                                               \
        size_t n, cap;                                                                             \
    }

/* Room for n items of size bytes in all, and half as many more where it must grow. 0 or -ENOMEM. */
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

/* Room for `more` items behind those that are there. 0 or -ENOMEM: then nothing changed. */
#define vec_room(vec, more)                                                                        \
    vec_grow(&(vec)->items, &(vec)->cap, (vec)->n + (more), sizeof *(vec)->items)

/* Add an item at the end. 0 or -ENOMEM. */
#define vec_push(vec, item)                                                                        \
    (vec_room(vec, 1) ? -ENOMEM : ((vec)->items[(vec)->n] = (item), (vec)->n++, 0))

/* Make room for one item at `at`, for which there is memory (vec_room): its old bytes remain. */
#define vec_open(vec, at)                                                                          \
    memmove(&(vec)->items[(at) + 1], &(vec)->items[at], ((vec)->n++ - (at)) * sizeof *(vec)->items)

/* Take the item at `at` out; what follows moves up. */
#define vec_remove(vec, at)                                                                        \
    memmove(&(vec)->items[at], &(vec)->items[(at) + 1], (--(vec)->n - (at)) * sizeof *(vec)->items)
