/*
 * What a change records, without the lock: a recording for counters that are opened, what is there
 * when they start, what they told until they stopped.
 */
#include "core/change.h"

#include <errno.h>
#include <stdlib.h>

/* Of each CPU's buffer: a power of two, an eighth of the log or so. */
#define RING_MIN 16384
#define RING_MAX 524288

#define LOG_FIRST 65536 /* bytes that a start has for sure; the rest comes as it is needed */

static uint64_t ring_bytes(uint64_t log_bytes)
{
    uint64_t bytes = RING_MIN;

    while (bytes < RING_MAX && bytes * 2 <= log_bytes / 8)
        bytes *= 2;
    return bytes;
}

struct opening change_opening(const struct change *change)
{
    struct recording *recording = change->recording ? change->recording : change->pmc->recording;

    return (struct opening){
        .events = change->plan,
        .n = change->set->n,
        .settings = &change->want,
        .sampling = &change->sampling,
        .set = change->set_number,
        .recording = change->recorded ? recording : NULL,
        .recorded = change->recorded,
    };
}

static int say_quota(struct change *change, const char *what)
{
    struct buf limit;
    char room[96];

    buf_init(&limit, room, sizeof room);
    account_print_limit(change->pmc->account, &limit);
    int rc = err_set(&change->err, P11,
                     "%s of %s (logsize %llu) would be more than %s leaves: set a smaller logsize, "
                     "or release other PMCs",
                     what, change->name,
                     (unsigned long long)log_size(change->engine, &change->want), buf_text(&limit));
    buf_free(&limit);
    return rc;
}

/* The buffers' memory is the owner's. */
static int charge_recording(struct change *change)
{
    struct recorder_facts facts = {0};

    change->engine->backend->recorder_facts(recording_recorder(change->recording), &facts);
    use_descriptors(&change->fds_free, recording_fds(change->recording));
    use_descriptors(&change->fds_quota, recording_fds(change->recording));
    if (!account_charge(change->pmc->account, (int64_t)facts.bytes))
        return say_quota(change, "the buffers for what the counters tell");
    change->recording_bytes = facts.bytes;
    return 0;
}

static int make_recording(struct change *change)
{
    const struct engine *engine = change->engine;
    struct recording_plan plan = pmc_recording_plan(change->pmc, change->set->n, change->recorded);
    int rc;

    plan.bytes = ring_bytes(log_size(engine, &change->want));
    plan.kernel = change->may_kernel;
    plan.view = change->view;
    plan.fds_free = change->fds_free;
    plan.fds_quota = change->fds_quota;
    plan.fds_limit = change_quota_name(change);
    rc = recording_new(&plan, &change->recording, &change->err);
    if (rc)
        return rc;
    change->recorded_outside = change->view != NULL;
    change->view = NULL; /* the recording's now */
    return charge_recording(change);
}

int record_open(struct change *change)
{
    bool starts = change->start || change->start_fresh;
    int rc = change->new_recording ? make_recording(change) : 0;

    if (rc || !change->recorded || !starts || change->cause != CAUSE_COMMAND)
        return rc;
    log_set_max(change->pmc->log, log_size(change->engine, &change->want));
    rc = log_reserve(change->pmc->log, LOG_FIRST);
    if (rc == -EDQUOT)
        return say_quota(change, "the log");
    return rc ? err_set(&change->err, E32, "no memory for the log") : 0;
}

/* ---- held: the commit tells first ---- */

static void hold(struct change *change, struct recording *recording)
{
    bool any;

    recording_hold(recording, true);
    recording_drain(recording, true, &any); /* nothing, once a drain under way is over */
    change->held = recording;
}

void record_hold(struct change *change)
{
    struct recording *recording = change->recording ? change->recording : change->pmc->recording;
    bool any;

    if (recording && !change->held) {
        recording_drain(recording, true, &any); /* what was before the commit's notes stays so */
        hold(change, recording);
    }
    change->started_ns = change->engine->host->now_ns(change->engine->host_state);
}

void record_unhold(struct change *change)
{
    if (change->held)
        recording_hold(change->held, false);
    change->held = NULL;
}

void record_ended(struct change *change)
{
    struct recording *recording = change->pmc->recording;
    bool any;

    if (!recording || change->held)
        return;
    recording_drain(recording, true, &any);
    hold(change, recording);
}

/* ---- what is there when it starts ---- */

struct processes {
    pid_t *pid;
    unsigned n;
};

static void process_add(void *arg, pid_t pid)
{
    struct processes *processes = arg;
    unsigned n = processes->n;
    pid_t *grown = processes->pid;

    if ((n & (n - 1)) == 0)
        grown = realloc(grown, (n ? 2 * (size_t)n : 1) * sizeof *grown);
    if (!grown)
        return;
    processes->pid = grown;
    grown[processes->n++] = pid;
}

/*
 * Nothing stays of who executed meanwhile what the attacher may not observe: asked behind the look,
 * so that whatever was seen before is what was asked about, or was nobody's any more.
 */
static void process_inventory(struct change *change, const struct rights *rights, pid_t pid)
{
    const struct engine *engine = change->engine;
    const size_t begun = change->inventory.len;

    recording_inventory(change->held, pid, change->started_ns, &change->inventory);
    if (rights && engine->host->may_observe_pid(engine->host_state, rights, pid) < 0)
        change->inventory.len = begun;
}

static void link_inventory(struct change *change, const struct link *link)
{
    const struct engine *engine = change->engine;
    struct processes processes = {.n = 0};

    /* When it is dead its number may be somebody else's. When it lived behind the start, whoever
     * comes to have it is younger than that, and not looked at. */
    if (link->proc && engine->host->process_alive(link->proc->process))
        process_inventory(change, link->rights, link->pid);
    if (engine->backend->processes && change->want.value[KEY_DESCENDANTS])
        engine->backend->processes(link->counter, process_add, &processes);
    for (unsigned i = 0; i < processes.n; i++)
        if (processes.pid[i] != link->pid)
            process_inventory(change, link->rights, processes.pid[i]);
    free(processes.pid);
}

/* While it is stopped nobody tells of new mappings: what is there is told at each start. */
void record_begun(struct change *change)
{
    bool system = mode_table[change->effective].system, any = false;

    if (!change->held)
        return;
    for (unsigned i = 0; i < change->n_fresh && change->start_fresh; i++) {
        any |= change->fresh[i]->counter != NULL;
        if (change->fresh[i]->counter && !system)
            link_inventory(change, change->fresh[i]);
    }
    for (unsigned i = 0; i < change->n_kept; i++) {
        any |= change->kept[i].started;
        if (change->kept[i].started && !system && link_live(change->kept[i].link))
            link_inventory(change, change->kept[i].link);
    }
    bool told = change->cause != CAUSE_COMMAND; /* all there is was told when it began */
    if (any && system && !told)
        recording_inventory(change->held, 0, change->started_ns, &change->inventory);
}

/* ---- the end of a PMC ---- */

void record_last_run(struct change *change)
{
    struct err said = change->err;

    change_stop(change);
    change->err = said; /* nobody asked for this reading */
    record_ended(change);
}
