/*
 * A driver is one function, called by libFuzzer with arbitrary bytes: sh tests/fuzz.sh.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An assertion that is present in every build, unlike assert(). */
#define FUZZ_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition))                                                                          \
            __builtin_trap();                                                                      \
    } while (0)
