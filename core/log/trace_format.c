/*
 * Reads the declarations of a tracepoint's fields, such as "char prev_comm[16]", and prints their
 * values in a sample. If a declaration has no length, the type's name gives the element size.
 */
#include "core/log/trace_format.h"

#include <stdlib.h>
#include <string.h>

#define SHOWN_BYTES 4096 /* limit of an array or string, which then ends with "…" */

/* ---- declarations ---- */

/* Returns the bytes of a type; 1 for unknown types, which are printed as bytes. The first part that
 * the name contains decides. */
static unsigned type_bytes(struct word type)
{
    static const struct {
        const char *part;
        unsigned bytes;
    } parts[] = {
        {"*", sizeof(void *)},
        {"64", 8},
        {"long long", 8},
        {"long", sizeof(long)},
        {"16", 2},
        {"short", 2},
        {"8", 1},
        {"char", 1},
        {"bool", 1},
        {"32", 4},
        {"int", 4},
        {"unsigned", 4},
    };

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (memmem(type.p, type.len, parts[i].part, strlen(parts[i].part)))
            return parts[i].bytes;
    return 1;
}

/* Sets name, kind and unit of the field from its declaration: "TYPE name", "TYPE name[N]",
 * "__data_loc TYPE[] name" or the same with __rel_loc. Needs field->size. */
static void declaration_parse(struct word declaration, struct trace_field *field)
{
    struct word type = declaration; /* in the end only its type */
    unsigned n = 0;
    size_t at = type.len;

    if (at && type.p[at - 1] == ']') {
        while (at && type.p[at - 1] != '[')
            at--;
        n = (unsigned)strtoul(type.p + at, NULL, 10);
        field->array = true;
        type.len = at ? at - 1 : 0;
    }
    for (at = type.len; at && type.p[at - 1] != ' ' && type.p[at - 1] != '*';)
        at--;
    field->name = word_from(type, at);
    type.len = at;
    while (type.len && (type.p[type.len - 1] == ' '))
        type.len--;
    field->relative = word_cut(&type, "__rel_loc ");
    field->located = word_cut(&type, "__data_loc ") || field->relative;
    if (field->located && type.len > 2 && type.p[type.len - 1] == ']')
        type.len -= 2;
    word_cut(&type, "const ");
    field->array |= field->located;
    field->text = field->array && word_is(type, "char");
    field->pointer = memchr(type.p, '*', type.len) != NULL;
    field->unit = !field->array                                  ? field->size
                  : n && field->size % n == 0 && !field->located ? field->size / n
                                                                 : type_bytes(type);
}

static unsigned number_after(const char *text, const char *key)
{
    const char *at = strstr(text, key);

    return at ? (unsigned)strtoul(at + strlen(key), NULL, 10) : 0;
}

bool trace_field_next(const char **format, struct trace_field *field)
{
    static const char start[] = "\tfield:";
    const char *at;

    while ((at = strstr(*format, start))) {
        struct word type = {.p = at + strlen(start)};

        type.len = strcspn(type.p, ";\n");
        *format = type.p + type.len;
        *field = (struct trace_field){
            .offset = number_after(*format, "offset:"),
            .size = number_after(*format, "size:"),
            .is_signed = number_after(*format, "signed:"),
        };
        declaration_parse(type, field);
        if (**format == ';' && field->name.len &&
            !word_cut(&(struct word){field->name.p, field->name.len}, "common_"))
            return true;
    }
    return false;
}

/* ---- values ---- */

static void number_print(const struct trace_field *field, const char *data, struct buf *out)
{
    int64_t number = 0;
    const unsigned spare = 8 * (unsigned)(sizeof number - field->unit);

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    memcpy((char *)&number + sizeof number - field->unit, data, field->unit);
#else
    memcpy(&number, data, field->unit);
#endif
    if (field->pointer || (!field->is_signed && (field->array || number < 0)))
        buf_hex(out, (uint64_t)number);
    else if (field->is_signed)
        buf_i64(out, (int64_t)((uint64_t)number << spare) >> spare);
    else
        buf_u64(out, (uint64_t)number);
}

static void values_print(const struct trace_field *field, const char *data, size_t len,
                         struct buf *out)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned unit = field->unit;
    const size_t shown = len < SHOWN_BYTES ? len : SHOWN_BYTES;

    if (field->text)
        buf_word(out, data, strnlen(data, shown));
    else if ((unit != 1 || field->array) && unit != 2 && unit != 4 && unit != 8)
        for (size_t at = 0; at < shown; at++) {
            buf_char(out, digits[(unsigned char)data[at] >> 4]);
            buf_char(out, digits[data[at] & 15]);
        }
    else
        for (size_t at = 0; at + unit <= shown; at += unit) {
            if (at)
                buf_char(out, ',');
            number_print(field, data + at, out);
        }
    if (shown < len && (!field->text || !memchr(data, '\0', shown)))
        buf_str(out, "…");
}

void trace_fields_print(const char *format, const char *data, size_t len, struct buf *out)
{
    struct trace_field field;

    while (trace_field_next(&format, &field)) {
        size_t at = field.offset, bytes = field.size;
        uint32_t location; /* of a located array: offset in the low, length in the high half */
        bool is_valid =
            at <= len && bytes <= len - at && (!field.located || bytes == sizeof location);

        buf_char(out, ' ');
        buf_add(out, field.name.p, field.name.len);
        buf_char(out, '=');
        if (is_valid && field.located) {
            memcpy(&location, data + at, sizeof location);
            at = (location & 0xffff) + (field.relative ? at + sizeof location : 0);
            bytes = location >> 16;
            is_valid = at <= len && bytes <= len - at;
        }
        if (is_valid)
            values_print(&field, data + at, bytes, out);
        else
            buf_char(out, '-');
    }
}
