/*
 * The page README at the root of the tree.
 */
#pragma once

#include "core/call.h"

int readme_show(struct call *call);
uint64_t readme_bound(const struct call *call);
/* The path that its examples name; kept by reference. */
void readme_place(const char *mountpoint);
