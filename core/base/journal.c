/*
 * The memfd has two halves, one of which is valid. When the valid half has grown by a quarter and
 * GROWTH_MIN since the last switch (less if records are obsolete), or is full, the last record of
 * each object is copied to the other half, and the publishing store switches halves.
 */
#include "core/base/journal.h"

#include "core/base/arena.h"
#include "core/base/vec.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HALF_BYTES (UINT64_C(1) << 30) /* sparse: only written pages use memory */
#define HEAD_BYTES UINT64_C(64)        /* before the first record */
#define FILE_BYTES (HEAD_BYTES + 2 * HALF_BYTES)
/* Bits of `published`: second half valid, end of its records, and number of publications. */
#define SECOND_HALF     (UINT64_C(1) << 31)
#define END_MASK        (SECOND_HALF - 1)
#define ONE_PUBLICATION (UINT64_C(1) << 32)
#define GROWTH_MIN      (UINT64_C(64) << 10)
#define OBJECT_BYTES    512 /* estimate of the obsolete records of a deleted object */
#define MAGIC           UINT64_C(0x316e6a7366636d70)
#define PAGE            4096

struct head {
    uint64_t magic;
    uint64_t published;
};

struct journal {
    int fd;
    char *map;
    bool in_second; /* the half that is being written */
    uint64_t end;   /* end of its records, with unpublished ones */
    uint64_t limit; /* end at which to switch halves */
};

static struct head *head_of(const struct journal *journal)
{
    return (struct head *)(void *)journal->map;
}

static uint64_t published(const struct journal *journal)
{
    return __atomic_load_n(&head_of(journal)->published, __ATOMIC_ACQUIRE);
}

static char *half_at(const struct journal *journal, bool second, uint64_t place)
{
    return journal->map + HEAD_BYTES + (second ? HALF_BYTES : 0) + place;
}

uint64_t journal_used(const struct journal *journal)
{
    return published(journal) & END_MASK;
}

uint32_t journal_publications(const struct journal *journal)
{
    return (uint32_t)(published(journal) / ONE_PUBLICATION);
}

/* Returns true if the half that is being written is not the published one. */
static bool has_switched(const struct journal *journal)
{
    return journal->in_second != !!(published(journal) & SECOND_HALF);
}

/* ---- creating, opening, freeing ---- */

static void limit_set(struct journal *journal)
{
    journal->limit = journal->end + journal->end / 4 + GROWTH_MIN;
}

static struct journal *journal_map(int fd)
{
    struct journal *journal = calloc(1, sizeof *journal);
    void *map = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);

    if (!journal || map == MAP_FAILED) {
        if (map != MAP_FAILED)
            munmap(map, FILE_BYTES);
        free(journal);
        return NULL;
    }
    journal->fd = fd;
    journal->map = map;
    return journal;
}

struct journal *journal_new(void)
{
    int fd = memfd_create("pmcfs-journal", MFD_CLOEXEC);
    struct journal *journal =
        fd >= 0 && ftruncate(fd, (off_t)FILE_BYTES) == 0 ? journal_map(fd) : NULL;

    if (!journal) {
        fd_close(fd);
        return NULL;
    }
    head_of(journal)->magic = MAGIC;
    limit_set(journal);
    return journal;
}

bool journal_clear(int fd)
{
    const struct head head = {.magic = MAGIC};

    return ftruncate(fd, 0) == 0 && ftruncate(fd, (off_t)FILE_BYTES) == 0 &&
           pwrite(fd, &head, sizeof head, 0) == (ssize_t)sizeof head;
}

struct journal *journal_open(int fd)
{
    struct stat stat;
    struct journal *journal =
        fstat(fd, &stat) == 0 && stat.st_size == (off_t)FILE_BYTES ? journal_map(fd) : NULL;

    if (!journal)
        return NULL;
    journal->in_second = published(journal) & SECOND_HALF;
    journal->end = journal_used(journal);
    if (head_of(journal)->magic == MAGIC && journal->end <= HALF_BYTES) {
        limit_set(journal);
        return journal;
    }
    munmap(journal->map, FILE_BYTES);
    free(journal);
    return NULL;
}

int journal_fd(const struct journal *journal)
{
    return journal->fd;
}

void journal_free(struct journal *journal)
{
    if (!journal)
        return;
    munmap(journal->map, FILE_BYTES);
    close(journal->fd);
    free(journal);
}

/* ---- reading ---- */

/* The last record of each object. */
struct last {
    struct {
        uint64_t kind, id;
    } key;
    const struct journal_record *record;
    UT_hash_handle hh;
};

