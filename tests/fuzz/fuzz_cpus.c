/*
 * Any bytes as a CPU list: what is accepted is printed so that it reads as the same set.
 */
#include "core/cpus.h"

#include "tests/fuzz/fuzz.h"

#include <errno.h>

static void check_print(const struct cpus *cpus)
{
    struct cpus again;
    struct buf text;
    unsigned members = 0;

    cpus_init(&again);
    buf_init(&text, NULL, 0);
    cpus_print(cpus, &text);
    FUZZ_CHECK(cpus_parse(&again, (struct word){.p = text.data, .len = text.len}) == 0);
    FUZZ_CHECK(cpus_equal(cpus, &again));
    for (int cpu = cpus_next(cpus, 0); cpu >= 0; cpu = cpus_next(cpus, cpu + 1))
        members += cpus_has(&again, (unsigned)cpu);
    FUZZ_CHECK(members && members == cpus_count(cpus));
    buf_free(&text);
    cpus_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cpus cpus;
    int result;

    cpus_init(&cpus);
    result = cpus_parse(&cpus, (struct word){.p = (const char *)data, .len = size});
    FUZZ_CHECK(result == 0 || result == -EINVAL || result == -ERANGE);
    FUZZ_CHECK(result == 0 || cpus_count(&cpus) == 0);
    if (result == 0)
        check_print(&cpus);
    cpus_free(&cpus);
    return 0;
}
