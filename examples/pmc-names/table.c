/*
 * Kernel functions from /proc/kallsyms.
 */
#include "examples/pmc-names/names.h"

#include "core/base/vec.h"

#include <stdlib.h>
#include <string.h>

#define KERNEL_REACH (UINT64_C(1) << 20) /* largest size of a function */
#define ENTRIES_MAX  (1u << 21)
#define NAME_MAX_    512u /* bytes of a name */

struct entry {
    uint64_t start;
    unsigned order; /* line number in the file */
    char *name;
};

struct table {
    struct entry *items;
    size_t n, cap;
};

static bool table_add(struct table *table, uint64_t start, const char *name)
{
    struct entry entry = {start, (unsigned)table->n, strndup(name, NAME_MAX_)};

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

/* Returns the last entry of a sorted table that starts at or before the address, or NULL. */
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

/* Reads the functions in lines "ADDRESS TYPE NAME"; in lines of a module, a tab and its name
 * follow. All addresses are 0 for users that may not see them, and the table stays empty. */
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
        room = table_add(table, start, rest + 3);
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
    /* the first of several names of an address */
    while (entry > table.items && entry[-1].start == entry->start)
        entry--;
    return entry->name;
}
