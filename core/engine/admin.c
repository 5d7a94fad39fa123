/*
 * The files of admin/: tunables, the probe for foreign slots, enabling and disabling of slots.
 */
#include "core/engine/admin.h"

#include "core/engine/foreign.h"
#include "core/files.h"
#include "core/pmc/access.h"
#include "core/pmc/parts.h"

#include <errno.h>

int show_tunable(struct call *call)
{
    tunable_print(&call->engine->tunables, (enum tunable)call->index, call->out);
    buf_char(call->out, '\n');
    return CALL_DONE;
}

int admin_may(struct call *call, const char *what)
{
    if (access_superuser(call->rights))
        return 0;
    return err_set(
        &call->err, E39,
        "only the superuser (CAP_PERFMON or CAP_SYS_ADMIN in the initial user namespace) may "
        "administer %s%s",
        what,
        call->tid ? ""
                  : "; pmcfs cannot check your rights, because it cannot see your PID namespace");
}

int store_tunable(struct call *call)
{
    enum tunable which = (enum tunable)call->index;
    struct word word;
    int rc = admin_may(call, "rows and tunables");

    if (rc == 0)
        rc = scan_only(call->text, call->len, P27, &word, &call->err);
    if (rc == 0)
        rc = tunable_set(&call->engine->tunables, which, word, false, &call->err);
    engine_touch(call->engine, JOURNAL_ENGINE, 0);
    if (rc == 0 && which == TUNABLE_STRICT_ROWS)
        rows_set_strict(call->engine->rows, tunable_bool(&call->engine->tunables, which));
    return rc;
}

/* Shows the number of slots that others held at the last probe. */
int show_probe(struct call *call)
{
    buf_u64(call->out, foreign_slots(call->engine));
    buf_char(call->out, '\n');
    return CALL_DONE;
}

int store_probe(struct call *call)
{
    struct word word;
    int rc = admin_may(call, "rows and tunables");

    if (rc == 0)
        rc = scan_only(call->text, call->len, P27, &word, &call->err);
    if (rc)
        return rc;
    if (!word_is(word, "1"))
        return err_set(&call->err, P27,
                       "\"" WORD_FMT "\": the only command is 1, which probes the PMUs again",
                       WORD_ARG(word));
    return foreign_probe(call);
}

/* Converts the file's number, which counts through all classes with rows. */
static bool slot_of(const struct call *call, unsigned *cpu, unsigned *class_index, unsigned *row)
{
    unsigned number = (unsigned)(call->index & 0xffff);

    *cpu = (unsigned)(call->index >> 16);
    for (unsigned i = 0; i < call->engine->n_classes; i++) {
        if (number < call->engine->classes[i].rows) {
            *class_index = i;
            *row = number;
            return true;
        }
        number -= call->engine->classes[i].rows;
    }
    return false;
}

/* Finds the slot of the file. Refuses if its CPU is offline. */
static int slot_find(struct call *call, unsigned *cpu, unsigned *class_index, unsigned *row)
{
    if (!slot_of(call, cpu, class_index, row))
        return -ENOENT;
    return cpus_has(&call->engine->online, *cpu)
               ? 0
               : err_set(&call->err, E34, "CPU %u is offline", *cpu);
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
    unsigned cpu, class_index, row;
    struct word word;
    int rc = admin_may(call, "rows and tunables");

    if (rc == 0)
        rc = slot_find(call, &cpu, &class_index, &row);
    if (rc == 0)
        rc = scan_only(call->text, call->len, E17, &word, &call->err);
    if (rc)
        return rc;
    engine_touch(call->engine, JOURNAL_ENGINE, 0);
    if (word_is(word, "disabled"))
        return rows_disable(call->engine->rows, cpu, class_index, row, &call->err);
    if (word_is(word, "enabled"))
        return rows_enable(call->engine->rows, cpu, class_index, row, &call->err);
    return err_set(&call->err, E17,
                   "\"" WORD_FMT "\" is not a valid state: write enabled or disabled",
                   WORD_ARG(word));
}
