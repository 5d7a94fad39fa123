/*
 * A fresh engine from the records of an earlier worker. Whatever they say, nothing crashes: a
 * record that does not fit is named and refused; kinds, lines and fields that are not known are
 * passed over.
 */
#include "core/engine.h"

#include "core/base/vec.h"
#include "core/journal/load_state.h"
#include "core/pmc/instance.h"
#include "core/pmc/metric.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool load_id_sound(uint64_t id)
{
    return id > 1 && id < UINT64_C(1) << 52;
}

bool load_class(const struct loading *load, unsigned *class_index)
{
    struct word name;

    if (!line_find(&load->line, "class", &name))
        return false;
    for (unsigned i = 0; i < load->engine->n_classes; i++) {
        *class_index = i;
        if (word_is(name, load->engine->classes[i].name))
            return true;
    }
    return false;
}

const char *load_rest(const struct loading *load)
{
    const char *rest = load->line.p;

    while (*rest == ' ')
        rest++;
    return rest;
}

/* ---- lines ---- */

/* The first one of the table stands before all others. */
static bool load_line(struct loading *load, const struct load_line *lines, bool *begun, char *line)
{
    struct word name;

    scan_init(&load->line, line, strlen(line));
    if (!scan_word(&load->line, &name))
        return true;
    if (!*begun && !word_is(name, lines[0].name))
        return false;
    *begun = true;
    while (lines->name && !word_is(name, lines->name))
        lines++;
    return !lines->name || lines->load(load);
}

bool load_lines(struct loading *load, const struct load_line *lines, const char *text, size_t len)
{
    const char *end = text + len;
    bool begun = false, fine = true;

    while (fine && text < end) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t size = (size_t)((stop ? stop : end) - text);
        char *line = strndup(text, size);

        fine = line && load_line(load, lines, &begun, line);
        free(line);
        text += size + 1;
    }
    return fine;
}

/* ---- the engine ---- */

static bool load_counts(struct loading *load)
{
    struct engine *engine = load->engine;
    uint64_t catalog = 0;

    /* Names below events/ may be known to the kernel by their numbers. */
    if (line_u64(&load->line, "catalog", &catalog) && catalog)
        engine->has_catalog =
            events_list_all(engine->backend, engine->backend_state, &engine->catalog, NULL) == 0;
    if (!saved_scan(&saved_counts, engine, &load->line))
        return false;
    if (engine->next_serial < engine->kept_serial)
        engine->next_serial = engine->kept_serial;
    return true;
}

static bool load_tunable(struct loading *load)
{
    struct word name, value;

    if (!scan_word(&load->line, &name) || !scan_word(&load->line, &value))
        return true; /* an empty text */
    int which = tunable_find(name);
    if (which >= 0)
        tunable_set(&load->engine->tunables, (enum tunable)which, value, true, NULL);
    return true;
}

static bool load_disabled(struct loading *load)
{
    struct engine *engine = load->engine;
    struct word class;
    uint64_t cpu, row;

    if (!scan_u64(&load->line, CPUS_MAX - 1, &cpu) || !scan_word(&load->line, &class) ||
        !scan_u64(&load->line, UINT32_MAX, &row) || !cpus_has(&engine->possible, (unsigned)cpu))
        return false;
    for (unsigned i = 0; i < engine->n_classes; i++)
        if (word_is(class, engine->classes[i].name) && row < engine->classes[i].rows)
            rows_disable(engine->rows, (unsigned)cpu, i, (unsigned)row, NULL);
    return true;
}

static bool load_engine(struct loading *load, const char *text, size_t len)
{
    static const struct load_line lines[] = {{"engine", load_counts},
                                             {"tunable", load_tunable},
                                             {"disabled", load_disabled},
                                             {NULL, NULL}};

    return load_lines(load, lines, text, len);
}

/* ---- processes, instances, sentences ---- */

static bool load_itself(struct loading *load)
{
    struct proc *proc = load->proc;
    uint64_t guard = 0;

    if (!saved_scan(&saved_proc, proc, &load->line) || !load_id_sound(proc->id))
        return false;
    proc->guard_fd = line_u64(&load->line, "guard", &guard) ? (int)guard : 0;
    return true;
}

static bool load_held(struct loading *load)
{
    struct engine *engine = load->engine;
    struct proc *proc = load->proc;

    return !proc->process &&
           engine->host->process_adopt(engine->host_state, load_rest(load), &proc->process) == 0;
}

