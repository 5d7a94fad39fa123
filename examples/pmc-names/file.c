/*
 * Functions of programs and libraries, from their own symbol tables or from separate debug files.
 */
#include "examples/pmc-names/names.h"

#include <elfutils/libdwfl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILES_MAX 64 /* open at once */

static struct file {
    struct found found;
    Dwfl *dwfl;
    Dwfl_Module *module; /* NULL: it cannot be read */
} files[FILES_MAX];

static void file_close(struct file *file)
{
    if (file->dwfl)
        dwfl_end(file->dwfl);
    free(file->found.path);
    free(file->found.root);
    *file = (struct file){0};
}

static Dwfl_Module *module_report(struct file *file, const char *name, int fd)
{
    Dwfl_Module *module;

    file->dwfl = debug_begin();
    module = file->dwfl ? dwfl_report_offline(file->dwfl, name, name, fd) : NULL;
    if (!module) {
        close(fd); /* else it is elfutils' */
        return NULL;
    }
    debug_found(module, &file->found);
    return dwfl_report_end(file->dwfl, NULL, NULL) == 0 ? module : NULL;
}

static void file_open(struct file *file, const char *path)
{
    char *name = NULL;
    int fd;

    file->found.path = strdup(path);
    fd = place_open(path, &name, &file->found.root);
    if (fd >= 0 && file->found.path && name && file->found.root)
        file->module = module_report(file, name, fd);
    else if (fd >= 0)
        close(fd);
    free(name);
}

/* Each file once, of many the latest ones. */
static struct file *file_of(const char *path)
{
    static unsigned next;
    struct file *file;

    for (unsigned i = 0; i < FILES_MAX; i++)
        if (files[i].found.path && strcmp(files[i].found.path, path) == 0)
            return &files[i];
    file = &files[next++ % FILES_MAX];
    file_close(file);
    file_open(file, path);
    return file;
}

/* Where in memory the program wants what lies at this offset. */
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

const char *file_name(const char *path, uint64_t offset)
{
    const struct file *file = file_of(path);
    GElf_Addr address, bias;
    GElf_Off within;
    GElf_Sym symbol;
    Elf *elf = file->module ? dwfl_module_getelf(file->module, &bias) : NULL;

    if (!elf || !address_of(elf, offset, &address))
        return NULL;
    return dwfl_module_addrinfo(file->module, address + bias, &within, &symbol, NULL, NULL, NULL);
}
