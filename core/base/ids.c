/*
 * Objects by id, in a sorted vector.
 */
#include "core/base/vec.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define AHEAD 8 /* objects that a walk prefetches: they are far apart in memory */

void ids_free(struct ids *ids)
{
    assert(ids->n == 0);
    free(ids->entries);
    *ids = (struct ids){0};
}

static bool entry_is(const struct ids *ids, size_t at, uint64_t id)
{
    return at < ids->n && ids->entries[at].id == id;
}

/* Returns the first entry with an id >= id. If no object was removed in between, its distance from
 * the first entry is the difference of the ids. */
static size_t entry_search(const struct ids *ids, uint64_t id)
{
    size_t low = 0, high = ids->n;

    if (high > 0 && ids->entries[high - 1].id <= id)
        return ids->entries[high - 1].id == id ? high - 1 : high;
    if (high > 0 && id > ids->entries[0].id && entry_is(ids, id - ids->entries[0].id, id))
        return id - ids->entries[0].id;
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (ids->entries[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool ids_add(struct ids *ids, uint64_t id, void *object)
{
    size_t at = entry_search(ids, id);

    assert(object && !entry_is(ids, at, id));
    if (vec_grow(&ids->entries, &ids->size, ids->n + 1, sizeof(*ids->entries)))
        return false;
    memmove(&ids->entries[at + 1], &ids->entries[at], (ids->n - at) * sizeof(*ids->entries));
    ids->entries[at] = (struct ids_entry){.id = id, .object = object};
    ids->n++;
    return true;
}

void *ids_find(const struct ids *ids, uint64_t id)
{
    size_t at = entry_search(ids, id);

    return entry_is(ids, at, id) ? ids->entries[at].object : NULL;
}

void *ids_remove(struct ids *ids, uint64_t id)
{
    size_t at = entry_search(ids, id);
    void *object = entry_is(ids, at, id) ? ids->entries[at].object : NULL;

    if (!object)
        return NULL;
    ids->n--;
    memmove(&ids->entries[at], &ids->entries[at + 1], (ids->n - at) * sizeof(*ids->entries));
    return object;
}

void *ids_next(struct ids *ids, uint64_t after, uint64_t *id)
{
    size_t at = after == UINT64_MAX                 ? ids->n
                : entry_is(ids, ids->walked, after) ? ids->walked + 1
                                                    : entry_search(ids, after + 1);

    if (at >= ids->n)
        return NULL;
    ids->walked = at;
    if (ids->n - at > AHEAD)
        __builtin_prefetch(ids->entries[at + AHEAD].object);
    *id = ids->entries[at].id;
    return ids->entries[at].object;
}
