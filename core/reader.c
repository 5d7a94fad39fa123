/*
 * Reading a log: decide with the engine's lock whether there is something, something may come, or
 * it is over; take a batch of records and form it without the lock, in a work.
 */
#include "core/reader_state.h"

#include "core/files.h"
#include "core/pmc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define ROOM_OF_BATCH (128u << 10) /* what a form's batch is meant for */
#define ROOM_MOST     (256u << 10)
#define BATCH_LEAST   4096    /* bytes of records, however little is asked for */
#define BUSY_NS       1000000 /* two reads of one open file at once: the second looks again */

#define LAST_NS UINT64_C(2000000000) /* so long may it take to close the counters of a PMC */

/* ---- life ---- */

struct log_reader *log_reader_new(struct engine *engine, const struct log_form *form, uint64_t pmc,
                                  const char *state)
{
    struct log_reader *reader = calloc(1, sizeof *reader);

    if (!reader)
        return NULL;
    reader->engine = engine;
    reader->form = form;
    reader->pmc = pmc;
    buf_init(&reader->machine, NULL, 0);
    buf_init(&reader->records, NULL, 0);
    reader->state = state ? form->scan(state) : form->begin();
    if (!reader->state) {
        free(reader);
        return NULL;
    }
    return reader;
}

static void reader_forget(struct log_reader *reader)
{
    free(reader->name);
    free(reader->class);
    free(reader->event);
    reader->name = reader->class = reader->event = NULL;
}

void log_reader_free(struct log_reader *reader)
{
    if (!reader)
        return;
    reader->form->end(reader->state);
    log_close(reader->cursor);
    log_sets_unref(reader->sets);
    buf_free(&reader->machine);
    buf_free(&reader->records);
    reader_forget(reader);
    free(reader);
}

/* Where there was none, or another (the log was ended, and began anew), and nothing is left of it.
 */
static bool reader_follow(struct log_reader *reader, const struct pmc *pmc)
{
    bool other = !reader->cursor || reader->cursor->log != pmc->log;

    if (pmc->sets && pmc->sets != reader->sets) {
        log_sets_unref(reader->sets);
        reader->sets = log_sets_ref(pmc->sets);
    }
    if (!pmc->log || !other || (reader->cursor && log_ready(reader->cursor)))
        return true;
    struct log_cursor *cursor = log_open(pmc->log);
    if (!cursor)
        return false;
    log_close(reader->cursor);
    reader->cursor = cursor;
    return true;
}

static bool reader_ready(const struct log_reader *reader)
{
    return !reader->headed || reader->records.len || (reader->cursor && log_ready(reader->cursor));
}

/* ---- what may come ---- */

/* Can records still come? While a change is under way nobody knows. */
static bool records_come(const struct pmc *pmc)
{
    const struct settings *settings = &pmc->settings;

    if (!pmc->set || !settings->value[KEY_LOG] || !recorded_for(pmc->effective, settings))
        return false;
    return pmc->busy || pmc->state == PMC_ALLOCATED || pmc->state == PMC_ARMED ||
           pmc->state == PMC_RUNNING || pmc->state == PMC_LOST;
}

/* ---- what the first line says ---- */

static bool events_print(const struct pmc *pmc, char **text)
{
    struct buf out;

    buf_init(&out, NULL, 0);
    for (unsigned i = 0; i < pmc_events(pmc); i++) {
        if (i)
            buf_char(&out, ' ');
        buf_str(&out, pmc->set->event[i].written);
    }
    *text = strdup(buf_text(&out));
    buf_free(&out);
    return *text;
}

void log_reader_tell(struct log_reader *reader)
{
    reader->facts.pmc = reader->name;
    reader->facts.class = reader->class;
    reader->facts.event = reader->event;
    reader->told = true;
}

/* The moment is that of mkdir, which no record is before. */
bool log_reader_learn(struct log_reader *reader, const struct pmc *pmc)
{
    const struct engine *engine = pmc->engine;

    reader->uid = pmc->uid;
    if (reader->told && reader->headed)
        return true;
    reader_forget(reader);
    reader->name = strdup(pmc->name);
    reader->class = strdup(pmc->set ? engine->classes[pmc->set->event[0].class_index].name : "-");
    if (!reader->name || !reader->class || !events_print(pmc, &reader->event))
        return false;
    reader->facts = (struct log_facts){
        .monotonic_ns = pmc->made_ns,
        .realtime_ns = pmc->created_ns,
        .tsc = pmc->made_tsc,
    };
    log_reader_tell(reader);
    return true;
}

/* ---- a reply ---- */

struct reply {
    struct work work;
    const struct engine *engine;
    struct log_reader *reader;
    size_t room; /* bytes of text that are asked for */
    struct buf text;
};

static void reply_head(struct reply *reply)
{
    struct log_reader *reader = reply->reader;
    const struct engine *engine = reply->engine;

    if (!reader->machine.len)
        engine->host->cpu_name(engine->host_state, &reader->machine);
    reader->facts.machine = buf_text(&reader->machine);
    if (!reader->headed)
        reader->form->head(reader->state, &reader->facts, &reply->text);
}

/* Bytes of records for so much text; what does not fit waits for the next read. */
static size_t records_for(const struct log_form *form, size_t room)
{
    return (size_t)((uint64_t)room * form->batch / ROOM_OF_BATCH);
}

