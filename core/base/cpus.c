/*
 * Sets of CPU numbers as bit words that grow to the highest member.
 */
#include "core/base/cpus.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WORD_BITS 64u

void cpus_free(struct cpus *cpus)
{
    free(cpus->bits);
    *cpus = (struct cpus){0};
}

static bool cpus_grow(struct cpus *cpus, unsigned words)
{
    if (words <= cpus->words)
        return true;
    uint64_t *bits = realloc(cpus->bits, words * sizeof(*bits));
    if (!bits)
        return false;
    memset(bits + cpus->words, 0, (words - cpus->words) * sizeof(*bits));
    cpus->bits = bits;
    cpus->words = words;
    return true;
}

bool cpus_add(struct cpus *cpus, unsigned cpu)
{
    if (cpu >= CPUS_MAX || !cpus_grow(cpus, cpu / WORD_BITS + 1))
        return false;
    cpus->bits[cpu / WORD_BITS] |= UINT64_C(1) << cpu % WORD_BITS;
    return true;
}

void cpus_remove(struct cpus *cpus, unsigned cpu)
{
    if (cpu / WORD_BITS < cpus->words)
        cpus->bits[cpu / WORD_BITS] &= ~(UINT64_C(1) << cpu % WORD_BITS);
}

bool cpus_has(const struct cpus *cpus, unsigned cpu)
{
    return cpu / WORD_BITS < cpus->words && (cpus->bits[cpu / WORD_BITS] >> cpu % WORD_BITS & 1);
}

bool cpus_copy(struct cpus *to, const struct cpus *from)
{
    if (!cpus_grow(to, from->words))
        return false;
    for (unsigned i = 0; i < to->words; i++)
        to->bits[i] = i < from->words ? from->bits[i] : 0;
    return true;
}

bool cpus_add_all(struct cpus *to, const struct cpus *from)
{
    if (!cpus_grow(to, from->words))
        return false;
    for (unsigned i = 0; i < from->words; i++)
        to->bits[i] |= from->bits[i];
    return true;
}

bool cpus_equal(const struct cpus *a, const struct cpus *b)
{
    unsigned words = a->words > b->words ? a->words : b->words;

    for (unsigned i = 0; i < words; i++)
        if ((i < a->words ? a->bits[i] : 0) != (i < b->words ? b->bits[i] : 0))
            return false;
    return true;
}

unsigned cpus_count(const struct cpus *cpus)
{
    unsigned n = 0;

    for (unsigned i = 0; i < cpus->words; i++)
        n += (unsigned)__builtin_popcountll(cpus->bits[i]);
    return n;
}

int cpus_next(const struct cpus *cpus, int from)
{
    unsigned cpu = from > 0 ? (unsigned)from : 0;
    unsigned i = cpu / WORD_BITS;

    if (i >= cpus->words)
        return -1;
    uint64_t bits = cpus->bits[i] & ~UINT64_C(0) << cpu % WORD_BITS;
    while (!bits) {
        if (++i == cpus->words)
            return -1;
        bits = cpus->bits[i];
    }
    return (int)(i * WORD_BITS + (unsigned)__builtin_ctzll(bits));
}

int cpus_parse(struct cpus *cpus, struct word list)
{
    int rc = 0;

    cpus_free(cpus);
    for (bool more = true; rc == 0 && more;) {
        const size_t len = list.len;
        const struct word range = word_until(list, ',', &list); /* "3" or "0-3" */
        struct word rest;
        const struct word low = word_until(range, '-', &rest);
        const struct word high = low.len < range.len ? rest : low;
        uint64_t first, last;

        more = range.len < len;
        if (!word_u64(low, false, 0, UINT64_MAX, &first) ||
            !word_u64(high, false, first, UINT64_MAX, &last))
            rc = -EINVAL;
        else if (last >= CPUS_MAX)
            rc = -ERANGE;
        else if (!cpus_grow(cpus, (unsigned)last / WORD_BITS + 1))
            rc = -ENOMEM;
        /* by words, because a short command can name thousands of ranges */
        for (uint64_t i = first / WORD_BITS; rc == 0 && i <= last / WORD_BITS; i++) {
            uint64_t bits = ~UINT64_C(0);

            if (i == first / WORD_BITS)
                bits &= ~UINT64_C(0) << first % WORD_BITS;
            if (i == last / WORD_BITS)
                bits &= ~UINT64_C(0) >> (WORD_BITS - 1 - last % WORD_BITS);
            cpus->bits[i] |= bits;
        }
    }
    if (rc)
        cpus_free(cpus);
    return rc;
}

void cpus_print(const struct cpus *cpus, struct buf *out)
{
    const char *comma = "";
    int last;

    for (int first = cpus_next(cpus, 0); first >= 0; first = cpus_next(cpus, last + 1)) {
        for (last = first; cpus_has(cpus, (unsigned)last + 1);)
            last++;
        buf_str(out, comma);
        buf_u64(out, (unsigned)first);
        if (last > first) {
            buf_char(out, '-');
            buf_u64(out, (unsigned)last);
        }
        comma = ",";
    }
}
