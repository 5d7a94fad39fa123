/*
 * A log as text: one line per record, "SECONDS.NANOSECONDS TYPE key=value …". Millions of lines are
 * made here per second, so those of samples are put together in place, without stdio.
 */
#include "core/base/buf.h"
#include "core/call.h"
#include "core/log/form.h"
#include "core/read/pen.h"

#include <string.h>

/* ---- the form ---- */

static void text_head(uint64_t *told, const struct log_facts *facts, struct buf *out)
{
    struct pen pen;

    (void)told;
    pen_begin(&pen, out);
    put_time(&pen, facts->monotonic_ns);
    PUT(&pen, " initialize version=" PMCFS_VERSION " machine=");
    put_text(&pen, facts->machine, strlen(facts->machine));
    PUT(&pen, " class=");
    put_text(&pen, facts->class, strlen(facts->class));
    PUT(&pen, " event=");
    put_events(&pen, facts->event, strlen(facts->event));
    PUT(&pen, " realtime=");
    put_time(&pen, facts->realtime_ns);
    PUT(&pen, " tsc=");
    if (facts->tsc)
        put_u64(&pen, facts->tsc);
    else
        PUT(&pen, "-");
    PUT(&pen, "\n");
    pen_flush(&pen);
}

/* ---- samples ---- */

static void put_frames(struct pen *pen, const struct record_sample *sample, uint64_t n)
{
    bool kernel = (sample->head.misc & RECORD_MODE) == RECORD_KERNEL, any = false;

    PUT(pen, " ips=");
    for (uint64_t i = 0; i < n; i++) {
        uint64_t frame = sample->frame[i];

        if (frame >= FRAME_MARKERS) {
            kernel = frame == FRAME_KERNEL;
            continue;
        }
        pen_make_room(pen);
        if (any)
            *pen->p++ = ',';
        if (kernel)
            PUT(pen, "k:");
        put_hex(pen, frame);
        any = true;
    }
    if (!any)
        PUT(pen, "-");
}

static void put_sample(struct pen *pen, const struct log_facts *facts,
                       const struct record_sample *sample)
{
    const struct log_event *event = event_of(facts->sets, sample->id);
    const bool chain = sample->head.size >= sizeof *sample &&
                       (!(sample->head.misc & RECORD_RAW) || (event && event->chains));
    const char *const word = event ? event->word : "-";
    const size_t len = event ? event->word_len : 1;

    put_time(pen, sample->time);
    if (chain)
        PUT(pen, " callchain pid=");
    else
        PUT(pen, " sample pid=");
    put_pid(pen, sample->pid);
    PUT(pen, " tid=");
    put_pid(pen, sample->tid);
    PUT(pen, " cpu=");
    put_cpu(pen, sample->cpu);
    PUT(pen, " ip=");
    put_hex(pen, sample->ip);
    PUT(pen, " event=");
    if (len > (size_t)(pen->room + PEN_ROOM - pen->p) / 2) {
        pen_flush(pen);
        buf_add(pen->out, word, len);
    } else {
        pen->p = mempcpy(pen->p, word, len);
    }
    PUT(pen, " period=");
    put_u64(pen, sample->period);
    if (chain)
        put_frames(pen, sample, sample_frames(sample));
    PUT(pen, "\n");
}

/* ---- all of them ---- */

static void text_records(uint64_t *told, const struct log_facts *facts, const void *records,
                         size_t len, struct buf *out)
{
    const char *at = records, *end = at + len;
    struct pen pen;

    (void)told;
    pen_begin(&pen, out);
    for (; at < end; at += ((const struct record *)at)->size) {
        const struct record *record = (const struct record *)at;

        if (record->type == RECORD_SAMPLE)
            put_sample(&pen, facts, (const struct record_sample *)record);
        else
            put_line(&pen, record);
        if (pen.p > pen.room + PEN_ROOM / 2)
            pen_flush(&pen);
    }
    pen_flush(&pen);
}

const struct log_form form_text = {
    .name = "text",
    .batch = 48 << 10,
    .head = text_head,
    .records = text_records,
};
