/*
 * Converts samples to folded lines: prints the stack of each sample, using the mappings at its
 * time, counts equal stacks, and sorts them at the end.
 */
#include "core/read/folded.h"
#include "core/base/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_BYTES  (256u << 10)
#define SPACES_BYTES (UINT64_C(64) << 20)
#define STACKS_MAX   (1u << 16)
#define TEXT_BYTES   (64u << 20) /* limit for all stacks */
#define EXITS_LATE   512         /* exits that are not applied yet */
#define LATE_NUMBERS 4096
#define STACK_BYTES  (sizeof(struct stack) + 32) /* with the allocator's and the table's share */
#define CHARGE_STEP  (UINT64_C(1) << 20)

struct stack {
    UT_hash_handle hh;
    uint64_t count; /* samples, or nanoseconds of weighed samples */
    char text[];
};

/* A thread that has left its CPU, and the stack of its sample. */
struct off_cpu {
    UT_hash_handle hh;
    uint32_t tid, pid;
    uint64_t since_ns;
    struct stack *stack;
};

struct folder {
    struct tasks spaces;
    struct record_task late[EXITS_LATE]; /* see records_apply(), oldest first */
    unsigned n_late;
    uint16_t late_numbers[LATE_NUMBERS]; /* how often a PID or TID, modulo the size, is in `late` */
    struct off_cpu *off_cpu;             /* by thread */
    uint64_t time_ns;                    /* of the last record */
    struct stack *stacks;
    struct buf line; /* text of the current sample */
    size_t bytes;    /* text of all stacks */
    uint64_t cut;    /* samples beyond the limits */
    bool failed;     /* ENOMEM */
    bool (*charge)(void *arg, uint64_t bytes);
    void *arg;
    uint64_t charged; /* the memory in use exceeds it by less than CHARGE_STEP */
    bool refused;
};

/* ---- texts ---- */

/* Appends a program's text with escapes: ';' separates frames and a space ends the stack. */
static void escaped_add(struct buf *out, const char *text)
{
    for (size_t len; *text; text += len) {
        len = strcspn(text, ";");
        buf_word(out, text, len);
        if (text[len] == ';') {
            buf_str(out, "\\073");
            len++;
        }
    }
}

/* Returns true if the mapping has a file that tools can read. Other code was created by the
 * program. */
static bool map_has_file(const struct record_map *map)
{
    static const char *const made[] = {
        "//anon", "[anon", "/anon_hugepage", "/memfd:", "/dev/zero", "[heap", "[stack"};

    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++)
        if (strncmp(map->path, made[i], strlen(made[i])) == 0)
            return false;
    return map->path[0] != '\0';
}

static void frame_add(struct buf *out, const struct tasks *spaces, uint32_t pid, uint64_t address,
                      bool kernel)
{
    const struct record_map *map = kernel ? NULL : tasks_overlap(spaces, pid, address, address + 1);
    char name[32];

    BUF_LITERAL(out, ";[");
    if (kernel) {
        BUF_LITERAL(out, "kernel+");
    } else if (map && map_has_file(map)) {
        /* names such as "[vdso]" lose their brackets, because a frame has brackets */
        const bool bracketed = map->path[0] == '[' && strlen(map->path) < sizeof(name);

        if (bracketed) {
            strcpy(name, map->path + 1);
            name[strcspn(name, "]")] = '\0';
        }
        escaped_add(out, bracketed ? name : map->path);
        buf_char(out, '+');
        address += map->offset - map->start;
    } else {
        buf_u64(out, pid);
        buf_char(out, ':');
    }
    buf_hex(out, address);
    buf_char(out, ']');
}

/* Returns true if the frame is in the kernel, from the last marker before it, or else from the
 * sample's mode. */
static bool frame_is_kernels(const struct record_sample *sample, uint64_t at)
{
    while (at > 0)
        if (sample->frame[--at] >= FRAME_MARKERS)
            return sample->frame[at] == FRAME_KERNEL;
    return (sample->head.misc & RECORD_MODE) == RECORD_KERNEL;
}

/* Prints frames from last to first, because a call chain starts at the sampled address. */
void folded_line(struct buf *out, const struct tasks *spaces, const struct record_sample *sample)
{
    uint64_t n = sample->head.size > SAMPLE_SHORT ? sample->n_frames : 0;
    bool any = false, kernel = n && frame_is_kernels(sample, n);
    const char *name = spaces_name(spaces, sample->pid, sample->tid);

    if (name && *name)
        escaped_add(out, name);
    else if (sample->tid)
        buf_printf(out, ":%u", sample->tid);
    else
        buf_str(out, "[unknown]");
    while (n-- > 0) {
        if (sample->frame[n] >= FRAME_MARKERS) {
            kernel = frame_is_kernels(sample, n);
            continue;
        }
        frame_add(out, spaces, sample->pid, sample->frame[n], kernel);
        any = true;
    }
    if (!any)
        frame_add(out, spaces, sample->pid, sample->ip, frame_is_kernels(sample, 0));
}

