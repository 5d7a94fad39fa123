/*
 * The files samples, samples.perf and samples.folded. A read decides under the engine's lock
 * whether to reply, wait or report end of file, and converts a batch of records without the lock. A
 * write adds a user record.
 */
#include "core/read/reader.h"

#include "core/change/change.h"
#include "core/engine.h"
#include "core/pmc/pmc.h"
#include "core/read/folded.h"
#include "core/users/users.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define ROOM_OF_BATCH (128u << 10) /* reply size for which log_form.batch is chosen */
#define ROOM_MOST     (256u << 10)
#define BATCH_LEAST   512     /* minimum bytes for a batch; below it, one record at a time */
#define BUSY_NS       1000000 /* retry interval for a concurrent read of the same open file */

#define LAST_NS UINT64_C(2000000000) /* time limit for the last record of a released PMC */

/* ---- creation and destruction ---- */

struct log_reader *log_reader_new(struct engine *engine, const struct log_form *form, uint64_t pmc)
{
    struct log_reader *reader = calloc(1, sizeof *reader);

    if (!reader)
        return NULL;
    reader->engine = engine;
    reader->form = form;
    reader->pmc = pmc;
    reader->facts.processor = engine->processor;
    reader->facts.tracepoint_format = engine->backend->tracepoint_format;
    reader->facts.print_tracing_data = engine->backend->print_tracing_data;
    reader->facts.backend_state = engine->backend_state;
    return reader;
}

void log_reader_free(struct log_reader *reader)
{
    if (!reader)
        return;
    log_close(reader->cursor);
    log_sets_unref(reader->facts.sets);
    free(reader->facts.class);
    free(reader->facts.event);
    free(reader);
}

static bool reader_ready(const struct log_reader *reader)
{
    return !reader->headed || (reader->cursor && log_ready(reader->cursor));
}

/* ---- expected records ---- */

/* Returns true if the PMC logs samples, switches or exits, and more of them may come. During a
 * change this is unknown, so true. */
static bool records_come(const struct pmc *pmc)
{
    const struct settings *settings = &pmc->settings;

    if (!pmc->set || !settings->word[KEY_LOG] || !recorded_for(pmc->mode_in_use, settings))
        return false;
    return pmc->busy || pmc->state == PMC_ALLOCATED || pmc->state == PMC_ARMED ||
           pmc->state == PMC_RUNNING || pmc->state == PMC_LOST || pmc->state == PMC_WAITING;
}

/* ---- the first line ---- */

bool log_reader_update_facts(struct log_reader *reader, const struct pmc *pmc)
{
    const struct class_info *classes = pmc->engine->classes;
    struct log_facts *facts = &reader->facts;
    struct buf events = {0};

    reader->uid = pmc->payer;
    if (facts->class && reader->headed)
        return true;
    free(facts->class);
    free(facts->event);
    facts->class = strdup(pmc->set ? classes[pmc->set->event[0].class_index].name : "-");
    for (unsigned i = 0; i < pmc_events(pmc); i++)
        buf_printf(&events, "%s%s", i ? " " : "", pmc->set->event[i].written);
    facts->event = strdup(buf_text(&events));
    buf_free(&events);
    facts->monotonic_ns = pmc->created_monotonic_ns;
    facts->realtime_ns = pmc->created_ns;
    facts->tsc = pmc->created_tsc;
    return facts->class && facts->event;
}

size_t log_reader_bytes(const struct log_reader *reader)
{
    const struct log_facts *facts = &reader->facts;
    size_t bytes = sizeof *reader + sizeof *reader->cursor;

    bytes += facts->class ? strlen(facts->class) + 1 : 0;
    return bytes + (facts->event ? strlen(facts->event) + 1 : 0);
}

/* ---- a reply ---- */

/* The reader's position, restored if the reply cannot be delivered. */
struct reader_position {
    struct log_cursor cursor;
    uint64_t form_state;
    bool closed;
};

struct reply {
    struct log_reader *reader;
    size_t room; /* requested bytes */
    struct buf records, text;
    bool failed; /* ENOMEM */
};

static struct reader_position position_of(const struct log_reader *reader)
{
    return (struct reader_position){
        .cursor =
            reader->cursor ? log_cursor_save(reader->cursor) : (struct log_cursor){.log = NULL},
        .form_state = reader->form_state,
        .closed = reader->closed,
    };
}

