/*
 * Hash tables: uthash, told that memory may end. After HASH_ADD the element is in the table if
 * hash_has(element); otherwise there was no memory, and the table is as it was.
 */
#pragma once

#define HASH_NONFATAL_OOM 1
/* uthash's own default falls through cases in a way that clang warns of. */
#define HASH_FUNCTION HASH_OAT
#include <uthash.h>

#define hash_has(element) ((element)->hh.tbl != NULL)
