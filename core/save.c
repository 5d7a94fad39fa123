/*
 * The whole state as text, out and in: one record a line, words separated by blanks, other people's
 * bytes escaped. Descriptors are named by number; whoever loads the text has the same table.
 */
#include "core/engine.h"

#include "core/change.h"
#include "core/series.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- out ---- */

static void word(struct buf *out, const char *text)
{
    buf_char(out, ' ');
    if (text && *text)
        buf_word(out, text, strlen(text));
    else
        buf_char(out, '-');
}

static void number(struct buf *out, uint64_t value)
{
    buf_char(out, ' ');
    buf_u64(out, value);
}

static void tally_print(struct buf *out, const struct tally *tally, unsigned n)
{
    number(out, tally->covered_ns);
    number(out, tally->enabled_ns);
    number(out, tally->running_ns);
    number(out, tally->never_ran);
    for (unsigned i = 0; i < 2 * n; i++)
        number(out, tally->value[i]);
    buf_char(out, '\n');
}

static void save_event(struct buf *out, const struct event *event)
{
    buf_str(out, "event");
    word(out, event->written);
    word(out, event->resolved);
    word(out, event->unit);
    buf_printf(out, " %a", event->scale);
    const uint64_t numbers[] = { event->class_index, event->rows, event->rows_needed, event->scope,
                                 event->sampling, event->whole, event->needs_kernel,
                                 (uint64_t)event->user, (uint64_t)event->kernel };
    for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        number(out, numbers[i]);
    for (unsigned i = 0; i < EVENT_CODE_WORDS; i++)
        number(out, event->code[i]);
    buf_char(out, '\n');
}

static void save_claim(struct buf *out, const struct claim *claim)
{
    buf_str(out, "claim");
    number(out, claim->class_index);
    number(out, claim->system);
    buf_char(out, ' ');
    if (cpus_count(&claim->cpus))
        cpus_print(&claim->cpus, out);
    else
        buf_char(out, '-');
    number(out, claim->n);
    for (unsigned i = 0; i < claim->n; i++) {
        number(out, claim->member[i].fits);
        number(out, claim->member[i].needed);
        number(out, (uint64_t)(int64_t)claim->member[i].asked);
        number(out, claim->member[i].got);
    }
    buf_char(out, '\n');
}

static void save_rights(struct buf *out, const struct rights *rights)
{
    struct buf text;

    buf_init(&text, NULL, 0);
    if (rights)
        rights_print(rights, &text);
    word(out, buf_text(&text));
    buf_free(&text);
}

static void save_link(struct engine *engine, struct buf *out, const struct link *link, unsigned n)
{
    buf_str(out, "link");
    const uint64_t numbers[] = {
        link->id, link->kind, link->proc ? link->proc->id : 0, (uint64_t)link->pid,
        (uint64_t)link->tid, link->cpu, link->from_all, link->offline, (uint64_t)(int64_t)link->cgroup_fd,
        link->cgroup_key, link->ended, link->gone, link->attached_ns, link->gap_ns,
        link->gone_since_ns, link->facts.threads, link->facts.descriptors, link->facts.raced,
        link->facts.left_out, link->facts.covered, link->armed,
        link->dropped, link->refused, link->missed,
    };
    for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        number(out, numbers[i]);
    word(out, link->cgroup);
    save_rights(out, link->rights);
    tally_print(out, link->base, n);
    if (!link->counter)
        return;
    buf_str(out, "counter ");
    engine->backend->print(link->counter, out);
    if (out->len && out->data[out->len - 1] != '\n')
        buf_char(out, '\n');
}

static void save_settings(struct buf *out, const struct pmc *pmc)
{
    buf_str(out, "settings");
    number(out, pmc->settings.given);
    for (unsigned key = 0; key < KEYS; key++) {
        if (key == KEY_EVENT || key == KEY_TARGET)
            continue;
        buf_char(out, ' ');
        buf_str(out, key_table[key].name);
        buf_char(out, '=');
        settings_print(&pmc->settings, (enum key)key, 0, out);
    }
    buf_char(out, '\n');
}