static void position_restore(struct log_reader *reader, const struct reader_position *position)
{
    if (position->cursor.log)
        log_cursor_restore(reader->cursor, &position->cursor);
    reader->form_state = position->form_state;
    reader->closed = position->closed;
}

/*
 * Adds about max bytes of records to the reply, or one record if max is 1. Returns false and
 * changes nothing if no record is left, if the text does not fit and is not the single record of
 * the reply, or on ENOMEM (sets reply->failed).
 */
static bool reply_add_records(struct reply *reply, size_t max)
{
    struct log_reader *reader = reply->reader;
    const struct log_form *form = reader->form;
    const struct reader_position before = position_of(reader);
    const size_t begun = reply->text.len;
    /* records start at a multiple of 8 of the text, except after one that was converted */
    const bool direct = form->in_place && begun % sizeof(uint64_t) == 0;
    struct buf *records = direct ? &reply->text : &reply->records;

    buf_clear(&reply->records);
    if (!log_read(reader->cursor, records, max)) {
        reply->failed |= records->failed;
        return false;
    }
    if (!direct || !form->in_place(&reader->form_state, &reader->facts, begun, &reply->text)) {
        if (direct)
            buf_add(&reply->records, reply->text.data + begun, reply->text.len - begun);
        if (direct)
            reply->text.len = begun;
        reply->failed |= reply->records.failed;
        form->records(&reader->form_state, &reader->facts, reply->records.data, reply->records.len,
                      &reply->text);
    }
    reader->closed = reader->cursor->last_type == RECORD_CLOSE;
    reply->failed |= reply->text.failed;
    if (!reply->failed && (reply->text.len <= reply->room || (max == 1 && begun == 0)))
        return true;
    position_restore(reader, &before);
    reply->text.len = begun;
    return false;
}

/*
 * Replaces call->out by the text of the next records; drops the lock to convert them. The text is
 * empty if the records have no lines; this does not mean end of file. After an error the reader has
 * its old position. Returns CALL_WAIT if the first reply gets no slow slot.
 */
static int reply_give(struct call *call, struct log_reader *reader)
{
    const struct reader_position begun = position_of(reader);
    struct reply reply = {.reader = reader,
                          .room = call->room < ROOM_MOST ? call->room : ROOM_MOST};
    bool many = true;
    int rc = reader->headed ? CALL_DONE : slow_admit(call);

    if (rc)
        return rc;
    reader->busy = true;
    lock_drop(call, false);
    if (!reader->headed)
        reader->form->head(&reader->form_state, &reader->facts, &reply.text);
    reply.failed = reply.text.failed;
    /* batches while their text fits, then single records, so that the reply ends with a complete
     * line */
    while (reader->cursor && !reply.failed && (!reply.text.len || reply.text.len < reply.room)) {
        /* bytes of records that produce about as much text as fits */
        const uint64_t room = reply.room - reply.text.len;
        size_t max = (size_t)(room * reader->form->batch / ROOM_OF_BATCH);

        many &= max >= BATCH_LEAST;
        if (reply_add_records(&reply, many ? max : 1))
            continue;
        if (!many)
            break;
        many = false;
    }
    buf_free(&reply.records);
    reply.text.failed = false;
    lock_retake(call);
    reader->busy = false;
    if (reply.failed && !reply.text.len)
        rc = err_nomem(&call->err);
    else if (reply.text.len > call->room) /* store the tail of a long record for the next read */
        rc = open_file_charge_texts(call, reply.text.len - call->room);
    if (rc) {
        position_restore(reader, &begun);
        buf_free(&reply.text);
        return rc;
    }
    reader->headed = true;
    buf_free(call->out);
    *call->out = reply.text;
    return CALL_DONE;
}

/* ---- the streams ---- */

static struct log_reader *reader_of(struct call *call, const struct log_form *form)
{
    struct log_reader *reader = call->open->reader;

    if (!reader && call->pmc)
        reader = call->open->reader = log_reader_new(call->engine, form, call->pmc->id);
    return reader;
}

