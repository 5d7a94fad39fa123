/*
 * Life of a recording: made, drained, printed for a later worker, freed.
 */
#include "core/recording_state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INVENTORY_LEAST (256 << 10)

/* ---- made and freed ---- */

static void recording_free(struct recording *recording)
{
    const struct recording_plan *plan = &recording->plan;

    if (recording->recorder && recording->keep)
        plan->backend->recorder_forget(recording->recorder);
    else if (recording->recorder)
        plan->backend->recorder_free(recording->recorder);
    if (plan->view && recording->keep)
        plan->host->view_keep(plan->view);
    else if (plan->view)
        plan->host->view_free(plan->view);
    exits_free(recording->exits);
    buf_free(&recording->batch);
    buf_free(&recording->scratch);
    pthread_mutex_destroy(&recording->lock);
    log_unref(plan->log);
    free(recording);
}

/* With everything but its recorder and view. NULL: no memory. */
static struct recording *recording_bare(const struct recording_plan *plan)
{
    struct recording *recording = calloc(1, sizeof(*recording));

    if (!recording)
        return NULL;
    recording->plan = *plan;
    recording->plan.view = NULL;
    recording->plan.log = log_ref(plan->log);
    atomic_init(&recording->refs, 1);
    pthread_mutex_init(&recording->lock, NULL);
    recording->exits = plan->samples ? exits_new(0, false, true)
                                     : exits_new(plan->n, plan->switches, plan->exits);
    if (recording->exits)
        return recording;
    recording_free(recording);
    return NULL;
}

static struct recorder_plan recorder_plan(const struct recording_plan *plan)
{
    return (struct recorder_plan){.bytes = plan->bytes,
                                  .tag = plan->tag,
                                  .fds_free = plan->fds_free,
                                  .fds_quota = plan->fds_quota,
                                  .fds_limit = plan->fds_limit};
}

static void put_nowhere(void *arg, const struct record *record)
{
    (void)arg, (void)record;
}

/* The host takes its time to find the kernel, once: not first when the counters run. */
static void kernel_find(const struct recording_plan *plan)
{
    const struct intake intake = {.put = put_nowhere};

    if (plan->samples && plan->kernel && plan->host->kernel_maps)
        plan->host->kernel_maps(plan->host_state, 0, &intake);
}

