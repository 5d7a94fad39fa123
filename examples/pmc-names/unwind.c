/*
 * Unwinds a sample from its registers and its copy of the stack, with libdwfl and the unwind tables
 * of the executables. One child process with a Dwfl serves all processes that have the same
 * mappings.
 */
#include "examples/pmc-names/names.h"

#include "core/log/tasks.h"

#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define SPACES_MAX 64 /* address spaces; the least recently used is replaced */
#define SECONDS    20 /* CPU time for a sample; the first one opens the files */
#define VDSO       "[vdso]"
#define VDSO_MAX   65536 /* bytes */

#if defined(__x86_64__)
#define MACHINE_HERE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE_HERE EM_AARCH64
#else
#define MACHINE_HERE EM_NONE
#endif

static struct space {
    uint64_t mappings; /* hash of the mappings; 0: unused */
    uint64_t used;     /* sequence number of the last use */
    struct child child;
    /* The following members are used in the child. */
    const struct maps *maps; /* NULL: already read */
    Dwfl *dwfl;              /* NULL: no file can be read */
    int machine;
    struct found *found; /* places of the modules */
    size_t n_found;
} spaces[SPACES_MAX];

/* The present sample. */
static struct {
    const struct user_state *user;
    const struct space *space;
    uint64_t pc, sp, *frame;
    unsigned n;
} now;

/* ---- registers ---- */

/* DWARF register numbers of x86-64, indexed by perf's numbers; -1: none. */
static const signed char x86_dwarf[] = {0,  3,  2,  1,  4, 5, 6,  7,  16, -1, -1, -1,
                                        -1, -1, -1, -1, 8, 9, 10, 11, 12, 13, 14, 15};

enum {
    X86_SP = 7,
    X86_PC = 8,
    ARM_SP = 31,
    ARM_PC = 32
};

static bool register_find(const struct user_state *user, unsigned number, uint64_t *value)
{
    const uint64_t below = user->mask & ((UINT64_C(1) << number) - 1);

    if (!(user->mask >> number & 1))
        return false;
    *value = user->registers[__builtin_popcountll(below)];
    return true;
}

static bool registers_set(Dwfl_Thread *thread, void *arg)
{
    bool any = true;
    uint64_t value;

    (void)arg;
    for (unsigned i = 0; any && i < 64; i++) {
        int number = (int)i;

        if (now.space->machine == EM_X86_64)
            number = i < sizeof x86_dwarf ? x86_dwarf[i] : -1;
        else if (i > ARM_SP)
            number = -1;
        if (number >= 0 && register_find(now.user, i, &value))
            any = dwfl_thread_state_registers(thread, number, 1, &value);
    }
    dwfl_thread_state_register_pc(thread, now.pc);
    return any;
}

/* ---- memory ---- */

static bool stack_read(uint64_t address, Dwarf_Word *word)
{
    const uint64_t bytes = now.user->stack_bytes;

    if (address < now.sp || bytes < sizeof *word || address - now.sp > bytes - sizeof *word)
        return false;
    memcpy(word, (const char *)now.user->stack + (address - now.sp), sizeof *word);
    return true;
}

/* Reads a word of read-only memory from the file that is mapped there. */
static bool file_read(Dwfl *dwfl, uint64_t address, Dwarf_Word *word)
{
    Dwfl_Module *module = dwfl_addrmodule(dwfl, address);
    GElf_Addr bias;
    Elf *elf = module ? dwfl_module_getelf(module, &bias) : NULL;
    size_t n = 0, size = 0;
    const char *bytes = elf ? elf_rawfile(elf, &size) : NULL;

    if (!bytes || elf_getphdrnum(elf, &n) < 0)
        return false;
    address -= bias;
    for (size_t i = 0; i < n && i < 65536; i++) {
        GElf_Phdr part;
        uint64_t at;

        if (!gelf_getphdr(elf, (int)i, &part) || part.p_type != PT_LOAD || part.p_flags & PF_W ||
            address < part.p_vaddr || part.p_filesz < sizeof *word ||
            address - part.p_vaddr > part.p_filesz - sizeof *word)
            continue;
        at = part.p_offset + (address - part.p_vaddr);
        if (size < sizeof *word || at > size - sizeof *word)
            return false;
        memcpy(word, bytes + at, sizeof *word);
        return true;
    }
    return false;
}

static bool memory_read(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *word, void *arg)
{
    (void)arg;
    return stack_read(address, word) || file_read(dwfl, address, word);
}

/* ---- address spaces ---- */

