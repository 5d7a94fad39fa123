/*
 * Address spaces and names of processes: the state after all COMM, MAP, FORK and EXIT records up to
 * some record, stored in a task table (tasks.h).
 */
#pragma once

#include "core/log/tasks.h"

/* Returns true for record types that contribute to address spaces and names. */
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
/* Removes processes until the table uses at most max_bytes. */
void spaces_bound(struct tasks *tasks, uint64_t max_bytes);
/* Removes mappings, of the least recently updated processes first, until the table uses at most
 * max_bytes. */
void tasks_bound_maps(struct tasks *tasks, uint64_t max_bytes);
/*
 * A walk prints the address spaces as COMM and MAP records (RECORD_FOUND), a few processes per
 * call, while the table may change between calls. Order: the kernel, then processes from the least
 * recently updated to the latest. A process that is updated during the walk is printed again. A
 * walk prints at most twice the number of processes at its start, so it terminates.
 */
struct spaces_walk {
    uint64_t time; /* time of all records; set by the caller */
    bool begun;
    uint64_t left;         /* limit of processes that are still printed */
    uint64_t kernel, next; /* update numbers below these are printed: of the kernel, of others */
};
/* Prints about max bytes, at least one process, and sets *n to the number of records. Returns true
 * if processes are left. */
bool spaces_tell(const struct tasks *tasks, struct spaces_walk *walk, size_t max, struct buf *out,
                 size_t *n);
/* Prints all processes and returns the number of records. */
size_t spaces_print(const struct tasks *tasks, uint64_t time, struct buf *out);

/* Returns the mapping of a process (TASKS_KERNEL: the kernel) that contains this address, or NULL.
 */
const struct record_map *spaces_find(const struct tasks *tasks, uint32_t pid, uint64_t address);
/* Returns the first mapping of the process that overlaps this range, or NULL. */
const struct record_map *tasks_overlap(const struct tasks *tasks, uint32_t pid, uint64_t start,
                                       uint64_t end);
/* Returns the name of a thread, or else of its process, or NULL. */
const char *spaces_name(const struct tasks *tasks, uint32_t pid, uint32_t tid);
