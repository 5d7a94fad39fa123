/*
 * The table of files and directories: each has one file row. Lookup, listing, permissions,
 * README and FILES in pmcfs.5 are made from it.
 */
#pragma once

#include "core/base/buf.h"
#include "core/call.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Kinds of nodes; each kind has separate numbers in node ids. */
enum node_kind {
    NODE_INSTANCE,
    NODE_PMC,
    NODE_EVENT,
    NODE_SLOT,
    NODE_TUNABLE,
    NODE_LIMIT, /* files below admin/instances */
    NODE_KINDS
};

enum dir_kind {
    DIR_NONE,
    DIR_ROOT,
    DIR_INFO,
    DIR_EVENTS,
    DIR_CLASS,
    DIR_ADMIN,
    DIR_CPU,
    DIR_TUNABLES,
    DIR_INSTANCES,
    DIR_LIMITS, /* admin/instances */
    DIR_LIMIT,  /* admin/instances/NAME */
    DIR_PMC,
    DIR_KINDS
};

enum file_flag {
    FILE_RIGHTS = 1,    /* reading depends on the opener */
    FILE_PLAIN = 2,     /* an open for reading has no state before the first read */
    FILE_ROOT_ONLY = 4, /* not in instances */
    FILE_STREAM = 8,    /* no seek except within the last reply; no open for reading and writing */
    FILE_SNAPSHOT = 16, /* all reads of one open file return parts of the same text */
    FILE_READERS = 32,  /* the group `readers` may read it */
    FILE_FRESH = 64,    /* its mtime is the time of the last open */
    FILE_REST = 128     /* a stream that can be read after the release, with call->pmc NULL */
};

struct file_row {
    enum dir_kind in;        /* the parent directory */
    enum dir_kind is;        /* kind of the directory; DIR_NONE: a file */
    const char *name;        /* NULL: the file row of all objects of a kind, see placeholder */
    const char *placeholder; /* "CLASS", "ROW", … for help */
    mode_t mode;             /* permission bits; a PMC's files use those of its directory */
    unsigned flags;
    show_fn show;
    bound_fn bound; /* for texts that may be longer than a page; or NULL */
    store_fn store;
    stream_fn stream;
    idle_fn idle;   /* for streams */
    begin_fn begin; /* called by an open for reading, or NULL */
    poll_fn poll;
    const char *help;
};

/* Returns the file row with this number, or NULL. Numbers are part of node ids and are never
 * reused. */
const struct file_row *file_row(enum node_kind kind, unsigned number);
/* Returns one more than the last number of a kind. */
unsigned file_rows(enum node_kind kind);
/* Finds a file row of a directory by name, and its number. Returns NULL if there is none. */
const struct file_row *file_named(enum dir_kind dir, const char *name, unsigned *number);
/* Returns the first named file row of a directory with a number > after, or NULL. */
const struct file_row *file_next(enum dir_kind dir, unsigned after, unsigned *number);
/* Returns the file row of the parent directory, or NULL if that is the root. */
const struct file_row *file_above(const struct file_row *row);
/* Returns true for names that no PMC may have. */
bool file_reserved(const char *name);
/* Prints path, access (r, w) and help of each file row, as a page or separated by tabs. inside:
 * only file rows that instances have. */
void files_print(bool inside, bool as_page, struct buf *out);
/* Sets the path in the examples of README; kept by reference. */
void readme_set_mountpoint(const char *mountpoint);