/*
 * Waits for the last records of a released PMC, at most LAST_NS. They are added when its counters
 * are closed, and that wakes the reader. Returns CALL_DONE (end of file) if they were read, or did
 * not come in time.
 */
static int wait_last_records(struct call *call, struct log_reader *reader)
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

/* Updates the reader from the PMC, and opens the log once there is one, which is never replaced.
 * Returns false on ENOMEM. */
static bool reader_update(struct call *call, struct log_reader *reader)
{
    struct pmc *pmc = call->pmc;

    if (!log_reader_update_facts(reader, pmc) || (pmc->notes && !pmc_ensure_log(pmc)))
        return false;
    if (pmc->sets && !reader->facts.sets)
        reader->facts.sets = log_sets_ref(pmc->sets);
    if (!reader->cursor && pmc->log && !(reader->cursor = log_open(pmc->log)))
        return false;
    call->open->remembers = log_reader_bytes(reader);
    return true;
}

static int stream_log(struct call *call, const struct log_form *form)
{
    struct log_reader *reader = reader_of(call, form);
    int rc = CALL_DONE;

    if (!reader)
        return call->pmc ? err_nomem(&call->err) : CALL_DONE;
    if (reader->busy) {
        call->wait_for = reader->pmc;
        call->wait_until_ns = call->now_ns + BUSY_NS;
        return CALL_WAIT;
    }
    reader->facts.reader = rights_to_memory(call->open->rights);
    do {
        struct pmc *pmc = call->pmc; /* read it again after each reply: the PMC may be released */

        if (pmc && !reader_update(call, reader))
            return err_nomem(&call->err);
        call->wait_for = reader->pmc;
        if (reader->facts.class && reader_ready(reader))
            rc = reply_give(call, reader);
        else if (!pmc)
            return wait_last_records(call, reader);
        else if (!records_come(pmc))
            return CALL_DONE;
        else
            return call->nonblock ? -EAGAIN : CALL_WAIT;
    } while (rc == CALL_DONE && !call->out->len);
    return rc;
}

int stream_samples(struct call *call)
{
    return stream_log(call, &form_text);
}

int stream_samples_perf(struct call *call)
{
    return stream_log(call, &form_perf);
}

bool filler_lines(struct call *call)
{
    buf_str(call->out, "# waiting\n");
    return true;
}

/* Sends an empty round, which perf ignores: all earlier records are shown already. */
bool filler_samples_perf(struct call *call)
{
    const struct log_reader *reader = call->open ? call->open->reader : NULL;

    if (reader && reader->headed)
        perfdata_round(call->out);
    return call->out->len > 0;
}

/* Prepares the reader at open, so that the log of a PMC that is released before the first read can
 * be read. The read reports errors. */
static void begin_log(struct call *call, const struct log_form *form)
{
    struct log_reader *reader = reader_of(call, form);

    if (reader)
        reader_update(call, reader);
}

void begin_samples(struct call *call)
{
    begin_log(call, &form_text);
}

void begin_samples_perf(struct call *call)
{
    begin_log(call, &form_perf);
}

/* The stream is readable before the first line and, like any file, at its end. */
unsigned poll_samples(struct call *call)
{
    const struct log_reader *reader = call->open ? call->open->reader : NULL;
    const struct pmc *pmc = call->pmc;
    unsigned level = EPOLLOUT | EPOLLWRNORM;

    if (reader && reader->busy)
        return level;
    if (!reader || (!reader->cursor && pmc_has_log(pmc)) || !records_come(pmc) ||
        reader_ready(reader))
        level |= EPOLLIN | EPOLLRDNORM;
    return level;
}

/* ---- WRITELOG ---- */

/* Sets the error for a record that is too large for the limit of the log or its present ring. */
static int user_record_refuse(struct call *call, struct pmc *pmc, size_t size)
{
    const size_t most = log_record_max(pmc->log);

    if (size > RECORD_MAX)
        return err_set(&call->err, P04,
                       "a text of %zu bytes: a record of a log has room for %zu; write less",
                       call->len, RECORD_MAX - sizeof(struct record_note));
    if (size > most)
        return err_set(&call->err, P04,
                       "the text has %zu bytes, and the log of %s (logsize=%llu) takes at most %zu "
                       "at once: write less, or set a larger logsize",
                       call->len, pmc->name,
                       (unsigned long long)log_size(pmc->engine, &pmc->settings),
                       most - sizeof(struct record_note));
    return err_set(&call->err, X14,
                   "no memory for a record in the log of %s, or max_log_per_user (max_log of the "
                   "instance) is used up: release other PMCs, or set a smaller logsize for them",
                   pmc->name);
}

