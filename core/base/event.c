/*
 * Prints an event of any backend.
 */
#include "core/base/event.h"

#include "core/base/cpus.h"

void event_print(const struct event *event, const char *spelling, const char *about,
                 struct buf *out)
{
    struct cpus rows; /* rows are printed in the syntax of CPU lists */

    cpus_init(&rows);
    for (unsigned row = 0; row < 64; row++)
        if (event->rows >> row & 1 && !cpus_add(&rows, row))
            out->failed = true;
    buf_printf(out, "event %s\ndescription ", spelling);
    for (; *about; about++)
        buf_char(out, *about == '\n' || *about == '\t' ? ' ' : *about);
    buf_printf(out, "\nscope %s\nsampling %s\nunit %s\nscale %.17g\nrows ",
               event->scope & EVENT_PROCESS   ? "process"
               : event->scope & EVENT_PACKAGE ? "package"
                                              : "cpu",
               event->sampling ? "yes" : "no", event->unit[0] ? event->unit : "-", event->scale);
    if (!event->rows)
        buf_char(out, '-');
    cpus_print(&rows, out);
    cpus_free(&rows);
    if (event->rows_needed > 1)
        buf_printf(out, " (takes %u)", event->rows_needed);
    buf_char(out, '\n');
}
