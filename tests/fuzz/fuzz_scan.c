/*
 * Any bytes as a command: words, settings, numbers, near misses, and the sentence that quotes them.
 */
#include "core/base/buf.h"
#include "core/base/scan.h"
#include "core/base/utf8.h"

#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

/* One line of characters that can be shown. */
static void check_line(const char *text, size_t len, bool word)
{
    size_t step;

    for (size_t i = 0; i < len; i += step) {
        step = utf8_printable(text + i, len - i);
        FUZZ_CHECK(step && !(word && strchr(" ='\"", text[i])));
    }
}

static void check_sentence(struct word word)
{
    struct near near;
    struct err err;

    near_init(&near, word);
    near_offer(&near, "instructions");
    near_offer(&near, "cycles");
    near_offer(&near, "branch-misses");
    FUZZ_CHECK(err_set(&err, P02, "\"" WORD_FMT "\"%s", WORD_ARG(word), near_text(&near)) < 0);
    FUZZ_CHECK(strlen(near.text) < sizeof(near.text) && strlen(err.text) < sizeof(err.text));
    check_line(err.text, strlen(err.text), false);
}

static void check_word(struct word word)
{
    struct word key, value;
    uint64_t number;
    bool on;
    char *copy = word_dup(word);
    struct buf out;

    FUZZ_CHECK(copy && (memchr(word.p, 0, word.len) || word_is(word, copy)));
    FUZZ_CHECK(memchr(word.p, 0, word.len) || word_alike(word, copy, true));
    if (word_split(word, &key, &value))
        FUZZ_CHECK(key.len && key.len + 1 + value.len == word.len);
    if (word_u64(word, true, 3, 1000, &number))
        FUZZ_CHECK(number >= 3 && number <= 1000);
    word_bool(word, &on);
    buf_init(&out, NULL, 0);
    buf_word(&out, word.p, word.len);
    check_line(out.data, out.len, true);
    buf_free(&out);
    check_sentence(word);
    free(copy);
}

static void check_all(const char *text, size_t size, bool (*next)(struct scan *, struct word *))
{
    struct scan scan;
    struct word word;

    scan_init(&scan, text, size);
    for (const char *last = text; next(&scan, &word); last = word.p + word.len) {
        FUZZ_CHECK(word.len && word.p >= last && word.p + word.len <= text + size);
        check_word(word);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_all((const char *)data, size, scan_word);
    check_all((const char *)data, size, scan_setting);
    return 0;
}
