/*
 * The texts of one PMC: config, event, mode, target, ctl, count, detail, status, error.
 */
#include "core/change/change.h"
#include "core/engine.h"
#include "core/pmc/count.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Takes a snapshot with counts of the PMC. Returns P08 if it has no event. */
static int snapshot_of_set(struct call *call, bool pids,
                           int (*print)(struct call *call, struct snapshot *snapshot))
{
    if (!call->pmc->set)
        return err_set(&call->err, P08, "%s has no event yet: write one to event", call->pmc->name);
    return snapshot_take(call, &call->pmc, 1, true, pids, print);
}

/* Notes for poll that the reader of this open file has seen the state with this change number. */
static void note_seen_change(struct call *call, uint64_t change)
{
    if (!call->open)
        return;
    call->open->has_seen = true;
    call->open->seen_change = change;
}

/* Ends the links of targets that have exited, then takes a snapshot of the PMC: see
 * change_end_dead_links() and snapshot_take(). */
static int snapshot_after_exits(struct call *call, bool counts, bool pids,
                                int (*print)(struct call *call, struct snapshot *snapshot))
{
    int rc = change_end_dead_links(call);

    return rc ? rc : snapshot_take(call, &call->pmc, 1, counts, pids, print);
}

/* ---- settings ---- */

static void print_event_words(const struct pmc *pmc, const char *before, struct buf *out)
{
    for (unsigned i = 0; i < pmc_events(pmc); i++)
        buf_printf(out, "%s%s\n", before, pmc->set->event[i].written);
}

int show_event(struct call *call)
{
    print_event_words(call->pmc, "", call->out);
    return CALL_DONE;
}

int show_mode(struct call *call)
{
    buf_printf(call->out, "%s\n", mode_table[call->pmc->mode_in_use].name);
    return CALL_DONE;
}

int show_error(struct call *call)
{
    buf_printf(call->out, "%s\n", call->pmc->error ? call->pmc->error : "ok");
    return CALL_DONE;
}

/* Prints a line for each target that has not ended, with `before` at its start. nameless: also
 * prints targets without a number in the reader's PID namespace, and marks cgroups that do not
 * exist now. */
static void print_targets(const struct snapshot_item *item, const char *before, bool nameless,
                          struct buf *out)
{
    const struct pmc *pmc = item->pmc;

    for (unsigned i = 0; i < item->links->n; i++) {
        const struct link *link = item->links->link[i];

        if (link->state == LINK_ENDED || (pmc->cpus.all && link->kind == TARGET_CPU))
            continue;
        if (!nameless && link->kind <= TARGET_THREAD && !item->shown[i])
            continue;
        buf_str(out, before);
        link_print(link, item->shown[i], false, out);
        if (nameless && link_waits(link))
            buf_str(out, " waiting");
        buf_char(out, '\n');
    }
    if (pmc->cpus.all)
        buf_printf(out, "%sall\n", before);
}

static int print_target(struct call *call, struct snapshot *snapshot)
{
    note_seen_change(call, snapshot->item[0].change_number);
    print_targets(&snapshot->item[0], "", true, call->out);
    return CALL_DONE;
}

/* Prints the events, all settings except lifetime and force, and the targets. Settings with their
 * default are printed too, so that a copy sets all of them. */
static int print_config(struct call *call, struct snapshot *snapshot)
{
    const struct pmc *pmc = snapshot->item[0].pmc;
    /* without an event kernel= is not decided: show the value that the reader would get */
    const bool decided = pmc->set || (pmc->settings.written_keys & KEY_BIT(KEY_KERNEL));
    const bool kernel =
        decided ? pmc->settings.word[KEY_KERNEL] : access_kernel(pmc->instance, call->rights);
    struct scan scan = scan_of(word_of(pmc->metrics ? pmc->metrics : ""));
    struct word word;

    for (unsigned key = 0; key < KEYS; key++) {
        if (key == KEY_EVENT) {
            print_event_words(pmc, "event=", call->out);
            /* the events of metrics are already in the set, so a copy is equal */
            while (scan_word(&scan, &word))
                buf_printf(call->out, "event=" WORD_FMT "\n", WORD_ARG(word));
        }
        if (key == KEY_EVENT || key == KEY_TARGET || key == KEY_LIFETIME || key == KEY_FORCE)
            continue;
        buf_printf(call->out, "%s=", key_table[key].name);
        if (key == KEY_KERNEL)
            buf_str(call->out, kernel ? "on" : "off");
        else
            settings_print(&pmc->settings, key, pmc_events(pmc), call->out);
        buf_char(call->out, '\n');
    }
    print_targets(&snapshot->item[0], "target=", false, call->out);
    return CALL_DONE;
}

int show_config(struct call *call)
{
    return snapshot_after_exits(call, false, true, print_config);
}

