/*
 * The lines of the PMCs, their rates between two readings of `counts`, and the filter and order of
 * the lines.
 */
#include "core/base/clock.h"
#include "examples/pmctop/top.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const sort_names[SORTS] = {"rate", "count", "name"};

/* ---- a reading ---- */

static void pmc_free(struct pmc *pmc)
{
    free(pmc->metrics.items);
    free(pmc->targets.items);
}

static void reading_clear(struct reading *reading)
{
    for (size_t i = 0; i < reading->pmcs.n; i++)
        pmc_free(&reading->pmcs.items[i]);
    reading->pmcs.n = reading->lines.n = 0;
}

static void reading_free(struct reading *reading)
{
    reading_clear(reading);
    free(reading->pmcs.items);
    free(reading->lines.items);
    free(reading->text.items);
}

/* Adds a line. The lines of one PMC are adjacent. */
static bool line_add(struct reading *reading, struct line line)
{
    struct pmc *last = reading->pmcs.n ? &reading->pmcs.items[reading->pmcs.n - 1] : NULL;

    if (!last || strcmp(last->name, line.name) != 0) {
        const struct pmc pmc = {.name = line.name, .first = reading->lines.n};

        if (vec_push(&reading->pmcs, pmc))
            return false;
        last = &reading->pmcs.items[reading->pmcs.n - 1];
    }
    last->n++;
    line.pmc = reading->pmcs.n - 1;
    return !vec_push(&reading->lines, line);
}

/* Parses name, event, count, enabled_ns, running_ns, state; more fields are ignored. */
static bool line_parse(char *text, struct line *line)
{
    char *field[6];

    for (size_t i = 0; i < 6; i++) {
        field[i] = strsep(&text, "\t");
        if (!field[i])
            return false;
    }
    *line = (struct line){.name = field[0], .event = field[1], .state = field[5], .rate = -1};
    line->count = strtoull(field[2], NULL, 10);
    line->enabled_ns = strtoull(field[3], NULL, 10);
    return true;
}

static bool reading_parse(struct reading *reading)
{
    char *at = reading->text.items, *text;
    struct line line;

    while ((text = strsep(&at, "\n")))
        if (line_parse(text, &line) && !line_add(reading, line))
            return false;
    return true;
}

/* ---- rates ---- */

/* Finds a PMC in the previous reading, from index *next on, because it usually follows the PMC of
 * the last call. */
static const struct pmc *pmc_before(const struct reading *before, const char *name, size_t *next)
{
    for (size_t i = 0; i < before->pmcs.n; i++) {
        const size_t at = (*next + i) % before->pmcs.n;

        if (strcmp(before->pmcs.items[at].name, name) == 0) {
            *next = at + 1;
            return &before->pmcs.items[at];
        }
    }
    return NULL;
}

/* Returns the rate, or -1 if it is unknown: another event, or a lower count or time (a reset, or a
 * new PMC with the same name). */
static double rate_of(const struct line *now, const struct line *before, double seconds)
{
    if (strcmp(now->event, before->event) != 0 || now->count < before->count ||
        now->enabled_ns < before->enabled_ns || seconds <= 0)
        return -1;
    return (double)(now->count - before->count) / seconds;
}

static void rates_set(struct reading *now, const struct reading *before)
{
    const double seconds = (double)(now->at_ns - before->at_ns) / 1e9;
    size_t next = 0;

    for (size_t p = 0; p < now->pmcs.n; p++) {
        const struct pmc *pmc = &now->pmcs.items[p];
        const struct pmc *old = pmc_before(before, pmc->name, &next);

        for (size_t i = 0; old && i < pmc->n && i < old->n; i++) {
            struct line *line = &now->lines.items[pmc->first + i];

            line->rate = rate_of(line, &before->lines.items[old->first + i], seconds);
        }
    }
}

/* ---- choice and order ---- */

bool choice_takes(const struct choice *choice, const char *const words[], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcasestr(words[i], choice->filter))
            return true;
    return false;
}

static int by_value(double a, double b)
{
    return (a < b) - (a > b); /* the largest first */
}

static int line_compare(const void *x, const void *y, void *data)
{
    const struct line *a = *(const struct line *const *)x, *b = *(const struct line *const *)y;
    const struct choice *choice = data;
    int order = 0;

    switch (choice->sort) {
    case SORT_RATE:
        order = by_value(a->rate, b->rate);
        break;
    case SORT_COUNT:
        order = (a->count < b->count) - (a->count > b->count);
        break;
    case SORT_NAME:
    case SORTS:
        order = strverscmp(a->name, b->name);
        break;
    }
    if (choice->reversed)
        order = -order;
    return order ? order : (a > b) - (a < b); /* in the order of the tree */
}

