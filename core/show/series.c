/*
 * series: each reader gets a line per interval with the counts since its previous line. Lines are
 * due at multiples of the interval since the start. A late line comes after a comment with the
 * number of skipped lines. poll: the levels of files, and snapshots for sleeping pollers.
 */
#include "core/show/series.h"

#include "core/engine.h"
#include "core/pmc/count.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

static uint64_t interval_ns(const struct pmc *pmc)
{
    return settings_number(&pmc->settings, KEY_INTERVAL) * 1000000;
}

static bool is_started(const struct pmc *pmc)
{
    return state_table[pmc->state].started;
}

/* Returns true if the PMC was never started and can still be: readers then wait for lines. False in
 * `exited`: they get end of file. */
static bool never_started(const struct pmc *pmc)
{
    return pmc->state == PMC_ALLOCATED && !pmc->run.first_start_ns;
}

/* Returns true if the reader's sequence belongs to the present run, without a reset since. */
static bool is_same_run(const struct pmc *pmc, const struct series_cursor *cursor)
{
    return is_started(pmc) && cursor->begun && !cursor->ended &&
           pmc->run.started_ns == cursor->pmc_start && pmc->resets == cursor->resets;
}

/* Returns true if the run of the reader's sequence is over and its counts since the reader's last
 * line are due. After a reset they are unknown, so false. */
static bool rest_is_due(const struct pmc *pmc, const struct series_cursor *cursor)
{
    return cursor->begun && !cursor->ended && pmc->resets == cursor->resets &&
           !is_same_run(pmc, cursor);
}

/* Returns the time of the next line: the first multiple of the interval after now. */
static uint64_t next_due(const struct pmc *pmc, uint64_t now_ns)
{
    uint64_t step = interval_ns(pmc), since = now_ns - pmc->run.started_ns;

    return pmc->run.started_ns + (since / step + 1) * step;
}

/* Prints a column for each metric in `event`: its name if reading is NULL, or else its value. */
static void print_metric_columns(struct call *call, const struct pmc *pmc,
                                 const struct metric_reading *reading)
{
    struct scan scan = scan_of(word_of(pmc->metrics ? pmc->metrics : ""));
    struct word word;

    while (scan_word(&scan, &word)) {
        double value = 0;
        bool known = reading && metric_value(word, reading, &value);

        buf_char(call->out, '\t');
        if (reading)
            metric_print(known, value, call->out);
        else
            buf_add(call->out, word.p, word.len);
    }
}

static void print_column_names(struct call *call, const struct pmc *pmc,
                               struct series_cursor *cursor)
{
    cursor->realtime = pmc->settings.word[KEY_REALTIME];
    buf_str(call->out, cursor->realtime ? "# seconds\trealtime" : "# seconds");
    for (unsigned i = 0; i < pmc->set->n; i++)
        buf_printf(call->out, "\t%s", pmc->set->event[i].written);
    print_metric_columns(call, pmc, NULL);
    buf_char(call->out, '\n');
}

/* Prints the counts since the previous line, and their metrics. */
static void print_line(struct call *call, const struct snapshot *snapshot)
{
    struct series_cursor *cursor = call->open->series;
    const struct snapshot_item *item = &snapshot->item[0];
    const struct pmc *pmc = item->pmc;
    const uint64_t now_ns = snapshot->time_ns;
    struct counted counted;
    const struct host *host = pmc->engine->host;
    struct host_state *state = pmc->engine->host_state;
    uint64_t last[SET_MAX];

    buf_seconds(call->out, now_ns - pmc->run.first_start_ns);
    if (cursor->realtime) {
        buf_char(call->out, '\t');
        buf_seconds(call->out, host->realtime_ns(state) - (host->now_ns(state) - now_ns));
    }
    for (unsigned i = 0; i < cursor->n; i++) {
        uint64_t value = count_shown(pmc, item->total, i);

        buf_char(call->out, '\t');
        if (pmc->settings.word[KEY_MULTIPLEX]) /* an estimate may decrease */
            buf_i64(call->out, (int64_t)(value - cursor->last[i]));
        else
            buf_u64(call->out, value - cursor->last[i]);
        last[i] = value;
    }
    count_for_metrics(pmc, item->total, cursor->last, now_ns, &counted);
    counted.reading.elapsed_ns -= cursor->elapsed_ns;
    cursor->elapsed_ns = pmc_elapsed_ns(pmc, now_ns);
    print_metric_columns(call, pmc, &counted.reading);
    if (pmc->metrics && item->partial)
        buf_str(call->out, "\tpartial");
    memcpy(cursor->last, last, cursor->n * sizeof last[0]);
    buf_char(call->out, '\n');
}

/* Starts a sequence of lines. It continues from the reader's last sequence, or after a reset from
 * the initial values. A reader's first sequence starts at the present count. */
