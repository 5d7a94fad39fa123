/*
 * Drawing the screen: a summary line, the column titles, the visible part of a page, and a line of
 * keys. The window may have any size.
 */
#include "examples/pmctop/top.h"

#include <ctype.h>
#include <curses.h>
#include <string.h>

enum {
    HEAD_LINES = 2,
    FOOT_LINES = 1
};
/* Columns of numbers: of a PMC line, and cpu, row, uid and pid. */
enum {
    PMC_NUMBERS = 1 << 2 | 1 << 3,
    ROW_NUMBERS = 1 << 0 | 1 << 1 | 1 << 5 | 1 << 6
};

static const char *const help[] = {
    "Tab          PMCs, or rows and their owners",
    "r  c  n      sort by rate, count, name",
    "R            reverse the order",
    "/            show only lines that contain a text (Enter keeps it, Esc drops it)",
    "i            hide idle lines: events at rate 0, rows without a holder",
    "t            targets with names of processes, or metrics",
    "p  Space     pause reading",
    "d            seconds between readings",
    "arrows j k   scroll; Page Up, Page Down, Home, End",
    "h  ?         this page, and back",
    "q            quit",
    "",
    "COUNT is the count of the PMC, RATE/S its increase per second since the",
    "last reading (-: unknown). METRICS are computed from the counts since the",
    "start. \"partial\": the count is a lower bound. Rows are hardware counters:",
    "see pmcfs(8).",
};

/* Prints a text in one line. At most COLS bytes are printed, and each column needs at least one
 * byte, so the line never wraps. */
static void put_line(int y, attr_t attributes, const char *text)
{
    attrset((int)attributes);
    mvaddnstr(y, 0, text, COLS);
    attrset(A_NORMAL);
}

/* ---- pages ---- */

static size_t page_length(const struct live *live)
{
    switch (live->page) {
    case PAGE_PMCS:
        return live->model.shown.n;
    case PAGE_ROWS:
        return live->rows.shown.n;
    case PAGE_HELP:
    case PAGES:
        break;
    }
    return sizeof help / sizeof help[0];
}

/* Adds the cells of a line to the grid. Reads the PMC's metrics, so only for visible lines. */
static void pmc_cells(struct model *model, const struct line *line, struct grid *grid)
{
    const struct pmc *pmc = model_pmc(model, line);

    grid_word(grid, line->name);
    grid_word(grid, line->event);
    buf_u64(&grid->text, line->count);
    grid_cell(grid);
    number_print(line->rate, &grid->text);
    grid_cell(grid);
    grid_word(grid, line->state);
    if (pmc->partial)
        buf_str(&grid->text, "partial ");
    if (model->choice.targets)
        targets_print(pmc, true, &grid->text);
    else
        metrics_print(pmc, true, &grid->text);
    grid_cell(grid);
}

static void row_cells(const struct row *row, struct grid *grid)
{
    for (size_t i = 0; i < ROW_COLUMNS; i++)
        grid_word(grid, row->word[i]);
}

static void grid_titles(const struct live *live, struct grid *grid)
{
    static const char *const pmc_titles[] = {"NAME",   "EVENT", "COUNT",
                                             "RATE/S", "STATE", "METRICS"};

    switch (live->page) {
    case PAGE_PMCS:
        grid_begin(grid, 6, PMC_NUMBERS);
        for (size_t i = 0; i < 6; i++)
            grid_word(grid, i == 5 && live->model.choice.targets ? "TARGETS" : pmc_titles[i]);
        break;
    case PAGE_ROWS:
        grid_begin(grid, ROW_COLUMNS, ROW_NUMBERS);
        for (size_t i = 0; i < ROW_COLUMNS; i++) {
            for (const char *c = row_titles[i]; *c; c++)
                buf_char(&grid->text, (char)toupper(*c));
            grid_cell(grid);
        }
        break;
    case PAGE_HELP:
    case PAGES:
        grid_begin(grid, 1, 0);
        grid_word(grid, "KEYS");
        break;
    }
}

