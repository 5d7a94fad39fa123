/*
 * Commands become changes: what is written to the files that take one.
 */
#include "core/plan.h"

#include "core/files.h"

#include <stdlib.h>

#define PARSED_AT_ONCE 1024 /* bytes; longer commands without the lock: up to milliseconds */

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

/* Busy: run the request again later. */
static int change_may_begin(struct call *call)
{
    struct pmc *pmc = call->pmc;

    if (pmc->busy) {
        call->wait_for = pmc->id;
        return CALL_WAIT;
    }
    return change_refuse_held(call);
}

int change_command(struct call *call, const char *file)
{
    int rc = change_may_begin(call);

    if (rc)
        return rc;
    struct change *change = change_new(call->pmc, CAUSE_COMMAND);
    if (!change)
        return err_set(&call->err, E32, "no memory");
    change->file = file;
    if (call->len > PARSED_AT_ONCE) {
        change->text = call->text;
        change->len = call->len;
        rc = change_begin(call, change, true);
        change->stage = STAGE_PARSE;
        return rc;
    }
    rc = change_parse(change, call->text, call->len, &call->err);
    if (rc == 0)
        rc = change_words(change, &call->err);
    if (rc) {
        change_free(change);
        return rc;
    }
    return change_begin(call, change, change->n_names || change->n_wanted || change->pmc->links->n);
}

int change_verb(struct call *call, enum verb verb)
{
    static const struct target_word self = {.word = {"self", 4}, .self = true};
    struct pmc *pmc = call->pmc;
    int rc = change_may_begin(call);

    if (rc)
        return rc;
    struct change *change = change_new(pmc, CAUSE_COMMAND);
    if (!change)
        return err_set(&call->err, E32, "no memory");
    change->verb = verb;
    bool starts = verb == VERB_START || verb == VERB_RESTART;
    if (starts && pmc->set && !pmc->had_target && !mode_table[pmc->effective].system) {
        change->wanted = calloc(1, sizeof *change->wanted);
        if (!change->wanted) {
            change_free(change);
            return err_set(&call->err, E32, "no memory");
        }
        change->n_wanted = 1;
        change->wanted[0] = (struct wanted){.word = self, .cgroup_fd = -1};
    }
    return change_begin(call, change, true);
}

/* Values as they are read, a line for each event, or separated by commas. */
int change_put(struct call *call)
{
    struct word word;
    struct scan scan;
    struct buf values;
    char room[256];
    int rc = change_may_begin(call);

    if (rc)
        return rc;
    buf_init(&values, room, sizeof room);
    scan_init(&scan, call->text, call->len);
    while (scan_word(&scan, &word)) {
        buf_str(&values, values.len ? "," : "");
        buf_add(&values, word.p, word.len);
    }
    if (values.len == 0)
        return err_set(&call->err, P02,
                       "write one number, or for a set one for each event: 0, or 0,100, "
                       "or a line for each as it is read");
    struct change *change = values.failed ? NULL : change_new(call->pmc, CAUSE_COMMAND);
    if (!change) {
        buf_free(&values);
        return err_set(&call->err, E32, "no memory");
    }
    change->file = "count";
    change->put = true;
    change->given = GIVEN(KEY_COUNT);
    word = (struct word){buf_text(&values), values.len};
    rc = settings_set(&change->want, KEY_COUNT, word, &call->err);
    buf_free(&values);
    if (rc) {
        change_free(change);
        return rc;
    }
    return change_begin(call, change, change_takes_long(change->pmc));
}

/* ---- the files ---- */

int store_config(struct call *call)
{
    return change_command(call, "config");
}

int store_event(struct call *call)
{
    return change_command(call, "event");
}

int store_mode(struct call *call)
{
    return change_command(call, "mode");
}

int store_target(struct call *call)
{
    return change_command(call, "target");
}

int store_count(struct call *call)
{
    return change_put(call);
}

int store_ctl(struct call *call)
{
    struct word word, more;
    struct scan scan;
    struct near near;

    scan_init(&scan, call->text, call->len);
    if (!scan_word(&scan, &word))
        return err_set(&call->err, P05, "nothing but blanks was written");
    if (scan_word(&scan, &more))
        return err_set(&call->err, X17, "one verb at a time: \"" WORD_FMT "\" is too much",
                       WORD_ARG(more));
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
