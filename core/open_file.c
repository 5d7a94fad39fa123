/*
 * What an open file remembers, as one line of text: out and in.
 */
#include "core/engine.h"

#include "core/fields.h"
#include "core/reader.h"
#include "core/rests.h"
#include "core/series.h"

#include <stdlib.h>
#include <string.h>

void open_file_print(const struct open_file *open, struct buf *out)
{
    struct held held = {.proc = 0};

    out->failed |= !held_fill(&held, open->rights);
    saved_print(&saved_open_file, open, out);
    saved_print(&saved_held, &held, out);
    free(held.rights);
    if (open->reader) {
        buf_str(out, " log ");
        log_reader_print(open->reader, out);
    } else {
        buf_str(out, " series ");
        if (open->series)
            series_print(open->series, out);
        else
            buf_char(out, '-');
    }
}

bool open_file_scan(struct open_file *open, const char *text, struct engine *engine)
{
    struct held held = {.rights = NULL};
    struct word label;
    struct scan line;

    scan_init(&line, text, strlen(text));
    bool fine = saved_scan(&saved_open_file, open, &line) && saved_scan(&saved_held, &held, &line);
    fine = held_take(&held, &open->rights) && fine;
    if (!fine || !scan_word(&line, &label))
        return false;
    if (word_is(label, "log"))
        return (open->reader = log_reader_scan(line_rest(&line), engine)) != NULL;
    if (*line_rest(&line) != '-')
        open->series = series_scan(line_rest(&line));
    return word_is(label, "series") && (open->series || *line_rest(&line) == '-');
}

void open_files_settle(struct engine *engine)
{
    rests_free(engine);
}
