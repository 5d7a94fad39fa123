/*
 * The table of rows: the counters of each CPU and the PMCs that hold them. Columns are found by
 * their titles in the first line, so that later versions can add columns.
 */
#include "examples/pmctop/top.h"

#include <stdlib.h>
#include <string.h>

enum {
    WORDS_MAX = 32,
    ROW_STATE = 3,
    ROW_USERS = 9
};

/* In a narrow window only the first columns are shown. */
const char *const row_titles[ROW_COLUMNS] = {
    "cpu", "row",   "name",        "state", "pmc",   "uid",
    "pid", "event", "disposition", "users", "flags", "reload",
};

static size_t words_split(char *line, const char *words[WORDS_MAX])
{
    size_t n = 0;

    for (char *word; n < WORDS_MAX && (word = strsep(&line, " "));)
        words[n++] = word;
    return n;
}

/* Finds the index of each column; a missing column gets an index after the last. */
static void columns_find(char *head, size_t column[ROW_COLUMNS])
{
    const char *words[WORDS_MAX];
    const size_t n = words_split(head, words);

    for (size_t i = 0; i < ROW_COLUMNS; i++)
        for (column[i] = 0; column[i] < n && strcmp(words[column[i]], row_titles[i]) != 0;)
            column[i]++;
}

static bool rows_parse(struct rows *rows)
{
    char *at = rows->text.items, *line = strsep(&at, "\n");
    const char *words[WORDS_MAX];
    size_t column[ROW_COLUMNS];

    columns_find(line, column);
    while ((line = strsep(&at, "\n")) && *line) {
        const size_t n = words_split(line, words);
        struct row row;

        for (size_t i = 0; i < ROW_COLUMNS; i++)
            row.word[i] = column[i] < n ? words[column[i]] : "-";
        if (vec_push(&rows->all, row))
            return false;
    }
    return true;
}

bool rows_arrange(struct rows *rows, const struct choice *choice)
{
    rows->shown.n = 0;
    for (size_t i = 0; i < rows->all.n; i++) {
        const struct row *row = &rows->all.items[i];
        bool idle =
            strcmp(row->word[ROW_USERS], "0") == 0 && strcmp(row->word[ROW_STATE], "enabled") == 0;

        if (choice_takes(choice, row->word, ROW_COLUMNS) && !(choice->busy_only && idle) &&
            vec_push(&rows->shown, row))
            return false;
    }
    for (size_t i = 0, n = rows->shown.n; choice->reversed && i < n / 2; i++) {
        const struct row *row = rows->shown.items[i];

        rows->shown.items[i] = rows->shown.items[n - 1 - i];
        rows->shown.items[n - 1 - i] = row;
    }
    return true;
}

bool rows_read(struct rows *rows, const struct tree *tree, const struct choice *choice)
{
    rows->all.n = rows->shown.n = 0;
    return !tree_file(tree, "info/rows", &rows->text) ||
           (rows_parse(rows) && rows_arrange(rows, choice));
}

void rows_free(struct rows *rows)
{
    free(rows->text.items);
    free(rows->all.items);
    free(rows->shown.items);
}
