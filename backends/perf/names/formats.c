/*
 * The formats of tracepoints as perf keeps them in its files ("tracing data", the head of a
 * trace.dat of version 0.6): what stands in tracefs, each text behind its length.
 */
#include "backends/perf/names/names.h"

#include "backends/perf/probe/tracefs.h"
#include "backends/proc.h"
#include "core/log/log_sets.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC "\027\010\104tracing0.6" /* and its NUL */

static void number_add(struct buf *out, uint32_t number)
{
    buf_add(out, &number, sizeof number);
}

static void text_add(struct buf *out, const char *text)
{
    const uint64_t bytes = strlen(text);

    buf_add(out, &bytes, sizeof bytes);
    buf_add(out, text, bytes);
}

static bool file_add(int events, const char *path, struct buf *out)
{
    char *text = proc_text_at(events, path);
    const bool there = text;

    if (there)
        text_add(out, text);
    free(text);
    return there;
}

/* Another one may have its name by now. */
static bool is_of(const char *format, const struct log_event *event)
{
    const char *id = proc_field(format, "ID");

    return id && strtoull(id, NULL, 10) == event->config;
}

/* "system:name", perhaps with ":k" behind it: a group of its own, and the one format in it. */
static bool format_add(int events, const struct log_event *event, struct buf *out)
{
    const char *system = event->resolved, *name = system + strcspn(system, ":");
    char path[300], *text;
    bool fine;

    name += *name == ':';
    snprintf(path, sizeof path, "%.*s/%.*s/format", (int)strcspn(system, ":"), system,
             (int)strcspn(name, ":"), name);
    buf_add(out, system, strcspn(system, ":"));
    buf_char(out, '\0');
    number_add(out, 1);
    text = proc_text_at(events, path);
    fine = text && is_of(text, event);
    if (fine)
        text_add(out, text);
    free(text);
    return fine;
}

bool perf_formats(struct backend_state *state, const struct log_event *const *events, unsigned n,
                  struct buf *out)
{
    const int dir = tracefs_events(state);
    bool fine;

    if (dir < 0)
        return false;
    buf_add(out, MAGIC, sizeof MAGIC);
    buf_char(out, __BYTE_ORDER == __BIG_ENDIAN);
    buf_char(out, sizeof(long));
    number_add(out, (uint32_t)sysconf(_SC_PAGESIZE));
    buf_add(out, "header_page", sizeof "header_page");
    fine = file_add(dir, "header_page", out);
    buf_add(out, "header_event", sizeof "header_event");
    fine = fine && file_add(dir, "header_event", out);
    number_add(out, 0); /* formats of the tracers' own records */
    number_add(out, n);
    for (unsigned i = 0; i < n && fine; i++)
        fine = format_add(dir, events[i], out);
    number_add(out, 0);              /* bytes of addresses of the kernel, */
    number_add(out, 0);              /* of formats of its messages, */
    buf_add(out, &(uint64_t){0}, 8); /* of names of tasks: the stream has them */
    close(dir);
    return fine;
}
