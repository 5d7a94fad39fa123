/*
 * Processes each record of the backend: translates PIDs, hides kernel records from users without
 * access, adds paths to execs, and adds UNMAP, SWITCH and COUNT records.
 */
#include "core/log/recording_parts.h"

#include <string.h>
#include <sys/mman.h>

#define BATCH_BYTES (64 << 10)
#define MAPS_BYTES  (1 << 20) /* of tasks and mappings; beyond it, mappings get no UNMAP records */

#define MODE_HYPERVISOR   3u
#define FRAME_HYPERVISOR  ((uint64_t)-32)
#define KERNEL_HALF(addr) ((addr) >> 63 != 0)

/* ---- PIDs ---- */

/* Returns a PID in the attacher's namespace, or 0 if it has none there or is NOBODY. */
static uint32_t shown_pid(const struct recording *recording, uint32_t pid)
{
    const struct recording_plan *plan = &recording->plan;

    if (pid == 0 || pid == NOBODY)
        return 0;
    return plan->view ? (uint32_t)plan->host->view_pid(plan->view, (pid_t)pid) : pid;
}

/* Forgets the translation of the PID of a task that has exited: the PID can be reused. */
static void forget_pid(const struct recording *recording, uint32_t pid)
{
    const struct recording_plan *plan = &recording->plan;

    if (plan->view && pid != 0 && pid != NOBODY)
        plan->host->view_forget_pid(plan->view, (pid_t)pid);
}

static void translate_pair(const struct recording *recording, uint32_t *pid, uint32_t *tid)
{
    *pid = shown_pid(recording, *pid);
    *tid = shown_pid(recording, *tid);
}

/* Translates all PIDs of a record in place. */
static void translate(const struct recording *recording, struct record *record)
{
    struct record_sample *sample = (struct record_sample *)record;
    struct record_comm *comm = (struct record_comm *)record;
    struct record_task *task = (struct record_task *)record;
    struct record_map *map = (struct record_map *)record;
    struct record_note *note = (struct record_note *)record;
    struct record_tail *tail = record_tail(record);

    if (record->type == RECORD_SAMPLE) {
        translate_pair(recording, &sample->pid, &sample->tid);
    } else if (record->type == RECORD_COMM) {
        translate_pair(recording, &comm->pid, &comm->tid);
    } else if (record->type == RECORD_FORK || record->type == RECORD_EXIT) {
        translate_pair(recording, &task->pid, &task->tid);
        translate_pair(recording, &task->ppid, &task->ptid);
    } else if (record->type == RECORD_MAP && map->pid != NOBODY) {
        translate_pair(recording, &map->pid, &map->tid);
    } else if (record_is_note(record)) {
        translate_pair(recording, &note->pid, &note->tid);
    }
    if (tail)
        translate_pair(recording, &tail->pid, &tail->tid);
}

/* ---- records for the log ---- */

/* Completes the record at offset `begun` of the batch: translates its PIDs. On ENOMEM removes it
 * and counts it in `dropped`. */
static void batch_end(struct recording *recording, size_t begun)
{
    struct buf *batch = &recording->batch;

    if (batch->failed) {
        batch->len = begun;
        batch->failed = false;
        recording->dropped++;
    } else {
        recording->n_put++;
        translate(recording, (struct record *)(batch->data + begun));
    }
}

/* Returns the number of records taken from the recorder, without losses that have no DROP record
 * yet, so that a later worker reports these: "replaced". */
static uint64_t records_taken(const struct recording *recording)
{
    const struct backend *backend = recording->plan.backend;
    const uint64_t taken = backend->commit_taken ? backend->commit_taken(recording->recorder) : 0;

    return taken - recording->hidden - recording->dropped - recording->replaced;
}

void samples_publish(struct recording *recording)
{
    if (!recording->has_log_locked)
        return;
    recording->taken = records_taken(recording);
    const struct log_progress progress = recording_store(recording);
    log_samples_end(recording->plan.log, &progress);
    recording->has_log_locked = false;
}

/* Appends a copy with translated PIDs. Publishes samples first, so that they precede the copy. */
static void batch_copy(struct recording *recording, const struct record *record)
{
    samples_publish(recording);
    const size_t begun = recording->batch.len;

    buf_add(&recording->batch, record, record->size);
    batch_end(recording, begun);
}

/* Appends a note. Its PIDs are those of the worker's namespace and get translated. */
static void batch_note(struct recording *recording, const struct note *note)
{
    samples_publish(recording);
    const size_t begun = recording->batch.len;

    record_add_note(&recording->batch, note);
    batch_end(recording, begun);
}

