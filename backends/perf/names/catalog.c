/*
 * Walks all sources of names: the kernel's generic events, tracepoints, event files, libpfm4; to
 * list them, and to describe one. Only what opens is listed; tracepoints all do, and trying each
 * would patch the kernel's text for nothing.
 */
#include "backends/perf/names/catalog.h"

#include "backends/perf/names/generic.h"
#include "backends/perf/names/pfm.h"
#include "backends/perf/names/resolve.h"
#include "backends/perf/names/spec_event.h"
#include "backends/perf/names/tracepoint.h"
#include "backends/perf/probe/code.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

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
        if (generic->type == PERF_TYPE_SOFTWARE && opens(state, generic->name))
            catalog_add(out, class_name, generic->name);
}

/* The kernel's event files; those that leave a field open cannot be written as they stand. */
static void list_files(struct backend_state *state, struct pmu *pmu, struct catalog *out)
{
    char text[SPELLING_MAX];

    for (unsigned i = 0; i < pmu->events.n; i++) {
        snprintf(text, sizeof(text), "%s/%s/", pmu->name, pmu->events.items[i].name);
        if (opens(state, text))
            catalog_add(out, pmu->name, pmu->events.items[i].name);
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
    generic_list(state, out);
    return out->failed ? err_nomem(err) : 0;
}

/* ---- one file ---- */

/* What to write for a file of events/CLASS, and its description; false: it is not listed. */
struct listed {
    char spelling[SPELLING_MAX];
    struct buf *about;
    struct buf *attributes;
    bool trusted; /* listed without having been opened */
};

static bool find_generic(struct listed *listed, const char *class_name, const char *event)
{
    const struct generic *generic = generic_find((struct word){event, strlen(event)});
    const bool software = strcmp(class_name, "software") == 0;

    if (!generic || strcmp(generic->name, event) != 0 ||
        (software && generic->type != PERF_TYPE_SOFTWARE))
        return false;
    snprintf(listed->spelling, sizeof(listed->spelling), "%s%s",
             software || generic->candidates ? "" : "generic/", event);
    buf_str(listed->about, generic->description);
    return true;
}

static void describe_fields(struct pmu *pmu, struct buf *out)
{
    for (unsigned i = 0; i < pmu->formats.n; i++) {
        unsigned bits = format_bits(&pmu->formats.items[i]);
        if (strncmp(pmu->formats.items[i].name, "config", 6) == 0) /* every PMU takes these */
            continue;
        buf_printf(out, "attr %s %s %u bit%s\n", pmu->formats.items[i].name,
                   bits == 1 ? "boolean" : "integer", bits, bits == 1 ? "" : "s");
    }
}

static bool find_file(struct backend_state *state, struct pmu *pmu, struct listed *listed,
                      const char *event)
{
    const struct pmu_event *file = pmu_event(pmu, (struct word){event, strlen(event)});

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
        return find_generic(listed, class_name, event);
    if (!pmu || strcmp(pmu->name, class_name) != 0 || !pmu_is_here(pmu))
        return false;
    switch (pmu->kind) {
    case PMU_SOFTWARE:
        return find_generic(listed, "software", event);
    case PMU_TRACEPOINT:
        return find_tracepoint(listed, event);
    case PMU_BREAKPOINT:
        return false;
    default:
        return find_file(state, pmu, listed, event);
    }
}

static int resolve_listed(struct backend_state *state, const struct listed *listed,
                          struct event *event)
{
    int rc = spec_resolve(state, listed->spelling, event, NULL);

    return rc || listed->trusted ? rc : spec_verify(state, event, NULL);
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
