/*
 * Arbitrary bytes as commands to config, event, target, count, mode and ctl of two PMCs: no crash,
 * a refused command changes nothing, and a saved and loaded engine has the same texts. Each line is
 * a command; its first byte selects file and PMC, and whether a process is killed or the PMC
 * removed afterwards; its second may put valid words first.
 */
#include "tests/fuzz/fuzz.h"

#include "tests/unit/fixture.h"

#include <stdlib.h>
#include <string.h>

static const char *const files[] = {"config", "event", "target", "ctl", "count", "mode"};

/* Half of the lines start with valid words, so that more code than the parsers is reached. */
static const char *const starts[] = {
    "event=cycles ",
    "target=100 ",
    "cycles ",
    "100 101 ",
    "cpu0-1 ",
    "start",
    "stop",
    "reset",
    "restart",
    "detach",
    "all ",
    "-100 ",
    "multiplex=on ",
    "count=5 ",
    "mode=SC ",
    "interval=",
    "instructions:u ",
    "event=page-faults ",
    "lifetime=owner ",
    "row=1 ",
    "kernel=off ",
    "start=exec ",
    "cgroup:/a ",
    "-all ",
    "freq=99 ",
    "period=5 callchain=on ",
    "log-csw=on log-exit=on ",
    "log=off ",
    "log=on ",
    "close",
    "flush",
    "{cycles,instructions}:u ",
    "event={cycles, branches} ",
    "cycles,instructions,",
    "pid:100,101,cpu0,",
    "target=100,tid:1091,",
};

static void command(const uint8_t *line, size_t size)
{
    char text[5000];
    size_t len = 0;
    const char *name = line[0] & 1 ? "a" : "b";
    const char *file = files[(line[0] >> 1) % 6];

    if (!pmc_of(name) && pmc_make(name) != 0)
        return;
    if (size > 1 && line[1] & 1) {
        const char *start = starts[(line[1] >> 1) % (sizeof starts / sizeof starts[0])];

        len = strlen(start);
        memcpy(text, start, len);
    }
    for (size_t i = 2; i < size && len < sizeof text - 1; i++)
        text[len++] = line[i] ? (char)line[i] : ' ';
    text[len] = '\0';
    const char *before = all_texts();
    if (write_file(name, file, text) != 0)
        FUZZ_CHECK(texts_same(before));
    pass_ms(line[0] % 4);
    if (line[0] % 64 == 9)
        pmc_remove(name);
    if (line[0] % 64 == 10)
        fake_kill(&fx.host, 100, line[0] & 64);
}

static void same_after_reload(void)
{
    works_run();
    all_texts();
    char *before = strdup(all_texts());

    engine_reload();
    FUZZ_CHECK(texts_same(before));
    free(before);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fixture_open("sim_cpus=2 sim_rows=2");
    fx.host.cgroup[0] = (struct fake_cgroup){"/a", true};
    fx.host.n_cgroups = 1;
    while (size > 0) {
        const uint8_t *end = memchr(data, '\n', size);
        size_t len = end ? (size_t)(end - data) : size;

        if (len)
            command(data, len);
        data += len + (end != NULL);
        size -= len + (end != NULL);
    }
    same_after_reload();
    fixture_close();
    return 0;
}
