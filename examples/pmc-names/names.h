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
#define MESSAGE_MAX (128u << 10) /* bytes */
extern uint64_t child_message[]; /* the question, replaced by the answer */
struct child {
    size_t (*answer)(
        void *self); /* called in the child; returns the bytes of the answer, at least one */
    void *self;
    unsigned seconds; /* CPU time for a question; 0: 0.1 s */
    bool again;
    bool spoilt; /* the following members belong to child.c */
    pid_t pid;
    int socket;
};
extern bool child_here; /* for tests: answer in this process */
/* Asks a question of n bytes. Returns the bytes of the answer; 0: none. */
size_t child_ask(struct child *child, size_t n);
void child_end(struct child *child);

/*
 * place.c: finding files. The PMC's log has the processes that mapped a path. For a process in
 * another mount namespace the path is looked up below /proc/PID/root.
 */
/* Opens a file of the PMC for reading without waiting: a growing log ends at its present end.
 * Returns NULL if it cannot be read. */
FILE *pmc_open(const char *directory, const char *name);
void pmc_lines(const char *directory, const char *name, void (*take)(char *line));
void places_read(const char *directory); /* Reads the processes of a PMC. Call it at most once;
                                            without it only the own root is searched. */
/* Opens a regular file for reading; returns -1 for any other file. *name is the path that was
 * opened and *root the root directory above it ("" for the own); the caller frees both. */
int place_open(const char *path, char **name, char **root);
/* Like place_open() below one root ("": the own), which symbolic links cannot leave. */
int place_open_below(const char *root, const char *path);
/* Opens the perf-PID.map of a process: a regular file owned by its user, the reader or root.
 * Returns NULL if there is none. */
FILE *place_open_map(uint32_t pid);

/* debug.c: the place of the file of a module. Must live as long as the module. */
struct found {
    char *path; /* path in the mount namespace of the process */
    char *root;
    uint64_t bias; /* load address minus link-time address */
};
Dwfl *debug_begin(void); /* Returns NULL on ENOMEM. */
void debug_found(Dwfl_Module *module, struct found *found);

/* file.c: returns the symbol of the function at this offset of a file, valid until the next call,
 * or NULL if it is unknown. */
const char *file_name(const char *path, uint64_t offset);

/* table.c: returns the kernel function at this address (/proc/kallsyms), or NULL. */
const char *kernel_name(uint64_t address);

/* made.c: returns the name of generated code (perf-PID.map), valid until the next call, or NULL. */
const char *made_name(uint32_t pid, uint64_t address);

/* demangle.c: returns the name as in the source, to be freed, or NULL if it is not a mangled name.
 */
char *demangled(const char *symbol);

/* stream.c: conversion of perf.data in pipe format. */
#define STREAM_MAGIC "PERFILE2"
bool stream_begins(
    FILE *in); /* Returns false, without reading anything, if it is not a perf.data stream. */
/* Passes a line "comm;frame;frame 1" for each sample up to this time to give(). Returns false on
 * ENOMEM, if give() returned false, or if it is not a perf.data stream. */
bool stream_convert(FILE *in, uint64_t until_ns, bool (*give)(char *line));

/*
 * unwind.c: finds the frames of a user stack, the innermost first. Returns their number, or 0 if
 * the process is unknown. frame has space for UNWIND_MAX.
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