static bool load_process(struct loading *load, const char *text, size_t len)
{
    static const struct load_line lines[] = {
        {"process", load_itself}, {"held", load_held}, {NULL, NULL}};
    struct engine *engine = load->engine;
    struct proc *proc = load->proc = calloc(1, sizeof *proc);

    if (!proc)
        return false;
    proc->engine = engine;
    if (!load_lines(load, lines, text, len) || !proc->process ||
        ids_find(&engine->procs, proc->id) || !ids_add(&engine->procs, proc->id, proc)) {
        if (proc->process)
            engine->host->process_free(proc->process);
        free(proc);
        return false;
    }
    if (!proc->dead && proc->guard_fd && engine->backend->guard_adopt &&
        engine->backend->guard_adopt(engine->backend_state, proc->guard_fd, proc->id,
                                     &proc->guard) != 0)
        close(proc->guard_fd);
    proc_adopted(proc);
    if (!proc->dead)
        engine->host->process_watch(proc->process, proc->id);
    return true;
}

static bool instance_sound(const struct engine *engine, const struct instance *instance)
{
    bool fine = instance->id > 0 && instance->id <= INSTANCE_ID_MAX && instance->name &&
                name_check(instance->name, NULL) == 0 && !instance_by_name(engine, instance->name) &&
                !ids_find(&engine->instances, instance->id);

    for (unsigned i = 0; i < LIMITS; i++)
        fine = fine && instance->limit[i] <= limit_max((enum limit)i);
    return fine;
}

/* The numbers into one that is made with its name. */
static bool load_made(struct loading *load)
{
    struct engine *engine = load->engine;
    struct instance read = {.name = NULL}, *made = NULL;
    uint64_t holder = 0;

    if (saved_scan(&saved_instance, &read, &load->line) && instance_sound(engine, &read))
        made = instance_make(engine, read.id, read.name);
    free(read.name);
    if (!made)
        return false;
    char *name = made->name;
    if (!saved_scan(&saved_instance, made, &load->line))
        made->name = NULL;
    if (made->name != name)
        free(made->name);
    made->name = name;
    for (unsigned i = 0; i < RESOURCES; i++)
        instance_set_limit(made, (enum limit)i, made->limit[i]);
    line_u64(&load->line, "holder", &holder);
    struct proc *proc = ids_find(&engine->procs, holder);
    if (proc) {
        proc_ref(proc);
        instance_hold(made, proc);
    }
    if (engine->next_instance <= made->id)
        engine->next_instance = made->id + 1;
    return true;
}

static bool load_instance(struct loading *load, const char *text, size_t len)
{
    static const struct load_line lines[] = {{"instance", load_made}, {NULL, NULL}};

    return load_lines(load, lines, text, len);
}

static bool load_sentence(struct loading *load)
{
    struct last_error error = {.line = NULL};
    struct instance *instance = engine_instance(load->engine, load->id >> 32);
    bool fine = saved_scan(&saved_error, &error, &load->line);

    if (fine && error.line && instance)
        instance_set_error(instance, error.uid, error.when, error.line);
    free(error.line);
    return fine;
}

static bool load_error(struct loading *load, const char *text, size_t len)
{
    static const struct load_line lines[] = {{"error", load_sentence}, {NULL, NULL}};

    return load_lines(load, lines, text, len);
}

/* ---- logs ---- */

/* The events that were read are a set. */
static bool sets_flush(struct loading *load)
{
    bool fine = log_sets_add(load->sets, load->sampled, load->n_sampled) > 0;

    for (unsigned i = 0; i < load->n_sampled; i++) {
        free(load->sampled[i].name);
        free(load->sampled[i].resolved);
    }
    memset(load->sampled, 0, sizeof load->sampled);
    load->n_sampled = 0;
    return fine;
}

static bool sampled_scan(struct loading *load, struct log_event *event)
{
    bool fine = saved_scan(&saved_sampled, event, &load->line);

    event->name = event->name ? event->name : strdup("");
    event->resolved = event->resolved ? event->resolved : strdup("");
    if (fine && event->name && event->resolved)
        return true;
    free(event->name);
    free(event->resolved);
    *event = (struct log_event){.name = NULL};
    return false;
}

bool load_sampled(struct loading *load)
{
    uint64_t set;

    if (!line_u64(&load->line, "set", &set) || (!load->sets && !(load->sets = log_sets_new())))
        return false;
    if (set != load->set && load->n_sampled && !sets_flush(load))
        return false;
    load->set = set;
    if (load->n_sampled == SET_MAX || !sampled_scan(load, &load->sampled[load->n_sampled]))
        return false;
    load->n_sampled++;
    return true;
}

bool load_sets_end(struct loading *load, struct log_sets **sets)
{
    bool fine = !load->n_sampled || sets_flush(load);

    *sets = load->sets;
    load->sets = NULL;
    load->set = 0;
    return fine;
}

/* Of a PMC, or of one that was released. */
static struct log *log_loaded(struct engine *engine, uint64_t block)
{
    uint64_t id = 0;

