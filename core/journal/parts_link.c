/*
 * Journal records of the parts of a PMC: its events, the meaning of the ids in its log, and its
 * links.
 */
#include "core/journal/load.h"

#include "core/base/arena.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- events ---- */

#define ONE UINT64_C(0x3ff0000000000000) /* the bits of 1.0 */

static bool class_io(struct io *io, void *object)
{
    const struct engine *engine = io->engine;
    struct event *event = object;
    unsigned i = 0;

    if (io->out) {
        buf_str(io->out, engine->classes[event->class_index].name);
        return true;
    }
    while (i < engine->n_classes && strcmp(io->text, engine->classes[i].name) != 0)
        i++;
    if (i < engine->n_classes)
        event->class_index = i;
    return i < engine->n_classes;
}

/* Adds an event. event_end() enlarges the base, because the number of values depends on the class.
 */
static void *event_begin(struct loading *load)
{
    struct pmc *pmc = load->pmc;
    const unsigned n = pmc ? pmc_events(pmc) : SET_MAX;

    if (n == SET_MAX || load->events_complete)
        return NULL;
    struct set *set = realloc(pmc->set, sizeof *set + (n + 1) * sizeof set->event[0]);
    if (!set)
        return NULL;
    *set = (struct set){.refs = 1, .n = n};
    pmc->set = set;
    set->event[set->n++] = (struct event){.written = NULL};
    return &set->event[n];
}

static bool event_end(struct loading *load, bool fine)
{
    struct pmc *pmc = load->pmc;
    struct event *event = &pmc->set->event[pmc->set->n - 1];
    struct tally *base = tally_new(pmc_values(pmc));

    if (!base) { /* the old base has no space for the event */
        event_clear(event);
        pmc->set->n--;
        return false;
    }
    free(pmc->base);
    pmc->base = base;
    if (event->written && !event->resolved)
        event->resolved = strdup(event->written);
    return fine && event->written && event->resolved;
}

static const struct field event_fields[] = {
    TEXT(struct event, written),
    TEXT(struct event, resolved), /* if it differs from `written` */
    OTHER(class),
    CHARS(struct event, generic),
    CHARS(struct event, unit),
    FIELD_AS(struct event, scale, sizeof(double), 1, 0, ONE),
    FIELD(struct event, rows),
    BELOW(struct event, rows_needed, 3),
    FIELD(struct event, scope),
    FLAG(struct event, sampling),
    NAMED("whole", struct event, counts_both_modes, 2),
    FLAG(struct event, needs_kernel),
    FLAG(struct event, needs_superuser),
    BELOW(struct event, user, MODIFIER_ON + 1),
    BELOW(struct event, kernel, MODIFIER_ON + 1),
    ARRAY(struct event, code),
};

const struct part part_event = PART(event, event_begin, event_end);

/* ---- the ids in a log ---- */

/* Adds the events read so far as a set. */
static bool sets_flush(struct loading *load)
{
    struct log_event events[SET_MAX];
    bool fine = true;

    for (unsigned i = 0; i < load->n_sampled; i++)
        events[i] = load->sampled[i].event;
    if (load->n_sampled > 0)
        fine = log_sets_add(load->sets, events, load->n_sampled) > 0;
    for (unsigned i = 0; i < load->n_sampled; i++) {
        free(events[i].name);
        free(events[i].resolved);
    }
    load->n_sampled = 0;
    return fine;
}

bool load_sets_end(struct loading *load, struct log_sets **sets)
{
    bool fine = sets_flush(load);

    *sets = load->sets;
    load->sets = NULL;
    return fine;
}

static void *sampled_begin(struct loading *load)
{
    if (!load->sets)
        load->sets = log_sets_new();
    if (!load->sets || load->n_sampled == SET_MAX)
        return NULL;
    load->sampled[load->n_sampled] = (struct sampled){.first = false};
    return &load->sampled[load->n_sampled];
}

static bool sampled_end(struct loading *load, bool fine)
{
    const struct sampled sampled = load->sampled[load->n_sampled];

    if (!fine || !sampled.event.name || !sampled.event.resolved) {
        free(sampled.event.name);
        free(sampled.event.resolved);
        return false;
    }
    if (sampled.first)
        fine = sets_flush(load);
    load->sampled[load->n_sampled++] = sampled;
    return fine;
}

