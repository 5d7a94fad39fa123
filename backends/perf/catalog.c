/*
 * Walks all sources of names: the kernel's generic events, tracepoints, event files, libpfm4; to
 * list them, to describe one, and to find those like a name that none of them has. Only what opens
 * is listed; tracepoints all do, and trying each would patch the kernel's text for nothing.
 */
#include "backends/perf/catalog.h"

#include "backends/perf/code.h"
#include "backends/perf/generic.h"
#include "backends/perf/papi.h"
#include "backends/perf/pfm.h"
#include "backends/perf/tracepoint.h"

#include <ctype.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

enum {
    NEAR_LEAST = 3 /* what is like a shorter word was hardly meant */
};

static bool opens(struct backend_state *state, const char *spelling)
{
    struct event event = {.written = NULL};
    struct spec spec;

    return spec_parse(state, spelling, &spec, NULL) == 0 && spec_try(&spec, &event) == 0;
}

static void list_software(struct backend_state *state, const char *class_name, struct catalog *out)
{
    const struct generic *generic;

    for (unsigned i = 0; (generic = generic_at(i)); i++)
        if (generic->type == PERF_TYPE_SOFTWARE && !generic->hidden && opens(state, generic->name))
            catalog_add(out, class_name, generic->name);
}

/* The kernel's event files; those that leave a field open cannot be written as they stand. */
static void list_files(struct backend_state *state, struct pmu *pmu, struct catalog *out)
{
    char text[SPELLING_MAX];

    pmu_load(state->pmus, pmu);
    for (unsigned i = 0; i < pmu->n_events; i++) {
        snprintf(text, sizeof(text), "%s/%s/", pmu->name, pmu->events[i].name);
        if (opens(state, text))
            catalog_add(out, pmu->name, pmu->events[i].name);
    }
}

int perf_list(struct backend_state *state, struct catalog *out, struct err *err)
{
    struct pmus *pmus = state->pmus;

    for (unsigned i = 0; i < pmus->n; i++) {
        struct pmu *pmu = &pmus->list[i];
        if (!pmu_is_here(pmu))
            continue;
        if (pmu->kind == PMU_SOFTWARE)
            list_software(state, pmu->name, out);
        else if (pmu->kind == PMU_TRACEPOINT)
            tracepoint_list(state, out);
        else if (pmu->kind != PMU_BREAKPOINT)
            list_files(state, pmu, out);
    }
    pfm_list(state, out);
    papi_list(state, out);
    return out->failed ? err_nomem(err) : 0;
}

/* ---- a name that nobody has ---- */

/* Shapes that say what was meant, though it is wrong. */
static int unknown_shape(struct word text, struct word head, struct err *err)
{
    if (text.len > 6 && word_is((struct word){text.p, 6}, "event="))
        return err_set(err, CS01,
                       "event= belongs into config; here stands the event alone: " WORD_FMT,
                       WORD_ARG(((struct word){text.p + 6, text.len - 6})));
    if (word_alike(head, "mem", false))
        return err_set(err, CS01, "\"" WORD_FMT "\" has no address: mem:0xADDRESS[/LENGTH][:rwx]",
                       WORD_ARG(text));
    if (head.len > 1 && head.p[0] == 'r' && isdigit((unsigned char)head.p[1]))
        return err_set(err, CS01,
                       "no event \"" WORD_FMT
                       "\" on this machine; a raw number is r and at most 16 "
                       "hexadecimal digits",
                       WORD_ARG(text));
    return -ENOENT;
}

/* What libpfm4 has under another PMU, or its PMU's name misspelt: "pmu::event". */
static int unknown_elsewhere(struct spec *spec, struct word text, struct word head, bool has_pmu,
                             struct err *err)
{
    struct near near;

    if (pfm_elsewhere(text)) {
        if (spec->state->pmus->no_core[0])
            return spec_use_core(spec, text, err);
        return err_set(err, CS01,
                       "\"" WORD_FMT "\" is an event of other processors, not of this one",
                       WORD_ARG(text));
    }
    near_init(&near, head);
    if (!has_pmu || pfm_has_pmu(head, &near))
        return -ENOENT;
    return err_set(err, X06, "no PMU \"" WORD_FMT "\" in libpfm4's tables%s", WORD_ARG(head),
                   near_text(&near));
}

/* Every name that could stand before ':' or alone. */
static void near_events(struct spec *spec, struct near *near)
{
    struct pmus *pmus = spec->state->pmus;
    char full[SPELLING_MAX];

    generic_near(near);
    for (unsigned i = 0; i < pmus->n; i++) {
        struct pmu *pmu = &pmus->list[i];
        if (!pmu_is_here(pmu))
            continue;
        pmu_load(pmus, pmu);
        for (unsigned e = 0; e < pmu->n_events; e++) {
            if (pmu->kind == PMU_CORE)
                snprintf(full, sizeof(full), "%s", pmu->events[e].name);
            else
                snprintf(full, sizeof(full), "%s/%s/", pmu->name, pmu->events[e].name);
            near_offer(near, full);
        }
    }
    pfm_near(near);
    papi_near(near);
}

