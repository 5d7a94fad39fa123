/*
 * Names of code that a process generated: its perf-PID.map, lines "START SIZE NAME" in hexadecimal.
 * A JIT compiler only appends lines. Where lines overlap, the last one is right, because its code
 * replaced the older code.
 */
#include "examples/pmc-names/names.h"

#include "core/base/vec.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAP_BYTES   (INT64_C(256) << 20)  /* read of a map: its end, which has the newest lines */
#define READ_BYTES  (INT64_C(2) << 30)    /* read of all maps together */
#define TABLE_BYTES (UINT64_C(768) << 20) /* memory of all tables */
#define LINES_MAX   (1u << 21) /* of a table; beyond it lines_shrink() drops unused and old lines */
#define LINE_BYTES  600u       /* longer lines are cut */
#define TABLES_MAX  64         /* processes */
#define READS_MAX   3          /* of a map that becomes shorter while it is read */

struct line {
    uint64_t start, end; /* end is the first address after the code */
    uint32_t order;      /* line number in the file */
    bool found;          /* this line is the newest for at least one address */
    char *name;
};

/* Addresses for which the same line is the newest. */
struct range {
    uint64_t start, end;
    const char *name; /* name of the line */
};

struct table {
    uint32_t pid;   /* 0: unused */
    uint32_t order; /* number of the next line */
    uint64_t bytes;
    VEC(struct line) lines;
    VEC(struct range) ranges; /* in order of address; none overlaps another */
};

static struct {
    struct table table[TABLES_MAX];
    unsigned next;
    uint64_t bytes; /* of all tables */
    int64_t read;
} made;

/* ---- the newest line of each address ---- */

static int by_start(const void *a, const void *b)
{
    const struct line *p = a, *q = b;

    return p->start < q->start ? -1 : p->start > q->start;
}

static int by_order(const void *a, const void *b)
{
    const struct line *p = a, *q = b;

    return p->order < q->order ? -1 : p->order > q->order;
}

/* Moves heap[at] down to its place in a heap of n lines with the newest at the top. */
static void heap_settle(struct line **heap, size_t n, size_t at)
{
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        struct line *moved = heap[at];

        if (child + 1 < n && heap[child + 1]->order > heap[child]->order)
            child++;
        if (heap[child]->order < moved->order)
            return;
        heap[at] = heap[child];
        heap[child] = moved;
    }
}

