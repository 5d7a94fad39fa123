/*
 * A sorted vector. What is removed leaves an empty slot (object NULL) until half of the slots are
 * empty, so that releasing 100,000 PMCs in any order does not move 100,000 slots each time.
 */
#include "core/base/ids.h"

#include "core/base/vec.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

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

/* The first slot with an id >= id; the newest object is asked for most. */
static size_t slot_search(const struct ids *ids, uint64_t id)
{
    size_t low = ids->first, high = ids->used;

    if (high > low && ids->slots[high - 1].id <= id)
        return ids->slots[high - 1].id == id ? high - 1 : high;
    if (ids->last >= low && ids->last < high && ids->slots[ids->last].id < id) {
        low = ids->last + 1; /* a walk: mostly the slot after the one before */
        if (ids->slots[low].id >= id)
            return low;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (ids->slots[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool slot_is(const struct ids *ids, size_t at, uint64_t id)
{
    return at < ids->used && ids->slots[at].id == id;
}

/* Moves what is there to the front. */
static void slots_compact(struct ids *ids)
{
    size_t to = 0;

    for (size_t i = ids->first; i < ids->used; i++)
        if (ids->slots[i].object)
            ids->slots[to++] = ids->slots[i];
    ids->first = 0;
    ids->used = to;
}

bool ids_add(struct ids *ids, uint64_t id, void *object)
{
    size_t at = slot_search(ids, id);

    assert(object);
    if (slot_is(ids, at, id)) {
        assert(!ids->slots[at].object);
    } else {
        if (vec_grow(&ids->slots, &ids->size, ids->used + 1, sizeof(*ids->slots)))
            return false;
        memmove(&ids->slots[at + 1], &ids->slots[at], (ids->used - at) * sizeof(*ids->slots));
        ids->used++;
    }
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
    ids->slots[at].object = NULL;
    ids->n--;
    /* No empty slots at either end: a walk from the start and a look at the last stay short. */
    while (ids->first < ids->used && !ids->slots[ids->first].object)
        ids->first++;
    while (ids->used > ids->first && !ids->slots[ids->used - 1].object)
        ids->used--;
    if (ids->used > 2 * ids->n)
        slots_compact(ids);
    return object;
}

void *ids_next(struct ids *ids, uint64_t after, uint64_t *id)
{
    if (after == UINT64_MAX)
        return NULL;
    for (size_t at = slot_search(ids, after + 1); at < ids->used; at++) {
        if (ids->slots[at].object) {
            *id = ids->slots[at].id;
            ids->last = at;
            return ids->slots[at].object;
        }
    }
    return NULL;
}
