/*
 * A buddy allocator: blocks are powers of two, with a list of free blocks for each size. The file
 * is sparse: only written pages use memory, and pages that have only free blocks are given back.
 * The tables of blocks and pages are in the file too, and sparse as well.
 */
#include "core/base/arena.h"

#include "core/base/vec.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    LEAST_BITS = 9,
    MOST_BITS = 36, /* size of the file */
    PAGE = 4096
};
#define WHOLE  (UINT64_C(1) << MOST_BITS)
#define BLOCKS (WHOLE >> LEAST_BITS)

/* A block's number is its offset in units of the smallest size; 0: none. */
struct tables {
    uint32_t next[BLOCKS]; /* next block in the list of free blocks */
    uint8_t
        free[WHOLE / PAGE]; /* free units of pages with blocks smaller than a page, one bit each */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* a leaf */
static int fd = -1;
char *arena_base;
static uint64_t *top; /* end of the used part of the file; stored in its first page */
static struct tables *tables;
static uint32_t spares[MOST_BITS + 1]; /* first free block of each size */

/* Returns NULL if there is no address space or memory. */
static void *map_sparse(int file, uint64_t bytes)
{
    const int flags = MAP_NORESERVE | (file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, file, 0);

    return map == MAP_FAILED ? NULL : map;
}

/* Blocks of an earlier process that are kept; all of its blocks are below `old`. */
struct span {
    uint64_t begin, end;
};
static VEC(struct span) kept;
static uint64_t old;

static bool arena_map(int from)
{
    if (!tables)
        tables = map_sparse(-1, sizeof *tables);
    arena_base = tables ? map_sparse(from, WHOLE) : NULL;
    top = (uint64_t *)(void *)arena_base;
    return arena_base != NULL;
}

static bool arena_make(void)
{
    if (arena_base)
        return true;
    if (fd < 0)
        fd = memfd_create("pmcfs-logs", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)WHOLE) || !arena_map(fd))
        return false;
    *top = PAGE;
    return true;
}

int arena_fd(void)
{
    bool made;

    pthread_mutex_lock(&lock);
    made = arena_make();
    pthread_mutex_unlock(&lock);
    return made ? fd : -1;
}

/* Returns the exponent of the smallest block that holds this many bytes. */
static unsigned bits_of(size_t bytes)
{
    unsigned bits = LEAST_BITS;

    while (bits < MOST_BITS && UINT64_C(1) << bits < bytes)
        bits++;
    return bits;
}

/* Returns the bits of a block that is smaller than a page. */
static uint8_t units_of(uint64_t block, unsigned bits)
{
    const unsigned n = 1U << (bits - LEAST_BITS), first = block % PAGE >> LEAST_BITS;

    return (uint8_t)(((1U << n) - 1) << first);
}

static uint64_t spare_take(unsigned bits)
{
    const uint32_t spare = spares[bits];

    if (spare)
        spares[bits] = tables->next[spare];
    return (uint64_t)spare << LEAST_BITS;
}

static uint64_t fresh_take(uint64_t size)
{
    const uint64_t block = (*top + size - 1) & ~(size - 1);

    if (size > WHOLE || block > WHOLE - size)
        return 0;
    *top = block + size;
    return block;
}

uint64_t arena_alloc(size_t bytes)
{
    const unsigned bits = bits_of(bytes);
    uint64_t block = 0;

    pthread_mutex_lock(&lock);
    if (arena_make()) {
        block = spare_take(bits);
        if (!block)
            block = fresh_take(UINT64_C(1) << bits);
    }
    if (block && UINT64_C(1) << bits < PAGE)
        tables->free[block / PAGE] &= (uint8_t)~units_of(block, bits);
    pthread_mutex_unlock(&lock);
    return block;
}

/* Zeroes the block; memory of complete pages is given back. */
static void block_clear(uint64_t block, unsigned bits, size_t written)
{
    const uint64_t size = UINT64_C(1) << bits, page = block & ~(uint64_t)(PAGE - 1);
    bool whole = size >= PAGE;

    if (!whole)
        whole = (tables->free[block / PAGE] |= units_of(block, bits)) == UINT8_MAX;
    if (!whole || fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)page,
                            (off_t)(size < PAGE ? PAGE : size)))
        memset(arena_base + block, 0, written);
}

void arena_free(uint64_t block, size_t bytes)
{
    const unsigned bits = bits_of(bytes);

    if (!block)
        return;
    pthread_mutex_lock(&lock);
    block_clear(block, bits, bytes);
    tables->next[block >> LEAST_BITS] = spares[bits];
    spares[bits] = (uint32_t)(block >> LEAST_BITS);
    pthread_mutex_unlock(&lock);
}

/* ---- the arena of another process ---- */

bool arena_open(int from)
{
    if (arena_base)
        munmap(arena_base, WHOLE);
    fd = from;
    if (lseek(from, 0, SEEK_END) != (off_t)WHOLE || !arena_map(from) || *top < PAGE || *top > WHOLE)
        return false;
    old = *top;
    return true;
}

bool arena_clear(int from)
{
    const uint64_t none = PAGE;

    return ftruncate(from, 0) == 0 && ftruncate(from, (off_t)WHOLE) == 0 &&
           pwrite(from, &none, sizeof none, 0) == (ssize_t)sizeof none;
}

void arena_keep(uint64_t block, size_t bytes)
{
    const struct span span = {block, block + (UINT64_C(1) << bits_of(bytes))};

    if (!block)
        return;
    pthread_mutex_lock(&lock);
    if (old && vec_push(&kept, span))
        old = 0; /* on ENOMEM nothing is freed */
    pthread_mutex_unlock(&lock);
}

static int span_compare(const void *left, const void *right)
{
    const struct span *a = left, *b = right;

    return a->begin < b->begin ? -1 : a->begin > b->begin;
}

/* Frees a range as the largest blocks that fit. */
static void gap_free(uint64_t begin, uint64_t end)
{
    while (begin < end) {
        uint64_t size = begin & -begin;

        while (size > end - begin)
            size /= 2;
        arena_free(begin, size);
        begin += size;
    }
}

void arena_settle(void)
{
    uint64_t at = PAGE;

    if (kept.n)
        qsort(kept.items, kept.n, sizeof *kept.items, span_compare);
    for (size_t i = 0; old && i < kept.n; i++) {
        if (at < kept.items[i].begin)
            gap_free(at, kept.items[i].begin);
        at = kept.items[i].end > at ? kept.items[i].end : at;
    }
    if (at < old && *top == old) {
        fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)(old - at));
        *top = at;
    } else if (at < old) {
        gap_free(at, old);
    }
    free(kept.items);
    memset(&kept, 0, sizeof kept);
    old = 0;
}

void *arena_at(uint64_t block, size_t bytes)
{
    const uint64_t size = UINT64_C(1) << bits_of(bytes);

    if (!arena_base || !block || block % size || size < bytes || block > WHOLE - size)
        return NULL;
    return arena_base + block;
}
