/*
 * The files of admin/: tunables, the probe for foreign slots, enabling and disabling of slots; and
 * admin/instances/NAME: the limits of an instance, and its release.
 */
#include "core/engine.h"
#include "core/pmc/pmc.h"

#include <errno.h>
#include <string.h>

/* Finds the only word of the text. Returns 0, E39 if the requester is not the superuser, P05 for no
 * word, or `several`. what: "instances", for the sentence. */
static int admin_scan(struct call *call, const char *what, enum err_id several, struct word *word)
{
    if (access_superuser(call->rights))
        return scan_only(call->text, call->len, several, word, &call->err);
    return err_set(
        &call->err, E39,
        "only the superuser (CAP_PERFMON or CAP_SYS_ADMIN in the initial user namespace) may "
        "administer %s%s",
        what,
        call->tid ? ""
                  : "; pmcfs cannot check your rights, because it cannot see your PID namespace");
}

/* ---- tunables ---- */

int show_tunable(struct call *call)
{
    tunable_print(&call->engine->tunables, (enum tunable)call->object, call->out);
    buf_char(call->out, '\n');
    return CALL_DONE;
}

int store_tunable(struct call *call)
{
    enum tunable which = (enum tunable)call->object;
    struct word word;
    int rc = admin_scan(call, "rows and tunables", P27, &word);

    if (rc == 0)
        rc = tunable_set(&call->engine->tunables, which, word, false, &call->err);
    if (rc == 0)
        engine_touch(call->engine, JOURNAL_ENGINE, 0);
    if (rc == 0 && which == TUNABLE_STRICT_ROWS)
        rows_set_strict(call->engine->rows, tunable_bool(&call->engine->tunables, which));
    return rc;
}

/*
 * ---- foreign slots ----
 *
 * Slots that other programs hold, which no PMC gets. A probe cannot distinguish pmcfs's counters
 * from others', so the rows of pmcfs are subtracted.
 */

/* Returns the rows that PMCs may hold on this CPU. Rows of process PMCs are included, because their
 * tasks may run there at any time. */
static uint64_t own_rows(const struct engine *engine, unsigned cpu, unsigned class_index)
{
    struct slot_view slot;
    uint64_t own = 0;

    for (unsigned row = 0; row < engine->classes[class_index].rows && row < ROWS_MAX; row++) {
        rows_view(engine->rows, 0, cpu, class_index, row, &slot);
        if (slot.disposition != ROW_FREE && slot.users > 0)
            own |= UINT64_C(1) << row;
    }
    return own;
}

/* Probes every online CPU, and sets the foreign rows. If the PMCs on a CPU changed during its
 * probe, the result is dropped. Returns 0 or CALL_WAIT. */
static int foreign_probe(struct call *call)
{
    const struct engine *engine = call->engine;

    if (!engine->backend->foreign_rows)
        return CALL_DONE;
    const int rc = slow_admit(call);
    if (rc)
        return rc;
    for (int c = cpus_next(&engine->online, 0); c >= 0; c = cpus_next(&engine->online, c + 1))
        for (unsigned i = 0; i < engine->n_classes; i++) {
            if (!engine->classes[i].rows)
                continue;
            const uint64_t own = own_rows(engine, (unsigned)c, i);
            lock_drop(call, true);
            uint64_t foreign =
                engine->backend->foreign_rows(engine->backend_state, i, (unsigned)c, own);
            lock_retake(call);
            if (own_rows(engine, (unsigned)c, i) == own)
                rows_set_foreign(engine->rows, (unsigned)c, i, foreign);
        }
    return CALL_DONE;
}

void engine_probe(struct engine *engine)
{
    struct call call = {.engine = engine, .instance = engine->root};

    foreign_probe(&call);
}

/* Shows the number of slots that others held at the last probe. */
int show_probe(struct call *call)
{
    const struct engine *engine = call->engine;
    unsigned n = 0;

    for (int c = cpus_next(&engine->possible, 0); c >= 0; c = cpus_next(&engine->possible, c + 1))
        for (unsigned i = 0; i < engine->n_classes; i++)
            for (unsigned row = 0; row < engine->classes[i].rows; row++)
                n += rows_slot(engine->rows, (unsigned)c, i, row) == SLOT_FOREIGN;
    buf_u64(call->out, n);
    buf_char(call->out, '\n');
    return CALL_DONE;
}

int store_probe(struct call *call)
{
    struct word word;
    int rc = admin_scan(call, "rows and tunables", P27, &word);

    if (rc)
        return rc;
    if (!word_is(word, "1"))
        return err_set(&call->err, P27,
                       "\"" WORD_FMT "\": the only command is 1, which probes the PMUs again",
                       WORD_ARG(word));
    return foreign_probe(call);
}