static int say_unknown(struct spec *spec, struct word name, struct near *near, struct err *err)
{
    const char *no_core = spec->state->pmus->no_core;

    return err_set(
        err, CS01, "no event \"" WORD_FMT "\" on this machine%s%s", WORD_ARG(name), near_text(near),
        near->n == 0 && no_core[0]
            ? "; it has no hardware counters, so no processor's own name is known (info/backend)"
            : "");
}

/*
 * GROUP:NAME, which nobody knows. To be told that it is no tracepoint is for those who may count
 * them; a misspelt event of the processor is told to everybody.
 */
static int unknown_tracepoint(struct spec *spec, struct word text, struct near *near,
                              struct err *err)
{
    struct word rest, mods, group = word_until(text, ':', &rest),
                            name = word_until(rest, ':', &mods);
    bool found;
    const char *where = tracefs_where(spec->state, &found);

    spec->needs_kernel = near->n == 0 || near->best[0].distance > group.len / 3;
    near->word = text;
    tracepoint_near(spec->state, near);
    near->word = group;
    if (near->n == 0)
        tracepoint_near_systems(spec->state, near);
    if (near->n == 0 && !found)
        return err_set(err, P09,
                       "\"" WORD_FMT "\" is no event of the processor; a tracepoint cannot be "
                       "looked up, for %s",
                       WORD_ARG(text), where);
    return err_set(err, CS01,
                   "no tracepoint \"" WORD_FMT "\" in group \"" WORD_FMT
                   "\" is defined, and no event \"" WORD_FMT "\" on this machine%s",
                   WORD_ARG(name), WORD_ARG(group), WORD_ARG(group), near_text(near));
}

int catalog_unknown(struct spec *spec, struct word text, struct err *err)
{
    struct word rest, behind, head = word_until(text, ':', &rest);
    bool has_pmu = rest.len > 1 && rest.p[0] == ':';
    struct word name =
        has_pmu ? word_until((struct word){rest.p + 1, rest.len - 1}, ':', &behind) : head;
    struct near near;
    int rc = unknown_shape(text, head, err);

    if (rc == -ENOENT)
        rc = unknown_elsewhere(spec, text, head, has_pmu, err);
    if (rc != -ENOENT)
        return rc;
    near_init(&near, name);
    if (name.len >= NEAR_LEAST)
        near_events(spec, &near);
    if (!has_pmu && !spec_is_modifier(word_until(rest, ':', &behind)))
        return unknown_tracepoint(spec, text, &near, err);
    near.word = text;
    if (text.len >= NEAR_LEAST && !has_pmu)
        tracepoint_near(spec->state, &near);
    near.word = name;
    return say_unknown(spec, name, &near, err);
}

/* ---- one file ---- */

/* What to write for a file of events/CLASS, and its description; false: it is not listed. */
struct listed {
    char spelling[SPELLING_MAX];
    struct buf *about;
    struct buf *attributes;
    bool trusted; /* listed without having been opened */
};

static bool find_generic(struct listed *listed, const char *event)
{
    struct word name = {event, strlen(event)};
    const struct generic *generic = generic_find(name);
    const struct papi *papi = papi_find(event);

    if (generic && strcmp(generic->name, event) == 0 && !generic->hidden) {
        snprintf(listed->spelling, sizeof(listed->spelling), "generic/%s", event);
        buf_str(listed->about, generic->description);
        return true;
    }
    if (papi) {
        snprintf(listed->spelling, sizeof(listed->spelling), "%s", event);
        buf_str(listed->about, papi->description);
    }
    return papi != NULL;
}

static bool find_software(struct listed *listed, const char *event)
{
    const struct generic *generic = generic_find((struct word){event, strlen(event)});

    if (!generic || strcmp(generic->name, event) != 0 || generic->hidden ||
        generic->type != PERF_TYPE_SOFTWARE)
        return false;
    snprintf(listed->spelling, sizeof(listed->spelling), "%s", event);
    buf_str(listed->about, generic->description);
    return true;
}

static void describe_fields(struct pmu *pmu, struct buf *out)
{
    for (unsigned i = 0; i < pmu->n_formats; i++) {
        unsigned bits = format_bits(&pmu->formats[i]);
        buf_printf(out, "attr %s %s %u bit%s\n", pmu->formats[i].name,
                   bits == 1 ? "boolean" : "integer", bits, bits == 1 ? "" : "s");
    }
}

static bool find_file(struct backend_state *state, struct pmu *pmu, struct listed *listed,
                      const char *event)
{
    const struct pmu_event *file = pmu_event(state->pmus, pmu, (struct word){event, strlen(event)});

    if (file && strcmp(file->name, event) == 0) {
        snprintf(listed->spelling, sizeof(listed->spelling), "%s/%s/", pmu->name, event);
        buf_printf(listed->about, "the kernel's %s of %s: %s%s", file->name, pmu->name, file->terms,
                   file->snapshot ? " (the value of the moment, not a count)" : "");
        describe_fields(pmu, listed->attributes);
        return true;
    }
    if (!pfm_spelling(state, pmu->name, event, listed->spelling, sizeof(listed->spelling)))
        return false;
    pfm_describe(listed->spelling, listed->about, listed->attributes);
    return true;
}

