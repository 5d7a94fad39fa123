/*
 * The reader of an open `samples` or `samples.perf`: a position in the log and the state of its
 * form (form.h). The file operations are in files.h.
 */
#pragma once

#include "core/base/buf.h"

struct engine;

struct log_reader;                                /* owned by open_file */
void log_reader_free(struct log_reader *reader);  /* may be NULL; needs no lock */
void log_reader_leave(struct log_reader *reader); /* keeps its log for a new worker */