static void save_pmc(struct engine *engine, struct buf *out, const struct pmc *pmc)
{
    buf_str(out, "pmc");
    word(out, pmc->name);
    const uint64_t numbers[] = {
        pmc->id, pmc->uid, pmc->gid, pmc->mode, pmc->created_ns, pmc->changed_ns, pmc->made_ns,
        pmc->state, pmc->effective, pmc->kernel, pmc->had_target, pmc->epoch, pmc->resets, pmc->change,
        pmc->first_start_ns, pmc->started_ns, pmc->wants_all, pmc->held_by, pmc->left_out, pmc->raced,
        pmc->owner ? pmc->owner->id : 0, pmc_events(pmc), pmc->links->n,
    };
    for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        number(out, numbers[i]);
    word(out, pmc->error);
    buf_char(out, '\n');
    save_settings(out, pmc);
    for (unsigned i = 0; i < pmc_events(pmc); i++)
        save_event(out, &pmc->set->event[i]);
    buf_str(out, "base");
    tally_print(out, pmc->base, pmc_events(pmc));
    if (pmc->claim)
        save_claim(out, pmc->claim);
    for (unsigned i = 0; i < pmc->links->n; i++)
        save_link(engine, out, pmc->links->link[i], pmc_events(pmc));
}

static void save_rows(struct engine *engine, struct buf *out)
{
    for (int cpu = cpus_next(&engine->possible, 0); cpu >= 0;
         cpu = cpus_next(&engine->possible, cpu + 1))
        for (unsigned class = 0; class < engine->n_classes; class++)
            for (unsigned row = 0; row < engine->classes[class].rows; row++)
                if (rows_slot(engine->rows, (unsigned)cpu, class, row) == SLOT_DISABLED)
                    buf_printf(out, "disabled %d %u %u\n", cpu, class, row);
}

void engine_save(struct engine *engine, struct buf *out)
{
    uint64_t id = 0;

    buf_printf(out, "pmcfs-state 1\nserial %" PRIu64 "\n", engine->next_serial);
    for (unsigned i = 0; i < TUNABLE_COUNT; i++) {
        buf_str(out, "tunable ");
        buf_str(out, tunable_row((enum tunable)i)->name);
        buf_char(out, ' ');
        tunable_print(&engine->tunables, (enum tunable)i, out);
        buf_char(out, '\n');
    }
    buf_str(out, "counts");
    number(out, engine->operations);
    number(out, engine->operations_failed);
    number(out, engine->attaches);
    number(out, engine->attaches_raced);
    for (unsigned i = 0; i < STAT_COUNT; i++)
        number(out, engine->stats[i]);
    buf_char(out, '\n');
    if (engine->has_catalog)
        buf_str(out, "catalog\n");
    save_rows(engine, out);
    for (struct proc *proc; (proc = ids_next(&engine->procs, id, &id));) {
        buf_printf(out, "process %" PRIu64 " %d %d ", proc->id, proc->dead,
                   proc->guard ? engine->backend->guard_fd(proc->guard) : 0);
        engine->host->process_print(proc->process, out);
        if (out->data[out->len - 1] != '\n')
            buf_char(out, '\n');
    }
    id = 0;
    for (struct pmc *pmc; (pmc = ids_next(&engine->pmcs, id, &id));)
        save_pmc(engine, out, pmc);
    for (size_t i = 0; i < engine->root->n_errors; i++) {
        const struct last_error *error = &engine->root->errors[i];

        buf_printf(out, "error %u %" PRIu64, (unsigned)error->uid, error->when);
        word(out, error->line);
        buf_char(out, '\n');
    }
}

/* ---- in ---- */

#define LINKS_MAX (1u << 20)

struct loading {
    struct engine *engine;
    struct scan line;        /* the rest of the present line */
    const char *rest;        /* its text from the second word on, terminated */
    bool bad;
    struct pmc *pmc;         /* the PMC whose records follow */
    unsigned n_events, n_links;
    unsigned events, links;  /* read so far */
};

static uint64_t take(struct loading *load)
{
    struct word text;
    uint64_t value = 0;

    if (!scan_word(&load->line, &text) || !word_u64(text, false, 0, UINT64_MAX, &value))
        load->bad = true;
    return value;
}

/* An escaped word; NULL for "-". Owned by the caller. */
static char *take_text(struct loading *load)
{
    struct word text;

    if (!scan_word(&load->line, &text)) {
        load->bad = true;
        return NULL;
    }
    if (word_is(text, "-"))
        return NULL;
    char *copy = malloc(text.len + 1), *to = copy;
    for (size_t i = 0; copy && i < text.len; i++) {
        if (text.p[i] == '\\' && i + 3 < text.len) {
            *to++ = (char)((text.p[i + 1] - '0') * 64 + (text.p[i + 2] - '0') * 8 + text.p[i + 3] - '0');
            i += 3;
        } else {
            *to++ = text.p[i];
        }
    }
    if (copy)
        *to = '\0';
    load->bad |= !copy;
    return copy;
}

