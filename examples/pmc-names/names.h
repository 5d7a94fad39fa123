/*
 * pmc-names: names for the addresses of samples.folded. Everything is read with the rights of the
 * user that runs it. Files are hostile: whatever they contain costs at most their names.
 */
#pragma once

#include "core/base/buf.h"

#include <elfutils/libdwfl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * place.c: where files are. The PMC's log says which processes mapped a path: in another mount
 * namespace it is looked for below /proc/PID/root.
 */
void places_read(const char *directory); /* of a PMC; once, or never: then only the own root */
void text_plain(char *text);             /* with \ooo as the bytes that it means, in place */
/* A regular file, open for reading, or -1; nothing else is opened. *name: under what it was found,
 * *root the root it is below ("" for the own); both to be freed. */
int place_open(const char *path, char **name, char **root);
/* The same in one tree, and no link leads out of it; root "": the own one. */
int place_open_below(const char *root, const char *path);
/* The process's perf-PID.map, if it is its user's, the reader's or root's. NULL: none. */
FILE *place_open_map(uint32_t pid);

/* debug.c: a callback of elfutils. The module's user data is where its file was found. */
struct found {
    char *path; /* as the process knows it */
    char *root;
};
int debug_find(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
               const char *file, const char *link, GElf_Word crc, char **debug);

/* file.c: the function at this offset of a file, as its symbol table has it; NULL: not known. It
 * stands until the next call. */
const char *file_name(const char *path, uint64_t offset);

/* table.c: the same for addresses of the kernel (/proc/kallsyms) and of what a process made. */
const char *kernel_name(uint64_t address);
const char *made_name(uint32_t pid, uint64_t address);

/* demangle.c: as the source has it, on the heap; NULL: it is not mangled, or not known how. */
char *demangled(const char *symbol);
