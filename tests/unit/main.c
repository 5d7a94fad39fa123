/*
 * Runs all suites, or the suites named on the command line. CK_FORK=no runs them in one process.
 */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *name;
    Suite *(*make)(void);
} suites[] = {
#define X(name) {#name, suite_##name},
    SUITES(X)
#undef X
};

static bool is_wanted(const char *name, char *const *wanted)
{
    if (!*wanted)
        return true;
    for (; *wanted; wanted++)
        if (strcmp(*wanted, name) == 0)
            return true;
    return false;
}

int main(int argc, char **argv)
{
    SRunner *runner = srunner_create(NULL);
    int run, failed;

    (void)argc;
    for (size_t i = 0; i < sizeof(suites) / sizeof(suites[0]); i++)
        if (is_wanted(suites[i].name, argv + 1))
            srunner_add_suite(runner, suites[i].make());
    srunner_run_all(runner, CK_ENV);
    run = srunner_ntests_run(runner);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    if (!run)
        fprintf(stderr, "no test was run: no such suite\n");
    return run && !failed ? EXIT_SUCCESS : EXIT_FAILURE;
}
