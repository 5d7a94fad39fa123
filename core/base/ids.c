/*
 * Serials in a sorted vector.
 */
#include "core/base/vec.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define AHEAD 8 /* objects that a walk prefetches: they are far apart in memory */

void ids_init(struct ids *ids)
{
    *ids = (struct ids){0};
}

void ids_free(struct ids *ids)
{
    assert(ids->n == 0);
    free(ids->slots);
    ids_init(ids);
}

static bool slot_is(const struct ids *ids, size_t at, uint64_t id)
{
    return at < ids->n && ids->slots[at].id == id;
}

/* Returns the first slot with an id >= id. If no object was removed in between, its distance from
 * the first slot is the difference of the ids. */
static size_t slot_search(const struct ids *ids, uint64_t id)
{
    size_t low = 0, high = ids->n;

    if (high > 0 && ids->slots[high - 1].id <= id)
        return ids->slots[high - 1].id == id ? high - 1 : high;
    if (high > 0 && id > ids->slots[0].id && slot_is(ids, id - ids->slots[0].id, id))
        return id - ids->slots[0].id;
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (ids->slots[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool ids_add(struct ids *ids, uint64_t id, void *object)
{
    size_t at = slot_search(ids, id);

    assert(object && !slot_is(ids, at, id));
    if (vec_grow(&ids->slots, &ids->size, ids->n + 1, sizeof(*ids->slots)))
        return false;
    memmove(&ids->slots[at + 1], &ids->slots[at], (ids->n - at) * sizeof(*ids->slots));
    ids->slots[at] = (struct ids_slot){.id = id, .object = object};
    ids->n++;
    return true;
}

void *ids_find(const struct ids *ids, uint64_t id)
{
    size_t at = slot_search(ids, id);

    return slot_is(ids, at, id) ? ids->slots[at].object : NULL;
}

void *ids_remove(struct ids *ids, uint64_t id)
{
    size_t at = slot_search(ids, id);
    void *object = slot_is(ids, at, id) ? ids->slots[at].object : NULL;

    if (!object)
        return NULL;
    ids->n--;
    memmove(&ids->slots[at], &ids->slots[at + 1], (ids->n - at) * sizeof(*ids->slots));
    return object;
}

void *ids_next(struct ids *ids, uint64_t after, uint64_t *id)
{
    size_t at = after == UINT64_MAX                ? ids->n
                : slot_is(ids, ids->walked, after) ? ids->walked + 1
                                                   : slot_search(ids, after + 1);

    if (at >= ids->n)
        return NULL;
    ids->walked = at;
    if (ids->n - at > AHEAD)
        __builtin_prefetch(ids->slots[at + AHEAD].object);
    *id = ids->slots[at].id;
    return ids->slots[at].object;
}