static void line_cells(struct live *live, size_t at, struct grid *grid)
{
    switch (live->page) {
    case PAGE_PMCS:
        pmc_cells(&live->model, live->model.shown.items[at], grid);
        break;
    case PAGE_ROWS:
        row_cells(live->rows.shown.items[at], grid);
        break;
    case PAGE_HELP:
    case PAGES:
        grid_word(grid, help[at]);
        break;
    }
}

/* Returns whether to highlight a line: the count is partial, or the state is `lost`. */
static bool stands_out(struct live *live, size_t at)
{
    const struct line *line = live->page == PAGE_PMCS ? live->model.shown.items[at] : NULL;

    return line && (model_pmc(&live->model, line)->partial || strcmp(line->state, "lost") == 0);
}

static void grid_put(const struct grid *grid, size_t row, attr_t attributes)
{
    char storage[512];
    struct buf text = buf_in(storage, sizeof storage);

    grid_row(grid, row, &text);
    put_line(HEAD_LINES - 1 + (int)row, attributes, buf_text(&text));
    buf_free(&text);
}

static void draw_page(struct live *live)
{
    size_t *top = &live->top[live->page], length = page_length(live), body = live->body;
    struct grid grid;

    if (*top + body > length)
        *top = length > body ? length - body : 0;
    grid_titles(live, &grid);
    for (size_t i = *top; i < length && i < *top + body; i++)
        line_cells(live, i, &grid);
    grid_fit(&grid, (unsigned)COLS);
    for (size_t row = 0; row < grid_rows(&grid); row++)
        grid_put(&grid, row,
                 !row                               ? A_REVERSE
                 : stands_out(live, *top + row - 1) ? A_BOLD
                                                    : A_NORMAL);
    if (!length)
        put_line(HEAD_LINES, A_NORMAL, "nothing to show");
    grid_free(&grid);
}

/* ---- head and keys ---- */

static void draw_head(const struct live *live)
{
    const struct model *model = &live->model;
    const struct choice *choice = &model->choice;
    char storage[512];
    struct buf text = buf_in(storage, sizeof storage);

    buf_str(&text, live->paused ? "PAUSED " : "");
    if (live->page == PAGE_ROWS)
        buf_printf(&text, "%zu of %zu rows", live->rows.shown.n, live->rows.all.n);
    else
        buf_printf(&text, "%zu of %zu events, %zu PMCs, by %s", model->shown.n, model->now.lines.n,
                   model->now.pmcs.n, sort_names[choice->sort]);
    buf_printf(&text, "%s, every %g s", choice->reversed ? " reversed" : "", live->interval);
    if (choice->busy_only)
        buf_str(&text, ", none idle");
    if (*choice->filter)
        buf_printf(&text, ", with \"%s\"", choice->filter);
    buf_printf(&text, ", in %s", model->tree->path);
    put_line(0, A_BOLD, buf_text(&text));
    buf_free(&text);
}

static void draw_foot(const struct live *live)
{
    static const char *const prompts[] = {
        [PROMPT_FILTER] = "filter: ",
        [PROMPT_INTERVAL] = "seconds: ",
    };

    if (live->prompt != PROMPT_NONE) {
        put_line(LINES - 1, A_BOLD, prompts[live->prompt]);
        addnstr(live->typed, COLS);
    } else {
        put_line(LINES - 1, live->message ? A_BOLD : A_DIM,
                 live->message ? live->message
                               : "h help  Tab rows  r c n sort  R reverse  / filter  i idle  "
                                 "p pause  q quit");
    }
}

void screen_draw(struct live *live)
{
    erase();
    live->body = LINES > HEAD_LINES + FOOT_LINES ? (size_t)(LINES - HEAD_LINES - FOOT_LINES) : 1;
    draw_head(live);
    draw_page(live);
    if (LINES > HEAD_LINES)
        draw_foot(live);
    curs_set(live->prompt != PROMPT_NONE);
    refresh();
}