static bool find_tracepoint(struct listed *listed, const char *event)
{
    if (strncmp(event, "ftrace:", 7) == 0)
        return false;
    snprintf(listed->spelling, sizeof(listed->spelling), "%s", event);
    buf_printf(listed->about, "tracepoint %s of the kernel", event);
    listed->trusted = true;
    return true;
}

static bool find_listed(struct backend_state *state, const char *class_name, const char *event,
                        struct listed *listed)
{
    struct pmu *pmu = pmus_find(state->pmus, (struct word){class_name, strlen(class_name)});

    if (strlen(event) >= SPELLING_MAX / 2 || strchr(event, '/'))
        return false;
    if (strcmp(class_name, "generic") == 0)
        return find_generic(listed, event);
    if (!pmu || strcmp(pmu->name, class_name) != 0 || !pmu_is_here(pmu))
        return false;
    switch (pmu->kind) {
    case PMU_SOFTWARE:
        return find_software(listed, event);
    case PMU_TRACEPOINT:
        return find_tracepoint(listed, event);
    case PMU_BREAKPOINT:
        return false;
    default:
        return find_file(state, pmu, listed, event);
    }
}

static int resolve_one(struct backend_state *state, const char *text, bool open,
                       struct event *event)
{
    int rc = spec_resolve(state, text, event, NULL);

    if (rc == 0 && open)
        rc = spec_verify(state, event, NULL);
    if (rc < 0)
        event_clear(event);
    return rc;
}

/* An event that is only complete with a unit mask is shown with the first that makes it so. */
static int resolve_listed(struct backend_state *state, struct listed *listed, struct event *event)
{
    char text[SPELLING_MAX + 64], masks[4096], *save = NULL;
    int rc = resolve_one(state, listed->spelling, !listed->trusted, event);

    if (rc == 0)
        return 0;
    snprintf(masks, sizeof(masks), "%s", buf_text(listed->attributes));
    for (char *line = strtok_r(masks, "\n", &save); rc < 0 && line;
         line = strtok_r(NULL, "\n", &save)) {
        int len = strncmp(line, "umask ", 6) == 0 ? (int)strcspn(line + 6, " ") : 0;
        if (len == 0)
            continue;
        snprintf(text, sizeof(text), "%s:%.*s", listed->spelling, len > 60 ? 60 : len, line + 6);
        rc = resolve_one(state, text, true, event);
        if (rc == 0)
            snprintf(listed->spelling, sizeof(listed->spelling), "%.*s", SPELLING_MAX - 1, text);
    }
    return rc;
}

static void print_rows(const struct event *event, struct buf *out)
{
    buf_str(out, "rows");
    if (!event->rows)
        buf_str(out, " -");
    for (unsigned row = 0; row < 64; row++)
        if (event->rows >> row & 1)
            buf_printf(out, " %u", row);
    if (event->rows_needed > 1)
        buf_printf(out, " (takes %u)", event->rows_needed);
    buf_char(out, '\n');
}

static void print_event(const struct event *event, const struct listed *listed, bool maps,
                        struct buf *out)
{
    const char *about = buf_text(listed->about);

    buf_printf(out, "event %s\ndescription ", listed->spelling);
    for (; *about; about++)
        buf_char(out, *about == '\n' || *about == '\t' ? ' ' : *about);
    if (maps)
        buf_printf(out, " (here: %s)", event->resolved);
    buf_printf(out, "\nscope %s\nsampling %s\nunit %s\nscale %.17g\n",
               event->scope & EVENT_PROCESS   ? "process"
               : event->scope & EVENT_PACKAGE ? "package"
                                              : "cpu",
               event->sampling ? "yes" : "no", event->unit[0] ? event->unit : "-", event->scale);
    print_rows(event, out);
    buf_printf(out, "encoding type=%u", (unsigned)event->code[CODE_TYPE]);
    if (event->code[CODE_TYPE] != PERF_TYPE_TRACEPOINT) /* tracefs tells the number to few */
        buf_printf(out, " config=0x%llx", (unsigned long long)event->code[CODE_CONFIG]);
    for (int i = CODE_CONFIG1; i <= CODE_CONFIG3; i++)
        if (event->code[i])
            buf_printf(out, " config%d=0x%llx", i - CODE_CONFIG,
                       (unsigned long long)event->code[i]);
    buf_printf(out, "\n%s", buf_text(listed->attributes));
}

int perf_describe(struct backend_state *state, const char *class_name, const char *event,
                  struct buf *out)
{
    struct buf about, attributes;
    struct listed listed = {.about = &about, .attributes = &attributes};
    struct event resolved = {.written = NULL};
    int rc = -ENOENT;

    buf_init(&about, NULL, 0);
    buf_init(&attributes, NULL, 0);
    if (find_listed(state, class_name, event, &listed) &&
        resolve_listed(state, &listed, &resolved) == 0) {
        print_event(&resolved, &listed, strcmp(class_name, "generic") == 0, out);
        rc = 0;
    }
    event_clear(&resolved);
    buf_free(&about);
    buf_free(&attributes);
    return rc;
}
