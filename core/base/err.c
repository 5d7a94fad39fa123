/*
 * The table of errors, and the function that sets errno and sentence.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* strerrorname_np */
#endif

#include "core/base/err.h"

#include "core/base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CUT "…"

const struct err_row err_table[ERR_COUNT] = {
#define X(id, code, where, condition) [id] = {#id, code, where, condition},
    ERR_LIST(X)
#undef X
};

/* Copies raw to text with escapes. A longer text is cut between characters and gets CUT. */
static void text_copy(char *text, size_t size, const char *raw, size_t len)
{
    size_t n = 0, last = 0; /* last: length of the longest prefix that fits with CUT */
    size_t step;

    for (size_t i = 0; i < len; i += step) {
        char octal[4];
        size_t shown = utf8_printable(raw + i, len - i);
        size_t need = shown ? shown : sizeof(octal);

        step = shown ? shown : 1;
        if (n + sizeof(CUT) <= size)
            last = n;
        if (n + need >= size) {
            memcpy(text + last, CUT, sizeof(CUT));
            return;
        }
        if (!shown)
            octal_escape(octal, raw[i]);
        memcpy(text + n, shown ? raw + i : octal, need);
        n += need;
    }
    text[n] = '\0';
}

int err_set(struct err *err, enum err_id id, const char *format, ...)
{
    char raw[sizeof(err->text) * 2]; /* escapes only lengthen a text, so this fills it */
    int saved = errno;
    va_list args;

    if (!err)
        return -err_table[id].code;
    va_start(args, format);
    /* Format before changing *err, whose text may be an argument. */
    int len = vsnprintf(raw, sizeof(raw), format, args);
    va_end(args);
    if (len < 0)
        len = 0;
    if ((size_t)len >= sizeof(raw))
        len = sizeof(raw) - 1;
    err->id = id;
    text_copy(err->text, sizeof(err->text), raw, (size_t)len);
    errno = saved;
    return -err_table[id].code;
}

bool is_shortage(int rc)
{
    return rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE;
}

int err_nomem(struct err *err)
{
    return err_set(err, E32, "no memory: try again later, or release PMCs");
}

int err_shortage(struct err *err, int rc)
{
    if (rc == -ENOMEM)
        return err_nomem(err);
    if (rc == -EMFILE)
        return err_set(err, P10,
                       "no file descriptor was left: raise LimitNOFILE= of pmcfs.service, or "
                       "detach targets");
    return rc == -ENFILE
               ? err_set(err, P10, "the host has no file descriptor left: raise fs.file-max")
               : 0;
}

const char *err_errno_name(int code)
{
    static _Thread_local char number[16];
    const char *name = strerrorname_np(abs(code));

    if (name)
        return name;
    snprintf(number, sizeof(number), "E%d", abs(code));
    return number;
}