/* 0 and 1 are the root's; a node's number has room for 52 bits. */
static bool id_sound(uint64_t id)
{
    return id > 1 && id < UINT64_C(1) << 52;
}

/* A number below limit; 0 and a bad line otherwise. */
static unsigned take_below(struct loading *load, uint64_t limit)
{
    uint64_t value = take(load);

    if (value < limit)
        return (unsigned)value;
    load->bad = true;
    return 0;
}

static void take_tally(struct loading *load, struct tally *tally, unsigned n)
{
    tally->covered_ns = take(load);
    tally->enabled_ns = take(load);
    tally->running_ns = take(load);
    tally->never_ran = take(load);
    for (unsigned i = 0; i < 2 * n; i++)
        tally->value[i] = take(load);
}

static void load_serial(struct loading *load)
{
    load->engine->next_serial = take(load);
}

static void load_tunable(struct loading *load)
{
    struct word name, value;

    if (!scan_word(&load->line, &name) || !scan_word(&load->line, &value))
        return; /* an empty text */
    int which = tunable_find(name);
    if (which >= 0)
        tunable_set(&load->engine->tunables, (enum tunable)which, value, true, NULL);
}

static void load_counts(struct loading *load)
{
    load->engine->operations = take(load);
    load->engine->operations_failed = take(load);
    load->engine->attaches = take(load);
    load->engine->attaches_raced = take(load);
    for (unsigned i = 0; i < STAT_COUNT; i++)
        load->engine->stats[i] = take(load);
}

/* Names below events/ may be known to the kernel by their numbers. */
static void load_catalog(struct loading *load)
{
    struct engine *engine = load->engine;

    engine->has_catalog = engine->backend->list(engine->backend_state, &engine->catalog, NULL) == 0 &&
                          catalog_finish(&engine->catalog) == 0;
}

static void load_disabled(struct loading *load)
{
    unsigned cpu = take_below(load, CPUS_MAX), class = take_below(load, load->engine->n_classes);
    unsigned row = take_below(load, load->bad ? 1 : load->engine->classes[class].rows);

    load->bad = load->bad || !cpus_has(&load->engine->possible, cpu) ||
                rows_disable(load->engine->rows, cpu, class, row, NULL) != 0;
}

static void load_process(struct loading *load)
{
    struct engine *engine = load->engine;
    struct proc *proc = calloc(1, sizeof *proc);

    if (!proc) {
        load->bad = true;
        return;
    }
    proc->engine = engine;
    proc->id = take(load);
    proc->dead = take(load);
    int guard = (int)take(load);
    while (load->line.p < load->line.end && *load->line.p == ' ')
        load->line.p++;
    load->bad |= !id_sound(proc->id) || ids_find(&engine->procs, proc->id);
    if (load->bad || engine->host->process_adopt(engine->host_state, load->line.p, &proc->process) != 0 ||
        !ids_add(&engine->procs, proc->id, proc)) {
        load->bad = true;
        if (proc->process)
            engine->host->process_free(proc->process);
        free(proc);
        return;
    }
    proc->key = engine->host->process_key(proc->process);
    proc->tid = engine->host->process_tid(proc->process);
    proc->watched = true;
    engine->fds_used++;
    if (proc->dead)
        return;
    engine->host->process_watch(proc->process, proc->id);
    if (guard && engine->backend->guard_adopt &&
        engine->backend->guard_adopt(engine->backend_state, guard, proc->id, &proc->guard) != 0)
        close(guard);
}

static void load_pmc_numbers(struct loading *load, struct pmc *pmc)
{
    pmc->id = take(load);
    pmc->uid = (uid_t)take(load);
    pmc->gid = (gid_t)take(load);
    pmc->mode = (mode_t)take(load);
    pmc->created_ns = take(load);
    pmc->changed_ns = take(load);
    pmc->made_ns = take(load);
    pmc->state = (enum pmc_state)take_below(load, PMC_STATES);
    pmc->effective = (enum mode)take_below(load, MODE_COUNT);
    pmc->kernel = take(load);
    pmc->had_target = take(load);
    pmc->epoch = take(load);
    pmc->resets = take(load);
    pmc->change = take(load);
    pmc->first_start_ns = take(load);
    pmc->started_ns = take(load);
    pmc->wants_all = take(load);
    pmc->held_by = take(load);
    pmc->left_out = (unsigned)take(load);
    pmc->raced = take(load);
}

