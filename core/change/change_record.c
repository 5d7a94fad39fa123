/*
 * Records of a change. Without the lock: creates the recording, reads the inventory of processes
 * when counters start, drains the recording and holds it until change_close(). With the lock, at
 * the swap: writes the remaining counts, then detach, stop and close records, then allocate, attach
 * and start records.
 */
#include "core/change/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Size of each CPU's ring buffer: a power of two from RING_MIN, up to an eighth of the log. */
#define RING_MIN      16384
#define RING_MAX      524288
#define STACK_TIMES   2  /* factor of both limits if samples contain stacks */
#define STACK_SAMPLES 16 /* a ring buffer can hold this many stacks */

#define LOG_FIRST 65536 /* bytes reserved at the start; the log grows as needed */

static uint64_t ring_bytes(uint64_t log_bytes, uint32_t stack)
{
    const uint64_t times = stack ? STACK_TIMES : 1;
    uint64_t bytes = RING_MIN;

    while ((bytes < times * RING_MAX && bytes * 2 <= times * log_bytes / 8) ||
           bytes < (uint64_t)STACK_SAMPLES * stack)
        bytes *= 2;
    return bytes;
}

struct opening change_opening(const struct change *change)
{
    const struct change_recording *recording = &change->recording;

    return (struct opening){
        .events = change->desired.events,
        .n = change->desired.set->n,
        .settings = &change->desired.settings,
        .sampling = &recording->sampling,
        .set_number = recording->set_number,
        .recording = !recording->kinds ? NULL
                     : recording->made ? recording->made
                                       : change->pmc->recording,
        .recorded = recording->kinds,
    };
}

int refuse_log(struct change *change, const char *what)
{
    return err_set(
        &change->err, P11,
        "%s for the log of %s (logsize %llu) would be more than %s leaves: set a smaller logsize, "
        "or release other PMCs",
        what, change->name, (unsigned long long)log_size(change->engine, &change->desired.settings),
        user_limit_shown(change->payer, USED_BYTES));
}

static int make_recording(struct change *change)
{
    const struct engine *engine = change->engine;
    struct change_recording *recording = &change->recording;
    struct recorder_facts facts = {0};
    struct recording_plan plan =
        pmc_recording_plan(change->pmc, change->desired.set->n, recording->kinds);

    plan.recorder.bytes =
        ring_bytes(log_size(engine, &change->desired.settings), recording->sampling.stack);
    plan.kernel = change->requester.may_kernel;
    plan.recorder.data_maps = recording->sampling.stack > 0;
    plan.view = recording->view;
    plan.recorder.fds_left = engine_fds_left(engine);
    plan.recorder.fds_quota = quota_fds_left(change);
    plan.recorder.fds_limit_name = change->fds_limit_name;
    int rc = recording_new(&plan, &recording->made, &change->err);
    if (rc)
        return rc;
    recording->view = NULL; /* owned by the recording */
    rc = quota_charge_fds(change, recording_fds(recording->made));
    if (rc)
        return rc;
    engine->backend->recorder_facts(recording_recorder(recording->made), &facts);
    if (!user_charge(change->payer, USED_BYTES, (int64_t)facts.bytes))
        return refuse_log(change, "buffers");
    change->charged_bytes += facts.bytes;
    return 0;
}

int record_open(struct change *change)
{
    bool starts = change->diff.start || change->diff.start_opened;
    int rc = change->recording.creates ? make_recording(change) : 0;

    if (rc || !change->recording.kinds || !starts || change->cause != CAUSE_COMMAND)
        return rc;
    log_set_max(change->pmc->log, log_size(change->engine, &change->desired.settings));
    rc = log_reserve(change->pmc->log, LOG_FIRST);
    if (rc == -EDQUOT)
        return refuse_log(change, "memory");
    return rc ? err_nomem(&change->err) : 0;
}

/*
 * Drains all earlier records into the log before the swap writes its records, and holds the
 * recording until change_close(): a start is recorded before the samples that follow. The records
 * of the swap have the time up to which it drained: a later time would raise the times of the
 * samples that follow, because times in a log do not decrease.
 */
int record_drain_and_hold(struct change *change)
{
    struct change_recording *recording = &change->recording;
    struct drain_result drained, none;

    if (change->pmc->recording && recording_drain(change->pmc->recording, true, &drained))
        recording->held_ns = drained.until_ns;
    else
        recording->held_ns = change->engine->host->now_ns(change->engine->host_state);
    recording->held = recording->made ? recording->made : change->pmc->recording;
    if (recording->held) {
        recording_hold(recording->held, true);
        recording_drain(recording->held, true, &none); /* waits for a drain in another thread */
    }
    return 0;
}

