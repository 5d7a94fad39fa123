/*
 * pmcfs --print-tables WHAT and --help: the program's tables, from which documents are generated
 * and against which tests check them.
 */
#pragma once

#include "core/base/buf.h"

#include <stdbool.h>

/* Returns false if there is no such table, with the names of all tables in out. */
bool tables_print(const char *what, struct buf *out);
