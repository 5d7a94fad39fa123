/*
 * Creates, drains and frees recordings, and moves them to a new worker.
 */
#include "core/base/arena.h"
#include "core/log/recording_parts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INVENTORY_LEAST (256 << 10)

/* ---- creation and destruction ---- */

/* Size of the totals of exits.h, of which the arena has two copies to survive the worker. */
static size_t totals_bytes(const struct recording_plan *plan)
{
    return 3 * sizeof(uint64_t) * plan->n;
}

static void recording_free(struct recording *recording)
{
    const struct recording_plan *plan = &recording->plan;

    if (recording->recorder && recording->keep)
        plan->backend->recorder_forget(recording->recorder);
    else if (recording->recorder)
        plan->backend->recorder_free(recording->recorder);
    if (plan->view && recording->keep)
        plan->host->view_forget(plan->view);
    else if (plan->view)
        plan->host->view_free(plan->view);
    exits_free(recording->exits);
    for (unsigned i = 0; !recording->keep && i < 2; i++)
        arena_free(recording->totals[i], totals_bytes(plan));
    buf_free(&recording->batch);
    buf_free(&recording->scratch);
    free(recording->inventories_due.items);
    pthread_mutex_destroy(&recording->lock);
    log_unref(plan->log);
    free(recording);
}

/* Creates a recording without recorder and view. totals: arena blocks of an earlier worker; 0:
 * allocate the block. Returns NULL on ENOMEM. */
static struct recording *recording_alloc(const struct recording_plan *plan,
                                         const uint64_t totals[2])
{
    struct recording *recording = calloc(1, sizeof(*recording));
    bool fine = true;

    if (!recording)
        return NULL;
    recording->plan = *plan;
    recording->plan.view = NULL;
    recording->plan.log = log_ref(plan->log);
    atomic_init(&recording->refs, 1);
    pthread_mutex_init(&recording->lock, NULL);
    recording->keep = totals[0] != 0; /* until recording_adopt() succeeds */
    for (unsigned i = 0; i < 2; i++) {
        arena_keep(totals[i], totals_bytes(plan));
        recording->totals[i] = totals[i] ? totals[i] : arena_alloc(totals_bytes(plan));
        fine = fine && arena_at(recording->totals[i], totals_bytes(plan));
    }
    if (plan->samples)
        recording->exits = exits_new(0, false, true);
    else
        recording->exits = exits_new(plan->n, plan->switches, plan->exits);
    if (!fine || !recording->exits) {
        recording_free(recording);
        return NULL;
    }
    recording->tasks = exits_tasks(recording->exits);
    return recording;
}

static void discard_record(void *arg, const struct record *record)
{
    (void)arg, (void)record;
}

int recording_new(const struct recording_plan *plan, struct recording **out, struct err *err)
{
    struct recording *recording = recording_alloc(plan, (const uint64_t[2]){0});
    if (!recording)
        return err_nomem(err);
    int rc = plan->backend->recorder_new(plan->backend_state, &plan->recorder, &recording->recorder,
                                         err);
    if (rc != 0) {
        recording->recorder = NULL;
        recording_free(recording);
        return rc;
    }
    recording->plan.view = plan->view;
    /* find the kernel's mappings now: the first time is slow, and the counters do not run yet */
    if (plan->samples && plan->kernel)
        plan->host->kernel_maps(plan->host_state, 0, &(const struct intake){.put = discard_record});
    *out = recording;
    return 0;
}

struct recording *recording_ref(struct recording *recording)
{
    atomic_fetch_add(&recording->refs, 1);
    return recording;
}

void recording_unref(struct recording *recording)
{
    if (recording && atomic_fetch_sub(&recording->refs, 1) == 1)
        recording_free(recording);
}

void recording_forget(struct recording *recording)
{
    if (recording)
        recording->keep = true;
    recording_unref(recording);
}

