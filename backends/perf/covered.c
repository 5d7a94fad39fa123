/*
 * A hash of process numbers with open addressing, and a short memory of records that could not be
 * placed: a child's record may be read from its CPU's ring before its parent's from another.
 */
#include "backends/perf/covered.h"

#include <stdlib.h>
#include <string.h>

enum {
    UNPLACED = 128,
    DROP_NS = 100000000 /* from the EXEC to the EXIT: it may lose its CPU in between */
};

struct covered {
    struct covered_slot {
        pid_t pid;        /* 0 never used */
        int threads;      /* 0: gone, the slot may be used again for the same number */
        bool suspect;     /* its first thread's EXIT came soon after an exec */
        uint64_t exec_ns; /* its last exec */
    } * slots;
    size_t size; /* a power of two */
    size_t used; /* slots with a number, gone ones included */
    pid_t target;
    unsigned n, n_suspects;
    bool doubt;
    bool dropped;
    struct side_record unplaced[UNPLACED];
    size_t next_unplaced;
};

struct covered *covered_new(pid_t target)
{
    struct covered *covered = calloc(1, sizeof *covered);

    if (!covered)
        return NULL;
    covered->target = target;
    covered->size = 64;
    covered->slots = calloc(covered->size, sizeof *covered->slots);
    if (!covered->slots) {
        free(covered);
        return NULL;
    }
    return covered;
}

void covered_free(struct covered *covered)
{
    if (covered)
        free(covered->slots);
    free(covered);
}

void covered_clear(struct covered *covered)
{
    memset(covered->slots, 0, covered->size * sizeof *covered->slots);
    memset(covered->unplaced, 0, sizeof covered->unplaced);
    covered->used = 0;
    covered->n = covered->n_suspects = 0;
    covered->doubt = covered->dropped = false;
}

static struct covered_slot *slot_of(struct covered_slot *slots, size_t size, pid_t pid)
{
    size_t i = ((size_t)pid * 2654435761u) & (size - 1);

    while (slots[i].pid && slots[i].pid != pid)
        i = (i + 1) & (size - 1);
    return &slots[i];
}

/* Room for one more number; numbers that are gone are dropped on the way. */
static bool covered_grow(struct covered *covered)
{
    size_t size = covered->size;
    struct covered_slot *slots;

    if (4 * (covered->used + 1) <= 3 * covered->size)
        return true;
    if (2 * ((size_t)covered->n + covered->n_suspects) >= covered->size)
        size *= 2;
    slots = calloc(size, sizeof *slots);
    if (!slots)
        return false;
    covered->used = 0;
    for (size_t i = 0; i < covered->size; i++) {
        if (covered->slots[i].threads > 0 || covered->slots[i].suspect) {
            *slot_of(slots, size, covered->slots[i].pid) = covered->slots[i];
            covered->used++;
        }
    }
    free(covered->slots);
    covered->slots = slots;
    covered->size = size;
    return true;
}

bool covered_thread(struct covered *covered, pid_t pid, int step)
{
    struct covered_slot *slot;

    if (pid <= 0 || !covered_grow(covered))
        return false;
    slot = slot_of(covered->slots, covered->size, pid);
    if (slot->threads + step < 0)
        return true;
    if (!slot->pid) {
        slot->pid = pid;
        covered->used++;
    }
    covered->n += (slot->threads == 0) - (unsigned)(slot->threads + step == 0);
    slot->threads += step;
    return true;
}

bool covered_has(const struct covered *covered, pid_t pid)
{
    return covered->doubt || slot_of(covered->slots, covered->size, pid)->threads > 0;
}

static bool covered_knows(const struct covered *covered, pid_t pid)
{
    return slot_of(covered->slots, covered->size, pid)->threads > 0;
}

static void suspect_set(struct covered *covered, struct covered_slot *slot, bool suspect)
{
    covered->n_suspects += suspect;
    covered->n_suspects -= slot->suspect;
    slot->suspect = suspect;
}

/*
 * A second EXIT proves that the first was none. Else only who looks at the process can tell: one
 * that is dead by then ended with its first.
 */
