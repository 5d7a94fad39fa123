/*
 * Lookup and listing.
 */
#include "fs/tree/node.h"

#include "core/engine.h"
#include "core/pmc/pmc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define OBJECT_BITS 52
/* Lower cookies: ".", ".." and named rows; higher ones: objects in order. */
#define COOKIE_DYNAMIC 4096

fuse_ino_t node_id(enum node_kind kind, uint64_t object, unsigned number)
{
    return (uint64_t)kind << 60 | object << 8 | number;
}

bool node_decode(fuse_ino_t ino, struct node *node)
{
    unsigned kind = (unsigned)(ino >> 60);

    if (kind >= NODE_KINDS)
        return false;
    node->kind = (enum node_kind)kind;
    node->object = ino >> 8 & ((UINT64_C(1) << OBJECT_BITS) - 1);
    node->number = (unsigned)(ino & 0xff);
    node->row = file_row(node->kind, node->number);
    return node->row != NULL;
}

static struct node node_of(enum node_kind kind, uint64_t object, unsigned number)
{
    return (struct node){
        .kind = kind, .object = object, .number = number, .row = file_row(kind, number)};
}

uint64_t node_instance(const struct node *node)
{
    if (node->kind == NODE_EVENT)
        return node->object >> CATALOG_ID_BITS;
    return node->kind == NODE_INSTANCE ? node->object : 0;
}

uint64_t node_object(const struct node *node)
{
    if (node->kind == NODE_EVENT)
        return node->object & ((UINT64_C(1) << CATALOG_ID_BITS) - 1);
    return node->object;
}

static bool entry_make(struct node_entry *entry, const char *name, uint64_t cookie,
                       struct node node)
{
    entry->name = name;
    entry->cookie = cookie;
    entry->node = node;
    return true;
}

/* Returns a node below events/. id: of the catalog. The nodes of each instance are different,
 * because a directory has one parent. */
static struct node node_of_event(const struct node *dir, uint64_t id, unsigned number)
{
    return node_of(NODE_EVENT, node_instance(dir) << CATALOG_ID_BITS | id, number);
}

/* In a directory whose entries are objects: sets entry to the first one after `after` (0 or the
 * cookie of an earlier entry). Returns false at the end. */
static bool object_next(struct tree *tree, const struct node *dir, uint64_t after,
                        struct node_entry *entry)
{
    struct engine *engine = tree->engine;
    const struct catalog *catalog = engine_catalog(engine);
    const struct catalog_class *class;
    const struct catalog_entry *event;
    const struct instance *instance;
    const char *name;
    uint64_t id;
    unsigned row = (unsigned)after;
    int cpu;

    switch (dir->row->is) {
    case DIR_ROOT:
        name = engine_pmc_next(engine_instance(engine, dir->object), after, &id);
        return name && entry_make(entry, name, id, node_of(NODE_PMC, id, NUMBER_OWN_DIR));
    case DIR_EVENTS:
        class = &catalog->classes[after];
        return after < catalog->n_classes &&
               entry_make(entry, class->name, after + 1,
                          node_of_event(dir, class->id, NUMBER_OWN_DIR));
    case DIR_CLASS:
        class = catalog_class_by_id(catalog, node_object(dir));
        if (!class || after >= class->n)
            return false;
        event = &catalog->entries[class->first + after];
        return entry_make(entry, event->event, after + 1,
                          node_of_event(dir, event->id, NUMBER_OWN_FILE));
    case DIR_ADMIN:
        cpu = cpus_next(&engine->possible, (int)after);
        snprintf(entry->scratch, sizeof entry->scratch, "cpu%d", cpu);
        return cpu >= 0 && entry_make(entry, entry->scratch, (uint64_t)cpu + 1,
                                      node_of(NODE_SLOT, (uint64_t)cpu << 16, NUMBER_OWN_DIR));
    case DIR_CPU:
        while (row < engine_n_rows(engine) &&
               !engine_cpu_has_row(engine, (unsigned)(dir->object >> 16), row))
            row++;
        snprintf(entry->scratch, sizeof entry->scratch, "%u", row);
        return row < engine_n_rows(engine) &&
               entry_make(entry, entry->scratch, row + 1,
                          node_of(NODE_SLOT, dir->object | row, NUMBER_OWN_FILE));
    case DIR_TUNABLES:
        return after < TUNABLE_COUNT &&
               entry_make(entry, tunable_row((enum tunable)after)->name, after + 1,
                          node_of(NODE_TUNABLE, after, NUMBER_OWN_FILE));
    case DIR_INSTANCES:
    case DIR_LIMITS:
        instance = ids_next(&engine->instances, after, &id);
        return instance &&
               entry_make(entry, instance->name, instance->id,
                          node_of(dir->row->is == DIR_LIMITS ? NODE_LIMIT : NODE_INSTANCE,
                                  instance->id, NUMBER_OWN_DIR));
    default:
        return false;
    }
}

/* Finds an object by its name; where the engine has no function for that, by comparing all names.
 * Returns 0 or -ENOENT. */
static int object_find(struct tree *tree, const struct node *dir, const char *name,
                       struct node *found)
{
    const struct catalog *catalog = engine_catalog(tree->engine);
    struct node_entry entry = {.cookie = 0};
    const struct catalog_class *class;
    const struct catalog_entry *event;
    const struct instance *instance;
    const struct pmc *pmc;

