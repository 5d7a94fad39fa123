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

static uint64_t map_end(const struct record_map *map)
{
    return map->length <= UINT64_MAX - map->start ? map->start + map->length : UINT64_MAX;
}

static void held_unref(uint64_t *bytes, struct held *held)
{
    if (--held->refs == 0)
        space_free(bytes, held, sizeof(*held) + map_of(held)->head.size);
}

static size_t maps_bytes(unsigned size)
{
    return sizeof(struct maps) + size * sizeof(struct held *);
}

void process_clear_maps(uint64_t *bytes, struct process *process)
{
    struct maps *maps = process->maps;

    process->maps = NULL;
    if (!maps || --maps->refs > 0)
        return;
    for (unsigned i = 0; i < maps->n; i++)
        held_unref(bytes, maps->held[i]);
    space_free(bytes, maps, maps_bytes(maps->size));
}

void process_share_maps(struct process *child, const struct process *parent)
{
    child->maps = parent->maps;
    if (child->maps)
        child->maps->refs++;
}

/* The process's own mappings with room for one more; NULL: no memory. */
static struct maps *maps_own(uint64_t *bytes, struct process *process)
{
    struct maps *old = process->maps, *maps;
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
    process_clear_maps(bytes, process);
    process->maps = maps;
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

static void maps_put(uint64_t *bytes, struct maps *maps, struct held *held)
{
    uint64_t end = map_end(map_of(held));
    unsigned first = maps_search(maps, map_of(held)->start), behind = first;

    while (behind < maps->n && map_of(maps->held[behind])->start < end)
        held_unref(bytes, maps->held[behind++]);
    memmove(&maps->held[first + 1], &maps->held[behind],
            (maps->n - behind) * sizeof(struct held *));
    maps->held[first] = held;
    maps->n = maps->n + 1 - (behind - first);
}

bool process_map(uint64_t *bytes, struct process *process, const struct record_map *map)
{
    struct maps *maps = maps_own(bytes, process);
    struct held *held = maps ? space_alloc(bytes, sizeof(*held) + map->head.size) : NULL;

    if (!held)
        return false;
    held->refs = 1;
    memcpy(held->record, map, map->head.size);
    maps_put(bytes, maps, held);
    return true;
}

/* Threads. */

static unsigned thread_place(const struct process *process, uint32_t tid)
{
    unsigned low = 0, high = process->n_threads;

    while (low < high) {
        unsigned middle = (low + high) / 2;

        if (process->threads[middle].tid >= tid)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

struct thread *thread_find(const struct process *process, uint32_t tid)
{
    unsigned i = thread_place(process, tid);

    return i < process->n_threads && process->threads[i].tid == tid ? &process->threads[i] : NULL;
}

static bool threads_grow(uint64_t *bytes, struct process *process)
{
    unsigned size = process->threads_size ? 2 * process->threads_size : 2;
    struct thread *threads = space_alloc(bytes, size * sizeof(*threads));

    if (!threads)
        return false;
    if (process->n_threads)
        memcpy(threads, process->threads, process->n_threads * sizeof(*threads));
    space_free(bytes, process->threads, process->threads_size * sizeof(*threads));
    process->threads = threads;
    process->threads_size = size;
    return true;
}

struct thread *thread_make(uint64_t *bytes, struct process *process, uint32_t tid)
{
    unsigned i = thread_place(process, tid);

    if (i < process->n_threads && process->threads[i].tid == tid)
        return &process->threads[i];
    if (process->n_threads == process->threads_size && !threads_grow(bytes, process))
        return NULL;
    memmove(&process->threads[i + 1], &process->threads[i],
            (process->n_threads - i) * sizeof(process->threads[0]));
    process->n_threads++;
    process->threads[i] = (struct thread){.tid = tid};
    return &process->threads[i];
}

void thread_end(uint64_t *bytes, struct process *process, struct thread *thread)
{
    size_t behind = (size_t)(process->threads + process->n_threads - (thread + 1));

    space_name_free(bytes, thread->name);
    memmove(thread, thread + 1, behind * sizeof(*thread));
    process->n_threads--;
}

const char *thread_name(const struct process *process, uint32_t tid)
{
    const struct thread *thread = thread_find(process, tid);

    return thread && thread->name ? thread->name : process->name;
}

void process_clear(uint64_t *bytes, struct process *process)
{
    while (process->n_threads)
        thread_end(bytes, process, &process->threads[process->n_threads - 1]);
    space_free(bytes, process->threads, process->threads_size * sizeof(process->threads[0]));
    process->threads = NULL;
    process->threads_size = 0;
    space_name_free(bytes, process->name);
    process->name = NULL;
    process_clear_maps(bytes, process);
}

uint64_t process_need(const struct process *process, const struct record *record)
{
    unsigned threads = process ? process->threads_size : 0;
    unsigned maps = process && process->maps ? process->maps->n : 0;
    uint64_t need = SPACE_BLOCK(2 * (threads + 1) * sizeof(struct thread));

    need += 2 * SPACE_BLOCK(SPACE_NAME); /* of the process and of the thread */
    if (!process)
        need += SPACE_BLOCK(sizeof(*process));
    if (record->type == RECORD_MAP)
        need +=
            SPACE_BLOCK(maps_bytes(2 * maps + 8)) + SPACE_BLOCK(sizeof(struct held) + record->size);
    return need;
}
