/*
 * From a spelling to an event, and the lists of events/.
 */
#include "backends/sim/events.h"

#include "backends/sim/counter.h"
#include "backends/sim/sim.h"
#include "backends/sim/spelling.h"
#include "backends/sim/table.h"
#include "core/rows/match.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GENERIC "generic"
#define PREFIX  "PAPI_"

/* rHEX: as many events a millisecond as the number says. */
static const struct sim_event raw_event = {
    "raw", NULL, FIT_GENERAL, 1, 0, EVENT_PROCESS | EVENT_CPU, true, false, "", 1, "a raw number"};

void events_weigh(struct shape *shape)
{
    for (unsigned c = 0; c < shape->n_classes; c++)
        for (unsigned row = 0; row < shape->classes[c].rows; row++)
            for (unsigned i = 0; i < sim_events_n; i++)
                shape->row_events[c][row] += table_counts(shape, c, &sim_events[i]) &&
                                             (table_fits(shape, c, &sim_events[i]) >> row & 1) != 0;
}

/* ---- finding ---- */

struct found {
    const struct sim_event *event;
    unsigned class_index;
    uint64_t raw;
};

/* A generic name with its prefix and without. */
static bool name_is(const struct sim_event *event, struct word name)
{
    return word_alike(name, event->name, true) ||
           (event->generic != NULL && (word_alike(name, event->generic, true) ||
                                       word_alike(name, event->generic + strlen(PREFIX), true)));
}

static bool raw_read(struct word name, uint64_t *raw)
{
    char digits[20] = "0x";
    struct word hex = {digits, name.len + 1};

    if (name.len < 2 || name.len > 17 || (name.p[0] != 'r' && name.p[0] != 'R'))
        return false;
    memcpy(digits + 2, name.p + 1, name.len - 1);
    return word_u64(hex, true, 0, UINT64_MAX, raw);
}

static int class_unknown(const struct shape *shape, struct word name, struct err *err)
{
    struct near near;

    near_init(&near, name);
    for (unsigned c = 0; c < shape->n_classes; c++)
        near_offer(&near, shape->names[c]);
    return err_set(err, X06,
                   "no class \"" WORD_FMT "\" on this simulated machine%s; info/classes "
                   "lists them",
                   WORD_ARG(name), near_text(&near));
}

/* Known, but the machine's shape has no room for it. */
static int event_absent(const struct shape *shape, unsigned class_index,
                        const struct sim_event *event, struct err *err)
{
    return err_set(err, P09, "\"%s\" needs %u rows, and class \"%s\" has %u that fit%s",
                   event->name, event->needed, shape->names[class_index],
                   (unsigned)__builtin_popcountll(table_fits(shape, class_index, event)),
                   event->fit == FIT_FIXED ? ": mount with sim_fixed=1" : "");
}

static int event_unknown(const struct spelling *spelling, struct near *near, struct err *err)
{
    return err_set(err, CS01, "no event \"" WORD_FMT "\"%s; events/ lists what there is",
                   WORD_ARG(spelling->name), near_text(near));
}

static void event_offer(struct near *near, const struct sim_event *event)
{
    near_offer(near, event->name);
    if (event->generic != NULL) {
        near_offer(near, event->generic);
        near_offer(near, event->generic + strlen(PREFIX));
    }
}

/* Could the spelling mean an event of this class? */
static bool class_meant(const struct shape *shape, unsigned class_index, struct word name)
{
    return name.len == 0 || word_alike(name, GENERIC, true) ||
           word_alike(name, shape->names[class_index], true);
}

static int event_find(const struct shape *shape, const struct spelling *spelling,
                      struct found *found, struct err *err)
{
    const bool generic = word_alike(spelling->class_name, GENERIC, true);
    struct found absent = {.event = NULL}, raw = {.event = NULL};
    struct near near;

    near_init(&near, spelling->name);
    for (unsigned c = 0; c < shape->n_classes; c++) {
        if (!class_meant(shape, c, spelling->class_name))
            continue;
        for (unsigned i = 0; i < sim_events_n; i++) {
            const struct sim_event *event = &sim_events[i];

            if (!table_is_of(shape, c, event) || (generic && event->generic == NULL))
                continue;
            event_offer(&near, event);
            if (!name_is(event, spelling->name))
                continue;
            *found = absent = (struct found){.event = event, .class_index = c};
            if (table_counts(shape, c, event))
                return 0;
        }
        if (raw.event == NULL)
            raw = (struct found){.event = &raw_event, .class_index = c};
    }
    if (raw.event == NULL)
        return class_unknown(shape, spelling->class_name, err);
    if (absent.event != NULL)
        return event_absent(shape, absent.class_index, absent.event, err);
    *found = raw;
    if (!generic && shape->classes[raw.class_index].rows > 0 &&
        raw_read(spelling->name, &found->raw))
        return 0;
    return event_unknown(spelling, &near, err);
}

/* ---- resolving ---- */

/* What the event's nature forbids. */
static int spelling_check(const struct spelling *spelling, const struct sim_event *event,
                          struct err *err)
{
    if (event->whole && spelling_is_part(spelling))
        return err_set(err, E35, "\"%s\" takes no edge, inv or cmask", event->name);
    if (event->fit != FIT_SOFTWARE && event->whole && (spelling->value[USR] || spelling->value[OS]))
        return err_set(err, CS03,
                       "\"%s\" cannot tell user mode from kernel mode: leave :u, :k, "
                       ",usr, ,os away",
                       event->name);
    return 0;
}

