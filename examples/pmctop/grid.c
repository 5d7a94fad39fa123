/*
 * A table whose columns are as wide as their widest cell, if the window is wide enough.
 */
#include "examples/pmctop/top.h"

#include <stdlib.h>
#include <string.h>

enum {
    WIDTH_MIN = 4
};

void grid_begin(struct grid *grid, unsigned columns, unsigned right)
{
    *grid = (struct grid){.columns = columns, .right = right};
}

void grid_cell(struct grid *grid)
{
    buf_char(&grid->text, '\0');
    if (vec_push(&grid->ends, grid->text.len))
        grid->text.failed = true;
}

void grid_word(struct grid *grid, const char *word)
{
    buf_str(&grid->text, word);
    grid_cell(grid);
}

/* Returns 0 after ENOMEM. */
size_t grid_rows(const struct grid *grid)
{
    return grid->text.failed ? 0 : grid->ends.n / grid->columns;
}

static const char *cell(const struct grid *grid, size_t row, unsigned column)
{
    const size_t at = row * grid->columns + column;

    return grid->text.data + (at ? grid->ends.items[at - 1] : 0);
}

/* Returns the widest column whose cells may be cut, or the number of columns if there is none. */
static unsigned column_widest(const struct grid *grid)
{
    unsigned widest = grid->columns;

    for (unsigned c = 0; c < grid->columns; c++)
        if (!(grid->right & 1u << c) && grid->width[c] > WIDTH_MIN &&
            (widest == grid->columns || grid->width[c] >= grid->width[widest]))
            widest = c;
    return widest;
}

void grid_fit(struct grid *grid, unsigned width)
{
    unsigned all = grid->columns - 1; /* the spaces between columns */

    for (unsigned c = 0; c < grid->columns; c++) {
        grid->width[c] = 1;
        for (size_t row = 0; row < grid_rows(grid); row++) {
            const size_t len = strlen(cell(grid, row, c));

            if (len > grid->width[c])
                grid->width[c] = (unsigned)len;
        }
        all += grid->width[c];
    }
    for (unsigned c; all > width && (c = column_widest(grid)) < grid->columns; all--)
        grid->width[c]--;
}

/* Prints a row; a cut cell has '+' as its last character. */
void grid_row(const struct grid *grid, size_t row, struct buf *out)
{
    for (unsigned c = 0; c < grid->columns; c++) {
        const char *text = cell(grid, row, c);
        const int width = (int)grid->width[c];

        if (strlen(text) > (size_t)width)
            buf_printf(out, "%.*s+", width - 1, text);
        else
            buf_printf(out, grid->right & 1u << c ? "%*s" : "%-*s", width, text);
        if (c + 1 < grid->columns)
            buf_char(out, ' ');
    }
}

void grid_free(struct grid *grid)
{
    buf_free(&grid->text);
    free(grid->ends.items);
}
