/*
 * An open `samples` or `samples.perf`: a place in the log and what its form needs to remember. A
 * form turns whole records into the bytes of its stream. (The files themselves are in files.h.)
 */
#pragma once

#include "core/base/buf.h"

struct engine;

struct log_reader;                               /* owned by open_file */
void log_reader_free(struct log_reader *reader); /* NULL allowed; no lock needed */
void log_reader_leave(struct log_reader *reader); /* its log is a later worker's, too */
