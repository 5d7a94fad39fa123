/*
 * Mappings in a sorted array that processes share until one changes it.
 */
#include "core/log/maps.h"

#include <stdlib.h>
#include <string.h>

void *block_alloc(uint64_t *bytes, size_t size)
{
    void *block = calloc(1, size);

    if (block)
        *bytes += BLOCK_BYTES(size);
    return block;
}

void block_free(uint64_t *bytes, void *block, size_t size)
{
    if (block)
        *bytes -= BLOCK_BYTES(size);
    free(block);
}

static void held_unref(uint64_t *bytes, struct held_map *held)
{
    if (--held->refs == 0)
        block_free(bytes, held, sizeof(*held) + map_of(held)->head.size);
}

static size_t maps_bytes(unsigned size)
{
    return sizeof(struct maps) + size * sizeof(struct held_map *);
}

void maps_drop(uint64_t *bytes, struct maps **at)
{
    struct maps *maps = *at;

    *at = NULL;
    if (!maps || --maps->refs > 0)
        return;
    for (unsigned i = 0; i < maps->n; i++)
        held_unref(bytes, maps->held[i]);
    block_free(bytes, maps, maps_bytes(maps->size));
}

struct maps *maps_share(struct maps *maps)
{
    if (maps)
        maps->refs++;
    return maps;
}

/* Returns an unshared array with space for one more mapping, copied if necessary; NULL on ENOMEM.
 */
static struct maps *maps_own(uint64_t *bytes, struct maps **at)
{
    struct maps *old = *at, *maps;
    unsigned n = old ? old->n : 0, size = n < 4 ? 8 : 2 * n;

    if (old && old->refs == 1 && n < old->size)
        return old;
    maps = block_alloc(bytes, maps_bytes(size));
    if (!maps)
        return NULL;
    maps->refs = 1;
    maps->size = size;
    for (; maps->n < n; maps->n++) {
        maps->held[maps->n] = old->held[maps->n];
        maps->held[maps->n]->refs++;
    }
    maps_drop(bytes, at);
    return *at = maps;
}

unsigned maps_search(const struct maps *maps, uint64_t address)
{
    unsigned low = 0, high = maps ? maps->n : 0;

    while (low < high) {
        unsigned middle = (low + high) / 2;

        if (map_end(map_of(maps->held[middle])) > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void maps_put(uint64_t *bytes, struct maps *maps, struct held_map *held)
{
    uint64_t end = map_end(map_of(held));
    unsigned first = maps_search(maps, map_of(held)->start), behind = first;

    while (behind < maps->n && map_of(maps->held[behind])->start < end)
        held_unref(bytes, maps->held[behind++]);
    memmove(&maps->held[first + 1], &maps->held[behind],
            (maps->n - behind) * sizeof(struct held_map *));
    maps->held[first] = held;
    maps->n = maps->n + 1 - (behind - first);
}

bool maps_add(uint64_t *bytes, struct maps **at, const struct record_map *map)
{
    struct maps *maps = maps_own(bytes, at);
    struct held_map *held = maps ? block_alloc(bytes, sizeof(*held) + map->head.size) : NULL;

    if (!held)
        return false;
    held->refs = 1;
    memcpy(held->record, map, map->head.size);
    maps_put(bytes, maps, held);
    return true;
}
