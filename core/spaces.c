/*
 * All processes by number. What is too much goes whole processes at a time, those longest without
 * news first, the kernel last.
 */
#include "core/spaces.h"

#include "core/space.h"

#include <stdlib.h>
#include <string.h>

static struct space **bucket_of(const struct spaces *spaces, uint32_t pid)
{
    return &spaces->buckets[(pid * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (spaces->n_buckets - 1)];
}

struct space *space_of(const struct spaces *spaces, uint32_t pid)
{
    struct space *space = *bucket_of(spaces, pid);

    while (space && space->pid != pid)
        space = space->next;
    return space;
}

static void list_remove(struct spaces *spaces, struct space *space)
{
    *(space->older ? &space->older->newer : &spaces->oldest) = space->newer;
    *(space->newer ? &space->newer->older : &spaces->newest) = space->older;
}

static void list_append(struct spaces *spaces, struct space *space)
{
    space->older = spaces->newest;
    space->newer = NULL;
    space->news = ++spaces->news;
    *(spaces->newest ? &spaces->newest->newer : &spaces->oldest) = space;
    spaces->newest = space;
}

static size_t buckets_bytes(const struct spaces *spaces)
{
    return spaces->n_buckets * sizeof(spaces->buckets[0]);
}

static void buckets_free(struct spaces *spaces)
{
    if (spaces->buckets != spaces->first_buckets)
        space_free(&spaces->bytes, spaces->buckets, buckets_bytes(spaces));
}

static void bucket_add(struct spaces *spaces, struct space *space)
{
    struct space **bucket = bucket_of(spaces, space->pid);

    space->next = *bucket;
    *bucket = space;
}

/* Twice as many; without memory the chains get longer. */
static void buckets_grow(struct spaces *spaces)
{
    struct space **buckets = space_alloc(&spaces->bytes, 2 * buckets_bytes(spaces));

    if (!buckets)
        return;
    buckets_free(spaces);
    spaces->buckets = buckets;
    spaces->n_buckets *= 2;
    for (struct space *space = spaces->oldest; space; space = space->newer)
        bucket_add(spaces, space);
}

static struct space *space_new(struct spaces *spaces, uint32_t pid)
{
    struct space *space = space_alloc(&spaces->bytes, sizeof(*space));

    if (!space)
        return NULL;
    if (spaces->n_spaces >= spaces->n_buckets)
        buckets_grow(spaces);
    space->pid = pid;
    bucket_add(spaces, space);
    list_append(spaces, space);
    spaces->n_spaces++;
    return space;
}

static void space_remove(struct spaces *spaces, struct space *space)
{
    struct space **link = bucket_of(spaces, space->pid);

    while (*link != space)
        link = &(*link)->next;
    *link = space->next;
    list_remove(spaces, space);
    spaces->n_spaces--;
    space_clear(&spaces->bytes, space);
    space_free(&spaces->bytes, space, sizeof(*space));
}

/* The process with this thread, of which there is news; NULL: no memory. */
static struct space *space_told(struct spaces *spaces, uint32_t pid, uint32_t tid)
{
    struct space *space = space_of(spaces, pid);

