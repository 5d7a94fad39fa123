/*
 * Arbitrary bytes as targets: each word is refused with a sentence, or has a valid kind and its
 * members.
 */
#include "core/base/scan.h"
#include "core/pmc/target.h"

#include "tests/fuzz/fuzz.h"

static void check_target(const struct target_word *target, const char *end)
{
    FUZZ_CHECK(target->kind <= TARGET_CGROUP);
    if (target->kind == TARGET_CPU)
        FUZZ_CHECK(target->all || cpus_count(&target->cpus) > 0);
    if (target->kind == TARGET_CGROUP)
        FUZZ_CHECK(target->path + target->path_len <= end);
    if (target->kind == TARGET_PROCESS || target->kind == TARGET_THREAD)
        FUZZ_CHECK(target->self || target->number);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct target_word target;
    struct scan scan;
    struct word word;

    scan_init(&scan, text, size);
    while (scan_word(&scan, &word)) {
        struct err err = {.id = ERR_NONE};

        if (target_parse(&target, word, &err) == 0)
            check_target(&target, text + size);
        else
            FUZZ_CHECK(err.id != ERR_NONE && err.text[0]);
        target_word_clear(&target);
    }
    return 0;
}
