/*
 * Arbitrary bytes as a journal: refused, or its records can be read and more can be appended.
 */
#include "core/base/journal.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool record_read(void *arg, const struct journal_record *record)
{
    uint64_t *sum = arg;

    for (size_t i = 0; i < journal_text_len(record); i++)
        *sum += (unsigned char)record->text[i];
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct journal *journal = journal_new(), *again;
    uint64_t sum = 0;
    size_t head = size && data[0] % 2 ? 0 : 16; /* 0: the header stays valid */
    uint64_t end = size;

    FUZZ_CHECK(journal && journal_put(journal, 1, 1, "a", 1));
    journal_publish(journal);
    int fd = dup(journal_fd(journal));
    FUZZ_CHECK(pwrite(fd, data, size, 64 - (off_t)head * 4) == (ssize_t)size);
    if (head)
        FUZZ_CHECK(pwrite(fd, &end, sizeof end, 8) == sizeof end);
    again = journal_open(fd);
    if (again) {
        journal_each(again, 0, record_read, &sum);
        if (journal_put(again, 2, 2, "b", 1))
            journal_publish(again);
        journal_each(again, 0, record_read, &sum);
        journal_free(again);
    } else {
        close(fd);
    }
    journal_free(journal);
    return 0;
}
