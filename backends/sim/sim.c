/*
 * The simulated PMU as a struct backend. Mount options describe the simulated host:
 *
 *   sim_cpus=4                       CPUs 0-3; a list ("0-1,3", "5-5") gives sparse numbers
 *   sim_offline=LIST                 CPUs of sim_cpus that are always offline
 *   sim_rows=4                       rows of the one hardware class "sim"
 *   sim_class=NAME:ROWS:WIDTH[:LIST] a class that replaces "sim"; repeatable; LIST: its CPUs
 *   sim_fixed=1                      adds a last row to each hardware class; it counts only
 *                                    instructions
 *   sim_lose_after_ms=N              hardware counters are lost after N ms, until started again
 */
#include "backends/sim/sim.h"

#include "backends/backends.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- the words of the options ---- */

enum option {
    CPUS,
    OFFLINE,
    ROWS,
    FIXED,
    LOSE,
    CLASS
};

static const struct {
    const char *key, *wanted;
    uint64_t min, max; /* of a number */
} allowed[] = {
    [CPUS] = {"sim_cpus", "1-8192 CPUs: a number (4) or a list of CPUs (0-1,3)", 1, CPUS_MAX},
    [OFFLINE] = {"sim_offline", "a list of CPUs that are among sim_cpus (0-1,3), but not all", 0,
                 0},
    [ROWS] = {"sim_rows", "a number of rows is 1-63", 1, SIM_ROWS - 1},
    [FIXED] = {"sim_fixed", "1 or 0", 0, 1},
    [LOSE] = {"sim_lose_after_ms", "milliseconds, 0 for never", 0, 1000000000},
    [CLASS] = {"sim_class",
               "NAME:ROWS:WIDTH[:CPUS], each name once, of letters, digits and _, and "
               "neither software nor generic; 1-63 rows of 1-64 bits; its CPUs are a "
               "list of some of sim_cpus; at most 7",
               0, 0},
};

/* The values as written; empty if an option was not written. */
struct option_values {
    struct word value[CLASS];
    struct word classes[SIM_CLASSES - 1];
    unsigned n_classes;
};

static int refuse(struct err *err, enum option option, struct word value)
{
    return err_set(err, P02, "%s=" WORD_FMT ": %s", allowed[option].key, WORD_ARG(value),
                   allowed[option].wanted);
}

/* ---- reading the words ---- */

/* Reads one option. Skips words that do not start with "sim". */
static int option_read(struct option_values *values, struct word word, struct err *err)
{
    struct word key, value;

    if (word.len < 3 || memcmp(word.p, "sim", 3) != 0)
        return 0;
    if (!word_split(word, &key, &value) || value.len == 0)
        return err_set(err, P01,
                       "\"" WORD_FMT "\": options are written key=value, for example sim_cpus=4",
                       WORD_ARG(word));
    struct near near = {.word = key};
    for (unsigned i = 0; i <= CLASS; i++) {
        near_offer(&near, allowed[i].key);
        if (!word_alike(key, allowed[i].key, false))
            continue;
        if (i == CLASS && values->n_classes == SIM_CLASSES - 1)
            return refuse(err, CLASS, value);
        *(i == CLASS ? &values->classes[values->n_classes++] : &values->value[i]) = value;
        return 0;
    }
    return err_set(err, E24, "no option \"" WORD_FMT "\" of the simulated PMU%s", WORD_ARG(key),
                   near_text(&near));
}

static int number_read(const struct option_values *values, enum option option, uint64_t *to,
                       struct err *err)
{
    const struct word value = values->value[option];

    return value.len == 0 || word_u64(value, false, allowed[option].min, allowed[option].max, to)
               ? 0
               : refuse(err, option, value);
}

/* ---- CPUs ---- */

static bool cpus_within(const struct cpus *part, const struct cpus *whole)
{
    for (int c = cpus_next(part, 0); c >= 0; c = cpus_next(part, c + 1))
        if (!cpus_has(whole, (unsigned)c))
            return false;
    return cpus_count(part) > 0;
}

