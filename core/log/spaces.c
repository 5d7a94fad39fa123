/*
 * Mappings in a sorted array that processes share until one changes it; and address spaces: limits
 * their memory, searches them, and prints them as records. Beyond the limit processes are removed,
 * least recently updated first and the kernel last.
 */
#include "core/log/tasks.h"

#include <stdlib.h>
#include <string.h>

/* ---- mappings ---- */

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

static void shared_map_unref(uint64_t *bytes, struct shared_map *shared)
{
    if (--shared->refs == 0)
        block_free(bytes, shared, sizeof(*shared) + map_of(shared)->head.size);
}

static size_t maps_bytes(unsigned size)
{
    return sizeof(struct maps) + size * sizeof(struct shared_map *);
}

void maps_drop(uint64_t *bytes, struct maps **at)
{
    struct maps *maps = *at;

    *at = NULL;
    if (!maps || --maps->refs > 0)
        return;
    for (unsigned i = 0; i < maps->n; i++)
        shared_map_unref(bytes, maps->shared[i]);
    block_free(bytes, maps, maps_bytes(maps->size));
}

/* Returns an unshared array with space for one more mapping, perhaps a copy; NULL on ENOMEM. */
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
        maps->shared[maps->n] = old->shared[maps->n];
        maps->shared[maps->n]->refs++;
    }
    maps_drop(bytes, at);
    return *at = maps;
}

/* Returns the index of the first mapping that ends after this address, or n. maps may be NULL. */
static unsigned maps_search(const struct maps *maps, uint64_t address)
{
    unsigned low = 0, high = maps ? maps->n : 0;

    while (low < high) {
        unsigned middle = (low + high) / 2;

        if (map_end(map_of(maps->shared[middle])) > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

bool maps_add(uint64_t *bytes, struct maps **at, const struct record_map *map)
{
    struct maps *maps = maps_own(bytes, at);
    struct shared_map *shared = maps ? block_alloc(bytes, sizeof(*shared) + map->head.size) : NULL;

    if (!shared)
        return false;
    shared->refs = 1;
    memcpy(shared->record, map, map->head.size);

    /* the new mapping replaces those that it overlaps */
    const uint64_t end = map_end(map_of(shared));
    const unsigned first = maps_search(maps, map_of(shared)->start);
    unsigned after = first;

    while (after < maps->n && map_of(maps->shared[after])->start < end)
        shared_map_unref(bytes, maps->shared[after++]);
    memmove(&maps->shared[first + 1], &maps->shared[after],
            (maps->n - after) * sizeof(struct shared_map *));
    maps->shared[first] = shared;
    maps->n = maps->n + 1 - (after - first);
    return true;
}

/* ---- memory limit ---- */

/*
 * Removes the least recently updated processes, the kernel last. The last process first loses its
 * mappings, then the kernel does, because a log that is too small for mappings may still hold
 * names.
 */
void spaces_bound(struct tasks *tasks, uint64_t max_bytes)
{
    struct logged_process *oldest, *newer, *kernel;

    while (tasks_bytes(tasks) > max_bytes && (oldest = TAILQ_FIRST(&tasks->by_update))) {
        kernel = tasks_process(tasks, TASKS_KERNEL);
        if (oldest == kernel && TAILQ_NEXT(kernel, by_update))
            oldest = TAILQ_NEXT(kernel, by_update);
        newer = TAILQ_NEXT(oldest, by_update);
        const bool is_last = !newer || (newer == kernel && !TAILQ_NEXT(kernel, by_update));

        if (is_last && oldest->maps)
            maps_drop(&tasks->bytes, &oldest->maps);
        else if (is_last && kernel && kernel->maps)
            maps_drop(&tasks->bytes, &kernel->maps);
        else
            tasks_drop(tasks, oldest);
    }
}

void tasks_bound_maps(struct tasks *tasks, uint64_t max_bytes)
{
    const struct logged_process *last = TAILQ_LAST(&tasks->by_update, process_list);
    struct logged_process *oldest;

    while (tasks->bytes > max_bytes && (oldest = TAILQ_FIRST(&tasks->by_update)) != last) {
        maps_drop(&tasks->bytes, &oldest->maps);
        TAILQ_REMOVE(&tasks->by_update, oldest, by_update);
        TAILQ_INSERT_TAIL(&tasks->by_update, oldest, by_update);
    }
}

/* ---- searches ---- */

const struct record_map *tasks_overlap(const struct tasks *tasks, uint32_t pid, uint64_t start,
                                       uint64_t end)
{
    const struct logged_process *process = tasks_process(tasks, pid);
    const struct maps *maps = process ? process->maps : NULL;
    unsigned i = maps_search(maps, start);

    return maps && i < maps->n && map_of(maps->shared[i])->start < end ? map_of(maps->shared[i])
                                                                       : NULL;
}

const char *spaces_name(const struct tasks *tasks, uint32_t pid, uint32_t tid)
{
    const struct logged_process *process = tasks_process(tasks, pid);
    const struct task *task = process ? tasks_find(tasks, tid) : NULL;

    return process ? task_name(process, task && task->process == process ? task : NULL) : NULL;
}

/* ---- output as records ---- */

/* Prints the names, then the mappings. The COMM records have no RECORD_EXECUTED, so they do not
 * clear mappings. Returns the number of records. */
static size_t process_print(const struct logged_process *process, uint64_t time, struct buf *out)
{
    const struct maps *maps = process->maps;
    uint32_t pid = process->pid, tid = pid;
    const struct task *task = TAILQ_FIRST(&process->threads);
    size_t n = 0;

    if (task && pid != TASKS_KERNEL)
        tid = task->tid; /* the main thread may have exited */
    for (; task; task = TAILQ_NEXT(task, along)) {
        const char *name = task_name(process, task);

        if (!name)
            continue;
        if (n++ == 0 && pid != TASKS_KERNEL)
            tid = task->tid; /* prefer a thread that has a COMM record */
        record_add_comm(out, time, pid, task->tid, name, RECORD_FOUND);
    }
    for (unsigned i = 0; maps && i < maps->n; i++, n++)
        record_add_map_of(out, time, map_of(maps->shared[i]), pid, tid,
                          (map_of(maps->shared[i])->head.misc & (RECORD_MODE | RECORD_DATA)) |
                              RECORD_FOUND);
    return n;
}

bool spaces_print_some(const struct tasks *tasks, struct spaces_walk *walk, size_t max,
                       struct buf *out, size_t *n)
{
    const struct logged_process *const kernel = tasks_process(tasks, TASKS_KERNEL);
    const struct logged_process *at, *next = TAILQ_FIRST(&tasks->by_update);
    const size_t begun = out->len;

    if (!walk->begun)
        walk->left = 2 * HASH_COUNT(tasks->processes);
    walk->begun = true;
    for (*n = 0;;) {
        while (next && (next == kernel || next->update < walk->next))
            next = TAILQ_NEXT(next, by_update);
        at = kernel && kernel->update >= walk->kernel ? kernel : next;
        if (!at || (*n > 0 && out->len - begun >= max))
            return at && walk->left;
        *n += process_print(at, walk->time, out);
        walk->left -= walk->left > 0;
        *(at == kernel ? &walk->kernel : &walk->next) = at->update + 1;
    }
}

size_t spaces_print(const struct tasks *tasks, uint64_t time, struct buf *out)
{
    struct spaces_walk walk = {.time = time};
    size_t n;

    spaces_print_some(tasks, &walk, SIZE_MAX, out, &n);
    return n;
}