static void covered_suspect(struct covered *covered, const struct side_record *record)
{
    struct covered_slot *slot = slot_of(covered->slots, covered->size, record->pid);

    if (slot->pid != record->pid || record->pid != record->tid || record->pid == covered->target)
        return;
    if (record->type == SIDE_EXEC && slot->threads > 0) {
        slot->exec_ns = record->time_ns;
    } else if (record->type == SIDE_EXIT && slot->suspect) {
        suspect_set(covered, slot, false);
        covered->dropped = true;
    } else if (record->type == SIDE_EXIT && slot->threads > 0 && slot->exec_ns) {
        suspect_set(covered, slot, record->time_ns - slot->exec_ns < DROP_NS);
    }
}

unsigned covered_suspects(const struct covered *covered, struct covered_suspect *list,
                          unsigned most)
{
    unsigned n = 0;

    for (size_t i = 0; covered->n_suspects && i < covered->size && n < most; i++)
        if (covered->slots[i].suspect)
            list[n++] = (struct covered_suspect){covered->slots[i].pid, covered->slots[i].exec_ns};
    return n;
}

void covered_judge(struct covered *covered, const struct covered_suspect *suspect,
                   enum suspect_life life)
{
    struct covered_slot *slot = slot_of(covered->slots, covered->size, suspect->pid);

    if (life == SUSPECT_ENDS || !slot->suspect || slot->exec_ns != suspect->exec_ns)
        return;
    suspect_set(covered, slot, false);
    covered->dropped |= life == SUSPECT_LIVES;
}

void covered_drop(struct covered *covered)
{
    covered->dropped = true;
}

bool covered_dropped(const struct covered *covered)
{
    return covered->dropped;
}

/* A number that comes up again as a process of somebody else's is not ours any more. */
static void covered_reused(struct covered *covered, pid_t pid)
{
    struct covered_slot *slot = slot_of(covered->slots, covered->size, pid);

    suspect_set(covered, slot, false);
    slot->exec_ns = 0;
    if (slot->threads > 0) {
        slot->threads = 0;
        covered->n--;
    }
}

/* True: it was about a process of the set. */
static bool covered_place(struct covered *covered, const struct side_record *record)
{
    switch (record->type) {
    case SIDE_FORK:
        if (record->pid == record->tid)
            covered_reused(covered, record->pid);
        if (!covered_knows(covered, record->ppid))
            return false;
        if (!covered_thread(covered, record->pid, 1))
            covered->doubt = true;
        return true;
    case SIDE_EXIT:
        if (!covered_knows(covered, record->pid))
            return false;
        covered_thread(covered, record->pid, -1);
        return true;
    case SIDE_EXEC:
        break;
    }
    return true;
}

/* After a new process: what was read too early may find its place now. */
static void covered_retry(struct covered *covered)
{
    bool placed = true;

    for (int round = 0; placed && round < 4; round++) {
        placed = false;
        for (size_t i = 0; i < UNPLACED; i++) {
            struct side_record *record = &covered->unplaced[i];

            if (record->pid &&
                covered_knows(covered, record->type == SIDE_FORK ? record->ppid : record->pid)) {
                placed |= covered_place(covered, record);
                record->pid = 0;
            }
        }
    }
}

void covered_take(void *arg, const struct side_record *records, size_t n, bool lost)
{
    struct covered *covered = arg;

    covered->doubt |= lost;
    for (size_t i = 0; i < n; i++) {
        if (records[i].type != SIDE_FORK)
            covered_suspect(covered, &records[i]);
        if (!covered_place(covered, &records[i]))
            covered->unplaced[covered->next_unplaced++ % UNPLACED] = records[i];
        else if (records[i].type == SIDE_FORK && records[i].pid == records[i].tid)
            covered_retry(covered);
    }
}

void covered_doubt(struct covered *covered)
{
    covered->doubt = true;
}

void covered_each(const struct covered *covered, void (*fn)(void *arg, pid_t pid), void *arg)
{
    for (size_t i = 0; i < covered->size; i++)
        if (covered->slots[i].threads > 0)
            fn(arg, covered->slots[i].pid);
}

unsigned covered_count(const struct covered *covered)
{
    return covered->n;
}
