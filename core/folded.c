/*
 * From samples to lines: samples are resolved with the mappings of their moment, names are asked
 * for all at once, and only then parts have a text and lines an order.
 */
#include "core/folded.h"
#include "core/spaces.h"
#include "core/stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_BYTES  (256u << 10)
#define SPACES_BYTES (UINT64_C(64) << 20)
#define TEXT_BYTES   (64u << 20)
#define FRAMES_MAX   (RECORD_MAX / sizeof(uint64_t))

struct folder {
    struct spaces *spaces;
    struct stacks stacks;
    uint32_t parts[FRAMES_MAX + 2]; /* of one sample */
};

bool folded_map_is_jit(const struct record_map *map)
{
    static const char *const made[] = {
        "//anon", "[anon", "/anon_hugepage", "/memfd:", "/dev/zero", "[heap", "[stack"};

    if (!map->path[0])
        return true;
    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++)
        if (strncmp(map->path, made[i], strlen(made[i])) == 0)
            return true;
    return false;
}

/* ---- samples ---- */

static uint32_t comm_part(struct folder *folder, const struct record_sample *sample)
{
    const char *name = spaces_name(folder->spaces, sample->pid, sample->tid);
    char number[16] = ":";
    uint32_t tid = sample->tid;

    if (name && *name)
        return stacks_comm(&folder->stacks, name);
    if (!tid)
        return stacks_comm(&folder->stacks, "[unknown]");
    char *p = number + sizeof(number) - 1;
    for (*p = '\0'; tid > 0; tid /= 10)
        *--p = (char)('0' + tid % 10);
    *--p = ':';
    return stacks_comm(&folder->stacks, p);
}

/* What is not known is one thing, wherever it is: chains without frame pointers go astray. */
static uint32_t frame_part(struct folder *folder, uint32_t pid, uint64_t address, bool kernel,
                           bool caller)
{
    const struct record_map *map = spaces_find(folder->spaces, kernel ? UINT32_MAX : pid, address);

    if (kernel)
        return stacks_frame(&folder->stacks, PART_KERNEL, map, 0, address, caller);
    if (!map)
        return stacks_frame(&folder->stacks, PART_USER, NULL, 0, 0, false);
    return stacks_frame(&folder->stacks, PART_USER, map, pid, address, caller);
}

static void sample_take(struct folder *folder, const struct record_sample *sample)
{
    bool chain = sample->head.size > SAMPLE_SHORT, caller = false;
    bool kernel = (sample->head.misc & RECORD_MODE) == RECORD_KERNEL;
    uint64_t n = chain ? sample->n_frames : 0;
    uint32_t *end = folder->parts + FRAMES_MAX + 2, *at = end;

    /* A chain begins where the sample was taken, and goes back: so do we. */
    for (uint64_t i = 0; i < n; i++) {
        uint64_t frame = sample->frame[i];

        if (frame >= FRAME_MARKERS) {
            kernel = frame == FRAME_KERNEL;
            caller = false; /* each mode begins with where it was left */
            continue;
        }
        *--at = frame_part(folder, sample->pid, frame, kernel, caller);
        caller = true;
    }
    if (at == end)
        *--at = frame_part(folder, sample->pid, sample->ip,
                           (sample->head.misc & RECORD_MODE) == RECORD_KERNEL, false);
    *--at = comm_part(folder, sample);
    stacks_count(&folder->stacks, at, (uint32_t)(end - at));
}

static void records_take(struct folder *folder, const struct buf *batch)
{
    const struct record *record;

    for (size_t at = 0; at < batch->len; at += record->size) {
        record = (const void *)(batch->data + at);
        if (record->type == RECORD_SAMPLE)
            sample_take(folder, (const void *)record);
        else
            spaces_take(folder->spaces, record);
    }
}