/* CLASS::NAME with the qualifiers, in one order; NULL: no memory. */
static char *event_resolved(const struct shape *shape, const struct found *found,
                            const struct spelling *spelling)
{
    const char *class_name = shape->names[found->class_index];
    const unsigned *value = spelling->value;
    char *text, name[20], cmask[24] = "";

    snprintf(name, sizeof name, "r%" PRIx64, found->raw);
    if (value[CMASK] > 0)
        snprintf(cmask, sizeof cmask, ",cmask=%u", value[CMASK]);
    return asprintf(&text, "%s::%s%s%s%s", class_name,
                    found->event == &raw_event ? name : found->event->name, cmask,
                    value[INV] ? ",inv" : "", value[EDGE] ? ",edge" : "") < 0
               ? NULL
               : text;
}

/* What the spelling says of a mode: the other one said turns it off. */
static enum event_said mode_said(const struct spelling *spelling, enum qualifier mode)
{
    if (!spelling->value[USR] && !spelling->value[OS])
        return SAID_NOTHING;
    return spelling->value[mode] ? SAID_ON : SAID_OFF;
}

static int event_fill(const struct shape *shape, const struct found *found,
                      const struct spelling *spelling, const char *text, struct event *out,
                      struct err *err)
{
    const struct sim_event *event = found->event;

    *out = (struct event){
        .written = strdup(text),
        .resolved = event_resolved(shape, found, spelling),
        .class_index = found->class_index,
        .rows = table_fits(shape, found->class_index, event),
        .rows_needed = event->needed,
        .scope = event->scope,
        .sampling = event->sampling,
        .whole = event->whole,
        .user = mode_said(spelling, USR),
        .kernel = mode_said(spelling, OS),
        .scale = event->scale,
        .code = {[SIM_RATE] = event == &raw_event ? found->raw : event->rate_per_ms,
                 /* the starts of a condition are half as many, N at once an Nth and less */
                 [SIM_DIVISOR] =
                     (spelling->value[EDGE] ? 2 : 1) * (UINT64_C(1) + spelling->value[CMASK])}};
    strcpy(out->unit, event->unit);
    if (event != &raw_event && !spelling_is_part(spelling))
        snprintf(out->generic, sizeof out->generic, "%s", event->name);
    if (out->written != NULL && out->resolved != NULL)
        return 0;
    event_clear(out);
    return err_nomem(err);
}

int events_resolve(struct backend_state *state, const char *text, struct event *out,
                   struct err *err)
{
    struct spelling spelling;
    struct found found;
    int rc = spelling_parse(&spelling, text, err);

    *out = (struct event){.scale = 1};
    if (rc == 0)
        rc = event_find(&state->shape, &spelling, &found, err);
    if (rc == 0)
        rc = spelling_check(&spelling, found.event, err);
    if (rc == 0)
        rc = event_fill(&state->shape, &found, &spelling, text, out, err);
    return rc;
}

/* ---- sets ---- */

int events_check_set(struct backend_state *state, const struct plan_event *events, unsigned n,
                     bool multiplex, struct err *err)
{
    struct want wants[MATCH_ROWS];
    uint8_t order[MATCH_ROWS];
    unsigned needed = 0, filled = 0, class_index = 0;

    (void)multiplex; /* time is shared between sets, not within one */
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; k < events[i].event->rows_needed; k++) {
            class_index = events[i].event->class_index;
            if (needed++ < MATCH_ROWS)
                wants[needed - 1] = (struct want){.rows = events[i].event->rows};
        }
    for (unsigned row = 0; row < MATCH_ROWS; row++)
        order[row] = (uint8_t)row;
    if (needed <= MATCH_ROWS)
        filled = match_rows(wants, needed, order, MATCH_ROWS);
    if (filled == needed)
        return 0;
    return err_set(err, E19,
                   "no row left for all %u events together: they need %u of class "
                   "\"%s\", of which %u can count them",
                   n, needed, state->shape.names[class_index], filled);
}

/* ---- lists ---- */

int events_list(struct backend_state *state, struct catalog *out, struct err *err)
{
    const struct shape *shape = &state->shape;
    int rc;

    for (unsigned c = 0; c < shape->n_classes; c++) {
        for (unsigned i = 0; i < sim_events_n; i++) {
            const struct sim_event *event = &sim_events[i];

            if (!table_counts(shape, c, event))
                continue;
            catalog_add(out, shape->names[c], event->name);
            if (event->generic == NULL)
                continue;
            catalog_add(out, GENERIC, event->name);
            catalog_add(out, GENERIC, event->generic);
        }
    }
    rc = catalog_finish(out);
    return rc == 0 ? 0 : err_nomem(err);
}

int events_describe(struct backend_state *state, const char *class_name, const char *name,
                    struct buf *out)
{
    struct spelling spelling = {.class_name = word_of(class_name), .name = word_of(name)};
    const bool generic = strcmp(class_name, GENERIC) == 0;
    struct event event;
    struct found found;
    char text[128];
    int rc = event_find(&state->shape, &spelling, &found, NULL);

    /* The bare name means the first class that has it. */
    if (!generic && rc == 0 &&
        (found.class_index == 0 || state->shape.classes[found.class_index].rows == 0))
        snprintf(text, sizeof text, "%s", name);
    else
        snprintf(text, sizeof text, "%s/%s%s", class_name, name, generic ? "" : "/");
    if (rc == 0)
        rc = event_fill(&state->shape, &found, &spelling, text, &event, NULL);
    if (rc != 0)
        return -ENOENT;
    event_print(&event, text, found.event->description, out);
    buf_printf(out, "encoding %s rate_per_ms=%" PRIu64 "\n", event.resolved, event.code[SIM_RATE]);
    if (!event.whole)
        buf_str(out, "attr u user mode\nattr k kernel mode\nattr cmask 0-255\nattr inv 0-1\n"
                     "attr edge 0-1\n");
    event_clear(&event);
    return 0;
}