static uint64_t sum_add(uint64_t sum, uint64_t value)
{
    sum = (sum ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return sum ^ sum >> 29;
}

static uint64_t mappings_sum(const struct maps *maps)
{
    uint64_t sum = maps->n;

    for (unsigned i = 0; i < maps->n; i++) {
        const struct record_map *map = map_of(maps->shared[i]);

        sum = sum_add(sum_add(sum_add(sum, map->start), map->length), map->offset);
        sum = sum_add(sum, map->inode);
        for (const char *p = map->path; *p; p++)
            sum = sum_add(sum, (unsigned char)*p);
    }
    return sum ? sum : 1;
}

/* Finds the difference between the load address and the link-time address of a mapping. All files
 * must be for the same architecture. */
static bool bias_of(struct space *space, int fd, const struct record_map *map, GElf_Addr *bias)
{
    Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    bool known = false;
    GElf_Ehdr head;
    size_t n = 0;

    if (gelf_getehdr(elf, &head) && (!space->machine || space->machine == head.e_machine) &&
        elf_getphdrnum(elf, &n) == 0)
        space->machine = head.e_machine;
    for (size_t i = 0; i < n && i < 65536 && !known; i++) {
        GElf_Phdr part;

        known = gelf_getphdr(elf, (int)i, &part) && part.p_type == PT_LOAD && part.p_flags & PF_X &&
                map->offset < part.p_offset + part.p_filesz &&
                map->offset + map->length > part.p_offset;
        if (known)
            *bias = map->start - map->offset + part.p_offset - part.p_vaddr;
    }
    elf_end(elf);
    return known;
}

/* The vDSO is not a file: copies the vDSO of this process, which is that of all processes. */
static int vdso_open(const struct space *space, const struct record_map *map)
{
    const void *image = (const void *)getauxval(AT_SYSINFO_EHDR); /* NOLINT: an address */
    int fd = -1;

    if (image && space->machine == MACHINE_HERE && map->length <= VDSO_MAX)
        fd = memfd_create("vdso", MFD_CLOEXEC);
    if (fd >= 0 && write(fd, image, map->length) == (ssize_t)map->length)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Opens the file of a mapping and finds its bias. */
static int map_open(struct space *space, const struct record_map *map, struct found *found,
                    GElf_Addr *bias)
{
    char *name = NULL;
    int fd = -1;

    if (strcmp(map->path, VDSO) == 0) {
        *bias = map->start;
        found->root = strdup("");
        return vdso_open(space, map);
    }
    if (map->path[0] == '/')
        fd = place_open(map->path, &name, &found->root);
    free(name);
    if (fd < 0 || bias_of(space, fd, map, bias))
        return fd;
    close(fd);
    return -1;
}

/* Returns whether the file of this mapping is already a module; its mappings are adjacent. */
static bool is_known(const struct space *space, const struct found *found)
{
    const struct found *last = space->n_found ? &space->found[space->n_found - 1] : NULL;

    return last && last->bias == found->bias && strcmp(last->path, found->path) == 0;
}

static void module_add(struct space *space, const struct record_map *map)
{
    struct found found = {.path = strdup(map->path)};
    int fd = found.path ? map_open(space, map, &found, &found.bias) : -1;
    Dwfl_Module *module = NULL;

    if (fd >= 0 && found.root && !is_known(space, &found))
        module = dwfl_report_elf(space->dwfl, map->path, map->path, fd, found.bias, true);
    if (module) {
        space->found[space->n_found] = found;
        debug_found(module, &space->found[space->n_found++]);
        return;
    }
    if (fd >= 0)
        close(fd);
    free(found.path);
    free(found.root);
}

static bool thread_get(Dwfl *dwfl, pid_t tid, void *arg, void **thread)
{
    (void)dwfl;
    (void)tid;
    (void)arg;
    *thread = NULL;
    return true;
}

/* libdwfl requires this callback and does not call it: frames_answer() requests thread 1, which
 * thread_get() returns. */
static pid_t thread_next(Dwfl *dwfl, void *arg, void **thread)
{
    (void)dwfl;
    (void)arg;
    (void)thread;
    return 0;
}

/* Raises the limit of open files, because elfutils keeps the file of each module open. */
static void files_allow(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static bool space_fill(struct space *space)
{
    const struct maps *maps = space->maps;
    static const Dwfl_Thread_Callbacks threads = {.next_thread = thread_next,
                                                  .get_thread = thread_get,
                                                  .memory_read = memory_read,
                                                  .set_initial_registers = registers_set};

    files_allow();
    space->found = calloc(maps->n, sizeof *space->found);
    space->dwfl = space->found ? debug_begin() : NULL;
    if (!space->dwfl)
        return false;
    for (unsigned i = 0; i < maps->n; i++)
        module_add(space, map_of(maps->shared[i]));
    if (dwfl_report_end(space->dwfl, NULL, NULL) != 0)
        return false;
    return (space->machine == EM_X86_64 || space->machine == EM_AARCH64) &&
           dwfl_attach_state(space->dwfl, NULL, 1, &threads, NULL);
}

/* ---- frames ---- */

static int frame_note(Dwfl_Frame *frame, void *arg)
{
    bool activation = false;
    Dwarf_Addr pc;

    (void)arg;
    if (!dwfl_frame_pc(frame, &pc, &activation))
        return DWARF_CB_ABORT;
    /* A caller is looked up before its return address, an interrupted instruction at its address.
     */
    now.frame[now.n] = pc + (activation && now.n > 0);
    return ++now.n < UNWIND_MAX ? DWARF_CB_OK : DWARF_CB_ABORT;
}

/* Runs in the child. The question is: mask, bytes of the stack, registers, stack. The answer is the
 * frames and a 0. */
static size_t frames_answer(void *self)
{
    struct space *space = self;
    const unsigned registers = (unsigned)__builtin_popcountll(child_message[0]);
    const struct user_state user = {.mask = child_message[0],
                                    .stack_bytes = child_message[1],
                                    .registers = child_message + 2,
                                    .stack = child_message + 2 + registers};
    static uint64_t frame[UNWIND_MAX + 1];

    if (space->maps && !space_fill(space) && space->dwfl) {
        dwfl_end(space->dwfl);
        space->dwfl = NULL;
    }
    space->maps = NULL;
    const bool arm = space->machine == EM_AARCH64;
    now.user = &user;
    now.space = space;
    now.frame = frame;
    now.n = 0;
    if (space->dwfl && register_find(&user, arm ? ARM_PC : X86_PC, &now.pc) &&
        register_find(&user, arm ? ARM_SP : X86_SP, &now.sp))
        /* The result is ignored: unwinding often stops with an error. */
        dwfl_getthread_frames(space->dwfl, 1, frame_note, NULL);
    frame[now.n] = 0;
    memcpy(child_message, frame, (now.n + 1) * sizeof *frame);
    return (now.n + 1) * sizeof *frame;
}

/* Stops the child. Frees the members that are used in the child if this process has set them
 * (child_here). */
static void space_end(struct space *space)
{
    child_end(&space->child);
    dwfl_end(space->dwfl);
    for (size_t i = 0; i < space->n_found; i++) {
        free(space->found[i].path);
        free(space->found[i].root);
    }
    free(space->found);
}

/* Returns the address space with these mappings; a new one replaces the least recently used. */
static struct space *space_of(const struct maps *maps)
{
    static uint64_t uses;
    const uint64_t sum = mappings_sum(maps);
    struct space *space = spaces;

    for (unsigned i = 0; i < SPACES_MAX && space->mappings != sum; i++)
        if (spaces[i].mappings == sum || spaces[i].used < space->used)
            space = &spaces[i];
    if (space->mappings != sum) {
        space_end(space);
        *space = (struct space){
            .mappings = sum,
            .maps = maps,
            .child = {.answer = frames_answer, .self = space, .seconds = SECONDS},
        };
    }
    space->used = ++uses;
    return space;
}

unsigned unwind(const struct tasks *tasks, uint32_t pid, const struct user_state *user,
                uint64_t *frame)
{
    const struct logged_process *process = tasks_process(tasks, pid);
    const size_t registers = (size_t)__builtin_popcountll(user->mask);
    size_t n;

    if (!process || !process->maps || user->abi != USER_64)
        return 0;
    child_message[0] = user->mask;
    child_message[1] = user->stack_bytes;
    memcpy(child_message + 2, user->registers, registers * sizeof *child_message);
    if (user->stack)
        memcpy(child_message + 2 + registers, user->stack, user->stack_bytes);
    n = child_ask(&space_of(process->maps)->child,
                  (2 + registers) * sizeof *child_message + user->stack_bytes);
    n /= sizeof *frame;
    if (n == 0 || n > UNWIND_MAX + 1)
        return 0;
    memcpy(frame, child_message, (n - 1) * sizeof *frame);
    return (unsigned)n - 1;
}