/* What the log holds now; what comes meanwhile may come along, but is not waited for. */
static int folder_fill(struct folder *folder, struct log *log)
{
    struct log_cursor *cursor = log_open(log);
    uint64_t last = log_last(log);
    struct buf batch;
    bool failed;

    if (!cursor)
        return -ENOMEM;
    buf_init(&batch, NULL, 0);
    while (cursor->next <= last && log_take(cursor, &batch, BATCH_BYTES) > 0 && !batch.failed) {
        records_take(folder, &batch);
        buf_clear(&batch);
    }
    failed = batch.failed || folder->stacks.failed;
    buf_free(&batch);
    log_close(cursor);
    return failed ? -ENOMEM : 0;
}

/* ---- names ---- */

/* The daemon's word for a mapping: its file's name, or what the kernel calls it without brackets.
 */
static void module_add(struct buf *out, const char *path, bool kernel)
{
    static const char deleted[] = " (deleted)";
    const char *slash = strrchr(path, '/');
    size_t len = strlen(path);

    if (!*path || strncmp(path, "//anon", 6) == 0) {
        buf_str(out, "anon");
        return;
    }
    if (*path == '[') {
        path++;
        len = strcspn(path, "]");
    } else {
        path = slash && slash[1] ? slash + 1 : path;
        len = strlen(path);
        if (!kernel && len > sizeof(deleted) - 1 &&
            strcmp(path + len - (sizeof(deleted) - 1), deleted) == 0)
            len -= sizeof(deleted) - 1;
    }
    buf_word(out, path, len);
}

static void place_add(struct buf *out, const struct part *part)
{
    const struct record_map *map = part->map;
    bool kernel = part->kind == PART_KERNEL;

    if (!map && !kernel) {
        buf_str(out, "[unknown]");
        return;
    }
    buf_char(out, '[');
    if (map)
        module_add(out, map->path, kernel);
    else
        buf_str(out, "kernel");
    if (map && (strcmp(map->path, "[vdso]") == 0 || strcmp(map->path, "[vsyscall]") == 0)) {
        buf_char(out, ']');
        return;
    }
    buf_printf(out, "+0x%llx]",
               (unsigned long long)(part->address - (map ? map->start : 0) +
                                    (map && !kernel && !folded_map_is_jit(map) ? map->offset : 0)));
}

/* ';' parts frames. */
static void escaped_add(struct buf *out, const struct buf *text)
{
    for (size_t i = 0; i < text->len; i++)
        if (text->data[i] == ';')
            buf_str(out, "\\073");
        else
            buf_char(out, text->data[i]);
}

static char *part_text(const struct part *part, const char *name)
{
    struct buf plain, out;
    char *text;

    buf_init(&plain, NULL, 0);
    buf_init(&out, NULL, 0);
    if (name)
        buf_word(&plain, name, strlen(name));
    else
        place_add(&plain, part);
    escaped_add(&out, &plain);
    if (part->kind == PART_KERNEL)
        buf_str(&out, "_[k]");
    else if (name && part->map && folded_map_is_jit(part->map))
        buf_str(&out, "_[j]");
    text = plain.failed || out.failed ? NULL : strdup(buf_text(&out));
    buf_free(&plain);
    buf_free(&out);
    return text;
}

static bool is_wanted(const struct part *part)
{
    return part->kind == PART_KERNEL || (part->kind == PART_USER && part->map);
}

static struct frame_query part_query(const struct part *part)
{
    return (struct frame_query){.map = part->kind == PART_USER ? part->map : NULL,
                                .pid = part->pid,
                                .address = part->address - part->caller};
}

/* Every part gets its text. */
static int parts_name(struct stacks *stacks, const struct host *host, struct host_state *state,
                      struct log_files *files, const struct frame_asker *asker)
{
    struct frame_query *queries = calloc(stacks->n_parts + 1, sizeof(*queries)), *query = queries;
    int rc = 0;

