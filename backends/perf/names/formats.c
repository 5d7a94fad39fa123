/*
 * The formats of tracepoints as perf keeps them in its files ("tracing data", the head of a
 * trace.dat of version 0.6): what stands in tracefs, each text behind its length.
 */
#include "backends/perf/names/names.h"

#include "backends/perf/probe/tracefs.h"
#include "backends/proc.h"

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

/* Of one that cannot be read nothing, which is a text, too. */
static void file_add(int events, const char *path, struct buf *out)
{
    char *text = proc_text_at(events, path);
    const uint64_t bytes = text ? strlen(text) : 0;

    buf_add(out, &bytes, sizeof bytes);
    buf_add(out, text, bytes);
    free(text);
}

/* "system:name", perhaps with ":k" behind it: a group of its own, and the one format in it. */
static void format_add(int events, const char *name, struct buf *out)
{
    const size_t system = strcspn(name, ":");
    const char *event = name + system + (name[system] == ':');
    char path[300];

    snprintf(path, sizeof path, "%.*s/%.*s/format", (int)system, name, (int)strcspn(event, ":"),
             event);
    buf_add(out, name, system);
    buf_char(out, '\0');
    number_add(out, 1);
    file_add(events, path, out);
}

void perf_formats(struct backend_state *state, const char *const *names, unsigned n,
                  struct buf *out)
{
    const int events = tracefs_events(state);

    if (events < 0)
        return;
    buf_add(out, MAGIC, sizeof MAGIC);
    buf_char(out, __BYTE_ORDER == __BIG_ENDIAN);
    buf_char(out, sizeof(long));
    number_add(out, (uint32_t)sysconf(_SC_PAGESIZE));
    buf_add(out, "header_page", sizeof "header_page");
    file_add(events, "header_page", out);
    buf_add(out, "header_event", sizeof "header_event");
    file_add(events, "header_event", out);
    number_add(out, 0); /* formats of the tracers' own records */
    number_add(out, n);
    for (unsigned i = 0; i < n; i++)
        format_add(events, names[i], out);
    number_add(out, 0);              /* bytes of addresses of the kernel, */
    number_add(out, 0);              /* of formats of its messages, */
    buf_add(out, &(uint64_t){0}, 8); /* of names of tasks: the stream has them */
    close(events);
}
