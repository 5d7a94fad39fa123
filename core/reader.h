/*
 * An open `samples` or `samples.perf`: a place in the log and what its form needs to remember. A
 * form turns whole records into the bytes of its stream. (The files themselves are in files.h.)
 */
#pragma once

#include "core/buf.h"

struct engine;

struct log_reader;                               /* owned by open_file */
void log_reader_free(struct log_reader *reader); /* NULL allowed; no lock needed */
size_t log_reader_bytes(const struct log_reader *reader); /* what it takes of memory, about */
void log_reader_print(const struct log_reader *reader, struct buf *out); /* to the line's end */
/* NULL: not readable, or no memory. The PMC and its log must have been loaded. */
struct log_reader *log_reader_scan(const char *text, struct engine *engine);