/* Appends a DROP record for *n records that were left out, and resets *n. */
static void batch_drop(struct recording *recording, uint64_t *n, const char *where, unsigned misc)
{
    const uint64_t lost = *n;

    *n = 0;
    if (lost)
        batch_note(recording, &(struct note){.type = RECORD_DROP,
                                             .misc = misc,
                                             .time = recording->last_time,
                                             .cpu = UINT32_MAX,
                                             .n = 1,
                                             .value = &lost,
                                             .text = where,
                                             .text_len = strlen(where)});
}

void batch_put(struct recording *recording)
{
    struct buf *batch = &recording->batch;

    if (atomic_load(&recording->held))
        return;
    batch_drop(recording, &recording->hidden, "hidden", RECORD_HIDDEN);
    batch_drop(recording, &recording->dropped, "memory", RECORD_REFUSED);
    batch_drop(recording, &recording->replaced, "replaced", RECORD_REFUSED);
    const uint64_t taken = records_taken(recording);
    if (batch->len == 0 && taken == recording->taken)
        return;
    recording->taken = taken;
    const struct log_progress progress = recording_store(recording);
    log_put_all_once(recording->plan.log, 0, &progress, batch->data, batch->len);
    buf_clear(batch);
}

/* ---- execs ---- */

/* Appends the EXEC record, with the path, or else the name, of the program. */
static void exec_put(struct recording *recording, struct logged_process *process, const char *path)
{
    const char *text = path ? path : process->name ? process->name : "";

    batch_note(recording, &(struct note){.type = RECORD_EXEC,
                                         .time = recording->last_time,
                                         .pid = process->pid,
                                         .tid = process->pid,
                                         .cpu = UINT32_MAX,
                                         .text = text,
                                         .text_len = strlen(text)});
    process->executed = false;
    recording->tasks->n_executed--;
}

/* Returns the process if it has an exec whose path is still unknown, otherwise NULL. */
static struct logged_process *exec_of(const struct recording *recording, uint32_t pid)
{
    struct logged_process *process =
        recording->tasks->n_executed ? tasks_process(recording->tasks, pid) : NULL;

    return process && process->executed ? process : NULL;
}

/* Writes the EXEC record without a path if it is still pending: no path can follow now. */
static void exec_finish(struct recording *recording, uint32_t pid)
{
    struct logged_process *process = exec_of(recording, pid);

    if (process)
        exec_put(recording, process, NULL);
}

/* ---- steps and exit counts ---- */

/* Passes a record to exits_apply() and appends the records that result, except COUNT records
 * without counts of processes outside the attacher's PID namespace. */
static void exits_feed(struct recording *recording, const struct record *record)
{
    struct buf *made = &recording->scratch;

    exits_apply(recording->exits, record, made);
    for (size_t at = 0; at < made->len;) {
        const struct record_note *note = (const struct record_note *)(made->data + at);

        if (note->head.type != RECORD_COUNT || note->n || shown_pid(recording, note->pid))
            batch_copy(recording, &note->head);
        at += note->head.size;
    }
    if (made->failed)
        recording->dropped++;
    buf_clear(made);
}

/* ---- samples ---- */

/* Removes kernel frames from a sample, and keeps the fields after them. */
static void cut_kernel_frames(struct record_sample *sample)
{
    const uint64_t all = sample->n_frames, *rest = &sample->frame[all];
    const size_t len = sample->head.size - sizeof(*sample) - all * sizeof(*rest);
    uint64_t n = 0;
    bool hidden = false;

    for (uint64_t i = 0; i < all; i++) {
        const uint64_t frame = sample->frame[i];

        if (frame >= FRAME_MARKERS)
            hidden = frame == FRAME_KERNEL || frame == FRAME_HYPERVISOR;
        else if (KERNEL_HALF(frame))
            continue;
        if (!hidden)
            sample->frame[n++] = frame;
    }
    memmove(&sample->frame[n], rest, len);
    sample->n_frames = n;
    sample->head.size = (uint16_t)(sample->head.size - (all - n) * sizeof(*rest));
}

/* Returns room for a sample in the log, or else in the batch; NULL on ENOMEM. If PIDs are
 * translated (plan.view), samples go to the batch: a translation may read /proc, which must not
 * happen under the log's lock. */
static struct record_sample *sample_room(struct recording *recording, size_t size)
{
    struct log *log = recording->plan.log;
    struct record_sample *room = recording->has_log_locked ? log_samples_room(log, size) : NULL;

    if (room)
        return room;
    samples_publish(recording);
    recording->has_log_locked = !recording->plan.view && !recording->batch.len &&
                                !atomic_load(&recording->held) && log_samples_begin(log, size);
    if (recording->has_log_locked)
        return log_samples_room(log, size);
    room = (struct record_sample *)buf_reserve(&recording->batch, size);
    recording->batch.failed = false;
    return room;
}

