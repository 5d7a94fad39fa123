/*
 * Instances out and in: their fields, and the number of the process that one ends with, or 0.
 */
#include "core/instance_save.h"

#include "core/fields.h"
#include "core/pmc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void instances_print(struct engine *engine, struct buf *out)
{
    uint64_t id = 0;

    for (struct instance *one; (one = ids_next(&engine->instances, id, &id));) {
        saved_begin(&saved_instance, out);
        saved_print(&saved_instance, one, out);
        buf_printf(out, " %" PRIu64 "\n", one->holder ? one->holder->id : 0);
    }
}

/* But for its number and name. */
static void instance_fill(struct instance *instance, const struct instance *from)
{
    instance->uid = from->uid;
    instance->gid = from->gid;
    instance->mode = from->mode;
    instance->made_ns = from->made_ns;
    instance->changed_ns = from->changed_ns;
    memcpy(instance->limit, from->limit, sizeof instance->limit);
    instance->operations = from->operations;
    instance->operations_failed = from->operations_failed;
    instance->attaches = from->attaches;
    instance->attaches_raced = from->attaches_raced;
    instance->drained = from->drained;
    instance->released = from->released;
}

static bool instance_sound(const struct engine *engine, const struct instance *instance)
{
    bool fine = instance->id > 0 && instance->id <= INSTANCE_ID_MAX && instance->name &&
                name_legal(instance->name, NULL) && !instance_by_name(engine, instance->name) &&
                !ids_find(&engine->instances, instance->id);

    for (unsigned i = 0; i < LIMITS; i++)
        fine = fine && instance->limit[i] <= limit_max((enum limit)i);
    return fine;
}

bool instance_scan(struct engine *engine, struct scan *line)
{
    struct instance read = {.name = NULL}, *made = NULL;
    uint64_t holder;

    if (saved_scan(&saved_instance, &read, line) && scan_u64(line, UINT64_MAX, &holder) &&
        instance_sound(engine, &read))
        made = instance_make(engine, read.id, read.name);
    free(read.name);
    if (!made)
        return false;
    instance_fill(made, &read);
    struct proc *proc = ids_find(&engine->procs, holder);
    if (proc) {
        proc_ref(proc);
        instance_hold(made, proc);
    }
    if (engine->next_instance <= made->id)
        engine->next_instance = made->id + 1;
    return true;
}
