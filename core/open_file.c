/*
 * What an open file remembers, as one line of text: out and in.
 */
#include "core/engine.h"

#include "core/fields.h"
#include "core/series.h"

#include <stdlib.h>
#include <string.h>

void open_file_print(const struct open_file *open, struct buf *out)
{
    struct held held = {.proc = 0};

    out->failed |= !held_fill(&held, open->rights);
    record_print(&record_open_file, open, out);
    record_print(&record_held, &held, out);
    free(held.rights);
    buf_str(out, " series ");
    if (open->series)
        series_print(open->series, out);
    else
        buf_char(out, '-');
}

bool open_file_scan(struct open_file *open, const char *text)
{
    struct held held = {.rights = NULL};
    struct word label;
    struct scan line;

    scan_init(&line, text, strlen(text));
    bool fine =
        record_scan(&record_open_file, open, &line) && record_scan(&record_held, &held, &line);
    fine = held_take(&held, &open->rights) && fine;
    fine = fine && scan_word(&line, &label) && word_is(label, "series");
    if (fine && *line_rest(&line) != '-')
        fine = (open->series = series_scan(line_rest(&line))) != NULL;
    return fine;
}
