/*
 * The file README of the tree: examples to paste, and the list of files from the table.
 */
#include "fs/tree/readme.h"

#include "core/engine.h"
#include "core/pmc/pmc.h"
#include "fs/tree/files.h"

#include <string.h>

#define README_MAX    8192 /* bytes of the text without the paths of the mount */
#define README_PLACES 32   /* at most this many paths */

static const char *place = "/pmc";

void readme_place(const char *mountpoint)
{
    place = mountpoint;
}

/* '@' is replaced by the mountpoint. */
static const char page[] =
    "pmcfs " PMCFS_VERSION ": performance counters as files.\n"
    "A directory is a counter (a PMC): mkdir creates it, rmdir releases it. Write to its\n"
    "files to set it up, and read them to see the counts.\n"
    "\n"
    "Count the page faults of a process (here: this shell):\n"
    "\n"
    "  mkdir @/i && echo page-faults > @/i/event && echo $$ > @/i/target\n"
    "  cat @/i/count\n"
    "  rmdir @/i\n"
    "\n"
    "Count the CPU time of a command and all its children, from the first instruction:\n"
    "\n"
    "  mkdir @/c && echo event=task-clock start=exec descendants=on > @/c/config\n"
    "  sh -c 'echo self > @/c/target && exec ls -R /usr/share/doc > /dev/null'\n"
    "  cat @/c/count; rmdir @/c\n"
    "\n"
    "Count several events together on one CPU (>> adds an event; needs system scope):\n"
    "\n"
    "  mkdir @/s && echo context-switches,page-faults > @/s/event\n"
    "  echo task-clock >> @/s/event && echo cpu0 > @/s/target\n"
    "  paste @/s/event @/s/count; cat @/s/metrics\n"
    "  rmdir @/s\n"
    "\n"
    "Profile a command (flame graph: pmc-flamegraph @/p; report: pmcstat, or\n"
    "perf report -i - < @/p/samples.perf):\n"
    "\n"
    "  mkdir @/p && echo event=cpu-clock callchain=on start=exec freq=997 > @/p/config\n"
    "  sh -c 'echo self > @/p/target && exec ls -R /usr > /dev/null'\n"
    "  cat @/p/samples.folded\n"
    "  rmdir @/p\n"
    "\n"
    "All events of this host: ls @/events. Derived values such as instructions per cycle:\n"
    "ls @/events/metric, and write metric/NAME to event. Live view of all counters: pmctop.\n"
    "\n"
    "If a write fails, @/NAME/error or @/info/last_error has the reason. (The echo of dash\n"
    "always prints \"I/O error\".)\n"
    "\n"
    "Each write(2) is one command, which takes effect completely or not at all. Later writes\n"
    "to the same open file add their events to the set. Manual: man 5 pmcfs.\n"
    "\n"
    "Files (r: readable, w: writable):\n"
    "\n";

int readme_show(struct call *call)
{
    bool inside = call->instance->id != 0;
    const char *where = inside ? "/pmc" : place; /* the usual path in containers */

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
    return README_MAX + README_PLACES * strlen(place);
}
