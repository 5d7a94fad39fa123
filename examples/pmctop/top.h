/*
 * pmctop: a live view of the PMCs that its user may read. tree.c reads files, model.c computes
 * lines and rates, rows.c reads the table of rows, grid.c prints columns; live.c and screen.c are
 * the view.
 */
#pragma once

#include "core/base/buf.h"
#include "core/base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
    char *items; /* NUL-terminated */
    size_t n, cap;
};

/* ---- tree.c: the mounted tree ---- */

struct tree {
    char *path;
    unsigned device[2];
    char trouble[512]; /* the reason, as a sentence, after a function returned false */
};

/* Finds the tree: $PMC; or else /pmc if it is a mount that this user can read; or else the first
 * such mount; or else the first mount. Returns false with the reason in trouble if its `counts`
 * cannot be read. */
bool tree_open(struct tree *tree);
void tree_close(struct tree *tree);
bool tree_no_memory(struct tree *tree); /* sets trouble to ENOMEM and returns false */
/* Reads `counts`; all values are of one moment. Returns false with the reason in trouble if it
 * cannot be read or pmcfs was unmounted. */
bool tree_counts(struct tree *tree, struct text *text);
/* Reads another file below the root. Returns false if it cannot be read, without setting trouble.
 */
bool tree_file(const struct tree *tree, const char *name, struct text *text);

/* ---- model.c: readings, filtered and sorted ---- */

enum sort {
    SORT_RATE,
    SORT_COUNT,
    SORT_NAME,
    SORTS
};
extern const char *const sort_names[SORTS];

struct choice {
    enum sort sort;
    bool reversed, busy_only;
    bool targets;    /* show targets instead of metrics */
    char filter[64]; /* "": no filter */
};

/* One event of a PMC. The strings point into the text of the reading. */
struct line {
    const char *name, *event, *state;
    uint64_t count, enabled_ns;
    double rate; /* per second since the previous reading; negative: unknown */
    size_t pmc;  /* index in pmcs */
};

struct pmc {
    const char *name;
    size_t first, n;     /* its range in lines */
    struct text metrics; /* contents of its file `metrics`, read on demand */
    struct text targets; /* contents of its file `target`, read if choice.targets */
    bool is_read;        /* metrics (and targets) were read */
    bool partial;        /* `metrics` reports a partial count; false before is_read */
};

struct reading {
    struct text text;
    VEC(struct line) lines; /* in the order of `counts` */
    VEC(struct pmc) pmcs;
    uint64_t at_ns; /* CLOCK_MONOTONIC */
};

struct model {
    struct tree *tree;
    struct choice choice;
    struct reading now, before;
    VEC(const struct line *) shown;
};

/* Reads `counts` again. Returns false with the reason in tree->trouble. */
bool model_read(struct model *model);
/* Filters and sorts the present reading again, after a change of the choice. Returns false like
 * model_read(). */
bool model_arrange(struct model *model);
void model_free(struct model *model);
/* Returns the PMC of a line, with its metrics (and targets, if shown), which are read at most once
 * per model_read(). */
const struct pmc *model_pmc(struct model *model, const struct line *line);
/* Prints all metrics of a PMC except rates of events: "ipc=2.000000,cpi=0.500000". brief, for
 * people: "ipc 2.000 cpi 0.500", without metrics that have no value. */
void metrics_print(const struct pmc *pmc, bool brief, struct buf *out);
/* Prints the targets of a PMC, with the names of processes: "1234:make,cpu0". brief, for people:
 * "1234 make, cpu0". */
void targets_print(const struct pmc *pmc, bool brief, struct buf *out);
/* Prints a number with at most six characters, as "1.234k"; "-" if negative. */
void number_print(double value, struct buf *out);
/* Returns true if one of the words contains the filter, ignoring case, or if there is no filter. */
bool choice_takes(const struct choice *choice, const char *const words[], size_t n);

/* ---- rows.c: info/rows ---- */

enum {
    ROW_COLUMNS = 12
};
extern const char *const row_titles[ROW_COLUMNS];

struct rows {
    struct text text;
    VEC(struct row { const char *word[ROW_COLUMNS]; }) all;
    VEC(const struct row *) shown;
};

/* Read info/rows again, or only filter again. If info/rows cannot be read, `rows` is empty. Return
 * false on ENOMEM. */
bool rows_read(struct rows *rows, const struct tree *tree, const struct choice *choice);
bool rows_arrange(struct rows *rows, const struct choice *choice);
void rows_free(struct rows *rows);

/* ---- grid.c: cells in columns that fit into a width ---- */

enum {
    GRID_COLUMNS = 12
};

struct grid {
    unsigned columns;
    unsigned right; /* bit N: column N has numbers, is right-aligned and never cut */
    struct buf text;
    VEC(size_t) ends; /* end of each cell in text, row by row, starting with the titles */
    unsigned width[GRID_COLUMNS];
};

void grid_begin(struct grid *grid, unsigned columns, unsigned right);
/* Ends a cell. Its text is all text that was added to grid->text since the last cell. */
void grid_cell(struct grid *grid);
void grid_word(struct grid *grid, const char *word);
/* Computes the widths of columns, cutting the widest first. Call it once, after the last cell and
 * before grid_row(). */
void grid_fit(struct grid *grid, unsigned width);
size_t grid_rows(const struct grid *grid);
void grid_row(const struct grid *grid, size_t row, struct buf *out);
void grid_free(struct grid *grid);

/* ---- screen.c: drawing ---- */

enum page {
    PAGE_PMCS,
    PAGE_ROWS,
    PAGE_HELP,
    PAGES
};
enum prompt {
    PROMPT_NONE,
    PROMPT_FILTER,
    PROMPT_INTERVAL
};

struct live {
    struct model model;
    struct rows rows;
    double interval; /* seconds */
    bool paused, ended;
    enum page page, page_before_help;
    size_t top[PAGES]; /* first visible line of each page */
    size_t body;       /* lines of the page on the last screen */
    enum prompt prompt;
    char typed[64];
    const char *message; /* or NULL */
};

void screen_draw(struct live *live);

/* ---- live.c and batch.c ---- */

/* Run until the user quits or after `limit` readings (0: no limit). Return the exit status. */
int live_run(struct tree *tree, const struct choice *choice, double interval, unsigned long limit);
int batch_run(struct tree *tree, const struct choice *choice, double interval, unsigned long limit);
/* Parses the seconds between readings. Returns false for an invalid or out-of-range number. */
bool interval_parse(const char *text, double *seconds);
#define INTERVAL_RANGE "a number of seconds from 0.1 to 86400"
