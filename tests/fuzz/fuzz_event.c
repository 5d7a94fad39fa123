/*
 * Arbitrary bytes as an event name on this host: resolved, or refused with a sentence.
 */
#include "backends/backends.h"

#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static struct backend_state *state;

static void possible(struct host_state *unused, struct cpus *out)
{
    (void)unused;
    cpus_add(out, 0);
}

static const struct host host = {
    .name = "fuzz", .cpus_possible = possible, .cpus_online = possible};

static void end(void)
{
    perf_backend.close(state);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    struct err err;

    (void)argc, (void)argv;
    FUZZ_CHECK(perf_backend.open(NULL, &host, NULL, NULL, NULL, &state, &err) == 0);
    return atexit(end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size);
    struct err err = {.id = ERR_NONE};
    struct event event = {0};

    perf_backend.is_qualifier((struct word){text, strlen(text)});
    if (perf_backend.resolve(state, text, &event, &err) == 0)
        event_clear(&event);
    else
        FUZZ_CHECK(err.id != ERR_NONE && err.text[0]);
    free(text);
    return 0;
}
