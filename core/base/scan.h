/*
 * Parsing of commands: words, key=value, numbers with a range, on/off. Nothing is copied: a word is
 * a part of the command's text.
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
    const char *p; /* the remaining text */
    const char *end;
};

/* For up to four words in a sentence: err_set(err, P02, "\"" WORD_FMT "\" …", WORD_ARG(word)). */
#define WORD_FMT    "%s"
#define WORD_ARG(w) word_shown(w)

static inline struct scan scan_of(struct word text)
{
    return (struct scan){text.p, text.len ? text.p + text.len : text.p};
}

/* Takes the next word, separated by blanks or newlines. Returns false at the end. */
bool scan_word(struct scan *scan, struct word *word);
/* Takes the only word of a command. Returns 0, P05 if there is none, or `several` if there are
 * more. */
int scan_only(const char *text, size_t len, enum err_id several, struct word *word,
              struct err *err);
/* Takes the next word of `config`. A word that starts with '#' starts a comment until the end of
 * the line. Returns false at the end. */
bool scan_setting(struct scan *scan, struct word *word);
/* Returns the text before the first `c` and sets *rest to the text after it. Without a `c`: returns
 * all of the text, and *rest is empty. */
struct word word_until(struct word text, char c, struct word *rest);
/* Returns the text from offset `at`; empty if that is after the end. */
struct word word_from(struct word text, size_t at);
/* Removes a prefix. Returns false if the word does not start with it. */
bool word_cut(struct word *word, const char *prefix);
/* Returns the text before the first character that is one of `ends`, or all of the text. */
struct word word_part(struct word text, const char *ends);
/* Splits key=value at the first '='. Returns false if there is none or the key is empty. */
bool word_split(struct word word, struct word *key, struct word *value);
bool word_is(struct word word, const char *text);
/* Compares without case; '-' and '_' (if dots, also '.') are equal. */
bool word_alike(struct word word, const char *text, bool dots);
/*
 * Returns the word for a quotation in a sentence: '"', '\', control bytes and invalid UTF-8 become
 * \ooo, so that it is one line and unambiguous; after 200 bytes it is cut with "…". The fourth call
 * after this one in the same thread overwrites it.
 */
const char *word_shown(struct word word);
const char *text_shown(const char *text);
/* Returns a NUL-terminated copy (free it), or NULL on ENOMEM. */
char *word_dup(struct word word);
/* Reverses buf_word() in place: \040 becomes a blank. \000 and invalid escapes stay. */
void text_unescape(char *text);

/*
 * Reads an unsigned decimal number, or if `hex` also 0x…, in [min, max]. Returns false if it is not
 * a number or out of range; the caller reports the error, because it knows the meaning of the
 * number.
 */
bool word_u64(struct word word, bool hex, uint64_t min, uint64_t max, uint64_t *value);
/* Takes the next word as a decimal number of at most max. Returns false at the end, or for
 * other words, which are taken too. */
bool scan_u64(struct scan *scan, uint64_t max, uint64_t *value);
/* Reads on/off/yes/no/1/0/true/false. Returns false for other words. */
bool word_bool(struct word word, bool *value);

/*
 * Near misses: set `word` and near_offer() each candidate; near_text() returns " (did you mean a,
 * b?)" or "". The distance is Damerau-Levenshtein on the folded text, at most a third of the word's
 * length; a candidate that contains the word also counts. A single letter has no near misses.
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
void near_offer(struct near *near, const char *candidate);
const char *near_text(struct near *near);
