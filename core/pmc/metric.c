/*
 * The table of metrics and the computation of their values.
 */
#include "core/pmc/metric.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PREFIX  METRIC_CLASS "/"
#define ELAPSED "elapsed_ns" /* a divisor: time since the start */

enum {
    NAME_BYTES = 64
};

struct metric {
    const char *name;
    const char *numerator; /* a generic name; with ":u" or ":uk" in these modes only */
    const char *divisor;   /* a generic name, or ELAPSED */
    double scale;          /* multiplies numerator / divisor */
    const char *unit;      /* "-": a plain ratio */
    const char *description;
};

#define RATIO(name, numerator, divisor, about)                                                     \
    {                                                                                              \
        name, numerator, divisor, 1, "-", about                                                    \
    }
#define MPKI(name, misses, about)                                                                  \
    {                                                                                              \
        name, misses, "instructions", 1000, "1/1000-instructions", about                           \
    }
static const struct metric metrics[] = {
    RATIO("ipc", "instructions", "cycles", "instructions per cycle"),
    RATIO("cpi", "cycles", "instructions", "cycles per instruction"),
    RATIO("branch-miss-ratio", "branch-misses", "branches", "part of the branches mispredicted"),
    MPKI("branch-mpki", "branch-misses", "mispredicted branches per 1000 instructions"),
    RATIO("cache-miss-ratio", "cache-misses", "cache-references",
          "part of the accesses to the cache, mostly the last level, that missed"),
    MPKI("llc-mpki", "LLC-load-misses", "loads that missed the last cache, per 1000 instructions"),
    MPKI("l1d-mpki", "L1-dcache-load-misses",
         "loads that missed the first data cache, per 1000 instructions"),
    MPKI("dtlb-mpki", "dTLB-load-misses", "loads that missed the data TLB, per 1000 instructions"),
    MPKI("itlb-mpki", "iTLB-load-misses",
         "fetches that missed the instruction TLB, per 1000 instructions"),
    RATIO("frontend-stalls", "stalled-cycles-frontend", "cycles",
          "part of the cycles in which no instruction was issued"),
    RATIO("backend-stalls", "stalled-cycles-backend", "cycles",
          "part of the cycles in which nothing could be retired"),
    {"ghz", "cycles:uk", "task-clock", 1, "GHz",
     "cycles per nanosecond on the CPU; of whole CPUs, idle time included"},
    {"cpus-used", "task-clock", ELAPSED, 1, "CPUs",
     "CPUs that were busy, on average; of whole CPUs, idle time included"},
    RATIO("user-share", "cycles:u", "cycles:uk", "part of the cycles in user mode"),
};

#define METRICS (sizeof metrics / sizeof metrics[0])

static bool is_elapsed(const char *operand)
{
    return strcmp(operand, ELAPSED) == 0;
}

/* ---- spelling ---- */

const char *metric_named(struct word name)
{
    for (unsigned i = 0; i < METRICS; i++)
        if (word_alike(name, metrics[i].name, true))
            return metrics[i].name;
    return NULL;
}

bool metric_is(struct word word)
{
    const size_t len = strlen(PREFIX);

    return word.len >= len && word_alike((struct word){word.p, len}, PREFIX, false);
}

/* Finds the metric of a word that metric_is(). Sets *name to the text after "metric/", and *suffix
 * to the modifiers and qualifiers after the name. Returns NULL if no metric has the name. */
static const struct metric *metric_find(struct word word, struct word *name, struct word *suffix)
{
    size_t len = 0;

    word = (struct word){word.p + strlen(PREFIX), word.len - strlen(PREFIX)};
    while (len < word.len && word.p[len] != ':' && word.p[len] != ',')
        len++;
    *name = (struct word){word.p, len};
    *suffix = (struct word){word.p + len, word.len - len};
    for (unsigned i = 0; i < METRICS; i++)
        if (word_alike(*name, metrics[i].name, true))
            return &metrics[i];
    return NULL;
}