int show_target(struct call *call)
{
    return snapshot_after_exits(call, false, true, print_target);
}

/* ---- the state ---- */

static int print_ctl(struct call *call, struct snapshot *snapshot)
{
    (void)snapshot;
    note_seen_change(call, call->pmc->change_number);
    buf_printf(call->out, "%s\n", state_table[call->pmc->state].name);
    return CALL_DONE;
}

/* Takes a snapshot, because armed and lost are detected by reading. */
int show_ctl(struct call *call)
{
    const struct pmc *pmc = call->pmc;
    int rc = change_end_dead_links(call);

    if (rc)
        return rc;
    if (pmc->state == PMC_ARMED || pmc->state == PMC_RUNNING || pmc->state == PMC_LOST)
        return snapshot_take(call, &call->pmc, 1, true, false, print_ctl);
    return print_ctl(call, NULL);
}

static void status_line(struct buf *out, const char *name, const char *value)
{
    buf_printf(out, "%s %s\n", name, value);
}

static void status_number(struct buf *out, const char *name, uint64_t value)
{
    buf_printf(out, "%s %" PRIu64 "\n", name, value);
}

static void status_rows(const struct pmc *pmc, struct buf *out)
{
    const char *before = "";

    buf_str(out, pmc->set ? "unit" : "unit -");
    for (unsigned i = 0; pmc->set && i < pmc->set->n; i++)
        buf_printf(out, " %s", pmc->set->event[i].unit[0] ? pmc->set->event[i].unit : "-");
    buf_str(out, "\nrow ");
    for (unsigned i = 0; pmc->claim && i < pmc->claim->n; i++)
        for (unsigned row = 0; row < 64; row++)
            if (pmc->claim->member[i].got >> row & 1) {
                buf_printf(out, "%s%u", before, row);
                before = ",";
            }
    buf_str(out, *before ? "\n" : "-\n");
}

/* Prints "period 1000 (asked 10, mincount)", "freq 997" or "-": the value in use and, if it
 * differs, the setting. */
static void status_sampling(const struct pmc *pmc, struct buf *out)
{
    const struct sampling *sampling = &pmc->sampling;

    buf_str(out, "sampling ");
    if (sampling->freq)
        buf_printf(out, "freq %llu", (unsigned long long)sampling->freq);
    else if (sampling->period)
        buf_printf(out, "period %llu", (unsigned long long)sampling->period);
    else
        buf_char(out, '-');
    if (sampling->slowed)
        buf_printf(out, " (asked %llu, a clock and not the superuser's)",
                   (unsigned long long)sampling->asked);
    else if (sampling->asked && sampling->freq)
        buf_printf(out, " (asked %llu, the system allows %llu)",
                   (unsigned long long)sampling->asked, (unsigned long long)sampling->freq);
    else if (sampling->asked)
        buf_printf(out, " (asked %llu, mincount)", (unsigned long long)sampling->asked);
    if (sampling->chain_user || sampling->chain_kernel)
        buf_printf(out, ", depth %u", sampling->depth);
    if (sampling->depth_asked)
        buf_printf(out, " (asked %u, callchaindepth)", sampling->depth_asked);
    if (sampling->stack)
        buf_printf(out, ", stack %u", sampling->stack);
    buf_char(out, '\n');
}

static int print_status(struct call *call, struct snapshot *snapshot)
{
    const struct snapshot_item *item = &snapshot->item[0];
    const struct pmc *pmc = item->pmc;
    struct buf *out = call->out;
    uint64_t gap_ns = 0, threads = 0, descriptors = pmc->recorded.fds;
    struct log_stats stats;
    bool waits = false;

    pmc_log_stats(pmc, &stats);
    for (unsigned i = 0; i < item->links->n; i++) {
        const struct link *link = item->links->link[i];

        gap_ns += link->gap_ns;
        if (link->state == LINK_OFFLINE)
            gap_ns += snapshot->time_ns - link->gone_since_ns;
        waits |= link_waits(link);
        if (link->state == LINK_ENDED)
            continue;
        threads += link->facts.threads;
        descriptors += link->facts.descriptors;
    }
    note_seen_change(call, item->change_number);
    status_line(out, "name", pmc->name);
    status_line(out, "state", state_table[pmc->state].name);
    buf_str(out, pmc->set ? "event" : "event -");
    for (unsigned i = 0; i < pmc_events(pmc); i++) {
        buf_char(out, ' ');
        pmc_print_resolved(pmc, i, out);
    }
    buf_char(out, '\n');
    status_line(out, "mode", mode_table[pmc->mode_in_use].name);
    status_line(out, "scope", mode_table[pmc->mode_in_use].system ? "system" : "process");
    status_number(out, "uid", pmc->uid);
    status_number(out, "created", pmc->created_monotonic_ns);
    status_rows(pmc, out);
    status_number(out, "targets", pmc_links_left(pmc));
    status_number(out, "threads", threads);
    status_number(out, "descriptors", descriptors);
    status_number(out, "covered_ns", item->total->covered_ns);
    status_number(out, "enabled_ns", item->total->enabled_ns);
    status_number(out, "running_ns", item->total->running_ns);
    status_line(out, "partial", item->partial ? "yes" : "no");
    status_line(out, "attach", !pmc->attached.any ? "-" : pmc->attached.raced ? "raced" : "exact");
    status_number(out, "log_bytes", stats.bytes);
    status_number(out, "log_records", stats.records);
    status_number(out, "log_lost", stats.lost + stats.refused);
    status_number(out, "kernel_lost", stats.kernel_lost);
    status_number(out, "throttled", stats.throttled);
    status_number(out, "hidden", stats.hidden);
    status_number(out, "gap_ns", gap_ns);
    status_number(out, "left_out", pmc->attached.left_out);
    status_sampling(pmc, out);
    status_line(out, "log_short", /* the limit that keeps the log below its logsize */
                stats.growth_error == -EDQUOT ? user_limit_name(pmc->user, USED_BYTES)
                : stats.growth_error          ? "memory"
                                              : "-");
    status_line(out, "attach_error", waits && pmc->attach_error ? pmc->attach_error : "-");
    return CALL_DONE;
}