/* ---- stacks ---- */

static struct stack *stack_new(struct folder *folder)
{
    const size_t len = folder->line.len;

    if (HASH_COUNT(folder->stacks) == STACKS_MAX || folder->bytes + len > TEXT_BYTES)
        return NULL;
    struct stack *stack = calloc(1, sizeof(*stack) + len + 1);
    if (stack) {
        if (len > 0) /* data is NULL after ENOMEM */
            memcpy(stack->text, folder->line.data, len);
        HASH_ADD(hh, folder->stacks, text, len, stack);
    }
    if (!stack || !hash_has(stack)) {
        folder->failed = true;
        free(stack);
        return NULL;
    }
    folder->bytes += len;
    return stack;
}

/* Charges the memory in use and `more`. Returns false, and sets refused, if a quota is exceeded. */
static bool folder_charge(struct folder *folder, uint64_t more)
{
    const uint64_t used = tasks_bytes(&folder->spaces) + folder->bytes +
                          HASH_COUNT(folder->stacks) * STACK_BYTES +
                          HASH_COUNT(folder->off_cpu) * sizeof(struct off_cpu) + more;

    while (!folder->refused && used >= folder->charged + CHARGE_STEP) {
        folder->refused = !folder->charge(folder->arg, CHARGE_STEP);
        folder->charged += CHARGE_STEP;
    }
    return !folder->refused;
}

/* ---- threads that wait ---- */

static struct off_cpu *off_cpu_find(const struct folder *folder, uint32_t tid)
{
    struct off_cpu *off;

    HASH_FIND(hh, folder->off_cpu, &tid, sizeof tid, off);
    return off;
}

/* Adds the weight to the count of the thread's stack, and frees `off`, which may be NULL. */
static void off_cpu_end(struct folder *folder, struct off_cpu *off, uint64_t weight_ns)
{
    if (!off)
        return;
    off->stack->count += weight_ns;
    HASH_DEL(folder->off_cpu, off);
    free(off);
}

/* Ends the waits of the threads of a process, or of all (pid 0). lost: they get no weight. */
static void off_cpus_end(struct folder *folder, uint32_t pid, bool lost)
{
    struct off_cpu *off, *next;

    HASH_ITER (hh, folder->off_cpu, off, next)
        if (!pid || off->pid == pid)
            off_cpu_end(folder, off, lost ? 0 : folder->time_ns - off->since_ns);
}

static void off_cpu_begin(struct folder *folder, const struct record_sample *sample,
                          struct stack *stack)
{
    off_cpu_end(folder, off_cpu_find(folder, sample->tid), 0);
    struct off_cpu *off = calloc(1, sizeof *off);
    if (off) {
        *off = (struct off_cpu){
            .tid = sample->tid, .pid = sample->pid, .since_ns = sample->time, .stack = stack};
        HASH_ADD(hh, folder->off_cpu, tid, sizeof off->tid, off);
    }
    if (off && hash_has(off))
        return;
    folder->failed = true;
    free(off);
}

/* A wait lasts until the thread runs again, or the PMC stops or is detached from the process. It
 * has no weight if the thread exits or records are lost. */
static void off_cpu_apply(struct folder *folder, const struct record *record)
{
    const struct record_task *end = (const void *)record;
    const struct record_note *note = (const void *)record;
    struct off_cpu *off;

    switch (record->type) {
    case RECORD_RUN:
        off = off_cpu_find(folder, note->tid);
        if (off)
            off_cpu_end(folder, off, note->n ? note->value[0] : note->time - off->since_ns);
        break;
    case RECORD_EXIT:
        off_cpu_end(folder, off_cpu_find(folder, end->tid), 0);
        break;
    case RECORD_STOP:
    case RECORD_DETACH:
        off_cpus_end(folder, note->pid, false);
        break;
    case RECORD_LOST:
        off_cpus_end(folder, 0, true);
        break;
    default:
        break;
    }
}

static void sample_apply(struct folder *folder, const struct record_sample *sample)
{
    struct stack *stack;

    buf_clear(&folder->line);
    folded_line(&folder->line, &folder->spaces, sample);
    HASH_FIND(hh, folder->stacks, folder->line.data, folder->line.len, stack);
    if (!stack)
        stack = stack_new(folder);
    if (!stack)
        folder->cut++;
    else if (sample->head.misc & RECORD_WEIGHED)
        off_cpu_begin(folder, sample, stack);
    else
        stack->count++;
}

/* ---- exits ---- */

