/*
 * All processes by number. What is too much goes whole processes at a time, those longest without
 * news first, the kernel last.
 */
#include "core/spaces.h"

#include "core/space.h"

#include <stdlib.h>
#include <string.h>

#define KERNEL        UINT32_MAX
#define FIRST_BUCKETS 64u

struct spaces {
    uint64_t max_bytes, bytes, lost;
    struct process **buckets, *first_buckets[FIRST_BUCKETS];
    size_t n_buckets, n_processes; /* n_buckets: a power of two */
    struct process *oldest, *newest;
};

static struct process **bucket_of(const struct spaces *spaces, uint32_t pid)
{
    return &spaces->buckets[(pid * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (spaces->n_buckets - 1)];
}

static struct process *process_find(const struct spaces *spaces, uint32_t pid)
{
    struct process *process = *bucket_of(spaces, pid);

    while (process && process->pid != pid)
        process = process->next;
    return process;
}

static void list_remove(struct spaces *spaces, struct process *process)
{
    *(process->older ? &process->older->newer : &spaces->oldest) = process->newer;
    *(process->newer ? &process->newer->older : &spaces->newest) = process->older;
}

static void list_append(struct spaces *spaces, struct process *process)
{
    process->older = spaces->newest;
    process->newer = NULL;
    *(spaces->newest ? &spaces->newest->newer : &spaces->oldest) = process;
    spaces->newest = process;
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

static void bucket_add(struct spaces *spaces, struct process *process)
{
    struct process **bucket = bucket_of(spaces, process->pid);

    process->next = *bucket;
    *bucket = process;
}

/* Twice as many; without memory the chains get longer. */
static void buckets_grow(struct spaces *spaces)
{
    struct process **buckets = space_alloc(&spaces->bytes, 2 * buckets_bytes(spaces));

    if (!buckets)
        return;
    buckets_free(spaces);
    spaces->buckets = buckets;
    spaces->n_buckets *= 2;
    for (struct process *process = spaces->oldest; process; process = process->newer)
        bucket_add(spaces, process);
}

static struct process *process_new(struct spaces *spaces, uint32_t pid)
{
    struct process *process = space_alloc(&spaces->bytes, sizeof(*process));

    if (!process)
        return NULL;
    if (spaces->n_processes >= spaces->n_buckets)
        buckets_grow(spaces);
    process->pid = pid;
    bucket_add(spaces, process);
    list_append(spaces, process);
    spaces->n_processes++;
    return process;
}

static void process_remove(struct spaces *spaces, struct process *process)
{
    struct process **link = bucket_of(spaces, process->pid);

    while (*link != process)
        link = &(*link)->next;
    *link = process->next;
    list_remove(spaces, process);
    spaces->n_processes--;
    process_clear(&spaces->bytes, process);
    space_free(&spaces->bytes, process, sizeof(*process));
}

/* The process with this thread, of which there is news; NULL: no memory. */
static struct process *process_told(struct spaces *spaces, uint32_t pid, uint32_t tid)
{
    struct process *process = process_find(spaces, pid);

    if (!process)
        process = process_new(spaces, pid);
    if (!process)
        return NULL;
    list_remove(spaces, process);
    list_append(spaces, process);
    return thread_make(&spaces->bytes, process, tid) ? process : NULL;
}

/* What each type says. False: no memory for it. */

static bool take_name(struct spaces *spaces, uint32_t pid, uint32_t tid, const char *text,
                      size_t len)
{
    struct process *process = process_told(spaces, pid, tid);
    char *name = process ? space_name(&spaces->bytes, text, len) : NULL, **place;

    if (!name)
        return false;
    place = tid == pid ? &process->name : &thread_find(process, tid)->name;
    space_name_free(&spaces->bytes, *place);
    *place = name;
    return true;
}

static bool take_comm(struct spaces *spaces, const struct record_comm *comm)
{
    struct process *process = process_find(spaces, comm->pid);

    if (process && comm->head.misc & RECORD_EXECUTED)
        process_clear(&spaces->bytes, process); /* its other threads have ended too */
    return take_name(spaces, comm->pid, comm->tid, comm->name, strlen(comm->name));
}

static bool take_note(struct spaces *spaces, const struct record_note *note)
{
    uint32_t tid = note->head.type == RECORD_PROCESS || !note->tid ? note->pid : note->tid;

    return take_name(spaces, note->pid, tid, note_text(note), note->text_len);
}

static bool take_map(struct spaces *spaces, const struct record_map *map)
{
    struct process *process;

    if (map->length == 0)
        return true;
    process = process_told(spaces, map->pid, map->tid);
    return process && process_map(&spaces->bytes, process, map);
}

static bool take_thread(struct spaces *spaces, const struct record_task *task)
{
    struct process *process = process_told(spaces, task->pid, task->tid);
    const char *name = process ? thread_name(process, task->ptid) : NULL;
    struct thread *thread;

    if (!process || !name || task->tid == task->pid)
        return process != NULL;
    thread = thread_find(process, task->tid);
    if (!thread->name)
        thread->name = space_name(&spaces->bytes, name, SPACE_NAME);
    return thread->name != NULL;
}

static bool take_child(struct spaces *spaces, const struct process *parent,
                       const struct record_task *task)
{
    struct process *child = process_told(spaces, task->pid, task->tid);
    const char *name = thread_name(parent, task->ptid);

    if (!child)
        return false;
    process_share_maps(child, parent);
    if (name)
        child->name = space_name(&spaces->bytes, name, SPACE_NAME);
    return !name || child->name;
}

/* A child of an unknown parent is not known either, until something is told of it. */
static bool take_fork(struct spaces *spaces, const struct record_task *task)
{
    struct process *parent = process_find(spaces, task->ppid), *before;

    if (task->pid == task->ppid)
        return !parent || take_thread(spaces, task);
    before = process_find(spaces, task->pid);
    if (before)
        process_remove(spaces, before);
    return !parent || take_child(spaces, parent, task);
}

static bool take_exit(struct spaces *spaces, const struct record_task *task)
{
    struct process *process = process_find(spaces, task->pid);
    struct thread *thread = process ? thread_find(process, task->tid) : NULL;

    if (thread)
        thread_end(&spaces->bytes, process, thread);
    if (process && process->n_threads == 0)
        process_remove(spaces, process);
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

static uint64_t process_facts(const struct process *process)
{
    uint64_t n = process->maps ? process->maps->n : 0;

    for (unsigned i = 0; i < process->n_threads; i++)
        n += process->threads[i].name != NULL;
    return n + (process->name != NULL);
}

/* The process longest without news; the kernel last of all. False: there is none. */
static bool give_up_oldest(struct spaces *spaces)
{
    struct process *process = spaces->oldest;

    if (process && process->pid == KERNEL && process->newer)
        process = process->newer;
    if (!process)
        return false;
    spaces->lost += process_facts(process);
    process_remove(spaces, process);
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
    need = process_need(process_find(spaces, pid), record);
    if (spaces->n_processes >= spaces->n_buckets)
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
    spaces->n_buckets = FIRST_BUCKETS;
    return spaces;
}

void spaces_free(struct spaces *spaces)
{
    if (!spaces)
        return;
    while (spaces->oldest)
        process_remove(spaces, spaces->oldest);
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
    const struct process *process = process_find(spaces, pid);
    const struct maps *maps = process ? process->maps : NULL;
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
    const struct process *process = process_find(spaces, pid);

    return process ? thread_name(process, tid) : NULL;
}

/* Printing. */

static size_t print_names(const struct process *process, uint64_t time, struct buf *out)
{
    size_t n = 0;

    for (unsigned i = 0; i < process->n_threads; i++) {
        uint32_t tid = process->threads[i].tid;
        const char *name = thread_name(process, tid);

        if (name) {
            record_add_comm(out, time, process->pid, tid, name, RECORD_FOUND);
            n++;
        }
    }
    return n;
}

static void print_map(const struct record_map *map, uint32_t pid, uint32_t tid, uint64_t time,
                      struct buf *out)
{
    const struct map_facts facts = {
        .pid = pid,
        .tid = tid,
        .start = map->start,
        .length = map->length,
        .offset = map->offset,
        .major = map->major,
        .minor = map->minor,
        .inode = map->inode,
        .generation = map->generation,
        .protection = map->protection,
        .flags = map->flags,
        .path = map->path,
    };

    record_add_map(out, time, &facts, (map->head.misc & RECORD_MODE) | RECORD_FOUND);
}

/* Names first: an exec is not among them, so nothing that follows is taken back. */
static size_t process_print(const struct process *process, uint64_t time, struct buf *out)
{
    unsigned n = process->maps ? process->maps->n : 0;
    uint32_t tid = process->pid;
    size_t names = print_names(process, time, out);

    if (process->n_threads && !thread_find(process, tid))
        tid = process->threads[0].tid; /* the first thread has ended */
    for (unsigned i = 0; i < n; i++)
        print_map(map_of(process->maps->held[i]), process->pid, tid, time, out);
    return names + n;
}

size_t spaces_print(const struct spaces *spaces, uint64_t time, struct buf *out)
{
    const struct process *kernel = process_find(spaces, KERNEL);
    size_t n = kernel ? process_print(kernel, time, out) : 0;

    for (const struct process *process = spaces->oldest; process; process = process->newer)
        if (process != kernel)
            n += process_print(process, time, out);
    return n;
}
