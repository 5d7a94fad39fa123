/*
 * Prints and reads journal records by their tables of fields, and loads the records of an earlier
 * worker into a new engine. Invalid records never crash: a record that cannot be loaded is named
 * and refused; unknown kinds, parts and fields are skipped.
 */
#include "core/journal/load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ---- */

static uint64_t number_get(const struct field *field, const void *object, unsigned i)
{
    const char *at = (const char *)object + field->offset + i * field->size;

    uint64_t value;

    if (field->size == sizeof(uint8_t))
        return *(const uint8_t *)at;
    if (field->size == sizeof(uint32_t))
        return *(const uint32_t *)(const void *)at;
    memcpy(&value, at, sizeof value);
    return value;
}

static void number_set(const struct field *field, void *object, unsigned i, uint64_t value)
{
    char *at = (char *)object + field->offset + i * field->size;

    if (field->size == sizeof(uint8_t))
        *(uint8_t *)at = (uint8_t)value;
    else if (field->size == sizeof(uint32_t))
        *(uint32_t *)(void *)at = (uint32_t)value;
    else
        memcpy(at, &value, sizeof value);
}

static void numbers_print(const struct field *field, const void *object, struct buf *out)
{
    unsigned n = field->n;

    while (n > 0 && number_get(field, object, n - 1) == field->omitted)
        n--;
    for (unsigned i = 0; i < n; i++) {
        if (i)
            buf_char(out, ',');
        buf_u64(out, number_get(field, object, i));
    }
}

static bool numbers_scan(const struct field *field, void *object, char *text)
{
    const uint64_t max = field->limit                     ? field->limit - 1
                         : field->size < sizeof(uint64_t) ? (UINT64_C(1) << 8 * field->size) - 1
                                                          : UINT64_MAX;
    char *one;
    uint64_t value;

    for (unsigned i = 0; (one = strsep(&text, ",")); i++) {
        if (i == field->n || !word_u64(word_of(one), false, 0, max, &value))
            return false;
        number_set(field, object, i, value);
    }
    return true;
}

bool numbers_io(struct io *io, void *value, unsigned size, unsigned n)
{
    const struct field field = {.size = size, .n = n};

    if (!io->out)
        return numbers_scan(&field, value, io->text);
    numbers_print(&field, value, io->out);
    return true;
}

/* ---- parts ---- */

void part_print(const struct part *part, struct engine *engine, void *object, struct buf *out)
{
    struct io io = {.engine = engine, .out = out};

    buf_str(out, part->name);
    buf_char(out, '\n');
    for (const struct field *field = part->fields; field < part->fields + part->n; field++) {
        const char *at = (const char *)object + field->offset;
        const size_t begin = out->len;

        buf_str(out, field->name);
        buf_char(out, '=');
        const size_t value = out->len;
        if (field->kind == FIELD_TEXT)
            at = *(const char *const *)(const void *)at;
        if (field->io)
            field->io(&io, (char *)object + field->offset);
        else if (field->kind == FIELD_NUMBERS)
            numbers_print(field, object, out);
        else if (at)
            buf_word(out, at, strlen(at));
        if (out->len == value)
            out->len = begin;
        else
            buf_char(out, '\n');
    }
}

bool part_scan(const struct part *part, struct io *io, void *object, const char *name)
{
    const struct field *field = part->fields, *end = part->fields + part->n;

    while (field < end && strcmp(field->name, name) != 0)
        field++;
    if (field == end)
        return true;
    if (field->io)
        return field->io(io, (char *)object + field->offset);
    if (field->kind == FIELD_NUMBERS)
        return numbers_scan(field, object, io->text);
    text_unescape(io->text);
    char *at = (char *)object + field->offset;
    if (field->kind == FIELD_TEXT) {
        char **owned = (char **)(void *)at;

        free(*owned);
        *owned = strdup(io->text);
        return *owned;
    }
    if (strlen(io->text) >= field->size)
        return false;
    strcpy(at, io->text);
    return true;
}

/* ---- a record ---- */

static const struct kind *const kinds[JOURNAL_KINDS] = {
    [JOURNAL_ENGINE] = &kind_engine,     [JOURNAL_PROCESS] = &kind_process,
    [JOURNAL_INSTANCE] = &kind_instance, [JOURNAL_PMC] = &kind_pmc,
    [JOURNAL_ERROR] = &kind_error,       [JOURNAL_RIGHTS] = &kind_rights,
};

void object_print(struct engine *engine, enum journal_kind kind, uint64_t id, struct buf *out)
{
    kinds[kind]->print(engine, id, out);
}

static bool part_end(struct loading *load, bool fine)
{
    const struct part *part = load->part;

    load->part = NULL;
    return part && part->end ? part->end(load, fine) : fine;
}

static bool part_begin(struct loading *load, const struct part *const *parts, const char *name)
{
    const bool is_first = strcmp(name, (*parts)->name) == 0;

    if (is_first == load->begun)
        return false;
    load->begun = true;
    while (*parts && strcmp(name, (*parts)->name) != 0)
        parts++;
    const struct part *part = *parts;
    if (!part) /* of another version */
        return true;
    load->object =
        part->begin ? part->begin(load) : *(void **)(void *)((char *)load + part->object);
    if (!load->object)
        return false;
    load->part = part;
    for (unsigned i = 0; i < part->n; i++) /* missing fields keep the value that is not printed */
        if (part->fields[i].omitted)
            number_set(&part->fields[i], load->object, 0, part->fields[i].omitted);
    return true;
}