/* ---- inventory at the start ---- */

struct processes {
    VEC(pid_t) list;
    struct buf *inventory; /* marked as failed on ENOMEM */
};

static void process_add(void *arg, pid_t pid)
{
    struct processes *processes = arg;

    if (vec_push(&processes->list, pid))
        processes->inventory->failed = true;
}

/*
 * Adds the inventory of a process. Checks the attacher's rights after reading it, so that nothing
 * of a program that the attacher may not observe is kept.
 */
static void process_inventory(struct change *change, const struct rights *rights, pid_t pid)
{
    const struct engine *engine = change->engine;
    const size_t len_before = change->recording.inventory.len;

    recording_inventory(change->recording.held, pid, change->recording.held_ns,
                        &change->recording.inventory);
    if (rights && engine->host->may_observe_pid(engine->host_state, rights,
                                                change->requester.opener, pid) < 0)
        change->recording.inventory.len = len_before;
}

int record_target_inventory(struct change *change)
{
    const struct engine *engine = change->engine;
    const bool system = mode_table[change->desired.settings.mode].system;

    EACH_MOVE (move, change) {
        const struct link *link = move->next;
        struct processes processes = {.inventory = &change->recording.inventory};

        if (!move->started || !change->recording.held || system)
            continue;
        /* Skip a dead process, because its number may be reused. A process that reuses it after the
         * start is too young for the inventory. */
        if (link->proc && engine->host->process_alive(link->proc->process))
            process_inventory(change, link->rights, link->pid);
        if (change->desired.settings.word[KEY_DESCENDANTS])
            engine->backend->each_process(link->counter, process_add, &processes);
        for (size_t i = 0; i < processes.list.n; i++)
            if (processes.list.items[i] != link->pid)
                process_inventory(change, link->rights, processes.list.items[i]);
        free(processes.list.items);
    }
    return change->recording.inventory.failed ? err_nomem(&change->err) : 0;
}

/* ---- notes ---- */

/* Writes a record if the setting log is on. link (or NULL) adds "1234", "tid:5", "cpu0" or
 * "cgroup:/a b" before the text. time_ns: 0 means now. */
static void note(struct pmc *pmc, enum record_type type, const struct link *link, const char *text,
                 uint64_t time_ns)
{
    const struct engine *engine = pmc->engine;
    _Alignas(uint64_t) char record_room[512];
    char room[256];
    struct buf out = buf_in(room, sizeof room), record = buf_in(record_room, sizeof record_room);

    if (!pmc->settings.word[KEY_LOG])
        return;
    if (link && link->kind == TARGET_CGROUP)
        buf_printf(&out, "cgroup:%s", link->cgroup); /* raw: printing the record escapes it */
    else if (link)
        link_print(link, link->kind == TARGET_THREAD ? link->shown_tid : link->shown_pid, false,
                   &out);
    if (link && *text)
        buf_char(&out, ' ');
    buf_str(&out, text);
    record_add_note(
        &record,
        &(struct note){.type = type,
                       .time = time_ns ? time_ns : engine->host->now_ns(engine->host_state),
                       .pid = link ? (uint32_t)link->shown_pid : 0,
                       .tid = link ? (uint32_t)link->shown_tid : 0,
                       .cpu = link && link->kind == TARGET_CPU ? link->cpu : UINT32_MAX,
                       .id = LOG_ID(pmc->set_number, 0),
                       .text = buf_text(&out),
                       .text_len = out.len});
    pmc_log_records(pmc, &record);
    buf_free(&record);
    buf_free(&out);
}

/* ---- remaining counts ---- */

/* Logs the counts that no switch or exit record contains, from change.diff.total. all_exited: no
 * target is left. */
static void put_remainder(struct change *change, bool all_exited)
{
    struct pmc *pmc = change->pmc;
    uint64_t counted[SET_MAX];

    if (!pmc->recording || !pmc->recorded.counted_before ||
        !(pmc->recorded.kinds & (RECORDED_SWITCHES | RECORDED_EXITS)))
        return;
    for (unsigned i = 0; i < pmc_events(pmc); i++)
        counted[i] = change->diff.total->value[i] - pmc->recorded.counted_before[i];
    recording_put_remainder(pmc->recording, change->engine->request, change->recording.held_ns,
                            counted, all_exited);
}

/* Stores the counts from before this recording (the total without readings of live counters): no
 * record has to contain them. */
