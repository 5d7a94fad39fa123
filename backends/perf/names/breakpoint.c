/*
 * mem:0xADDRESS[/LENGTH][:rwx][:uk].
 */
#include "backends/perf/names/breakpoint.h"

#include "backends/perf/probe/code.h"

#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <stdio.h>
#include <string.h>

static const struct access {
    const char *name;
    uint32_t type;
} accesses[] = {
    {"r", HW_BREAKPOINT_R},   {"w", HW_BREAKPOINT_W}, {"rw", HW_BREAKPOINT_RW},
    {"wr", HW_BREAKPOINT_RW}, {"x", HW_BREAKPOINT_X},
};

/* NULL: it is none. */
static const struct access *access_find(struct word word)
{
    for (size_t i = 0; i < sizeof(accesses) / sizeof(accesses[0]); i++)
        if (word_alike(word, accesses[i].name, false))
            return &accesses[i];
    return NULL;
}

static int length_scan(struct word word, bool given, bool execute, uint64_t *length,
                       struct err *err)
{
    *length = execute ? sizeof(long) : 4;
    if (!given)
        return 0;
    if (!word_u64(word, false, 1, 8, length) || (*length & (*length - 1)) != 0)
        return err_set(err, CS04, "\"" WORD_FMT "\" is no length of a breakpoint: 1, 2, 4 or 8",
                       WORD_ARG(word));
    if (execute && *length != sizeof(long))
        return err_set(err, CS04, "a breakpoint on execution has length %zu, not " WORD_FMT,
                       sizeof(long), WORD_ARG(word));
    return 0;
}

int breakpoint_parse(struct spec *spec, struct word text, struct err *err)
{
    struct word behind, tail, length, mods, form = word_until(text, ':', &behind);
    struct word place = word_until(behind, ':', &tail);
    bool has_length = memchr(place.p, '/', place.len) != NULL;
    struct word address = word_until(place, '/', &length);
    struct word said = word_until(tail, ':', &mods);
    const struct access *access = access_find(said);
    uint64_t at, bytes;

    if (!word_alike(form, "mem", false))
        return -ENOENT;
    if (!word_u64(address, true, 0, UINT64_MAX, &at))
        return err_set(err, CS01, "\"" WORD_FMT "\" is no address: mem:0xADDRESS[/LENGTH][:rwx]",
                       WORD_ARG(address));
    if (!access && said.len > 0 && strchr("rwxRWX", said.p[0]))
        return err_set(err, CS03,
                       "\"" WORD_FMT "\" is no access of a breakpoint: r, w, rw, or x alone",
                       WORD_ARG(said));
    if (!access) {
        access = &accesses[2];
        mods = tail;
    }
    int rc = length_scan(length, has_length, access->type == HW_BREAKPOINT_X, &bytes, err);
    if (rc == 0)
        rc = spec_use(spec, pmus_kind(spec->state->pmus, PMU_BREAKPOINT), text, err);
    if (rc < 0)
        return rc;
    spec->config[1] = at;
    spec->config[2] = bytes;
    spec->bp_type = access->type;
    spec->needs_kernel = at > USER_END - bytes;
    snprintf(spec->resolved, sizeof(spec->resolved), "mem:0x%llx/%llu:%s", (unsigned long long)at,
             (unsigned long long)bytes, access->type == HW_BREAKPOINT_RW ? "rw" : access->name);
    return spec_modifiers(spec, mods, text, err);
}
