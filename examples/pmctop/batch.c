/*
 * Batch mode: after each reading, one line for each event, with fields separated by tabs.
 */
#include "examples/pmctop/top.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static void line_print(struct model *model, const struct line *line, struct buf *out)
{
    const struct pmc *pmc = model_pmc(model, line);
    size_t begun;

    buf_seconds(out, model->now.at_ns);
    buf_printf(out, "\t%s\t%s\t%" PRIu64 "\t", line->name, line->event, line->count);
    if (line->rate < 0)
        buf_char(out, '-');
    else
        buf_printf(out, "%.3f", line->rate);
    buf_printf(out, "\t%s\t%s\t", line->state, !pmc->metrics.n ? "-" : pmc->partial ? "yes" : "no");
    begun = out->len;
    if (model->choice.targets)
        targets_print(pmc, false, out);
    else
        metrics_print(pmc, false, out);
    buf_str(out, out->len == begun ? "-\n" : "\n");
}

static bool lines_print(struct model *model)
{
    struct buf out = {0};
    bool written;

    for (size_t i = 0; i < model->shown.n; i++)
        line_print(model, model->shown.items[i], &out);
    written = !out.failed && fputs(buf_text(&out), stdout) >= 0 && fflush(stdout) == 0;
    buf_free(&out);
    if (!written)
        snprintf(model->tree->trouble, sizeof model->tree->trouble,
                 "cannot write the output: %s", strerror(errno));
    return written;
}

/* Waits until `interval` seconds after this time, the start of the last reading. */
static void wait_after(uint64_t at_ns, double interval)
{
    const uint64_t until_ns = at_ns + (uint64_t)(interval * 1e9);
    const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000),
                                   .tv_nsec = (long)(until_ns % 1000000000)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

int batch_run(struct tree *tree, const struct choice *choice, double interval, unsigned long limit)
{
    struct model model = {.tree = tree, .choice = *choice};
    unsigned long readings = 0;
    bool done;

    printf("# seconds\tname\tevent\tcount\trate\tstate\tpartial\t%s\n",
           choice->targets ? "targets" : "metrics");
    while ((done = model_read(&model) && lines_print(&model)) && (!limit || ++readings < limit))
        wait_after(model.now.at_ns, interval);
    model_free(&model);
    return done ? 0 : 1;
}