static const struct field sampled_fields[] = {
    FLAG(struct sampled, first),
    TEXT(struct sampled, event.name),
    TEXT(struct sampled, event.resolved),
    FIELD(struct sampled, event.period),
    FIELD(struct sampled, event.freq),
    FLAG(struct sampled, event.chains),
    FIELD(struct sampled, event.type),
    FIELD(struct sampled, event.config),
    FLAG(struct sampled, event.raw),
    FIELD(struct sampled, event.stack),
    FIELD(struct sampled, event.registers),
    FIELD(struct sampled, event.observer.capabilities),
    FIELD(struct sampled, event.observer.userns),
    FIELD(struct sampled, event.observer.uid),
    FIELD(struct sampled, event.observer.gid),
    FIELD(struct sampled, event.observer.superuser),
    FIELD(struct sampled, event.observer.known),
};
const struct part part_sampled = PART(sampled, sampled_begin, sampled_end);

void sampled_print(struct engine *engine, const struct log_sets *sets, struct buf *out)
{
    for (uint64_t set = 1; sets && set <= log_sets_last(sets); set++) {
        for (unsigned i = 0; i < log_sets_events(sets, set); i++) {
            struct sampled sampled = {i == 0, *log_sets_event(sets, set, i)};

            part_print(&part_sampled, engine, &sampled, out);
        }
    }
}

/* ---- tallies ---- */

/* Prints or loads a tally: its times and `never_ran`, then n values and n estimates. */
bool tally_io(struct io *io, struct tally *tally, unsigned n)
{
    uint64_t number[4 + 2 * VALUES_MAX] = {tally->covered_ns, tally->enabled_ns, tally->running_ns,
                                           tally->never_ran};

    memcpy(number + 4, tally->value, 2 * n * sizeof *number);
    bool fine = numbers_io(io, number, sizeof *number, 4 + 2 * n);
    if (io->out || !fine)
        return fine;
    tally->covered_ns = number[0];
    tally->enabled_ns = number[1];
    tally->running_ns = number[2];
    tally->never_ran = number[3];
    memcpy(tally->value, number + 4, 2 * n * sizeof *number);
    return true;
}

/* ---- targets ---- */

static bool base_io(struct io *io, void *object)
{
    struct link *link = object;

    return tally_io(io, link->base, pmc_values(link->pmc));
}

static bool process_io(struct io *io, void *object)
{
    struct link *link = object;
    uint64_t id = link->proc ? link->proc->id : 0;
    bool fine = numbers_io(io, &id, sizeof id, 1);
    struct proc *proc = link->proc ? NULL : ids_find(&io->engine->procs, id);

    if (proc)
        link_set_proc(link, proc);
    return fine;
}

/* States and notes are written as flags, which earlier versions read. */
#define AS_FLAG(name, is_set, set)                                                                 \
    static bool name##_io(struct io *io, void *object)                                             \
    {                                                                                              \
        struct link *link = object;                                                                \
        uint64_t flag = (is_set) != 0;                                                             \
        const bool fine = numbers_io(io, &flag, sizeof flag, 1);                                   \
                                                                                                   \
        if (!io->out && flag)                                                                      \
            (set);                                                                                 \
        return fine && flag < 2;                                                                   \
    }
AS_FLAG(offline, link->state == LINK_OFFLINE, link->state = LINK_OFFLINE)
AS_FLAG(ended, link->state == LINK_ENDED, link->state = LINK_ENDED)
AS_FLAG(gone, link->noted &NOTE_GONE, link->noted |= NOTE_GONE)
AS_FLAG(moved, link->noted &NOTE_MOVED, link->noted |= NOTE_MOVED)
AS_FLAG(asked, link->noted &NOTE_FAILED, link->noted |= NOTE_FAILED)
AS_FLAG(dropped, link->loss, link->loss = LOSS_TARGET)
AS_FLAG(below, link->loss == LOSS_DESCENDANT, link->loss = LOSS_DESCENDANT)

