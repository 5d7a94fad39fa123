/*
 * Journal records of a PMC: name and state, settings, counts, log and rows.
 */
#include "core/journal/load.h"

#include <stdlib.h>
#include <string.h>

/* ---- the PMC ---- */

static bool named_end(struct loading *load, bool fine)
{
    const struct named *named = load->named;
    struct instance *instance = engine_instance(load->engine, named->instance);
    struct proc *owner = ids_find(&load->engine->procs, named->owner);
    struct pmc *pmc = NULL;

    if (fine && instance && load_serial(load->engine, load->id) && named->name &&
        name_check(named->name, NULL) == 0 && !instance_find(instance, named->name))
        pmc = pmc_new(instance, named->name);
    if (!pmc)
        return false;
    if (!pmc_add_to_tree(pmc, load->id, named->uid, named->payer)) {
        pmc_drop(pmc);
        return false;
    }
    load->pmc = pmc;
    if (owner) {
        proc_ref(owner);
        pmc_set_owner(pmc, owner);
    }
    pmc->cpus.stale = true;
    pmc_defer(pmc, WORK_CHANGE); /* look for changes since the last worker */
    return true;
}

static const struct field named_fields[] = {
    FIELD(struct named, instance), TEXT(struct named, name),   FIELD(struct named, uid),
    FIELD(struct named, payer),    FIELD(struct named, owner),
};
static const struct part part_named = PART_OF(named, named, named_end);

/* The parts of events and links (parts_link.c) store `event` and `target`. */
static bool is_stored_here(enum key key)
{
    return key != KEY_EVENT && key != KEY_TARGET;
}

static bool settings_io(struct io *io, void *member)
{
    struct settings *settings = member;
    struct word name, value;
    char *pair;

    if (io->out) {
        for (enum key key = 0; key < KEYS; key++) {
            const bool is_written = settings->written_keys & KEY_BIT(key);

            if (!is_stored_here(key) || (!is_written && settings_standard(settings, key)))
                continue;
            buf_printf(io->out, "%s=", key_table[key].name);
            settings_print(settings, key, 0, io->out);
            buf_char(io->out, ' ');
        }
        return true;
    }
    while ((pair = strsep(&io->text, " "))) {
        const enum key key = word_split(word_of(pair), &name, &value) ? key_find(name) : KEYS;

        if (key != KEYS && is_stored_here(key) && settings_set(settings, key, value, NULL) != 0)
            return false;
    }
    settings->written_keys = 0; /* given_io() loads it */
    return true;
}

/* Prints or loads settings.written_keys, as the names of keys, because their numbers differ between
 * versions. */
static bool given_io(struct io *io, void *member)
{
    struct settings *settings = member;
    char *name;

    for (enum key key = 0; io->out && key < KEYS; key++)
        if (settings->written_keys & KEY_BIT(key))
            buf_printf(io->out, "%s ", key_table[key].name);
    while (!io->out && (name = strsep(&io->text, " "))) {
        const enum key key = key_find(word_of(name));

        settings->written_keys |= key == KEYS ? 0 : KEY_BIT(key);
    }
    return true;
}