static uint64_t padded(uint64_t bytes)
{
    return (bytes + 7) & ~UINT64_C(7);
}

/* Calls fn for the last record of each object of this kind, unless it deletes the object. Stops
 * reading at a record that is not valid. */
static bool half_each(const char *half, uint64_t end, uint32_t kind,
                      bool (*fn)(void *arg, const struct journal_record *record), void *arg)
{
    const struct journal_record *record;
    struct last *lasts = NULL, *last, *next;
    bool fine = true;

    for (uint64_t at = 0; fine && end - at >= sizeof *record; at += padded(record->bytes)) {
        record = (const void *)(half + at);
        if (record->bytes < sizeof *record || record->bytes > end - at)
            break;
        const struct last wanted = {.key = {record->kind, record->id}};
        if (kind && kind != record->kind)
            continue;
        HASH_FIND(hh, lasts, &wanted.key, sizeof wanted.key, last);
        if (!last && (last = calloc(1, sizeof *last))) {
            last->key = wanted.key;
            HASH_ADD(hh, lasts, key, sizeof last->key, last);
            if (!hash_has(last)) {
                free(last);
                last = NULL;
            }
        }
        if (last)
            last->record = record;
        fine = last != NULL;
    }
    HASH_ITER (hh, lasts, last, next) {
        if (fine && journal_text_len(last->record))
            fine = fn(arg, last->record);
        HASH_DEL(lasts, last);
        free(last);
    }
    return fine;
}

bool journal_each(const struct journal *journal, uint32_t kind,
                  bool (*fn)(void *arg, const struct journal_record *record), void *arg)
{
    const uint64_t now = published(journal);

    return half_each(half_at(journal, now & SECOND_HALF, 0), now & END_MASK, kind, fn, arg);
}

/* ---- writing ---- */

static bool record_put(struct journal *journal, const struct journal_record *head, const char *text)
{
    const size_t bytes = padded(head->bytes);

    if (head->bytes < sizeof *head || bytes > HALF_BYTES - journal->end)
        return false;
    char *at = half_at(journal, journal->in_second, journal->end);
    memcpy(at, head, sizeof *head);
    if (head->bytes > sizeof *head)
        memcpy(at + sizeof *head, text, head->bytes - sizeof *head);
    journal->end += bytes;
    return true;
}

static bool record_copy(void *arg, const struct journal_record *record)
{
    return record_put(arg, record, record->text);
}

void journal_start_snapshot(struct journal *journal)
{
    journal->in_second = !(published(journal) & SECOND_HALF);
    journal->end = 0;
}

/* Copies the last record of each object, unpublished ones included, to the other half, which is
 * written from now on. Returns false, and stays in the present half, on ENOMEM or if it has
 * switched since the last publication. */
static bool half_switch(struct journal *journal)
{
    const struct journal before = *journal;

    if (has_switched(journal))
        return false;
    journal_start_snapshot(journal);
    if (half_each(half_at(&before, before.in_second, 0), before.end, 0, record_copy, journal))
        return true;
    *journal = before;
    return false;
}

void journal_note_obsolete(struct journal *journal, uint64_t bytes)
{
    journal->limit -= bytes < journal->limit ? bytes : journal->limit;
}

bool journal_put(struct journal *journal, uint32_t kind, uint64_t id, const char *text, size_t len)
{
    const struct journal_record head = {
        .bytes = (uint32_t)(sizeof head + len), .kind = kind, .id = id};

    if (!len)
        journal_note_obsolete(journal, OBJECT_BYTES);
    return len < HALF_BYTES && (record_put(journal, &head, text) ||
                                (half_switch(journal) && record_put(journal, &head, text)));
}

bool journal_drop(struct journal *journal, uint32_t kind, uint64_t id)
{
    return journal_put(journal, kind, id, NULL, 0);
}

void journal_publish(struct journal *journal)
{
    const uint64_t publications = published(journal) / ONE_PUBLICATION + 1;

    if (journal->end > journal->limit && !half_switch(journal))
        limit_set(journal);
    const bool switches = has_switched(journal);
    __atomic_store_n(&head_of(journal)->published,
                     publications * ONE_PUBLICATION | (journal->in_second ? SECOND_HALF : 0) |
                         journal->end,
                     __ATOMIC_RELEASE);
    if (!switches)
        return;
    limit_set(journal);
    fallocate(journal->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              (off_t)(half_at(journal, !journal->in_second, PAGE) - journal->map),
              (off_t)(HALF_BYTES - PAGE));
}

bool journal_has_more(const struct journal *journal)
{
    return has_switched(journal) || journal->end != journal_used(journal);
}