    for (struct pmc *pmc; (pmc = ids_next(&engine->pmcs, id, &id));)
        if (pmc->log && log_block(pmc->log) == block)
            return log_ref(pmc->log);
    for (size_t i = 0; i < engine->loaded.n; i++)
        if (log_block(engine->loaded.log[i]) == block)
            return log_ref(engine->loaded.log[i]);
    return NULL;
}

struct log *load_log(struct engine *engine, uint64_t block, bool *fresh)
{
    struct log **held, *known = log_loaded(engine, block);

    if (known) {
        *fresh = false;
        return known;
    }
    *fresh = true;
    held = realloc(engine->loaded.log, (engine->loaded.n + 1) * sizeof *held);
    if (!held)
        return NULL;
    engine->loaded.log = held;
    struct log *log = log_adopt(block);
    if (log)
        held[engine->loaded.n++] = log_ref(log);
    return log;
}

void engine_loaded(struct engine *engine)
{
    while (engine->loaded.n)
        log_unref(engine->loaded.log[--engine->loaded.n]);
    free(engine->loaded.log);
    engine->loaded.log = NULL;
}

/* ---- what moved meanwhile ---- */

static void inventory_add(void *arg, pid_t pid)
{
    struct pmc *pmc = arg;
    struct buf known; /* to the log */

    buf_init(&known, NULL, 0);
    recording_inventory(pmc->recording, pid, 0, &known);
    buf_free(&known);
}

/* What its recording knew of the processes that it records is found in the system again. */
static void recording_begin(struct engine *engine, struct pmc *pmc)
{
    if (!pmc->recording || pmc->state != PMC_RUNNING)
        return;
    if (mode_table[pmc->effective].system) {
        inventory_add(pmc, 0);
        return;
    }
    for (unsigned i = 0; i < pmc->links->n; i++)
        if (link_live(pmc->links->link[i]) && engine->backend->processes)
            engine->backend->processes(pmc->links->link[i]->counter, inventory_add, pmc);
}

/* No process is held for nobody. */
static void procs_settle(struct engine *engine)
{
    uint64_t id = 0;

    for (struct pmc *pmc; (pmc = ids_next(&engine->pmcs, id, &id));)
        recording_begin(engine, pmc);
    id = 0;
    for (struct proc *proc; (proc = ids_next(&engine->procs, id, &id));) {
        if (proc->refs)
            continue;
        proc_ref(proc);
        proc_destroy(engine, proc_unref(engine, proc));
    }
}

/* ---- the whole ---- */

static bool (*const loads[JOURNAL_KINDS])(struct loading *load, const char *text, size_t len) = {
    [JOURNAL_ENGINE] = load_engine,     [JOURNAL_PROCESS] = load_process,
    [JOURNAL_INSTANCE] = load_instance, [JOURNAL_PMC] = load_pmc,
    [JOURNAL_ERROR] = load_error,
};

static bool load_record(struct loading *load, const struct journal_record *record)
{
    const size_t len = journal_text_len(record);

    load->id = record->id;
    load->pmc = NULL;
    load->events = load->links = load->members = 0;
    bool fine = loads[record->kind](load, record->text, len);
    struct log_sets *sets; /* of a record that did not fit */
    load_sets_end(load, &sets);
    log_sets_unref(sets);
    return fine;
}

struct records {
    const struct journal_record **list;
    size_t n;
};

static bool record_add(void *arg, const struct journal_record *record)
{
    struct records *records = arg;
    const struct journal_record **list;

    if (record->kind >= JOURNAL_KINDS || !loads[record->kind])
        return true;
    list = realloc(records->list, (records->n + 1) * sizeof *list);
    if (!list)
        return false;
    records->list = list;
    list[records->n++] = record;
    return true;
}

static int record_compare(const void *left, const void *right)
{
    const struct journal_record *a = *(const struct journal_record *const *)left;
    const struct journal_record *b = *(const struct journal_record *const *)right;

    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

int engine_load(struct engine *engine, const struct journal *journal, struct err *err)
{
    struct loading load = {.engine = engine};
    struct records records = {.n = 0};
    bool fine = journal_each(journal, record_add, &records);

    if (records.n)
        qsort(records.list, records.n, sizeof records.list[0], record_compare);
    for (size_t i = 0; fine && i < records.n; i++) {
        const struct journal_record *record = records.list[i];

        fine = load_record(&load, record);
        if (!fine)
            err_set(err, P14, "a record of the journal (kind %u, %llu) cannot be read: %.300s",
                    record->kind, (unsigned long long)record->id, text_shown(record->text));
    }
    free(records.list);
    procs_settle(engine);
    return fine ? 0 : -EINVAL;
}
