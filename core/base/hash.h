/*
 * Hash tables: uthash, configured to survive ENOMEM. If hash_has(element) is false after HASH_ADD,
 * there was no memory and the table is unchanged.
 */
#pragma once

#define HASH_NONFATAL_OOM 1
/* uthash's default function has fall-throughs that clang warns about. */
#define HASH_FUNCTION HASH_OAT
#include <uthash.h>

#define hash_has(element) ((element)->hh.tbl != NULL)