int metric_events(struct word word, int (*add)(void *arg, const char *name, struct err *err),
                  void *arg, struct err *err)
{
    struct word name, suffix;
    const struct metric *metric = metric_find(word, &name, &suffix);
    int rc = 0;

    if (!metric) {
        struct near near = {.word = name};

        for (unsigned i = 0; i < METRICS; i++)
            near_offer(&near, metrics[i].name);
        return err_set(err, CS01, "no metric \"" WORD_FMT "\"%s; all metrics: ls events/metric",
                       WORD_ARG(name), near_text(&near));
    }
    for (int i = 0; rc == 0 && i < 2; i++) {
        const char *operand = i == 1 ? metric->divisor : metric->numerator;
        char text[2 * NAME_BYTES];

        if (is_elapsed(operand))
            continue;
        if (suffix.len >= NAME_BYTES || (suffix.len && strchr(operand, ':')))
            return err_set(err, CS03,
                           "\"" WORD_FMT "\": remove it, because nothing may follow metric/%s",
                           WORD_ARG(suffix), metric->name);
        snprintf(text, sizeof text, "%s%.*s", operand, (int)suffix.len, suffix.p);
        rc = add(arg, text, err);
    }
    return rc;
}

bool metric_needs(const char *event)
{
    const size_t len = strcspn(event, ":,");

    for (unsigned i = 0; i < METRICS; i++)
        for (int k = 0; k < 2; k++) {
            const char *operand = k ? metrics[i].divisor : metrics[i].numerator;

            if (strcspn(operand, ":") == len && memcmp(operand, event, len) == 0)
                return true;
        }
    return false;
}

/* ---- computing ---- */

/* Suffixes of the modes in which an event counts. */
static const char *const modes[] = {":uk", ":u", ":k"};

/* Finds the event of an operand, such as "cycles" or "cycles:u". Without a suffix its modes must be
 * those in `mode`. */
static const struct plan_event *operand_event(const struct metric_reading *reading,
                                              const char *operand, const char *mode)
{
    const char *colon = strchr(operand, ':');
    const size_t len = colon ? (size_t)(colon - operand) : strlen(operand);

    for (unsigned i = 0; i < reading->n; i++) {
        const struct plan_event *plan = &reading->events[i];
        const char *generic = plan->event->generic, *in = colon ? colon : mode;

        if (strlen(generic) == len && memcmp(generic, operand, len) == 0 &&
            (plan->event->counts_both_modes || (plan->user == (strchr(in, 'u') != NULL) &&
                                                plan->kernel == (strchr(in, 'k') != NULL))))
            return plan;
    }
    return NULL;
}

static double value_of(const struct metric_reading *reading, const struct plan_event *found)
{
    return found ? (double)reading->value[found - reading->events] : (double)reading->elapsed_ns;
}

/* The value of a metric in one mode. */
struct result {
    bool known; /* false: the divisor is 0 */
    double value;
};

/* Computes a metric in a mode, which must be one of modes[]. Returns false if the set lacks the
 * metric's events in this mode. A metric that is the same for all modes is computed only for
 * modes[0]. */
static bool compute(const struct metric *metric, const struct metric_reading *reading,
                    const char *mode, struct result *out)
{
    const struct plan_event *numerator = operand_event(reading, metric->numerator, mode);
    const struct plan_event *divisor = operand_event(reading, metric->divisor, mode);
    bool of_any_mode =
        numerator && (numerator->event->counts_both_modes || strchr(metric->numerator, ':'));

    if (!numerator || (!divisor && !is_elapsed(metric->divisor)) ||
        (of_any_mode && mode != modes[0]))
        return false;
    const double divide_by = value_of(reading, divisor);
    out->known = divide_by != 0;
    out->value = out->known ? value_of(reading, numerator) / divide_by * metric->scale : 0;
    return true;
}

void metric_print(bool known, double value, struct buf *out)
{
    if (known)
        buf_printf(out, "%.6f", value);
    else
        buf_char(out, '-');
}

static void print_line(const char *name, const char *suffix, const struct result *result,
                       const char *unit, bool partial, struct buf *out)
{
    buf_printf(out, "%s%s ", name, suffix);
    metric_print(result->known, result->value, out);
    buf_printf(out, " %s%s\n", unit, partial ? " partial" : "");
}

static bool is_cpu_clock(const struct plan_event *plan)
{
    return strcmp(plan->event->generic, "task-clock") == 0 ||
           strcmp(plan->event->generic, "cpu-clock") == 0;
}

/* Prints an event's rate: "per" is "s" or "cpu-s", and ns the time that the rate divides by. */
static void print_rate(const struct metric_reading *reading, unsigned i, const char *per, double ns,
                       bool partial, struct buf *out)
{
    const struct event *event = reading->events[i].event;
    struct result result = {.known = ns > 0};
    char suffix[8], unit[sizeof event->unit + 8];

    if (result.known)
        result.value = (double)reading->value[i] * event->scale * 1e9 / ns;
    snprintf(suffix, sizeof suffix, "/%s", per);
    snprintf(unit, sizeof unit, "%s/%s", event->unit[0] ? event->unit : "1",
             per[0] == 'c' ? "CPU-s" : "s");
    print_line(event->written, suffix, &result, unit, partial, out);
}