static const struct field pmc_fields[] = {
    FIELD(struct pmc, gid),
    FIELD(struct pmc, mode),
    NAMED("maker", struct pmc, creator_pid, 0),
    NAMED("maker_key", struct pmc, creator_key, 0),
    FIELD(struct pmc, created_ns),
    FIELD(struct pmc, changed_ns),
    NAMED("made_ns", struct pmc, created_monotonic_ns, 0),
    NAMED("made_tsc", struct pmc, created_tsc, 0),
    BELOW(struct pmc, state, PMC_STATES),
    NAMED("effective", struct pmc, mode_in_use, MODE_COUNT),
    NAMED("switching", struct pmc, may_have_switched, 2),
    NAMED("kernel", struct pmc, counts_kernel, 2),
    NAMED("had_target", struct pmc, attached.any, 2),
    FIELD(struct pmc, epoch),
    FIELD(struct pmc, resets),
    NAMED("change", struct pmc, change_number, 0),
    NAMED("first_start_ns", struct pmc, run.first_start_ns, 0),
    NAMED("started_ns", struct pmc, run.started_ns, 0),
    NAMED("ran_ns", struct pmc, run.ran_ns, 0),
    TEXT(struct pmc, metrics),
    NAMED("wants_all", struct pmc, cpus.all, 2),
    NAMED("held_by", struct pmc, is_held, 2),
    NAMED("left_out", struct pmc, attached.left_out, 0),
    NAMED("raced", struct pmc, attached.raced, 2),
    FLAG(struct pmc, missed),
    FIELD(struct pmc, throttled),
    TEXT(struct pmc, error),
    TEXT(struct pmc, attach_error),
    NAMED("began", struct pmc, sets_started, 0),
    FIELD(struct pmc, set_number),
    FIELD(struct pmc, sampling.period),
    FIELD(struct pmc, sampling.freq),
    FIELD(struct pmc, sampling.asked),
    FLAG(struct pmc, sampling.slowed),
    FLAG(struct pmc, sampling.chain_user),
    FLAG(struct pmc, sampling.chain_kernel),
    FIELD(struct pmc, sampling.depth),
    FIELD(struct pmc, sampling.depth_asked),
    FLAG(struct pmc, sampling.raw),
    FIELD(struct pmc, sampling.stack),
    FIELD(struct pmc, sampling.registers),
    FIELD(struct pmc, sampling.observer.capabilities),
    FIELD(struct pmc, sampling.observer.userns),
    FIELD(struct pmc, sampling.observer.uid),
    FIELD(struct pmc, sampling.observer.gid),
    FIELD(struct pmc, sampling.observer.superuser),
    FIELD(struct pmc, sampling.observer.known),
    NAMED("recorded", struct pmc, recorded.kinds, 2 * RECORDED_EXITS),
    NAMED("recorded_kernel", struct pmc, recorded.kernel, 2),
    OTHER_OF(settings, struct pmc, settings),
    OTHER_OF(given, struct pmc, settings),
};
static const struct part part_pmc = PART_OF(pmc, pmc, NULL);

/* ---- counts and the log ---- */

static bool base_io(struct io *io, void *object)
{
    struct pmc *pmc = object;

    return tally_io(io, pmc->base, pmc_values(pmc));
}

static bool log_io(struct io *io, void *object)
{
    const struct pmc *pmc = object;
    uint64_t block = pmc->log ? log_block(pmc->log) : 0;

    return numbers_io(io, io->out ? &block : &io->load->log, sizeof block, 1);
}

/* Takes over the sets and the log. If the log is gone, pmc_ensure_log() creates a new one later. */
static bool counts_end(struct loading *load, bool fine)
{
    struct pmc *pmc = load->pmc;
    const uint64_t sets_bytes = pmc->sets_bytes;

    pmc->sets_bytes = 0;
    if (!fine || load->events_complete || !load_sets_end(load, &pmc->sets))
        return false;
    if (pmc->sets) {
        user_charge_unchecked(pmc->user, USED_BYTES, (int64_t)sets_bytes);
        pmc->sets_bytes = sets_bytes;
    }
    if (!load_log(load->engine, load->log, &pmc->log))
        return false;
    if (pmc->log)
        user_charge_unchecked(pmc->user, USED_BYTES,
                              (int64_t)log_set_charge(pmc->log, user_charge_log, pmc->user));
    load->events_complete = true;
    return true;
}

static const struct field counts_fields[] = {
    OTHER(base),
    OTHER(log),
    TEXT(struct pmc, notes),
    FIELD(struct pmc, sets_bytes),
};
static const struct part part_counts = PART_OF(pmc, counts, counts_end);

static bool before_io(struct io *io, void *object)
{
    const struct pmc *pmc = object;

    return numbers_io(io, pmc->recorded.counted_before, sizeof(uint64_t), pmc_events(pmc));
}

static bool buffers_io(struct io *io, void *object)
{
    struct pmc *pmc = object;
    struct recording_plan plan = pmc_recording_plan(pmc, pmc_events(pmc), pmc->recorded.kinds);
    struct recording *recording;

    if (io->out) {
        recording_print(pmc->recording, io->out);
        return true;
    }
    plan.kernel = pmc->recorded.kernel;
    plan.recorder.data_maps = pmc->sampling.stack > 0;
    if (pmc->recording ||
        recording_adopt(&plan, pmc->run.first_start_ns > 0, io->text, &recording) != 0)
        return false;
    pmc_set_recording(pmc, recording);
    pmc_update_drain_list(pmc);
    return true;
}

