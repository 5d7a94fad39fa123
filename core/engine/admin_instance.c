/*
 * The files of admin/instances/NAME: the limits of an instance, and its release.
 */
#include "core/engine.h"
#include "core/engine/admin.h"
#include "core/files.h"
#include "core/pmc/instance.h"

#include <string.h>

static int say_gone(struct call *call)
{
    return err_set(&call->err, P26, "the instance was removed");
}

static int find_limit(const struct call *call)
{
    int i = 0;

    while (i < LIMITS && strcmp(limit_table[i].name, call->file) != 0)
        i++;
    return i;
}

int show_limit(struct call *call)
{
    const struct instance *instance = engine_instance(call->engine, call->index);
    int limit = find_limit(call);

    if (!instance || limit == LIMITS)
        return say_gone(call);
    if (limit_table[limit].words[0])
        buf_str(call->out, limit_table[limit].words[instance->limit[limit]]);
    else
        buf_u64(call->out, instance->limit[limit]);
    buf_char(call->out, '\n');
    return CALL_DONE;
}

int store_limit(struct call *call)
{
    struct instance *instance = engine_instance(call->engine, call->index);
    int limit = find_limit(call);
    struct word word;
    uint64_t value;
    int rc = instance && limit < LIMITS ? admin_may(call, "instances") : say_gone(call);

    if (rc == 0)
        rc = scan_only(call->text, call->len, P27, &word, &call->err);
    if (rc == 0)
        rc = limit_read((enum limit)limit, word, &value, &call->err);
    if (rc)
        return rc;
    instance_set_limit(instance, (enum limit)limit, value);
    instance_touch(instance);
    if (limit == LIMIT_LIFETIME && !value)
        instance_let_go(instance);
    return CALL_DONE;
}

int show_instance_ctl(struct call *call)
{
    if (!engine_instance(call->engine, call->index))
        return say_gone(call);
    buf_str(call->out, "active\n");
    return CALL_DONE;
}

int store_instance_ctl(struct call *call)
{
    struct instance *instance = engine_instance(call->engine, call->index);
    struct word word;
    int rc = instance ? admin_may(call, "instances") : say_gone(call);

    if (rc == 0)
        rc = scan_only(call->text, call->len, X17, &word, &call->err);
    if (rc)
        return rc;
    if (!word_is(word, "release"))
        return err_set(&call->err, X17,
                       "\"" WORD_FMT "\" is not a valid command: the only one is release, which "
                       "releases the PMCs of the instance and removes it",
                       WORD_ARG(word));
    instance_release(instance, true);
    return CALL_DONE;
}
