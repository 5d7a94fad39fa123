/*
 * Memory that ends when told: the n-th allocation from now fails, all programs' code included.
 * Needs the linker's --wrap (tests/meson.build).
 */
#pragma once

#include <stdbool.h>

void memory_end_at(unsigned n); /* 0: never */
bool memory_ended(void);        /* it has come to that since */
