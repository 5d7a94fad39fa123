/*
 * events/: walks all sources of names, to list them, and to describe one. Only what opens is
 * listed; tracepoints all do, and trying each would patch the kernel's text for nothing.
 */
#include "backends/perf/names/names.h"
#include "backends/perf/names/sources.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

static void add_if_opens(struct backend_state *state, const char *spelling, const char *class_name,
                         const char *event, struct catalog *out)
{
    struct spec spec;

    if (spec_parse(state, spelling, &spec, NULL) == 0 && spec_try(&spec) == 0)
        catalog_add(out, class_name, event);
}

static void list_software(struct backend_state *state, const char *class_name, struct catalog *out)
{
    for (const struct generic *generic = generics; generic->name; generic++)
        if (generic->type == PERF_TYPE_SOFTWARE)
            add_if_opens(state, generic->name, class_name, generic->name, out);
}

/* The kernel's event files; those that leave a field open cannot be written as they stand. */
static void list_files(struct backend_state *state, struct pmu *pmu, struct catalog *out)
{
    char text[SPELLING_MAX];

    for (unsigned i = 0; i < pmu->events.n; i++) {
        snprintf(text, sizeof(text), "%s/%s/", pmu->name, pmu->events.items[i].name);
        add_if_opens(state, text, pmu->name, pmu->events.items[i].name, out);
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
        else
            list_files(state, pmu, out);
    }
    pfm_list(state, out);
    generic_list(state, out);
    return out->failed ? err_nomem(err) : 0;
}

/* ---- one file ---- */

struct listed {
    char spelling[SPELLING_MAX];
    struct buf about, attributes;
};

static void describe_fields(const struct pmu *pmu, struct buf *out)
{
    for (unsigned i = 0; i < pmu->formats.n; i++) {
        unsigned bits = format_bits(&pmu->formats.items[i]);
        buf_printf(out, "attr %s %s %u bit%s\n", pmu->formats.items[i].name,
                   bits == 1 ? "boolean" : "integer", bits, bits == 1 ? "" : "s");
    }
}

static bool find_file(struct backend_state *state, const struct pmu *pmu, const char *event,
                      struct listed *listed)
{
    const struct pmu_event *file = pmu_event(pmu, word_of(event));

    if (file) {
        snprintf(listed->spelling, sizeof(listed->spelling), "%s/%s/", pmu->name, event);
        buf_printf(&listed->about, "the kernel's %s of %s: %s%s", file->name, pmu->name,
                   file->terms, file->snapshot ? " (the value of the moment, not a count)" : "");
        describe_fields(pmu, &listed->attributes);
    } else if (pfm_spelling(state, pmu, event, listed->spelling)) {
        pfm_describe(listed->spelling, &listed->about, &listed->attributes);
    }
    return listed->spelling[0];
}

/* What to write for it, and what it is. */
static bool find_listed(struct backend_state *state, const char *class_name, const char *event,
                        struct listed *listed)
{
    const struct pmu *pmu = pmus_find(state->pmus, word_of(class_name)); /* NULL: generic/ */
    const struct generic *generic = generic_find(word_of(event));
    const bool prefixed = !pmu && generic && generic->type != PERF_TYPE_MAX;

    if (pmu && pmu->kind != PMU_SOFTWARE && pmu->kind != PMU_TRACEPOINT)
        return find_file(state, pmu, event, listed);
    if (pmu && pmu->kind == PMU_TRACEPOINT)
        buf_printf(&listed->about, "tracepoint %s of the kernel", event);
    else if (generic)
        buf_str(&listed->about, generic->description);
    snprintf(listed->spelling, sizeof(listed->spelling), "%s%s", prefixed ? "generic/" : "", event);
    return listed->about.len > 0;
}

static void print_encoding(const uint64_t code[EVENT_CODE_WORDS], struct buf *out)
{
    buf_printf(out, "encoding type=%u", (unsigned)code[CODE_TYPE]);
    if (code[CODE_TYPE] != PERF_TYPE_TRACEPOINT) /* tracefs tells the number to few */
        buf_printf(out, " config=0x%llx", (unsigned long long)code[CODE_CONFIG]);
    for (int i = CODE_CONFIG1; i <= CODE_CONFIG3; i++)
        if (code[i])
            buf_printf(out, " config%d=0x%llx", i - CODE_CONFIG, (unsigned long long)code[i]);
    buf_char(out, '\n');
}

/* Tracepoints are listed without having been opened, and so described. */
static int resolve_listed(struct backend_state *state, const char *spelling, struct event *event)
{
    int rc = perf_resolve(state, spelling, event, NULL);

    return rc || event->code[CODE_TYPE] == PERF_TYPE_TRACEPOINT ? rc
                                                                : perf_verify(state, event, NULL);
}

int perf_describe(struct backend_state *state, const char *class_name, const char *event,
                  struct buf *out)
{
    struct listed listed = {.spelling = ""};
    struct event resolved = {.written = NULL};
    int rc;

    buf_init(&listed.about, NULL, 0);
    buf_init(&listed.attributes, NULL, 0);
    rc = find_listed(state, class_name, event, &listed)
             ? resolve_listed(state, listed.spelling, &resolved)
             : -ENOENT;
    if (listed.about.failed || listed.attributes.failed)
        rc = -ENOMEM;
    if (rc == 0) {
        if (strcmp(class_name, "generic") == 0)
            buf_printf(&listed.about, " (here: %s)", resolved.resolved);
        event_print(&resolved, listed.spelling, buf_text(&listed.about), out);
        print_encoding(resolved.code, out);
        buf_str(out, buf_text(&listed.attributes));
        if (listed.about.failed)
            rc = -ENOMEM;
    }
    event_clear(&resolved);
    buf_free(&listed.about);
    buf_free(&listed.attributes);
    return rc == 0 || rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE ? rc : -ENOENT;
}