static void late_count(struct folder *folder, const struct record_task *end, int n)
{
    folder->late_numbers[end->pid % LATE_NUMBERS] += (uint16_t)n;
    folder->late_numbers[end->tid % LATE_NUMBERS] += (uint16_t)n;
}

/* Applies the exits of earlier tasks with these numbers. */
static void late_exits_apply(struct folder *folder, uint32_t pid, uint32_t tid)
{
    unsigned kept = 0;

    if (!folder->late_numbers[pid % LATE_NUMBERS] && !folder->late_numbers[tid % LATE_NUMBERS])
        return;
    for (unsigned i = 0; i < folder->n_late; i++) {
        const struct record_task *end = &folder->late[i];

        if (end->pid == pid || end->tid == tid) {
            tasks_apply(&folder->spaces, &end->head);
            late_count(folder, end, -1);
        } else {
            folder->late[kept++] = *end;
        }
    }
    folder->n_late = kept;
}

/* An EXIT record is applied later: a task has samples after it, until its last switch, and they
 * need its name. A record of a new task with its PID or TID applies it first. */
static void records_apply(struct folder *folder, const struct buf *batch)
{
    const struct record *record;

    for (size_t at = 0; at < batch->len && folder_charge(folder, 0); at += record->size) {
        record = (const void *)(batch->data + at);
        const struct record_comm *comm = (const void *)record; /* MAP starts in the same way */
        const struct record_task *task = (const void *)record; /* FORK and EXIT */
        const struct record_note *note = (const void *)record;

        folder->time_ns = record_time(record);
        off_cpu_apply(folder, record);
        if (record->type == RECORD_SAMPLE) {
            sample_apply(folder, (const void *)record);
        } else if (record->type == RECORD_EXIT) {
            if (folder->n_late == EXITS_LATE)
                late_exits_apply(folder, folder->late[0].pid, folder->late[0].tid);
            folder->late[folder->n_late++] = *task;
            late_count(folder, task, 1);
        } else {
            if (record->type == RECORD_COMM || record->type == RECORD_MAP)
                late_exits_apply(folder, comm->pid, comm->tid);
            else if (record->type == RECORD_FORK)
                late_exits_apply(folder, task->pid == task->ppid ? task->tid : task->pid,
                                 task->tid);
            else if (record->type == RECORD_PROCESS || record->type == RECORD_THREAD)
                late_exits_apply(folder, note->pid, note->tid);
            tasks_apply(&folder->spaces, record);
        }
        spaces_bound(&folder->spaces, SPACES_BYTES);
    }
}

static int stack_compare(const struct stack *a, const struct stack *b)
{
    return strcmp(a->text, b->text);
}

static int lines_add(struct buf *out, struct folder *folder)
{
    const size_t size = folder->bytes + (HASH_COUNT(folder->stacks) + 2) * (U64_DIGITS + 2);

    if (!folder_charge(folder, size))
        return -EDQUOT;
    buf_reserve(out, size); /* so that the text does not double its memory while it grows */
    HASH_SORT(folder->stacks, stack_compare);
    for (const struct stack *stack = folder->stacks; stack; stack = stack->hh.next) {
        if (!stack->count) /* its thread has not run again */
            continue;
        buf_str(out, stack->text);
        buf_char(out, ' ');
        buf_u64(out, stack->count);
        buf_char(out, '\n');
    }
    if (folder->cut > 0) {
        buf_str(out, "[too-many-stacks] ");
        buf_u64(out, folder->cut);
        buf_char(out, '\n');
    }
    return out->failed ? -ENOMEM : 0;
}

int folded_text(struct log *log, struct buf *out, bool (*charge)(void *arg, uint64_t bytes),
                void *arg)
{
    struct folder folder = {.charge = charge, .arg = arg};
    struct log_cursor *cursor = log_open(log);
    const uint64_t last = log_last(log); /* perhaps some later samples are read, too */
    struct buf batch = {0};
    struct stack *stack, *next;
    int rc = 0;

    tasks_init(&folder.spaces);
    while (cursor && !folder.refused && cursor->next <= last &&
           log_read(cursor, &batch, BATCH_BYTES) > 0 && !batch.failed) {
        records_apply(&folder, &batch);
        buf_clear(&batch);
    }
    if (!cursor || batch.failed || folder.failed || folder.line.failed)
        rc = -ENOMEM;
    else if (folder.refused)
        rc = -EDQUOT;
    buf_free(&batch);
    log_close(cursor);
    off_cpus_end(&folder, 0, false);
    if (rc == 0)
        rc = lines_add(out, &folder);
    HASH_ITER (hh, folder.stacks, stack, next) {
        HASH_DEL(folder.stacks, stack);
        free(stack);
    }
    tasks_free(&folder.spaces);
    buf_free(&folder.line);
    return rc;
}
