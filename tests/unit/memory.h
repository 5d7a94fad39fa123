/*
 * Makes the n-th allocation from now, and all later ones, fail in all code of the program.
 * Needs the linker's --wrap (tests/meson.build).
 */
#pragma once

#include <stdbool.h>

void memory_end_at(unsigned n); /* 0: no failure */
bool memory_ended(void);        /* an allocation has failed since */
