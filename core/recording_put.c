/*
 * What becomes of one record: numbers of the attacher's PID namespace, nothing of the kernel for
 * who may not see it, execs with their path, map-outs, steps and ends of processes.
 */
#include "core/recording_state.h"

#include <string.h>

#define BATCH_BYTES  (64 << 10)

#define MODE_HYPERVISOR   3u
#define FRAME_HYPERVISOR  ((uint64_t)-32)
#define KERNEL_HALF(addr) ((addr) >> 63 != 0)

/* ---- the batch ---- */

/* What was appended to the batch from `begun` on; NULL when memory ended. */
static struct record *batch_added(struct recording *recording, size_t begun)
{
    struct buf *batch = &recording->batch;

    recording->put++;
    if (!batch->failed)
        return (struct record *)(batch->data + begun);
    batch->len = begun;
    batch->failed = false;
    recording->put--;
    recording->dropped++;
    return NULL;
}

/* A copy with numbers translated. */
static void batch_copy(struct recording *recording, const struct record *record)
{
    const size_t begun = recording->batch.len;
    struct record *copy;

    buf_add(&recording->batch, record, record->size);
    copy = batch_added(recording, begun);
    if (copy)
        recording_translate(recording, copy);
}

/* note's numbers are the daemon's. */
static void batch_note(struct recording *recording, const struct note *note)
{
    const size_t begun = recording->batch.len;
    struct record *added;

    record_add_note(&recording->batch, note);
    added = batch_added(recording, begun);
    if (added)
        recording_translate(recording, added);
}

/* How many records were left out, and why. */
static void batch_drop(struct recording *recording, uint64_t n, const char *where)
{
    const uint64_t time = recording->last_time;

    batch_note(recording, &(struct note){.type = RECORD_DROP,
                                         .time = time,
                                         .cpu = UINT32_MAX,
                                         .n = 1,
                                         .value = &n,
                                         .text = where,
                                         .text_len = strlen(where)});
}

void recording_put_hidden(struct recording *recording)
{
    const uint64_t hidden = recording->hidden, dropped = recording->dropped;

    recording->hidden = recording->dropped = 0;
    if (hidden > 0) {
        log_count_hidden(recording->plan.log, hidden);
        batch_drop(recording, hidden, "hidden");
    }
    if (dropped > 0)
        batch_drop(recording, dropped, "memory");
}

void recording_flush(struct recording *recording)
{
    struct buf *batch = &recording->batch;

    /* what was read before it was held may wait: nothing started since is in it */
    if (batch->len == 0 || atomic_load(&recording->held))
        return;
    log_put_all(recording->plan.log, batch->data, batch->len);
    buf_clear(batch);
}

/* ---- execs ---- */

static struct exec *exec_of(const struct recording *recording, uint32_t pid)
{
    for (unsigned i = 0; i < EXECS_MAX; i++)
        if (recording->execs[i].pid == pid)
            return (struct exec *)(uintptr_t)&recording->execs[i];
    return NULL;
}

/* The exec is told with what is known of its program. */
static void exec_tell(struct recording *recording, struct exec *exec, uint64_t time,
                      const char *path)
{
    const char *text = path ? path : exec->name;

    batch_note(recording, &(struct note){.type = RECORD_EXEC,
                                         .time = time,
                                         .pid = exec->pid,
                                         .tid = exec->pid,
                                         .cpu = UINT32_MAX,
                                         .text = text,
                                         .text_len = strlen(text)});
    exec->pid = 0;
    recording->n_execs--;
}

/* If the path of the last exec was awaited it comes no more. */
static void exec_settle(struct recording *recording, uint32_t pid, uint64_t time)
{
    struct exec *exec = pid && recording->n_execs ? exec_of(recording, pid) : NULL;

    if (exec)
        exec_tell(recording, exec, time, NULL);
}

static void exec_remember(struct recording *recording, const struct record_comm *comm)
{
    const uint64_t time = recording->last_time;
    struct exec *exec;

    exec_settle(recording, comm->pid, time);
    exec = &recording->execs[recording->next_exec++ % EXECS_MAX];
    if (exec->pid)
        exec_tell(recording, exec, time, NULL);
    *exec = (struct exec){.pid = comm->pid, .time = time};
    strncpy(exec->name, comm->name, sizeof(exec->name) - 1);
    recording->n_execs++;
}