static void load_pmc(struct loading *load)
{
    struct engine *engine = load->engine;
    char *name = take_text(load);
    bool fits = name && name_legal(name, NULL) && !instance_find(engine->root, name);
    struct pmc *pmc = fits ? pmc_new(engine->root, name) : NULL;

    free(name);
    load->pmc = NULL;
    if (!pmc) {
        load->bad = true;
        return;
    }
    load_pmc_numbers(load, pmc);
    struct proc *owner = ids_find(&engine->procs, take(load));
    load->n_events = take_below(load, SET_MAX + 1);
    load->n_links = take_below(load, LINKS_MAX);
    load->events = load->links = 0;
    pmc->error = take_text(load);
    struct links *links = links_new(load->n_links);
    struct tally *base = tally_new(load->n_events);
    pmc->set = load->n_events ? set_new(load->n_events) : NULL;
    load->bad |= !links || !base || (load->n_events && !pmc->set) || (pmc->state == PMC_NEW) != !pmc->set ||
                 (!pmc->set && (load->n_links || pmc->wants_all)) ||
                 !id_sound(pmc->id) || ids_find(&engine->pmcs, pmc->id);
    if (load->bad || !ids_add(&engine->pmcs, pmc->id, pmc)) {
        load->bad = true;
        free(links);
        free(base);
        instance_remove(engine->root, pmc);
        pmc->instance = NULL;
        pmc_unref(pmc);
        return;
    }
    free(pmc->links);
    free(pmc->base);
    pmc->links = links;
    pmc->links->n = 0; /* grows as the links are read */
    pmc->base = base;
    load->pmc = pmc;
    if (owner) {
        proc_ref(owner);
        pmc_own(pmc, owner);
    }
    pmc->cpus_stale = true;
    pmc_pend(pmc); /* what happened meanwhile is found out */
}

static void load_settings(struct loading *load)
{
    struct word pair, key, value;
    uint32_t given = (uint32_t)take(load);

    while (scan_word(&load->line, &pair)) {
        enum key which = word_split(pair, &key, &value) ? key_find(key) : KEYS;

        if (which == KEYS || settings_set(&load->pmc->settings, which, value, NULL) != 0)
            load->bad = true;
    }
    load->pmc->settings.given = given;
}

static void load_event(struct loading *load)
{
    struct word scale;

    if (load->events >= load->n_events) {
        load->bad = true;
        return;
    }
    struct event *event = &load->pmc->set->event[load->events++];
    event->written = take_text(load);
    event->resolved = take_text(load);
    char *unit = take_text(load);
    if (unit)
        strncpy(event->unit, unit, sizeof event->unit - 1);
    free(unit);
    if (scan_word(&load->line, &scale))
        event->scale = strtod(scale.p, NULL);
    event->class_index = take_below(load, load->engine->n_classes);
    event->rows = take(load);
    event->rows_needed = take_below(load, 3);
    event->scope = (unsigned)take(load);
    event->sampling = take(load);
    event->whole = take(load);
    event->needs_kernel = take(load);
    event->user = (enum event_said)take_below(load, SAID_ON + 1);
    event->kernel = (enum event_said)take_below(load, SAID_ON + 1);
    for (unsigned i = 0; i < EVENT_CODE_WORDS; i++)
        event->code[i] = take(load);
    load->bad |= !event->written || !event->resolved;
}

static void load_base(struct loading *load)
{
    take_tally(load, load->pmc->base, load->n_events);
}

static void load_claim(struct loading *load)
{
    struct pmc *pmc = load->pmc;
    struct claim *claim = pmc->claim ? NULL : calloc(1, sizeof *claim);
    struct word cpus;

    if (!claim) {
        load->bad = true;
        return;
    }
    claim->pmc = pmc->id;
    claim->uid = pmc->uid;
    claim->class_index = take_below(load, load->engine->n_classes);
    claim->system = take(load);
    cpus_init(&claim->cpus);
    if (scan_word(&load->line, &cpus) && !word_is(cpus, "-"))
        load->bad |= cpus_parse(&claim->cpus, cpus) != 0;
    claim->n = (unsigned)take(load);
    load->bad |= claim->n > SET_MAX;
    for (unsigned i = 0; !load->bad && i < claim->n; i++) {
        claim->member[i].fits = take(load);
        claim->member[i].needed = (unsigned)take(load);
        claim->member[i].asked = (int)(int64_t)take(load);
        claim->member[i].got = take(load);
    }
    if (!load->bad && rows_retake(load->engine->rows, claim)) {
        pmc->claim = claim;
        return;
    }
    load->bad = true;
    cpus_free(&claim->cpus);
    free(claim);
}

