/*
 * README: examples that work when pasted, then what each file is for, from the table of files.
 */
#include "fs/tree/readme.h"

#include "core/engine.h"
#include "core/pmc/pmc.h"
#include "fs/tree/files.h"

#include <string.h>

#define README_MAX 8192

static const char *place = "/pmc";

void readme_place(const char *mountpoint)
{
    place = mountpoint;
}

/* '@' stands for the path of the mount. */
static const char page[] =
    "pmcfs " PMCFS_VERSION ": performance counters as files.\n"
    "A directory is a counter: mkdir makes it, rmdir releases it, writing sets it up,\n"
    "reading reads it.\n"
    "\n"
    "Count the page faults of a process (here: this shell):\n"
    "\n"
    "  mkdir @/i && echo page-faults > @/i/event && echo $$ > @/i/target\n"
    "  cat @/i/count\n"
    "  rmdir @/i\n"
    "\n"
    "A command from its first instruction to its last, with all its children:\n"
    "\n"
    "  mkdir @/c && echo event=task-clock start=exec descendants=on > @/c/config\n"
    "  sh -c 'echo self > @/c/target && exec ls -R /usr/share/doc > /dev/null'\n"
    "  cat @/c/count; rmdir @/c\n"
    "\n"
    "Events counted together (>> adds one), on one CPU (for users that may count whole CPUs):\n"
    "\n"
    "  mkdir @/s && echo context-switches,page-faults > @/s/event\n"
    "  echo task-clock >> @/s/event && echo cpu0 > @/s/target\n"
    "  paste @/s/event @/s/count; cat @/s/metrics\n"
    "  rmdir @/s\n"
    "\n"
    "Where a command spends its time, as stacks for a flame graph (pmc-names makes names of\n"
    "the addresses); for perf(1) instead: perf report -i - < @/p/samples.perf\n"
    "\n"
    "  mkdir @/p && echo event=cpu-clock callchain=on start=exec freq=997 > @/p/config\n"
    "  sh -c 'echo self > @/p/target && exec ls -R /usr > /dev/null'\n"
    "  cat @/p/samples.folded\n"
    "  rmdir @/p\n"
    "\n"
    "What can be counted here: ls @/events; events/metric: what follows from counts, written\n"
    "metric/NAME. Why something was refused: cat @/NAME/error, or @/info/last_error (the echo\n"
    "of dash says \"I/O error\" whatever the reason is).\n"
    "\n"
    "Each write(2) is one command, applied whole or not at all; later writes of one open, a\n"
    "line each, join their events to the set. Every file, word and error: man 5 pmcfs.\n"
    "\n"
    "Files (r: can be read, w: can be written):\n"
    "\n";

int readme_show(struct call *call)
{
    bool inside = call->instance->id != 0;
    const char *where = inside ? "/pmc" : place; /* where containers have it, by custom */

    for (const char *p = page; *p;) {
        size_t n = strcspn(p, "@");
        buf_add(call->out, p, n);
        p += n;
        if (*p == '@') {
            buf_str(call->out, where);
            p++;
        }
    }
    files_print(inside, true, call->out);
    return CALL_DONE;
}

uint64_t readme_bound(const struct call *call)
{
    (void)call;
    return README_MAX;
}
