/*
 * What is known of address spaces, as records again: for readers in pieces, since they may take
 * their time, and what is told must not be kept for them.
 */
#include "core/space.h"
#include "core/spaces.h"

#include <inttypes.h>
#include <stdio.h>

#define NOBODY INT64_C(-1)

/* Whoever is next: the kernel before all others. NULL: nobody is. */
static const struct space *walk_next(const struct spaces *spaces, const struct spaces_walk *walk,
                                     const struct space *from)
{
    const struct space *kernel = space_of(spaces, SPACE_KERNEL), *space = from;

    if (kernel && kernel->news >= walk->kernel)
        return kernel;
    while (space && (space == kernel || space->news < walk->next))
        space = space->newer;
    return space;
}

static void walk_begin(const struct spaces *spaces, struct spaces_walk *walk)
{
    walk->begun = true;
    for (const struct space *space = spaces->oldest; space; space = space->newer)
        walk->facts += 2 * space_facts(space);
}

struct telling {
    uint64_t time;
    struct buf *out;
    size_t end; /* of out */
    size_t n;
};

static bool is_full(const struct telling *telling)
{
    return telling->n > 0 && telling->out->len >= telling->end;
}

/* Names first: an exec is not among them, so nothing that follows is taken back. */
static void tell_names(struct telling *telling, const struct space *space, struct spaces_walk *walk)
{
    unsigned i =
        walk->tid <= UINT32_MAX ? space_thread_place(space, (uint32_t)walk->tid) : space->n_threads;

    for (; i < space->n_threads && !is_full(telling); i++) {
        uint32_t tid = space->threads[i].tid;
        const char *name = space_thread_name(space, tid);

        if (name) {
            record_add_comm(telling->out, telling->time, space->pid, tid, name, RECORD_FOUND);
            telling->n++;
        }
        walk->tid = (uint64_t)tid + 1;
    }
    if (i == space->n_threads)
        walk->tid = UINT64_MAX;
}

static void tell_maps(struct telling *telling, const struct space *space, struct spaces_walk *walk)
{
    unsigned n = space->maps ? space->maps->n : 0, i = maps_search(space->maps, walk->address);
    uint32_t tid = space->pid;

    if (space->n_threads && !space_thread(space, tid))
        tid = space->threads[0].tid; /* the first thread has ended */
    for (; i < n && !is_full(telling); i++) {
        const struct record_map *map = map_of(space->maps->held[i]);

        record_add_map_of(telling->out, telling->time, map, space->pid, tid,
                          (map->head.misc & RECORD_MODE) | RECORD_FOUND);
        telling->n++;
        walk->address = map_end(map);
    }
    if (i == n)
        walk->address = UINT64_MAX;
}

/* One process, on from where the walk is in it. */
static void tell_space(struct telling *telling, const struct space *space, struct spaces_walk *walk)
{
    if (walk->news != space->news) {
        walk->news = space->news;
        walk->tid = walk->address = 0;
    }
    tell_names(telling, space, walk);
    if (walk->tid == UINT64_MAX)
        tell_maps(telling, space, walk);
    if (walk->address == UINT64_MAX)
        *(space->pid == SPACE_KERNEL ? &walk->kernel : &walk->next) = space->news + 1;
}

bool spaces_tell(const struct spaces *spaces, struct spaces_walk *walk, size_t max, struct buf *out,
                 size_t *n)
{
    struct telling telling = {.time = walk->time,
                              .out = out,
                              .end = max < SIZE_MAX - out->len ? out->len + max : SIZE_MAX};
    const struct space *space = spaces->oldest;

    if (!walk->begun)
        walk_begin(spaces, walk);
    while ((space = walk_next(spaces, walk, space)) && !is_full(&telling)) {
        tell_space(&telling, space, walk);
        if (space->pid == SPACE_KERNEL)
            space = spaces->oldest;
    }
    *n = telling.n;
    walk->facts -= telling.n < walk->facts ? telling.n : walk->facts;
    return space && walk->facts;
}

size_t spaces_print(const struct spaces *spaces, uint64_t time, struct buf *out)
{
    struct spaces_walk walk = {.time = time};
    size_t n;

    spaces_tell(spaces, &walk, SIZE_MAX, out, &n);
    return n;
}

/*
 * "TIME,PID,TID,ADDRESS": who is next. A walk by numbers of news would not find its place again:
 * they begin anew.
 */
void spaces_walk_print(const struct spaces *spaces, const struct spaces_walk *walk, struct buf *out)
{
    struct spaces_walk at = *walk;
    const struct space *space;

    /* Of whom there is nothing to tell nothing is saved. */
    while ((space = walk_next(spaces, &at, spaces->oldest)) && !space_facts(space))
        *(space->pid == SPACE_KERNEL ? &at.kernel : &at.next) = space->news + 1;
    if (!space || space->news != at.news)
        at.tid = at.address = 0;
    buf_printf(out, "%" PRIu64 ",%" PRIi64 ",%" PRIu64 ",%" PRIu64, at.time,
               space ? (int64_t)space->pid : NOBODY, at.tid, at.address);
}

/* Who is not there any more was given up, as the first ones are: then all are told. */
static void walk_find(const struct spaces *spaces, struct spaces_walk *walk, int64_t pid)
{
    const struct space *kernel = space_of(spaces, SPACE_KERNEL);
    const struct space *space = pid == NOBODY ? NULL : space_of(spaces, (uint32_t)pid);

    walk->news = space ? space->news : 0;
    if (pid == NOBODY)
        walk->next = spaces->news + 1;
    else if (space && space != kernel)
        walk->next = space->news;
    if (kernel && walk->next)
        walk->kernel = kernel->news + 1;
}

bool spaces_walk_scan(const struct spaces *spaces, const char *text, struct spaces_walk *walk)
{
    int64_t pid;
    int used = 0;

    *walk = (struct spaces_walk){.begun = false};
    if (sscanf(text, "%" SCNu64 ",%" SCNi64 ",%" SCNu64 ",%" SCNu64 "%n", &walk->time, &pid,
               &walk->tid, &walk->address, &used) != 4 ||
        text[used])
        return false;
    if (spaces)
        walk_find(spaces, walk, pid);
    return true;
}
