/*
 * The table of files and directories. Each has a file row; all objects of a kind, such as all PMCs,
 * share theirs. Lookup, listing, permissions, README and FILES in pmcfs.5 are made from the table.
 */
#pragma once

#include "core/base/buf.h"
#include "core/call.h"

#include <stdbool.h>
#include <sys/types.h>

/* Kinds of nodes. The file rows of each kind are numbered separately. NODE_INSTANCE has all files
 * of the root, and those of instances. */
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
    FILE_RIGHTS = 1,      /* reads use the opener's rights, which are read at open */
    FILE_LATE_HANDLE = 2, /* an open for reading creates no handle (unless very many files are
                           * open), the first read does; excludes `begin` and FILE_RIGHTS */
    FILE_ROOT_ONLY = 4,   /* not in instances */
    FILE_STREAM = 8,     /* no seek except within the last reply; no open for reading and writing */
    FILE_SNAPSHOT = 16,  /* all reads of one open file return parts of the same text */
    FILE_READERS = 32,   /* the group `readers` may read it */
    FILE_OPEN_TIME = 64, /* its times show the last open of such a file, in any instance */
    FILE_AFTER_RELEASE =
        128 /* a stream that also runs after the PMC's release, with call->pmc NULL */
};

struct file_row {
    enum dir_kind in;        /* kind of the parent directory; DIR_NONE: none, it is the root */
    enum dir_kind is;        /* its own kind, if it is a directory; DIR_NONE: a file */
    const char *name;        /* NULL: the file row of all objects of a kind, see placeholder */
    const char *placeholder; /* "CLASS", "ROW", … for help */
    mode_t mode;             /* permission bits; unused for the root, instances, and all of a PMC */
    unsigned flags;
    show_fn show;
    bound_fn bound; /* for texts that may be longer than a page; or NULL */
    store_fn store;
    stream_fn stream;
    filler_fn filler; /* for streams */
    begin_fn begin;   /* called by an open for reading, or NULL */
    poll_fn poll;
    const char *help;
};

/* Returns the file row with this number, or NULL. Numbers are part of node ids and are never
 * reused. */
const struct file_row *file_row(enum node_kind kind, unsigned number);
/* Returns one more than the last number of a kind. */
unsigned file_row_end(enum node_kind kind);
/* Finds a file row of a directory by name, and its number. Returns NULL if there is none. */
const struct file_row *file_named(enum dir_kind dir, const char *name, unsigned *number);
/* Returns the first named file row of a directory with a number > after, or NULL. */
const struct file_row *file_next(enum dir_kind dir, unsigned after, unsigned *number);
/* Returns the file row of the parent directory. NULL for the root and for entries of the root. */
const struct file_row *file_above(const struct file_row *row);
/* Returns true for names that pmcfs uses: those of files in the root, "self", and "metrics." with
 * any suffix. No PMC may have them. */
bool file_reserved(const char *name);
/* Prints path, access (r, w) and help of each file row, as a page or separated by tabs. inside:
 * only file rows that instances have. */
void files_print(bool inside, bool as_page, struct buf *out);
/* Sets the path of the mount in the examples of README; kept by reference. README of an instance
 * has /pmc instead. */
void readme_set_mountpoint(const char *mountpoint);
