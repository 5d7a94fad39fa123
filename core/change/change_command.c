/*
 * Commands become changes: what is written to the files that take one.
 */
#include "core/change/plan.h"

#include "core/files.h"

#include <stdlib.h>

const struct verb_row verb_table[VERBS] = {
    [VERB_START] = {"start", "begin or continue; attaches the caller if there never was a target",
                    "PMCSTART, PMIOSTART, cpc_enable"},
    [VERB_STOP] = {"stop", "keep the count", "PMCSTOP, PMIOSTOP, cpc_disable"},
    [VERB_RESET] = {"reset", "back to the initial count, times to zero; not while running",
                    "PMIORESET"},
    [VERB_RESTART] = {"restart", "reset and start as one", "cpc_set_restart"},
    [VERB_FLUSH] = {"flush", "make the log's records readable", "FLUSHLOG"},
    [VERB_CLOSE] = {"close", "last record, log ended", "CLOSELOG"},
    [VERB_DETACH] = {"detach", "from all targets", "PMCDETACH"},
};

int change_refuse_held(struct call *call)
{
    const struct pmc *pmc = call->pmc;

    if (pmc->held_by && (!call->open || call->open->holds != pmc->id))
        return err_set(&call->err, P29,
                       "lifetime=open: %s is held through another descriptor until that "
                       "is closed",
                       pmc->name);
    return 0;
}

/* Busy: run the request again later. On success *out is a change with nothing asked yet. */
static int command_new(struct call *call, struct change **out)
{
    struct pmc *pmc = call->pmc;
    int rc;

    if (pmc->busy) {
        call->wait_for = pmc->id;
        return CALL_WAIT;
    }
    rc = change_refuse_held(call);
    if (rc)
        return rc;
    *out = change_new(pmc, CAUSE_COMMAND);
    return *out ? 0 : err_nomem(&call->err);
}

static int change_verb(struct call *call, enum verb verb)
{
    struct change *change;
    int rc = command_new(call, &change);

    if (rc)
        return rc;
    change->desired.verb = verb;
    return change_run(call, change, true);
}

/* Values as they are read, a line for each event, or separated by commas. */
static int parse_count(struct call *call, struct settings *settings)
{
    struct word word;
    struct scan scan;
    struct buf values;
    char room[256];
    int rc;

    buf_init(&values, room, sizeof room);
    scan_init(&scan, call->text, call->len);
    while (scan_word(&scan, &word)) {
        buf_str(&values, values.len ? "," : "");
        buf_add(&values, word.p, word.len);
    }
    if (values.failed)
        rc = err_nomem(&call->err);
    else if (values.len == 0)
        rc = err_set(&call->err, P02,
                     "write one number, or for a set one for each event: 0, or 0,100, or a line "
                     "for each as it is read");
    else
        rc = settings_set(settings, KEY_COUNT, (struct word){buf_text(&values), values.len},
                          &call->err);
    buf_free(&values);
    return rc;
}

int store_count(struct call *call)
{
    struct change *change;
    int rc = command_new(call, &change);

    if (rc)
        return rc;
    change->desired.put = true;
    change->desired.given = GIVEN(KEY_COUNT);
    rc = parse_count(call, &change->desired.settings);
    if (rc == 0)
        return change_run(call, change, call->pmc->links->n > 0);
    change_free(change);
    return rc;
}

/* ---- the files ---- */

/* config, event, mode, target */
int store_command(struct call *call)
{
    struct change *change;
    int rc = command_new(call, &change);

    if (rc)
        return rc;
    change->text = call->text;
    change->len = call->len;
    return change_run(call, change, true);
}

int store_ctl(struct call *call)
{
    struct word word;
    struct near near;
    int rc = scan_only(call->text, call->len, X17, &word, &call->err);

    if (rc)
        return rc;
    near_init(&near, word);
    for (unsigned i = 1; i < VERBS; i++) {
        if (word_alike(word, verb_table[i].name, false))
            return change_verb(call, (enum verb)i);
        near_offer(&near, verb_table[i].name);
    }
    return err_set(&call->err, X17,
                   "there is no verb \"" WORD_FMT "\"%s: start, stop, reset, restart, "
                   "flush, close, detach",
                   WORD_ARG(word), near_text(&near));
}
