/*
 * mem:0xADDRESS[/LENGTH][:rwx][:uk].
 */
#include "backends/perf/names/spec.h"

#include <errno.h>
#include <linux/hw_breakpoint.h>

static const struct access {
    const char *name;
    uint32_t type;
} accesses[] = {
    {"rw", HW_BREAKPOINT_RW}, {"r", HW_BREAKPOINT_R}, {"w", HW_BREAKPOINT_W},
    {"wr", HW_BREAKPOINT_RW}, {"x", HW_BREAKPOINT_X},
};

/* Takes the access off the text; the first one when none is said, NULL when it is none. */
static const struct access *access_scan(struct word *text)
{
    struct word rest, said = word_until(*text, ':', &rest);

    for (size_t i = 0; i < sizeof(accesses) / sizeof(accesses[0]); i++)
        if (word_alike(said, accesses[i].name, false)) {
            *text = rest;
            return &accesses[i];
        }
    return word_part(said, "rwxRWX").len == 0 && said.len > 0 ? NULL : &accesses[0];
}

static int length_scan(struct word word, bool execute, uint64_t *length, struct err *err)
{
    if (!word_u64(word, false, 1, 8, length) || (*length & (*length - 1)) != 0)
        return err_set(err, CS04, "\"" WORD_FMT "\" is no length of a breakpoint: 1, 2, 4 or 8",
                       WORD_ARG(word));
    if (execute && *length != sizeof(long))
        return err_set(err, CS04, "a breakpoint on execution has length %zu, not " WORD_FMT,
                       sizeof(long), WORD_ARG(word));
    return 0;
}

int breakpoint_parse(struct spec *spec, struct word *text, struct err *err)
{
    struct word whole = *text, behind, mods, length, form = word_until(whole, ':', &behind);
    struct word place = word_until(behind, ':', &mods), address = word_until(place, '/', &length);
    uint64_t *code = spec->event.code;
    const struct access *access = access_scan(&mods);

    if (!word_alike(form, "mem", false))
        return -ENOENT;
    if (!word_u64(address, true, 0, UINT64_MAX, &code[CODE_CONFIG1]))
        return err_set(err, CS01, "\"" WORD_FMT "\" is no address: mem:0xADDRESS[/LENGTH][:rwx]",
                       WORD_ARG(address));
    if (!access)
        return err_set(err, CS03,
                       "\"" WORD_FMT "\" is no access of a breakpoint: r, w, rw, or x alone",
                       WORD_ARG(word_part(mods, ":")));
    code[CODE_CONFIG2] = access->type == HW_BREAKPOINT_X ? sizeof(long) : 4;
    int rc = address.len == place.len
                 ? 0
                 : length_scan(length, access->type == HW_BREAKPOINT_X, &code[CODE_CONFIG2], err);
    if (rc == 0)
        rc = spec_use(spec, pmus_kind(spec->state->pmus, PMU_BREAKPOINT), whole, err);
    if (rc < 0)
        return rc;
    code[CODE_BP_TYPE] = access->type;
    /* The kernel gives its own addresses to no other user. */
    spec->event.needs_kernel = code[CODE_CONFIG1] > USER_END - code[CODE_CONFIG2];
    spec->event.needs_superuser = spec->event.needs_kernel;
    spec_say(spec, "mem:0x%llx/%llu:%s", (unsigned long long)code[CODE_CONFIG1],
             (unsigned long long)code[CODE_CONFIG2],
             access->type == HW_BREAKPOINT_RW ? "rw" : access->name);
    *text = mods;
    return 0;
}
