/*
 * Writes to `samples` (user records) and reads of samples.folded.
 */
#include "core/change/change.h"
#include "core/engine.h"
#include "core/files.h"
#include "core/pmc/pmc.h"
#include "core/read/folded.h"
#include "core/slow.h"

#include <errno.h>
#include <stdlib.h>

/* ---- WRITELOG ---- */

/* Sets the error for a record that is too large for the limit of the log, or for its present ring.
 */
static int remark_refuse(struct call *call, struct pmc *pmc, size_t size)
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

static int remark_put(struct call *call, struct pmc *pmc)
{
    struct buf record;
    int rc = -ENOMEM;

    buf_init(&record, NULL, 0);
    record_add_note(&record, &(struct note){.type = RECORD_USER,
                                            .time = call->now_ns,
                                            .cpu = UINT32_MAX,
                                            .text = call->text,
                                            .text_len = call->len});
    if (!pmc_keeps_log(pmc)) {
        buf_free(&record);
        return err_set(&call->err, X14, "no memory for the log of %s", pmc->name);
    }
    if (call->len > RECORD_MAX - sizeof(struct record_note))
        rc = -E2BIG; /* the record would have only a part of the text */
    else if (!record.failed)
        rc = log_put_once(pmc->log, call->engine->request, (const struct record *)record.data);
    if (rc)
        rc = remark_refuse(call, pmc, sizeof(struct record_note) + call->len);
    else
        pmc_wake(pmc);
    buf_free(&record);
    return rc;
}

/* Drains first, so that earlier records come before the text in the log. */
static int remark_drain_put(struct call *call, struct pmc *pmc)
{
    struct recording *recording = recording_ref(pmc->recording);
    bool any = false;
    int rc;

    pmc_ref(pmc);
    slow_begin(call, true);
    recording_drain(recording, true, &any);
    recording_unref(recording);
    slow_end(call);
    rc = pmc_released(pmc) ? err_set(&call->err, P26, "%s was released", pmc->name)
                           : remark_put(call, pmc);
    pmc_unref(pmc);
    return rc;
}

int store_samples(struct call *call)
{
    struct pmc *pmc = call->pmc;
    int rc = change_refuse_held(call);

    if (rc)
        return rc;
    if (!pmc->settings.word[KEY_LOG])
        return err_set(&call->err, E31, "%s has no log (log=off): write log=on to config",
                       pmc->name);
    if (!pmc->recording || state_table[pmc->state].settable)
        return remark_put(call, pmc);
    rc = slow_admit(call);
    return rc ? rc : remark_drain_put(call, pmc);
}

/* ---- samples.folded ---- */

/* Drains and folds the log. Drops the references to log and recording. */
static int folded_make(struct call *call, struct log *log, struct recording *recording,
                       struct buf *text)
{
    bool any = false;
    int rc;

    slow_begin(call, true);
    if (recording)
        recording_drain(recording, true, &any);
    rc = folded_text(log, text);
    recording_unref(recording);
    log_unref(log);
    slow_end(call);
    if (slow_interrupted(call))
        return -EINTR; /* the reader was interrupted */
    return rc || text->failed ? err_nomem(&call->err) : CALL_DONE;
}

int show_samples_folded(struct call *call)
{
    struct pmc *pmc = call->pmc;
    struct recording *recording;
    struct buf text;
    int rc;

    if (!pmc->log)
        return CALL_DONE;
    rc = slow_admit(call);
    if (rc)
        return rc;
    recording = pmc->recording ? recording_ref(pmc->recording) : NULL;
    buf_init(&text, NULL, 0);
    rc = folded_make(call, log_ref(pmc->log), recording, &text);
    if (rc == CALL_DONE && text.len) {
        buf_free(call->out);
        *call->out = text;
    } else {
        buf_free(&text);
    }
    return rc;
}