struct recorder *recording_recorder(const struct recording *recording)
{
    return recording->recorder;
}

unsigned recording_fds(const struct recording *recording)
{
    struct recorder_facts facts;

    recording->plan.backend->recorder_facts(recording->recorder, &facts);
    return facts.descriptors + (recording->plan.view != NULL);
}

/* ---- inventories ---- */

static void inventory_read(struct recording *recording, pid_t pid, uint64_t time_ns,
                           struct buf *records)
{
    const struct recording_plan *plan = &recording->plan;
    const struct intake intake = {.put = recording_put_found, .arg = recording};
    uint64_t max = log_max_bytes(plan->log);

    /* an observed program can have any number of mappings */
    max = max > INVENTORY_LEAST ? max : INVENTORY_LEAST;

    const struct logged_process *process = tasks_process(recording->tasks, (uint32_t)pid);
    if (process)
        recording_forget_off_times(process);
    size_t begun = recording->batch.len; /* records that a hold delayed */
    recording->inventory_end = begun + (records->len < max ? max - records->len : 0);
    if (plan->samples && plan->kernel && !recording->kernel_found) {
        recording->kernel_found = true;
        plan->host->kernel_maps(plan->host_state, time_ns, &intake);
    }
    plan->host->inventory(plan->host_state, pid, plan->recorder.data_maps, time_ns, &intake);
    buf_add(records, recording->batch.data + begun, recording->batch.len - begun);
    recording->batch.len = begun;
    if (!begun)
        buf_free(&recording->batch); /* an inventory can be large */
}

void recording_inventory(struct recording *recording, pid_t pid, uint64_t time_ns,
                         struct buf *records)
{
    pthread_mutex_lock(&recording->lock);
    inventory_read(recording, pid, time_ns, records);
    pthread_mutex_unlock(&recording->lock);
}

void recording_queue_inventory(void *arg, pid_t pid)
{
    struct recording *recording = arg;

    if (vec_push(&recording->inventories_due, pid)) /* ENOMEM: the process stays unknown */
        return;
}

/* Reads the inventories after a move to this worker. The log has the records of the earlier worker,
 * so nothing is lost if there are too many. */
static void inventories_read(struct recording *recording)
{
    const struct recording_plan *plan = &recording->plan;
    const uint64_t now_ns = plan->host->now_ns(plan->host_state), dropped = recording->dropped;
    const bool kernel_found = recording->kernel_found;

    recording->kernel_found = true;
    for (size_t i = 0; i < recording->inventories_due.n; i++) {
        struct buf known = {0};

        inventory_read(recording, recording->inventories_due.items[i], now_ns, &known);
        buf_free(&known);
    }
    recording->inventories_due.n = 0;
    recording->kernel_found = kernel_found;
    recording->dropped = dropped;
}

/* ---- drains ---- */

void recording_hold(struct recording *recording, bool held)
{
    atomic_store(&recording->held, held);
}

/* Callback at the end of a pass over the recorder's rings. */
static void pass_end(void *arg)
{
    struct recording *recording = arg;

    if (recording->has_log_locked)
        samples_publish(recording);
    else
        batch_put(recording);
}

bool recording_drain(struct recording *recording, bool all, struct drain_result *out)
{
    const struct recording_plan *plan = &recording->plan;
    const struct intake intake = {.put = recording_put,
                                  .sample = recording_sample,
                                  .samples_end = pass_end,
                                  .arg = recording};

    *out = (struct drain_result){.any = false};
    if (all)
        pthread_mutex_lock(&recording->lock);
    else if (pthread_mutex_trylock(&recording->lock) != 0)
        return false;
    if (atomic_load(&recording->held)) {
        pthread_mutex_unlock(&recording->lock);
        return false;
    }
    if (recording->inventories_due.n)
        inventories_read(recording);
    /* records that a hold delayed count as new */
    uint64_t before = recording->n_put - (recording->batch.len > 0);
    out->until_ns = plan->backend->drain(recording->recorder, all, &intake);
    samples_publish(recording);
    batch_put(recording); /* losses follow the samples */
    out->any = recording->n_put != before;
    pthread_mutex_unlock(&recording->lock);
    return true;
}

