/*
 * Printing an event of any backend; the sorted list of classes and events, and their ids, which are
 * part of node ids.
 */
#include "core/base/event.h"

#include "core/base/cpus.h"

#include <errno.h>
#include <string.h>

void event_print(const struct event *event, const char *spelling, const char *about,
                 struct buf *out)
{
    struct cpus rows = {0}; /* rows are printed in the syntax of CPU lists */

    for (unsigned row = 0; row < 64; row++)
        if (event->rows >> row & 1 && !cpus_add(&rows, row))
            out->failed = true;
    buf_printf(out, "event %s\ndescription ", spelling);
    for (; *about; about++)
        buf_char(out, *about == '\n' || *about == '\t' ? ' ' : *about);
    buf_printf(out, "\nscope %s\nsampling %s\nunit %s\nscale %.17g\nrows ",
               event->scope & EVENT_PROCESS   ? "process"
               : event->scope & EVENT_PACKAGE ? "package"
                                              : "cpu",
               event->sampling ? "yes" : "no", event->unit[0] ? event->unit : "-", event->scale);
    if (!event->rows)
        buf_char(out, '-');
    cpus_print(&rows, out);
    cpus_free(&rows);
    if (event->rows_needed > 1)
        buf_printf(out, " (takes %u)", event->rows_needed);
    buf_char(out, '\n');
}

/* ---- the catalog ---- */

/* Less than 2^28, so that ids that move after a collision still fit. */
#define HASH_RANGE ((UINT64_C(1) << CATALOG_ID_BITS) - (UINT64_C(1) << 24))

/* Returns the catalog's copy of the name, or NULL on ENOMEM. Searches from the end, because
 * backends list one class after the other. */
static const char *class_intern(struct catalog *catalog, const char *name)
{
    for (size_t i = catalog->n_classes; i-- > 0;)
        if (strcmp(catalog->classes[i].name, name) == 0)
            return catalog->classes[i].name;
    if (vec_grow(&catalog->classes, &catalog->classes_size, catalog->n_classes + 1,
                 sizeof(*catalog->classes)))
        return NULL;
    char *copy = strdup(name);
    if (copy)
        catalog->classes[catalog->n_classes++] = (struct catalog_class){.name = copy};
    return copy;
}

void catalog_add(struct catalog *catalog, const char *class_name, const char *event)
{
    const char *interned = class_intern(catalog, class_name);
    bool room = interned && vec_grow(&catalog->entries, &catalog->size, catalog->n + 1,
                                     sizeof(*catalog->entries)) == 0;
    char *copy = room ? strdup(event) : NULL;

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

/* FNV-1a; continues from the given hash. */
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

static void catalog_clear_ids(struct catalog *catalog)
{
    HASH_CLEAR(hh, catalog->by_id);
    free(catalog->ids);
    catalog->ids = NULL;
}

void catalog_free(struct catalog *catalog)
{
    for (size_t i = 0; i < catalog->n; i++)
        free(catalog->entries[i].event);
    for (size_t i = 0; i < catalog->n_classes; i++)
        free(catalog->classes[i].name);
    catalog_clear_ids(catalog);
    free(catalog->entries);
    free(catalog->classes);
    *catalog = (struct catalog){0};
}

int catalog_finish(struct catalog *catalog)
{
    size_t kept = 0, end = 0;

    if (catalog->n)
        qsort(catalog->entries, catalog->n, sizeof(*catalog->entries), entry_compare);
    for (size_t i = 0; i < catalog->n; i++) {
        if (kept && entry_compare(&catalog->entries[kept - 1], &catalog->entries[i]) == 0)
            free(catalog->entries[i].event);
        else
            catalog->entries[kept++] = catalog->entries[i];
    }
    catalog->n = kept;
    /* Both lists have the same order: the entries of a class follow those of the previous one. */
    if (catalog->n_classes)
        qsort(catalog->classes, catalog->n_classes, sizeof(*catalog->classes), class_compare);
    for (size_t i = 0; i < catalog->n_classes; i++) {
        struct catalog_class *class = &catalog->classes[i];

        class->first = end;
        while (end < catalog->n && catalog->entries[end].class_name == class->name)
            end++;
        class->n = end - class->first;
    }
    catalog_clear_ids(catalog);
    if (!catalog->failed)
        catalog->ids = calloc(kept + catalog->n_classes + 1, sizeof *catalog->ids);
    catalog->failed |= !catalog->ids;
    /* A used id becomes the next free one. Items come in order of names, so the ids are the same in
     * every run. */
    for (size_t i = 0; !catalog->failed && i < kept + catalog->n_classes; i++) {
        struct catalog_entry *entry = i < kept ? &catalog->entries[i] : NULL;
        struct catalog_class *class = entry ? NULL : &catalog->classes[i - kept];
        struct catalog_id *item = &catalog->ids[i], *taken;

        item->at = i;
        item->id = entry ? hash_id(entry->class_name, entry->event) : hash_id(class->name, NULL);
        for (;; item->id++) {
            HASH_FIND(hh, catalog->by_id, &item->id, sizeof item->id, taken);
            if (!taken)
                break;
        }
        HASH_ADD(hh, catalog->by_id, id, sizeof item->id, item);
        catalog->failed = !hash_has(item);
        *(entry ? &entry->id : &class->id) = item->id;
    }
    return catalog->failed ? -ENOMEM : 0;
}

const struct catalog_class *catalog_class(const struct catalog *catalog, const char *name)
{
    struct catalog_class key = {.name = (char *)name};

    if (!catalog->n_classes)
        return NULL;
    return bsearch(&key, catalog->classes, catalog->n_classes, sizeof(key), class_compare);
}

/* Returns the index of the id, or SIZE_MAX. */
static size_t index_find(const struct catalog *catalog, uint64_t id)
{
    struct catalog_id *found;

    HASH_FIND(hh, catalog->by_id, &id, sizeof id, found);
    return found ? found->at : SIZE_MAX;
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