void recording_sample(void *arg, const struct sample *sample)
{
    struct recording *recording = arg;
    const struct record_sample *fixed = sample->fixed;
    const size_t size = SAMPLE_SHORT + sample->rest_len;
    const unsigned mode = sample->misc & RECORD_MODE;

    /* without a view, the sample goes directly to the log: write the batch first */
    if (recording->batch.len >= (recording->plan.view ? BATCH_BYTES : 1))
        batch_put(recording);
    recording->last_time = fixed->time;
    /* User code runs only after the program is mapped, so the MAP record with its path will not
     * come. */
    if (recording->tasks->n_executed && mode == RECORD_USERMODE)
        exec_finish(recording, fixed->pid);
    if (!recording->plan.kernel &&
        (mode == RECORD_KERNEL || mode == MODE_HYPERVISOR || KERNEL_HALF(fixed->ip))) {
        recording->hidden++;
        return;
    }
    struct record_sample *to = sample_room(recording, size);
    if (!to) {
        recording->dropped++;
        return;
    }
    sample_write(sample, to);
    to->pid = shown_pid(recording, fixed->pid);
    to->tid = shown_pid(recording, fixed->tid);
    if (!recording->plan.kernel && sample->rest_len)
        cut_kernel_frames(to);
    recording->n_put++;
    if (recording->has_log_locked)
        log_samples_add(recording->plan.log, to);
    else
        recording->batch.len += to->head.size;
}

/* ---- maps ---- */

/* Appends an UNMAP record for each older mapping that `map` overlaps; none if `map` repeats an
 * older mapping. */
static void put_unmaps(struct recording *recording, const struct record_map *map)
{
    const uint64_t end = map->start + map->length;
    uint64_t from = map->start;

    while (from < end) {
        const struct record_map *old = tasks_overlap(recording->tasks, map->pid, from, end);

        if (!old)
            return;
        if (old->start == map->start && old->length == map->length && old->offset == map->offset &&
            old->inode == map->inode && old->major == map->major && old->minor == map->minor &&
            strcmp(old->path, map->path) == 0)
            return;
        const uint64_t value[] = {old->start, old->start + old->length, old->offset};

        batch_note(recording, &(struct note){.type = RECORD_UNMAP,
                                             .time = recording->last_time,
                                             .pid = map->pid,
                                             .tid = map->pid,
                                             .cpu = UINT32_MAX,
                                             .n = 3,
                                             .value = value,
                                             .text = old->path,
                                             .text_len = strlen(old->path)});
        from = old->start + old->length;
    }
}

static bool map_is_file(const struct record_map *map)
{
    return map->path[0] == '/' && map->path[1] != '/';
}

/* Returns true if a mapping goes to the log. Executable ones do if the PMC samples and the user may
 * see them. Others (RECORD_DATA) do only if samples have user stacks and the mapping is a private,
 * read-only one of a file: unwinders need the data next to the code in those files. */
static bool map_is_wanted(const struct recording *recording, const struct record_map *map)
{
    if (map->head.misc & RECORD_DATA)
        return recording->plan.recorder.data_maps && map_is_file(map) &&
               map->protection == PROT_READ && map->flags & MAP_PRIVATE;
    return recording->plan.samples && (map->pid != NOBODY || recording->plan.kernel);
}

static void put_map(struct recording *recording, const struct record *record)
{
    const struct record_map *map = (const struct record_map *)record;
    const bool data = record->misc & RECORD_DATA;
    struct logged_process *process =
        map_is_file(map) && !data ? exec_of(recording, map->pid) : NULL;

    if (process)
        exec_put(recording, process, map->path);
    if (!map_is_wanted(recording, map))
        return;
    if (map->pid != NOBODY && !data) {
        put_unmaps(recording, map);
        exits_feed(recording, record); /* stores the mapping, for later UNMAP records */
        tasks_bound_maps(recording->tasks, MAPS_BYTES);
    }
    batch_copy(recording, record);
}

/* ---- tasks, and all types ---- */

static void put_fork(struct recording *recording, const struct record *record)
{
    const struct record_task *task = (const struct record_task *)record;

    exec_finish(recording, task->pid); /* any earlier task with this number has exited */
    forget_pid(recording, task->tid);
    if (task->pid != task->ppid)
        forget_pid(recording, task->pid);
    batch_copy(recording, record);
    exits_feed(recording, record);
}

/*
 * Forgets the PIDs of tasks that exited: they can be reused. EXIT can also mean that observation
 * stopped: the process executed a program that the user may not observe, so the kernel removed the
 * events and wrote EXIT for a running process. Such an EXIT comes right after the exec, before the
 * first mapping of the new program. A process that really exits has mapped its program before.
 */