/* ---- slots ---- */

/* Finds the slot of the file from call->object: CPU << 16 and a row number that counts through all
 * classes. Returns 0, E34 if the CPU is offline, or -ENOENT. */
static int slot_find(struct call *call, unsigned *cpu, unsigned *class_index, unsigned *row)
{
    const struct engine *engine = call->engine;

    *cpu = (unsigned)(call->object >> 16);
    *row = (unsigned)(call->object & 0xffff);
    for (*class_index = 0; *class_index < engine->n_classes; ++*class_index) {
        if (*row < engine->classes[*class_index].rows)
            return cpus_has(&engine->online, *cpu)
                       ? 0
                       : err_set(&call->err, E34,
                                 "CPU %u is offline, so its rows have no state to read or change: "
                                 "see info/cpus",
                                 *cpu);
        *row -= engine->classes[*class_index].rows;
    }
    return -ENOENT;
}

int show_slot(struct call *call)
{
    unsigned cpu, class_index, row;
    int rc = slot_find(call, &cpu, &class_index, &row);

    if (rc)
        return rc;
    bool disabled = rows_slot(call->engine->rows, cpu, class_index, row) == SLOT_DISABLED;
    buf_str(call->out, disabled ? "disabled\n" : "enabled\n");
    return CALL_DONE;
}

int store_slot(struct call *call)
{
    unsigned cpu = 0, class_index = 0, row = 0;
    struct word word;
    int rc = access_superuser(call->rights) ? slot_find(call, &cpu, &class_index, &row) : 0;

    if (rc == 0)
        rc = admin_scan(call, "rows and tunables", E17, &word);
    if (rc)
        return rc;
    engine_touch(call->engine, JOURNAL_ENGINE, 0);
    if (word_is(word, "disabled"))
        return rows_set_disabled(call->engine->rows, cpu, class_index, row, true, &call->err);
    if (word_is(word, "enabled"))
        return rows_set_disabled(call->engine->rows, cpu, class_index, row, false, &call->err);
    return err_set(&call->err, E17,
                   "\"" WORD_FMT "\" is not a valid state: write enabled or disabled",
                   WORD_ARG(word));
}

/* ---- instances ---- */

static int refuse_gone(struct call *call)
{
    return err_set(&call->err, P26, "the instance was removed");
}

/* Returns the limit of the file, or LIMITS. */
static int limit_of_file(const struct call *call)
{
    int i = 0;

    while (i < LIMITS && strcmp(limit_table[i].name, call->file) != 0)
        i++;
    return i;
}

int show_limit(struct call *call)
{
    const struct instance *instance = engine_instance(call->engine, call->object);
    int limit = limit_of_file(call);

    if (!instance || limit == LIMITS)
        return refuse_gone(call);
    if (limit_table[limit].words[0])
        buf_str(call->out, limit_table[limit].words[instance->limit[limit]]);
    else
        buf_u64(call->out, instance->limit[limit]);
    buf_char(call->out, '\n');
    return CALL_DONE;
}

int store_limit(struct call *call)
{
    struct instance *instance = engine_instance(call->engine, call->object);
    int limit = limit_of_file(call);
    struct word word;
    uint64_t value;
    int rc =
        instance && limit < LIMITS ? admin_scan(call, "instances", P27, &word) : refuse_gone(call);

    if (rc == 0)
        rc = limit_read((enum limit)limit, word, &value, &call->err);
    if (rc)
        return rc;
    instance_set_limit(instance, (enum limit)limit, value);
    instance_touch(instance);
    if (limit == LIMIT_LIFETIME && !value) /* mount: it no longer ends with a process */
        instance_clear_holder(instance);
    return CALL_DONE;
}

int show_instance_ctl(struct call *call)
{
    if (!engine_instance(call->engine, call->object))
        return refuse_gone(call);
    buf_str(call->out, "active\n");
    return CALL_DONE;
}

int store_instance_ctl(struct call *call)
{
    struct instance *instance = engine_instance(call->engine, call->object);
    struct word word;
    int rc = instance ? admin_scan(call, "instances", X17, &word) : refuse_gone(call);

    if (rc)
        return rc;
    if (!word_is(word, "release"))
        return err_set(&call->err, X17,
                       "\"" WORD_FMT "\" is not a valid command: the only one is release, which "
                       "releases the PMCs of the instance and removes it",
                       WORD_ARG(word));
    instance_release(instance, true);
    return CALL_DONE;
}