/* Reads sim_cpus, a number of CPUs ("5" is five) or a list ("5-5" is one), and sim_offline. */
static int cpus_make(struct sim_pmu *pmu, const struct option_values *values, struct err *err)
{
    const struct word cpus = values->value[CPUS], offline = values->value[OFFLINE];
    uint64_t n = cpus.len > 0 ? 0 : 4;
    struct cpus gone = {0};

    if (n == 0 && !word_u64(cpus, false, 0, UINT64_MAX, &n)) {
        if (cpus_parse(&pmu->possible, cpus) != 0)
            return refuse(err, CPUS, cpus);
    } else if (n < allowed[CPUS].min || n > allowed[CPUS].max) {
        return refuse(err, CPUS, cpus);
    }
    for (unsigned cpu = 0; cpu < n; cpu++)
        if (!cpus_add(&pmu->possible, cpu))
            return err_nomem(err);
    if (!cpus_copy(&pmu->online, &pmu->possible))
        return err_nomem(err);
    if (offline.len == 0)
        return 0;
    bool ok = cpus_parse(&gone, offline) == 0 && cpus_within(&gone, &pmu->possible);
    for (int c = cpus_next(&gone, 0); c >= 0; c = cpus_next(&gone, c + 1))
        cpus_remove(&pmu->online, (unsigned)c);
    cpus_free(&gone);
    return ok && cpus_count(&pmu->online) > 0 ? 0 : refuse(err, OFFLINE, offline);
}

/* ---- classes ---- */

static struct class_info *class_add(struct sim_pmu *pmu, struct word name, uint64_t rows,
                                    uint64_t width)
{
    const unsigned index = pmu->n_classes++;
    struct class_info *class = &pmu->classes[index];

    memcpy(pmu->names[index], name.p, name.len);
    *class = (struct class_info){.name = pmu->names[index],
                                 .rows = (unsigned)rows,
                                 .width = (unsigned)width,
                                 .hardware = rows > 0,
                                 .capabilities =
                                     CAP_INTERRUPT | CAP_USER | CAP_SYSTEM | CAP_READ | CAP_WRITE,
                                 .row_events = rows > 0 ? pmu->row_events[index] : NULL};
    if (rows > 0)
        class->capabilities |= CAP_EDGE | CAP_THRESHOLD | CAP_INVERT | CAP_QUALIFIER;
    return class;
}

/* Parses NAME:ROWS:WIDTH[:LIST] and adds the class. Needs the CPUs of the PMU. */
static int class_parse(struct sim_pmu *pmu, struct word text, struct err *err)
{
    struct word rest;
    const struct word name = word_until(text, ':', &rest), rows = word_until(rest, ':', &rest);
    const struct word width = word_until(rest, ':', &rest);
    bool legal = name.len > 0 && name.len < SIM_NAME && !word_alike(name, "software", true) &&
                 !word_alike(name, "generic", true);
    uint64_t n_rows, bits;

    for (size_t i = 0; i < name.len; i++)
        legal &= isalnum((unsigned char)name.p[i]) || name.p[i] == '_';
    for (unsigned i = 0; i < pmu->n_classes; i++)
        legal &= !word_alike(name, pmu->names[i], true);
    if (!legal || !word_u64(rows, false, 1, SIM_ROWS - 1, &n_rows) ||
        !word_u64(width, false, 1, 64, &bits))
        return refuse(err, CLASS, text);
    struct class_info *class = class_add(pmu, name, n_rows + pmu->fixed, bits);
    return rest.len == 0 || (cpus_parse(&class->cpus, rest) == 0 &&
                             cpus_within(&class->cpus, &pmu->possible))
               ? 0
               : refuse(err, CLASS, text);
}

/* ---- all options ---- */

static void shape_free(struct sim_pmu *pmu)
{
    for (unsigned i = 0; i < pmu->n_classes; i++)
        cpus_free(&pmu->classes[i].cpus);
    pmu->n_classes = 0;
    cpus_free(&pmu->possible);
    cpus_free(&pmu->online);
}

/* Reads the options, which may be NULL. Returns 0, P01, P02, E24 or E32. On failure the PMU is
 * empty. */
