/*
 * A table of processes, and a short memory of records that could not be placed: a child's record
 * may be read from its CPU's ring before its parent's from another.
 */
#include "backends/perf/count/descendants.h"

#include "core/base/hash.h"

#include <stdlib.h>
#include <string.h>

enum {
    UNPLACED = 128,
    DROP_NS = 100000000 /* from the EXEC to the EXIT: it may lose its CPU in between */
};

struct covered {
    struct member {
        UT_hash_handle hh;
        pid_t pid;
        int threads;      /* 0: it is only suspected */
        bool suspect;     /* its first thread's EXIT came soon after an exec */
        uint64_t exec_ns; /* its last exec */
    } * members;
    pid_t target;
    unsigned n; /* with threads */
    bool doubt;
    bool dropped;
    struct side_record unplaced[UNPLACED];
    size_t next_unplaced;
};

struct covered *covered_new(pid_t target)
{
    struct covered *covered = calloc(1, sizeof *covered);

    if (covered)
        covered->target = target;
    return covered;
}

static struct member *member_of(const struct covered *covered, pid_t pid)
{
    struct member *member;

    HASH_FIND_INT(covered->members, &pid, member);
    return member;
}

static struct member *member_new(struct covered *covered, pid_t pid)
{
    struct member *member = calloc(1, sizeof *member);

    if (!member)
        return NULL;
    member->pid = pid;
    HASH_ADD_INT(covered->members, pid, member);
    if (hash_has(member))
        return member;
    free(member);
    return NULL;
}

static void member_drop(struct covered *covered, struct member *member)
{
    covered->n -= member->threads > 0;
    HASH_DEL(covered->members, member);
    free(member);
}

static void members_drop(struct covered *covered)
{
    struct member *member, *next;

    HASH_ITER (hh, covered->members, member, next)
        member_drop(covered, member);
}

void covered_free(struct covered *covered)
{
    if (covered)
        members_drop(covered);
    free(covered);
}

void covered_clear(struct covered *covered)
{
    members_drop(covered);
    memset(covered->unplaced, 0, sizeof covered->unplaced);
    covered->doubt = covered->dropped = false;
}

bool covered_thread(struct covered *covered, pid_t pid, int step)
{
    struct member *member = member_of(covered, pid);

    if (!member && step < 0)
        return true;
    if (!member && !(member = member_new(covered, pid)))
        return false;
    if (member->threads + step < 0)
        return true;
    covered->n += (member->threads == 0) - (unsigned)(member->threads + step == 0);
    member->threads += step;
    if (!member->threads && !member->suspect)
        member_drop(covered, member);
    return true;
}

static bool covered_knows(const struct covered *covered, pid_t pid)
{
    const struct member *member = member_of(covered, pid);

    return member && member->threads > 0;
}

bool covered_has(const struct covered *covered, pid_t pid)
{
    return covered->doubt || covered_knows(covered, pid);
}

/*
 * A second EXIT proves that the first was none. Else it is seen at the process itself: one that is
 * dead by then ended with its first.
 */
static void covered_suspect(struct covered *covered, const struct side_record *record)
{
    struct member *member = member_of(covered, record->pid);

    if (!member || record->pid != record->tid || record->pid == covered->target)
        return;
    if (record->type == SIDE_EXEC && member->threads > 0) {
        member->exec_ns = record->time_ns;
    } else if (record->type == SIDE_EXIT && member->suspect) {
        covered->dropped = true;
        member->suspect = false;
        if (!member->threads)
            member_drop(covered, member);
    } else if (record->type == SIDE_EXIT && member->threads > 0 && member->exec_ns) {
        member->suspect = record->time_ns - member->exec_ns < DROP_NS;
    }
}

pid_t covered_next_suspect(const struct covered *covered, pid_t after)
{
    const struct member *member;
    pid_t next = 0;

    for (member = covered->members; member; member = member->hh.next)
        if (member->suspect && member->pid > after && (!next || member->pid < next))
            next = member->pid;
    return next;
}

void covered_judge(struct covered *covered, pid_t pid, bool lives)
{
    struct member *member = member_of(covered, pid);

    if (!member || !member->suspect)
        return;
    covered->dropped |= lives;
    member->suspect = false;
    if (!member->threads)
        member_drop(covered, member);
}

bool covered_dropped(const struct covered *covered)
{
    return covered->dropped;
}

/* A number that comes up again as a process of somebody else's is not ours any more. */
static void covered_reused(struct covered *covered, pid_t pid)
{
    struct member *member = member_of(covered, pid);

    if (member)
        member_drop(covered, member);
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
    case SIDE_LOST:
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

void covered_take(void *arg, const struct side_record *record)
{
    struct covered *covered = arg;

    if (record->type == SIDE_LOST) {
        covered->doubt = true;
        return;
    }
    if (record->type != SIDE_FORK)
        covered_suspect(covered, record);
    if (!covered_place(covered, record))
        covered->unplaced[covered->next_unplaced++ % UNPLACED] = *record;
    else if (record->type == SIDE_FORK && record->pid == record->tid)
        covered_retry(covered);
}

void covered_doubt(struct covered *covered)
{
    covered->doubt = true;
}

void covered_each(const struct covered *covered, void (*fn)(void *arg, pid_t pid), void *arg)
{
    for (const struct member *member = covered->members; member; member = member->hh.next)
        if (member->threads > 0)
            fn(arg, member->pid);
}

unsigned covered_count(const struct covered *covered)
{
    return covered->n;
}
