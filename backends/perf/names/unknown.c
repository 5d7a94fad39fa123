/*
 * The refusal of an unknown event name: the reason and the names that are similar.
 */
#include "backends/perf/names/names.h"
#include "backends/perf/names/spec.h"

#include "backends/perf/probe/pmu.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>

#define HWMON                                                                                      \
    "is a sensor that perf reads from files: see /sys/class/hwmon, where the same value is"

enum {
    NEAR_LEAST = 3 /* shorter words have too many similar names */
};

/* Events that perf measures itself, or that count nothing. Patterns of fnmatch(3). */
static const struct {
    const char *pattern, *instead;
} perf_own[] = {
    {"dummy", "counts nothing: perf uses it to record other data; leave it out"},
    {"bpf-output", "counts nothing: BPF programs write their own data with it"},
    {"duration_time", "is a time that perf measures itself: see enabled_ns in detail, or the "
                      "elapsed time that pmcstat prints"},
    {"user_time", "is a time that perf measures itself: pmcstat COMMAND prints it, and "
                  "task-clock counts user and kernel time"},
    {"system_time", "is a time that perf measures itself: pmcstat COMMAND prints it, and "
                    "task-clock counts user and kernel time"},
    {"num_*", "is a number that perf reads itself: see info/cpus and lscpu(1)"},
    {"smt_on", "is a number that perf reads itself: see /sys/devices/system/cpu/smt/active"},
    {"system_tsc_freq", "is a number that perf reads itself: the kernel log contains it"},
    {"temp[0-9_]*", HWMON},
    {"fan[0-9_]*", HWMON},
    {"in[0-9]*", HWMON},
    {"curr[0-9]*", HWMON},
    {"power[0-9]*", HWMON},
    {"energy[0-9]*", HWMON},
    {"humidity[0-9]*", HWMON},
    {"pwm[0-9]*", HWMON},
};

int unknown_perf_own(struct word name, struct err *err)
{
    char text[SPELLING_MAX];

    snprintf(text, sizeof(text), "%.*s", (int)name.len, name.p);
    for (size_t i = 0; i < sizeof(perf_own) / sizeof(perf_own[0]); i++)
        if (fnmatch(perf_own[i].pattern, text, FNM_CASEFOLD) == 0)
            return err_set(err, CS01, "\"" WORD_FMT "\" %s", WORD_ARG(name), perf_own[i].instead);
    return -ENOENT;
}

/* Offers the listed tracepoints, or all other listed events, as they must be written: EVENT for
 * generic events and PMUs before PMU_MSR, otherwise PMU/EVENT/. */
static void offer_listed(const struct catalog *catalog, struct pmus *pmus, bool tracepoints,
                         struct near *near)
{
    char full[SPELLING_MAX];

    for (size_t i = 0; near->word.len >= NEAR_LEAST && i < catalog->n; i++) {
        const struct catalog_entry *entry = &catalog->entries[i];
        const struct pmu *pmu = pmus_find(pmus, word_of(entry->class_name));
        const bool terms = pmu && pmu->kind > PMU_BREAKPOINT;

        snprintf(full, sizeof(full), "%s%s%s%s", terms ? pmu->name : "", terms ? "/" : "",
                 entry->event, terms ? "/" : "");
        if (tracepoints == (pmu && pmu->kind == PMU_TRACEPOINT))
            near_offer(near, full);
    }
}

static int refuse_tracepoint(struct spec *spec, struct word text, struct near *near,
                             struct err *err)
{
    struct word rest, group = word_until(text, ':', &rest), name = word_part(rest, ":");
    struct buf where = {0};
    int rc;

    if (tracefs_print(spec->state, &where) || near->n > 0)
        rc = err_set(err, CS01,
                     "no tracepoint \"" WORD_FMT "\" in group \"" WORD_FMT
                     "\", and no event \"" WORD_FMT "\" on this host%s",
                     WORD_ARG(name), WORD_ARG(group), WORD_ARG(group), near_text(near));
    else
        rc = err_set(err, P09,
                     "no event \"" WORD_FMT "\", and tracepoints cannot be found, because %s",
                     WORD_ARG(text), buf_text(&where));
    buf_free(&where);
    return rc;
}

int unknown_event(struct spec *spec, struct word *whole, struct err *err)
{
    struct word rest, text = *whole, head = word_until(text, ':', &rest);
    struct pmus *pmus = spec->state->pmus;
    const bool has_pmu = rest.len > 1 && rest.p[0] == ':';
    const bool tracepoint = !has_pmu && !is_modifier(word_part(rest, ":"));
    struct word name = has_pmu ? word_part(word_from(rest, 1), ":") : head;
    struct catalog catalog = {0};
    struct near near = {.word = name}, near_pmu = {.word = head};

    int rc = has_pmu ? -ENOENT : unknown_perf_own(head, err);
    if (rc != -ENOENT)
        return rc;
    if (has_pmu && !pfm_has_pmu(head, &near_pmu))
        return err_set(err, X06, "libpfm4 has no PMU \"" WORD_FMT "\"%s", WORD_ARG(head),
                       near_text(&near_pmu));
    const bool of_other = pfm_other_processor_has(text);
    if (of_other && pmus->why_no_core[0])
        return spec_refuse(text, pmus->why_no_core, err);
    if (of_other)
        return err_set(err, CS01, "\"" WORD_FMT "\" is an event of other processors: see events/",
                       WORD_ARG(text));
    perf_catalog_add_all(spec->state, &catalog, NULL);
    if (name.len >= NEAR_LEAST)
        generic_offer_names(&near);
    offer_listed(&catalog, pmus, false, &near);
    /*
     * Only users that may count tracepoints learn that a tracepoint does not exist. A misspelt
     * processor event is reported to all users.
     */
    spec->event.needs_kernel = tracepoint && (near.n == 0 || near.best[0].distance > head.len / 3);
    near.word = text;
    if (!has_pmu)
        offer_listed(&catalog, pmus, true, &near);
    catalog_free(&catalog);
    if (tracepoint)
        return refuse_tracepoint(spec, text, &near, err);
    return err_set(
        err, CS01, "no event \"" WORD_FMT "\" on this host%s%s", WORD_ARG(name), near_text(&near),
        near.n == 0 && pmus->why_no_core[0]
            ? ", which has no hardware counters: ls events/software lists its software events"
            : "");
}