static void load_link_numbers(struct loading *load, struct link *link)
{
    link->id = take(load);
    link->kind = (enum target_kind)take_below(load, TARGET_CGROUP + 1);
    struct proc *proc = ids_find(&load->engine->procs, take(load));
    if (proc)
        link_set_proc(link, proc);
    link->pid = (pid_t)take(load);
    link->tid = (pid_t)take(load);
    link->cpu = take_below(load, CPUS_MAX);
    link->from_all = take(load);
    link->offline = take(load);
    link->cgroup_fd = (int)(int64_t)take(load);
    link->cgroup_key = take(load);
    link->ended = take(load);
    link->gone = take(load);
    link->attached_ns = take(load);
    link->gap_ns = take(load);
    link->gone_since_ns = take(load);
    link->facts.threads = (unsigned)take(load);
    link->facts.descriptors = (unsigned)take(load);
    link->facts.raced = take(load);
    link->facts.left_out = (unsigned)take(load);
    link->facts.covered = (unsigned)take(load);
    link->armed = take(load);
    link->dropped = take(load);
    link->refused = take(load);
    link->missed = take(load);
}

static void load_link(struct loading *load)
{
    struct link *link = load->links < load->n_links ? link_new(load->n_events) : NULL;

    if (!link) {
        load->bad = true;
        return;
    }
    link->pmc = load->pmc;
    load->pmc->links->link[load->links++] = link;
    load->pmc->links->n = load->links;
    load_link_numbers(load, link);
    link->cgroup = take_text(load);
    char *rights = take_text(load);
    load->bad |= rights && !(link->rights = rights_scan(rights));
    free(rights);
    take_tally(load, link->base, load->n_events);
    load->bad |= link->kind == TARGET_CGROUP && !link->cgroup;
    load->bad |= link->kind < TARGET_CPU && !link->ended && !link->proc;
}

static void load_counter(struct loading *load)
{
    struct engine *engine = load->engine;
    struct pmc *pmc = load->pmc;
    struct link *link = load->links ? pmc->links->link[load->links - 1] : NULL;
    struct plan_event events[SET_MAX];

    if (!link || link->counter || !pmc->set || load->events < load->n_events || !id_sound(link->id) ||
        ids_find(&engine->links, link->id)) {
        load->bad = true;
        return;
    }
    for (unsigned i = 0; i < pmc->set->n; i++)
        events[i] = pmc_plan_event(&pmc->set->event[i], &pmc->settings, pmc->kernel);
    struct plan plan = {
        .events = events, .n = pmc->set->n,
        .target = { .kind = link->kind, .pid = link->pid, .tid = link->tid, .cpu = link->cpu,
                    .cgroup_fd = link->cgroup_fd, .alive = link_target_alive, .alive_arg = link },
        .descendants = pmc->settings.value[KEY_DESCENDANTS],
        .at_exec = link->armed,
        .multiplex = pmc->settings.value[KEY_MULTIPLEX],
        .max_covered = (unsigned)tunable_u64(&engine->tunables, TUNABLE_MAX_COVERED_PER_PMC),
        .tag = link->id,
    };
    while (load->line.p < load->line.end && *load->line.p == ' ')
        load->line.p++;
    if (engine->backend->adopt(engine->backend_state, &plan, load->line.p, &link->counter) != 0) {
        load->bad = true;
        return;
    }
    engine->fds_used += link->facts.descriptors;
    load->bad |= !ids_add(&engine->links, link->id, link);
}

static void load_error(struct loading *load)
{
    uid_t uid = (uid_t)take(load);
    uint64_t when = take(load);
    char *line = take_text(load);

    if (line)
        instance_set_error(load->engine->root, uid, when, line);
    free(line);
}

static void load_version(struct loading *load)
{
    load->bad |= take(load) != 1;
}