/* The records from this place on become text. */
static void reply_form(struct reply *reply, size_t at)
{
    struct log_reader *reader = reply->reader;
    const char *records = reader->records.data;
    size_t len = reader->records.len;

    if (at < len)
        reader->form->records(reader->state, &reader->facts, records + at, len - at, &reply->text);
    for (size_t size; at < len; at += size) {
        size = ((const struct record *)(records + at))->size;
        reader->closed = ((const struct record *)(records + at))->type == RECORD_CLOSE;
    }
}

/* Until the reply is nearly full. Without memory for the text the records are kept for next time.
 */
static void reply_run(struct work *work)
{
    struct reply *reply = (struct reply *)work;
    struct log_reader *reader = reply->reader;
    size_t max = records_for(reader->form, reply->room), at;

    reply_head(reply);
    reply_form(reply, 0); /* what was kept */
    if (max < BATCH_LEAST)
        max = BATCH_LEAST;
    while (max >= BATCH_LEAST && reader->cursor && !reply->text.failed) {
        at = reader->records.len;
        if (!log_take(reader->cursor, &reader->records, max))
            break;
        reply_form(reply, at);
        max = reply->text.len < reply->room
                  ? records_for(reader->form, reply->room - reply->text.len)
                  : 0;
    }
    reply->text.failed |= reader->records.failed;
    reader->records.failed = false;
    if (!reply->text.failed)
        buf_free(&reader->records);
}

static int stream_log(struct call *call, const struct log_form *form);

/* The text becomes the reply's. Records without a line are no end of file: then it looks again. */
static int reply_finish(struct call *call, struct work *work)
{
    struct reply *reply = (struct reply *)work;
    struct log_reader *reader = reply->reader;
    struct buf text = reply->text;

    free(reply);
    reader->busy = false;
    reader->headed |= !text.failed;
    if (text.failed || !text.len) {
        bool failed = text.failed;
        buf_free(&text);
        return failed ? err_set(&call->err, E32, "no memory") : stream_log(call, reader->form);
    }
    buf_free(call->out);
    *call->out = text;
    return CALL_DONE;
}

/* The first one looks at the machine. */
static int reply_begin(struct call *call, struct log_reader *reader)
{
    struct reply *reply = calloc(1, sizeof *reply);
    struct log_cursor *cursor = reader->cursor;

    if (!reply)
        return err_set(&call->err, E32, "no memory");
    reply->work = (struct work){reply_run, reply_finish, !reader->headed};
    reply->engine = call->engine;
    reply->reader = reader;
    reply->room = call->room < ROOM_MOST ? call->room : ROOM_MOST;
    buf_init(&reply->text, NULL, 0);
    reader->facts.sets = reader->sets;
    reader->facts.arrived = cursor ? log_last(cursor->log) : 0;
    reader->busy = true;
    call->work = &reply->work;
    return CALL_WORK;
}

/* ---- the streams ---- */

static struct log_reader *reader_of(struct call *call, const struct log_form *form)
{
    struct log_reader *reader = call->open->reader;

    if (!reader && call->pmc)
        reader = call->open->reader = log_reader_new(call->engine, form, call->pmc->id, NULL);
    return reader;
}

/*
 * Released: the last records are put when all counters are closed, a moment later; it is woken
 * then.
 */
static int stream_rest(struct call *call, struct log_reader *reader)
{
    if (!reader->cursor || reader->closed)
        return CALL_DONE;
    if (!reader->give_up_ns)
        reader->give_up_ns = call->now_ns + LAST_NS;
    if (call->now_ns >= reader->give_up_ns)
        return CALL_DONE;
    call->wait_until_ns = reader->give_up_ns;
    return call->nonblock ? -EAGAIN : CALL_WAIT;
}

static int stream_log(struct call *call, const struct log_form *form)
{
    struct pmc *pmc = call->pmc;
    struct log_reader *reader = reader_of(call, form);

    if (!reader)
        return pmc ? err_set(&call->err, E32, "no memory") : CALL_DONE;
    call->wait_for = reader->pmc;
    if (reader->busy) {
        call->wait_until_ns = call->now_ns + BUSY_NS;
        return CALL_WAIT;
    }
    if (pmc && (!log_reader_learn(reader, pmc) || !reader_follow(reader, pmc)))
        return err_set(&call->err, E32, "no memory");
    if (reader->told && reader_ready(reader))
        return reply_begin(call, reader);
    if (!pmc)
        return stream_rest(call, reader);
    if (!records_come(pmc))
        return CALL_DONE;
    return call->nonblock ? -EAGAIN : CALL_WAIT;
}

int stream_samples(struct call *call)
{
    return stream_log(call, &form_text);
}

int stream_samples_perf(struct call *call)
{
    return stream_log(call, &form_perf);
}

/* What is released before its first read can still be read. That read tells what went wrong. */
static void begin_log(struct call *call, const struct log_form *form)
{
    struct log_reader *reader = reader_of(call, form);

    if (reader && log_reader_learn(reader, call->pmc))
        reader_follow(reader, call->pmc);
}

void begin_samples(struct call *call)
{
    begin_log(call, &form_text);
}

void begin_samples_perf(struct call *call)
{
    begin_log(call, &form_perf);
}

/* Nothing was read yet: there is a first line. At its end it is readable too, as files are. */
unsigned poll_samples(struct call *call)
{
    const struct log_reader *reader = call->open ? call->open->reader : NULL;
    const struct pmc *pmc = call->pmc;
    unsigned level = EPOLLOUT | EPOLLWRNORM;
    bool other = reader && pmc->log && (!reader->cursor || reader->cursor->log != pmc->log);

    if (reader && reader->busy)
        return level;
    if (!reader || other || !records_come(pmc) || reader_ready(reader))
        level |= EPOLLIN | EPOLLRDNORM;
    return level;
}
