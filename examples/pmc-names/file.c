/*
 * Functions of programs and libraries, from their symbol tables or from separate debug files,
 * and the functions that were inlined into them, from DWARF.
 */
#include "examples/pmc-names/names.h"

#include <dwarf.h>
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
    bool plain; /* without inlined functions, because a child failed */
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

/* Finds the link-time address of a file offset. Returns false if the offset is not in a segment. */
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

static const char *name_find(const struct file *file, uint64_t offset, GElf_Addr *address)
{
    GElf_Addr bias;
    GElf_Off within;
    GElf_Sym symbol;
    Elf *elf = file->module ? dwfl_module_getelf(file->module, &bias) : NULL;

    if (!elf || !address_of(elf, offset, address))
        return NULL;
    *address += bias;
    return dwfl_module_addrinfo(file->module, *address, &within, &symbol, NULL, NULL, NULL);
}

/* Returns the symbol of a function, or its name in the source, or NULL. */
static const char *die_name(Dwarf_Die *die)
{
    Dwarf_Attribute at;
    const char *name = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &at));

    if (!name)
        name = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &at));
    return name ? name : dwarf_formstring(dwarf_attr_integrate(die, DW_AT_name, &at));
}

/* Adds the names of the functions that are inlined at this address, outermost first. */
static size_t inlined_add(const struct file *file, GElf_Addr address, char *to, size_t room)
{
    Dwarf_Addr bias;
    Dwarf_Die *unit = dwfl_module_addrdie(file->module, address, &bias), *scopes = NULL, inner;
    size_t used = 0;
    int n = unit ? dwarf_getscopes(unit, address - bias, &scopes) : 0;

    if (n <= 0)
        return 0;
    inner = scopes[0];
    free(scopes);
    scopes = NULL;
    n = dwarf_getscopes_die(&inner, &scopes);
    while (n-- > 0) {
        const char *name =
            dwarf_tag(&scopes[n]) == DW_TAG_inlined_subroutine ? die_name(&scopes[n]) : NULL;
        const size_t bytes = name ? strlen(name) + 1 : 0;

        if (bytes <= 1 || bytes > room - used)
            continue;
        memcpy(to + used, name, bytes);
        used += bytes;
    }
    free(scopes);
    return used;
}

/* Runs in the child: replaces an offset by the names there, each with its NUL, or by "". */
static size_t names_answer(void *self)
{
    struct file *file = self;
    const uint64_t offset = *child_message;
    GElf_Addr address = 0;
    const char *name;
    size_t n;

    if (!file->opened)
        file_open(file);
    name = name_find(file, offset, &address);
    if (!name || strlen(name) >= MESSAGE_MAX)
        name = "";
    n = strlen(name) + 1;
    memcpy(child_message, name, n);
    if (n > 1 && !file->plain)
        n += inlined_add(file, address, (char *)child_message + n, MESSAGE_MAX - n);
    return n;
}

/* Returns the cached file; a new one replaces the oldest. */
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
    file->child =
        (struct child){.answer = names_answer, .self = file, .seconds = SECONDS, .again = true};
    return file;
}

const char *file_names(const char *path, uint64_t offset, size_t *bytes)
{
    static char names[MESSAGE_MAX];
    struct file *file = file_of(path);

    *child_message = offset;
    *bytes = file->path ? child_ask(&file->child, sizeof offset) : 0;
    if (*bytes == 0 && file->path && !file->plain) {
        file->plain = true;
        file->child.again = false;
        *child_message = offset;
        *bytes = child_ask(&file->child, sizeof offset);
    }
    return *bytes > 1 ? memcpy(names, child_message, *bytes) : NULL;
}
