/*
 * Writes the records of objects that changed while the lock was held before it is dropped, so that
 * a later worker finds a change completely or not at all.
 */
#include "core/journal/load.h"

#include <stdlib.h>
#include <string.h>

/*
 * ---- the set of objects that changed ----
 *
 * A set of ids, because the record of a freed object must be deleted.
 */

enum {
    TABLE_MIN = 64 /* a power of two */
};

/* Returns the entry of the object, or the empty entry for it. The table is never full. */
static uint32_t *table_entry(const struct touches *touches, enum journal_kind kind, uint64_t id)
{
    const size_t mask = touches->table_size - 1;
    size_t at = (size_t)((id * 8 + kind) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & mask;

    for (;; at = (at + 1) & mask) {
        const uint32_t used = touches->table[at];

        if (!used || (touches->items[used - 1].kind == kind && touches->items[used - 1].id == id))
            return &touches->table[at];
    }
}

/* Doubles the table. Returns false on ENOMEM without a change. */
static bool touches_grow(struct touches *touches)
{
    const size_t n = touches->table_size ? 2 * touches->table_size : TABLE_MIN;
    struct touched *items = realloc(touches->items, n / 2 * sizeof *items);
    uint32_t *table = items ? calloc(n, sizeof *table) : NULL;

    if (items)
        touches->items = items;
    if (!table)
        return false;
    free(touches->table);
    touches->table = table;
    touches->table_size = n;
    for (size_t i = 0; i < touches->n; i++)
        *table_entry(touches, items[i].kind, items[i].id) = (uint32_t)(i + 1);
    return true;
}

void engine_touch(struct engine *engine, enum journal_kind kind, uint64_t id)
{
    struct touches *touches = &engine->touched;

    engine->tree_changes += kind == JOURNAL_PMC || kind == JOURNAL_INSTANCE;
    if (!engine->journal || engine->touch_failed)
        return; /* a full snapshot follows */
    if (2 * touches->n == touches->table_size && !touches_grow(touches)) {
        engine->touch_failed = true;
        return;
    }
    uint32_t *entry = table_entry(touches, kind, id);
    if (*entry)
        return;
    touches->items[touches->n++] = (struct touched){kind, id};
    *entry = (uint32_t)touches->n;
}

void engine_touched_clear(struct engine *engine)
{
    struct touches *touches = &engine->touched;

    /* In reverse order, because a later item never displaced an earlier one. */
    for (; touches->n; touches->n--)
        *table_entry(touches, touches->items[touches->n - 1].kind,
                     touches->items[touches->n - 1].id) = 0;
}

/* ---- writing ---- */

/* The first write is a full snapshot, in this program's format. */
void engine_set_journal(struct engine *engine, struct journal *journal)
{
    engine->journal = journal;
    engine->touch_failed = true;
}

static void write_record(struct engine *engine, enum journal_kind kind, uint64_t id)
{
    char room[4096];
    struct buf text = buf_in(room, sizeof room);

    object_print(engine, kind, id, &text);
    if (text.failed || !journal_put(engine->journal, kind, id, text.data, text.len))
        engine->touch_failed = true; /* the next write is a full snapshot */
    buf_free(&text);
}

static void write_errors(struct engine *engine, const struct instance *instance)
{
    for (size_t i = 0; i < instance->n_errors; i++)
        write_record(engine, JOURNAL_ERROR, instance->id << 32 | instance->errors[i].uid);
}

static void write_each(struct engine *engine, enum journal_kind kind, struct ids *ids)
{
    uint64_t id = 0;

    while (ids_next(ids, id, &id))
        write_record(engine, kind, id);
}

/* Writes a full snapshot: at the start, and after a record did not fit. */
static void write_snapshot(struct engine *engine)
{
    uint64_t id = 0;

    engine->touch_failed = false;
    journal_start_snapshot(engine->journal);
    write_record(engine, JOURNAL_ENGINE, 0);
    write_each(engine, JOURNAL_PROCESS, &engine->procs);
    write_each(engine, JOURNAL_INSTANCE, &engine->instances);
    write_each(engine, JOURNAL_RIGHTS, &engine->rights);
    write_each(engine, JOURNAL_PMC, &engine->pmcs);
    write_errors(engine, engine->root);
    for (struct instance *instance; (instance = ids_next(&engine->instances, id, &id));)
        write_errors(engine, instance);
}

bool engine_write_records(struct engine *engine)
{
    const bool snapshot = engine->touch_failed;

    engine->request = 0;
    if (!engine->journal)
        return false;
    if (snapshot)
        write_snapshot(engine);
    for (size_t i = 0; !snapshot && i < engine->touched.n; i++)
        write_record(engine, engine->touched.items[i].kind, engine->touched.items[i].id);
    engine_touched_clear(engine);
    return snapshot;
}

bool engine_publish(struct engine *engine, bool fine, bool answered)
{
    engine->touch_failed |= !fine;
    if (engine->journal && engine->touch_failed)
        return false;
    if (engine->journal && (answered || journal_has_more(engine->journal)))
        journal_publish(engine->journal);
    rights_free_unused(engine);
    return true;
}

bool engine_has_unwritten(const struct engine *engine)
{
    return engine->journal &&
           (engine->touched.n || engine->touch_failed || journal_has_more(engine->journal));
}

/* ---- check: compares records with their objects ---- */

struct check {
    struct engine *engine;
    struct err *err;
};

static bool check_record(void *arg, const struct journal_record *record)
{
    const struct check *check = arg;
    const size_t len = journal_text_len(record);
    struct buf now = {0};
    size_t i = 0;

    object_print(check->engine, record->kind, record->id, &now);
    const char *text = buf_text(&now);
    while (i < len && text[i] == record->text[i])
        i++;
    bool same = i == len && now.len == len;
    if (!same) {
        i -= i < 60 ? i : 60; /* show some text before the difference as well */
        err_set(check->err, P14,
                "kind %u, %llu differs from its record (report this bug of pmcfs): %.*s --- %.120s",
                record->kind, (unsigned long long)record->id, (int)(len - i < 120 ? len - i : 120),
                record->text + i, text + i);
    }
    buf_free(&now);
    return same;
}

bool engine_check(struct engine *engine, struct err *err)
{
    struct check check = {engine, err};

    /* Other records contain statistics, which are written once a second or with the next change. */
    return !engine->journal ||
           (journal_each(engine->journal, JOURNAL_PROCESS, check_record, &check) &&
            journal_each(engine->journal, JOURNAL_RIGHTS, check_record, &check) &&
            journal_each(engine->journal, JOURNAL_PMC, check_record, &check));
}
