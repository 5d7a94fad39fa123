/*
 * Parsing of the text that people write, and near misses for wrong words.
 */
#include "core/base/scan.h"

#include "core/base/buf.h"

#include <stdlib.h>
#include <sys/param.h>

#define CUT "…"

enum {
    SHOWN_AT_ONCE = 4,
    SHOWN_MAX = 200,
    NEAR_LEAST = 2 /* one letter is part of too many names */
};

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Lower case, '_' for '-' and, if dots, for '.'. Independent of the locale. */
static char fold(char c, bool dots)
{
    if (c >= 'A' && c <= 'Z')
        return (char)(c - 'A' + 'a');
    return c == '-' || (dots && c == '.') ? '_' : c;
}

bool scan_word(struct scan *scan, struct word *word)
{
    while (scan->p < scan->end && is_blank(*scan->p))
        scan->p++;
    word->p = scan->p;
    while (scan->p < scan->end && !is_blank(*scan->p))
        scan->p++;
    word->len = (size_t)(scan->p - word->p);
    return word->len > 0;
}

bool scan_setting(struct scan *scan, struct word *word)
{
    while (scan_word(scan, word)) {
        if (word->p[0] != '#')
            return true;
        const char *line_end = memchr(word->p, '\n', (size_t)(scan->end - word->p));
        scan->p = line_end ? line_end : scan->end;
    }
    return false;
}

int scan_only(const char *text, size_t len, enum err_id several, struct word *word, struct err *err)
{
    struct word more;
    struct scan scan = scan_of((struct word){text, len});

    if (!scan_word(&scan, word))
        return err_set(err, P05, "the text has only blanks: write a command");
    if (scan_word(&scan, &more))
        return err_set(err, several, "expected one word: remove \"" WORD_FMT "\"", WORD_ARG(more));
    return 0;
}

struct word word_until(struct word text, char c, struct word *rest)
{
    const char *at = text.len > 0 ? memchr(text.p, c, text.len) : NULL;
    size_t len = at ? (size_t)(at - text.p) : text.len;

    *rest = at ? (struct word){at + 1, text.len - len - 1} : (struct word){text.p + len, 0};
    return (struct word){text.p, len};
}

struct word word_from(struct word text, size_t at)
{
    at = at < text.len ? at : text.len;
    return (struct word){text.p + at, text.len - at};
}

bool word_cut(struct word *word, const char *prefix)
{
    const size_t len = strlen(prefix);

    if (word->len < len || memcmp(word->p, prefix, len) != 0)
        return false;
    *word = word_from(*word, len);
    return true;
}

struct word word_part(struct word text, const char *ends)
{
    size_t len = 0;

    while (len < text.len && !strchr(ends, text.p[len]))
        len++;
    return (struct word){text.p, len};
}

bool word_split(struct word word, struct word *key, struct word *value)
{
    struct word rest;
    const struct word before = word_until(word, '=', &rest);

    if (before.len == 0 || before.len == word.len)
        return false;
    *key = before;
    *value = rest;
    return true;
}

bool word_is(struct word word, const char *text)
{
    return strlen(text) == word.len && (!word.len || memcmp(word.p, text, word.len) == 0);
}

bool word_alike(struct word word, const char *text, bool dots)
{
    if (word.len != strlen(text))
        return false;
    for (size_t i = 0; i < word.len; i++)
        if (fold(word.p[i], dots) != fold(text[i], dots))
            return false;
    return true;
}

const char *word_shown(struct word word)
{
    static _Thread_local char texts[SHOWN_AT_ONCE][SHOWN_MAX * 4 + sizeof CUT];
    static _Thread_local unsigned next;
    struct buf shown = buf_in(texts[next], sizeof texts[next]);

    next = (next + 1) % SHOWN_AT_ONCE;
    buf_in_quotes(&shown, word.p, utf8_cut(word.p, word.len, SHOWN_MAX));
    if (word.len > SHOWN_MAX)
        buf_str(&shown, CUT);
    return buf_text(&shown); /* a byte becomes at most four, so the text fits */
}

const char *text_shown(const char *text)
{
    return word_shown(word_of(text));
}

char *word_dup(struct word word)
{
    char *copy = malloc(word.len + 1);

    if (!copy)
        return NULL;
    if (word.len)
        memcpy(copy, word.p, word.len);
    copy[word.len] = '\0';
    return copy;
}