bool model_arrange(struct model *model)
{
    const struct choice *choice = &model->choice;

    model->shown.n = 0;
    for (size_t i = 0; i < model->now.lines.n; i++) {
        const struct line *line = &model->now.lines.items[i];
        const char *const words[] = {line->name, line->event, line->state};

        if (!choice_takes(choice, words, 3) || (choice->busy_only && line->rate == 0))
            continue;
        if (vec_push(&model->shown, line))
            return tree_no_memory(model->tree);
    }
    if (model->shown.n)
        qsort_r(model->shown.items, model->shown.n, sizeof *model->shown.items, line_compare,
                &model->choice);
    return true;
}

bool model_read(struct model *model)
{
    const struct reading older = model->before;

    model->before = model->now;
    model->now = older; /* its memory is reused */
    reading_clear(&model->now);
    model->shown.n = 0;
    model->now.at_ns = monotonic_ns();
    if (!tree_counts(model->tree, &model->now.text))
        return false;
    if (!reading_parse(&model->now))
        return tree_no_memory(model->tree);
    rates_set(&model->now, &model->before);
    return model_arrange(model);
}

void model_free(struct model *model)
{
    reading_free(&model->now);
    reading_free(&model->before);
    free(model->shown.items);
}

/* ---- metrics ---- */

/* Reads metrics and targets at the first call after a reading. They are empty if the PMC was
 * removed since, or if the user may not read them. */
const struct pmc *model_pmc(struct model *model, const struct line *line)
{
    struct pmc *pmc = &model->now.pmcs.items[line->pmc];
    char *name = NULL;

    if (pmc->is_read)
        return pmc;
    pmc->is_read = true;
    if (asprintf(&name, "%s/metrics", pmc->name) < 0)
        return pmc;
    if (tree_file(model->tree, name, &pmc->metrics))
        pmc->partial = strstr(pmc->metrics.items, " partial\n") != NULL;
    else
        pmc->metrics.n = 0;
    free(name);
    name = NULL;
    if (model->choice.targets && asprintf(&name, "%s/target", pmc->name) >= 0 &&
        !tree_file(model->tree, name, &pmc->targets))
        pmc->targets.n = 0;
    free(name);
    return pmc;
}

/* Prints the metric in a line "name value unit", after a separator unless it is the first. In brief
 * form a metric without a value ("-") is left out. */
static void metric_print(const char *line, size_t name_len, bool brief, bool first, struct buf *out)
{
    const char *value = line + name_len + (line[name_len] == ' ');

    if (brief && *value == '-')
        return;
    if (!first)
        buf_char(out, brief ? ' ' : ',');
    buf_add(out, line, name_len);
    buf_char(out, brief ? ' ' : '=');
    if (brief)
        number_print(strtod(value, NULL), out);
    else
        buf_add(out, value, strcspn(value, " \n"));
}

void metrics_print(const struct pmc *pmc, bool brief, struct buf *out)
{
    const char *line = pmc->metrics.n ? pmc->metrics.items : "";
    const size_t begun = out->len;

    for (; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const size_t name_len = strcspn(line, " \n");

        const bool rate = (name_len > 2 && !strncmp(line + name_len - 2, "/s", 2)) ||
                          (name_len > 6 && !strncmp(line + name_len - 6, "/cpu-s", 6));

        /* the screen computes rates since the last reading */
        if (!rate)
            metric_print(line, name_len, brief, out->len == begun, out);
    }
}

/* Appends the name of a process or thread, if the user can see it. */
static void process_print(const char *target, char separator, struct buf *out)
{
    const char *number = strncmp(target, "tid:", 4) == 0 ? target + 4 : target;
    char path[64], name[64];
    FILE *file;
    size_t n;

    if (!strtoul(number, NULL, 10))
        return;
    snprintf(path, sizeof path, "/proc/%lu/comm", strtoul(number, NULL, 10));
    file = fopen(path, "re");
    n = file ? fread(name, 1, sizeof name, file) : 0;
    if (file)
        fclose(file);
    if (n && name[n - 1] == '\n')
        n--;
    if (n) {
        buf_char(out, separator);
        buf_word(out, name, n);
    }
}

void targets_print(const struct pmc *pmc, bool brief, struct buf *out)
{
    const char *line = pmc->targets.n ? pmc->targets.items : "";
    const size_t begun = out->len;

    for (; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        if (out->len > begun)
            buf_str(out, brief ? ", " : ",");
        buf_add(out, line, strcspn(line, "\n"));
        process_print(line, brief ? ' ' : ':', out);
    }
}

void number_print(double value, struct buf *out)
{
    const char *unit = " kMGTPE";
    int digits;

    if (value <= 0) {
        buf_char(out, value < 0 ? '-' : '0');
        return;
    }
    for (; value >= 999.95 && unit[1]; unit++)
        value /= 1000;
    digits = value < 9.9995 ? 3 : value < 99.995 ? 2 : 1;
    buf_printf(out, "%.*f", digits, value);
    if (*unit != ' ')
        buf_char(out, *unit);
}
