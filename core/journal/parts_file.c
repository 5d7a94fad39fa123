/*
 * Journal records of open files, which are loaded after the PMCs, and of the rights of open files
 * and targets.
 */
#include "core/journal/load.h"

#include "core/base/arena.h"
#include "core/read/reader.h"
#include "core/show/series.h"

#include <stdlib.h>
#include <string.h>

/* ---- rights, of open files and targets ---- */

bool rights_io(struct io *io, void *member)
{
    struct rights **rights = member;
    uint64_t id = *rights ? (*rights)->id : 0;
    bool fine = numbers_io(io, &id, sizeof id, 1);

    if (!io->out && fine && !*rights)
        *rights = rights_ref(ids_find(&io->engine->rights, id));
    return fine && (io->out || *rights);
}

static bool groups_io(struct io *io, void *object)
{
    struct rights *rights = object;

    if (!io->out && !rights->groups)
        rights->groups = calloc(rights->n_groups + 1, sizeof *rights->groups);
    return rights->groups ? numbers_io(io, rights->groups, sizeof *rights->groups, rights->n_groups)
                          : io->out != NULL;
}

/* Prints or loads the charged user, as uid + 1 and instance. Not charged: nothing is printed. */
static bool user_io(struct io *io, void *object)
{
    struct rights *rights = object;
    const struct user *user = rights->user;
    uint64_t who[2] = {user ? user->uid + UINT64_C(1) : 0, user ? user->instance : 0};

    if (!numbers_io(io, who, sizeof *who, 2) || io->out)
        return io->out != NULL;
    const struct instance *instance = engine_instance(io->engine, who[1]);
    user_unref(rights->user);
    rights->user = user_get(io->engine, (uid_t)(who[0] - 1), instance ? instance->account : NULL);
    return rights->user;
}

static void *rights_begin(struct loading *load)
{
    return load->rights = calloc(1, sizeof *load->rights);
}

/* groups_io() prints nothing if all groups are 0, so the array may be missing here. */
static bool rights_end(struct loading *load, bool fine)
{
    struct rights *rights = load->rights;

    rights->id = load->id;
    if (rights->userns_fd >= 0)
        fd_keep(rights->userns_fd);
    if (!rights->groups)
        rights->groups = calloc(rights->n_groups + 1, sizeof *rights->groups);
    fine = fine && rights->id && rights->groups && !ids_find(&load->engine->rights, rights->id) &&
           rights_add(load->engine, rights);
    if (!fine) {
        user_unref(rights->user);
        rights->userns_fd = -1;
        rights_free(rights);
    }
    return fine;
}

#define RANGES(member) FIELD_AS(struct rights, member, sizeof(uint32_t), 2 * MAPPED_MAX, 0, 0)

static const struct field rights_fields[] = {
    FIELD(struct rights, uid),
    FIELD(struct rights, payer),
    FIELD(struct rights, gid),
    FIELD(struct rights, capabilities),
    FLAG(struct rights, superuser),
    OR_NONE(struct rights, userns_fd),
    FIELD(struct rights, userns),
    RANGES(uids),
    RANGES(gids),
    OTHER(user),
    BELOW(struct rights, n_groups, UINT16_MAX + 2),
    OTHER(groups),
};
static const struct part part_rights = PART(rights, rights_begin, rights_end);

static void rights_print(struct engine *engine, uint64_t id, struct buf *out)
{
    struct rights *rights = ids_find(&engine->rights, id);

    if (rights)
        part_print(&part_rights, engine, rights, out);
}

static const struct part *const rights_parts[] = {&part_rights, NULL};
const struct kind kind_rights = {rights_parts, rights_print, NULL};

/* ---- the open file ---- */

static const struct field file_fields[] = {
    FLAG(struct open_file, cut),
    FLAG(struct open_file, has_commands),
    NAMED("began", struct open_file, started_set, 0),
    {.name = "swap", .offset = offsetof(struct open_file, old_count), .kind = FIELD_TEXT},
    FIELD(struct open_file, holds),
    FIELD(struct open_file, payer_uid),
    FIELD(struct open_file, instance),
    FLAG(struct open_file, has_seen),
    FIELD(struct open_file, seen_change),
    FIELD(struct open_file, seen_count),
    FIELD(struct open_file, seen_resets),
    OTHER_OF(rights, struct open_file, rights),
    FIELD(struct open_file, opener.key),
    FIELD(struct open_file, opener.program_dev),
    FIELD(struct open_file, opener.program_ino),
};
static const struct part part_file = PART_OF(open, file, NULL);

static void *series_begin(struct loading *load)
{
    struct open_file *open = load->open;

    open->remembers = sizeof *open->series;
    return open->series ? NULL : (open->series = calloc(1, sizeof *open->series));
}

static const struct field series_fields[] = {
    FLAG(struct series_cursor, begun),           FLAG(struct series_cursor, ended),
    FIELD(struct series_cursor, pmc_start),      FIELD(struct series_cursor, resets),
    FIELD(struct series_cursor, due_ns),         FIELD(struct series_cursor, elapsed_ns),
    BELOW(struct series_cursor, n, SET_MAX + 1), ARRAY(struct series_cursor, last),
    FLAG(struct series_cursor, realtime),
};
static const struct part part_series = PART(series, series_begin, NULL);

