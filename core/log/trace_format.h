/*
 * The fields of a tracepoint, from the text of its `format` file in tracefs.
 */
#pragma once

#include "core/base/buf.h"
#include "core/base/scan.h"

struct trace_field {
    struct word name;
    unsigned offset, size; /* in the raw data of a sample */
    unsigned unit;         /* bytes of an element; of the field if it is not an array */
    bool array, text;      /* text: an array of char */
    bool is_signed, pointer;
    bool located, relative; /* the field contains the location of an array: __data_loc, __rel_loc */
};

/* Fills in the next field of the text at *format and moves *format after it. Skips the common_
 * fields of all tracepoints. Returns false at the end. */
bool trace_field_next(const char **format, struct trace_field *field);
/* Prints " field=value" for each field. Strings are escaped; a field outside of the data is "-". */
void trace_fields_print(const char *format, const char *data, size_t len, struct buf *out);