static void sequence_begin(struct call *call, const struct snapshot *snapshot)
{
    struct series_cursor *cursor = call->open->series;
    const struct pmc *pmc = snapshot->item[0].pmc;
    const uint64_t now_ns = snapshot->time_ns;
    const struct settings *settings = &pmc->settings;

    print_column_names(call, pmc, cursor);
    for (unsigned i = 0; i < cursor->n; i++) {
        if (!cursor->begun)
            cursor->last[i] = count_shown(pmc, snapshot->item[0].total, i);
        else if (cursor->resets != pmc->resets) /* the count was reset since then */
            cursor->last[i] = i < settings->n_counts ? settings->counts[i] : 0;
    }
    if (!cursor->begun)
        cursor->elapsed_ns = pmc_elapsed_ns(pmc, now_ns);
    else if (cursor->resets != pmc->resets)
        cursor->elapsed_ns = 0;
    cursor->begun = true;
    cursor->ended = false;
    cursor->pmc_start = pmc->run.started_ns;
    cursor->resets = pmc->resets;
    cursor->due_ns = next_due(pmc, now_ns);
}

static int series_wait(struct call *call)
{
    call->wait_for = call->pmc->id;
    call->wait_until_ns = call->open->series->due_ns;
    return call->nonblock ? -EAGAIN : CALL_WAIT;
}

/* Prints the next line or lines for this reader. */
static int series_print(struct call *call, struct snapshot *snapshot)
{
    const struct snapshot_item *item = &snapshot->item[0];
    struct series_cursor *cursor = call->open->series;
    const struct pmc *pmc = item->pmc;
    const uint64_t now_ns = snapshot->time_ns;

    if (pmc->set != item->set)
        return CALL_DONE; /* end of file: the set has changed */
    if (rest_is_due(pmc, cursor)) {
        print_line(call, snapshot); /* the lines add up to the count */
        cursor->ended = true;
        return CALL_DONE;
    }
    if (!is_same_run(pmc, cursor)) {
        if (is_started(pmc))
            sequence_begin(call, snapshot);
        return CALL_DONE;
    }
    if (now_ns < cursor->due_ns)
        return series_wait(call); /* another read of this open file got the line */
    uint64_t skipped = (now_ns - cursor->due_ns) / interval_ns(pmc);
    if (skipped)
        buf_printf(call->out, "# skipped %" PRIu64 "\n", skipped);
    print_line(call, snapshot);
    cursor->due_ns = next_due(pmc, now_ns);
    return CALL_DONE;
}

/* Returns end of file if no line can come, after the columns if the reader has had no line yet. */
int stream_series(struct call *call)
{
    struct pmc *pmc = call->pmc;
    struct open_file *open = call->open;

    if (!pmc->set)
        return err_set(&call->err, P08, "%s has no event yet: write one to event", pmc->name);
    if (!open->series && (open->series = calloc(1, sizeof *open->series)))
        open->remembers = sizeof *open->series;
    struct series_cursor *cursor = open->series;
    if (!cursor)
        return err_nomem(&call->err);
    if (cursor->n != pmc->set->n) { /* the counts belong to an earlier set */
        memset(cursor->last, 0, sizeof cursor->last);
        cursor->n = pmc->set->n;
    }
    bool no_interval = settings_number(&pmc->settings, KEY_INTERVAL) == UINT64_MAX;
    if (!no_interval && never_started(pmc) && !rest_is_due(pmc, cursor)) {
        call->wait_for = pmc->id;
        return call->nonblock ? -EAGAIN : CALL_WAIT;
    }
    if ((no_interval || !is_started(pmc)) && !rest_is_due(pmc, cursor)) {
        if (!cursor->begun && !cursor->ended) {
            print_column_names(call, pmc, cursor);
            if (no_interval)
                buf_str(call->out, "# no interval is set: echo interval=1000 >config gives a line "
                                   "each second\n");
        }
        cursor->ended = true;
        return CALL_DONE;
    }
    if (is_same_run(pmc, cursor) && call->now_ns < cursor->due_ns)
        return series_wait(call);
    return snapshot_take(call, &call->pmc, 1, true, false, series_print);
}

unsigned poll_series(struct call *call)
{
    const struct pmc *pmc = call->pmc;
    const struct series_cursor *cursor = call->open ? call->open->series : NULL;

    if (cursor && is_same_run(pmc, cursor) && call->now_ns < cursor->due_ns) {
        call->wait_until_ns = cursor->due_ns;
        return 0;
    }
    if (settings_number(&pmc->settings, KEY_INTERVAL) != UINT64_MAX && never_started(pmc))
        return 0;
    return EPOLLIN | EPOLLRDNORM;
}

/*
 * ---- poll ----
 *
 * A tick requests snapshots at most every notify_ms. After a snapshot the pollers are woken if the
 * PMC has notify= and its count changed, or if poll.notify is set. A poll of a PMC with notify=
 * that is cheap to read also takes a snapshot.
 */

static uint64_t notify_ns(const struct engine *engine)
{
    return tunable_u64(&engine->tunables, TUNABLE_NOTIFY_MS) * 1000000;
}

static bool is_notified(const struct pmc *pmc)
{
    return settings_number(&pmc->settings, KEY_NOTIFY) != UINT64_MAX;
}

