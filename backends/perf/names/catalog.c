/*
 * Lists and describes events for events/, prints the facts of info/backend, and names the vendors'
 * documents for info/cpuref. An event is listed if it can be opened; tracepoints are listed without
 * trying, because each try patches the kernel's code.
 */
#include "backends/perf/names/names.h"
#include "backends/perf/names/spec.h"
#include "backends/perf/probe/pmu.h"
#include "backends/perf/probe/probe.h"
#include "backends/proc.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <perfmon/pfmlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

static void add_if_opens(struct backend_state *state, const char *spelling, const char *class_name,
                         const char *event, struct catalog *out)
{
    struct spec spec;

    if (spec_parse(state, spelling, &spec, NULL) == 0 && spec_try(&spec) == 0)
        catalog_add(out, class_name, event);
}

int perf_catalog_add_all(struct backend_state *state, struct catalog *out, struct err *err)
{
    char text[SPELLING_MAX];

    for (struct pmu *pmu = state->pmus->list; pmu < state->pmus->list + state->pmus->n; pmu++) {
        if (!pmu_is_here(pmu))
            continue;
        if (pmu->kind == PMU_SOFTWARE) {
            for (const struct generic *generic = generics; generic->name; generic++)
                if (generic->type == PERF_TYPE_SOFTWARE)
                    add_if_opens(state, generic->name, pmu->name, generic->name, out);
        } else if (pmu->kind == PMU_TRACEPOINT) {
            tracepoint_add_all(state, out);
        } else { /* event files that leave a field open do not resolve */
            for (unsigned i = 0; i < pmu->events.n; i++) {
                const char *name = pmu->events.items[i].name;
                snprintf(text, sizeof(text), "%s/%s/", pmu->name, name);
                add_if_opens(state, text, pmu->name, name, out);
            }
        }
    }
    pfm_add_all(state, out);
    generic_add_all(state, out);
    return out->failed ? err_nomem(err) : 0;
}

/* ---- one file ---- */

struct listed {
    char spelling[SPELLING_MAX];
    struct buf about, attributes;
};

/* Finds the spelling and the description of a listed event: of a generic or software event, a
 * tracepoint, a kernel event file, or an event of libpfm4. listed->spelling must be empty. Returns
 * false if there is no such event. */
static bool find_listed(struct backend_state *state, const char *class_name, const char *event,
                        struct listed *listed)
{
    const struct pmu *pmu =
        strcmp(class_name, "generic") == 0 ? NULL : pmus_find(state->pmus, word_of(class_name));
    const struct generic *generic = generic_find(word_of(event));
    const bool prefixed = !pmu && generic && generic->type != PERF_TYPE_MAX;

    if (!pmu || pmu->kind == PMU_SOFTWARE || pmu->kind == PMU_TRACEPOINT) {
        if (pmu && pmu->kind == PMU_TRACEPOINT)
            buf_printf(&listed->about, "tracepoint %s of the kernel", event);
        else if (generic)
            buf_str(&listed->about, generic->description);
        snprintf(listed->spelling, sizeof(listed->spelling), "%s%s", prefixed ? "generic/" : "",
                 event);
        return listed->about.len > 0;
    }
    const struct pmu_event *file = pmu_event(pmu, word_of(event));
    if (file) {
        snprintf(listed->spelling, sizeof(listed->spelling), "%s/%s/", pmu->name, event);
        buf_printf(&listed->about, "the kernel's %s of %s: %s%s", file->name, pmu->name,
                   file->terms, file->snapshot ? " (the value of the moment, not a count)" : "");
        for (unsigned i = 0; i < pmu->formats.n; i++) {
            unsigned bits = format_bits(&pmu->formats.items[i]);
            buf_printf(&listed->attributes, "attr %s %s %u bit%s\n", pmu->formats.items[i].name,
                       bits == 1 ? "boolean" : "integer", bits, bits == 1 ? "" : "s");
        }
    } else if (pfm_spelling(state, pmu, event, listed->spelling)) {
        pfm_describe(listed->spelling, &listed->about, &listed->attributes);
    }
    return listed->spelling[0];
}

/* Prints how a generic event is counted on this host. */
static void print_generic_on_host(struct pmus *pmus, const struct event *event, struct buf *out)
{
    const struct pmu *class = pmus_of_class(pmus, event->class_index);
    const char *between = " (here: ";

    for (unsigned i = 0; i < pmus->n; i++)
        if (pmu_serves(class, &pmus->list[i])) {
            const bool one = class == &pmus->list[i];

            buf_printf(out, one ? "%s%s" : "%s%s/%s/", between,
                       one ? event->resolved : pmus->list[i].name, event->resolved);
            between = " + ";
        }
    buf_char(out, ')');
}