void metrics_print(const struct metric_reading *reading, bool partial, struct buf *out)
{
    const struct plan_event *clock = NULL; /* counts CPU time, in all modes */

    for (unsigned i = 0; i < METRICS; i++) {
        const struct metric *metric = &metrics[i];
        struct result result[3];
        bool counts[3];
        unsigned n = 0; /* if a set counts in several modes, the name gets the mode as suffix */

        for (unsigned m = 0; m < 3; m++)
            n += counts[m] = compute(metric, reading, modes[m], &result[m]);
        for (unsigned m = 0; m < 3; m++)
            if (counts[m])
                print_line(metric->name, n > 1 && m ? modes[m] : "", &result[m], metric->unit,
                           partial, out);
    }
    for (unsigned i = 0; i < reading->n && !clock; i++)
        if (is_cpu_clock(&reading->events[i]))
            clock = &reading->events[i];
    for (unsigned i = 0; i < reading->n; i++)
        if (!is_cpu_clock(&reading->events[i])) {
            print_rate(reading, i, "s", (double)reading->elapsed_ns, partial, out);
            if (clock)
                print_rate(reading, i, "cpu-s", value_of(reading, clock), partial, out);
        }
}

bool metric_value(struct word word, const struct metric_reading *reading, double *value)
{
    struct word name, suffix;
    const struct metric *metric = metric_find(word, &name, &suffix);
    struct result result = {.known = false};

    for (unsigned m = 0; metric && m < 3; m++) {
        const struct word mode = {modes[m], strlen(modes[m])};
        bool asked =
            suffix.len == 0 || (suffix.len == mode.len && memcmp(suffix.p, mode.p, mode.len) == 0);

        if (asked && compute(metric, reading, modes[m], &result))
            break;
    }
    *value = result.value;
    return result.known;
}

/* ---- events/metric ---- */

struct here {
    const struct backend *backend;
    struct backend_state *state;
    const struct class_info *class; /* class of its hardware events; NULL: none yet */
};

static int counts_here(void *arg, const char *name, struct err *err)
{
    struct here *here = arg;
    struct event event;
    unsigned n;
    int rc = here->backend->resolve(here->state, name, &event, err);

    if (rc == 0 && here->backend->verify)
        rc = here->backend->verify(here->state, &event, err);
    if (rc) {
        event_clear(&event);
        return rc;
    }
    const struct class_info *class = &here->backend->classes(here->state, &n)[event.class_index];
    event_clear(&event);
    if (!class->hardware)
        return 0;
    if (here->class && here->class != class)
        return -EINVAL; /* events of two kinds of cores cannot be a set */
    here->class = class;
    return 0;
}

void metrics_add_all(const struct backend *backend, struct backend_state *state,
                     struct catalog *out)
{
    for (unsigned i = 0; i < METRICS; i++) {
        struct here here = {backend, state, NULL};
        char text[NAME_BYTES];
        int len = snprintf(text, sizeof text, PREFIX "%s", metrics[i].name);
        const struct word word = {text, (size_t)len};

        if (metric_events(word, counts_here, &here, NULL) == 0)
            catalog_add(out, METRIC_CLASS, metrics[i].name);
    }
}

int catalog_fill(const struct backend *backend, struct backend_state *state, struct catalog *out,
                 struct err *err)
{
    int rc = backend->catalog_add_all(state, out, err);

    if (rc == 0)
        metrics_add_all(backend, state, out);
    return rc ? rc : catalog_finish(out);
}

static int add_word(void *arg, const char *name, struct err *err)
{
    (void)err;
    buf_printf(arg, " %s", name);
    return 0;
}

int metric_describe(const char *name, struct buf *out)
{
    char text[NAME_BYTES];

    for (unsigned i = 0; i < METRICS; i++) {
        const struct metric *metric = &metrics[i];

        if (strcmp(metric->name, name) != 0)
            continue;
        int len = snprintf(text, sizeof text, PREFIX "%s", name);
        buf_printf(out, "event %s\ndescription %s\nformula ", text, metric->description);
        if (metric->scale != 1)
            buf_printf(out, "%.0f * ", metric->scale);
        buf_printf(out, "%s / %s\nneeds", metric->numerator, metric->divisor);
        metric_events((struct word){text, (size_t)len}, add_word, out, NULL);
        buf_printf(out, "\nunit %s\n", metric->unit);
        return 0;
    }
    return -ENOENT;
}
