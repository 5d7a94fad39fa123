/*
 * What the kernel's ids mean.
 */
#include "backends/perf/record/recorder.h"

#include <errno.h>
#include <stdlib.h>

static struct id *id_of(const struct recorder *recorder, uint64_t kernel)
{
    struct id *id;

    HASH_FIND(hh, recorder->ids, &kernel, sizeof kernel, id);
    return id;
}

int recorder_add_id(struct recorder *recorder, const struct id *like)
{
    struct id *id = id_of(recorder, like->kernel);
    const UT_hash_handle hh = id ? id->hh : (UT_hash_handle){.tbl = NULL};

    if (!id && !(id = malloc(sizeof *id)))
        return -ENOMEM;
    *id = *like;
    id->hh = hh;
    if (hash_has(id))
        return 0;
    HASH_ADD(hh, recorder->ids, kernel, sizeof id->kernel, id);
    if (hash_has(id))
        return 0;
    free(id);
    return -ENOMEM;
}

const struct id *recorder_find_id(const struct recorder *recorder, uint64_t kernel)
{
    return id_of(recorder, kernel);
}

static void id_forget(struct recorder *recorder, struct id *id)
{
    HASH_DEL(recorder->ids, id);
    free(id);
}

void recorder_drop_id(struct recorder *recorder, uint64_t kernel)
{
    struct id *id = id_of(recorder, kernel);

    if (id)
        id_forget(recorder, id);
}

void recorder_drop_ids(struct recorder *recorder)
{
    struct id *id, *next;

    HASH_ITER (hh, recorder->ids, id, next)
        id_forget(recorder, id);
}

static bool is_over(const struct origin *origin, uint64_t time_ns)
{
    return origin->closed_ns && origin->closed_ns <= time_ns;
}

void recorder_purge(struct recorder *recorder, uint64_t time_ns)
{
    struct id *id, *next;
    bool any = false;

    for (const struct origin *origin = recorder->origins; origin; origin = origin->next)
        any |= is_over(origin, time_ns);
    if (!any)
        return;
    HASH_ITER (hh, recorder->ids, id, next)
        if (is_over(id->origin, time_ns))
            id_forget(recorder, id);
    for (struct origin **at = &recorder->origins; *at;) {
        struct origin *origin = *at;

        if (is_over(origin, time_ns)) {
            *at = origin->next;
            free(origin);
        } else {
            at = &origin->next;
        }
    }
}
