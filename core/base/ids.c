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

static size_t entry_size(const struct ids *ids)
{
    return sizeof(*ids->entries) + (ids->has_names ? IDS_NAME : 0);
}

static struct ids_entry *entry_at(const struct ids *ids, size_t at)
{
    return (void *)((char *)ids->entries + (ids->first + at) * entry_size(ids));
}

static bool entry_is(const struct ids *ids, size_t at, uint64_t id)
{
    return at < ids->n && entry_at(ids, at)->id == id;
}

/* Returns the first entry with an id >= id. If no object was removed in between, its distance from
 * the first entry is the difference of the ids. */
static size_t entry_search(const struct ids *ids, uint64_t id)
{
    size_t low = 0, high = ids->n;

    if (high > 0 && entry_at(ids, high - 1)->id <= id)
        return entry_at(ids, high - 1)->id == id ? high - 1 : high;
    const uint64_t first = high > 0 ? entry_at(ids, 0)->id : UINT64_MAX;
    if (id > first && entry_is(ids, id - first, id))
        return id - first;
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (entry_at(ids, middle)->id < id)
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
    if (ids->first > ids->n / 2) {
        memmove(ids->entries, entry_at(ids, 0), ids->n * entry_size(ids));
        ids->first = 0;
    }
    if (vec_grow(&ids->entries, &ids->size, ids->first + ids->n + 1, entry_size(ids)))
        return false;
    struct ids_entry *entry = entry_at(ids, at);
    memmove(entry_at(ids, at + 1), entry, (ids->n - at) * entry_size(ids));
    entry->id = id;
    entry->object = object;
    ids->n++;
    return true;
}

void *ids_find(const struct ids *ids, uint64_t id)
{
    size_t at = entry_search(ids, id);

    return entry_is(ids, at, id) ? entry_at(ids, at)->object : NULL;
}

void *ids_remove(struct ids *ids, uint64_t id)
{
    size_t at = entry_search(ids, id);
    void *object = entry_is(ids, at, id) ? entry_at(ids, at)->object : NULL;

    if (!object)
        return NULL;
    ids->n--;
    if (at <= ids->n / 2) {
        memmove(entry_at(ids, 1), entry_at(ids, 0), at * entry_size(ids));
        ids->first++;
    } else {
        memmove(entry_at(ids, at), entry_at(ids, at + 1), (ids->n - at) * entry_size(ids));
    }
    return object;
}

/* Returns the first entry with an id > after, or NULL. */
static struct ids_entry *entry_next(struct ids *ids, uint64_t after)
{
    size_t at = after == UINT64_MAX                 ? ids->n
                : entry_is(ids, ids->walked, after) ? ids->walked + 1
                                                    : entry_search(ids, after + 1);

    if (at >= ids->n)
        return NULL;
    ids->walked = at;
    return entry_at(ids, at);
}

void *ids_next(struct ids *ids, uint64_t after, uint64_t *id)
{
    const struct ids_entry *entry = entry_next(ids, after);

    if (!entry)
        return NULL;
    if (ids->n - ids->walked > AHEAD)
        __builtin_prefetch(entry_at(ids, ids->walked + AHEAD)->object);
    *id = entry->id;
    return entry->object;
}

const char *ids_next_name(struct ids *ids, uint64_t after, uint64_t *id)
{
    const struct ids_entry *entry = entry_next(ids, after);

    if (!entry)
        return NULL;
    *id = entry->id;
    return entry->name;
}

void ids_set_name(struct ids *ids, uint64_t id, const char *name)
{
    const size_t at = entry_search(ids, id), len = strlen(name) + 1;

    assert(ids->has_names && entry_is(ids, at, id));
    memcpy(entry_at(ids, at)->name, len > IDS_NAME ? "" : name, len > IDS_NAME ? 1 : len);
}