int recording_new(const struct recording_plan *plan, struct recording **out, struct err *err)
{
    const struct recorder_plan wanted = recorder_plan(plan);
    struct recording *recording;
    int rc;

    if (!plan->backend->recorder_new)
        return err_set(err, P09, "the backend \"%s\" cannot record", plan->backend->name);
    recording = recording_bare(plan);
    if (!recording)
        return err_set(err, E32, "no memory for what the counters tell");
    rc = plan->backend->recorder_new(plan->backend_state, &wanted, &recording->recorder, err);
    if (rc != 0) {
        recording->recorder = NULL;
        recording_free(recording);
        return rc;
    }
    recording->plan.view = plan->view;
    kernel_find(plan);
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

/* ---- drains ---- */

void recording_hold(struct recording *recording, bool held)
{
    atomic_store(&recording->held, held);
}

bool recording_drain(struct recording *recording, bool all, bool *any)
{
    const struct recording_plan *plan = &recording->plan;
    const struct intake intake = {.put = recording_put, .arg = recording};
    uint64_t before;

    *any = false;
    if (all)
        pthread_mutex_lock(&recording->lock);
    else if (pthread_mutex_trylock(&recording->lock) != 0)
        return false;
    if (atomic_load(&recording->held)) {
        pthread_mutex_unlock(&recording->lock);
        return false;
    }
    /* what a hold kept back the last time is news too */
    before = recording->put - (recording->batch.len > 0);
    if (plan->backend->drain(recording->recorder, all, &intake) != 0)
        recording->dropped++; /* one at least */
    recording_put_hidden(recording);
    recording_flush(recording);
    *any = recording->put != before;
    pthread_mutex_unlock(&recording->lock);
    return true;
}

/* More than the log can hold is of no use; how much there is, is up to who is observed. */
static uint64_t inventory_max(const struct recording *recording)
{
    const uint64_t max = log_max_bytes(recording->plan.log);

    return max > INVENTORY_LEAST ? max : INVENTORY_LEAST;
}

void recording_inventory(struct recording *recording, pid_t pid, uint64_t time_ns,
                         struct buf *records)
{
    const struct recording_plan *plan = &recording->plan;
    const struct intake intake = {.put = recording_put_found, .arg = recording};
    const uint64_t max = inventory_max(recording);
    size_t begun;

    pthread_mutex_lock(&recording->lock);
    begun = recording->batch.len; /* what a hold kept back */
    recording->found_end = begun + (records->len < max ? max - records->len : 0);
    if (plan->samples && plan->kernel && !recording->kernel_told && plan->host->kernel_maps) {
        recording->kernel_told = true;
        plan->host->kernel_maps(plan->host_state, time_ns, &intake);
    }
    plan->host->inventory(plan->host_state, pid, time_ns, &intake);
    buf_add(records, recording->batch.data + begun, recording->batch.len - begun);
    recording->batch.len = begun;
    if (!begun)
        buf_free(&recording->batch); /* it may have been much */
    pthread_mutex_unlock(&recording->lock);
}

struct exits *recording_exits(struct recording *recording)
{
    return recording->exits;
}

/* ---- for a later worker ---- */

/* "LENGTH:text ", so that the text may be anything. */
static void print_part(struct buf *out, struct buf *part)
{
    buf_u64(out, part->len);
    buf_char(out, ':');
    buf_add(out, part->data, part->len);
    buf_char(out, ' ');
    out->failed |= part->failed;
    buf_clear(part);
}

/* The part at *at, as a text on the heap; NULL: there is none, or no memory. */
static char *scan_part(const char **at)
{
    char *end, *text;
    const unsigned long len = strtoul(*at, &end, 10);

    if (end == *at || *end != ':' || strlen(end + 1) < len + 1)
        return NULL;
    text = strndup(end + 1, len);
    *at = end + 1 + len + 1;
    return text;
}

void recording_print(struct recording *recording, struct buf *out)
{
    const struct recording_plan *plan = &recording->plan;
    struct buf part;

    buf_init(&part, NULL, 0);
    pthread_mutex_lock(&recording->lock);
    recording_put_hidden(recording);
    recording_flush(recording); /* the log is printed after this */
    plan->backend->recorder_print(recording->recorder, &part);
    print_part(out, &part);
    if (plan->view)
        plan->host->view_print(plan->view, &part);
    print_part(out, &part);
    exits_print(recording->exits, &part);
    print_part(out, &part);
    pthread_mutex_unlock(&recording->lock);
    buf_free(&part);
}

enum part {
    PART_RECORDER,
    PART_VIEW,
    PART_SUMS,
    PARTS
};

/* Last what holds descriptors: until then nothing of it is touched. */
static int adopt_parts(struct recording *recording, char *const part[PARTS])
{
    const struct recorder_plan wanted = recorder_plan(&recording->plan);
    struct recording_plan *plan = &recording->plan;
    int rc = exits_resume(recording->exits, part[PART_SUMS]) ? 0 : -EINVAL;

    if (rc == 0 && part[PART_VIEW][0] != '\0')
        rc = plan->host->view_adopt(plan->host_state, part[PART_VIEW], &plan->view);
    if (rc == 0)
        rc = plan->backend->recorder_adopt(plan->backend_state, &wanted, part[PART_RECORDER],
                                           &recording->recorder);
    return rc;
}

int recording_adopt(const struct recording_plan *plan, bool told, const char *printed,
                    struct recording **out)
{
    struct recording *recording = recording_bare(plan);
    char *part[PARTS] = {NULL};
    int rc = recording ? 0 : -ENOMEM;

    for (unsigned i = 0; rc == 0 && i < PARTS; i++)
        if (!(part[i] = scan_part(&printed)))
            rc = -EINVAL;
    if (rc == 0) {
        recording->kernel_told = told;
        rc = adopt_parts(recording, part);
    }
    for (unsigned i = 0; i < PARTS; i++)
        free(part[i]);
    if (rc == 0)
        *out = recording;
    else if (recording)
        recording_free(recording);
    return rc;
}
