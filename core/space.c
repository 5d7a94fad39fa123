/*
 * One process: threads by number and mappings by address, both in sorted arrays.
 */
#include "core/space.h"

#include <stdlib.h>
#include <string.h>

void *space_alloc(uint64_t *bytes, size_t size)
{
    void *block = calloc(1, size);

    if (block)
        *bytes += SPACE_BLOCK(size);
    return block;
}

void space_free(uint64_t *bytes, void *block, size_t size)
{
    if (block)
        *bytes -= SPACE_BLOCK(size);
    free(block);
}

char *space_name(uint64_t *bytes, const char *text, size_t len)
{
    size_t shown = strnlen(text, len < SPACE_NAME ? len : SPACE_NAME - 1);
    char *name = space_alloc(bytes, shown + 1);

    if (name)
        memcpy(name, text, shown);
    return name;
}

void space_name_free(uint64_t *bytes, char *name)
{
    if (name)
        space_free(bytes, name, strlen(name) + 1);
}

/* Mappings. */

static void held_unref(uint64_t *bytes, struct held_map *held)
{
    if (--held->refs == 0)
        space_free(bytes, held, sizeof(*held) + map_of(held)->head.size);
}

static size_t maps_bytes(unsigned size)
{
    return sizeof(struct maps) + size * sizeof(struct held_map *);
}

void space_clear_maps(uint64_t *bytes, struct space *space)
{
    struct maps *maps = space->maps;

    space->maps = NULL;
    if (!maps || --maps->refs > 0)
        return;
    for (unsigned i = 0; i < maps->n; i++)
        held_unref(bytes, maps->held[i]);
    space_free(bytes, maps, maps_bytes(maps->size));
}

void space_share_maps(struct space *child, const struct space *parent)
{
    child->maps = parent->maps;
    if (child->maps)
        child->maps->refs++;
}

/* The process's own mappings with room for one more; NULL: no memory. */
static struct maps *maps_own(uint64_t *bytes, struct space *space)
{
    struct maps *old = space->maps, *maps;
    unsigned n = old ? old->n : 0, size = n < 4 ? 8 : 2 * n;

    if (old && old->refs == 1 && n < old->size)
        return old;
    maps = space_alloc(bytes, maps_bytes(size));
    if (!maps)
        return NULL;
    maps->refs = 1;
    maps->size = size;
    for (; maps->n < n; maps->n++) {
        maps->held[maps->n] = old->held[maps->n];
        maps->held[maps->n]->refs++;
    }
    space_clear_maps(bytes, space);
    space->maps = maps;
    return maps;
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

bool space_map(uint64_t *bytes, struct space *space, const struct record_map *map)
{
    struct maps *maps = maps_own(bytes, space);
    struct held_map *held = maps ? space_alloc(bytes, sizeof(*held) + map->head.size) : NULL;

    if (!held)
        return false;
    held->refs = 1;
    memcpy(held->record, map, map->head.size);
    maps_put(bytes, maps, held);
    return true;
}

/* Threads. */

unsigned space_thread_place(const struct space *space, uint32_t tid)
{
    unsigned low = 0, high = space->n_threads;

    while (low < high) {
        unsigned middle = (low + high) / 2;

        if (space->threads[middle].tid >= tid)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

struct space_thread *space_thread(const struct space *space, uint32_t tid)
{
    unsigned i = space_thread_place(space, tid);

    return i < space->n_threads && space->threads[i].tid == tid ? &space->threads[i] : NULL;
}

static bool threads_grow(uint64_t *bytes, struct space *space)
{
    unsigned size = space->threads_size ? 2 * space->threads_size : 2;
    struct space_thread *threads = space_alloc(bytes, size * sizeof(*threads));

    if (!threads)
        return false;
    if (space->n_threads)
        memcpy(threads, space->threads, space->n_threads * sizeof(*threads));
    space_free(bytes, space->threads, space->threads_size * sizeof(*threads));
    space->threads = threads;
    space->threads_size = size;
    return true;
}

struct space_thread *space_thread_make(uint64_t *bytes, struct space *space, uint32_t tid)
{
    unsigned i = space_thread_place(space, tid);

    if (i < space->n_threads && space->threads[i].tid == tid)
        return &space->threads[i];
    if (space->n_threads == space->threads_size && !threads_grow(bytes, space))
        return NULL;
    memmove(&space->threads[i + 1], &space->threads[i],
            (space->n_threads - i) * sizeof(space->threads[0]));
    space->n_threads++;
    space->threads[i] = (struct space_thread){.tid = tid};
    return &space->threads[i];
}

void space_thread_end(uint64_t *bytes, struct space *space, struct space_thread *thread)
{
    size_t behind = (size_t)(space->threads + space->n_threads - (thread + 1));

    space_name_free(bytes, thread->name);
    memmove(thread, thread + 1, behind * sizeof(*thread));
    space->n_threads--;
}

const char *space_thread_name(const struct space *space, uint32_t tid)
{
    const struct space_thread *thread = space_thread(space, tid);

    return thread && thread->name ? thread->name : space->name;
}

void space_clear(uint64_t *bytes, struct space *space)
{
    while (space->n_threads)
        space_thread_end(bytes, space, &space->threads[space->n_threads - 1]);
    space_free(bytes, space->threads, space->threads_size * sizeof(space->threads[0]));
    space->threads = NULL;
    space->threads_size = 0;
    space_name_free(bytes, space->name);
    space->name = NULL;
    space_clear_maps(bytes, space);
}

uint64_t space_need(const struct space *space, const struct record *record)
{
    unsigned threads = space ? space->threads_size : 0;
    unsigned maps = space && space->maps ? space->maps->n : 0;
    uint64_t need = SPACE_BLOCK(2 * (threads + 1) * sizeof(struct space_thread));

    need += 2 * SPACE_BLOCK(SPACE_NAME); /* of the process and of the thread */
    if (!space)
        need += SPACE_BLOCK(sizeof(*space));
    if (record->type == RECORD_MAP)
        need += SPACE_BLOCK(maps_bytes(2 * maps + 8)) +
                SPACE_BLOCK(sizeof(struct held_map) + record->size);
    return need;
}
