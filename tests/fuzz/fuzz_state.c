/*
 * A saved state with changed bytes: loading succeeds or fails, and the engine can be shown, used
 * and freed. The first byte of the input is the number of changes; four bytes for each change are
 * its offset (two), its kind and a byte.
 */
#include "tests/fuzz/fuzz.h"

#include "core/pmc/pmc.h"
#include "tests/unit/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t saved_len;

/* Creates an instance with a PMC and a last error, bound to the namespace of the PMC's owner. */
static void make_instance(void)
{
    struct call call = {.engine = fx.engine, .rights = fx.rights};

    engine_mkinstance(&call, "i", 0755, &fx.instance);
    engine_instance(fx.engine, fx.instance)->limit[LIMIT_LIFETIME] = 1;
    fake_find(&fx.host, 201)->outside = true;
    as_user(201, 2000);
    pmc_with("e", "cycles:u", "10201");
    write_file("e", "config", "nonsense");
    as_root();
    fx.instance = 0;
}

/* Returns a saved state with all kinds of objects; its counters are open. */
static char *make_saved(void)
{
    fixture_open("sim_cpus=2 sim_rows=4");
    fx.host.cgroup[0] = (struct fake_cgroup){"/a", true};
    fx.host.n_cgroups = 1;
    pmc_with("a", "cycles page-faults", "100 101 tid:1091");
    fake_kill(&fx.host, 101, true);
    works_run();
    pmc_with("b", "instructions", "cpu0-1");
    write_file("b", "config", "interval=5");
    pmc_with("c", "cycles", "cgroup:/a");
    pmc_make("d");
    write_file("d", "config", "count=5,6 lifetime=owner nonsense");
    write_file("d", "config", "count=5,6 lifetime=owner");
    make_instance();
    pass_ms(3);
    works_run();
    char *saved = journal_text();
    saved_len = strlen(saved);
    return saved;
}

static size_t mutate(char *state, const uint8_t *data, size_t size)
{
    size_t len = saved_len, n = size ? data[0] % 16u : 0;

    for (size_t i = 1; i + 3 < size && n > 0; i += 4, n--) {
        size_t at = ((size_t)data[i] << 8 | data[i + 1]) % saved_len;

        switch (data[i + 2] % 4) {
        case 0: /* blank the rest of a line */
            while (at < len && state[at] != '\n')
                state[at++] = ' ';
            break;
        case 1: /* change a digit */
            while (at < len && (state[at] < '0' || state[at] > '9'))
                at++;
            if (at < len)
                state[at] = (char)('0' + data[i + 3] % 10);
            break;
        case 2:
            state[at] = (char)data[i + 3];
            break;
        default: /* truncate */
            if (data[i + 3] % 8 == 0)
                len = at < len ? at : len;
        }
    }
    return len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    const int first = memfd_create("first", 0);
    char *state = make_saved();
    const size_t len = mutate(state, data, size);
    engine_recreate();
    const bool loaded = journal_load(state, len, &err) == 0;

    if (size == 0 && !loaded) {
        fprintf(stderr, "it cannot be read as it was saved: %s\n", err.text);
        abort();
    }
    if (loaded) {
        as_root();
        works_run();
        all_texts();
        pass_ms(2);
        if (pmc_of("a"))
            write_file("a", "ctl", size % 2 ? "stop" : "restart");
        if (pmc_of("b"))
            write_file("b", "target", size % 2 ? "-cpu0" : "all");
        pmc_make("n");
        all_texts();
    }
    engine_drop(); /* does not close descriptors, whose numbers are invalid */
    fixture_close();
    close_range((unsigned)first, ~0U, 0);
    free(state);
    return 0;
}
