/*
 * Memory: a buddy allocator. Blocks are powers of two, with a list of free blocks for each size.
 * The file is sparse: only written pages use memory, and pages that have only free blocks are given
 * back. The tables of blocks and pages are sparse as well. Descriptors: a table with a state for
 * each.
 */
#include "core/base/arena.h"

#include "core/base/vec.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
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
    uint32_t next[BLOCKS];      /* next block in the list of free blocks */
    uint8_t free[WHOLE / PAGE]; /* free units of a page with smaller blocks, one bit each */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* a leaf */
static int memfd = -1;
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

/* Blocks of an earlier process that are kept. All of its blocks are below `old`, or `old` is 0. */
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
    if (memfd < 0)
        memfd = memfd_create("pmcfs-logs", MFD_CLOEXEC);
    if (memfd < 0 || ftruncate(memfd, (off_t)WHOLE) || !arena_map(memfd))
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
    return made ? memfd : -1;
}

/* Returns the exponent of the smallest block that holds this many bytes. */
static unsigned bits_of(size_t bytes)
{
    unsigned bits = LEAST_BITS;

    while (bits < MOST_BITS && UINT64_C(1) << bits < bytes)
        bits++;
    return bits;
}

/* Returns the bits in tables.free of a block that is smaller than a page. */
static uint8_t units_of(uint64_t block, unsigned bits)
{
    const unsigned n = 1U << (bits - LEAST_BITS), first = block % PAGE >> LEAST_BITS;

    return (uint8_t)(((1U << n) - 1) << first);
}

/* Takes a free block of this size, or else space after the used part of the file. */
uint64_t arena_alloc(size_t bytes)
{
    const unsigned bits = bits_of(bytes);
    const uint64_t size = UINT64_C(1) << bits;
    uint64_t block = 0;

    pthread_mutex_lock(&lock);
    if (arena_make() && spares[bits]) {
        block = (uint64_t)spares[bits] << LEAST_BITS;
        spares[bits] = tables->next[spares[bits]];
    } else if (arena_base) {
        const uint64_t fresh = (*top + size - 1) & ~(size - 1);

        if (size <= WHOLE && fresh <= WHOLE - size) {
            block = fresh;
            *top = fresh + size;
        }
    }
    if (block && size < PAGE)
        tables->free[block / PAGE] &= (uint8_t)~units_of(block, bits);
    pthread_mutex_unlock(&lock);
    return block;
}

/* Zeroes the block; memory of complete pages is given back. */
void arena_free(uint64_t block, size_t bytes)
{
    const unsigned bits = bits_of(bytes);
    const uint64_t size = UINT64_C(1) << bits, page = block & ~(uint64_t)(PAGE - 1);
    bool whole = size >= PAGE;

    if (!block)
        return;
    pthread_mutex_lock(&lock);
    if (!whole)
        whole = (tables->free[block / PAGE] |= units_of(block, bits)) == UINT8_MAX;
    if (!whole || fallocate(memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)page,
                            (off_t)(size < PAGE ? PAGE : size)))
        memset(arena_base + block, 0, bytes);
    tables->next[block >> LEAST_BITS] = spares[bits];
    spares[bits] = (uint32_t)(block >> LEAST_BITS);
    pthread_mutex_unlock(&lock);
}

/* ---- the arena of another process ---- */

bool arena_open(int from)
{
    if (arena_base)
        munmap(arena_base, WHOLE);
    memfd = from;
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

void arena_free_unkept(void)
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
        fallocate(memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)(old - at));
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

/* ---- descriptors ---- */

/* States of a descriptor: exempt, or of an earlier worker and kept or not. */
enum {
    FD_NONE,
    FD_EXEMPT,
    FD_OPEN,
    FD_KEPT
};
static uint8_t *fds;
static int n_fds;

static bool fds_fit(int fd)
{
    const int n = 2 * fd + 64;
    uint8_t *grown = fd < n_fds ? fds : realloc(fds, (size_t)n);

    if (!grown)
        return false;
    if (fd >= n_fds) {
        memset(grown + n_fds, FD_NONE, (size_t)(n - n_fds));
        n_fds = n;
    }
    fds = grown;
    return true;
}

bool fd_exempt(int fd)
{
    const bool fine = fd >= 0 && fds_fit(fd);

    if (fine)
        fds[fd] = FD_EXEMPT;
    return fine;
}

bool fds_begin(void)
{
    DIR *dir = opendir("/proc/self/fd");
    bool fine = dir != NULL;

    for (struct dirent *entry; fine && (entry = readdir(dir));) {
        const int fd = (int)strtol(entry->d_name, NULL, 10);

        if (entry->d_name[0] == '.' || fd == dirfd(dir))
            continue;
        fine = fds_fit(fd);
        if (fine && fds[fd] != FD_EXEMPT)
            fds[fd] = FD_OPEN;
    }
    if (dir)
        closedir(dir);
    return fine;
}

bool fd_keep(int fd)
{
    if (fd >= 0 && fd < n_fds && fds[fd] == FD_OPEN)
        fds[fd] = FD_KEPT;
    return fcntl(fd, F_GETFD) >= 0;
}

void fds_settle(void)
{
    for (int fd = 0; fd < n_fds; fd++)
        if (fds[fd] == FD_OPEN)
            close(fd);
    free(fds);
    fds = NULL;
    n_fds = 0;
}
