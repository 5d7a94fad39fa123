/*
 * Memory of a log: limits, and charges, which come before each allocation.
 */
#include "core/base/arena.h"
#include "core/log/log.h"
#include "core/log/log_parts.h"

#include <errno.h>

bool log_charge(struct log *log, uint64_t bytes)
{
    if (log->charge && !log->charge(log->charge_arg, (int64_t)bytes))
        return false;
    log->charged += bytes;
    return true;
}

void log_discharge(struct log *log, uint64_t bytes)
{
    if (log->charge && bytes)
        log->charge(log->charge_arg, -(int64_t)bytes);
    log->charged -= bytes;
}

uint64_t log_memory(const struct log *log)
{
    return log->ring.size + log->spaces_granted + log->facts.size;
}

static uint64_t ring_part(uint64_t bytes)
{
    return (bytes - bytes / 4) & ~UINT64_C(7);
}

uint64_t log_ring_max(const struct log *log)
{
    return ring_part(log->max_bytes);
}

void log_set_max(struct log *log, uint64_t max_bytes)
{
    pthread_mutex_lock(&log->mutex);
    log->max_bytes = log_bounded(max_bytes);
    log->grow_place = 0;
    log_publish(log);
    pthread_mutex_unlock(&log->mutex);
}

uint64_t log_max_bytes(struct log *log)
{
    uint64_t max_bytes;

    pthread_mutex_lock(&log->mutex);
    max_bytes = log->max_bytes;
    pthread_mutex_unlock(&log->mutex);
    return max_bytes;
}

uint64_t log_set_charge(struct log *log, bool (*charge)(void *arg, int64_t bytes), void *arg)
{
    uint64_t memory;

    pthread_mutex_lock(&log->mutex);
    log_discharge(log, log->charged);
    log->charge = charge;
    log->charge_arg = arg;
    memory = log->charged = log_memory(log);
    log->grow_place = 0;
    pthread_mutex_unlock(&log->mutex);
    return memory;
}

/* Grows the ring to this size. Returns 0, -EDQUOT or -ENOMEM. */
static int ring_to(struct log *log, uint64_t size)
{
    const uint64_t more = size - log->ring.size, block = log->ring.block;
    const size_t before = log->ring.size;

    if (!log_charge(log, more))
        return -EDQUOT;
    if (ring_grow(&log->ring, size)) {
        log_publish(log);
        arena_free(block, before);
        return 0;
    }
    log_discharge(log, more);
    return -ENOMEM;
}

bool log_grow_spaces(struct log *log, uint64_t bytes)
{
    if (!log_charge(log, bytes - log->spaces_granted))
        return false;
    log->spaces_granted = bytes;
    return true;
}

/* Doubles the ring, up to its limit. After a refusal the next attempt comes after one more ring of
 * data. */
bool log_grow(struct log *log, size_t size, uint64_t ahead)
{
    uint64_t max = log_ring_max(log), want = log->ring.size ? 2 * log->ring.size : FIRST_BYTES;

    if (log->ring.size >= max ||
        (log->ring.head + ahead < log->grow_place && size <= log->ring.size))
        return false;
    log->short_of = ring_to(log, want < max ? want : max);
    if (log->short_of == 0)
        return true;
    log->grow_place = log->ring.head + log->ring.size;
    return false;
}

int log_reserve(struct log *log, uint64_t bytes)
{
    int rc = 0;

    pthread_mutex_lock(&log->mutex);
    if (bytes > log->max_bytes)
        bytes = log->max_bytes;
    if (log->ring.size < ring_part(bytes))
        rc = ring_to(log, ring_part(bytes));
    if (rc == 0 && log->spaces_granted < bytes / 4 && !log_grow_spaces(log, bytes / 4))
        rc = -EDQUOT;
    pthread_mutex_unlock(&log->mutex);
    return rc;
}
