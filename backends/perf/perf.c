/*
 * The perf backend: opening, closing, and its table of functions.
 */
#include "backends/perf/count/counter.h"
#include "backends/perf/names/names.h"
#include "backends/perf/probe/probe.h"
#include "backends/perf/record/recorder.h"
#include "backends/perf/record/sampling.h"
#include "backends/perf/record/sideband.h"
#include "backends/perf/state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void perf_close(struct backend_state *state)
{
    assert(__atomic_load_n(&state->n_counters, __ATOMIC_ACQUIRE) == 0);
    sideband_free(state->sideband);
    pmus_free(state->pmus);
    pthread_mutex_destroy(&state->setup);
    free(state);
}

static int perf_open(const char *options, const struct host *host, struct host_state *host_state,
                     const struct loop *loop, const struct sink *sink, struct backend_state **out,
                     struct err *err)
{
    struct backend_state *state = calloc(1, sizeof(*state));
    struct word word, key, value, prefix = word_of("");
    struct scan scan = scan_of(word_of(options ? options : ""));

    /* perf_root=DIR: a prefix of /sys and /proc, for tests. */
    while (scan_word(&scan, &word))
        if (word_split(word, &key, &value) && word_is(key, "perf_root"))
            prefix = value;
    char *root = word_dup(prefix);
    if (state && root) {
        state->host = host;
        state->host_state = host_state;
        state->loop = loop;
        state->sink = sink;
        pthread_mutex_init(&state->setup, NULL);
        pfm_prepare();
        state->pmus = pmus_new(root);
        state->sideband = sideband_new(state);
    }
    free(root);
    if (!state || !state->pmus || !state->sideband) {
        if (state)
            perf_close(state);
        return err_set(err, E32, "no memory or no file descriptor was left for the list of PMUs");
    }
    *out = state;
    return 0;
}

static const struct class_info *perf_classes(struct backend_state *state, unsigned *n)
{
    *n = state->pmus->n_classes;
    return state->pmus->classes;
}

static void perf_cpu_changed(struct backend_state *state, unsigned cpu, bool online)
{
    if (!online)
        return;
    recorders_add_cpu(state, cpu, output_redirect_cpu);
    sideband_deliver_loss(state->sideband);
}

const struct backend perf_backend = {
    .name = "perf",
    .prepare = pfm_prepare,
    .open = perf_open,
    .close = perf_close,
    .finish_adoption = guards_listen,
    .classes = perf_classes,
    .print_facts = perf_print_facts,
    .print_cpuref = perf_print_cpuref,
    .guard = perf_guard,
    .unguard = perf_unguard,
    .guard_lost_events = perf_guard_lost_events,
    .guard_fd = perf_guard_fd,
    .guard_adopt = perf_guard_adopt,
    .guard_forget = guard_free,
    .recorder_new = perf_recorder_new,
    .recorder_facts = perf_recorder_facts,
    .drain = perf_drain,
    .commit_taken = perf_commit_taken,
    .recorder_print = perf_recorder_print,
    .recorder_adopt = perf_recorder_adopt,
    .recorder_forget = perf_recorder_forget,
    .recorder_free = perf_recorder_free,
    .sample_limits = perf_sample_limits,
    .drain_sideband = perf_drain_sideband,
    .cpu_changed = perf_cpu_changed,
    .is_qualifier = perf_is_qualifier,
    .resolve = perf_resolve,
    .verify = perf_verify,
    .check_set = perf_check_set,
    .check_filter = perf_check_filter,
    .tracepoint_format = perf_tracepoint_format,
    .print_tracing_data = perf_print_tracing_data,
    .catalog_mark = perf_catalog_mark,
    .catalog_add_all = perf_catalog_add_all,
    .describe = perf_describe,
    .foreign_rows = perf_foreign_rows,
    .attach = perf_attach,
    .track = perf_track,
    .start = perf_start,
    .stop = perf_stop,
    .read = perf_read,
    .read_cost = perf_read_cost,
    .counter_facts = perf_counter_facts,
    .each_process = perf_each_process,
    .covers = perf_covers,
    .print = perf_print,
    .adopt = perf_adopt,
    .forget = perf_forget,
    .free = perf_free,
};