int show_status(struct call *call)
{
    return snapshot_after_exits(call, true, false, print_status);
}

/* ---- counts ---- */

static int print_count(struct call *call, struct snapshot *snapshot)
{
    const struct snapshot_item *item = &snapshot->item[0];
    const struct pmc *pmc = item->pmc;
    const struct tally *tally = item->total;
    const bool started = pmc->state == PMC_RUNNING || pmc->state == PMC_LOST;

    if (pmc->settings.word[KEY_MULTIPLEX] && (started || tally->enabled_ns) &&
        tally->running_ns == 0)
        return err_set(&call->err, P20,
                       "%s has not had a turn on the hardware yet: read it again later", pmc->name);
    if (pmc->state == PMC_LOST)
        return err_set(&call->err, P21,
                       "%s lost its counter to another user of the hardware: detail has the last "
                       "values, and \"start\" tries again",
                       pmc->name);
    for (unsigned i = 0; i < pmc->set->n; i++) {
        buf_u64(call->out, count_shown(pmc, tally, i));
        buf_char(call->out, '\n');
    }
    if (call->open) {
        call->open->has_seen = true;
        call->open->seen_count = count_shown(pmc, tally, 0);
        call->open->seen_resets = pmc->resets;
    }
    return CALL_DONE;
}

int show_count(struct call *call)
{
    if (call->open && call->open->old_count) {
        buf_str(call->out, call->open->old_count);
        free(call->open->old_count);
        call->open->old_count = NULL;
        return CALL_DONE;
    }
    return snapshot_of_set(call, false, print_count);
}

/* Prints the first two cells of a line: the event, and the target of a link or `all`. In all
 * functions for `detail`, l is the index of the link, or the number of links for the sum. */
static void detail_line_begin(struct buf *out, const struct snapshot_item *item, unsigned l,
                              unsigned i)
{
    buf_printf(out, "%s\t", item->pmc->set->event[i].written);
    if (l < item->links->n)
        link_print(item->links->link[l], item->shown[l], true, out);
    else
        buf_str(out, "all");
}

/* Prints the last cell of a line: the name of the process, unless the reader has no PID of it. */
static void detail_line_end(struct buf *out, const struct snapshot_item *item, unsigned l)
{
    const char *name = l < item->links->n && item->shown[l] ? item->links->link[l]->name : "";

    buf_char(out, '\t');
    buf_word(out, *name ? name : "-", *name ? strlen(name) : 1);
    buf_char(out, '\n');
}

/* Prints a line for each part of a generic event on a hybrid processor, before the line of the
 * count. Prints nothing for a CPU, which has one PMU, or if the sum of the parts is not the value,
 * because there is an initial value or `count` was written. */
static void detail_parts(const struct call *call, const struct snapshot_item *item, unsigned l,
                         unsigned i)
{
    const struct class_info *classes = call->engine->classes;
    const struct tally *tally = l < item->links->n ? item->link[l] : item->total;
    const unsigned n = pmc_events(item->pmc);
    const unsigned parts = classes[item->pmc->set->event[i].class_index].n_core_pmus;
    uint64_t value = tally->value[i], running_ns = tally->running_ns;

    for (unsigned part = 0; part < parts; part++) {
        value -= tally->value[core_pmu_index(n, part) + i];
        running_ns -= tally->value[core_pmu_index(n, part) + n];
    }
    if (value || running_ns || (l < item->links->n && item->links->link[l]->kind == TARGET_CPU))
        return;
    for (unsigned part = 0; part < parts; part++) {
        const uint64_t *of_part = &tally->value[core_pmu_index(n, part)];

        detail_line_begin(call->out, item, l, i);
        buf_printf(call->out, "/%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t-\t-\t-\t-",
                   classes[part].name, of_part[i], tally->enabled_ns, of_part[n]);
        detail_line_end(call->out, item, l);
    }
}