bool load_text(struct loading *load, const struct kind *kind, const char *text, size_t len)
{
    char *copy = strndup(text, len), *rest = copy, *line;
    bool fine = copy;
    struct log_sets *sets;

    while (fine && (line = strsep(&rest, "\n"))) {
        struct io io = {.engine = load->engine, .text = line, .load = load};
        const char *name = strsep(&io.text, "=");

        if (!*line)
            continue;
        if (!io.text) /* the name of a part */
            fine = part_end(load, true) && part_begin(load, kind->parts, name);
        else
            fine = load->part ? part_scan(load->part, &io, load->object, name) : load->begun;
    }
    free(copy);
    fine = part_end(load, fine) && load->begun;
    fine = kind->done ? kind->done(load, fine) : fine;
    /* free values that were read but not used by an object */
    fine = load_sets_end(load, &sets) && fine;
    log_sets_unref(sets);
    return fine;
}

/* ---- logs ---- */

bool load_log(struct engine *engine, uint64_t block, struct log **out)
{
    struct log *log = block ? ids_find(&engine->loaded_logs, block) : NULL;

    *out = NULL;
    if (!log && block) {
        log = log_adopt(block);
        if (!log)
            return errno != ENOMEM;
        if (!ids_add(&engine->loaded_logs, block, log)) {
            log_keep_blocks(log);
            log_unref(log);
            return false;
        }
    }
    *out = log ? log_ref(log) : NULL;
    return true;
}

/* ---- all records ---- */

struct reading_all {
    struct engine *engine;
    struct err *err;
};

static bool record_load(void *arg, const struct journal_record *record)
{
    const struct reading_all *all = arg;
    struct named named = {.name = NULL};
    struct last_error error = {.line = NULL};
    struct loading load = {
        .engine = all->engine, .id = record->id, .named = &named, .error = &error};

    errno = 0;
    bool fine = load_text(&load, kinds[record->kind], record->text, journal_text_len(record));

    if (!fine && !err_shortage(all->err, -errno))
        err_set(all->err, P14,
                "a record of the journal (kind %u, %llu) cannot be read (report this bug of "
                "pmcfs): %.300s",
                record->kind, (unsigned long long)record->id, text_shown(record->text));
    free(named.name);
    free(error.line);
    return fine;
}

int engine_load(struct engine *engine, const struct journal *journal, struct err *err)
{
    struct reading_all all = {engine, err};
    static const enum journal_kind order[] = {JOURNAL_ENGINE, JOURNAL_PROCESS, JOURNAL_INSTANCE,
                                              JOURNAL_RIGHTS, JOURNAL_PMC,     JOURNAL_ERROR};
    bool fine = true;

    for (size_t i = 0; fine && i < sizeof order / sizeof order[0]; i++)
        fine = journal_each(journal, order[i], record_load, &all);
    if (!fine && err->id == ERR_NONE)
        err_nomem(err);
    return fine ? 0 : -EINVAL;
}

/* ---- state that is not in records ---- */

/*
 * If the earlier worker died during a change that starts or stops counters: starts the counters of
 * a PMC that runs, and stops the others. Without that they could stay in the wrong state, because
 * the change may not run again, or be refused before it starts or stops them itself.
 *
 * Of a running PMC, lets the next drain read the present state of the recorded processes from the
 * system again. Not in system scope, where it would read all processes.
 */
static void counters_start_or_stop(struct pmc *pmc)
{
    const struct backend *backend = pmc->engine->backend;

    for (unsigned i = 0; i < pmc->links->n; i++) {
        const struct link *link = pmc->links->link[i];

        if (pmc->may_have_switched && state_table[pmc->state].started && link_live(link))
            backend->start(link->counter, &(struct err){.id = ERR_NONE});
        else if (pmc->may_have_switched && link->counter)
            backend->stop(link->counter);
        if (pmc->recording && pmc->state == PMC_RUNNING && link_live(link))
            backend->each_process(link->counter, recording_queue_inventory, pmc->recording);
    }
    pmc->may_have_switched = false;
}

void engine_finish_load(struct engine *engine)
{
    uint64_t id = 0;

    for (struct pmc *pmc; (pmc = ids_next(&engine->pmcs, id, &id));) {
        counters_start_or_stop(pmc);
        if (pmc->settings.word[KEY_REATTACH])
            pmc_schedule_reattach(pmc); /* the journal has no cgroup watches: create them again */
    }
    id = 0;
    for (struct proc *proc; (proc = ids_next(&engine->procs, id, &id));) {
        if (proc->refs)
            continue;
        proc_ref(proc);
        proc_unref(proc, &engine->deferred[WORK_LINK]); /* freed once its record is gone */
    }
    rights_sweep(engine);
    engine_free_loaded_logs(engine);
}

void engine_free_loaded_logs(struct engine *engine)
{
    uint64_t block;

    for (struct log *log; (log = ids_next(&engine->loaded_logs, 0, &block));) {
        ids_remove(&engine->loaded_logs, block);
        log_unref(log);
    }
    ids_free(&engine->loaded_logs);
}
