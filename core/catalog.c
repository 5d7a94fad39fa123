/*
 * The sorted list of classes and events, and the ids that stand for them in node numbers.
 */
#include "core/catalog.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Below 2^28 with a margin, so that ids stepped aside after a collision fit too. */
#define HASH_RANGE ((UINT64_C(1) << CATALOG_ID_BITS) - (UINT64_C(1) << 24))

void catalog_init(struct catalog *catalog)
{
    *catalog = (struct catalog){0};
}

void catalog_free(struct catalog *catalog)
{
    for (size_t i = 0; i < catalog->n; i++)
        free(catalog->entries[i].event);
    for (size_t i = 0; i < catalog->n_classes; i++)
        free(catalog->classes[i].name);
    free(catalog->entries);
    free(catalog->classes);
    free(catalog->index);
    catalog_init(catalog);
}

/* The catalogue's own copy of the name, or NULL. Backends list class by class: last first. */
static const char *class_intern(struct catalog *catalog, const char *name)
{
    struct catalog_class *classes;
    char *copy;

    for (size_t i = catalog->n_classes; i-- > 0;)
        if (strcmp(catalog->classes[i].name, name) == 0)
            return catalog->classes[i].name;
    classes = reallocarray(catalog->classes, catalog->n_classes + 1, sizeof(*classes));
    if (!classes)
        return NULL;
    catalog->classes = classes;
    copy = strdup(name);
    if (copy)
        classes[catalog->n_classes++] = (struct catalog_class){.name = copy};
    return copy;
}

static bool entries_grow(struct catalog *catalog)
{
    size_t size = catalog->size ? catalog->size * 2 : 256;
    struct catalog_entry *entries;

    if (catalog->n < catalog->size)
        return true;
    entries = reallocarray(catalog->entries, size, sizeof(*entries));
    if (!entries)
        return false;
    catalog->entries = entries;
    catalog->size = size;
    return true;
}

void catalog_add(struct catalog *catalog, const char *class_name, const char *event)
{
    const char *interned = class_intern(catalog, class_name);
    char *copy = interned && entries_grow(catalog) ? strdup(event) : NULL;

    if (copy)
        catalog->entries[catalog->n++] = (struct catalog_entry){interned, copy, 0};
    else
        catalog->failed = true;
}

static int entry_compare(const void *a, const void *b)
{
    const struct catalog_entry *x = a, *y = b;
    int order = x->class_name == y->class_name ? 0 : strcmp(x->class_name, y->class_name);

    return order ? order : strcmp(x->event, y->event);
}

static int class_compare(const void *a, const void *b)
{
    const struct catalog_class *x = a, *y = b;

    return strcmp(x->name, y->name);
}

static int index_compare(const void *a, const void *b)
{
    const struct catalog_index *x = a, *y = b;

    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static void entries_sort(struct catalog *catalog)
{
    size_t kept = 0;

    if (catalog->n)
        qsort(catalog->entries, catalog->n, sizeof(*catalog->entries), entry_compare);
    for (size_t i = 0; i < catalog->n; i++) {
        if (kept && entry_compare(&catalog->entries[kept - 1], &catalog->entries[i]) == 0)
            free(catalog->entries[i].event);
        else
            catalog->entries[kept++] = catalog->entries[i];
    }
    catalog->n = kept;
}

/* Both lists have the same order, so a class's entries begin where those of the one before end. */
static void classes_sort(struct catalog *catalog)
{
    size_t at = 0;

    if (catalog->n_classes)
        qsort(catalog->classes, catalog->n_classes, sizeof(*catalog->classes), class_compare);
    for (size_t i = 0; i < catalog->n_classes; i++) {
        struct catalog_class *class = &catalog->classes[i];

        class->first = at;
        while (at < catalog->n && catalog->entries[at].class_name == class->name)
            at++;
        class->n = at - class->first;
    }
}

/* FNV-1a; goes on from a hash already begun. */
static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t hash_id(const char *class_name, const char *event)
{
    uint64_t hash = hash_text(UINT64_C(0xcbf29ce484222325), class_name);

    if (event)
        hash = hash_text(hash_text(hash, "/"), event);
    return (hash ^ hash >> 52) % HASH_RANGE + 1;
}

static uint64_t *index_target(struct catalog *catalog, size_t at)
{
    return at < catalog->n ? &catalog->entries[at].id : &catalog->classes[at - catalog->n].id;
}

/* Sorted by hash, then by name: who collides is stepped to the next id, the same in every run. */
static bool index_make(struct catalog *catalog)
{
    size_t total = catalog->n + catalog->n_classes;
    struct catalog_index *index = reallocarray(NULL, total ? total : 1, sizeof(*index));
    uint64_t last = 0;

    if (!index)
        return false;
    for (size_t i = 0; i < catalog->n; i++)
        index[i].id = hash_id(catalog->entries[i].class_name, catalog->entries[i].event);
    for (size_t i = catalog->n; i < total; i++)
        index[i].id = hash_id(catalog->classes[i - catalog->n].name, NULL);
    for (size_t i = 0; i < total; i++)
        index[i].at = i;
    qsort(index, total, sizeof(*index), index_compare);
    for (size_t i = 0; i < total; i++) {
        if (index[i].id <= last)
            index[i].id = last + 1;
        last = index[i].id;
        *index_target(catalog, index[i].at) = last;
    }
    catalog->index = index;
    return true;
}

int catalog_finish(struct catalog *catalog)
{
    entries_sort(catalog);
    classes_sort(catalog);
    free(catalog->index);
    catalog->index = NULL;
    if (!catalog->failed)
        catalog->failed = !index_make(catalog);
    return catalog->failed ? -ENOMEM : 0;
}

const struct catalog_class *catalog_class(const struct catalog *catalog, const char *name)
{
    struct catalog_class key = {.name = (char *)name};

    if (!catalog->n_classes)
        return NULL;
    return bsearch(&key, catalog->classes, catalog->n_classes, sizeof(key), class_compare);
}

/* Where the id points to, or SIZE_MAX. */
static size_t index_find(const struct catalog *catalog, uint64_t id)
{
    size_t low = 0, high = catalog->index ? catalog->n + catalog->n_classes : 0;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (catalog->index[middle].id == id)
            return catalog->index[middle].at;
        if (catalog->index[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return SIZE_MAX;
}

const struct catalog_class *catalog_class_by_id(const struct catalog *catalog, uint64_t id)
{
    size_t at = index_find(catalog, id);

    return at != SIZE_MAX && at >= catalog->n ? &catalog->classes[at - catalog->n] : NULL;
}

const struct catalog_entry *catalog_event(const struct catalog *catalog,
                                          const struct catalog_class *class, const char *event)
{
    struct catalog_entry key = {.class_name = class->name, .event = (char *)event};

    if (!class->n)
        return NULL;
    return bsearch(&key, catalog->entries + class->first, class->n, sizeof(key), entry_compare);
}

const struct catalog_entry *catalog_event_by_id(const struct catalog *catalog, uint64_t id)
{
    size_t at = index_find(catalog, id);

    return at < catalog->n ? &catalog->entries[at] : NULL;
}
