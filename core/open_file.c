/*
 * What an open file keeps for its reader is charged to who opened it; and what it remembers, as one
 * line of text, out and in.
 */
#include "core/engine.h"

#include "core/fields.h"
#include "core/instance.h"
#include "core/reader.h"
#include "core/rests.h"
#include "core/series.h"

#include <stdlib.h>
#include <string.h>

/* NULL: more than the limit, or no memory. */
static struct account *charged(struct engine *engine, uid_t uid, uint64_t instance, uint64_t bytes,
                               uint64_t limit)
{
    struct user *user = user_get(engine, uid);
    struct account *account =
        user ? account_new(user, limit, engine_instance(engine, instance)) : NULL;

    if (account && limit == UINT64_MAX) { /* it was granted once */
        account_add(account, (int64_t)bytes);
    } else if (account && !account_charge(account, (int64_t)bytes)) {
        account_end(account);
        account = NULL;
    }
    user_unref(engine, user);
    return account;
}

bool open_file_keep(struct open_file *open, struct engine *engine, uid_t uid, uint64_t bytes,
                    uint64_t limit)
{
    struct account *account = bytes ? charged(engine, uid, open->instance, bytes, limit) : NULL;

    if (bytes && !account)
        return false;
    open_file_let_go(open);
    open->kept = account;
    open->kept_bytes = bytes;
    return true;
}

void open_file_let_go(struct open_file *open)
{
    if (open->kept)
        account_add(open->kept, -(int64_t)open->kept_bytes);
    account_end(open->kept);
    open->kept = NULL;
    open->kept_bytes = 0;
}

void open_file_print(const struct open_file *open, struct buf *out)
{
    struct held held = {.proc = 0};

    out->failed |= !held_fill(&held, open->rights);
    saved_print(&saved_open_file, open, out);
    saved_print(&saved_held, &held, out);
    free(held.rights);
    if (open->reader) {
        buf_str(out, " log ");
        log_reader_print(open->reader, out);
    } else {
        buf_str(out, " series ");
        if (open->series)
            series_print(open->series, out);
        else
            buf_char(out, '-');
    }
}

bool open_file_scan(struct open_file *open, const char *text, struct engine *engine)
{
    struct held held = {.rights = NULL};
    struct word label;
    struct scan line;

    scan_init(&line, text, strlen(text));
    bool fine = saved_scan(&saved_open_file, open, &line) && saved_scan(&saved_held, &held, &line);
    fine = held_take(&held, &open->rights) && fine;
    if (!fine || !scan_word(&line, &label))
        return false;
    if (open->kept_bytes) /* it was granted once */
        open_file_keep(open, engine, open->rights ? open->rights->uid : 0, open->kept_bytes,
                       UINT64_MAX);
    if (word_is(label, "log"))
        return (open->reader = log_reader_scan(line_rest(&line), engine)) != NULL;
    if (*line_rest(&line) != '-')
        open->series = series_scan(line_rest(&line));
    return word_is(label, "series") && (open->series || *line_rest(&line) == '-');
}

void open_files_settle(struct engine *engine)
{
    rests_free(engine);
}
