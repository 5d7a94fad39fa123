/*
 * An open log for a later worker: "FORM pmc headed closed SETS PLACE"; PLACE is "-", a cursor, or,
 * of a PMC that was released, "rest CURSOR NAME CLASS EVENT MONOTONIC REALTIME TSC" and its log.
 */
#include "core/reader_state.h"

#include "core/hex.h"
#include "core/pmc.h"
#include "core/rests.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct log_form *const forms[] = {&form_text, &form_perf};

static void text_print(struct buf *out, const char *text)
{
    buf_char(out, ' ');
    hex_print(out, text, strlen(text));
}

static void reader_rest_print(const struct log_reader *reader, struct buf *out)
{
    buf_str(out, "rest ");
    log_cursor_print(reader->cursor, out);
    text_print(out, reader->name);
    text_print(out, reader->class);
    text_print(out, reader->event);
    buf_printf(out, " %" PRIu64 " %" PRIu64 " %" PRIu64 " ", reader->facts.monotonic_ns,
               reader->facts.realtime_ns, reader->facts.tsc);
    rest_print(reader->engine, reader->pmc, reader->uid, reader->cursor->log, reader->sets, out);
}

void log_reader_print(const struct log_reader *reader, struct buf *out)
{
    bool ends = !ids_find(&reader->engine->pmcs, reader->pmc);

    buf_printf(out, "%s %" PRIu64 " %d %d ", reader->form->name, reader->pmc, reader->headed,
               reader->closed);
    buf_u64(out, reader->told_sets);
    buf_char(out, ' ');
    if (!reader->cursor || (ends && (!reader->told || !log_ready(reader->cursor))))
        buf_char(out, '-');
    else if (ends)
        reader_rest_print(reader, out);
    else
        log_cursor_print(reader->cursor, out);
}

static const struct log_form *form_named(const char *name)
{
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (strcmp(forms[i]->name, name) == 0)
            return forms[i];
    return NULL;
}

/* On the heap; NULL: not a text, or no memory. */
static char *text_scan(struct scan *scan)
{
    struct word word;
    size_t len;
    char *text = scan_word(scan, &word) && hex_len(word, &len) ? calloc(len + 1, 1) : NULL;

    if (text && hex_scan(word, text))
        return text;
    free(text);
    return NULL;
}

static bool reader_rest_scan(struct log_reader *reader, const char *text)
{
    struct log_facts *facts = &reader->facts;
    struct scan scan;
    struct word cursor;
    struct log *log;

    scan_init(&scan, text, strlen(text));
    if (!scan_word(&scan, &cursor) || !(reader->name = text_scan(&scan)) ||
        !(reader->class = text_scan(&scan)) || !(reader->event = text_scan(&scan)) ||
        !scan_u64(&scan, UINT64_MAX, &facts->monotonic_ns) ||
        !scan_u64(&scan, UINT64_MAX, &facts->realtime_ns) ||
        !scan_u64(&scan, UINT64_MAX, &facts->tsc) || scan.p == scan.end ||
        !rest_scan(reader->engine, reader->pmc, scan.p + 1, &log, &reader->sets))
        return false;
    log_reader_tell(reader);
    char *place = word_dup(cursor);
    reader->cursor = place ? log_cursor_scan(log, place) : NULL;
    free(place);
    log_unref(log);
    return reader->cursor;
}

/* Is it one, as far as there is something to read? The PMC may be released before the next read. */
static bool reader_place_scan(struct log_reader *reader, const char *text)
{
    const struct pmc *pmc = ids_find(&reader->engine->pmcs, reader->pmc);

    if (pmc && !log_reader_learn(reader, pmc))
        return false;
    if (pmc && pmc->sets)
        reader->sets = log_sets_ref(pmc->sets);
    if (strcmp(text, "-") == 0)
        return true;
    if (strncmp(text, "rest ", 5) == 0)
        return reader_rest_scan(reader, text + 5);
    if (!pmc || !pmc->log)
        return true;
    reader->cursor = log_cursor_scan(pmc->log, text);
    return reader->cursor;
}

struct log_reader *log_reader_scan(const char *text, struct engine *engine)
{
    char name[16];
    uint64_t id, told;
    int headed, closed, used = 0;
    const struct log_form *form;
    struct log_reader *reader = NULL;

    if (sscanf(text, "%15s %" SCNu64 " %d %d %" SCNu64 " %n", name, &id, &headed, &closed, &told,
               &used) == 5 &&
        used && (form = form_named(name)))
        reader = log_reader_new(engine, form, id);
    if (!reader)
        return NULL;
    reader->headed = headed;
    reader->told_sets = told;
    reader->closed = closed;
    if (reader_place_scan(reader, text + used))
        return reader;
    log_reader_free(reader);
    return NULL;
}