static void *recording_begin(struct loading *load)
{
    struct pmc *pmc = load->events_complete ? load->pmc : NULL;

    if (!pmc || pmc->recorded.counted_before || !pmc->recorded.kinds || !pmc_ensure_log(pmc))
        return NULL;
    pmc->recorded.counted_before = calloc(SET_MAX, sizeof *pmc->recorded.counted_before);
    return pmc->recorded.counted_before ? pmc : NULL;
}

static const struct field recording_fields[] = {
    OTHER(before),
    OTHER(buffers),
};
static const struct part part_recording = PART(recording, recording_begin, NULL);

/* ---- rows ---- */

static bool cpus_io(struct io *io, void *member)
{
    struct cpus *cpus = member;

    if (!io->out)
        return cpus_parse(cpus, (struct word){io->text, strlen(io->text)}) == 0;
    if (cpus_count(cpus))
        cpus_print(cpus, io->out);
    return true;
}

/* Prints or loads the rows that each member has got. */
static bool got_io(struct io *io, void *object)
{
    struct claim *claim = object;
    uint64_t got[SET_MAX] = {0};

    for (unsigned i = 0; i < claim->n; i++)
        got[i] = claim->member[i].got;
    bool fine = numbers_io(io, got, sizeof *got, claim->n);
    for (unsigned i = 0; i < claim->n; i++)
        claim->member[i].got = got[i];
    return fine;
}

/* Creates the claim. Its fields are the CPUs and the rows; all other members follow from the PMC.
 * record_done() books the rows. */
static void *claim_begin(struct loading *load)
{
    struct pmc *pmc = load->pmc;
    struct claim *claim =
        load->events_complete && pmc->set && !pmc->claim ? calloc(1, sizeof *claim) : NULL;

    if (!claim)
        return NULL;
    *claim = (struct claim){.pmc = pmc->id,
                            .instance = pmc->instance->id,
                            .uid = pmc->uid,
                            .system = mode_table[pmc->mode_in_use].system};
    claim_members(claim, pmc->set, settings_number(&pmc->settings, KEY_ROW));
    pmc->claim = claim;
    return claim;
}

static const struct field claim_fields[] = {
    OTHER_OF(cpus, struct claim, cpus),
    OTHER(got),
};
static const struct part part_claim = PART(claim, claim_begin, NULL);

/* ---- the record ---- */

static void record_print(struct engine *engine, uint64_t id, struct buf *out)
{
    struct pmc *pmc = ids_find(&engine->pmcs, id);

    if (!pmc)
        return;
    struct named named = {
        .instance = pmc->instance->id,
        .name = pmc->name,
        .uid = pmc->uid,
        .payer = pmc->payer,
        .owner = pmc->owner ? pmc->owner->id : 0,
    };
    part_print(&part_named, engine, &named, out);
    part_print(&part_pmc, engine, pmc, out);
    for (unsigned i = 0; i < pmc_events(pmc); i++) {
        struct event event = pmc->set->event[i];

        if (strcmp(event.resolved, event.written) == 0)
            event.resolved = NULL;
        part_print(&part_event, engine, &event, out);
    }
    sampled_print(engine, pmc->sets, out);
    part_print(&part_counts, engine, pmc, out);
    if (pmc->recording)
        part_print(&part_recording, engine, pmc, out);
    if (pmc->claim)
        part_print(&part_claim, engine, pmc->claim, out);
    for (unsigned i = 0; i < pmc->links->n; i++) {
        struct link *link = pmc->links->link[i], printed = *link;

        if (link->counter) /* the facts follow from the counter */
            printed.facts = (struct counter_facts){0};
        part_print(&part_link, engine, &printed, out);
        if (link->counter)
            part_print(&part_counter, engine, link, out);
    }
}

static bool record_done(struct loading *load, bool fine)
{
    struct pmc *pmc = load->pmc;
    struct claim *claim = pmc ? pmc->claim : NULL;

    if (claim && !(fine && claim->n > 0 && rows_retake(load->engine->rows, claim))) {
        pmc->claim = NULL;
        claim_free(claim);
        return false;
    }
    if (!fine || !pmc || !load->events_complete || (pmc->state == PMC_NEW) != !pmc->set ||
        (!pmc->set && pmc->cpus.all))
        return false;
    pmc->set = set_share(load->engine, pmc->set);
    pmc_charge_links(pmc);
    return true;
}

static const struct part *const parts[] = {
    &part_named,     &part_pmc,   &part_event, &part_sampled, &part_counts,
    &part_recording, &part_claim, &part_link,  &part_counter, NULL,
};
const struct kind kind_pmc = {parts, record_print, record_done};
