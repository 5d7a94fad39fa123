/*
 * A fuzz driver is one function. Built with -fsanitize=fuzzer it is libFuzzer's; with -DFUZZ_MAIN
 * it gets a main: with files as arguments it feeds these, else random bytes: [SEED [ROUNDS]].
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What must hold. Not assert(): it must be there in every build. */
#define FUZZ_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition))                                                                          \
            __builtin_trap();                                                                      \
    } while (0)

#ifdef FUZZ_MAIN

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUZZ_BYTES 4096

/* xorshift64*: the same bytes from the same seed everywhere. */
static inline uint64_t fuzz_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

/* Runs on a copy of its own size, so that a sanitizer sees the first byte read beyond. */
static inline void fuzz_one(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);

    if (!copy)
        abort();
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

/* Mostly characters that mean something to the parsers; some of any kind. */
static inline void fuzz_random_rounds(uint64_t seed, unsigned long rounds)
{
    static const char usual[] = "0123456789-,=#: \n\txX_.abcdefonyes\"\\";
    uint64_t state = seed ? seed : 1;
    uint8_t data[FUZZ_BYTES];

    for (unsigned long i = 0; i < rounds; i++) {
        size_t size = fuzz_random(&state) % (i % 16 ? 40 : sizeof(data));

        for (size_t j = 0; j < size; j++) {
            uint64_t r = fuzz_random(&state) >> 8;

            data[j] = r % 16 ? (uint8_t)usual[(r >> 8) % (sizeof(usual) - 1)] : (uint8_t)(r >> 8);
        }
        fuzz_one(data, size);
    }
}

static inline int fuzz_file(const char *path)
{
    static uint8_t data[1 << 20];
    FILE *stream = fopen(path, "re");
    size_t size;

    if (!stream) {
        perror(path);
        return 1;
    }
    size = fread(data, 1, sizeof(data), stream);
    fclose(stream);
    fuzz_one(data, size);
    return 0;
}

int main(int argc, char **argv)
{
    char *end = NULL;
    unsigned long long seed = argc > 1 ? strtoull(argv[1], &end, 10) : 1;
    int failed = 0;

    if (argc < 2 || !*end) {
        fuzz_random_rounds(seed, argc > 2 ? strtoul(argv[2], NULL, 10) : 20000);
        return 0;
    }
    for (int i = 1; i < argc; i++)
        failed |= fuzz_file(argv[i]);
    return failed;
}

#endif
