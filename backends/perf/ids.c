/*
 * What the kernel's ids mean: a hash table that grows, and is made anew when ids are forgotten.
 */
#include "backends/perf/recorder.h"

#include <errno.h>
#include <stdlib.h>

static uint32_t *id_slot(const struct recorder *recorder, uint64_t kernel)
{
    size_t i = (kernel * 0x9e3779b97f4a7c15u >> 20) & (recorder->table_size - 1);

    while (recorder->table[i] && recorder->ids[recorder->table[i] - 1].kernel != kernel)
        i = (i + 1) & (recorder->table_size - 1);
    return &recorder->table[i];
}

static void table_fill(struct recorder *recorder)
{
    for (size_t i = 0; i < recorder->table_size; i++)
        recorder->table[i] = 0;
    for (size_t i = 0; i < recorder->n_ids; i++)
        *id_slot(recorder, recorder->ids[i].kernel) = (uint32_t)i + 1;
}

static bool ids_grow(struct recorder *recorder)
{
    size_t size = recorder->size_ids ? 2 * recorder->size_ids : 64;
    struct id *ids;
    uint32_t *table;

    if (recorder->n_ids < recorder->size_ids)
        return true;
    if (size > UINT32_MAX / 4)
        return false;
    ids = realloc(recorder->ids, size * sizeof *ids);
    if (!ids)
        return false;
    recorder->ids = ids;
    table = malloc(2 * size * sizeof *table);
    if (!table)
        return false;
    free(recorder->table);
    recorder->table = table;
    recorder->table_size = 2 * size;
    recorder->size_ids = size;
    table_fill(recorder);
    return true;
}

int recorder_add_id(struct recorder *recorder, const struct id *id)
{
    int rc = 0;

    pthread_mutex_lock(&recorder->lock);
    if (!ids_grow(recorder)) {
        rc = -ENOMEM;
    } else {
        uint32_t *slot = id_slot(recorder, id->kernel);

        if (!*slot)
            *slot = (uint32_t)++recorder->n_ids;
        recorder->ids[*slot - 1] = *id;
    }
    pthread_mutex_unlock(&recorder->lock);
    return rc;
}

const struct id *recorder_find_id(const struct recorder *recorder, uint64_t kernel)
{
    uint32_t at = recorder->table_size ? *id_slot(recorder, kernel) : 0;

    return at && !recorder->ids[at - 1].dropped ? &recorder->ids[at - 1] : NULL;
}

void recorder_drop_id(struct recorder *recorder, uint64_t kernel)
{
    uint32_t at = recorder->table_size ? *id_slot(recorder, kernel) : 0;

    if (!at || recorder->ids[at - 1].dropped)
        return;
    recorder->ids[at - 1].dropped = true;
    recorder->n_dropped++;
}

static bool is_over(const struct origin *origin, uint64_t time_ns)
{
    return !origin->counter && origin->closed_ns <= time_ns;
}

void recorder_purge(struct recorder *recorder, uint64_t time_ns)
{
    size_t kept = 0;
    bool any = recorder->n_dropped > recorder->n_ids / 2;

    for (const struct origin *origin = recorder->origins; origin; origin = origin->next)
        any |= is_over(origin, time_ns);
    if (!any)
        return;
    for (size_t i = 0; i < recorder->n_ids; i++)
        if (!recorder->ids[i].dropped && !is_over(recorder->ids[i].origin, time_ns))
            recorder->ids[kept++] = recorder->ids[i];
    recorder->n_ids = kept;
    recorder->n_dropped = 0;
    table_fill(recorder);
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