static int print_detail(struct call *call, struct snapshot *snapshot)
{
    const struct snapshot_item *item = &snapshot->item[0];
    struct pmc *pmc = item->pmc;
    struct buf *out = call->out;

    buf_printf(out,
               "# time_ns %" PRIu64 " tsc %" PRIu64 "\nevent\ttarget\tvalue\tenabled_ns\t"
               "running_ns\testimate\tpartial\tunit\tscale\tname\n",
               snapshot->time_ns, snapshot->tsc);
    if (item->reads_names)
        pmc->names_ns = snapshot->time_ns;
    for (unsigned l = 0; l <= item->links->n; l++) {
        struct link *link = l < item->links->n ? item->links->link[l] : NULL;
        const struct tally *tally = link ? item->link[l] : item->total;
        const bool partial =
            link ? link->missed || pmc_was_throttled(pmc) || tally_partial(tally) : item->partial;

        if (link && item->name[l][0] && strcmp(item->name[l], link->name) != 0) {
            memcpy(link->name, item->name[l], sizeof link->name);
            pmc_touch(pmc);
        }
        for (unsigned i = 0; i < pmc->set->n; i++) {
            const struct event *event = &pmc->set->event[i];

            detail_parts(call, item, l, i);
            detail_line_begin(out, item, l, i);
            buf_printf(out, "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t", tally->value[i],
                       tally->enabled_ns, tally->running_ns);
            if (tally->running_ns || !tally->enabled_ns)
                buf_u64(out, tally->value[pmc_values(pmc) + i]);
            else
                buf_char(out, '-');
            buf_str(out, partial ? "\tyes\t" : "\tno\t");
            if (event->unit[0])
                buf_printf(out, "%s\t%.17g", event->unit, event->scale);
            else
                buf_str(out, "-\t-");
            detail_line_end(out, item, l);
        }
    }
    return CALL_DONE;
}

int show_detail(struct call *call)
{
    return snapshot_of_set(call, true, print_detail);
}

static int print_metrics(struct call *call, struct snapshot *snapshot)
{
    const struct snapshot_item *item = &snapshot->item[0];
    struct counted counted;

    count_for_metrics(item->pmc, item->total, NULL, snapshot->time_ns, &counted);
    metrics_print(&counted.reading, item->partial, call->out);
    return CALL_DONE;
}

int show_metrics(struct call *call)
{
    return snapshot_of_set(call, false, print_metrics);
}

/*
 * ---- upper bounds ----
 *
 * For the sizes of files. Computed without making the text, and usually larger.
 */

#define CELLS_BYTES  256  /* numbers, unit, scale and name in a line of `detail` */
#define ESCAPE_BYTES 4    /* a byte of a name, escaped as \ooo */
#define FIXED_BYTES  2048 /* parts of a PMC's texts that do not depend on events and targets */
#define WORD_BYTES   16
#define SERIES_BYTES (1u << 20)

/* `detail` is the longest text: a line for each event and target, and sums; each may have a line
 * for each part. */
uint64_t bound_pmc(const struct call *call)
{
    const struct pmc *pmc = call->pmc;
    const struct links *links = pmc->links;
    const unsigned lines = 1 + set_core_pmus(call->engine, pmc->set);
    uint64_t labels = 0;

    for (unsigned i = 0; i < links->n; i++)
        if (links->link[i]->cgroup)
            labels += ESCAPE_BYTES * strlen(links->link[i]->cgroup);
    return FIXED_BYTES +
           lines * ((links->n + 1) * (pmc_names_bytes(pmc) + pmc_events(pmc) * CELLS_BYTES) +
                    pmc_events(pmc) * labels);
}

/* Each number of the log may become a word of text: a frame becomes a file and an offset. */
uint64_t bound_log(const struct call *call)
{
    const struct pmc *pmc = call->pmc;
    bool is_recording = state_table[pmc->state].started && pmc->settings.word[KEY_LOG];
    struct log_stats stats;

    pmc_log_stats(pmc, &stats);
    return FIXED_BYTES +
           WORD_BYTES * (is_recording ? log_size(pmc->engine, &pmc->settings) : stats.bytes);
}

/* The length of a stream is not known. less(1) shows at most this many bytes. */
uint64_t bound_series(const struct call *call)
{
    return state_table[call->pmc->state].started ? SERIES_BYTES : bound_pmc(call);
}
