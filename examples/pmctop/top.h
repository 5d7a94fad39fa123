/*
 * pmctop: a live view of the PMCs that its user may read. tree.c reads files, model.c makes lines
 * and rates of them, rows.c the table of rows, grid.c columns; live.c and screen.c are the view.
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
    char trouble[512]; /* a sentence: why something that returned false did not work */
};

/* Opens $PMC, or else /pmc, or else the first mount of pmcfs. On false, trouble has the reason. */
bool tree_open(struct tree *tree);
void tree_close(struct tree *tree);
bool tree_no_memory(struct tree *tree); /* false, and that is the trouble */
/* The text of `counts`, of one moment. False: it cannot be read, or pmcfs was unmounted. */
bool tree_counts(struct tree *tree, struct text *text);
/* The text of another file below the root. False: there is none, which is no trouble. */
bool tree_file(const struct tree *tree, const char *name, struct text *text);

/* ---- model.c: readings, in the order and choice that the user wants ---- */

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
    char filter[64]; /* "": all */
};

/* One event of a PMC. The words stand in the text of its reading. */
struct line {
    const char *name, *event, *state;
    uint64_t count, enabled_ns;
    double rate; /* per second since the reading before; negative: not known */
    size_t pmc;  /* in pmcs */
};

struct pmc {
    const char *name;
    size_t first, n;     /* its lines */
    struct text metrics; /* of its file, once it was asked for */
    bool asked, partial;
};

struct reading {
    struct text text;
    VEC(struct line) lines; /* in the order of the tree */
    VEC(struct pmc) pmcs;
    uint64_t at_ns; /* CLOCK_MONOTONIC */
};

struct model {
    struct tree *tree;
    struct choice choice;
    struct reading now, before;
    VEC(const struct line *) shown;
};

/* Reads anew. False: tree->trouble says why. */
bool model_read(struct model *model);
/* Makes `shown` anew, after the choice has changed. False: the same. */
bool model_arrange(struct model *model);
void model_free(struct model *model);
/* The PMC of a line, its metrics read if they were not since the last model_read(). */
const struct pmc *model_pmc(struct model *model, const struct line *line);
/* One text of all its metrics that are not an event's rate: "ipc=2.000000,cpi=0.500000", or, to be
 * looked at, "ipc 2.000 cpi 0.500". */
void metrics_print(const struct pmc *pmc, bool brief, struct buf *out);
/* "1.234k": at most six characters. Negative: "-". */
void number_print(double value, struct buf *out);
/* Whether the filter takes something that has these words. */
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

/* False: no memory. */
bool rows_read(struct rows *rows, const struct tree *tree, const struct choice *choice);
bool rows_arrange(struct rows *rows, const struct choice *choice);
void rows_free(struct rows *rows);

/* ---- grid.c: cells in columns that fit into a width ---- */

enum {
    GRID_COLUMNS = 12
};

struct grid {
    unsigned columns;
    unsigned right; /* a bit for each column that has numbers: to the right, and never cut */
    struct buf text;
    VEC(size_t) ends; /* of the cells, row by row; the first row are the titles */
    unsigned width[GRID_COLUMNS];
};

void grid_begin(struct grid *grid, unsigned columns, unsigned right);
/* What was added to text since the last one is a cell. */
void grid_cell(struct grid *grid);
void grid_word(struct grid *grid, const char *word);
/* Chooses the widths: the widest columns lose most. Once, when all cells are there. */
void grid_fit(struct grid *grid, unsigned width);
size_t grid_rows(const struct grid *grid);
void grid_row(const struct grid *grid, size_t row, struct buf *out);
void grid_free(struct grid *grid);

/* ---- screen.c: one picture of it all ---- */

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
    enum page page, behind_help;
    size_t top[PAGES]; /* how far each is scrolled */
    size_t body;       /* lines that the last picture had for its page */
    enum prompt prompt;
    char typed[64];
    const char *message; /* or NULL */
};

void screen_draw(struct live *live);

/* ---- live.c and batch.c ---- */

/* Until the user ends it, or after so many readings (0: no limit). The exit status. */
int live_run(struct tree *tree, const struct choice *choice, double interval, unsigned long limit);
int batch_run(struct tree *tree, const struct choice *choice, double interval, unsigned long limit);
/* Seconds between readings, as people write them. False: no number, or out of range. */
bool interval_parse(const char *text, double *seconds);
#define INTERVAL_RANGE "a number of seconds from 0.1 to 86400"
