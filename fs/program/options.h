/*
 * The program's options: command line, configuration file and mount options.
 */
#pragma once

#include "core/host.h"
#include "core/pmc/tunable.h"
#include "fs/program/boot.h"

#include <pmcfs-paths.h> /* CONF_DEFAULT: depends on the installation prefix */
#include <stdbool.h>

enum {
    EXIT_LOGGED = 1,
    EXIT_USAGE = 2
};

struct options {
    bool foreground, check, help, version;
    bool single;              /* one process without a supervisor */
    bool upgrade;             /* replace the program of a running mount by this one */
    int resume;               /* in an upgrade: descriptor of the shared state; else 0 */
    const char *resume_words; /* the full argument of --resume, for upgrade.c */
    const char *print_tables; /* name of a table to print, or NULL */
    char *conf;               /* the configuration file, or NULL; owned */
    bool conf_given;          /* by -c: the file must exist */
    char *source;             /* owned, as are all below */
    char *mountpoint;         /* absolute */
    char *backend;            /* NULL: the default */
    struct buf backend_words; /* "sim_cpus=4 …" */
    unsigned long mount_flags;
    struct buf labels; /* SELinux options of the mount: ",context=…" */
    struct tunables tunables;
    unsigned complaints; /* number of messages about the configuration */
    bool no_backend;     /* a backend was named that does not exist */
    bool no_memory;      /* ENOMEM: the options are incomplete */
    sections_t sections; /* of all files of the configuration */
    VEC(char *) files;   /* their paths; owned, as are the paths */
    struct buf words;    /* arguments of -o, joined by commas */
    struct {             /* position in the configuration; line 0 while -o is read */
        const char *file;
        unsigned line;
    } at;
    struct { /* where logbuffersize or nbuffers was last set */
        const char *where;
        unsigned line;
    } log_at;
};

/*
 * Reads the command line, the configuration file and -o, in this order. Returns 0, or after a
 * message the exit status: 2 for a usage error or an unknown backend, 1 for an unreadable
 * configuration.
 */
int options_read(struct options *options, const struct host *host, int argc, char **argv);
void options_free(struct options *options);
/* Replaces *to by a copy of the text. Sets no_memory on ENOMEM. Always returns true. */
bool options_replace(struct options *options, char **to, const char *text, size_t len);
/* For SIGHUP: reads file and -o again and returns the tunables that they give. Returns false after
 * a message if the file cannot be read. */
bool options_reread(struct options *options, struct tunables *tunables);
