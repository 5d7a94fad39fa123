/*
 * Makes the n-th allocation from now fail, in all code of the program; later ones succeed again.
 * Needs the linker's --wrap (tests/meson.build).
 */
#pragma once

#include <stdbool.h>

void memory_fail_at(unsigned n); /* 0: none fails */
bool memory_failed(void);        /* that allocation has failed */
