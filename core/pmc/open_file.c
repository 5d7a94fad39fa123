/*
 * Charges for open files: their memory is charged to the user that opened them.
 */
#include "core/engine.h"

#include "core/pmc/instance.h"
#include "core/pmc/rights.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_BYTES 1024 /* the handle, its allocation and its record */

/* ---- memory ---- */

static uint64_t open_file_bytes(const struct open_file *open)
{
    return OPEN_BYTES + open->remembers + (open->swap ? strlen(open->swap) + 1 : 0);
}

/* Charges without a check if it `was_granted` before, or if the charge decreases. */
static bool open_file_charge(struct open_file *open, uint64_t kept, bool was_granted)
{
    const uint64_t bytes = open_file_bytes(open) + kept;
    const int64_t more = (int64_t)(bytes - open->charged);

    if (open->payer && (was_granted || kept < open->kept_bytes))
        user_add(open->payer, USED_TEXTS, more);
    else if (open->payer && !user_charge(open->payer, USED_TEXTS, more))
        return false;
    open->charged = bytes;
    open->kept_bytes = kept;
    return true;
}

int open_file_keep(struct call *call, uint64_t bytes)
{
    struct buf limit;
    char room[160];

    if (open_file_charge(call->open, bytes, false))
        return 0;
    buf_init(&limit, room, sizeof room);
    user_limit_print(call->open->payer, USED_TEXTS, &limit);
    err_set(&call->err, P11,
            "this open file needs %llu bytes of memory, and %s leaves less: close other files, "
            "release a PMC, or set a smaller logsize",
            (unsigned long long)(open_file_bytes(call->open) + bytes), buf_text(&limit));
    buf_free(&limit);
    return -EDQUOT;
}

/* ---- the charged user ---- */

static bool payer_set(struct engine *engine, struct open_file *open, uid_t uid)
{
    const struct instance *instance = engine_instance(engine, open->instance);

    open->payer = user_get(engine, uid, instance ? instance->share : NULL);
    open->payer_uid = uid;
    return open->payer;
}

void open_file_forget(struct open_file *open)
{
    if (!open->payer)
        return;
    user_add(open->payer, USED_TEXTS, -(int64_t)open->charged);
    user_unref(open->payer);
    open->payer = NULL;
    open->charged = 0;
}

int open_file_hold(struct call *call, struct rights *rights)
{
    struct open_file *open = call->open;
    int rc = payer_set(call->engine, open, call->payer) ? 0 : err_nomem(&call->err);

    rc = rc ? rc : open_file_keep(call, 0);
    if (rc == 0 && rights)
        rc = rights_keep(call->engine, open->payer, &rights, &call->err);
    if (rc == 0) {
        call->rights = open->rights = rights;
        return 0;
    }
    open_file_forget(open);
    return rc;
}

bool open_file_again(struct engine *engine, struct open_file *open)
{
    return payer_set(engine, open, open->payer_uid) &&
           open_file_charge(open, open->kept_bytes, true);
}

/* ---- requests that wait ---- */

int engine_charge_wait(struct call *call, uint64_t bytes, struct user **user)
{
    struct user *payer =
        call->open && call->open->payer
            ? user_ref(call->open->payer)
            : user_get(call->engine, call->payer, call->instance ? call->instance->share : NULL);
    struct buf limit;
    char room[160];

    *user = NULL;
    if (!payer)
        return err_nomem(&call->err);
    if (user_charge(payer, USED_TEXTS, (int64_t)bytes)) {
        *user = payer;
        return 0;
    }
    buf_init(&limit, room, sizeof room);
    user_limit_print(payer, USED_TEXTS, &limit);
    err_set(&call->err, P11,
            "the command has to wait, and its %llu bytes are more than %s leaves: let other "
            "commands finish, release a PMC, or set a smaller logsize",
            (unsigned long long)bytes, buf_text(&limit));
    buf_free(&limit);
    user_unref(payer);
    return -EDQUOT;
}

void engine_uncharge_wait(struct user *user, uint64_t bytes)
{
    user_add(user, USED_TEXTS, -(int64_t)bytes);
    user_unref(user);
}
