/*
 * From samples to lines: samples are resolved with the mappings of their moment; then each part
 * gets its text, once, and lines get their order.
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

/* Is a file mapped here that others can see? Else the program made the code itself. */
static bool map_has_file(const struct record_map *map)
{
    static const char *const made[] = {
        "//anon", "[anon", "/anon_hugepage", "/memfd:", "/dev/zero", "[heap", "[stack"};

    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++)
        if (strncmp(map->path, made[i], strlen(made[i])) == 0)
            return false;
    return map->path[0] != '\0';
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

static uint32_t frame_part(struct folder *folder, uint32_t pid, uint64_t address, bool kernel)
{
    const struct record_map *map = kernel ? NULL : spaces_find(folder->spaces, pid, address);

    if (kernel)
        return stacks_frame(&folder->stacks, PART_KERNEL, NULL, 0, address);
    if (!map || !map_has_file(map))
        return stacks_frame(&folder->stacks, PART_CODE, NULL, pid, address);
    return stacks_frame(&folder->stacks, PART_FILE, map->path, 0,
                        address - map->start + map->offset);
}

static void sample_take(struct folder *folder, const struct record_sample *sample)
{
    bool chain = sample->head.size > SAMPLE_SHORT;
    bool kernel = (sample->head.misc & RECORD_MODE) == RECORD_KERNEL;
    uint64_t n = chain ? sample->n_frames : 0;
    uint32_t *end = folder->parts + FRAMES_MAX + 2, *at = end;

    /* A chain begins where the sample was taken, and goes back: so do we. */
    for (uint64_t i = 0; i < n; i++) {
        uint64_t frame = sample->frame[i];

        if (frame >= FRAME_MARKERS) {
            kernel = frame == FRAME_KERNEL;
            continue;
        }
        *--at = frame_part(folder, sample->pid, frame, kernel);
    }
    if (at == end)
        *--at = frame_part(folder, sample->pid, sample->ip,
                           (sample->head.misc & RECORD_MODE) == RECORD_KERNEL);
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

/* ---- texts ---- */

/* Text of a program, in which ';' would part frames and a blank would end the stack. */
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

/* "[vdso]", which is no file but has a name, stands without its own brackets. */
static void path_add(struct buf *out, const char *path)
{
    char name[32];

    if (*path == '[' && strlen(path) < sizeof(name)) {
        strcpy(name, path + 1);
        name[strcspn(name, "]")] = '\0';
        path = name;
    }
    escaped_add(out, path);
}

static void part_add(struct buf *out, const struct part *part)
{
    const unsigned long long address = part->address;

    switch (part->kind) {
    case PART_COMM:
        escaped_add(out, part->text);
        return;
    case PART_FILE:
        buf_char(out, '[');
        path_add(out, part->path);
        buf_printf(out, "+0x%llx]", address);
        return;
    case PART_CODE:
        buf_printf(out, "[%u:0x%llx]", (unsigned)part->pid, address);
        return;
    case PART_KERNEL:
        buf_printf(out, "[kernel+0x%llx]", address);
        return;
    }
}

static int parts_print(struct stacks *stacks)
{
    struct buf out;
    bool failed = false;

    buf_init(&out, NULL, 0);
    for (uint32_t i = 0; i < stacks->n_parts; i++) {
        struct part *part = &stacks->parts[i];
        char *text;

        buf_clear(&out);
        part_add(&out, part);
        text = out.failed ? NULL : strdup(buf_text(&out));
        failed |= !text;
        free(part->text);
        part->text = text;
    }
    buf_free(&out);
    return failed ? -ENOMEM : 0;
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

int folded_text(struct log *log, struct buf *out)
{
    struct folder *folder = calloc(1, sizeof(*folder));
    int rc = -ENOMEM;

    if (folder && (folder->spaces = spaces_new(SPACES_BYTES)))
        rc = folder_fill(folder, log);
    if (rc == 0)
        rc = parts_print(&folder->stacks);
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
