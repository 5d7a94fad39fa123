/*
 * What else is done with a log: somebody writes a remark into it, somebody reads it folded.
 */
#include "core/change.h"
#include "core/engine.h"
#include "core/files.h"
#include "core/folded.h"
#include "core/pmc.h"

#include <errno.h>
#include <stdlib.h>

/* ---- WRITELOG ---- */

/* What was counted before it was written stands before it in the log. */
struct remark {
    struct work work;
    struct pmc *pmc; /* a reference */
    struct recording *recording;
};

static void remark_run(struct work *work)
{
    struct remark *remark = (struct remark *)work;
    bool any = false;

    recording_drain(remark->recording, true, &any);
    recording_unref(remark->recording);
}

/* Too large for what the ring may become, or for what it has become. */
static int remark_refuse(struct call *call, struct pmc *pmc, size_t size)
{
    const size_t most = log_record_max(pmc->log);

    if (size > most)
        return err_set(
            &call->err, P04,
            "a text of %zu bytes: the log of %s (logsize=%llu) has no room for more than "
            "%zu at once; write less, or set a larger logsize",
            call->len, pmc->name, (unsigned long long)log_size(pmc->engine, &pmc->settings),
            most - sizeof(struct record_note));
    return err_set(
        &call->err, X14,
        "no memory for a record of the log of %s, or none that max_log_per_user "
        "(or the instance's max_log) leaves: release other PMCs, or set a smaller logsize for them",
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
    if (!record.failed)
        rc = log_put(pmc->log, (const struct record *)record.data);
    if (rc)
        rc = remark_refuse(call, pmc, record.len);
    else
        pmc_wake(pmc);
    buf_free(&record);
    return rc;
}

static int remark_finish(struct call *call, struct work *work)
{
    struct remark *remark = (struct remark *)work;
    struct pmc *pmc = remark->pmc;
    int rc = pmc_released(pmc) ? err_set(&call->err, P26, "%s was released", pmc->name)
                               : remark_put(call, pmc);

    pmc_unref(pmc);
    free(remark);
    return rc;
}

int store_samples(struct call *call)
{
    struct pmc *pmc = call->pmc;
    int rc = change_refuse_held(call);

    if (rc)
        return rc;
    if (!pmc->settings.value[KEY_LOG])
        return err_set(&call->err, E31, "%s keeps no log (log=off): write log=on to config",
                       pmc->name);
    if (!pmc->recording || state_table[pmc->state].open)
        return remark_put(call, pmc);
    struct remark *remark = calloc(1, sizeof *remark);
    if (!remark)
        return err_set(&call->err, X14, "no memory for a record of the log of %s", pmc->name);
    remark->work = (struct work){remark_run, remark_finish, true};
    remark->pmc = pmc_ref(pmc);
    remark->recording = recording_ref(pmc->recording);
    call->work = &remark->work;
    return CALL_WORK;
}

/* ---- samples.folded ---- */

struct folding {
    struct work work;
    struct log *log;                /* a reference */
    struct recording *recording;    /* a reference, or NULL */
    uid_t uid;                      /* of the reader */
    const atomic_bool *interrupted; /* nobody waits any more; NULL: cannot be known */
    struct buf text;
    int rc;
};

static void folding_run(struct work *work)
{
    struct folding *folding = (struct folding *)work;
    bool any = false;

    if (folding->recording)
        recording_drain(folding->recording, true, &any);
    folding->rc = folded_text(folding->log, &folding->text);
    recording_unref(folding->recording);
    log_unref(folding->log);
}

static int folding_finish(struct call *call, struct work *work)
{
    struct folding *folding = (struct folding *)work;
    int rc = CALL_DONE;

    if (folding->interrupted && atomic_load(folding->interrupted))
        rc = -EINTR; /* nobody would read it */
    else if (folding->rc || folding->text.failed)
        rc = err_set(&call->err, E32, "no memory");
    if (rc == CALL_DONE && folding->text.len) {
        buf_free(call->out);
        *call->out = folding->text;
    } else {
        buf_free(&folding->text);
    }
    free(folding);
    return rc;
}

int show_samples_folded(struct call *call)
{
    struct pmc *pmc = call->pmc;

    if (!pmc->log)
        return CALL_DONE;
    struct folding *folding = calloc(1, sizeof *folding);
    if (!folding)
        return err_set(&call->err, E32, "no memory");
    folding->work = (struct work){folding_run, folding_finish, true};
    folding->log = log_ref(pmc->log);
    folding->recording = pmc->recording ? recording_ref(pmc->recording) : NULL;
    folding->uid = call->rights ? call->rights->uid : call->uid;
    folding->interrupted = call->interrupted;
    buf_init(&folding->text, NULL, 0);
    call->work = &folding->work;
    return CALL_WORK;
}
