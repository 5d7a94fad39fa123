/*
 * The events of the simulated PMU: the table, the spellings, and the lists of events/.
 */
#include "backends/sim/sim.h"

#include "core/rows/row.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- the table ---- */

enum fit {
    FIT_GENERAL, /* any row except the fixed one */
    FIT_EVEN,    /* rows 0, 2, 4… except the fixed one */
    FIT_BOTH,    /* any row, the fixed one too */
    FIT_FIXED,   /* the fixed row only */
    FIT_SOFTWARE /* no row: class "software" */
};

struct sim_event {
    const char *name;
    const char *generic; /* PAPI's name, or NULL */
    enum fit fit;
    unsigned needed; /* number of rows for one event */
    uint64_t rate_per_ms;
    unsigned scope;
    bool sampling, counts_both_modes;
    const char *unit;
    double scale;
    const char *description;
};

#define ANYWHERE (EVENT_PROCESS | EVENT_CPU)

/* Rates of hardware events differ, except of instructions: a value identifies its event. */
static const struct sim_event sim_events[] = {
    {"cycles", "PAPI_tot_cyc", FIT_GENERAL, 1, 1000000, ANYWHERE, true, false, "", 1,
     "cycles of the core"},
    {"instructions", "PAPI_tot_ins", FIT_BOTH, 1, 2000000, ANYWHERE, true, false, "", 1,
     "instructions retired"},
    {"branches", "PAPI_br_ins", FIT_GENERAL, 1, 400000, ANYWHERE, true, false, "", 1,
     "branch instructions retired"},
    {"branch-misses", "PAPI_br_msp", FIT_GENERAL, 1, 8000, ANYWHERE, true, false, "", 1,
     "branches predicted wrongly"},
    {"cache-references", "PAPI_l3_tca", FIT_GENERAL, 1, 50000, ANYWHERE, true, false, "", 1,
     "accesses to the last cache"},
    {"cache-misses", "PAPI_l3_tcm", FIT_GENERAL, 1, 5000, ANYWHERE, true, false, "", 1,
     "accesses that missed the last cache"},
    {"loads", "PAPI_ld_ins", FIT_EVEN, 1, 600000, ANYWHERE, true, false, "", 1,
     "loads retired; only even rows can count them"},
    {"wide", NULL, FIT_GENERAL, 2, 300000, ANYWHERE, false, false, "", 1,
     "an event that needs two rows, and raises no interrupt"},
    {"fixed-instructions", NULL, FIT_FIXED, 1, 2000000, ANYWHERE, true, false, "", 1,
     "instructions retired, by the fixed counter only (sim_fixed=1)"},
    {"package", NULL, FIT_GENERAL, 1, 64000000, EVENT_CPU | EVENT_PACKAGE, false, true, "Joules",
     0x1p-32, "energy of the package, about 15 W; CPUs only"},
    {"task-clock", NULL, FIT_SOFTWARE, 0, 1000000, ANYWHERE, true, true, "ns", 1, "time on a CPU"},
    {"cpu-clock", NULL, FIT_SOFTWARE, 0, 1000000, ANYWHERE, true, true, "ns", 1,
     "time, as a CPU sees it"},
    {"page-faults", NULL, FIT_SOFTWARE, 0, 2, ANYWHERE, true, true, "", 1, "page faults"},
    {"context-switches", NULL, FIT_SOFTWARE, 0, 3, ANYWHERE, true, true, "", 1,
     "switches to another task"},
};
#define N_EVENTS (sizeof sim_events / sizeof sim_events[0])

/* rHEX: the number is the rate per millisecond. */
static const struct sim_event raw_event = {"raw", NULL, FIT_GENERAL,   1, 0, ANYWHERE, true, false,
                                           "",    1,    "a raw number"};

/* Returns true if event and class are both hardware, or both software. */
static bool table_is_of(const struct sim_pmu *pmu, unsigned class_index,
                        const struct sim_event *event)
{
    return (event->fit == FIT_SOFTWARE) == (pmu->classes[class_index].rows == 0);
}

