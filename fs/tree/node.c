/*
 * Node ids, lookup and listing.
 */
#include "fs/tree/node.h"

#include "core/engine.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define OBJECT_BITS    52
#define COOKIE_DYNAMIC 4096 /* below: . .. and named rows; above: objects in their order */

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

static void node_make(struct node *node, enum node_kind kind, uint64_t object, unsigned number)
{
    *node = (struct node){
        .kind = kind, .object = object, .number = number, .row = file_row(kind, number)};
}

uint64_t node_instance(const struct node *node)
{
    if (node->kind == NODE_EVENT)
        return node->object >> CATALOG_ID_BITS;
    return node->kind == NODE_INSTANCE ? node->object : 0;
}

uint64_t node_index(const struct node *node)
{
    if (node->kind == NODE_EVENT)
        return node->object & ((UINT64_C(1) << CATALOG_ID_BITS) - 1);
    return node->object;
}

/* Each instance has its own: a directory is below one other only. */
static void node_make_event(struct node *node, const struct node *dir, uint64_t id, unsigned number)
{
    node_make(node, NODE_EVENT, node_instance(dir) << CATALOG_ID_BITS | id, number);
}

/*
 * Directories whose entries are objects. next: the first after `after`, which is 0 or the order of
 * an entry seen. find: by name, 0 or -ENOENT; NULL: there are few, they are gone through.
 */
struct objects {
    int (*find)(struct tree *tree, const struct node *dir, const char *name, struct node *found);
    bool (*next)(struct tree *tree, const struct node *dir, uint64_t after,
                 struct node_entry *entry, uint64_t *order);
};

static int pmc_find(struct tree *tree, const struct node *dir, const char *name, struct node *found)
{
    struct pmc *pmc = engine_pmc_named(engine_instance(tree->engine, dir->object), name);
    struct pmc_attr attr;

    if (!pmc)
        return -ENOENT;
    engine_pmc_attr(pmc, &attr);
    node_make(found, NODE_PMC, attr.id, NODE_DIR);
    return 0;
}

static bool pmc_next(struct tree *tree, const struct node *dir, uint64_t after,
                     struct node_entry *entry, uint64_t *order)
{
    struct pmc *pmc = engine_pmc_next(engine_instance(tree->engine, dir->object), after);
    struct pmc_attr attr;

    if (!pmc)
        return false;
    engine_pmc_attr(pmc, &attr);
    entry->name = attr.name;
    node_make(&entry->node, NODE_PMC, attr.id, NODE_DIR);
    *order = attr.id;
    return true;
}

static bool class_next(struct tree *tree, const struct node *dir, uint64_t after,
                       struct node_entry *entry, uint64_t *order)
{
    const struct catalog *catalog = engine_catalog(tree->engine);

    if (after >= catalog->n_classes)
        return false;
    entry->name = catalog->classes[after].name;
    node_make_event(&entry->node, dir, catalog->classes[after].id, NODE_DIR);
    *order = after + 1;
    return true;
}

static int event_find(struct tree *tree, const struct node *dir, const char *name,
                      struct node *found)
{
    const struct catalog *catalog = engine_catalog(tree->engine);
    const struct catalog_class *class = catalog_class_by_id(catalog, node_index(dir));
    const struct catalog_entry *event = class ? catalog_event(catalog, class, name) : NULL;

    if (!event)
        return -ENOENT;
    node_make_event(found, dir, event->id, 2);
    return 0;
}

static bool event_next(struct tree *tree, const struct node *dir, uint64_t after,
                       struct node_entry *entry, uint64_t *order)
{
    const struct catalog *catalog = engine_catalog(tree->engine);
    const struct catalog_class *class = catalog_class_by_id(catalog, node_index(dir));
    const struct catalog_entry *event;

    if (!class || after >= class->n)
        return false;
    event = &catalog->entries[class->first + after];
    entry->name = event->event;
    node_make_event(&entry->node, dir, event->id, 2);
    *order = after + 1;
    return true;
}

static bool cpu_next(struct tree *tree, const struct node *dir, uint64_t after,
                     struct node_entry *entry, uint64_t *order)
{
    int cpu = cpus_next(engine_cpus(tree->engine), (int)after);

    (void)dir;
    if (cpu < 0)
        return false;
    snprintf(entry->scratch, sizeof entry->scratch, "cpu%d", cpu);
    entry->name = entry->scratch;
    node_make(&entry->node, NODE_SLOT, (uint64_t)cpu << 16, NODE_DIR);
    *order = (uint64_t)cpu + 1;
    return true;
}

static bool slot_next(struct tree *tree, const struct node *dir, uint64_t after,
                      struct node_entry *entry, uint64_t *order)
{
    unsigned cpu = (unsigned)(dir->object >> 16);

    while (after < engine_rows(tree->engine) &&
           !engine_row_is_on(tree->engine, cpu, (unsigned)after))
        after++;
    if (after >= engine_rows(tree->engine))
        return false;
    snprintf(entry->scratch, sizeof entry->scratch, "%u", (unsigned)after);
    entry->name = entry->scratch;
    node_make(&entry->node, NODE_SLOT, dir->object | after, 2);
    *order = after + 1;
    return true;
}

static bool tunable_next(struct tree *tree, const struct node *dir, uint64_t after,
                         struct node_entry *entry, uint64_t *order)
{
    (void)tree, (void)dir;
    if (after >= TUNABLE_COUNT)
        return false;
    entry->name = tunable_row((enum tunable)after)->name;
    node_make(&entry->node, NODE_TUNABLE, after, 2);
    *order = after + 1;
    return true;
}

