/*
 * What the kernel's ids mean.
 */
#include "backends/perf/record/recorder.h"

#include <errno.h>
#include <stdlib.h>

struct id *recorder_find_id(const struct recorder *recorder, uint64_t kernel)
{
    struct id *id;

    HASH_FIND(hh, recorder->ids, &kernel, sizeof kernel, id);
    return id;
}

int recorder_add_id(struct recorder *recorder, const struct id *like)
{
    struct id *id = recorder_find_id(recorder, like->kernel);
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

static void id_forget(struct recorder *recorder, struct id *id)
{
    HASH_DEL(recorder->ids, id);
    free(id);
}

void recorder_drop_id(struct recorder *recorder, uint64_t kernel)
{
    struct id *id = recorder_find_id(recorder, kernel);

    if (id)
        id_forget(recorder, id);
}

void recorder_drop_ids(struct recorder *recorder, const struct origin *origin)
{
    struct id *id, *next;

    HASH_ITER (hh, recorder->ids, id, next)
        if (!origin || id->origin == origin)
            id_forget(recorder, id);
}

void recorder_purge(struct recorder *recorder, uint64_t time_ns)
{
    struct origin *origin;

    for (struct origin **at = &recorder->origins; (origin = *at);) {
        if (!origin->closed_ns || origin->closed_ns > time_ns) {
            at = &origin->next;
            continue;
        }
        recorder_drop_ids(recorder, origin);
        *at = origin->next;
        free(origin);
    }
}
