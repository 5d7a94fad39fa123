/*
 * The one way in and out of records for all tables of fields.
 */
#include "core/journal/fields.h"

#include "core/pmc/pmc.h"

#include <stdlib.h>
#include <string.h>

/* ---- out ---- */

static void value_print(const struct field *field, const char *at, struct buf *out)
{
    switch (field->kind) {
    case FIELD_BOOL:
        buf_char(out, *(const bool *)at ? '1' : '0');
        break;
    case FIELD_U32:
        buf_u64(out, *(const uint32_t *)at);
        break;
    case FIELD_I32:
        buf_i64(out, *(const int32_t *)at);
        break;
    case FIELD_U64:
        buf_u64(out, *(const uint64_t *)at);
        break;
    case FIELD_DOUBLE:
        buf_printf(out, "%a", *(const double *)at);
        break;
    case FIELD_CHARS:
        buf_word(out, at, strnlen(at, field->n));
        break;
    case FIELD_TEXT: {
        const char *text = *(char *const *)at;

        if (text)
            buf_word(out, text, strlen(text));
        break;
    }
    }
}

/* Bytes from one value of an array to the next. */
static size_t kind_size(enum field_kind kind)
{
    static const size_t sizes[] = {
        [FIELD_BOOL] = sizeof(bool),
        [FIELD_U32] = sizeof(uint32_t),
        [FIELD_I32] = sizeof(int32_t),
        [FIELD_U64] = sizeof(uint64_t),
        [FIELD_DOUBLE] = sizeof(double),
        [FIELD_TEXT] = sizeof(char *),
        [FIELD_CHARS] = 0,
    };
    return sizes[kind];
}

static unsigned field_values(const struct field *field)
{
    return field->kind == FIELD_CHARS ? 1 : field->n;
}

void saved_begin(const struct saved *saved, struct buf *out)
{
    buf_str(out, saved->name);
}

void saved_print(const struct saved *saved, const void *object, struct buf *out)
{
    for (const struct field *field = saved->fields; field < saved->fields + saved->n; field++) {
        const char *at = (const char *)object + field->offset;

        buf_char(out, ' ');
        buf_str(out, field->name);
        buf_char(out, '=');
        for (unsigned i = 0; i < field_values(field); i++) {
            if (i)
                buf_char(out, ',');
            value_print(field, at + i * kind_size(field->kind), out);
        }
    }
}

/* ---- in ---- */

/* The bytes that buf_word() escaped, NUL-terminated; to has room for the word's own and one more.
 */
static void unescape(struct word word, char *to)
{
    for (size_t i = 0; i < word.len; i++) {
        const char *p = word.p + i;

        if (*p == '\\' && i + 3 < word.len) {
            *to++ = (char)((p[1] - '0') * 64 + (p[2] - '0') * 8 + p[3] - '0');
            i += 3;
        } else {
            *to++ = *p;
        }
    }
    *to = '\0';
}

/* An empty text is none. */
static bool text_scan(struct word word, char **text)
{
    char *copy = word.len ? malloc(word.len + 1) : NULL;

    if (copy)
        unescape(word, copy);
    *text = copy;
    return copy || !word.len;
}

static bool chars_scan(struct word word, char *to, size_t room)
{
    char *text;
    bool fine = text_scan(word, &text) && strlen(text ? text : "") < room;

    if (fine)
        strcpy(to, text ? text : "");
    free(text);
    return fine;
}

static bool double_scan(struct word word, double *value)
{
    char text[64], *end;

    if (word.len == 0 || word.len >= sizeof text)
        return false;
    memcpy(text, word.p, word.len);
    text[word.len] = '\0';
    *value = strtod(text, &end);
    return *end == '\0';
}

static bool i32_scan(struct word word, int32_t *value)
{
    bool negative = word.len > 0 && *word.p == '-';
    struct word digits = {word.p + negative, word.len - negative};
    uint64_t number;

    if (!word_u64(digits, false, 0, INT32_MAX, &number))
        return false;
    *value = negative ? -(int32_t)number : (int32_t)number;
    return true;
}

