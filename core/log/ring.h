/*
 * A ring of bytes in a block that a later worker finds again (core/base/arena.h). A place in it is
 * the number of bytes ever put before it, so that places stay what they are when the ring grows.
 * Sizes and lengths are multiples of 8: eight bytes at such a place are never parted by the end of
 * the block.
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
    uint64_t head, tail; /* places: behind the last byte, the first byte */
    size_t tail_at;      /* where that is in the block */
};

/* A larger block: the bytes are copied there, and the one before is the caller's to free. False: no
 * memory, nothing changed. */
bool ring_grow(struct ring *ring, size_t size);
/* len bytes from a place to `to`, or appended to out. */
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

/* Where a place between tail and head is in the block. */
static inline size_t ring_offset(const struct ring *ring, uint64_t place)
{
    const size_t at = ring->tail_at + (size_t)(place - ring->tail);

    return at < ring->size ? at : at - ring->size;
}

static inline char *ring_at(const struct ring *ring, uint64_t place)
{
    return ring_data(ring) + ring_offset(ring, place);
}

/* Up to the end of the block so much lies together from a place on. */
static inline size_t ring_together(const struct ring *ring, uint64_t place)
{
    return ring->size - ring_offset(ring, place);
}

/* There is room. */
static inline void ring_put(struct ring *ring, const void *data, size_t len)
{
    const size_t at = ring_offset(ring, ring->head);
    const size_t first = len < ring->size - at ? len : ring->size - at;

    memcpy(ring_data(ring) + at, data, first);
    if (first < len)
        memcpy(ring_data(ring), (const char *)data + first, len - first);
    ring->head += len;
}

/* Gives up the first len bytes. */
static inline void ring_drop(struct ring *ring, size_t len)
{
    ring->tail_at += len;
    if (ring->tail_at >= ring->size)
        ring->tail_at -= ring->size;
    ring->tail += len;
}