static void put_exit(struct recording *recording, const struct record *record)
{
    const struct record_task *task = (const struct record_task *)record;
    struct logged_process *process = task->pid == task->tid ? exec_of(recording, task->pid) : NULL;

    if (process)
        exec_put(recording, process, NULL);
    if (process && task->pid != 0) { /* it still runs; its counts go to the remainder */
        tasks_leave(recording->tasks, process);
        return;
    }
    batch_copy(recording, record);
    exits_feed(recording, record);
    if (task->tid != task->pid)
        forget_pid(recording, task->tid);
    if (!tasks_process(recording->tasks, task->pid))
        forget_pid(recording, task->pid);
}

static void put_comm(struct recording *recording, const struct record *record)
{
    const struct record_comm *comm = (const struct record_comm *)record;

    if (record->misc & RECORD_EXECUTED)
        exec_finish(recording, comm->pid);
    batch_copy(recording, record);
    exits_feed(recording, record);
    struct logged_process *process =
        record->misc & RECORD_EXECUTED ? tasks_process(recording->tasks, comm->pid) : NULL;
    if (!process)
        return;
    process->executed = true;
    recording->tasks->n_executed++;
}

/* ---- threads that run again ---- */

/* Writes a RUN record when a thread runs again, or stores when and why it left its CPU. */
static void put_sched(struct recording *recording, const struct record *record)
{
    const struct record_tail *tail = record_tail(record);
    struct task *task = tasks_thread(recording->tasks, tail->pid, tail->tid, tail->time);

    if (!task) {
        recording->dropped++;
        return;
    }
    uint64_t off_ns = task->off_ns ? tail->time - task->off_ns : 0;
    if (record->misc & RECORD_OFF) {
        task->off_ns = tail->time;
        task->preempted = record->misc & RECORD_OFF_PREEMPTED;
        return;
    }
    batch_note(recording, &(struct note){.type = RECORD_RUN,
                                         .misc = task->preempted ? RECORD_WAS_PREEMPTED : 0,
                                         .time = tail->time,
                                         .pid = tail->pid,
                                         .tid = tail->tid,
                                         .cpu = tail->cpu,
                                         .n = task->off_ns > 0,
                                         .value = &off_ns});
    task->off_ns = 0;
}

/* Called after a loss and before a start: the threads may have run since they left their CPUs. */
void recording_forget_off_times(const struct logged_process *process)
{
    struct task *task;

    TAILQ_FOREACH (task, &process->threads, along)
        task->off_ns = 0;
}

void recording_put(void *arg, const struct record *record)
{
    const struct record_sample *sample = (const struct record_sample *)record;
    struct recording *recording = arg;
    struct logged_process *process;

    if (record->type == RECORD_SAMPLE) {
        recording_sample(recording, &(struct sample){.fixed = sample,
                                                     .misc = record->misc,
                                                     .id = sample->id,
                                                     .period = sample->period,
                                                     .rest = &sample->n_frames,
                                                     .rest_len = record->size - SAMPLE_SHORT});
        return;
    }
    samples_publish(recording);
    if (recording->batch.len >= BATCH_BYTES)
        batch_put(recording);
    recording->last_time = record_time(record);
    switch ((enum record_type)record->type) {
    case RECORD_COMM:
        put_comm(recording, record);
        break;
    case RECORD_FORK:
        put_fork(recording, record);
        break;
    case RECORD_EXIT:
        put_exit(recording, record);
        break;
    case RECORD_MAP:
        put_map(recording, record);
        break;
    case RECORD_SCHED:
        put_sched(recording, record);
        break;
    case RECORD_LOST:
        /* The paths of pending EXEC records may be lost. A later EXIT is then a real exit. */
        TAILQ_FOREACH (process, &recording->tasks->by_update, by_update) {
            if (process->executed)
                exec_put(recording, process, NULL);
            recording_forget_off_times(process);
        }
        batch_copy(recording, record);
        exits_feed(recording, record);
        break;
    case RECORD_VALUES:
        exits_feed(recording, record);
        break;
    case RECORD_THROTTLE:
        exits_feed(recording, record);
        batch_copy(recording, record);
        break;
    default:
        batch_copy(recording, record);
        break;
    }
}

void recording_put_found(void *arg, const struct record *record)
{
    struct recording *recording = arg;
    const struct record_map *map = (const struct record_map *)record;

    if (record->type == RECORD_MAP && !map_is_wanted(recording, map))
        return;
    if (record->type == RECORD_COMM)
        exits_feed(recording, record);
    if (recording->batch.len + record->size > recording->inventory_end) {
        recording->dropped++;
        return;
    }
    if (record->type == RECORD_MAP && map->pid != NOBODY && !(record->misc & RECORD_DATA)) {
        exits_feed(recording, record);
        tasks_bound_maps(recording->tasks, MAPS_BYTES);
    }
    batch_copy(recording, record);
}
