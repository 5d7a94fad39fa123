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
    bool single;                 /* one process without a supervisor */
    bool upgrade;                /* replace the program of a running mount by this one */
    int resume_fd;               /* in an upgrade: descriptor of the shared state; else 0 */
    const char *resume_argument; /* the full argument of --resume, for upgrade.c */
    const char *print_tables;    /* name of a table to print, or NULL */
    char *conf;                  /* the configuration file, or NULL; owned */
    bool conf_given;             /* by -c: the file must exist */
    char *source;                /* owned, as are mountpoint and backend */
    char *mountpoint;            /* absolute */
    char *backend;               /* NULL: the default */
    struct buf backend_options;  /* "sim_cpus=4 …" */
    unsigned long mount_flags;
    struct buf labels; /* SELinux options of the mount: ",context=…" */
    struct tunables tunables;
    unsigned complaints;      /* number of messages about -o and the configuration */
    bool is_unknown_backend;  /* a backend was named that does not exist */
    bool no_memory;           /* ENOMEM: the options are incomplete */
    sections_t sections;      /* of all files of the configuration */
    VEC(char *) files;        /* their paths; owned, as are the paths */
    struct buf mount_options; /* arguments of -o, joined by commas */
    struct {                  /* position in the configuration; line 0 while -o is read */
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
 * message the exit status: 2 for a usage error or an unknown backend, 1 for other errors.
 */
int options_read(struct options *options, const struct host *host, int argc, char **argv);
void options_free(struct options *options);
/* Applies backend=…, sim_…=… or a tunable; a bad value is logged and not used. Returns false if
 * there is no such key. where: a file, or "-o"; log_at keeps the pointer. */
bool option_apply(struct options *options, const char *where, struct word key, struct word value);
/* Logs that an option at this place, and at options->at.line, is not accepted as it is. */
void option_complain(struct options *options, const char *where, const char *sentence);
/* Returns " (did you mean NAME?)" with the names that are similar to an unknown key, or "". The
 * text is in *near. */
const char *option_near(struct near *near, struct word key);
/* For SIGHUP: reads file and -o again, with the sections, and sets *tunables. Returns false after a
 * message if the file cannot be read or on ENOMEM; the tunables then stay as before. */
bool options_reread(struct options *options, struct tunables *tunables);

/* ---- conf.c ---- */

/* Calls conf_forget(), and reads the configuration file and the files *.conf of the directory
 * FILE.d. Returns 0, or after a message an exit status. ENOMEM only sets no_memory. */
int conf_read(struct options *options);
/* Frees the sections and the paths of the files. */
void conf_free(struct options *options);
