/*
 * What the administrator asks for: command line, configuration file, mount options. Tunables go
 * into the table of tunables; the rest is here.
 */
#pragma once

#include "core/host.h"
#include "core/pmc/tunable.h"

#include <pmcfs-paths.h> /* CONF_DEFAULT: where this build is installed */
#include <stdbool.h>

enum {
    EXIT_FAILURE_SAID = 1,
    EXIT_USAGE = 2
};

struct options {
    bool foreground, check, help, version;
    bool single;              /* one process, which nothing takes the place of */
    bool upgrade;             /* ask the process that holds a mount to become this program */
    int resume;               /* asked so: the descriptor of what it holds; else 0 */
    const char *resume_words; /* that and more: upgrade_resumed() */
    const char *print_tables; /* what to print, or NULL */
    char *conf;               /* file read, or NULL; owned */
    bool conf_given;          /* by -c: it has to exist */
    char *source;             /* owned, as are all below */
    char *mountpoint;         /* absolute */
    char *backend;            /* NULL: the default */
    struct buf backend_words; /* "sim_cpus=4 …" */
    unsigned long mount_flags;
    struct buf labels; /* of a mount by SELinux: ",context=…" */
    struct tunables tunables;
    unsigned complaints; /* said while reading the configuration */
    bool no_backend;     /* a backend was named that does not exist */
    bool no_memory;      /* something of all this is missing */
    struct buf words;    /* of -o, as they were given, with commas between them */
    struct {             /* of the file as it is read, else line 0: -o comes after it */
        unsigned line;
        char section[64]; /* the last one that does not exist */
    } at;
    struct { /* where the size of logs was last set */
        const char *where;
        unsigned line;
    } log_at;
};

/*
 * Read the command line, then the configuration, then -o. The host is asked for limits. 0, or the
 * exit status of a usage error or a backend that does not exist (2), or of a configuration that
 * does not exist (1), after having said what is wrong.
 */
int options_read(struct options *options, const struct host *host, int argc, char **argv);
void options_free(struct options *options);
/* A copy of the text takes the place of *to; no_memory says if there was none. True. */
bool options_replace(struct options *options, char **to, const char *text, size_t len);
/* Once more, for SIGHUP: the tunables that file and -o would give now. False, after having said
 * why: the file cannot be read. */
bool options_reread(struct options *options, struct tunables *tunables);
