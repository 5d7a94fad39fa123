/*
 * THE table of files and directories: a file in the tree is one row. Lookup, listing, permissions,
 * README and FILES in pmcfs.5 come from it.
 */
#pragma once

#include "core/base/buf.h"
#include "core/call.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* What is numbered in node ids; each kind has its own numbers. */
enum node_kind {
    NODE_INSTANCE,
    NODE_PMC,
    NODE_EVENT,
    NODE_SLOT,
    NODE_TUNABLE,
    NODE_LIMIT, /* what is below admin/instances */
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
    DIR_LIMIT,  /* … /NAME */
    DIR_PMC,
    DIR_KINDS
};

enum file_flag {
    FILE_RIGHTS = 1,    /* reading depends on the opener */
    FILE_PLAIN = 2,     /* opened for reading it remembers nothing before its first read */
    FILE_ROOT_ONLY = 4, /* not in instances */
    FILE_STREAM = 8,    /* cannot be sought in, nor be opened for both */
    FILE_SNAPSHOT = 16, /* one open is one text */
    FILE_READERS = 32,  /* the group `readers` may read it */
    FILE_FRESH = 64,    /* its mtime is the last open */
    FILE_REST = 128     /* a stream that has something to say after the release: call->pmc NULL */
};

struct file_row {
    enum dir_kind in; /* the directory it is in */
    enum dir_kind is; /* what kind of directory it is; DIR_NONE: a file */
    const char *name; /* NULL: one for each object of its kind (`any` names them) */
    const char *any;  /* "CLASS", "ROW", … for help */
    mode_t mode;      /* permission bits; those of a PMC's files come from its directory */
    unsigned flags;
    show_fn show;
    bound_fn bound; /* of a text that may be longer than a page; else NULL */
    store_fn store;
    stream_fn stream;
    idle_fn idle; /* of a stream */
    begin_fn begin; /* of what is opened for reading, or NULL */
    poll_fn poll;
    const char *help;
};

/*
 * The row with this number, or NULL. Numbers are part of node ids: never used for something else.
 */
const struct file_row *file_row(enum node_kind kind, unsigned number);
/* One more than the last number of a kind. */
unsigned file_rows(enum node_kind kind);
/* The named row of a directory, its number in *number; NULL: none. */
const struct file_row *file_named(enum dir_kind dir, const char *name, unsigned *number);
/* The first named row of a directory with a number > after; NULL: no more. */
const struct file_row *file_next(enum dir_kind dir, unsigned after, unsigned *number);
/* Names that no PMC may have. */
bool file_reserved(const char *name);
/* A line for each row, path, mode and help; as a page, or separated by tabs. inside: those that
 * instances have. */
void files_print(bool inside, bool as_page, struct buf *out);