    if (!queries)
        return -ENOMEM;
    for (uint32_t i = 0; i < stacks->n_parts; i++)
        if (is_wanted(&stacks->parts[i]))
            *query++ = part_query(&stacks->parts[i]);
    if (query > queries && host->names)
        host->names(state, files, asker, queries, (size_t)(query - queries));
    query = queries;
    for (uint32_t i = 0; i < stacks->n_parts; i++) {
        struct part *part = &stacks->parts[i];
        char *name = is_wanted(part) ? query->name : NULL;
        char *text = part_text(part, part->kind == PART_COMM ? part->text : name);

        query += is_wanted(part);
        free(name);
        free(part->text);
        part->text = text;
        rc = text ? rc : -ENOMEM;
    }
    free(queries);
    return rc;
}

/* ---- lines ---- */

static int text_compare(const void *a, const void *b)
{
    const struct part *const *p = a, *const *q = b;

    return strcmp((*p)->text, (*q)->text);
}

/* Equal texts get equal ranks, so that stacks compare by numbers. */
static int parts_rank(struct stacks *stacks)
{
    struct part **order = calloc(stacks->n_parts + 1, sizeof(*order));
    uint32_t rank = 0;

    if (!order)
        return -ENOMEM;
    for (uint32_t i = 0; i < stacks->n_parts; i++)
        order[i] = &stacks->parts[i];
    qsort(order, stacks->n_parts, sizeof(*order), text_compare);
    for (uint32_t i = 0; i < stacks->n_parts; i++) {
        rank += i > 0 && text_compare(&order[i], &order[i - 1]) != 0;
        order[i]->rank = rank;
    }
    free(order);
    return 0;
}

static int stack_compare(const void *a, const void *b, void *arg)
{
    const struct stacks *stacks = arg;
    const struct stack *p = a, *q = b;

    for (uint32_t i = 0; i < p->n && i < q->n; i++) {
        uint32_t pr = stacks->parts[stacks->ids[p->first + i]].rank;
        uint32_t qr = stacks->parts[stacks->ids[q->first + i]].rank;

        if (pr != qr)
            return pr < qr ? -1 : 1;
    }
    return p->n < q->n ? -1 : p->n > q->n;
}

static void line_add(struct buf *out, const struct stacks *stacks, const struct stack *stack,
                     uint64_t count)
{
    for (uint32_t i = 0; i < stack->n; i++) {
        if (i > 0)
            buf_char(out, ';');
        buf_str(out, stacks->parts[stacks->ids[stack->first + i]].text);
    }
    buf_char(out, ' ');
    buf_u64(out, count);
    buf_char(out, '\n');
}

static void lines_add(struct buf *out, struct stacks *stacks)
{
    size_t begin = out->len;

    if (stacks->n_stacks > 1)
        qsort_r(stacks->stacks, stacks->n_stacks, sizeof(*stacks->stacks), stack_compare, stacks);
    for (uint32_t i = 0, next; i < stacks->n_stacks; i = next) {
        const struct stack *stack = &stacks->stacks[i];
        uint64_t count = 0;

        for (next = i;
             next < stacks->n_stacks && stack_compare(stack, &stacks->stacks[next], stacks) == 0;
             next++)
            count += stacks->stacks[next].count;
        if (out->len - begin < TEXT_BYTES)
            line_add(out, stacks, stack, count);
        else
            stacks->cut += count;
    }
    if (stacks->cut > 0)
        buf_printf(out, "[too-many-stacks] %llu\n", (unsigned long long)stacks->cut);
}

int folded_text(struct log *log, const struct host *host, struct host_state *host_state,
                struct log_files *files, const struct frame_asker *asker, struct buf *out)
{
    struct folder *folder = calloc(1, sizeof(*folder));
    int rc = -ENOMEM;

    if (folder && (folder->spaces = spaces_new(SPACES_BYTES)))
        rc = folder_fill(folder, log);
    if (rc == 0)
        rc = parts_name(&folder->stacks, host, host_state, files, asker);
    if (rc == 0)
        rc = parts_rank(&folder->stacks);
    if (rc == 0)
        lines_add(out, &folder->stacks);
    if (folder) {
        spaces_free(folder->spaces);
        stacks_free(&folder->stacks);
    }
    free(folder);
    return rc == 0 && out->failed ? -ENOMEM : rc;
}
