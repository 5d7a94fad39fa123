/*
 * mem:0xADDRESS[/LENGTH][:rwx][:uk].
 */
#include "backends/perf/names/breakpoint.h"

#include "backends/perf/probe/code.h"

#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <stdio.h>
#include <string.h>

/* 0: no access. */
static uint32_t access_bit(char letter)
{
    switch (letter) {
    case 'r':
    case 'R':
        return HW_BREAKPOINT_R;
    case 'w':
    case 'W':
        return HW_BREAKPOINT_W;
    case 'x':
    case 'X':
        return HW_BREAKPOINT_X;
    default:
        return 0;
    }
}

/* "rw" and the like; false when it is something else. */
static bool access_scan(struct word word, uint32_t *type)
{
    *type = 0;
    for (size_t i = 0; i < word.len; i++) {
        uint32_t bit = access_bit(word.p[i]);
        if (!bit || *type & bit)
            return false;
        *type |= bit;
    }
    return *type != 0;
}

static const char *access_name(uint32_t type)
{
    static const char *const names[] = {[HW_BREAKPOINT_R] = "r",
                                        [HW_BREAKPOINT_W] = "w",
                                        [HW_BREAKPOINT_RW] = "rw",
                                        [HW_BREAKPOINT_X] = "x"};

    return type < sizeof(names) / sizeof(names[0]) ? names[type] : NULL;
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
    struct word tail, length, mods, access;
    struct word place = word_until(word_from(text, 4), ':', &tail);
    bool has_length = memchr(place.p, '/', place.len) != NULL;
    struct word address = word_until(place, '/', &length);
    uint64_t at, bytes;
    uint32_t type;

    if (text.len < 4 || !word_alike((struct word){text.p, 4}, "mem:", false))
        return -ENOENT;
    if (!word_u64(address, true, 0, UINT64_MAX, &at))
        return err_set(err, CS01, "\"" WORD_FMT "\" is no address: mem:0xADDRESS[/LENGTH][:rwx]",
                       WORD_ARG(address));
    access = word_until(tail, ':', &mods);
    if (!access_scan(access, &type)) {
        if (access.len > 0 && access_bit(access.p[0]))
            return err_set(err, CS03,
                           "\"" WORD_FMT "\" is no access of a breakpoint: r, w, rw or x",
                           WORD_ARG(access));
        mods = tail;
        type = HW_BREAKPOINT_RW;
    }
    if (!access_name(type))
        return err_set(err, CS03,
                       "\"" WORD_FMT "\": execution is not combined with other accesses; "
                       "r, w, rw or x",
                       WORD_ARG(access));
    int rc = length_scan(length, has_length, type == HW_BREAKPOINT_X, &bytes, err);
    if (rc == 0)
        rc = spec_use(spec, pmus_kind(spec->state->pmus, PMU_BREAKPOINT), text, err);
    if (rc < 0)
        return rc;
    spec->config[1] = at;
    spec->config[2] = bytes;
    spec->bp_type = type;
    spec->needs_kernel = at > USER_END - bytes;
    snprintf(spec->resolved, sizeof(spec->resolved), "mem:0x%llx/%llu:%s", (unsigned long long)at,
             (unsigned long long)bytes, access_name(type));
    return spec_modifiers(spec, mods, text, err);
}