static bool value_scan(const struct field *field, struct word word, char *at)
{
    uint64_t max = UINT64_MAX, number;

    if (field->limit)
        max = field->limit - 1;
    else if (field->kind != FIELD_U64)
        max = field->kind == FIELD_BOOL ? 1 : UINT32_MAX;
    switch (field->kind) {
    case FIELD_I32:
        return i32_scan(word, (int32_t *)at);
    case FIELD_DOUBLE:
        return double_scan(word, (double *)at);
    case FIELD_CHARS:
        return chars_scan(word, at, field->n);
    case FIELD_TEXT:
        return text_scan(word, (char **)at);
    case FIELD_BOOL:
    case FIELD_U32:
    case FIELD_U64:
        break;
    }
    if (!word_u64(word, false, 0, max, &number))
        return false;
    if (field->kind == FIELD_BOOL)
        *(bool *)at = number;
    else if (field->kind == FIELD_U32)
        *(uint32_t *)at = (uint32_t)number;
    else
        *(uint64_t *)at = number;
    return true;
}

/* "1,2,3": as many as the field has. */
static bool array_scan(const struct field *field, struct word word, char *at)
{
    for (unsigned i = 0; i < field->n; i++, at += kind_size(field->kind)) {
        const char *comma = memchr(word.p, ',', word.len);
        size_t len = comma ? (size_t)(comma - word.p) : word.len;

        if (!comma != (i + 1 == field->n) || !value_scan(field, (struct word){word.p, len}, at))
            return false;
        word.p += len + 1;
        word.len -= comma ? len + 1 : len;
    }
    return true;
}

bool line_find(const struct scan *line, const char *name, struct word *value)
{
    struct scan rest = *line;
    struct word word, key;

    while (scan_word(&rest, &word))
        if (word_split(word, &key, value) && word_is(key, name))
            return true;
    return false;
}

bool line_u64(const struct scan *line, const char *name, uint64_t *value)
{
    struct word word;

    return line_find(line, name, &word) && word_u64(word, false, 0, UINT64_MAX, value);
}

bool saved_scan(const struct saved *saved, void *object, const struct scan *line)
{
    for (const struct field *field = saved->fields; field < saved->fields + saved->n; field++) {
        char *at = (char *)object + field->offset;
        struct word value;

        if (!line_find(line, field->name, &value))
            continue;
        if (field_values(field) > 1 ? !array_scan(field, value, at) : !value_scan(field, value, at))
            return false;
    }
    return true;
}

/* ---- parts of several records ---- */

void numbers_print(const char *name, const uint64_t *value, unsigned n, struct buf *out)
{
    buf_char(out, ' ');
    buf_str(out, name);
    for (unsigned i = 0; i < n; i++) {
        buf_char(out, i ? ',' : '=');
        buf_u64(out, value[i]);
    }
}

bool numbers_scan(const char *name, uint64_t *value, unsigned n, const struct scan *line)
{
    const struct field field = {name, 0, FIELD_U64, n, 0};
    struct word word;

    return n == 0 || (line_find(line, name, &word) && array_scan(&field, word, (char *)value));
}

void tally_print(const struct tally *tally, unsigned n, struct buf *out)
{
    saved_print(&saved_tally, tally, out);
    numbers_print("value", tally->value, 2 * n, out);
    buf_char(out, '\n');
}

bool tally_scan(struct tally *tally, unsigned n, const struct scan *line)
{
    return saved_scan(&saved_tally, tally, line) &&
           numbers_scan("value", tally->value, 2 * n, line);
}

bool held_fill(struct held *held, const struct rights *rights)
{
    struct buf text;

    held->rights = NULL;
    if (!rights)
        return true;
    buf_init(&text, NULL, 0);
    rights_print(rights, &text);
    held->rights = text.failed ? NULL : strdup(buf_text(&text));
    buf_free(&text);
    return held->rights;
}

bool held_take(struct held *held, struct rights **rights)
{
    bool any = held->rights != NULL;

    *rights = any ? rights_scan(held->rights) : NULL;
    free(held->rights);
    held->rights = NULL;
    return *rights || !any;
}
