/*
 * A ring of bytes in a block of the arena (core/base/arena.h), which survives a worker. A place is
 * the number of bytes that were ever added before it, so places remain valid when the ring grows.
 * Sizes and lengths are multiples of 8, so the end of the block never splits an aligned word.
 */
#pragma once

#include "core/base/arena.h"
#include "core/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct ring {
    uint64_t block;
    size_t size;
    uint64_t head, tail; /* places: after the last byte; of the first byte */
    size_t tail_at;      /* offset of the tail in the block */
};

/* Copies the bytes to a new, larger block. The caller frees the old block. Returns false on ENOMEM;
 * the ring is unchanged then. */
bool ring_grow(struct ring *ring, size_t size);
/* Copy len bytes at a place to `to`, or append them to out. */
void ring_copy(const struct ring *ring, uint64_t place, void *to, size_t len);
void ring_add_to(const struct ring *ring, uint64_t place, size_t len, struct buf *out);

static inline size_t ring_held(const struct ring *ring)
{
    return (size_t)(ring->head - ring->tail);
}

static inline size_t ring_room(const struct ring *ring)
{
    return ring->size - ring_held(ring);
}

static inline char *ring_data(const struct ring *ring)
{
    return arena_base + ring->block;
}

/* Returns the offset in the block of a place between tail and head. */
static inline size_t ring_offset(const struct ring *ring, uint64_t place)
{
    const size_t at = ring->tail_at + (size_t)(place - ring->tail);

    return at < ring->size ? at : at - ring->size;
}

static inline char *ring_at(const struct ring *ring, uint64_t place)
{
    return ring_data(ring) + ring_offset(ring, place);
}

/* Returns the number of bytes from a place to the end of the block. */
static inline size_t ring_together(const struct ring *ring, uint64_t place)
{
    return ring->size - ring_offset(ring, place);
}

/* Appends bytes. The caller checked ring_room(). */
static inline void ring_put(struct ring *ring, const void *data, size_t len)
{
    const size_t at = ring_offset(ring, ring->head);
    const size_t first = len < ring->size - at ? len : ring->size - at;

    memcpy(ring_data(ring) + at, data, first);
    if (first < len)
        memcpy(ring_data(ring), (const char *)data + first, len - first);
    ring->head += len;
}

/* Removes the first len bytes. */
static inline void ring_drop(struct ring *ring, size_t len)
{
    ring->tail_at += len;
    if (ring->tail_at >= ring->size)
        ring->tail_at -= ring->size;
    ring->tail += len;
}