/* Paths may be among what was lost: an end that comes now is an end. */
static void execs_settle(struct recording *recording)
{
    for (unsigned i = 0; i < EXECS_MAX && recording->n_execs; i++)
        if (recording->execs[i].pid)
            exec_tell(recording, &recording->execs[i], recording->last_time, NULL);
}

/* ---- steps, ends of processes ---- */

/* An end without a count says nothing of a process that has no number there. */
static bool end_is_idle(const struct recording *recording, const struct record_note *note)
{
    return note->head.type == RECORD_COUNT && note->n == 0 &&
           recording_shown_pid(recording, note->pid) == 0;
}

/* The records that exits made of one. The end of a process is the end of its number. */
static void take_told(struct recording *recording, bool wanted)
{
    struct buf *told = &recording->scratch;

    for (size_t at = 0; at < told->len;) {
        const struct record *record = (const struct record *)(told->data + at);
        const struct record_note *note = (const struct record_note *)record;

        if (wanted && !end_is_idle(recording, note))
            batch_copy(recording, record);
        if (record->type == RECORD_COUNT)
            recording_forget_pid(recording, note->pid);
        at += record->size;
    }
    if (told->failed)
        recording->dropped++;
    buf_clear(told);
}

static void account(struct recording *recording, const struct record *record)
{
    if (recording->exits) {
        exits_take(recording->exits, record, &recording->scratch);
        take_told(recording, true);
    }
    if (recording->lives && record->type != RECORD_SWITCH) {
        exits_take(recording->lives, record, &recording->scratch);
        take_told(recording, recording->plan.samples);
    }
}

/* ---- samples ---- */

static bool mode_is_hidden(unsigned mode, uint64_t ip)
{
    return mode == RECORD_KERNEL || mode == MODE_HYPERVISOR || KERNEL_HALF(ip);
}

/* Takes the kernel's frames out of a sample at the end of the batch. */
static void frames_cut(struct recording *recording, struct record_sample *sample)
{
    uint64_t n = 0;
    bool hidden = false;

    for (uint64_t i = 0; i < sample->n_frames; i++) {
        const uint64_t frame = sample->frame[i];

        if (frame >= FRAME_MARKERS)
            hidden = frame == FRAME_KERNEL || frame == FRAME_HYPERVISOR;
        else if (KERNEL_HALF(frame))
            continue;
        if (!hidden)
            sample->frame[n++] = frame;
    }
    recording->batch.len -= (sample->n_frames - n) * sizeof(sample->frame[0]);
    sample->n_frames = n;
    sample->head.size = (uint16_t)(sizeof(*sample) + n * sizeof(sample->frame[0]));
}

static void put_sample(struct recording *recording, const struct record *record)
{
    const struct record_sample *sample = (const struct record_sample *)record;
    const unsigned mode = record->misc & RECORD_MODE;
    const size_t begun = recording->batch.len;

    /* the kernel itself runs for a while before the first map */
    if (mode == RECORD_USERMODE)
        exec_settle(recording, sample->pid, sample->time);
    if (!recording->plan.kernel && mode_is_hidden(mode, sample->ip)) {
        recording->hidden++;
        return;
    }
    batch_copy(recording, record);
    if (!recording->plan.kernel && record->size > SAMPLE_SHORT && recording->batch.len > begun)
        frames_cut(recording, (struct record_sample *)(recording->batch.data + begun));
}

/* ---- maps ---- */

static bool map_same(const struct record_map *a, const struct record_map *b)
{
    return a->start == b->start && a->length == b->length && a->offset == b->offset &&
           a->inode == b->inode && a->major == b->major && a->minor == b->minor &&
           strcmp(a->path, b->path) == 0;
}

static void put_unmap(struct recording *recording, uint32_t pid, const struct record_map *old)
{
    const uint64_t value[] = {old->start, old->start + old->length, old->offset};

    batch_note(recording, &(struct note){.type = RECORD_UNMAP,
                                         .time = recording->last_time,
                                         .pid = pid,
                                         .tid = pid,
                                         .cpu = UINT32_MAX,
                                         .n = 3,
                                         .value = value,
                                         .text = old->path,
                                         .text_len = strlen(old->path)});
}

