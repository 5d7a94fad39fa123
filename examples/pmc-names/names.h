/*
 * pmc-names: names for the addresses of samples.folded. Everything is read with the rights of the
 * user that runs it. Files are hostile: whatever they contain costs at most their names.
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
 * child.c: what is hostile is read in a child, which begins with the first question. The question
 * may end it: then this one and all later ones have no answer, or, with again, a new child has
 * these.
 */
#define MESSAGE_MAX (128u << 10) /* bytes */
extern uint64_t child_message[]; /* the question, and then the answer */
struct child {
    size_t (*answer)(void *self); /* in the child; its bytes, at least one */
    void *self;
    unsigned seconds; /* of a processor for a question; 0: a tenth */
    bool again;
    bool spoilt; /* from here on child.c's */
    pid_t pid;
    int socket;
};
extern bool child_here; /* for tests: answers are made in this process */
/* Of a question of n bytes the answer's; 0: there is none. */
size_t child_ask(struct child *child, size_t n);
void child_end(struct child *child);

/*
 * place.c: where files are. The PMC's log says which processes mapped a path: in another mount
 * namespace it is looked for below /proc/PID/root.
 */
/* A file of the PMC; one that can grow ends where it would be waited for. NULL: it cannot be read.
 */
FILE *pmc_open(const char *directory, const char *name);
void pmc_lines(const char *directory, const char *name, void (*take)(char *line));
void places_read(const char *directory); /* of a PMC; once, or never: then only the own root */
/* A regular file, open for reading, or -1; nothing else is opened. *name: under what it was found,
 * *root the root it is below ("" for the own); both to be freed. */
int place_open(const char *path, char **name, char **root);
/* The same in one tree, and no link leads out of it; root "": the own one. */
int place_open_below(const char *root, const char *path);
/* The process's perf-PID.map, a regular file of its user, the reader or root. NULL: none. */
FILE *place_open_map(uint32_t pid);

/* debug.c: where the file of a module was found, which stands as long as the module. */
struct found {
    char *path; /* as the process knows it */
    char *root;
    uint64_t bias; /* in a process */
};
Dwfl *debug_begin(void); /* NULL: no memory */
void debug_found(Dwfl_Module *module, struct found *found);

/* file.c: the function at this offset of a file, as its symbol table has it; NULL: not known. It
 * stands until the next call. */
const char *file_name(const char *path, uint64_t offset);

/* table.c: the kernel's function at this address (/proc/kallsyms); NULL: not known. */
const char *kernel_name(uint64_t address);

/* made.c: the name of code that the process made (perf-PID.map), until the next call; NULL: none. */
const char *made_name(uint32_t pid, uint64_t address);

/* demangle.c: as the source has it, on the heap; NULL: it is not mangled, or not known how. */
char *demangled(const char *symbol);

/* stream.c: perf.data as a stream. */
#define STREAM_MAGIC "PERFILE2"
bool stream_begins(FILE *in); /* if not, nothing was read */
/* Hands on a line "comm;frame;frame 1" of each sample up to this time of the records' clock; false:
 * memory or the reader of the lines has ended, or it is no stream. */
bool stream_convert(FILE *in, uint64_t until_ns, bool (*give)(char *line));

/*
 * unwind.c: the frames of a user stack, the innermost first; their number, 0 if nothing is known of
 * the process. frame has room for UNWIND_MAX.
 */
#define UNWIND_MAX 512
#define USER_64    2 /* abi: 64 bits */
struct user_state {
    uint64_t abi, mask;        /* bits: which registers, by perf's numbers */
    const uint64_t *registers; /* as many as bits; NULL: none */
    const uint64_t *stack;     /* from the stack pointer on */
    uint64_t stack_bytes;
};
unsigned unwind(const struct tasks *tasks, uint32_t pid, const struct user_state *user,
                uint64_t *frame);