static int user_record_put(struct call *call, struct pmc *pmc, uint64_t time_ns)
{
    struct buf record = {0};
    int rc = -ENOMEM;

    record_add_note(&record, &(struct note){.type = RECORD_USER,
                                            .time = time_ns,
                                            .cpu = UINT32_MAX,
                                            .text = call->text,
                                            .text_len = call->len});
    if (!pmc_ensure_log(pmc)) {
        buf_free(&record);
        return err_set(&call->err, X14,
                       "no memory for the log of %s: try again later, or release PMCs", pmc->name);
    }
    if (call->len > RECORD_MAX - sizeof(struct record_note))
        rc = -E2BIG; /* the record would have only a part of the text */
    else if (!record.failed)
        rc = log_put_once(pmc->log, call->engine->request, (const struct record *)record.data);
    if (rc)
        rc = user_record_refuse(call, pmc, sizeof(struct record_note) + call->len);
    else
        pmc_wake(pmc);
    buf_free(&record);
    return rc;
}

int store_samples(struct call *call)
{
    struct pmc *pmc = call->pmc;
    struct drain_result drained;
    int rc = change_check_held(call);

    if (rc)
        return rc;
    if (!pmc->settings.word[KEY_LOG])
        return err_set(&call->err, E31, "%s has no log (log=off): write log=on to config",
                       pmc->name);
    if (!pmc->recording || !state_table[pmc->state].started)
        return user_record_put(call, pmc, call->now_ns);
    rc = slow_admit(call);
    if (rc)
        return rc;
    /* drain first, so that the log has earlier records before the text and later ones after it */
    struct recording *recording = recording_ref(pmc->recording);
    pmc_ref(pmc);
    lock_drop(call, true);
    if (!recording_drain(recording, true, &drained))
        drained.until_ns = call->now_ns;
    recording_unref(recording);
    lock_retake(call);
    rc = pmc_released(pmc) ? err_set(&call->err, P26, "%s was released", pmc->name)
                           : user_record_put(call, pmc, drained.until_ns);
    pmc_unref(pmc);
    return rc;
}

/* ---- samples.folded ---- */

/* The user that is charged while a text is made. */
struct folded_payer {
    struct user *user;
    uint64_t charged; /* bytes */
    uint64_t last;    /* bytes of the last step, which may have been refused */
};

static bool folded_charge(void *arg, uint64_t bytes)
{
    struct folded_payer *payer = arg;

    payer->last = bytes;
    if (!user_charge(payer->user, USED_TEXTS, (int64_t)bytes))
        return false;
    payer->charged += bytes;
    return true;
}

int show_samples_folded(struct call *call)
{
    static const char need[] = "counting the stacks of this log";
    struct pmc *pmc = call->pmc;
    struct folded_payer payer = {.charged = 0};
    struct drain_result drained;
    struct buf text = {0};

    if (!pmc->log)
        return CALL_DONE;
    int rc = slow_admit(call);
    if (rc)
        return rc;
    struct log *log = log_ref(pmc->log);
    struct recording *recording = pmc->recording ? recording_ref(pmc->recording) : NULL;
    rc = engine_charge_request(call, 0, need, &payer.user);
    lock_drop(call, true);
    if (recording)
        recording_drain(recording, true, &drained);
    rc = rc ? rc : folded_text(log, &text, folded_charge, &payer);
    recording_unref(recording);
    log_unref(log);
    lock_retake(call);
    if (rc == -EDQUOT)
        engine_refuse_memory(call, payer.user, payer.charged + payer.last, need);
    if (payer.user)
        engine_uncharge_request(payer.user, payer.charged);
    if (slow_interrupted(call))
        rc = -EINTR;
    else if (rc == -ENOMEM)
        rc = err_nomem(&call->err);
    if (rc == CALL_DONE && text.len) {
        buf_free(call->out);
        *call->out = text;
    } else {
        buf_free(&text);
    }
    return rc;
}