/* Returns the rows of the class that can count the event, or 0. */
static uint64_t table_fits(const struct sim_pmu *pmu, unsigned class_index,
                           const struct sim_event *event)
{
    const unsigned rows = pmu->classes[class_index].rows;
    const uint64_t fixed = pmu->fixed && rows > 0 ? UINT64_C(1) << (rows - 1) : 0;
    const uint64_t general = rows > 0 ? UINT64_MAX >> (SIM_ROWS - rows) & ~fixed : 0;
    const uint64_t fits[] = {[FIT_GENERAL] = general,
                             [FIT_EVEN] = general & UINT64_C(0x5555555555555555),
                             [FIT_BOTH] = general | fixed,
                             [FIT_FIXED] = fixed,
                             [FIT_SOFTWARE] = 0};

    return fits[event->fit];
}

/* Returns true if the class can count the event on the simulated host. */
static bool table_counts(const struct sim_pmu *pmu, unsigned class_index,
                         const struct sim_event *event)
{
    const uint64_t fits = table_fits(pmu, class_index, event);

    return table_is_of(pmu, class_index, event) &&
           (unsigned)__builtin_popcountll(fits) >= event->needed;
}

void events_count_for_rows(struct sim_pmu *pmu)
{
    for (unsigned c = 0; c < pmu->n_classes; c++)
        for (unsigned row = 0; row < pmu->classes[c].rows; row++)
            for (unsigned i = 0; i < N_EVENTS; i++)
                pmu->row_events[c][row] += table_counts(pmu, c, &sim_events[i]) &&
                                           (table_fits(pmu, c, &sim_events[i]) >> row & 1) != 0;
}

/*
 * ---- spellings ----
 *
 * NAME, CLASS::NAME, CLASS/NAME/, generic/NAME, PAPI_... or rHEX, followed by the modifiers of perf
 * (:u :k, or /u after CLASS/NAME) or the qualifiers of hwpmc (,usr ,os ,edge ,inv ,cmask=N).
 */

#define GENERIC "generic"
#define PREFIX  "PAPI_"

enum qualifier {
    USR, /* also :u */
    OS,  /* also :k */
    EDGE,
    INV,
    CMASK,
    QUALIFIERS
};

static const struct {
    const char *name;
    enum qualifier kind;
} qualifiers[] = {{"usr", USR}, {"os", OS},       {"edge", EDGE},
                  {"inv", INV}, {"cmask", CMASK}, {"count", CMASK}};

#define N_QUALIFIERS (sizeof qualifiers / sizeof qualifiers[0])

struct spelling {
    struct word class_name; /* may be empty */
    struct word name;
    unsigned value[QUALIFIERS]; /* 0: not written */
};

static size_t qualifier_find(struct word name)
{
    size_t i = 0;

    while (i < N_QUALIFIERS && !word_alike(name, qualifiers[i].name, true))
        i++;
    return i;
}

bool sim_is_qualifier(struct word name)
{
    return qualifier_find(name) < N_QUALIFIERS;
}

/* Returns true if edge, inv or cmask counts only a part of the event. */
static bool spelling_is_part(const struct spelling *spelling)
{
    return spelling->value[EDGE] || spelling->value[INV] || spelling->value[CMASK];
}

static int precise_refuse(struct word word, struct err *err)
{
    return err_set(err, P09, "\"" WORD_FMT "\": the simulated PMU has no precise samples",
                   WORD_ARG(word));
}