static const struct record_row {
    const char *name;
    bool of_pmc;
    void (*load)(struct loading *load);
} records[] = {
    { "pmcfs-state", false, load_version }, { "serial", false, load_serial },
    { "tunable", false, load_tunable },     { "counts", false, load_counts },
    { "catalog", false, load_catalog },     { "disabled", false, load_disabled },   { "process", false, load_process },
    { "pmc", false, load_pmc },             { "settings", true, load_settings },
    { "event", true, load_event },          { "base", true, load_base },
    { "claim", true, load_claim },          { "link", true, load_link },
    { "counter", true, load_counter },      { "error", false, load_error },
};

/* Nothing is missing of the PMC whose records were read. */
static bool pmc_complete(const struct loading *load)
{
    return !load->pmc || (load->events == load->n_events && load->links == load->n_links);
}

static bool load_line(struct loading *load, const char *line, size_t len)
{
    struct word name;

    scan_init(&load->line, line, len);
    if (!scan_word(&load->line, &name))
        return true;
    for (unsigned i = 0; i < sizeof records / sizeof records[0]; i++) {
        if (!word_is(name, records[i].name))
            continue;
        if (records[i].of_pmc ? !load->pmc : !pmc_complete(load))
            return false;
        records[i].load(load);
        return !load->bad;
    }
    return false;
}

/* Whatever was read: serials are new, and no process is held for nobody. */
static void engine_settle(struct engine *engine)
{
    uint64_t id = 0;

    for (struct proc *proc; (proc = ids_next(&engine->procs, id, &id));) {
        if (engine->next_serial <= id)
            engine->next_serial = id + 1;
        if (proc->refs)
            continue;
        proc_ref(proc);
        proc_destroy(engine, proc_unref(engine, proc));
    }
    for (id = 0; ids_next(&engine->pmcs, id, &id);)
        if (engine->next_serial <= id)
            engine->next_serial = id + 1;
    for (id = 0; ids_next(&engine->links, id, &id);)
        if (engine->next_serial <= id)
            engine->next_serial = id + 1;
}

int engine_load(struct engine *engine, const char *text, size_t len, struct err *err)
{
    struct loading load = { .engine = engine };
    const char *end = text + len;
    unsigned n = 0;

    while (text < end) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t size = (size_t)((stop ? stop : end) - text);
        char *line = strndup(text, size);
        bool fine = line && load_line(&load, line, strlen(line));

        n++;
        if (!fine) {
            err_set(err, P14, "line %u of the saved state cannot be read: %.200s", n, line ? line : "");
            free(line);
            engine_settle(engine);
            return -EINVAL;
        }
        free(line);
        text += size + 1;
    }
    engine_settle(engine);
    if (pmc_complete(&load))
        return 0;
    err_set(err, P14, "the saved state ends in the middle of a PMC");
    return -EINVAL;
}

/* ---- open files ---- */

void open_file_print(const struct open_file *open, struct buf *out)
{
    buf_printf(out, "%d %d %d %" PRIu64 " %" PRIu64 " %" PRIu64, open->cut, open->swapped, open->has_seen,
               open->seen_change, open->seen_count, open->holds);
    word(out, open->swap);
    buf_str(out, " rights ");
    if (open->rights) {
        struct buf rights;

        buf_init(&rights, NULL, 0);
        rights_print(open->rights, &rights);
        buf_word(out, rights.data, rights.len);
        buf_free(&rights);
    } else {
        buf_char(out, '-');
    }
    buf_str(out, " series ");
    if (open->series)
        series_print(open->series, out);
    else
        buf_char(out, '-');
}

bool open_file_scan(struct open_file *open, const char *text)
{
    struct loading load = { .engine = NULL };
    struct word label;

    scan_init(&load.line, text, strlen(text));
    open->cut = take(&load);
    open->swapped = take(&load);
    open->has_seen = take(&load);
    open->seen_change = take(&load);
    open->seen_count = take(&load);
    open->holds = take(&load);
    open->swap = take_text(&load);
    load.bad |= !scan_word(&load.line, &label) || !word_is(label, "rights");
    char *rights = take_text(&load);
    if (rights)
        load.bad |= !(open->rights = rights_scan(rights));
    free(rights);
    load.bad |= !scan_word(&load.line, &label) || !word_is(label, "series");
    while (load.line.p < load.line.end && *load.line.p == ' ')
        load.line.p++;
    if (load.line.p < load.line.end && *load.line.p != '-')
        load.bad |= !(open->series = series_scan(load.line.p));
    return !load.bad;
}
