/*
 * Blocks are powers of two, kept in a list for each size when they are free. The file is sparse: it
 * takes the memory of pages that were written, and gives that of free ones back.
 */
#include "core/base/arena.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    LEAST_BITS = 9,
    MOST_BITS = 36, /* of the whole */
    PAGE = 4096
};
#define WHOLE (UINT64_C(1) << MOST_BITS)

struct spare {
    struct spare *next;
    uint64_t block;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* a leaf */
static int fd = -1;
char *arena_base;
static uint64_t top = PAGE; /* what lies behind it was never given out */
static struct spare *spares[MOST_BITS + 1];
static struct spare *unused; /* one for each block that is given out: giving it back cannot fail */

static bool arena_make(void)
{
    void *map;

    if (arena_base)
        return true;
    fd = memfd_create("pmcfs-logs", MFD_CLOEXEC);
    if (fd < 0)
        return false;
    map = ftruncate(fd, (off_t)WHOLE)
              ? MAP_FAILED
              : mmap(NULL, WHOLE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (map == MAP_FAILED) {
        close(fd);
        return false;
    }
    arena_base = map;
    return true;
}

/* The least power of two with room for so many bytes. */
static unsigned bits_of(size_t bytes)
{
    unsigned bits = LEAST_BITS;

    while (bits < MOST_BITS && UINT64_C(1) << bits < bytes)
        bits++;
    return bits;
}

static uint64_t spare_take(unsigned bits)
{
    struct spare *spare = spares[bits];
    const uint64_t block = spare ? spare->block : 0;

    if (spare)
        spares[bits] = spare->next;
    free(spare);
    return block;
}

static uint64_t fresh_take(uint64_t size)
{
    const uint64_t block = (top + size - 1) & ~(size - 1);

    if (size > WHOLE || block > WHOLE - size)
        return 0;
    top = block + size;
    return block;
}

uint64_t arena_alloc(size_t bytes)
{
    const unsigned bits = bits_of(bytes);
    struct spare *spare = malloc(sizeof *spare);
    uint64_t block = 0;

    pthread_mutex_lock(&lock);
    if (spare && arena_make()) {
        block = spare_take(bits);
        if (!block)
            block = fresh_take(UINT64_C(1) << bits);
    }
    if (block) {
        spare->next = unused;
        unused = spare;
    }
    pthread_mutex_unlock(&lock);
    if (!block)
        free(spare);
    return block;
}

/* Zero again. */
static void block_clear(uint64_t block, uint64_t size, size_t used)
{
    if (size < PAGE ||
        fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)block, (off_t)size))
        memset(arena_base + block, 0, used);
}

void arena_free(uint64_t block, size_t bytes)
{
    const unsigned bits = bits_of(bytes);
    struct spare *spare;

    if (!block)
        return;
    block_clear(block, UINT64_C(1) << bits, bytes);
    pthread_mutex_lock(&lock);
    spare = unused;
    unused = spare->next;
    *spare = (struct spare){spares[bits], block};
    spares[bits] = spare;
    pthread_mutex_unlock(&lock);
}

void *arena_at(uint64_t block, size_t bytes)
{
    const uint64_t size = UINT64_C(1) << bits_of(bytes);

    if (!arena_base || !block || block % size || size < bytes || block > WHOLE - size)
        return NULL;
    return arena_base + block;
}
