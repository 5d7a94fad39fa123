/*
 * Symbols: what the daemon and its helper say to each other. The helper is this program executed
 * anew. It gets a request, opens what was held for it, gives up every right, and only then reads
 * the files of observed programs.
 *
 * Request, on a stream socket: symbol_request, its modules, its queries (in order of module, then
 * of other), then a descriptor for each module, SYMBOL_BATCH at most per byte sent. Answer: a byte
 * for each module (was it opened?), a byte when all rights are given up, then for each query the
 * length of its name (uint16_t, 0: none) and the name.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SYMBOL_WORD     "--symbol-helper" /* the helper's only argument */
#define SYMBOL_SOCKET   0                 /* its descriptor of the socket */
#define SYMBOL_BATCH    128
#define SYMBOL_NAME_MAX 1024
#define SYMBOL_NONE     UINT32_MAX

#define SYMBOL_FILE_BYTES (UINT64_C(4) << 30) /* larger ones are not read */
#define SYMBOL_JIT_BYTES  (UINT64_C(64) << 20)

struct symbol_request {
    uint32_t n_modules, n_queries;
};

enum symbol_kind {
    SYMBOL_ELF, /* the descriptor (O_PATH) is the file's */
    SYMBOL_JIT  /* it is that of a process's root, in which tmp/perf-PID.map is looked for */
};

struct symbol_module {
    uint32_t kind;
    uint32_t pid; /* JIT: in the process's own PID namespace */
    uint32_t uid; /* JIT: who must own the file */
};

struct symbol_query {
    uint32_t module;  /* where to look */
    uint32_t other;   /* and then, or SYMBOL_NONE */
    uint64_t address; /* as sampled: for JIT */
    uint64_t offset;  /* in the file: for ELF */
};

/* One address within a module, for which the parsers find a name. Sorted by `at`. */
struct symbol_point {
    uint64_t at;
    uint32_t query; /* its place in the request */
    int32_t section;
    uint64_t nearest; /* the last symbol at or before it, whatever its size */
    uint64_t start;   /* of the best symbol so far */
    int rank;         /* how good that is; 0: none */
    char *name;       /* on the heap, SYMBOL_NAME_MAX bytes at most; NULL: none */
};

/* The first point at or after this address: an index, n if there is none. */
size_t symbol_points_from(const struct symbol_point *points, size_t n, uint64_t at);
/* Takes the place of the name it has. */
void symbol_point_name(struct symbol_point *point, const char *name, size_t len);

/* `at` is an offset in the file on entry. fd is the reader's to close. */
void symbol_elf(int fd, struct symbol_point *points, size_t n);
/* `at` is an address. */
void symbol_jit(int fd, struct symbol_point *points, size_t n);

/* The helper gives up all rights, for good. False: it could not, and must not go on. */
bool symbol_confine(void);
