/*
 * Names from an ELF file, in the helper: its symbol tables are walked once, and each symbol looks
 * for the points it covers. No other file is ever asked for (no separate debug files).
 */
#include "backends/linux/symbol.h"

#include <elfutils/libdwfl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AT_NOWHERE UINT64_MAX

static int debuginfo_none(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base,
                          const char *file, const char *link, GElf_Word crc, char **found)
{
    (void)module;
    (void)user;
    (void)name;
    (void)base;
    (void)file;
    (void)link;
    (void)crc;
    (void)found;
    return -1;
}

static int elf_none(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base,
                    char **found, Elf **elf)
{
    (void)module;
    (void)user;
    (void)name;
    (void)base;
    (void)found;
    (void)elf;
    return -1;
}

static const Dwfl_Callbacks callbacks = {.find_elf = elf_none,
                                         .find_debuginfo = debuginfo_none,
                                         .section_address = dwfl_offline_section_address};

static int point_compare(const void *a, const void *b)
{
    const struct symbol_point *p = a, *q = b;

    return p->at < q->at ? -1 : p->at > q->at;
}

/* What is mapped begins at the segment's page: what the linker put in front of it is there too. */
static uint64_t address_of(Elf *elf, size_t n_segments, uint64_t offset, uint64_t bias)
{
    for (size_t i = 0; i < n_segments; i++) {
        GElf_Phdr segment;

        if (!gelf_getphdr(elf, (int)i, &segment) || segment.p_type != PT_LOAD ||
            !(segment.p_flags & PF_X))
            continue;
        if (offset >= segment.p_offset && offset - segment.p_offset < segment.p_filesz)
            return offset - segment.p_offset + segment.p_vaddr + bias;
    }
    return AT_NOWHERE;
}

static void points_place(Elf *elf, uint64_t bias, struct symbol_point *points, size_t n)
{
    size_t n_segments = 0;

    elf_getphdrnum(elf, &n_segments);
    for (size_t i = 0; i < n; i++) {
        points[i].at = address_of(elf, n_segments, points[i].at, bias);
        points[i].nearest = 0;
    }
    qsort(points, n, sizeof *points, point_compare);
}

/* Of several symbols for one place: 0 is none at all. */
static int symbol_rank(const GElf_Sym *symbol, const char *name)
{
    int type = GELF_ST_TYPE(symbol->st_info), rank = 1;

    if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
        return 0;
    if (!*name || *name == '$' || strncmp(name, ".L", 2) == 0)
        return 0; /* marks of assemblers */
    if (symbol->st_size > 0)
        rank += 16;
    if (type != STT_NOTYPE)
        rank += 8;
    if (GELF_ST_BIND(symbol->st_info) == STB_GLOBAL)
        rank += 4;
    else if (GELF_ST_BIND(symbol->st_info) == STB_WEAK)
        rank += 2;
    return rank + (*name != '_');
}

/* A later start is a better one: inner symbols are more exact. */
static void point_offer(struct symbol_point *point, uint64_t start, int rank, const char *name)
{
    if (point->rank > 16 && rank <= 16)
        return;
    if ((point->rank > 16) == (rank > 16) && point->rank > 0) {
        if (start < point->start || (start == point->start && rank < point->rank))
            return;
        if (start == point->start && rank == point->rank && strcmp(name, point->name) >= 0)
            return;
    }
    symbol_point_name(point, name, strlen(name));
    if (!point->name)
        return;
    point->rank = rank;
    point->start = start;
}

/*
 * A symbol with a size covers it. One without reaches to the next: it is offered to the first point
 * behind it only, and handed on by points_settle().
 */
static void symbol_offer(struct symbol_point *points, size_t n, uint64_t start, uint64_t size,
                         int rank, const char *name)
{
    size_t i = symbol_points_from(points, n, start);

    if (i == n || points[i].at == AT_NOWHERE)
        return;
    if (points[i].nearest < start)
        points[i].nearest = start;
    if (size == 0)
        point_offer(&points[i], start, rank, name);
    for (; size > 0 && i < n && points[i].at != AT_NOWHERE && points[i].at - start < size; i++)
        point_offer(&points[i], start, rank, name);
}

/* Section boundaries are where a symbol without size ends at the latest. */
static uint64_t section_end(Elf *elf, uint64_t address)
{
    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
        GElf_Shdr head;

        if (gelf_getshdr(section, &head) && (head.sh_flags & SHF_EXECINSTR) &&
            address >= head.sh_addr && address - head.sh_addr < head.sh_size)
            return head.sh_addr + head.sh_size;
    }
    return 0;
}

static void points_settle(Elf *elf, uint64_t bias, struct symbol_point *points, size_t n)
{
    const struct symbol_point *open = NULL;
    uint64_t end = 0;

    for (size_t i = 0; i < n; i++) {
        struct symbol_point *point = &points[i];

        if (point->nearest > 0)
            open = NULL;
        if (point->rank > 0 && point->rank <= 16) {
            end = section_end(elf, point->start - bias) + bias;
            if (point->start == point->nearest && point->at < end) {
                open = point;
                continue;
            }
            free(point->name);
            point->name = NULL;
        } else if (point->rank == 0 && open && point->at < end) {
            symbol_point_name(point, open->name, strlen(open->name));
        }
    }
}

static void module_read(Dwfl_Module *module, struct symbol_point *points, size_t n)
{
    GElf_Addr bias = 0;
    Elf *elf = dwfl_module_getelf(module, &bias);
    int n_symbols;

    if (!elf)
        return;
    points_place(elf, bias, points, n);
    n_symbols = dwfl_module_getsymtab(module);
    for (int i = 1; i < n_symbols; i++) {
        GElf_Sym symbol;
        GElf_Addr address;
        GElf_Word section;
        const char *name =
            dwfl_module_getsym_info(module, i, &symbol, &address, &section, NULL, NULL);
        int rank = name && section != SHN_UNDEF ? symbol_rank(&symbol, name) : 0;

        if (rank > 0 && address > 0)
            symbol_offer(points, n, address, symbol.st_size, rank, name);
    }
    points_settle(elf, bias, points, n);
}

void symbol_elf(int fd, struct symbol_point *points, size_t n)
{
    char magic[SELFMAG];
    Dwfl *dwfl;
    Dwfl_Module *module;
    int own;

    if (pread(fd, magic, sizeof magic, 0) != SELFMAG || memcmp(magic, ELFMAG, SELFMAG) != 0)
        return;
    own = dup(fd);
    dwfl = own >= 0 ? dwfl_begin(&callbacks) : NULL;
    if (!dwfl) {
        if (own >= 0)
            close(own);
        return;
    }
    dwfl_report_begin(dwfl);
    module = dwfl_report_elf(dwfl, "module", "module", own, 0, true); /* takes the descriptor */
    if (module && dwfl_report_end(dwfl, NULL, NULL) == 0)
        module_read(module, points, n);
    else if (!module)
        close(own);
    dwfl_end(dwfl);
}