static void count_before(struct pmc *pmc)
{
    unsigned n = pmc_events(pmc);

    memcpy(pmc->recorded.counted_before, pmc->base->value,
           n * sizeof *pmc->recorded.counted_before);
    for (unsigned l = 0; l < pmc->links->n; l++) {
        const struct link *link = pmc->links->link[l];

        for (unsigned i = 0; i < n; i++)
            pmc->recorded.counted_before[i] +=
                link_live(link) ? -link->base->value[i] : link->base->value[i];
    }
}

void record_swap(struct change *change)
{
    struct pmc *pmc = change->pmc;
    struct change_recording *recording = &change->recording;
    const enum verb verb = change->desired.verb;

    if (recording->made) {
        recording->old = pmc_set_recording(pmc, recording->made);
        recording->made = NULL;
        free(pmc->recorded.counted_before);
        pmc->recorded.counted_before = recording->counted_before;
        recording->counted_before = NULL;
        pmc->recorded.kinds = (uint8_t)recording->kinds;
        pmc->recorded.kernel = change->requester.may_kernel;
        count_before(pmc);
    } else if (pmc->recording && (change->desired.new_set || !recording->kinds)) {
        recording->old = pmc_set_recording(pmc, NULL);
        pmc->recorded.kinds = 0;
    } else if (pmc->recording &&
               (change->desired.sets_count || verb == VERB_RESET || verb == VERB_RESTART)) {
        /* the count starts again from the present readings */
        for (unsigned i = 0; i < pmc_events(pmc); i++)
            pmc->recorded.counted_before[i] =
                i < pmc->settings.n_counts ? pmc->settings.counts[i] : 0;
        if (pmc->recorded.kinds & (RECORDED_SWITCHES | RECORDED_EXITS))
            recording_reset(pmc->recording, pmc->engine->request, state_table[pmc->state].started);
    }
    if (change->cause == CAUSE_COMMAND) {
        pmc->set_number = recording->set_number;
        pmc->sampling = recording->sampling;
    }
    if (pmc->log)
        log_set_max(pmc->log, log_size(change->engine, &pmc->settings));
}

/* ---- records of the swap, in order ---- */

void record_notes_before(struct change *change, bool stops, enum pmc_state after)
{
    struct pmc *pmc = change->pmc;
    const bool all_exited = after == PMC_EXITED;

    if (stops || all_exited) /* before the detach records: exited targets may lack exit records */
        put_remainder(change, all_exited);
    EACH_MOVE (move, change)
        if (move->old && move->reason)
            note(pmc, RECORD_DETACH, move->old, move->reason, change->recording.held_ns);
    if (stops)
        note(pmc, RECORD_STOP, NULL, "", change->recording.held_ns);
    if (pmc->settings.word[KEY_LOG] && !change->desired.settings.word[KEY_LOG] && pmc_has_log(pmc))
        note(pmc, RECORD_CLOSE, NULL, "", change->recording.held_ns);
}

void record_notes_after(struct change *change, bool starts)
{
    struct pmc *pmc = change->pmc;

    if (change->desired.new_set) { /* first, because times in a log do not decrease */
        char room[256];
        struct buf events = buf_in(room, sizeof room);

        for (unsigned i = 0; i < pmc_events(pmc); i++) {
            buf_str(&events, i ? " " : "");
            pmc_print_resolved(pmc, i, &events);
        }
        note(pmc, RECORD_ALLOCATE, NULL, buf_text(&events), change->recording.held_ns);
        buf_free(&events);
    }
    EACH_MOVE (move, change)
        if (move->opens && move->next->counter &&
            (!move->old || move->reason || move->old->state == LINK_OFFLINE))
            note(pmc, RECORD_ATTACH, move->next, "", change->recording.held_ns);
    if (starts)
        note(pmc, RECORD_START, NULL, "", change->recording.held_ns);
    pmc_log_records(pmc, &change->recording.inventory);
}

void record_release_notes(struct change *change)
{
    struct pmc *pmc = change->pmc;

    if (change->engine->forgetting || !pmc->links)
        return;
    put_remainder(change, true);
    for (unsigned i = 0; pmc->log && i < pmc->links->n; i++)
        if (pmc->links->link[i]->state != LINK_ENDED)
            note(pmc, RECORD_DETACH, pmc->links->link[i], "released", 0);
    if (state_table[pmc->state].started)
        note(pmc, RECORD_STOP, NULL, "", 0);
    if (pmc->log)
        note(pmc, RECORD_CLOSE, NULL, "", 0);
}
