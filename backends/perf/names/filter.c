/*
 * Filters of tracepoints: the kernel reads them, and says no more than that it does not take one;
 * which fields there are stands in tracefs.
 */
#include "backends/perf/names/names.h"

#include "backends/perf/probe/code.h"
#include "backends/perf/probe/open.h"
#include "backends/perf/probe/pmu.h"
#include "backends/perf/probe/tracefs.h"
#include "backends/proc.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* "\tfield:char comm[16];\toffset:…": the last word before the semicolon, without "[16]". */
static struct word field_of(const char *line)
{
    static const char before[] = "\tfield:";
    struct word name = {.len = 0};
    size_t end;

    if (strncmp(line, before, strlen(before)) != 0)
        return name;
    line += strlen(before);
    end = strcspn(line, ";");
    if (end > 0 && line[end - 1] == ']')
        while (end > 0 && line[end] != '[')
            end--;
    name.p = line + end;
    while (name.p > line && name.p[-1] != ' ' && name.p[-1] != '*')
        name.p--;
    name.len = (size_t)(line + end - name.p);
    return name;
}

static void fields_add(const char *format, struct buf *out)
{
    const char *before = ": its fields are ";

    for (const char *line = format; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const struct word name = field_of(line);

        if (name.len == 0 || strncmp(name.p, "common_", 7) == 0)
            continue;
        buf_str(out, before);
        buf_add(out, name.p, name.len);
        before = ", ";
    }
}

/* Nothing where they cannot be read. */
static void fields_print(const struct backend_state *state, const struct event *event,
                         struct buf *out)
{
    const int events = tracefs_events(state);
    char path[300], *colon, *format;

    if (events < 0)
        return;
    snprintf(path, sizeof path, "%s/format", event->resolved);
    colon = strchr(path, ':');
    if (colon)
        *colon = '/';
    format = proc_text_at(events, path);
    if (format)
        fields_add(format, out);
    free(format);
    close(events);
}

static int filter_refused(const struct backend_state *state, const struct event *event,
                          const char *filter, int code, struct err *err)
{
    char room[400];
    struct buf fields;
    int rc;

    buf_init(&fields, room, sizeof room);
    fields_print(state, event, &fields);
    rc = err_set(err, P02,
                 "filter=%s: the kernel does not take it (%s) for \"%s\"%s; a filter compares "
                 "fields, without blanks (\\040 in a text): prev_pid==0&&next_comm~\"sh*\"",
                 text_shown(filter), err_errno_name(code), event->written, buf_text(&fields));
    buf_free(&fields);
    return rc;
}

/* Of an event on an idle thread. */
static int filter_try(const struct backend_state *state, const struct event *event,
                      const char *filter, struct err *err)
{
    struct perf_event_attr attr;
    int fd, rc = 0;

    code_to_attr(event, true, true, &attr);
    attr.disabled = 1;
    fd = event_open(&attr, state->pmus->parked.tid, -1, -1, 0);
    if (fd < 0)
        return 0; /* attaching says why */
    /* not always by EINVAL: brackets and quotes without their end have numbers of their own */
    if (ioctl(fd, PERF_EVENT_IOC_SET_FILTER, filter))
        rc = errno == ENOMEM ? err_nomem(err) : filter_refused(state, event, filter, errno, err);
    event_close(&fd);
    return rc;
}

int perf_check_filter(struct backend_state *state, const struct event *events, unsigned n,
                      const char *filter, struct err *err)
{
    unsigned tracepoints = 0;
    int rc = 0;

    for (unsigned i = 0; i < n && !rc; i++) {
        if (events[i].code[CODE_TYPE] != PERF_TYPE_TRACEPOINT)
            continue;
        tracepoints++;
        rc = filter_try(state, &events[i], filter, err);
    }
    if (rc || tracepoints)
        return rc;
    return err_set(err, P02, "filter=%s: %s tracepoint; only these have fields to compare",
                   text_shown(filter), n == 1 ? "the event is no" : "none of the events is a");
}
