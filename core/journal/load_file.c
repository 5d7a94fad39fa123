/*
 * What an open file remembers, read again when the PMCs are there.
 */
#include "core/engine.h"

#include "core/journal/load_state.h"
#include "core/pmc/instance.h"
#include "core/read/reader_state.h"
#include "core/show/series.h"

#include <stdlib.h>
#include <string.h>

static bool load_file(struct loading *load)
{
    struct held held = {.rights = NULL};
    bool fine = saved_scan(&saved_open_file, load->open, &load->line) &&
                saved_scan(&saved_held, &held, &load->line);

    return held_take(&held, &load->open->rights) && fine;
}

static bool load_series(struct loading *load)
{
    struct open_file *open = load->open;

    if (open->series || !(open->series = calloc(1, sizeof *open->series)))
        return false;
    open->remembers = sizeof *open->series;
    return saved_scan(&saved_series, open->series, &load->line);
}

/* ---- a reader of a log ---- */

static const struct log_form *form_named(const char *name)
{
    static const struct log_form *const forms[] = {&form_text, &form_perf};

    for (size_t i = 0; name && i < sizeof forms / sizeof forms[0]; i++)
        if (strcmp(forms[i]->name, name) == 0)
            return forms[i];
    return NULL;
}

/* It was granted once: to the user of a PMC that is released. */
static void log_charge_again(struct engine *engine, uid_t uid, struct log *log)
{
    struct user *user = user_get(engine, uid, NULL);

    if (user)
        user_add(user, USED_BYTES, (int64_t)log_set_charge(log, user_charge_log, user));
    user_unref(user);
}

static bool place_load(struct loading *load, struct log_reader *reader,
                       const struct reader_place *place)
{
    bool fresh;
    struct log *log = place->log ? load_log(load->engine, place->log, &fresh) : NULL;

    if (!log) /* it is gone with what it had */
        return true;
    if (fresh)
        log_charge_again(load->engine, reader->uid, log);
    reader->cursor = log_cursor_adopt(log, &place->mark);
    log_unref(log);
    return reader->cursor;
}

/* What its first line says, of a PMC that is there as that says it. */
static bool reader_know(struct loading *load, struct log_reader *reader)
{
    const struct pmc *pmc = ids_find(&load->engine->pmcs, reader->pmc);

    if (pmc && !log_reader_learn(reader, pmc))
        return false;
    if (pmc && pmc->sets)
        reader->facts.sets = log_sets_ref(pmc->sets);
    return true;
}

static bool load_reader(struct loading *load)
{
    struct reader_place place = {.form = NULL};
    struct log_reader *reader = NULL;

    if (!load->open->reader && saved_scan(&saved_reader_place, &place, &load->line) &&
        form_named(place.form))
        reader = load->open->reader = log_reader_new(load->engine, form_named(place.form), 0);
    free(place.form);
    if (!reader || !saved_scan(&saved_reader, reader, &load->line) || !reader_know(load, reader) ||
        !place_load(load, reader, &place))
        return false;
    load->open->remembers = log_reader_bytes(reader);
    return true;
}

static bool sets_load(struct loading *load)
{
    struct log_reader *reader = load->open->reader;
    struct log_sets *sets;
    bool fine = load_sets_end(load, &sets);

    if (reader && !reader->facts.sets)
        reader->facts.sets = sets;
    else
        log_sets_unref(sets);
    return fine;
}

bool open_file_load(struct open_file *open, const char *text, size_t len, struct engine *engine)
{
    static const struct load_line lines[] = {{"file", load_file},
                                             {"reader", load_reader},
                                             {"series", load_series},
                                             {"sampled", load_sampled},
                                             {NULL, NULL}};
    struct loading load = {.engine = engine, .open = open};
    bool fine = load_lines(&load, lines, text, len);

    return sets_load(&load) && fine && open_file_again(engine, open);
}
