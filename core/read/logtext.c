/*
 * A log as text: one line per record, "SECONDS.NANOSECONDS TYPE key=value …". Lines of samples are
 * written without stdio, because a reader may read millions of them per second.
 */
#include "core/base/buf.h"
#include "core/call.h"
#include "core/log/form.h"
#include "core/read/logtext.h"

#include <string.h>

void put_pid(struct buf *out, uint32_t pid)
{
    if (pid == UINT32_MAX)
        BUF_LITERAL(out, "-1");
    else
        buf_u64(out, pid);
}

void put_text(struct buf *out, const char *text, size_t len)
{
    size_t shown = len < TEXT_MAX ? len : TEXT_MAX;

    while (shown < len && shown > TEXT_MAX - 4 && (text[shown] & 0xc0) == 0x80)
        shown--; /* do not cut inside a character */
    buf_word(out, text, shown);
    if (shown < len)
        BUF_LITERAL(out, "…");
}

void put_events(struct buf *out, const char *text, size_t len)
{
    for (size_t at = 0, n; at < len; at += n + 1) {
        for (n = 0; at + n < len && text[at + n] != ' ' && text[at + n] != ',';)
            n++;
        buf_word(out, text + at, n);
        if (at + n < len)
            buf_str(out, text[at + n] == ' ' ? "," : "\\054");
    }
    if (!len)
        buf_char(out, '-');
}

/* ---- the form ---- */

static void text_head(uint64_t *told, const struct log_facts *facts, struct buf *out)
{
    (void)told;
    buf_seconds(out, facts->monotonic_ns);
    BUF_LITERAL(out, " initialize version=" PMCFS_VERSION " machine=");
    put_text(out, facts->machine, strlen(facts->machine));
    BUF_LITERAL(out, " class=");
    put_text(out, facts->class, strlen(facts->class));
    BUF_LITERAL(out, " event=");
    put_events(out, facts->event, strlen(facts->event));
    BUF_LITERAL(out, " realtime=");
    buf_seconds(out, facts->realtime_ns);
    BUF_LITERAL(out, " tsc=");
    if (facts->tsc)
        buf_u64(out, facts->tsc);
    else
        buf_char(out, '-');
    buf_char(out, '\n');
}

/* ---- samples ---- */

static void put_frames(struct buf *out, const struct record_sample *sample, uint64_t n)
{
    bool kernel = (sample->head.misc & RECORD_MODE) == RECORD_KERNEL, any = false;

    BUF_LITERAL(out, " ips=");
    for (uint64_t i = 0; i < n; i++) {
        uint64_t frame = sample->frame[i];

        if (frame >= FRAME_MARKERS) {
            kernel = frame == FRAME_KERNEL;
            continue;
        }
        if (any)
            buf_char(out, ',');
        if (kernel)
            BUF_LITERAL(out, "k:");
        buf_hex(out, frame);
        any = true;
    }
    if (!any)
        buf_char(out, '-');
}

static void put_sample(struct buf *out, const struct log_facts *facts,
                       const struct record_sample *sample)
{
    const struct log_event *event = event_of(facts->sets, sample->id);
    const bool chain = sample->head.size >= sizeof *sample &&
                       (!(sample->head.misc & RECORD_RAW) || (event && event->chains));

    buf_seconds(out, sample->time);
    if (chain)
        BUF_LITERAL(out, " callchain pid=");
    else
        BUF_LITERAL(out, " sample pid=");
    put_pid(out, sample->pid);
    BUF_LITERAL(out, " tid=");
    put_pid(out, sample->tid);
    BUF_LITERAL(out, " cpu=");
    if (sample->cpu == UINT32_MAX)
        buf_char(out, '-');
    else
        buf_u64(out, sample->cpu);
    BUF_LITERAL(out, " ip=");
    buf_hex(out, sample->ip);
    BUF_LITERAL(out, " event=");
    if (event)
        buf_add(out, event->word, event->word_len);
    else
        buf_char(out, '-');
    BUF_LITERAL(out, " period=");
    buf_u64(out, sample->period);
    if (chain)
        put_frames(out, sample, sample_frames(sample));
    buf_char(out, '\n');
}

/* ---- all of them ---- */

static void text_records(uint64_t *told, const struct log_facts *facts, const void *records,
                         size_t len, struct buf *out)
{
    const char *at = records, *end = at + len;

    (void)told;
    for (; at < end; at += ((const struct record *)at)->size) {
        const struct record *record = (const struct record *)at;

        if (record->type == RECORD_SAMPLE)
            put_sample(out, facts, (const struct record_sample *)record);
        else
            put_line(out, record);
    }
}

const struct log_form form_text = {
    .name = "text",
    .batch = 48 << 10,
    .head = text_head,
    .records = text_records,
};
