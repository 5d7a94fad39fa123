/*
 * Functions of programs and libraries, from their symbol tables or from separate debug files.
 */
#include "examples/pmc-names/names.h"

#include <elfutils/libdwfl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILES_MAX 64 /* files open at the same time, each in a child */
#define SECONDS   20 /* CPU time; the checksum of a large debug file takes seconds */

static struct file {
    char *path; /* NULL: unused */
    struct child child;
    /* The following members are used in the child. */
    bool opened;
    struct found found;
    Dwfl *dwfl;
    Dwfl_Module *module; /* NULL: the file cannot be read */
} files[FILES_MAX];

static void file_close(struct file *file)
{
    child_end(&file->child);
    free(file->path);
    *file = (struct file){0};
}

static Dwfl_Module *module_report(struct file *file, const char *name, int fd)
{
    Dwfl_Module *module;

    file->dwfl = debug_begin();
    module = file->dwfl ? dwfl_report_offline(file->dwfl, name, name, fd) : NULL;
    if (!module) {
        close(fd); /* otherwise elfutils closes it */
        return NULL;
    }
    debug_found(module, &file->found);
    return dwfl_report_end(file->dwfl, NULL, NULL) == 0 ? module : NULL;
}

static void file_open(struct file *file)
{
    char *name = NULL;
    int fd;

    file->opened = true;
    file->found.path = strdup(file->path);
    fd = place_open(file->path, &name, &file->found.root);
    if (fd >= 0 && file->found.path && name && file->found.root)
        file->module = module_report(file, name, fd);
    else if (fd >= 0)
        close(fd);
    free(name);
}

/* Finds the link-time address of a file offset. */
static bool address_of(Elf *elf, uint64_t offset, GElf_Addr *address)
{
    size_t n;

    if (elf_getphdrnum(elf, &n) < 0)
        return false;
    for (size_t i = 0; i < n && i < 65536; i++) {
        GElf_Phdr part;

        if (gelf_getphdr(elf, (int)i, &part) && part.p_type == PT_LOAD && offset >= part.p_offset &&
            offset - part.p_offset < part.p_filesz) {
            *address = part.p_vaddr + (offset - part.p_offset);
            return true;
        }
    }
    return false;
}

static const char *name_find(const struct file *file, uint64_t offset)
{
    GElf_Addr address, bias;
    GElf_Off within;
    GElf_Sym symbol;
    Elf *elf = file->module ? dwfl_module_getelf(file->module, &bias) : NULL;

    if (!elf || !address_of(elf, offset, &address))
        return NULL;
    return dwfl_module_addrinfo(file->module, address + bias, &within, &symbol, NULL, NULL, NULL);
}

/* Runs in the child: replaces an offset by the name of the function, or "". */
static size_t name_answer(void *self)
{
    struct file *file = self;
    const uint64_t offset = *child_message;
    const char *name;

    if (!file->opened)
        file_open(file);
    name = name_find(file, offset);
    if (!name || strlen(name) >= MESSAGE_MAX)
        name = "";
    memcpy(child_message, name, strlen(name) + 1);
    return strlen(name) + 1;
}

/* Returns the cached file; the least recently used one is replaced. */
static struct file *file_of(const char *path)
{
    static unsigned next;
    struct file *file;

    for (unsigned i = 0; i < FILES_MAX; i++)
        if (files[i].path && strcmp(files[i].path, path) == 0)
            return &files[i];
    file = &files[next++ % FILES_MAX];
    file_close(file);
    file->path = strdup(path);
    file->child = (struct child){.answer = name_answer, .self = file, .seconds = SECONDS};
    return file;
}

const char *file_name(const char *path, uint64_t offset)
{
    static char name[MESSAGE_MAX];
    struct file *file = file_of(path);
    size_t n;

    *child_message = offset;
    n = file->path ? child_ask(&file->child, sizeof offset) : 0;
    return n > 1 ? memcpy(name, child_message, n) : NULL;
}
