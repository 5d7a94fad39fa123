/*
 * What a change tells the log, with the lock, when it becomes true: attached, started, stopped,
 * detached and why; and what the steps of a run do not say.
 */
#include "core/change.h"

#include <stdlib.h>
#include <string.h>

/* ---- notes ---- */

/* "1234", "tid:5", "cpu0" or "cgroup:/a b", and the reason. */
static void note_link(struct pmc *pmc, enum record_type type, const struct link *link,
                      const char *reason, uint64_t time_ns)
{
    struct buf text;
    char room[256];

    buf_init(&text, room, sizeof room);
    if (link->kind == TARGET_CGROUP) {
        buf_str(&text, "cgroup:");
        buf_str(&text, link->cgroup); /* as it is: who prints the note escapes it */
    } else {
        link_print(link, link->kind == TARGET_THREAD ? link->shown_tid : link->shown_pid, false,
                   &text);
    }
    if (reason) {
        buf_char(&text, ' ');
        buf_str(&text, reason);
    }
    pmc_note(pmc, (struct note){.type = type,
                                .time = time_ns,
                                .pid = (uint32_t)link->shown_pid,
                                .tid = (uint32_t)link->shown_tid,
                                .cpu = link->kind == TARGET_CPU ? link->cpu : UINT32_MAX,
                                .id = LOG_ID(pmc->set_number, 0),
                                .text = buf_text(&text),
                                .text_len = text.len});
    buf_free(&text);
}

static void note_state(struct pmc *pmc, enum record_type type, uint64_t time_ns)
{
    pmc_note(pmc, (struct note){.type = type,
                                .time = time_ns,
                                .cpu = UINT32_MAX,
                                .id = LOG_ID(pmc->set_number, 0)});
}

/* Not after what its counters tell: times in a log do not go back, so those would come later. */
static void note_allocated(struct pmc *pmc, uint64_t time_ns)
{
    struct buf text;
    char room[256];

    buf_init(&text, room, sizeof room);
    for (unsigned i = 0; i < pmc_events(pmc); i++) {
        buf_str(&text, i ? " " : "");
        pmc_print_resolved(pmc, i, &text);
    }
    pmc_note(pmc, (struct note){.type = RECORD_ALLOCATE,
                                .time = time_ns,
                                .cpu = UINT32_MAX,
                                .id = LOG_ID(pmc->set_number, 0),
                                .text = buf_text(&text),
                                .text_len = text.len});
    buf_free(&text);
}

/* ---- what the steps do not say ---- */

/* Of everything that is known by now: what was read, and what ended. */
static void count_all(const struct change *change, uint64_t *counted)
{
    const struct pmc *pmc = change->pmc;
    unsigned n = pmc_events(pmc);

    memcpy(counted, pmc->base->value, n * sizeof *counted);
    for (unsigned k = 0; k < change->n_kept; k++) {
        const struct link *link = change->kept[k].link;
        const struct tally *now = change->kept[k].now ? change->kept[k].now : link_seen(link);

        for (unsigned i = 0; i < n; i++)
            counted[i] +=
                link_live(link) ? now->value[i] - link->base->value[i] : link->base->value[i];
    }
    for (unsigned l = change->n_kept; l < pmc->links->n; l++) /* what took an ended one's place */
        for (unsigned i = 0; i < n && !link_live(pmc->links->link[l]); i++)
            counted[i] += pmc->links->link[l]->base->value[i];
}

static void put_rest(struct change *change, bool over)
{
    struct pmc *pmc = change->pmc;
    uint64_t counted[SET_MAX];
    struct buf records;

    if (!pmc->recording || change->held != pmc->recording || !pmc->counted_before ||
        !(pmc->recorded & (RECORDED_SWITCHES | RECORDED_EXITS)))
        return;
    count_all(change, counted);
    for (unsigned i = 0; i < pmc_events(pmc); i++)
        counted[i] -= pmc->counted_before[i];
    buf_init(&records, NULL, 0);
    exits_rest(recording_exits(pmc->recording),
               change->engine->host->now_ns(change->engine->host_state), counted, over, &records);
    pmc_put(pmc, &records);
    buf_free(&records);
}

/* The total at this moment, as far as it is not what live counters have read since they were
 * opened. */
static void count_before(struct pmc *pmc)
{
    unsigned n = pmc_events(pmc);

    memcpy(pmc->counted_before, pmc->base->value, n * sizeof *pmc->counted_before);
    for (unsigned l = 0; l < pmc->links->n; l++) {
        const struct link *link = pmc->links->link[l];

        for (unsigned i = 0; i < n; i++)
            pmc->counted_before[i] +=
                link_live(link) ? -link->base->value[i] : link->base->value[i];
    }
}

