/*
 * pmcfs --print-tables WHAT, and --help: the program's own tables, for documents and tests that
 * compare them.
 */
#pragma once

#include "core/base/buf.h"

#include <stdbool.h>

/* False: there is no such table; out then has their names. */
bool tables_print(const char *what, struct buf *out);