int perf_describe(struct backend_state *state, const char *class_name, const char *event,
                  struct buf *out)
{
    struct listed listed = {.spelling = ""};
    struct event resolved = {.written = NULL};
    const uint64_t *code = resolved.code;
    int rc = find_listed(state, class_name, event, &listed)
                 ? perf_resolve(state, listed.spelling, &resolved, NULL)
                 : -ENOENT;
    if (rc == 0 && code[CODE_TYPE] != PERF_TYPE_TRACEPOINT)
        rc = perf_verify(state, &resolved, NULL);
    if (rc == 0) {
        if (strcmp(class_name, "generic") == 0)
            print_generic_on_host(state->pmus, &resolved, &listed.about);
        event_print(&resolved, listed.spelling, buf_text(&listed.about), out);
        buf_printf(out, "encoding type=%u", (unsigned)code[CODE_TYPE]);
        /* The number of a tracepoint may only be read with access to tracefs. */
        if (code[CODE_TYPE] != PERF_TYPE_TRACEPOINT)
            buf_printf(out, " config=0x%llx", (unsigned long long)code[CODE_CONFIG]);
        for (int i = CODE_CONFIG1; i <= CODE_CONFIG3; i++)
            if (code[i])
                buf_printf(out, " config%d=0x%llx", i - CODE_CONFIG, (unsigned long long)code[i]);
        buf_char(out, '\n');
        buf_str(out, buf_text(&listed.attributes));
    }
    if (listed.about.failed || listed.attributes.failed)
        rc = -ENOMEM;
    event_clear(&resolved);
    buf_free(&listed.about);
    buf_free(&listed.attributes);
    return rc == 0 || is_shortage(rc) ? rc : -ENOENT;
}

void perf_print_facts(struct backend_state *state, struct buf *out)
{
    struct pmus *pmus = state->pmus;
    struct utsname name;
    struct buf where = {0};
    char watchdog[16];

    if (uname(&name) == 0)
        buf_printf(out, "kernel %s %s\n", name.release, name.machine);
    buf_printf(out, "perf_event_paranoid %d\n", why_paranoid());
    if (pmus->why_no_core[0])
        buf_printf(out, "hardware_pmu no: %s\n", pmus->why_no_core);
    for (unsigned i = 0; i < pmus->n; i++) {
        struct pmu *pmu = &pmus->list[i];
        if (pmu->kind != PMU_CORE)
            continue;
        if (!pmu->why[0])
            buf_printf(out,
                       "hardware_pmu yes: %s, %u general and %u fixed counters of %u bits, %s\n",
                       pmu->name, pmu->n_general, pmu->n_fixed, pmu->width,
                       pmu->capabilities & CAP_INTERRUPT ? "with overflow interrupts"
                                                         : "without overflow interrupts: "
                                                           "nothing of it can be sampled");
        else if (!pmus->why_no_core[0])
            buf_printf(out, "hardware_pmu no: %s\n", pmu->why);
    }
    if (pmus_read(pmus, watchdog, sizeof(watchdog), "/proc/sys/kernel/nmi_watchdog") > 0)
        buf_printf(out, "nmi_watchdog %s\n",
                   watchdog[0] == '0'     ? "off"
                   : pmus->why_no_core[0] ? "on"
                                          : "on: it holds one counter of every CPU");
    const bool found = tracefs_print(state, &where);
    buf_printf(out, "tracefs %s%s\n", found ? "" : "no: ", buf_text(&where));
    buf_free(&where);
    /* libpfm4 reports its interface version only. */
    buf_printf(out, "libpfm4 interface %d.%d\n", PFM_MAJ_VERSION(pfm_get_version()),
               PFM_MIN_VERSION(pfm_get_version()));
}

void perf_print_cpuref(struct backend_state *state, struct buf *out)
{
    const struct pmu *core = pmus_first_core(state->pmus);

#if defined(__x86_64__) || defined(__i386__)
    if (__builtin_cpu_is("intel"))
        buf_str(out,
                "Intel 64 and IA-32 Architectures Software Developer's Manual, Volume 3, chapters "
                "Performance Monitoring and Performance Monitoring Events\n"
                "https://perfmon-events.intel.com/\n");
    else if (__builtin_cpu_is("amd"))
        buf_str(out, "AMD Processor Programming Reference (PPR) of this family and model, section "
                     "Performance Monitor Counters (before family 17h: BIOS and Kernel Developer's "
                     "Guide)\nAMD64 Architecture Programmer's Manual, Volume 2, chapter Debug and "
                     "Performance Resources\n");
#endif
    if (core && strncmp(core->name, "armv", 4) == 0)
        buf_str(out, "the Technical Reference Manual of this Arm core, chapter Performance "
                     "Monitoring Unit\nArm Architecture Reference Manual for A-profile (DDI 0487), "
                     "chapter The Performance Monitors Extension\n");
    if (!core)
        buf_str(out, "none of these events can be counted here: see info/backend\n");
    buf_str(out, "software events and tracepoints: perf_event_open(2), perf-list(1)\n");
}