/* ---- a reader of a log ---- */

static const struct log_form *const forms[] = {&form_text, &form_perf};

static bool form_io(struct io *io, void *object)
{
    struct log_reader *reader = object;
    const struct log_form *found = NULL;

    if (io->out) {
        buf_str(io->out, reader->form->name);
        return true;
    }
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (strcmp(io->text, forms[i]->name) == 0)
            found = forms[i];
    reader->form = found ? found : reader->form;
    return found;
}

static void *reader_begin(struct loading *load)
{
    struct open_file *open = load->open;

    return open->reader ? NULL : (open->reader = log_reader_new(load->engine, forms[0], 0));
}

/* Completes the facts for the reader's first line. */
static bool reader_end(struct loading *load, bool fine)
{
    struct log_reader *reader = load->open->reader;
    const struct pmc *pmc = ids_find(&load->engine->pmcs, reader->pmc);

    if (!fine || (pmc && !log_reader_update_facts(reader, pmc)))
        return false;
    if (pmc && pmc->sets)
        reader->facts.sets = log_sets_ref(pmc->sets);
    if (!reader->facts.event) /* empty strings are not printed */
        reader->facts.event = strdup("");
    return reader->facts.event;
}

static const struct field reader_fields[] = {
    OTHER(form),
    FIELD(struct log_reader, pmc),
    FIELD(struct log_reader, uid),
    FLAG(struct log_reader, headed),
    FLAG(struct log_reader, closed),
    NAMED("told_sets", struct log_reader, form_state, 0),
    TEXT(struct log_reader, facts.class),
    TEXT(struct log_reader, facts.event),
    FIELD(struct log_reader, facts.monotonic_ns),
    FIELD(struct log_reader, facts.realtime_ns),
    FIELD(struct log_reader, facts.tsc),
};
static const struct part part_reader = PART(reader, reader_begin, reader_end);

/* ---- the position of a reader ---- */

static void *place_begin(struct loading *load)
{
    return load->open->reader && !load->open->reader->cursor ? &load->position : NULL;
}

/* Attaches the reader to its log, unless the log is gone. */
static bool place_end(struct loading *load, bool fine)
{
    struct engine *engine = load->engine;
    struct log_reader *reader = load->open->reader;
    const struct pmc *pmc = ids_find(&engine->pmcs, reader->pmc);
    struct log *log = NULL;

    if (fine && pmc && pmc->log && log_block(pmc->log) == load->position.log)
        log = log_ref(pmc->log);
    else if (fine)
        fine = load_log(engine, load->position.log, &log);
    if (!log)
        return fine;
    if (!pmc) { /* charged to the user of the released PMC, without checking the limit */
        struct user *user = user_get(engine, reader->uid, NULL);

        if (user)
            user_charge_unchecked(user, USED_BYTES,
                                  (int64_t)log_set_charge(log, user_charge_log, user));
        user_unref(user);
    }
    reader->cursor = log_cursor_adopt(log, &load->position.mark);
    log_unref(log);
    return reader->cursor;
}

static const struct field place_fields[] = {
    FIELD(struct saved_position, log),
    FIELD(struct saved_position, mark.next),
    FLAG(struct saved_position, mark.begun),
    FIELD(struct saved_position, mark.first),
    FIELD(struct saved_position, mark.missed),
    FIELD(struct saved_position, mark.before.others),
    FIELD(struct saved_position, mark.before.drops),
    ARRAY(struct saved_position, mark.before.lost),
};
static const struct part part_place = PART(place, place_begin, place_end);

/* ---- the record ---- */

/* The names of the events of a reader are included, because the log of a released PMC stays with
 * its readers. */
void open_file_print(struct open_file *open, struct buf *out)
{
    struct log_reader *reader = open->reader;
    struct saved_position position;

    part_print(&part_file, NULL, open, out);
    if (reader)
        part_print(&part_reader, reader->engine, reader, out);
    if (reader && reader->cursor &&
        (ids_find(&reader->engine->pmcs, reader->pmc) ||
         (reader->facts.class && log_ready(reader->cursor)))) {
        position.log = log_block(reader->cursor->log);
        log_cursor_mark(reader->cursor, &position.mark);
        part_print(&part_place, reader->engine, &position, out);
    }
    if (reader)
        sampled_print(reader->engine, reader->facts.sets, out);
    if (open->series)
        part_print(&part_series, NULL, open->series, out);
}

static bool file_done(struct loading *load, bool fine)
{
    struct log_reader *reader = load->open->reader;

    if (reader)
        load->open->remembers = log_reader_bytes(reader);
    return fine && (!reader || reader->facts.sets || load_sets_end(load, &reader->facts.sets)) &&
           open_file_recharge(load->engine, load->open);
}

bool open_file_load(struct open_file *open, const char *text, size_t len, struct engine *engine)
{
    static const struct part *const parts[] = {
        &part_file, &part_reader, &part_place, &part_sampled, &part_series, NULL,
    };
    static const struct kind kind = {parts, NULL, file_done};
    struct loading load = {.engine = engine, .open = open};

    return load_text(&load, &kind, text, len);
}
