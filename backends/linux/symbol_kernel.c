/*
 * Names of the kernel's addresses. /proc/kallsyms is read through once and nothing of it is kept:
 * it is some megabytes, modules come and go, and only few addresses are asked for.
 */
#include "backends/linux/symbol_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REACH (UINT64_C(1) << 20) /* no function is larger: beyond, the symbol is another's */

/* Addresses in order, and the last symbol at or before each, as far as the file was read. */
struct address {
    uint64_t at, start;
    struct frame_query *query;
    char name[128];
};

static int address_compare(const void *a, const void *b)
{
    const struct address *p = a, *q = b;

    return p->at < q->at ? -1 : p->at > q->at;
}

static size_t first_from(const struct address *addresses, size_t n, uint64_t at)
{
    size_t low = 0;

    while (low < n) {
        size_t middle = low + (n - low) / 2;

        if (addresses[middle].at < at)
            low = middle + 1;
        else
            n = middle;
    }
    return low;
}

/* Symbols are in no order: each is kept by the first address behind it. */
static void symbols_read(FILE *file, struct address *addresses, size_t n)
{
    char line[1024];

    while (fgets(line, sizeof line, file)) {
        char *rest;
        uint64_t start = strtoull(line, &rest, 16);
        size_t i, len;

        /* "ADDRESS TYPE NAME", and behind a tab the module's */
        if (start == 0 || rest[0] != ' ' || !strchr("tTwW", rest[1]) || rest[2] != ' ')
            continue;
        i = first_from(addresses, n, start);
        if (i == n || addresses[i].start > start || addresses[i].at - start > REACH)
            continue;
        if (addresses[i].start == start && addresses[i].name[0])
            continue; /* an alias */
        addresses[i].start = start;
        len = strcspn(rest + 3, "\t\n");
        len = len < sizeof addresses[i].name ? len : sizeof addresses[i].name - 1;
        memcpy(addresses[i].name, rest + 3, len);
        addresses[i].name[len] = '\0';
    }
}

void symbol_kernel(struct frame_query *queries, size_t n)
{
    struct address *addresses;
    FILE *file;
    const struct address *last = NULL;
    size_t n_addresses = 0;

    for (size_t i = 0; i < n; i++)
        n_addresses += !queries[i].map;
    addresses = n_addresses > 0 ? calloc(n_addresses, sizeof *addresses) : NULL;
    file = addresses ? fopen("/proc/kallsyms", "re") : NULL;
    n_addresses = 0;
    for (size_t i = 0; file && i < n; i++)
        if (!queries[i].map)
            addresses[n_addresses++] =
                (struct address){.at = queries[i].address, .query = &queries[i]};
    if (n_addresses > 0) {
        qsort(addresses, n_addresses, sizeof *addresses, address_compare);
        symbols_read(file, addresses, n_addresses);
    }
    for (size_t i = 0; i < n_addresses; i++) {
        if (addresses[i].name[0])
            last = &addresses[i];
        if (last && addresses[i].at - last->start <= REACH)
            addresses[i].query->name = strdup(last->name);
    }
    if (file)
        fclose(file);
    free(addresses);
}