/* Instances are in two directories: as themselves, and what is set for them. */
static enum node_kind instances_kind(const struct node *dir)
{
    return dir->row->is == DIR_LIMITS ? NODE_LIMIT : NODE_INSTANCE;
}

static int instance_find(struct tree *tree, const struct node *dir, const char *name,
                         struct node *found)
{
    struct instance *instance = engine_instance_named(tree->engine, name);

    if (!instance)
        return -ENOENT;
    node_make(found, instances_kind(dir), instance_id(instance), NODE_DIR);
    return 0;
}

static bool instance_next(struct tree *tree, const struct node *dir, uint64_t after,
                          struct node_entry *entry, uint64_t *order)
{
    struct instance *instance = engine_instance_next(tree->engine, after);
    struct instance_attr attr;

    if (!instance)
        return false;
    engine_instance_attr(instance, &attr);
    entry->name = attr.name;
    node_make(&entry->node, instances_kind(dir), attr.id, NODE_DIR);
    *order = attr.id;
    return true;
}

static const struct objects objects[DIR_KINDS] = {
    [DIR_ROOT] = {pmc_find, pmc_next},
    [DIR_EVENTS] = {NULL, class_next},
    [DIR_CLASS] = {event_find, event_next},
    [DIR_ADMIN] = {NULL, cpu_next},
    [DIR_CPU] = {NULL, slot_next},
    [DIR_TUNABLES] = {NULL, tunable_next},
    [DIR_INSTANCES] = {instance_find, instance_next},
    [DIR_LIMITS] = {instance_find, instance_next},
};

bool node_needs_catalog(const struct node *dir)
{
    return dir->row->is == DIR_EVENTS || dir->row->is == DIR_CLASS;
}

bool node_has(const struct node *dir, const struct file_row *row)
{
    return dir->kind != NODE_INSTANCE || dir->object == 0 || !(row->flags & FILE_ROOT_ONLY);
}

static int object_find(struct tree *tree, const struct node *dir, const char *name,
                       struct node *found)
{
    const struct objects *in = &objects[dir->row->is];
    struct node_entry entry;
    uint64_t order = 0;

    if (in->find)
        return in->find(tree, dir, name, found);
    while (in->next && in->next(tree, dir, order, &entry, &order))
        if (strcmp(entry.name, name) == 0) {
            *found = entry.node;
            return 0;
        }
    return -ENOENT;
}

int node_lookup(struct tree *tree, struct call *call, const struct node *dir, const char *name,
                struct node *found)
{
    unsigned number;
    const struct file_row *row = file_named(dir->row->is, name, &number);

    if (row && node_has(dir, row)) {
        node_make(found, dir->kind, dir->object, number);
        return 0;
    }
    for (int anew = 0; node_needs_catalog(dir) && anew < 2; anew++) {
        int rc = engine_catalog_load(call, anew);

        if (rc == CALL_DONE)
            rc = object_find(tree, dir, name, found);
        if (rc != -ENOENT)
            return rc;
    }
    return object_find(tree, dir, name, found);
}

/* The directory above, for its number in "..". */
static fuse_ino_t node_parent(struct tree *tree, const struct node *dir)
{
    static const unsigned above[DIR_KINDS] = {
        [DIR_CLASS] = 4,           [DIR_CPU] = 5, [DIR_TUNABLES] = 5, [DIR_LIMITS] = 5,
        [DIR_LIMIT] = NODE_LIMITS,
    };
    unsigned number = above[dir->row->is];
    struct pmc *pmc = dir->kind == NODE_PMC ? engine_pmc(tree->engine, dir->object) : NULL;

    if (pmc)
        return node_id(NODE_INSTANCE, instance_id(engine_pmc_instance(pmc)), NODE_DIR);
    if (dir->row->is == DIR_ROOT && dir->object)
        return node_id(NODE_INSTANCE, 0, NODE_INSTANCES);
    return node_id(NODE_INSTANCE, node_instance(dir), number ? number : NODE_DIR);
}

bool node_next(struct tree *tree, const struct node *dir, uint64_t cookie, struct node_entry *entry)
{
    const struct objects *in = &objects[dir->row->is];
    const struct file_row *row = NULL;
    unsigned number = 0;
    uint64_t order;

    if (cookie < 2) {
        entry->name = cookie == 0 ? "." : "..";
        entry->cookie = cookie + 1;
        entry->node = *dir;
        if (cookie == 1)
            node_decode(node_parent(tree, dir), &entry->node);
        return true;
    }
    if (cookie < COOKIE_DYNAMIC)
        do
            row = file_next(dir->row->is, number > 0 ? number : (unsigned)cookie - 2, &number);
        while (row && !node_has(dir, row));
    if (row) {
        entry->name = row->name;
        entry->cookie = number + 2;
        node_make(&entry->node, dir->kind, dir->object, number);
        return true;
    }
    order = cookie < COOKIE_DYNAMIC ? 0 : cookie - COOKIE_DYNAMIC;
    if (!in->next || !in->next(tree, dir, order, entry, &order))
        return false;
    entry->cookie = order + COOKIE_DYNAMIC;
    return true;
}

const char *node_label(const struct node *node, char *label)
{
    if (node->kind == NODE_TUNABLE)
        return tunable_row((enum tunable)node->object)->name;
    if (node->kind != NODE_SLOT)
        return node->row->name ? node->row->name : node->row->any;
    snprintf(label, 32, "cpu%u/%u", (unsigned)(node->object >> 16 & 0xffff),
             (unsigned)(node->object & 0xffff));
    return label;
}
