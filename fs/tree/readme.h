/*
 * The file README of the tree.
 */
#pragma once

#include "core/call.h"

int readme_show(struct call *call);
uint64_t readme_bound(const struct call *call);
/* Sets the path in the examples; kept by reference. */
void readme_place(const char *mountpoint);
