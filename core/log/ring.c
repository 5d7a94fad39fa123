/*
 * Grows a ring and copies bytes out of it.
 */
#include "core/log/ring.h"

/* Returns how many of len bytes at a place are before the end of the block. */
static size_t ring_first(const struct ring *ring, uint64_t place, size_t len)
{
    const size_t together = ring_together(ring, place);

    return len < together ? len : together;
}

void ring_copy(const struct ring *ring, uint64_t place, void *to, size_t len)
{
    if (!len)
        return;
    const size_t first = ring_first(ring, place, len);

    memcpy(to, ring_at(ring, place), first);
    memcpy((char *)to + first, ring_data(ring), len - first);
}

void ring_add_to(const struct ring *ring, uint64_t place, size_t len, struct buf *out)
{
    if (!len)
        return;
    const size_t first = ring_first(ring, place, len);

    buf_add(out, ring_at(ring, place), first);
    buf_add(out, ring_data(ring), len - first);
}

bool ring_grow(struct ring *ring, size_t size)
{
    size_t held = ring_held(ring);
    uint64_t block = arena_alloc(size);
    char *data = arena_at(block, size);

    if (!data)
        return false;
    ring_copy(ring, ring->tail, data, held);
    ring->block = block;
    ring->size = size;
    ring->tail_at = 0;
    return true;
}