static int qualifier_parse(struct spelling *spelling, struct word word, struct err *err)
{
    struct word value, key = word_until(word, '=', &value);
    const size_t i = qualifier_find(key);
    struct near near = {.word = key};
    bool on = true;
    uint64_t n = 0;

    if (word_alike(key, "precise", false))
        return precise_refuse(word, err);
    if (i == N_QUALIFIERS) {
        for (size_t k = 0; k < N_QUALIFIERS; k++)
            near_offer(&near, qualifiers[k].name);
        return err_set(err, CS03,
                       "no qualifier \"" WORD_FMT
                       "\"%s: write usr, os, edge, inv or cmask=N (simulated PMU)",
                       WORD_ARG(key), near_text(&near));
    }
    const bool number = qualifiers[i].kind == CMASK;
    if (number ? !word_u64(value, true, 0, 255, &n) : key.len < word.len && !word_bool(value, &on))
        return err_set(err, CS04, "\"" WORD_FMT "\": %s", WORD_ARG(word),
                       number ? "write a number, 0 to 255" : "write 1 or 0");
    spelling->value[qualifiers[i].kind] = number ? (unsigned)n : on;
    return 0;
}

/* Splits a spelling. CS01 no name, CS03 unknown modifier or qualifier, CS04 value of a qualifier,
 * P09 precise samples. */
static int spelling_parse(struct spelling *spelling, const char *text, struct err *err)
{
    struct word rest = word_of(text), first = word_part(rest, ":/,");
    const struct word tail = word_from(rest, first.len);
    int rc = 0;

    *spelling = (struct spelling){.name = {NULL, 0}};
    if (strncmp(tail.p, "/", 1) == 0 || strncmp(tail.p, "::", 2) == 0) {
        spelling->class_name = first;
        rest = word_from(tail, tail.p[0] == '/' ? 1 : 2);
    }
    spelling->name = word_part(rest, ":/,");
    if (spelling->name.len == 0)
        return err_set(err, CS01, "\"%s\" has no event name: write it before ':' or ','", text);
    if (strchr(",:", text[strlen(text) - 1]) != NULL)
        return err_set(err, CS03,
                       "'%c' at the end of \"%s\" needs a word after it, or leave it out",
                       text[strlen(text) - 1], text);
    rest = word_from(rest, spelling->name.len);
    while (rc == 0 && rest.len > 0) {
        const struct word part = word_part(word_from(rest, 1), ":/,");

        if (rest.p[0] == ',')
            rc = qualifier_parse(spelling, part, err);
        for (size_t i = 0; rc == 0 && rest.p[0] != ',' && i < part.len; i++) {
            const char c = part.p[i] | 0x20;

            if (c == 'p')
                rc = precise_refuse(part, err);
            else if (c != 'u' && c != 'k')
                rc = err_set(err, CS03,
                             "no modifier \"%c\" (in \"" WORD_FMT
                             "\"): write u (user mode) or k (kernel mode)",
                             part.p[i], WORD_ARG(part));
            else
                spelling->value[c == 'u' ? USR : OS] = 1;
        }
        rest = word_from(rest, 1 + part.len);
    }
    return rc;
}

/* ---- finding an event ---- */

struct found {
    const struct sim_event *event;
    unsigned class_index;
    uint64_t raw;
};

static bool raw_read(struct word name, uint64_t *raw)
{
    char digits[20] = "0x";
    struct word hex = {digits, name.len + 1};

    if (name.len < 2 || name.len > 17 || (name.p[0] != 'r' && name.p[0] != 'R'))
        return false;
    memcpy(digits + 2, name.p + 1, name.len - 1);
    return word_u64(hex, true, 0, UINT64_MAX, raw);
}

/* Returns true if the name is the event's, or its generic name with or without the prefix. Offers
 * these names to near. */
static bool name_is(const struct sim_event *event, struct word name, struct near *near)
{
    const char *generic = event->generic;

    near_offer(near, event->name);
    if (generic != NULL) {
        near_offer(near, generic);
        near_offer(near, generic + strlen(PREFIX));
    }
    return word_alike(name, event->name, true) ||
           (generic != NULL &&
            (word_alike(name, generic, true) || word_alike(name, generic + strlen(PREFIX), true)));
}

/* Finds the event and the first class that can count it. P09 if the rows of no class fit, X06
 * unknown class, CS01 unknown event. */