    if (!space)
        space = space_new(spaces, pid);
    if (!space)
        return NULL;
    list_remove(spaces, space);
    list_append(spaces, space);
    return space_thread_make(&spaces->bytes, space, tid) ? space : NULL;
}

/* What each type says. False: no memory for it. */

static bool take_name(struct spaces *spaces, uint32_t pid, uint32_t tid, const char *text,
                      size_t len)
{
    struct space *space = space_told(spaces, pid, tid);
    char *name = space ? space_name(&spaces->bytes, text, len) : NULL, **place;

    if (!name)
        return false;
    place = tid == pid ? &space->name : &space_thread(space, tid)->name;
    space_name_free(&spaces->bytes, *place);
    *place = name;
    return true;
}

static bool take_comm(struct spaces *spaces, const struct record_comm *comm)
{
    struct space *space = space_of(spaces, comm->pid);

    if (space && comm->head.misc & RECORD_EXECUTED)
        space_clear(&spaces->bytes, space); /* its other threads have ended too */
    return take_name(spaces, comm->pid, comm->tid, comm->name, strlen(comm->name));
}

static bool take_note(struct spaces *spaces, const struct record_note *note)
{
    uint32_t tid = note->head.type == RECORD_PROCESS || !note->tid ? note->pid : note->tid;

    return take_name(spaces, note->pid, tid, note_text(note), note->text_len);
}

static bool take_map(struct spaces *spaces, const struct record_map *map)
{
    struct space *space;

    if (map->length == 0)
        return true;
    space = space_told(spaces, map->pid, map->tid);
    return space && space_map(&spaces->bytes, space, map);
}

static bool take_thread(struct spaces *spaces, const struct record_task *task)
{
    struct space *space = space_told(spaces, task->pid, task->tid);
    const char *name = space ? space_thread_name(space, task->ptid) : NULL;
    struct space_thread *thread;

    if (!space || !name || task->tid == task->pid)
        return space != NULL;
    thread = space_thread(space, task->tid);
    if (!thread->name)
        thread->name = space_name(&spaces->bytes, name, SPACE_NAME);
    return thread->name != NULL;
}

static bool take_child(struct spaces *spaces, const struct space *parent,
                       const struct record_task *task)
{
    struct space *child = space_told(spaces, task->pid, task->tid);
    const char *name = space_thread_name(parent, task->ptid);

    if (!child)
        return false;
    space_share_maps(child, parent);
    if (name)
        child->name = space_name(&spaces->bytes, name, SPACE_NAME);
    return !name || child->name;
}

/* A child of an unknown parent is not known either, until something is told of it. */
static bool take_fork(struct spaces *spaces, const struct record_task *task)
{
    struct space *parent = space_of(spaces, task->ppid), *before;

    if (task->pid == task->ppid)
        return !parent || take_thread(spaces, task);
    before = space_of(spaces, task->pid);
    if (before)
        space_remove(spaces, before);
    return !parent || take_child(spaces, parent, task);
}

static bool take_exit(struct spaces *spaces, const struct record_task *task)
{
    struct space *space = space_of(spaces, task->pid);
    struct space_thread *thread = space ? space_thread(space, task->tid) : NULL;

    if (thread)
        space_thread_end(&spaces->bytes, space, thread);
    if (space && space->n_threads == 0)
        space_remove(spaces, space);
    return true;
}

static bool take(struct spaces *spaces, const struct record *record)
{
    switch ((enum record_type)record->type) {
    case RECORD_COMM:
        return take_comm(spaces, (const struct record_comm *)record);
    case RECORD_MAP:
        return take_map(spaces, (const struct record_map *)record);
    case RECORD_FORK:
        return take_fork(spaces, (const struct record_task *)record);
    case RECORD_EXIT:
        return take_exit(spaces, (const struct record_task *)record);
    case RECORD_PROCESS:
    case RECORD_THREAD:
        return take_note(spaces, (const struct record_note *)record);
    default:
        return true;
    }
}

/* Room. */

uint64_t space_facts(const struct space *space)
{
    uint64_t n = space->maps ? space->maps->n : 0;

    for (unsigned i = 0; i < space->n_threads; i++)
        n += space->threads[i].name != NULL;
    return n + (space->name != NULL);
}

static bool give_up_maps(struct spaces *spaces, struct space *space)
{
    if (!space || !space->maps)
        return false;
    spaces->lost += space->maps->n;
    space_clear_maps(&spaces->bytes, space);
    return true;
}

/* But for the kernel. */
static bool is_last(const struct space *space)
{
    const struct space *newer = space->newer;

    return !newer || (newer->pid == SPACE_KERNEL && !newer->newer);
}

/*
 * The process longest without news; the kernel last of all. Of one alone first the mappings, its
 * own and then the kernel's: names are small, and a log that is too small for mappings has room for
 * them. False: there is none.
 */
static bool give_up_oldest(struct spaces *spaces)
{
    struct space *space = spaces->oldest;

    if (space && space->pid == SPACE_KERNEL && space->newer)
        space = space->newer;
    if (!space)
        return false;
    if (is_last(space) &&
        (give_up_maps(spaces, space) || give_up_maps(spaces, space_of(spaces, SPACE_KERNEL))))
        return true;
    spaces->lost += space_facts(space);
    space_remove(spaces, space);
    return true;
}

void spaces_take(struct spaces *spaces, const struct record *record)
{
    if (!take(spaces, record))
        spaces->lost++;
    while (spaces->bytes > spaces->max_bytes && give_up_oldest(spaces))
        ;
}

uint64_t spaces_need(const struct spaces *spaces, const struct record *record)
{
    /* COMM, MAP and FORK begin alike; notes have the PID elsewhere. */
    uint32_t pid = record_is_note(record) ? ((const struct record_note *)record)->pid
                                          : ((const struct record_comm *)record)->pid;
    uint64_t need;

    if (!spaces_wants(record) || record->type == RECORD_EXIT)
        return 0;
    need = space_need(space_of(spaces, pid), record);
    if (spaces->n_spaces >= spaces->n_buckets)
        need += SPACE_BLOCK(2 * buckets_bytes(spaces));
    return need;
}

struct spaces *spaces_new(uint64_t max_bytes)
{
    struct spaces *spaces = calloc(1, sizeof(*spaces));

    if (!spaces)
        return NULL;
    spaces->max_bytes = max_bytes;
    spaces->buckets = spaces->first_buckets;
    spaces->n_buckets = SPACE_BUCKETS;
    return spaces;
}

void spaces_free(struct spaces *spaces)
{
    if (!spaces)
        return;
    while (spaces->oldest)
        space_remove(spaces, spaces->oldest);
    buckets_free(spaces);
    free(spaces);
}

void spaces_set_max(struct spaces *spaces, uint64_t max_bytes)
{
    spaces->max_bytes = max_bytes;
}

uint64_t spaces_bytes(const struct spaces *spaces)
{
    return spaces ? spaces->bytes : 0;
}

uint64_t spaces_lost(const struct spaces *spaces)
{
    return spaces ? spaces->lost : 0;
}

/* Asking. */

const struct record_map *spaces_overlap(const struct spaces *spaces, uint32_t pid, uint64_t start,
                                        uint64_t end)
{
    const struct space *space = space_of(spaces, pid);
    const struct maps *maps = space ? space->maps : NULL;
    unsigned i = maps_search(maps, start);

    return maps && i < maps->n && map_of(maps->held[i])->start < end ? map_of(maps->held[i]) : NULL;
}

const struct record_map *spaces_find(const struct spaces *spaces, uint32_t pid, uint64_t address)
{
    /* The last address is in no mapping: its end could not be told. */
    return address < UINT64_MAX ? spaces_overlap(spaces, pid, address, address + 1) : NULL;
}

const char *spaces_name(const struct spaces *spaces, uint32_t pid, uint32_t tid)
{
    const struct space *space = space_of(spaces, pid);

    return space ? space_thread_name(space, tid) : NULL;
}
