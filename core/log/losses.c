/*
 * Sums of losses: out of records, back into records, and as text for a later worker.
 */
#include "core/log/losses.h"

#include <string.h>

/* As in the records of what pmcfs itself left out, and of the host. */
static const char *const where[LOSS_KINDS] = {
    [LOSS_KERNEL] = "kernel",       [LOSS_HIDDEN] = "hidden",     [LOSS_MEMORY] = "memory",
    [LOSS_INVENTORY] = "inventory", [LOSS_THROTTLE] = "throttle",
};

static bool drop_take(struct losses *losses, const struct record_note *drop)
{
    for (unsigned kind = 0; kind < LOSS_KINDS; kind++) {
        if (strlen(where[kind]) != drop->text_len ||
            memcmp(where[kind], note_text(drop), drop->text_len) != 0)
            continue;
        losses->records++;
        losses->lost[kind] += drop->n ? drop->value[0] : 1;
        return true;
    }
    return false;
}

bool losses_take(struct losses *losses, const struct record *record)
{
    if (!losses_want(record))
        return false;
    if (record->type == RECORD_DROP)
        return drop_take(losses, (const struct record_note *)record);
    losses->records++;
    if (record->type == RECORD_LOST)
        losses->lost[LOSS_KERNEL] += ((const struct record_lost *)record)->lost;
    else if (record->type == RECORD_THROTTLE)
        losses->lost[LOSS_THROTTLE]++;
    return true;
}

static void loss_tell(enum loss_kind kind, uint64_t lost, uint64_t time, struct buf *out)
{
    if (kind == LOSS_KERNEL)
        record_add_lost(out, time, 0, lost);
    else
        record_add_note(out, &(struct note){.type = RECORD_DROP,
                                            .time = time,
                                            .cpu = UINT32_MAX,
                                            .n = kind != LOSS_THROTTLE,
                                            .value = &lost,
                                            .text = where[kind],
                                            .text_len = strlen(where[kind])});
}

size_t losses_tell(const struct losses *now, const struct losses *was, uint64_t time,
                   struct buf *out)
{
    size_t n = 0;

    for (unsigned kind = 0; kind < LOSS_KINDS; kind++) {
        if (now->lost[kind] == was->lost[kind])
            continue;
        loss_tell(kind, now->lost[kind] - was->lost[kind], time, out);
        n++;
    }
    return n;
}

bool losses_follow(const struct losses *now, const struct losses *was, uint64_t records)
{
    for (unsigned kind = 0; kind < LOSS_KINDS; kind++)
        if (was->lost[kind] > now->lost[kind])
            return false;
    return was->records <= now->records && now->records - was->records <= records;
}

void losses_print(const struct losses *losses, struct buf *out)
{
    buf_u64(out, losses->records);
    for (unsigned kind = 0; kind < LOSS_KINDS; kind++) {
        buf_char(out, ':');
        buf_u64(out, losses->lost[kind]);
    }
}

bool losses_scan(struct losses *losses, struct word word)
{
    uint64_t *const number[] = {
        &losses->records,           &losses->lost[LOSS_KERNEL],    &losses->lost[LOSS_HIDDEN],
        &losses->lost[LOSS_MEMORY], &losses->lost[LOSS_INVENTORY], &losses->lost[LOSS_THROTTLE]};
    const char *const end = word.p + word.len;

    for (unsigned i = 0; i < 1 + LOSS_KINDS; i++) {
        const char *colon = memchr(word.p, ':', (size_t)(end - word.p));
        const struct word one = {word.p, (size_t)((colon ? colon : end) - word.p)};

        if (!colon != (i == LOSS_KINDS) || !word_u64(one, false, 0, UINT64_MAX, number[i]))
            return false;
        word.p = colon ? colon + 1 : end;
    }
    return true;
}