/* What was where this comes is there no more. */
static void put_unmaps(struct recording *recording, const struct record_map *map)
{
    const uint64_t end = map->start + map->length;
    uint64_t from = map->start;

    while (from < end) {
        const struct record_map *old = spaces_overlap(recording->spaces, map->pid, from, end);

        if (!old || map_same(old, map))
            return;
        put_unmap(recording, map->pid, old);
        from = old->start + old->length;
    }
}

static bool is_file(const struct record_map *map)
{
    return map->path[0] == '/' && map->path[1] != '/';
}

/* To whom may this map be shown? A PMC that does not sample has no use for it. */
static bool map_is_wanted(const struct recording *recording, const struct record_map *map)
{
    return recording->plan.samples && (map->pid != NOBODY || recording->plan.kernel);
}

static void put_map(struct recording *recording, const struct record *record)
{
    const struct record_map *map = (const struct record_map *)record;
    struct exec *exec = is_file(map) && map->pid ? exec_of(recording, map->pid) : NULL;

    if (exec)
        exec_tell(recording, exec, recording->last_time, map->path);
    if (!map_is_wanted(recording, map))
        return;
    if (map->pid != NOBODY) {
        put_unmaps(recording, map);
        spaces_take(recording->spaces, record);
    }
    batch_copy(recording, record);
}

/* ---- the rest ---- */

/* A program that was executed maps something before it can end. */
static bool end_is_of_observation(const struct recording *recording, const struct record_task *task)
{
    return task->head.type == RECORD_EXIT && task->pid == task->tid && task->pid != 0 &&
           recording->n_execs && exec_of(recording, task->pid);
}

static void put_task(struct recording *recording, const struct record *record)
{
    const struct record_task *task = (const struct record_task *)record;

    if (end_is_of_observation(recording, task)) {
        exec_settle(recording, task->pid, recording->last_time);
        recording_mark_left(recording, task->pid);
        return;
    }
    if (record->type == RECORD_FORK) { /* whoever had the number is dead */
        recording_forget_pid(recording, task->tid);
        if (task->pid != task->ppid) {
            recording_forget_pid(recording, task->pid);
            recording_unmark_left(recording, task->pid);
        }
    } else if (task->pid == task->tid) {
        exec_settle(recording, task->pid, recording->last_time);
    }
    if (recording->spaces)
        spaces_take(recording->spaces, record);
    batch_copy(recording, record);
    account(recording, record);
    if (record->type == RECORD_EXIT && task->tid != task->pid)
        recording_forget_pid(recording, task->tid);
}

static void put_comm(struct recording *recording, const struct record *record)
{
    if (record->misc & RECORD_EXECUTED)
        exec_remember(recording, (const struct record_comm *)record);
    if (recording->spaces)
        spaces_take(recording->spaces, record);
    batch_copy(recording, record);
    account(recording, record);
}

void recording_put(void *arg, const struct record *record)
{
    struct recording *recording = arg;

    recording->last_time = record_time(record);
    switch ((enum record_type)record->type) {
    case RECORD_SAMPLE:
        put_sample(recording, record);
        break;
    case RECORD_COMM:
        put_comm(recording, record);
        break;
    case RECORD_FORK:
    case RECORD_EXIT:
        put_task(recording, record);
        break;
    case RECORD_MAP:
        put_map(recording, record);
        break;
    case RECORD_LOST:
        execs_settle(recording);
        batch_copy(recording, record);
        account(recording, record);
        break;
    case RECORD_SWITCH:
        account(recording, record);
        break;
    default:
        batch_copy(recording, record);
        break;
    }
    if (recording->batch.len >= BATCH_BYTES)
        recording_flush(recording);
}

void recording_put_found(void *arg, const struct record *record)
{
    struct recording *recording = arg;
    const struct record_map *map = (const struct record_map *)record;

    recording_keep(recording);
    if (record->type == RECORD_MAP && !map_is_wanted(recording, map))
        return;
    if (record->type == RECORD_COMM) {
        account(recording, record);
        recording_unmark_left(recording, ((const struct record_comm *)record)->pid);
    }
    if (recording->batch.len + record->size > recording->found_end) {
        recording->dropped++;
        return;
    }
    if (recording->spaces && (record->type != RECORD_MAP || map->pid != NOBODY))
        spaces_take(recording->spaces, record);
    batch_copy(recording, record);
}
