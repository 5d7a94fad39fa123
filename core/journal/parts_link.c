/*
 * Journal records of a PMC's links: counts, the rights of the user that attached the target, and
 * the counter.
 */
#include "core/journal/load.h"

#include "core/base/fds.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* A tally is printed as its times, then two values for each event. */
bool tally_io(struct io *io, struct tally *tally, unsigned n)
{
    uint64_t number[4 + 2 * SET_MAX] = {tally->covered_ns, tally->enabled_ns, tally->running_ns,
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

    return tally_io(io, link->base, pmc_events(link->pmc));
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

static bool rights_io(struct io *io, void *object)
{
    return rights_id_io(io, &((struct link *)object)->rights);
}

static void *link_begin(struct loading *load)
{
    struct pmc *pmc = load->pmc;
    struct links *links;

    if (!load->sealed || pmc->links->n == LOAD_LINKS_MAX)
        return NULL;
    links = realloc(pmc->links, sizeof *links + (pmc->links->n + 1) * sizeof links->link[0]);
    if (links)
        pmc->links = links;
    load->link = links ? link_new(pmc_events(pmc)) : NULL;
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
        pmc_hold_link(load->pmc, link, true);
    return fine && (link->kind != TARGET_CGROUP || link->cgroup) &&
           (link->kind >= TARGET_CPU || link->ended || link->proc);
}

static const struct field link_fields[] = {
    FIELD(struct link, id),
    BELOW(struct link, kind, TARGET_CGROUP + 1),
    OTHER(process),
    FIELD(struct link, pid),
    FIELD(struct link, tid),
    BELOW(struct link, cpu, CPUS_MAX),
    FLAG(struct link, offline),
    OR_NONE(struct link, cgroup_fd),
    FIELD(struct link, cgroup_key),
    TEXT(struct link, cgroup),
    FLAG(struct link, ended),
    FLAG(struct link, gone),
    FLAG(struct link, moved),
    FLAG(struct link, armed),
    FLAG(struct link, dropped),
    FLAG(struct link, below),
    FLAG(struct link, asked),
    FLAG(struct link, missed),
    OTHER(rights),
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
        .set = pmc->set_number,
        .recording = pmc->recording,
        .recorded = pmc->recording ? pmc->recorded : 0,
    };

    if (io->out) {
        backend->print(link->counter, io->out);
        return true;
    }
    for (unsigned i = 0; i < pmc->set->n; i++)
        events[i] = pmc_plan_event(&pmc->set->event[i], &pmc->settings, pmc->kernel);
    struct plan plan = link_plan(link, &opening);
    plan.fds_free = plan.fds_quota = ULONG_MAX;
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
    load->engine->backend->facts_of(link->counter, &link->facts);
    pmc_hold_link(load->pmc, link, true);
    if (load->pmc->settings.word[KEY_DESCENDANTS])
        link_spread(link);
    return ids_add(&load->engine->links, link->id, link);
}

static const struct field counter_fields[] = {OTHER(opened)};
const struct part part_counter = PART(counter, counter_begin, counter_end);

/* Writes a link. Members that follow from the counter are left out. */
void link_put(struct engine *engine, struct link *link, struct buf *out)
{
    struct link told = *link;

    if (link->counter)
        told.facts = (struct counter_facts){0};
    part_print(&part_link, engine, &told, out);
    if (link->counter)
        part_print(&part_counter, engine, link, out);
}