void text_unescape(char *text)
{
    char *to = text;

    for (const char *from = text; *from; to++) {
        unsigned value = 0;
        int digits = 0;

        while (from[0] == '\\' && digits < 3 && from[1 + digits] >= '0' && from[1 + digits] <= '7')
            value = 8 * value + (unsigned)(from[1 + digits++] - '0');
        bool escape = digits == 3 && value > 0 && value < 256;
        *to = escape ? (char)value : *from;
        from += escape ? 4 : 1;
    }
    *to = '\0';
}

bool word_u64(struct word word, bool hex, uint64_t min, uint64_t max, uint64_t *value)
{
    unsigned base = 10;
    size_t i = 0;
    uint64_t number = 0;

    if (hex && word.len > 2 && word.p[0] == '0' && fold(word.p[1], false) == 'x') {
        base = 16;
        i = 2;
    }
    if (i == word.len)
        return false;
    for (; i < word.len; i++) {
        const char c = fold(word.p[i], false);
        const unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                               : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                                                      : 16;

        if (digit >= base || __builtin_mul_overflow(number, base, &number) ||
            __builtin_add_overflow(number, digit, &number))
            return false;
    }
    if (number < min || number > max)
        return false;
    *value = number;
    return true;
}

bool scan_u64(struct scan *scan, uint64_t max, uint64_t *value)
{
    struct word word;

    return scan_word(scan, &word) && word_u64(word, false, 0, max, value);
}

bool word_bool(struct word word, bool *value)
{
    static const char *const spellings[][2] = {
        {"off", "on"}, {"no", "yes"}, {"0", "1"}, {"false", "true"}};

    for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++) {
        *value = word_alike(word, spellings[i][true], false);
        if (*value || word_alike(word, spellings[i][false], false))
            return true;
    }
    return false;
}

/* ---- near misses ---- */

#define NEAR_BYTES sizeof(((struct near *)0)->best[0].name)

/* Returns the Damerau-Levenshtein distance of two texts shorter than NEAR_BYTES. */
static unsigned edit_distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    unsigned rows[3][NEAR_BYTES];
    unsigned *before_last = rows[0], *last = rows[1], *now = rows[2];

    for (unsigned j = 0; j <= b_len; j++)
        last[j] = j;
    for (unsigned i = 1; i <= a_len; i++) {
        unsigned *unused = before_last;

        now[0] = i;
        for (unsigned j = 1; j <= b_len; j++) {
            now[j] = MIN(MIN(last[j], now[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = MIN(now[j], before_last[j - 2] + 1);
        }
        before_last = last;
        last = now;
        now = unused;
    }
    return last[b_len];
}

void near_offer(struct near *near, const char *candidate)
{
    const unsigned most = sizeof(near->best) / sizeof(near->best[0]);
    const size_t word_len = near->word.len, len = strnlen(candidate, NEAR_BYTES);
    const size_t limit = word_len / 3;
    char word[NEAR_BYTES] = "", name[NEAR_BYTES] = ""; /* folded */
    unsigned distance, at = near->n;

    if (word_len < NEAR_LEAST || word_len >= NEAR_BYTES || len >= NEAR_BYTES)
        return;
    for (size_t i = 0; i < word_len; i++)
        word[i] = fold(near->word.p[i], true);
    for (size_t i = 0; i < len; i++)
        name[i] = fold(candidate[i], true);
    if (strstr(name, word)) {
        distance = (unsigned)(len - word_len);
    } else {
        if (MAX(word_len, len) - MIN(word_len, len) > limit)
            return;
        distance = edit_distance(word, word_len, name, len);
        if (distance > limit)
            return;
    }
    for (unsigned i = 0; i < near->n; i++)
        if (strcmp(near->best[i].name, candidate) == 0)
            return;
    while (at > 0 && near->best[at - 1].distance > distance)
        at--; /* of equally near names the first one offered stays first */
    if (at == most)
        return;
    if (near->n < most)
        near->n++;
    memmove(&near->best[at + 1], &near->best[at], (near->n - 1 - at) * sizeof(near->best[0]));
    memcpy(near->best[at].name, candidate, len + 1);
    near->best[at].distance = distance;
}

const char *near_text(struct near *near)
{
    char *p = near->text;

    if (near->n) {
        p = stpcpy(p, " (did you mean ");
        for (unsigned i = 0; i < near->n; i++)
            p = stpcpy(stpcpy(p, i ? ", " : ""), near->best[i].name);
        p = stpcpy(p, "?)");
    }
    *p = '\0';
    return near->text;
}
