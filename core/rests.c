/*
 * Logs that outlive their PMC: "same", or "UID SETS LOG", the numbers of sets in hexadecimal.
 */
#include "core/rests.h"

#include "core/hex.h"
#include "core/instance.h"
#include "core/parts.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Known to who prints, or scans, open files at this moment. */
struct rest {
    struct rest *next;
    uint64_t pmc;
    struct log *log;       /* a reference */
    struct log_sets *sets; /* a reference, or NULL */
};

static struct rest *rest_find(const struct engine *engine, uint64_t pmc)
{
    struct rest *rest = engine->rests;

    while (rest && rest->pmc != pmc)
        rest = rest->next;
    return rest;
}

/* Takes references of its own. NULL: no memory. */
static struct rest *rest_add(struct engine *engine, uint64_t pmc, struct log *log,
                             struct log_sets *sets)
{
    struct rest *rest = calloc(1, sizeof *rest);

    if (!rest)
        return NULL;
    *rest = (struct rest){engine->rests, pmc, log_ref(log), sets ? log_sets_ref(sets) : NULL};
    engine->rests = rest;
    return rest;
}

void rests_free(struct engine *engine)
{
    while (engine->rests) {
        struct rest *rest = engine->rests;

        engine->rests = rest->next;
        log_unref(rest->log);
        log_sets_unref(rest->sets);
        free(rest);
    }
}

void rest_print(struct engine *engine, uint64_t pmc, uid_t uid, struct log *log,
                struct log_sets *sets, struct buf *out)
{
    struct buf text;

    if (rest_find(engine, pmc)) {
        buf_str(out, "same");
        return;
    }
    out->failed |= !rest_add(engine, pmc, log, sets);
    buf_init(&text, NULL, 0);
    if (sets)
        log_sets_print(sets, &text);
    out->failed |= text.failed;
    buf_u64(out, uid);
    buf_char(out, ' ');
    hex_print(out, text.data, text.len);
    buf_char(out, ' ');
    log_print(log, out);
    buf_free(&text);
}

/* It was granted once. */
static bool rest_charge(struct engine *engine, uid_t uid, struct log *log)
{
    struct user *user = user_get(engine, uid);
    struct account *account = user ? account_new(user, UINT64_MAX, NULL) : NULL;

    if (account)
        log_set_charge(log, account_charge, account);
    account_end(account);
    user_unref(engine, user);
    return account;
}

static struct log_sets *sets_scan(struct word word)
{
    struct log_sets *sets = NULL;
    size_t len;
    char *text = hex_len(word, &len) ? calloc(len + 1, 1) : NULL;

    if (text && hex_scan(word, text))
        sets = log_sets_scan(text);
    free(text);
    return sets;
}

/* With records in it: a log without any memory would not hold the account. */
static struct rest *rest_make(struct engine *engine, uint64_t pmc, const char *text)
{
    struct word uid_word, sets_word;
    struct rest *rest = NULL;
    struct scan scan;
    uint64_t uid;

    scan_init(&scan, text, strlen(text));
    if (!scan_word(&scan, &uid_word) || !word_u64(uid_word, false, 0, UINT32_MAX, &uid) ||
        !scan_word(&scan, &sets_word) || scan.p == scan.end)
        return NULL;
    struct log_sets *sets = sets_scan(sets_word);
    struct log *log = log_scan(scan.p + 1);
    struct log_stats stats = {.memory = 0};
    if (log)
        log_stats(log, &stats);
    bool fine =
        stats.memory && (sets || word_is(sets_word, "-")) && rest_charge(engine, (uid_t)uid, log);
    if (fine)
        rest = rest_add(engine, pmc, log, sets);
    log_unref(log);
    log_sets_unref(sets);
    return rest;
}

bool rest_scan(struct engine *engine, uint64_t pmc, const char *text, struct log **log,
               struct log_sets **sets)
{
    struct rest *rest = rest_find(engine, pmc);

    if (!rest && strcmp(text, "same") != 0)
        rest = rest_make(engine, pmc, text);
    if (!rest)
        return false;
    *log = log_ref(rest->log);
    *sets = rest->sets ? log_sets_ref(rest->sets) : NULL;
    return true;
}
