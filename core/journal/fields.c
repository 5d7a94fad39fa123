/*
 * Prints and reads the fields of journal records by their tables.
 */
#include "core/journal/fields.h"

#include <stdlib.h>
#include <string.h>

/* ---- numbers ---- */

static uint64_t number_get(const struct field *field, const void *object, unsigned i)
{
    const char *at = (const char *)object + field->offset + i * field->size;

    uint64_t value;

    if (field->size == sizeof(uint8_t))
        return *(const uint8_t *)at;
    if (field->size == sizeof(uint32_t))
        return *(const uint32_t *)(const void *)at;
    memcpy(&value, at, sizeof value);
    return value;
}

static void number_set(const struct field *field, void *object, unsigned i, uint64_t value)
{
    char *at = (char *)object + field->offset + i * field->size;

    if (field->size == sizeof(uint8_t))
        *(uint8_t *)at = (uint8_t)value;
    else if (field->size == sizeof(uint32_t))
        *(uint32_t *)(void *)at = (uint32_t)value;
    else
        memcpy(at, &value, sizeof value);
}

static uint64_t number_max(const struct field *field)
{
    if (field->limit)
        return field->limit - 1;
    return field->size < sizeof(uint64_t) ? (UINT64_C(1) << 8 * field->size) - 1 : UINT64_MAX;
}

static void numbers_print(const struct field *field, const void *object, struct buf *out)
{
    unsigned n = field->n;

    while (n > 0 && number_get(field, object, n - 1) == field->least)
        n--;
    for (unsigned i = 0; i < n; i++) {
        if (i)
            buf_char(out, ',');
        buf_u64(out, number_get(field, object, i));
    }
}

static bool numbers_scan(const struct field *field, void *object, char *text)
{
    char *one;
    uint64_t value;

    for (unsigned i = 0; (one = strsep(&text, ",")); i++) {
        const struct word word = {one, strlen(one)};

        if (i == field->n || !word_u64(word, false, 0, number_max(field), &value))
            return false;
        number_set(field, object, i, value);
    }
    return true;
}

bool numbers_io(struct io *io, void *value, unsigned size, unsigned n)
{
    const struct field field = {.size = size, .n = n};

    if (!io->out)
        return numbers_scan(&field, value, io->text);
    numbers_print(&field, value, io->out);
    return true;
}

/* ---- texts ---- */

static bool text_scan(const struct field *field, char *at, char *text)
{
    char **owned = (char **)(void *)at;

    text_unescape(text);
    if (field->kind == FIELD_CHARS) {
        const bool fits = strlen(text) < field->size;

        if (fits)
            strcpy(at, text);
        return fits;
    }
    free(*owned);
    *owned = strdup(text);
    return *owned;
}

/* ---- fields ---- */

static void field_print(const struct field *field, struct engine *engine, void *object,
                        struct buf *out)
{
    const char *at = (const char *)object + field->offset;
    struct io io = {.engine = engine, .out = out};

    if (field->kind == FIELD_TEXT)
        at = *(const char *const *)(const void *)at;
    if (field->io)
        field->io(&io, object);
    else if (field->kind == FIELD_NUMBERS)
        numbers_print(field, object, out);
    else if (at)
        buf_word(out, at, strlen(at));
}

void part_print(const struct part *part, struct engine *engine, void *object, struct buf *out)
{
    buf_str(out, part->name);
    buf_char(out, '\n');
    for (const struct field *field = part->fields; field < part->fields + part->n; field++) {
        const size_t begin = out->len;

        buf_str(out, field->name);
        buf_char(out, '=');
        const size_t value = out->len;
        field_print(field, engine, object, out);
        if (out->len == value)
            out->len = begin;
        else
            buf_char(out, '\n');
    }
}

void part_clear(const struct part *part, void *object)
{
    for (const struct field *field = part->fields; field < part->fields + part->n; field++)
        if (field->least)
            number_set(field, object, 0, field->least);
}

bool part_scan(const struct part *part, struct io *io, void *object, const char *name)
{
    const struct field *field = part->fields;

    while (field < part->fields + part->n && strcmp(field->name, name) != 0)
        field++;
    if (field == part->fields + part->n)
        return true;
    if (field->io)
        return field->io(io, object);
    if (field->kind == FIELD_NUMBERS)
        return numbers_scan(field, object, io->text);
    return text_scan(field, (char *)object + field->offset, io->text);
}
