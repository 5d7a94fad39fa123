/*
 * pmc-names: names for the addresses of samples.folded. All files are read with the rights of the
 * user that runs it. Files may be hostile: a bad file only costs its own names.
 */
#pragma once

#include "core/base/buf.h"
#include "core/log/tasks.h"

#include <elfutils/libdwfl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/*
 * child.c: hostile data is read in a child process, which starts with the first question. If a
 * question kills the child, this question has no answer. Later ones have none either, unless
 * `again` is set: then a new child answers them.
 */
#define MESSAGE_MAX (128u << 10) /* bytes of a question or an answer */
extern uint64_t child_message[]; /* the question, replaced by the answer */
struct child {
    /* Called in the child: replaces the question by the answer. Returns its bytes, at least one. */
    size_t (*answer)(void *self);
    void *self;
    unsigned seconds; /* CPU time for a question; 0: 0.1 s */
    bool again;
    bool spoilt; /* the following members belong to child.c */
    pid_t pid;
    int socket;
};
extern bool child_here; /* for tests: answer in this process */
/* Sends the question, n bytes of child_message, to the child, and starts the child first if there
 * is none. Returns the bytes of the answer; 0: none. */
size_t child_ask(struct child *child, size_t n);
void child_end(struct child *child);

/*
 * place.c: finding files. The PMC's log has the processes that mapped a path. The path is looked up
 * below /proc/PID/root of these, because they may be in other mount namespaces; then below the
 * roots of the targets, then below the root of pmc-names ("own root").
 */
/* Opens a file of the PMC for reading without waiting: a growing log ends at its present end.
 * Returns NULL if it cannot be read. */
FILE *pmc_open(const char *directory, const char *name);
/* Calls take() for each line of a file of the PMC, with its newline. Ignores an unreadable file. */
void pmc_lines(const char *directory, const char *name, void (*take)(char *line));
/* Reads the processes of a PMC. Call it at most once; without it only the own root is searched. */
void places_read(const char *directory);
/* Sums of the drop records, set by places_read(). */
struct losses {
    uint64_t lost, hidden; /* samples */
    uint64_t throttled;    /* how often sampling was paused */
};
extern struct losses losses;
/* Opens a regular file for reading; returns -1 for any other file, for an empty one, and for files
 * of /proc and /sys. *name is the path that was opened and *root the root directory above it (""
 * for the own); the caller frees both, also after -1. */
int place_open(const char *path, char **name, char **root);
/* Like place_open() below one root ("": the own), which symbolic links cannot leave. */
int place_open_below(const char *root, const char *path);
/* Opens the perf-PID.map of a process. It must be a regular file with one link, which belongs to
 * the user of the process, the user of pmc-names or root. Returns NULL if there is none. */
FILE *place_open_map(uint32_t pid);

/* debug.c: the place of a module's file. debug_found() attaches it to a module of debug_begin(),
 * and the search for a separate debug file starts from it. Must live as long as the module. */
struct found {
    char *path; /* path in the mount namespace of the process */
    char *root;
    uint64_t bias; /* load address minus link-time address */
};
Dwfl *debug_begin(void); /* Returns NULL on ENOMEM. */
void debug_found(Dwfl_Module *module, struct found *found);

/* file.c: returns the symbol of the function at this offset of a file, then the symbols of the
 * functions that were inlined there, outermost first. Each ends with a NUL; *bytes is the sum of
 * their sizes. Valid until the next call. Returns NULL if the function is unknown. */
const char *file_names(const char *path, uint64_t offset, size_t *bytes);

/* frame.c: appends a name to a line "comm;frame;frame N". ';', '\\', unprintable bytes, and a blank
 * before a number at the end become \ooo. escaped_add() takes a text that has such escapes already.
 */
void text_add(struct buf *out, const char *text);
void escaped_add(struct buf *out, const char *text, size_t len);
/* Appends the name of a frame, or several names if functions were inlined. caller: the address is a
 * return address, which may be after the last instruction of the function. */
void frame_add(struct buf *out, const char *frame, bool caller);
/* Returns false for the last frame, which is the address of the sample, and for the last user frame
 * before kernel frames. next: the following frame, or NULL. */
bool frame_is_caller(const char *frame, const char *next);

/* table.c: returns the kernel function at this address (/proc/kallsyms), or NULL. */
const char *kernel_name(uint64_t address);

/* made.c: returns the name of generated code (perf-PID.map), valid until the next call, or NULL. */
const char *made_name(uint32_t pid, uint64_t address);

/* demangle.c: returns the name as in the source, to be freed, or NULL if it is not a mangled name.
 */
char *demangled(const char *symbol);

/* A line "comm;frame;frame", and how often it was sampled. */
struct stack {
    char *line; /* a stack_fn may change it */
    uint64_t samples;
    uint64_t events;   /* sum of the periods; 0: unknown */
    const char *event; /* NULL: unknown */
};
typedef bool stack_fn(const struct stack *stack);

/* stream.c: conversion of perf.data in pipe format. */
#define STREAM_MAGIC "PERFILE2"
struct stream_facts {
    uint64_t lost;                  /* samples, hidden ones included */
    uint64_t first, last;           /* times of samples, by the clock of the records */
    uint64_t realtime_ns, clock_ns; /* the same moment in both clocks; 0: unknown */
};
/* Returns false, without reading anything, if it is not perf.data; otherwise reads the magic, which
 * stream_convert() needs. */
bool stream_begins(FILE *in);
/* Passes each sample up to until_ns, by the clock of the records, to give(), after stream_begins()
 * has returned true. Returns false on ENOMEM, if give() returned false, or, with a message, for a
 * perf.data file that is not a stream. */
bool stream_convert(FILE *in, uint64_t until_ns, stack_fn *give, struct stream_facts *facts);

/* profile.c: collects stacks, and prints them once as a profile.proto, compressed by gzip, that
 * contains the comment. Both return false if memory or the output failed. */
bool profile_take(const struct stack *stack);
bool profile_print(const struct stream_facts *facts, const char *comment);

/*
 * unwind.c: finds the frames of a user stack, the innermost first. Needs user->registers. Returns
 * their number; 0 if the process or its mappings are unknown, it has not 64 bits, or the child
 * failed. frame has space for UNWIND_MAX.
 */
#define UNWIND_MAX 512
#define USER_64    2 /* abi: 64 bits */
struct user_state {
    uint64_t abi, mask;        /* bit N: register N by perf's numbers is present */
    const uint64_t *registers; /* one for each bit; NULL: none */
    const uint64_t *stack;     /* copy of the stack, starting at the stack pointer */
    uint64_t stack_bytes;
};
unsigned unwind(const struct tasks *tasks, uint32_t pid, const struct user_state *user,
                uint64_t *frame);
