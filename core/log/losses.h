/*
 * What a log's records of losses stand for, by kind. Such a record is no loss when it is
 * overwritten itself: its number is kept in a sum, and told again to who has not read it.
 */
#pragma once

#include "core/base/scan.h"
#include "core/log/record.h"

enum loss_kind {
    LOSS_KERNEL,
    LOSS_HIDDEN,
    LOSS_MEMORY,
    LOSS_INVENTORY,
    LOSS_THROTTLE,
    LOSS_KINDS
};

struct losses {
    uint64_t records; /* that told of losses, or of their end */
    uint64_t lost[LOSS_KINDS];
};

#define LOSS_MOST 128 /* bytes of such a record */

/* May it be one, by its head alone? What stands for a record (RECORD_REFUSED) is none. */
static inline bool losses_want(const struct record *record)
{
    if (record->size > LOSS_MOST)
        return false;
    return record->type == RECORD_LOST || record->type == RECORD_THROTTLE ||
           record->type == RECORD_UNTHROTTLE ||
           (record->type == RECORD_DROP && !(record->misc & RECORD_REFUSED));
}
/* Adds what it stands for; false: it tells of no loss. */
bool losses_take(struct losses *losses, const struct record *record);
/* A RECORD_LOST or RECORD_DROP for each kind of which there is more than there was; throttling
 * without a number. Their number. */
size_t losses_tell(const struct losses *now, const struct losses *was, uint64_t time,
                   struct buf *out);
/* Was nothing more in what was than there is now, which at most so many records told? */
bool losses_follow(const struct losses *now, const struct losses *was, uint64_t records);
/* "N:N:N:N:N:N" and back. */
void losses_print(const struct losses *losses, struct buf *out);
bool losses_scan(struct losses *losses, struct word word);