    switch (dir->row->is) {
    case DIR_ROOT:
        pmc = instance_find(engine_instance(tree->engine, dir->object), name);
        if (pmc)
            *found = node_of(NODE_PMC, pmc->id, NUMBER_OWN_DIR);
        return pmc ? 0 : -ENOENT;
    case DIR_CLASS:
        class = catalog_class_by_id(catalog, node_object(dir));
        event = class ? catalog_event(catalog, class, name) : NULL;
        if (event)
            *found = node_of_event(dir, event->id, NUMBER_OWN_FILE);
        return event ? 0 : -ENOENT;
    case DIR_INSTANCES:
    case DIR_LIMITS:
        instance = instance_by_name(tree->engine, name);
        if (instance)
            *found = node_of(dir->row->is == DIR_LIMITS ? NODE_LIMIT : NODE_INSTANCE, instance->id,
                             NUMBER_OWN_DIR);
        return instance ? 0 : -ENOENT;
    default:
        while (object_next(tree, dir, entry.cookie, &entry))
            if (strcmp(entry.name, name) == 0) {
                *found = entry.node;
                return 0;
            }
        return -ENOENT;
    }
}

bool node_needs_catalog(const struct node *dir)
{
    return dir->row->is == DIR_EVENTS || dir->row->is == DIR_CLASS;
}

bool node_shows_file(const struct node *dir, const struct file_row *row)
{
    return dir->kind != NODE_INSTANCE || dir->object == 0 || !(row->flags & FILE_ROOT_ONLY);
}

int node_lookup(struct tree *tree, struct call *call, const struct node *dir, const char *name,
                struct node *found)
{
    unsigned number;
    const struct file_row *row = file_named(dir->row->is, name, &number);
    int rc = -ENOENT;

    if (row && node_shows_file(dir, row)) {
        *found = node_of(dir->kind, dir->object, number);
        return 0;
    }
    if (!node_needs_catalog(dir))
        return object_find(tree, dir, name, found);
    for (int again = 0; rc == -ENOENT && again < 2; again++) {
        rc = engine_catalog_load(call, again);
        if (rc == CALL_DONE)
            rc = object_find(tree, dir, name, found);
    }
    return rc;
}

/* Returns the node of the parent directory, for "..". */
static struct node node_parent(struct tree *tree, const struct node *dir)
{
    static const unsigned above[DIR_KINDS] = {
        [DIR_CLASS] = NUMBER_EVENTS, [DIR_CPU] = NUMBER_ADMIN,    [DIR_TUNABLES] = NUMBER_ADMIN,
        [DIR_LIMITS] = NUMBER_ADMIN, [DIR_LIMIT] = NUMBER_LIMITS,
    };
    unsigned number = above[dir->row->is];
    struct pmc *pmc = dir->kind == NODE_PMC ? ids_find(&tree->engine->pmcs, dir->object) : NULL;

    if (pmc)
        return node_of(NODE_INSTANCE, pmc->instance->id, NUMBER_OWN_DIR);
    if (dir->row->is == DIR_ROOT && dir->object)
        return node_of(NODE_INSTANCE, 0, NUMBER_INSTANCES);
    return node_of(NODE_INSTANCE, node_instance(dir), number ? number : NUMBER_OWN_DIR);
}

bool node_next(struct tree *tree, const struct node *dir, uint64_t cookie, struct node_entry *entry)
{
    const bool named = cookie < COOKIE_DYNAMIC;
    const struct file_row *row = NULL;
    unsigned number = (unsigned)cookie - 2;

    if (cookie < 2)
        return entry_make(entry, cookie == 0 ? "." : "..", cookie + 1,
                          cookie == 0 ? *dir : node_parent(tree, dir));
    if (named)
        do
            row = file_next(dir->row->is, number, &number);
        while (row && !node_shows_file(dir, row));
    if (row)
        return entry_make(entry, row->name, number + 2, node_of(dir->kind, dir->object, number));
    if (!object_next(tree, dir, named ? 0 : cookie - COOKIE_DYNAMIC, entry))
        return false;
    entry->cookie += COOKIE_DYNAMIC;
    return true;
}

/* Prints the name for a row without a fixed name: of the node's object, or of the class or CPU
 * above it. */
static void object_name(struct tree *tree, const struct node *node, const struct file_row *row,
                        struct buf *out)
{
    const struct catalog *catalog = engine_catalog(tree->engine);
    const struct catalog_entry *event = NULL;
    const struct catalog_class *class = NULL;
    const struct pmc *pmc = NULL;
    const struct instance *instance = NULL;
    const char *text = "";

    switch (node->kind) {
    case NODE_PMC:
        pmc = ids_find(&tree->engine->pmcs, node->object);
        text = pmc ? pmc->name : "(released)";
        break;
    case NODE_LIMIT:
        instance = engine_instance(tree->engine, node->object);
        text = instance ? instance->name : "(removed)";
        break;
    case NODE_EVENT:
        if (node->number == NUMBER_OWN_DIR)
            class = catalog_class_by_id(catalog, node_object(node));
        else
            event = catalog_event_by_id(catalog, node_object(node));
        if (class || event)
            text = class ? class->name : row->is ? event->class_name : event->event;
        break;
    case NODE_SLOT:
        buf_printf(out, row->is ? "cpu%u" : "%u",
                   (unsigned)(row->is ? node->object >> 16 : node->object & 0xffff));
        break;
    case NODE_TUNABLE:
        text = tunable_row((enum tunable)node->object)->name;
        break;
    default:
        break;
    }
    buf_value(out, text, strlen(text));
}

void node_path(struct tree *tree, const struct node *node, const struct file_row *row,
               struct buf *out)
{
    const struct file_row *above = file_above(row);

    if (above) {
        node_path(tree, node, above, out);
        buf_char(out, '/');
    }
    if (row->name)
        buf_str(out, row->name);
    else
        object_name(tree, node, row, out);
}