static void heap_push(struct line **heap, size_t *n, struct line *line)
{
    size_t at = (*n)++;

    for (; at && heap[(at - 1) / 2]->order < line->order; at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = line;
}

/* Fills in `ranges`, and `found` of the lines, which it sorts by address. Walks the addresses
 * upwards; the heap has the lines that contain the address. Returns false on ENOMEM. */
static bool ranges_find(struct table *table)
{
    struct line **heap = calloc(table->lines.n + 1, sizeof *heap);
    const size_t lines = table->lines.n;
    size_t held = 0, next = 0;
    uint64_t at = 0;

    table->ranges.n = 0;
    if (!heap)
        return false;
    if (lines)
        qsort(table->lines.items, lines, sizeof *table->lines.items, by_start);
    while (held || next < lines) {
        if (!held)
            at = table->lines.items[next].start;
        for (; next < lines && table->lines.items[next].start == at; next++)
            heap_push(heap, &held, &table->lines.items[next]);
        if (heap[0]->end <= at) {
            heap[0] = heap[--held];
            heap_settle(heap, held, 0);
            continue;
        }
        struct range range = {at, heap[0]->end, heap[0]->name};
        if (next < lines && table->lines.items[next].start < range.end)
            range.end = table->lines.items[next].start;
        heap[0]->found = true;
        if (vec_push(&table->ranges, range) < 0)
            break;
        at = range.end;
    }
    free(heap);
    return !held && next == lines;
}

/* Drops the lines that are the newest of no address, and the oldest of the others if more than half
 * of LINES_MAX remain. */
static bool lines_shrink(struct table *table)
{
    size_t kept = 0, from = 0;

    if (!ranges_find(table))
        return false;
    table->ranges.n = 0;
    qsort(table->lines.items, table->lines.n, sizeof *table->lines.items, by_order);
    for (size_t i = table->lines.n, newest = 0; i-- > 0;)
        if (table->lines.items[i].found && ++newest == LINES_MAX / 2)
            from = i;
    for (size_t i = 0; i < table->lines.n; i++) {
        struct line *line = &table->lines.items[i];

        if (i >= from && line->found) {
            line->found = false;
            table->lines.items[kept++] = *line;
        } else {
            free(line->name);
        }
    }
    table->lines.n = kept;
    return true;
}

/* ---- reading ---- */

static bool line_add(struct table *table, const char *text)
{
    char *rest;
    const uint64_t start = strtoull(text, &rest, 16);
    uint64_t size;

    if (rest == text || *rest != ' ')
        return true;
    size = strtoull(rest, &rest, 16);
    if (*rest != ' ' || size == 0)
        return true;
    if (table->lines.n == LINES_MAX && !lines_shrink(table))
        return false;
    struct line line = {start, start + size < start ? UINT64_MAX : start + size, table->order++,
                        false, strdup(rest + 1)};
    if (line.name && vec_push(&table->lines, line) == 0)
        return true;
    free(line.name);
    return false;
}

static void table_free(struct table *table)
{
    for (size_t i = 0; i < table->lines.n; i++)
        free(table->lines.items[i].name);
    free(table->lines.items);
    free(table->ranges.items);
    made.bytes -= table->bytes;
    *table = (struct table){0};
}

/* Adds the lines in the next `left` bytes of the file. Ignores a last line without a newline, which
 * is still being written, and zero bytes: a map has such a hole if it is truncated while its writer
 * continues at the old offset. Returns false on ENOMEM. */
static bool lines_read(struct table *table, FILE *file, int64_t left)
{
    char line[LINE_BYTES];
    size_t n = 0;
    bool room = true;

    for (int c; room && left-- > 0 && (c = getc_unlocked(file)) != EOF;) {
        if (c == '\n') {
            line[n] = '\0';
            room = line_add(table, line);
        } else if (c && n < sizeof line - 1) {
            line[n++] = (char)c;
        }
        if (c == '\n' || !c)
            n = 0;
    }
    return room;
}

/* Reads a map into its process's table. A map that became shorter was rewritten while it was read:
 * lines may be mixed, so it is read again. */
static void table_read(struct table *table, FILE *file)
{
    struct stat before, after;
    bool again = true;

    for (unsigned n = 0; again && n < READS_MAX; n++) {
        const uint32_t pid = table->pid;

        table_free(table);
        table->pid = pid;
        if (fstat(fileno(file), &before) < 0)
            return;
        int64_t bytes = before.st_size < MAP_BYTES ? before.st_size : MAP_BYTES;
        if (made.read + bytes > READ_BYTES) {
            fprintf(stderr,
                    "pmc-names: perf-PID.map files are too large together: names "
                    "of process %" PRIu32 " are missing\n",
                    pid);
            return;
        }
        if (n == 0 && before.st_size > bytes)
            fprintf(stderr,
                    "pmc-names: only the last %" PRId64 " MiB of the map of process %" PRIu32
                    " are read\n",
                    MAP_BYTES >> 20, pid);
        made.read += bytes;
        fseeko(file, before.st_size - bytes, SEEK_SET);
        while (bytes < before.st_size && bytes > 0 && getc_unlocked(file) != '\n')
            bytes--; /* the incomplete line before the first complete line */
        if (!lines_read(table, file, bytes))
            fprintf(stderr, "pmc-names: no memory for all names of process %" PRIu32 "\n", pid);
        again = fstat(fileno(file), &after) == 0 && after.st_size < before.st_size;
    }
    if (!ranges_find(table))
        table->ranges.n = 0;
    table->bytes =
        table->lines.cap * sizeof(struct line) + table->ranges.cap * sizeof(struct range);
    for (size_t i = 0; i < table->lines.n; i++)
        table->bytes += strlen(table->lines.items[i].name) + 16;
    made.bytes += table->bytes;
}

/* Returns the table of a process, whose map is read at the first call. A new table replaces the
 * oldest one, and more of them if all together exceed TABLE_BYTES. */
static struct table *table_of(uint32_t pid)
{
    struct table *table;
    FILE *file;

    for (unsigned i = 0; i < TABLES_MAX; i++)
        if (pid && made.table[i].pid == pid)
            return &made.table[i];
    table = &made.table[made.next++ % TABLES_MAX];
    table_free(table);
    table->pid = pid;
    file = place_open_map(pid);
    if (file) {
        table_read(table, file);
        fclose(file);
    }
    for (unsigned i = 0; made.bytes > TABLE_BYTES && i < TABLES_MAX - 1; i++)
        table_free(&made.table[(made.next + i) % TABLES_MAX]);
    return table;
}

const char *made_name(uint32_t pid, uint64_t address)
{
    const struct table *table = table_of(pid);
    size_t low = 0, high = table->ranges.n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (table->ranges.items[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < table->ranges.n && table->ranges.items[low].start <= address
               ? table->ranges.items[low].name
               : NULL;
}