/* The count begins anew, with what was just read. */
static void begin_anew(struct change *change)
{
    struct pmc *pmc = change->pmc;

    for (unsigned i = 0; i < pmc_events(pmc); i++)
        pmc->counted_before[i] = i < pmc->settings.n_counts ? pmc->settings.counts[i] : 0;
    if (pmc->recorded & (RECORDED_SWITCHES | RECORDED_EXITS))
        exits_reset(recording_exits(pmc->recording));
}

void commit_recording(struct change *change)
{
    struct pmc *pmc = change->pmc;

    if (change->recording) {
        change->old_recording = pmc_record(pmc, change->recording);
        change->recording = NULL;
        change->recording_bytes = 0;
        free(pmc->counted_before);
        pmc->counted_before = change->counted_before;
        change->counted_before = NULL;
        pmc->recorded = change->recorded;
        pmc->recorded_kernel = change->may_kernel;
        pmc->recorded_outside = change->recorded_outside;
        count_before(pmc);
    } else if (change->drops_recording) {
        change->old_recording = pmc_record(pmc, NULL);
        pmc->recorded = 0;
    } else if (pmc->recording && change->held == pmc->recording &&
               (change->put || change->verb == VERB_RESET || change->verb == VERB_RESTART)) {
        begin_anew(change);
    }
    if (change->cause == CAUSE_COMMAND) {
        pmc->set_number = change->set_number;
        pmc->sampling = change->sampling;
    }
    if (pmc->log)
        log_set_max(pmc->log, log_size(change->engine, &pmc->settings));
}

/* ---- in order ---- */

/* Why it left; NULL: it did not, or nobody asks. */
static const char *reason_of(const struct change *change, const struct replaced *replaced)
{
    if (change->cause == CAUSE_DROPPED)
        return replaced->link->below ? NULL : "exec-privileged";
    if (change->cause == CAUSE_CPUS)
        return replaced->link->kind == TARGET_CPU && !replaced->link->offline ? "cpu-offline"
                                                                              : NULL;
    if (replaced->successor && replaced->successor->counter)
        return NULL;
    if (change->cause == CAUSE_DEATHS)
        return replaced->left ? "exec-privileged" : "exited";
    return replaced->renewed || replaced->link->ended ? NULL : "command";
}

void record_end(struct change *change, bool stops, bool over)
{
    struct pmc *pmc = change->pmc;

    if (stops || over) /* who was stopped owes the exits of those that end now */
        put_rest(change, over);
    for (unsigned i = 0; i < change->n_replaced; i++) {
        const char *reason = reason_of(change, &change->replaced[i]);

        if (reason)
            note_link(pmc, RECORD_DETACH, change->replaced[i].link, reason, 0);
    }
    if (stops)
        note_state(pmc, RECORD_STOP, 0);
    if (pmc->settings.value[KEY_LOG] && !change->want.value[KEY_LOG] && pmc->log)
        note_state(pmc, RECORD_CLOSE, 0);
}

void record_begin(struct change *change, bool starts)
{
    struct pmc *pmc = change->pmc;

    if (change->new_set)
        note_allocated(pmc, change->started_ns);
    for (unsigned i = 0; i < change->n_fresh_planned; i++) {
        const struct link *link = change->fresh[i];
        bool again = change->cause == CAUSE_DROPPED && !link->below;
        bool returned = change->cause == CAUSE_CPUS && link->kind == TARGET_CPU;

        if (link->counter && (!link->renews || again || returned))
            note_link(pmc, RECORD_ATTACH, link, NULL, change->started_ns);
    }
    if (starts)
        note_state(pmc, RECORD_START, change->started_ns);
    pmc_put(pmc, &change->inventory);
}

/* ---- the end of a PMC ---- */

void record_last_end(struct change *change)
{
    struct pmc *pmc = change->pmc;
    bool runs = !state_table[pmc->state].open;

    if (change->engine->forgetting || !pmc->links)
        return;
    put_rest(change, true);
    for (unsigned i = 0; pmc->log && i < pmc->links->n; i++)
        if (!pmc->links->link[i]->ended)
            note_link(pmc, RECORD_DETACH, pmc->links->link[i], "released", 0);
    if (runs)
        note_state(pmc, RECORD_STOP, 0);
    if (pmc->log)
        note_state(pmc, RECORD_CLOSE, 0);
}