static void *link_begin(struct loading *load)
{
    struct pmc *pmc = load->pmc;

    if (!load->events_complete || pmc->links->n == LOAD_LINKS_MAX)
        return NULL;
    struct links *links =
        realloc(pmc->links, sizeof *links + (pmc->links->n + 1) * sizeof links->link[0]);
    if (links)
        pmc->links = links;
    load->link = links ? link_new(pmc->engine, pmc->set) : NULL;
    if (!load->link)
        return NULL;
    load->link->pmc = pmc;
    links->link[links->n++] = load->link;
    return load->link;
}

static bool link_end(struct loading *load, bool fine)
{
    const struct link *link = load->link;

    if (link->cgroup_fd >= 0)
        fd_keep(link->cgroup_fd);
    if (fine && link_waits(link))
        pmc_charge_link_fds(load->pmc, link, true);
    return fine && (link->kind != TARGET_CGROUP || link->cgroup) &&
           (link->kind >= TARGET_CPU || link->state == LINK_ENDED || link->proc);
}

static const struct field link_fields[] = {
    FIELD(struct link, id),
    BELOW(struct link, kind, TARGET_CGROUP + 1),
    OTHER(process),
    FIELD(struct link, pid),
    FIELD(struct link, tid),
    CHARS(struct link, name),
    BELOW(struct link, cpu, CPUS_MAX),
    OTHER(offline),
    OR_NONE(struct link, cgroup_fd),
    FIELD(struct link, cgroup_key),
    TEXT(struct link, cgroup),
    OTHER(ended),
    OTHER(gone),
    OTHER(moved),
    FLAG(struct link, armed),
    OTHER(dropped),
    OTHER(below),
    OTHER(asked),
    FLAG(struct link, missed),
    OTHER_OF(rights, struct link, rights),
    FIELD(struct link, shown_pid),
    FIELD(struct link, shown_tid),
    FIELD(struct link, gap_ns),
    FIELD(struct link, gone_since_ns),
    FIELD(struct link, facts.threads),
    FIELD(struct link, facts.descriptors),
    FLAG(struct link, facts.raced),
    FIELD(struct link, facts.left_out),
    OTHER(base),
};
const struct part part_link = PART(link, link_begin, link_end);

/* ---- counters ---- */

static bool opened_io(struct io *io, void *object)
{
    const struct backend *backend = io->engine->backend;
    struct link *link = object;
    struct pmc *pmc = link->pmc;
    struct plan_event events[SET_MAX];
    struct opening opening = {
        .events = events,
        .n = pmc->set->n,
        .settings = &pmc->settings,
        .sampling = &pmc->sampling,
        .set_number = pmc->set_number,
        .recording = pmc->recording,
        .recorded = pmc->recording ? pmc->recorded.kinds : 0,
    };

    if (io->out) {
        backend->print(link->counter, io->out);
        return true;
    }
    for (unsigned i = 0; i < pmc->set->n; i++)
        events[i] = pmc_plan_event(&pmc->set->event[i], &pmc->settings, pmc->counts_kernel);
    struct plan plan = link_plan(link, &opening);
    plan.fds_left = plan.fds_quota = ULONG_MAX;
    return !link->counter &&
           backend->adopt(io->engine->backend_state, &plan, io->text, &link->counter) == 0;
}

static void *counter_begin(struct loading *load)
{
    const struct link *link = load->link;

    return link && load->pmc->set && load_serial(load->engine, link->id) &&
                   !ids_find(&load->engine->links, link->id)
               ? load->link
               : NULL;
}

static bool counter_end(struct loading *load, bool fine)
{
    struct link *link = load->link;

    if (!fine || !link->counter)
        return false;
    if (load->pmc->recording)
        link->recording = recording_ref(load->pmc->recording);
    load->engine->backend->counter_facts(link->counter, &link->facts);
    pmc_charge_link_fds(load->pmc, link, true);
    if (load->pmc->settings.word[KEY_DESCENDANTS])
        link_spread(link);
    return ids_add(&load->engine->links, link->id, link);
}

static const struct field counter_fields[] = {OTHER(opened)};
const struct part part_counter = PART(counter, counter_begin, counter_end);
