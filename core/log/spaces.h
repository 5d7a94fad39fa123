/*
 * Address spaces and names of processes, as records tell them: what COMM, MAP, FORK and EXIT
 * records amount to up to some moment, which stands in a table of tasks (tasks.h).
 */
#pragma once

#include "core/log/tasks.h"

/* COMM, MAP, FORK, EXIT, and the notes PROCESS and THREAD, which give names too. */
static inline bool spaces_wants(const struct record *record)
{
    switch ((enum record_type)record->type) {
    case RECORD_COMM:
    case RECORD_MAP:
    case RECORD_FORK:
    case RECORD_EXIT:
    case RECORD_PROCESS:
    case RECORD_THREAD:
        return true;
    default:
        return false;
    }
}
/* Gives up as much as it takes for the rest to need no more than that. */
void spaces_bound(struct tasks *tasks, uint64_t max_bytes);
/* The mappings of processes alone have a bound: those longest without news lose theirs. */
void tasks_bound_maps(struct tasks *tasks, uint64_t max_bytes);
/*
 * What is known, as COMM and MAP records (RECORD_FOUND), a few processes at a time while things
 * change: a walk from the process longest without news to that with the latest, the kernel first.
 * A process of which there are news meanwhile is told again, as it is then; but not for ever: at
 * most twice what there was when it began.
 */
struct spaces_walk {
    uint64_t time; /* of all that is told; by the reader that begins the walk */
    bool begun;
    uint64_t left;         /* processes that may still be told */
    uint64_t kernel, next; /* told are lower numbers of news: the kernel's, those of all others */
};
/* About max bytes, at least one process. True: something is left. */
bool spaces_tell(const struct tasks *tasks, struct spaces_walk *walk, size_t max, struct buf *out,
                 size_t *n);
/* Everything at once; returns the number of records. */
size_t spaces_print(const struct tasks *tasks, uint64_t time, struct buf *out);

/* The mapping of a process (TASKS_KERNEL: the kernel) that holds this address, or NULL. */
const struct record_map *spaces_find(const struct tasks *tasks, uint32_t pid, uint64_t address);
/* A mapping of the process that overlaps this range, or NULL (which a new map-in unmaps). */
const struct record_map *tasks_overlap(const struct tasks *tasks, uint32_t pid, uint64_t start,
                                       uint64_t end);
/* The name of a thread, or of its process, or NULL. */
const char *spaces_name(const struct tasks *tasks, uint32_t pid, uint32_t tid);