static int poll_update(struct call *call, struct snapshot *snapshot)
{
    (void)call;
    for (unsigned i = 0; i < snapshot->n; i++) {
        const struct snapshot_item *item = &snapshot->item[i];
        struct pmc *pmc = item->pmc;

        if (!item->is_valid)
            continue;
        const uint64_t count = count_shown(pmc, item->total, 0);
        const bool moved = pmc->poll.count != count || pmc->poll.resets != pmc->resets;
        pmc->poll.count = count;
        pmc->poll.ns = snapshot->time_ns;
        pmc->poll.resets = pmc->resets;
        if ((moved && is_notified(pmc)) || pmc->poll.notify)
            pmc_wake(pmc);
        pmc->poll.notify = false;
    }
    return CALL_DONE;
}

/* Returns true if a snapshot is requested and none is running. */
bool poll_wanted(const struct engine *engine)
{
    return !STAILQ_EMPTY(&engine->deferred[WORK_SNAPSHOT]) && !engine->polling;
}

bool poll_task(struct call *call)
{
    struct engine *engine = call->engine;
    struct pmc **pmcs = poll_wanted(engine) ? calloc(engine->pmcs.n + 1, sizeof *pmcs) : NULL;
    struct pmc *pmc;
    unsigned n = 0;

    while (pmcs && (pmc = pmc_deferred_take(engine, WORK_SNAPSHOT))) {
        if (!pmc_released(pmc) && pmc->set)
            pmcs[n++] = pmc; /* the tree has a reference too */
        pmc_unref(pmc);
    }
    if (n) { /* on ENOMEM the next tick requests it again */
        engine->polling = true;
        snapshot_take(call, pmcs, n, true, false, poll_update);
        engine->polling = false;
    }
    free(pmcs);
    return n > 0;
}

uint64_t poll_deadline(const struct engine *engine)
{
    return engine->n_polled ? engine->poll_due_ns : UINT64_MAX;
}

void poll_tick(struct engine *engine, uint64_t now_ns)
{
    uint64_t id = 0;

    if (now_ns < poll_deadline(engine))
        return;
    engine->poll_due_ns = now_ns + notify_ns(engine);
    for (struct pmc *pmc; (pmc = ids_next(&engine->pmcs, id, &id));) {
        /* armed, running and lost are detected by reading */
        bool needs_snapshot = is_notified(pmc) || state_table[pmc->state].started;

        if (pmc->poll.is_polled && pmc->set && !pmc->busy && needs_snapshot)
            pmc_defer(pmc, WORK_SNAPSHOT);
    }
}

void engine_set_polled(struct engine *engine, uint64_t pmc_id, bool polled)
{
    struct pmc *pmc = ids_find(&engine->pmcs, pmc_id);

    if (!pmc || pmc->poll.is_polled == polled)
        return;
    pmc->poll.is_polled = polled;
    engine->n_polled += polled ? 1 : (unsigned)-1;
    if (polled)
        engine->poll_due_ns = engine->host->now_ns(engine->host_state) + notify_ns(engine);
}

/* Notes the state at open, so that a change before the first read or poll is reported. */
void begin_state(struct call *call)
{
    call->open->has_seen = true;
    call->open->seen_change = call->pmc->change_number;
}

unsigned poll_state(struct call *call)
{
    struct open_file *open = call->open;
    unsigned level = EPOLLIN | EPOLLRDNORM;

    if (!open)
        return level;
    if (!open->has_seen)
        begin_state(call);
    return open->seen_change != call->pmc->change_number ? level | EPOLLPRI : level;
}

/* Returns true if there was a snapshot since the last reset. */
static bool snapshot_is_valid(const struct pmc *pmc)
{
    return pmc->poll.ns && pmc->poll.resets == pmc->resets;
}

unsigned poll_count(struct call *call)
{
    struct open_file *open = call->open;
    struct pmc *pmc = call->pmc;
    unsigned level = EPOLLIN | EPOLLRDNORM;
    uint64_t notify = settings_number(&pmc->settings, KEY_NOTIFY);
    bool costly = count_cost(pmc) > COST_SMALL;

    if (!open || !pmc->set || !is_notified(pmc))
        return level;
    bool fresh = snapshot_is_valid(pmc) && call->now_ns - pmc->poll.ns < notify_ns(pmc->engine);
    if (costly && !fresh && !pmc->busy) {
        pmc->poll.notify = true;
        pmc_defer(pmc, WORK_SNAPSHOT);
    } else if (!costly && !pmc->busy &&
               snapshot_take(call, &call->pmc, 1, true, false, poll_update)) {
        return level; /* released, unreadable, or a snapshot is running */
    }
    pmc = call->pmc;
    open = call->open;
    if (!snapshot_is_valid(pmc) || (costly && !fresh && !open->has_seen))
        return level;
    if (!open->has_seen) {
        open->has_seen = true;
        open->seen_count = pmc->poll.count;
    } else if (open->seen_resets != pmc->resets) { /* from the initial value */
        open->seen_count = pmc->settings.n_counts ? pmc->settings.counts[0] : 0;
    }
    open->seen_resets = pmc->resets;
    int64_t more = (int64_t)(pmc->poll.count - open->seen_count); /* estimates may fall */
    return more > 0 && (uint64_t)more >= notify ? level | EPOLLPRI : level;
}