static int event_find(const struct sim_pmu *pmu, const struct spelling *spelling,
                      struct found *found, struct err *err)
{
    const struct word class_name = spelling->class_name;
    const bool generic = word_alike(class_name, GENERIC, true);
    struct found unfit = {.event = NULL}, raw = {.event = NULL};
    struct near near = {.word = spelling->name}, near_class = {.word = class_name};

    for (unsigned c = 0; c < pmu->n_classes; c++) {
        near_offer(&near_class, pmu->names[c]);
        if (class_name.len > 0 && !generic && !word_alike(class_name, pmu->names[c], true))
            continue;
        for (unsigned i = 0; i < N_EVENTS; i++) {
            const struct sim_event *event = &sim_events[i];

            if (!table_is_of(pmu, c, event) || (generic && event->generic == NULL) ||
                !name_is(event, spelling->name, &near))
                continue;
            *found = unfit = (struct found){.event = event, .class_index = c};
            if (table_counts(pmu, c, event))
                return 0;
        }
        if (raw.event == NULL)
            raw = (struct found){.event = &raw_event, .class_index = c};
    }
    if (raw.event == NULL)
        return err_set(err, X06,
                       "no class \"" WORD_FMT "\" on this simulated host%s: see info/classes",
                       WORD_ARG(class_name), near_text(&near_class));
    if (unfit.event != NULL)
        return err_set(
            err, P09, "\"%s\" needs %u rows, and class \"%s\" has %u that fit%s", unfit.event->name,
            unfit.event->needed, pmu->names[unfit.class_index],
            (unsigned)__builtin_popcountll(table_fits(pmu, unfit.class_index, unfit.event)),
            unfit.event->fit == FIT_FIXED ? ": mount with sim_fixed=1" : "");
    *found = raw;
    if (!generic && pmu->classes[raw.class_index].rows > 0 && raw_read(spelling->name, &found->raw))
        return 0;
    return err_set(err, CS01, "no event \"" WORD_FMT "\"%s: see events/", WORD_ARG(spelling->name),
                   near_text(&near));
}

/* ---- resolving ---- */

/* If only one mode is written, the other is off. */
static enum event_modifier mode_of_spelling(const struct spelling *spelling, enum qualifier mode)
{
    if (!spelling->value[USR] && !spelling->value[OS])
        return MODIFIER_NONE;
    return spelling->value[mode] ? MODIFIER_ON : MODIFIER_OFF;
}

/* Fills an event, with the canonical form CLASS::NAME,qualifiers. text: the spelling as written. */
static int event_fill(const struct sim_pmu *pmu, const struct found *found,
                      const struct spelling *spelling, const char *text, struct event *out,
                      struct err *err)
{
    const struct sim_event *event = found->event;
    const unsigned *value = spelling->value;
    char raw[20], cmask[24] = "";

    *out = (struct event){
        .written = strdup(text),
        .class_index = found->class_index,
        .rows = table_fits(pmu, found->class_index, event),
        .rows_needed = event->needed,
        .scope = event->scope,
        .sampling = event->sampling,
        .counts_both_modes = event->counts_both_modes,
        .user = mode_of_spelling(spelling, USR),
        .kernel = mode_of_spelling(spelling, OS),
        .scale = event->scale,
        .code = {[SIM_RATE] = event == &raw_event ? found->raw : event->rate_per_ms,
                 /* edge halves the count; cmask=N divides it by N + 1 */
                 [SIM_DIVISOR] = (value[EDGE] ? 2 : 1) * (UINT64_C(1) + value[CMASK])}};
    strcpy(out->unit, event->unit);
    if (event != &raw_event && !spelling_is_part(spelling))
        snprintf(out->generic, sizeof out->generic, "%s", event->name);

