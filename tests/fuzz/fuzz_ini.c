/*
 * Arbitrary bytes as the configuration file, or as mount options if the first line starts with
 * "-o": accepted or refused, and all memory is freed.
 */
#include "backends/backends.h"
#include "fs/program/options.h"

#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char path[40];
static int file;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);

    (void)argc, (void)argv;
    file = memfd_create("pmcfs.conf", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    FUZZ_CHECK(nothing >= 0 && file >= 0);
    setlinebuf(stderr);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *words[] = {(char *)"pmcfs", (char *)"--check", (char *)"-c", path, NULL, NULL};
    const uint8_t *end = size > 2 && memcmp(data, "-o", 2) == 0 ? memchr(data, '\n', size) : NULL;
    struct options options = {0};

    if (end) {
        words[4] = strndup((const char *)data, (size_t)(end - data));
        size -= (size_t)(end + 1 - data);
        data = end + 1;
    }
    FUZZ_CHECK(ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == (ssize_t)size);
    optind = 0;
    const int status = options_read(&options, &linux_host, end ? 5 : 4, words);
    FUZZ_CHECK(status == 0 || status == 1 || status == 2);
    options_free(&options);
    free(words[4]);
    return 0;
}