struct log_progress recording_store(struct recording *recording)
{
    const struct recording_plan *plan = &recording->plan;
    const bool other = !recording->valid_totals;

    if (!plan->samples)
        memcpy(arena_at(recording->totals[other], totals_bytes(plan)),
               exits_totals(recording->exits), totals_bytes(plan));
    recording->valid_totals = other;
    return (struct log_progress){.totals = recording->totals[0] + other,
                                 .n_taken = recording->taken};
}

void recording_put_remainder(struct recording *recording, uint64_t request, uint64_t time_ns,
                             const uint64_t *counted, bool over)
{
    struct buf records = {0};

    exits_remainder(recording->exits, time_ns, counted, over, &records);
    recording->dropped += records.failed;
    struct log_progress progress = recording_store(recording);
    log_put_all_once(recording->plan.log, request, &progress, records.data, records.len);
    buf_free(&records);
}

void recording_reset(struct recording *recording, uint64_t request, bool runs)
{
    exits_reset(recording->exits, runs);
    struct log_progress progress = recording_store(recording);
    log_put_all_once(recording->plan.log, request, &progress, NULL, 0);
}

/* ---- move to a new worker ---- */

/* Format: "=TOTALS,TOTALS RECORDER" or "=TOTALS,TOTALS RECORDER; VIEW". Version 0.2 has one block
 * and no "=", and does not accept a line with it. */
void recording_print(const struct recording *recording, struct buf *out)
{
    const struct recording_plan *plan = &recording->plan;

    buf_printf(out, "=%" PRIu64 ",%" PRIu64 " ", recording->totals[0], recording->totals[1]);
    plan->backend->recorder_print(recording->recorder, out);
    if (plan->view) {
        buf_str(out, "; ");
        plan->host->view_print(plan->view, out);
    }
}

int recording_adopt(const struct recording_plan *plan, bool kernel_found, const char *printed,
                    struct recording **out)
{
    const char *end = strchrnul(printed, ';'), *begin = strchrnul(printed, ' ');
    uint64_t totals[2] = {0};
    struct recording *recording = NULL;

    if (sscanf(printed, "=%" SCNu64 ",%" SCNu64, &totals[0], &totals[1]) != 2)
        totals[0] = strtoull(printed, NULL, 10);
    if (totals[0])
        recording = recording_alloc(plan, totals);
    char *recorder = begin < end ? strndup(begin + 1, (size_t)(end - begin - 1)) : NULL;
    int rc = recording && recorder ? 0 : -EINVAL;

    if (rc == 0) {
        const struct log_progress progress = log_progress(plan->log);

        recording->kernel_found = kernel_found;
        recording->valid_totals = progress.totals == totals[0] + 1;
        if (progress.totals == totals[0] + recording->valid_totals)
            recording->taken = progress.n_taken;
        exits_restore(recording->exits,
                      arena_at(recording->totals[recording->valid_totals], totals_bytes(plan)));
        if (*end)
            rc = plan->host->view_adopt(plan->host_state, end + 2, &recording->plan.view);
    }
    if (rc == 0) /* last: it takes the file descriptors and cannot be undone */
        rc = plan->backend->recorder_adopt(plan->backend_state, &plan->recorder, recorder,
                                           &recording->recorder);
    free(recorder);
    if (rc == 0 && plan->backend->commit_taken) {
        const uint64_t taken = plan->backend->commit_taken(recording->recorder);

        recording->replaced = taken > recording->taken ? taken - recording->taken : 0;
    }
    if (rc == 0) {
        recording->keep = false;
        *out = recording;
    } else if (recording) {
        recording_free(recording);
    }
    return rc;
}