    snprintf(raw, sizeof raw, "r%" PRIx64, found->raw);
    if (value[CMASK] > 0)
        snprintf(cmask, sizeof cmask, ",cmask=%u", value[CMASK]);
    if (asprintf(&out->resolved, "%s::%s%s%s%s", pmu->names[found->class_index],
                 event == &raw_event ? raw : event->name, cmask, value[INV] ? ",inv" : "",
                 value[EDGE] ? ",edge" : "") < 0)
        out->resolved = NULL;
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
        rc = event_find(&state->pmu, &spelling, &found, err);
    if (rc != 0)
        return rc;
    const struct sim_event *event = found.event;
    if (event->counts_both_modes && spelling_is_part(&spelling))
        return err_set(err, E35,
                       "leave out edge, inv and cmask: \"%s\" cannot be counted with them",
                       event->name);
    if (event->fit != FIT_SOFTWARE && event->counts_both_modes &&
        (spelling.value[USR] || spelling.value[OS]))
        return err_set(err, CS03,
                       "\"%s\" cannot be counted for user or kernel mode alone: leave out :u, :k, "
                       ",usr and ,os",
                       event->name);
    return event_fill(&state->pmu, &found, &spelling, text, out, err);
}

/* ---- sets ---- */

int events_check_set(struct backend_state *state, const struct plan_event *events, unsigned n,
                     bool multiplex, struct err *err)
{
    struct want wants[ROWS_MAX];
    uint8_t order[ROWS_MAX];
    unsigned needed = 0, filled = 0, class_index = 0;

    (void)multiplex; /* multiplexing is between sets: the events of one set need rows at the same
                        time */
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; k < events[i].event->rows_needed; k++) {
            class_index = events[i].event->class_index;
            if (needed++ < ROWS_MAX)
                wants[needed - 1] = (struct want){.rows = events[i].event->rows};
        }
    for (unsigned row = 0; row < ROWS_MAX; row++)
        order[row] = (uint8_t)row;
    if (needed <= ROWS_MAX)
        filled = match_rows(wants, needed, order, ROWS_MAX);
    if (filled == needed)
        return 0;
    return err_set(err, E19,
                   "no row left for all %u events together: they need %u rows of class \"%s\", and "
                   "only %u rows can count them",
                   n, needed, state->pmu.names[class_index], filled);
}

/* ---- lists ---- */

int events_catalog_add_all(struct backend_state *state, struct catalog *out, struct err *err)
{
    const struct sim_pmu *pmu = &state->pmu;

    for (unsigned c = 0; c < pmu->n_classes; c++) {
        for (unsigned i = 0; i < N_EVENTS; i++) {
            const struct sim_event *event = &sim_events[i];

            if (!table_counts(pmu, c, event))
                continue;
            catalog_add(out, pmu->names[c], event->name);
            if (event->generic == NULL)
                continue;
            catalog_add(out, GENERIC, event->name);
            catalog_add(out, GENERIC, event->generic);
        }
    }
    int rc = catalog_finish(out);
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
    int rc = event_find(&state->pmu, &spelling, &found, NULL);

    /* A bare name means the event of the first class that has it. Other classes need
     * CLASS/NAME/. */
    if (!generic && rc == 0 &&
        (found.class_index == 0 || state->pmu.classes[found.class_index].rows == 0))
        snprintf(text, sizeof text, "%s", name);
    else
        snprintf(text, sizeof text, "%s/%s%s", class_name, name, generic ? "" : "/");
    if (rc == 0)
        rc = event_fill(&state->pmu, &found, &spelling, text, &event, NULL);
    if (rc != 0)
        return -ENOENT;
    event_print(&event, text, found.event->description, out);
    buf_printf(out, "encoding %s rate_per_ms=%" PRIu64 "\n", event.resolved, event.code[SIM_RATE]);
    if (!event.counts_both_modes)
        buf_str(out, "attr u user mode\nattr k kernel mode\nattr cmask 0-255\nattr inv 0-1\n"
                     "attr edge 0-1\n");
    event_clear(&event);
    return 0;
}