static int shape_parse(struct sim_pmu *pmu, const char *options, struct err *err)
{
    struct option_values values = {.n_classes = 0};
    uint64_t rows = 4;
    struct scan scan = scan_of(word_of(options ? options : ""));
    struct word word;
    int rc = 0;

    *pmu = (struct sim_pmu){.n_classes = 0};
    while (rc == 0 && scan_word(&scan, &word))
        rc = option_read(&values, word, err);
    if (rc == 0)
        rc = number_read(&values, FIXED, &pmu->fixed, err);
    if (rc == 0)
        rc = number_read(&values, LOSE, &pmu->lose_after_ms, err);
    if (rc == 0)
        rc = cpus_make(pmu, &values, err);
    if (rc == 0)
        rc = number_read(&values, ROWS, &rows, err);
    if (rc == 0 && values.n_classes > 0 && values.value[ROWS].len > 0)
        rc = err_set(err, P02, "sim_rows and sim_class cannot both be set: give one of the two");
    if (rc == 0 && values.n_classes == 0)
        class_add(pmu, word_of("sim"), rows + pmu->fixed, 48);
    for (unsigned i = 0; rc == 0 && i < values.n_classes; i++)
        rc = class_parse(pmu, values.classes[i], err);
    class_add(pmu, word_of("software"), 0, 64);
    if (rc != 0)
        shape_free(pmu);
    return rc;
}

/* ---- the backend ---- */

/* The host reports deaths and CPUs never change, so neither loop nor sink is needed. */
static int sim_open(const char *options, const struct host *host, struct host_state *host_state,
                    const struct loop *loop, const struct sink *sink, struct backend_state **state,
                    struct err *err)
{
    struct backend_state *sim = calloc(1, sizeof *sim);

    (void)loop, (void)sink;
    if (sim == NULL)
        return err_nomem(err);
    sim->host = host;
    sim->host_state = host_state;
    int rc = shape_parse(&sim->pmu, options, err);
    if (rc != 0) {
        free(sim);
        return rc;
    }
    pthread_mutex_init(&sim->lock, NULL);
    events_count_for_rows(&sim->pmu);
    *state = sim;
    return 0;
}

static void sim_close(struct backend_state *state)
{
    if (state == NULL)
        return;
    for (struct counter *counter; (counter = LIST_FIRST(&state->counters));) {
        assert(counter->forgotten); /* left for a later worker */
        counter_free(counter);
    }
    for (struct recorder *recorder; (recorder = LIST_FIRST(&state->recorders));)
        sim_recorder_free(recorder);
    shape_free(&state->pmu);
    pthread_mutex_destroy(&state->lock);
    free(state);
}

static const struct class_info *sim_classes(struct backend_state *state, unsigned *n)
{
    *n = state->pmu.n_classes;
    return state->pmu.classes;
}

static void sim_print_facts(struct backend_state *state, struct buf *out)
{
    if (state->pmu.fixed)
        buf_str(out, "fixed the last row of each hardware class counts only instructions\n");
    if (state->pmu.lose_after_ms > 0)
        buf_printf(out, "lose_after_ms %" PRIu64 "\n", state->pmu.lose_after_ms);
}

static void sim_print_cpuref(struct backend_state *state, struct buf *out)
{
    (void)state;
    buf_str(out, "simulated PMU: its events are described in events/\n");
}

static void sim_cpus(struct backend_state *state, struct cpus *possible, struct cpus *online)
{
    cpus_copy(possible, &state->pmu.possible);
    cpus_copy(online, &state->pmu.online);
}

const struct backend sim_backend = {
    .name = "sim",
    .open = sim_open,
    .close = sim_close,
    .classes = sim_classes,
    .print_facts = sim_print_facts,
    .print_cpuref = sim_print_cpuref,
    .simulated_cpus = true,
    .cpus = sim_cpus,
    .recorder_new = sim_recorder_new,
    .recorder_facts = sim_recorder_facts,
    .drain = sim_drain,
    .recorder_print = sim_recorder_print,
    .recorder_adopt = sim_recorder_adopt,
    .recorder_forget = sim_recorder_forget,
    .recorder_free = sim_recorder_free,
    .sample_limits = sim_sample_limits,
    .is_qualifier = sim_is_qualifier,
    .resolve = events_resolve,
    .check_set = events_check_set,
    .catalog_add_all = events_catalog_add_all,
    .describe = events_describe,
    .attach = counter_attach,
    .start = counter_start,
    .stop = counter_stop,
    .read = counter_read,
    .read_cost = counter_read_cost,
    .counter_facts = counter_facts,
    .each_process = counter_each_process,
    .covers = counter_covers,
    .print = counter_print,
    .adopt = counter_adopt,
    .forget = counter_forget,
    .free = counter_free,
};
