/*
 * Lists of "ADDRESS … NAME": the kernel's, and those that programs write of code they made.
 */
#include "examples/pmc-names/names.h"

#include "core/base/vec.h"

#include <stdlib.h>
#include <string.h>

#define KERNEL_REACH (UINT64_C(1) << 20) /* no function is larger: beyond it is another's */
#define ENTRIES_MAX  (1u << 21)
#define NAME_MAX_    512u /* bytes of a name */
#define TABLES_MAX   64

struct entry {
    uint64_t start, size;
    unsigned order; /* in the file: what was told later holds */
    char *name;
};

struct table {
    struct entry *items;
    size_t n, cap;
};

static bool table_add(struct table *table, uint64_t start, uint64_t size, const char *name)
{
    struct entry entry = {start, size, (unsigned)table->n, strndup(name, NAME_MAX_)};

    if (entry.name && table->n < ENTRIES_MAX && vec_push(table, entry) == 0)
        return true;
    free(entry.name);
    return false;
}

static int entry_compare(const void *a, const void *b)
{
    const struct entry *p = a, *q = b;

    if (p->start != q->start)
        return p->start < q->start ? -1 : 1;
    return p->order < q->order ? -1 : 1;
}

static void table_sort(struct table *table)
{
    if (table->n)
        qsort(table->items, table->n, sizeof *table->items, entry_compare);
}

/* The last one that begins at the address or before it. */
static const struct entry *table_find(const struct table *table, uint64_t address)
{
    size_t low = 0, high = table->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (table->items[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &table->items[low - 1] : NULL;
}

static void table_free(struct table *table)
{
    for (size_t i = 0; i < table->n; i++)
        free(table->items[i].name);
    free(table->items);
    *table = (struct table){0};
}

/* "ADDRESS TYPE NAME", and behind a tab the module's; addresses are 0 for those that may not know
 * them. */
static void kernel_read(struct table *table)
{
    FILE *file = fopen("/proc/kallsyms", "re");
    char *line = NULL, *rest;
    size_t size = 0;
    bool room = true;

    while (file && room && getline(&line, &size, file) > 0) {
        uint64_t start = strtoull(line, &rest, 16);

        if (start == 0 || rest[0] != ' ' || !rest[1] || !strchr("tTwW", rest[1]) || rest[2] != ' ')
            continue;
        rest[3 + strcspn(rest + 3, "\t\n")] = '\0';
        room = table_add(table, start, 0, rest + 3);
    }
    free(line);
    if (file)
        fclose(file);
    table_sort(table);
}

const char *kernel_name(uint64_t address)
{
    static struct table table;
    static bool done;
    const struct entry *entry;

    if (!done)
        kernel_read(&table);
    done = true;
    entry = table_find(&table, address);
    if (!entry || address - entry->start > KERNEL_REACH)
        return NULL;
    /* of several names of one address the first */
    while (entry > table.items && entry[-1].start == entry->start)
        entry--;
    return entry->name;
}

/* "START SIZE NAME" */
static void made_read(struct table *table, FILE *file)
{
    char *line = NULL, *rest;
    size_t size = 0;
    bool room = true;

    while (room && getline(&line, &size, file) > 0) {
        uint64_t start = strtoull(line, &rest, 16), length;

        if (rest == line || *rest != ' ')
            continue;
        length = strtoull(rest, &rest, 16);
        if (*rest != ' ')
            continue;
        rest[strcspn(rest, "\n")] = '\0';
        room = table_add(table, start, length, rest + 1);
    }
    free(line);
    table_sort(table);
}

/* Of each process once; of many processes the latest ones. */
const char *made_name(uint32_t pid, uint64_t address)
{
    static struct {
        uint32_t pid;
        bool used;
        struct table table;
    } known[TABLES_MAX];
    static unsigned next;
    const struct entry *entry;
    unsigned i = 0;
    FILE *file;

    while (i < TABLES_MAX && !(known[i].used && known[i].pid == pid))
        i++;
    if (i == TABLES_MAX) {
        i = next++ % TABLES_MAX;
        table_free(&known[i].table);
        known[i].used = true;
        known[i].pid = pid;
        file = place_open_map(pid);
        if (file) {
            made_read(&known[i].table, file);
            fclose(file);
        }
    }
    entry = table_find(&known[i].table, address);
    return entry && address - entry->start < entry->size ? entry->name : NULL;
}
