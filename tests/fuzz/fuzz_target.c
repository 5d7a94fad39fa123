/*
 * Arbitrary bytes as targets and as lists of targets with commas: each word is refused with a
 * sentence, or has a valid kind and its members.
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

static void parse_word(struct word word, const char *end)
{
    struct err err = {.id = ERR_NONE};
    struct target_word target;

    if (target_parse(&target, word, &err) == 0)
        check_target(&target, end);
    else
        FUZZ_CHECK(err.id != ERR_NONE && err.text[0]);
    cpus_free(&target.cpus);
}

/* The words of a list, one after the other, are in it, and the list gets shorter with each. */
static void parse_list(struct word list)
{
    const char *const end = list.p + list.len;

    while (list.len > 0) {
        const char *const before = list.p;
        const struct word word = target_next(&list);

        FUZZ_CHECK(word.p >= before && word.p + word.len <= end);
        FUZZ_CHECK(list.p > before && list.p + list.len <= end);
        if (word.len)
            parse_word(word, end);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct scan scan = scan_of((struct word){text, size});
    struct word word;

    while (scan_word(&scan, &word)) {
        parse_word(word, text + size);
        parse_list(word);
    }
    return 0;
}
