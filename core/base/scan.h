/*
 * Reading what people write: words, key=value, numbers with a range, on/off. Nothing is copied; a
 * word is a piece of the command. Sentences quote the word.
 */
#pragma once

#include "core/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct word {
    const char *p;
    size_t len;
};

static inline struct word word_of(const char *text)
{
    return (struct word){text, strlen(text)};
}

struct scan {
    const char *p; /* what is left */
    const char *end;
};

/* A word in a sentence: err_set(err, P02, "\"" WORD_FMT "\" …", WORD_ARG(word)). Four at most. */
#define WORD_FMT    "%s"
#define WORD_ARG(w) word_shown(w)

void scan_init(struct scan *scan, const char *text, size_t len);
/* The next word separated by blanks or newlines; false at the end. */
bool scan_word(struct scan *scan, struct word *word);
/* The one word of a command: 0, or P05; several: the cause of the refusal when there is more. */
int scan_only(const char *text, size_t len, enum err_id several, struct word *word,
              struct err *err);
/* The same, and '#' starts a comment up to the end of the line (config). */
bool scan_setting(struct scan *scan, struct word *word);
/* The word before the first `c`, and what follows it (empty when there is none). */
struct word word_until(struct word text, char c, struct word *rest);
/* What begins at `at`; empty behind the end. */
struct word word_from(struct word text, size_t at);
/* What stands before the first of the characters in ends. */
struct word word_part(struct word text, const char *ends);
/* Splits key=value at the first '='; false if there is none or the key is empty. */
bool word_split(struct word word, struct word *key, struct word *value);
bool word_is(struct word word, const char *text);
/* Alike but for case, with '-' and '_' (and, if dots, '.') the same character. */
bool word_alike(struct word word, const char *text, bool dots);
/*
 * As it stands between quotes in a sentence: as it was written, but for '"', '\', control bytes and
 * what is not UTF-8, which become \ooo, so that it stays one line and no two words look alike;
 * behind 200 bytes "…". Overwritten by the thread's fourth call after this.
 */
const char *word_shown(struct word word);
const char *text_shown(const char *text);
/* A NUL-terminated copy on the heap, or NULL. */
char *word_dup(struct word word);
/* A name as it reads back (buf_word): \040 is a blank. In place. */
void text_unescape(char *text);

/*
 * Unsigned decimal (or 0x… hexadecimal when hex) in [min, max]. False if it is no number or
 * outside; nothing is said: the caller knows what the number means and names the range.
 */
bool word_u64(struct word word, bool hex, uint64_t min, uint64_t max, uint64_t *value);
/* The next word as a decimal number of at most max. */
bool scan_u64(struct scan *scan, uint64_t max, uint64_t *value);
/* on/off/yes/no/1/0/true/false. */
bool word_bool(struct word word, bool *value);

/*
 * Near misses: offer() each candidate, then near_text() gives " (did you mean a, b?)" or "".
 * Distance is Damerau-Levenshtein on the folded text, at most a third of the word's length; a
 * candidate that contains the word also counts.
 */
struct near {
    struct word word;
    struct {
        char name[96];
        unsigned distance;
    } best[3];
    unsigned n;
    char text[360];
};
void near_init(struct near *near, struct word word);
void near_offer(struct near *near, const char *candidate);
const char *near_text(struct near *near);
