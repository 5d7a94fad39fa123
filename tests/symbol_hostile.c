/*
 * Programs that want the daemon to open, to wait, to crash or to look where it should not.
 */
#include "tests/symbol_test.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE      4096ul
#define POINTS    2000
#define LIMIT_MS  1500
#define FUZZ_RUNS 60

static uint64_t ms_now(void)
{
    return host->now_ns(state) / 1000000;
}

/* ---- a file mapped by this process, as if it ran ---- */

struct mapped {
    char *code;
    struct mapping *maps; /* of this process; only that mapping is taken */
    const struct record_map *map;
};

static struct mapped file_map(struct log_files *files, const char *path)
{
    struct log_files *none = host->files_new(state, 0);
    struct mapped mapped = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    mapped.code = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    close(fd);
    mapped.maps = maps_take(none, getpid());
    host->files_free(none);
    mapped.map = map_of(mapped.maps, (uintptr_t)mapped.code);
    if (mapped.map)
        host->files_take(files, getpid(), 1, mapped.map);
    return mapped;
}

static void file_unmap(struct mapped *mapped)
{
    munmap(mapped->code, PAGE);
    maps_free(mapped->maps);
}

static void file_write(const char *path, const void *data, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (fd < 0 || write(fd, data, len) != (ssize_t)len)
        abort();
    close(fd);
}

/* ---- bytes that are no program ---- */

static char *file_read(const char *path, size_t *len)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *data;

    if (fd < 0 || fstat(fd, &st) < 0 || !(data = malloc((size_t)st.st_size)) ||
        read(fd, data, (size_t)st.st_size) != st.st_size)
        abort();
    close(fd);
    *len = (size_t)st.st_size;
    return data;
}

static uint32_t dice(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8;
}

/* Wrong bytes in the head, in the table of sections, and anywhere. */
static void bytes_spoil(char *data, size_t len, uint32_t seed)
{
    const Elf64_Ehdr *head = (const void *)data;
    size_t sections = head->e_shoff, from = 0, room = len;
    unsigned n = 1 + dice(&seed) % 16;

    if (seed % 3 == 0 && sections < len) {
        from = sections;
        room = len - sections;
    } else if (seed % 3 == 1) {
        from = 16;
        room = 1024;
    }
    while (n-- > 0)
        data[from + dice(&seed) % room] = (char)dice(&seed);
}

/* Whatever the bytes are, there is an answer, and that of another program is right. */
static void test_spoilt(void)
{
    size_t len;
    char *good = file_read(path_of("symbol_target"), &len);
    struct target target = target_start(0, NULL, path_of("symbol_target"), NULL);
    unsigned right = 0;

    for (uint32_t seed = 1; seed <= FUZZ_RUNS; seed++) {
        struct log_files *files = host->files_new(state, 64);
        char *data = malloc(len);

        memcpy(data, good, len);
        bytes_spoil(data, len, seed);
        file_write(path_of("spoilt"), data, seed % 4 ? len : len / FUZZ_RUNS * seed);
        struct mapped mapped = file_map(files, path_of("spoilt"));
        struct mapping *maps = maps_take(files, target.pid);
        struct frame_query queries[POINTS / 10 + 1];
        size_t n = sizeof queries / sizeof *queries;

        for (size_t i = 0; i < n - 1; i++)
            queries[i] = (struct frame_query){
                .map = mapped.map, .pid = 1, .address = (uintptr_t)mapped.code + i * 20};
        queries[n - 1] = (struct frame_query){.map = map_of(maps, said(&target, "hidden_work")),
                                              .pid = (uint32_t)target.pid,
                                              .address = said(&target, "hidden_work")};
        names_ask(files, queries, n, 10000);
        right += queries[n - 1].name && strcmp(queries[n - 1].name, "hidden_work") == 0;
        for (size_t i = 0; i < n; i++)
            free(queries[i].name);
        file_unmap(&mapped);
        maps_free(maps);
        host->files_free(files);
        free(data);
    }
    check(right == FUZZ_RUNS, "%u of %d spoilt programs do not keep others from their names", right,
          FUZZ_RUNS);
    target_end(&target);
    free(good);
}

/* Mostly a hole, with a table of symbols as large as that. */
static void huge_write(const char *path, uint64_t bytes)
{
    struct {
        Elf64_Ehdr head;
        Elf64_Phdr segment;
        Elf64_Shdr section[3];
    } elf = {.head = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
                                  EV_CURRENT},
                      .e_type = ET_EXEC,
                      .e_machine = EM_X86_64,
                      .e_version = EV_CURRENT,
                      .e_phoff = sizeof elf.head,
                      .e_shoff = sizeof elf.head + sizeof elf.segment,
                      .e_ehsize = sizeof elf.head,
                      .e_phentsize = sizeof elf.segment,
                      .e_phnum = 1,
                      .e_shentsize = sizeof elf.section[0],
                      .e_shnum = 3,
                      .e_shstrndx = 2},
             .segment = {.p_type = PT_LOAD,
                         .p_flags = PF_X | PF_R,
                         .p_vaddr = PAGE,
                         .p_filesz = PAGE,
                         .p_memsz = PAGE,
                         .p_align = PAGE}};

    elf.section[1] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
                                  .sh_offset = 2 * PAGE,
                                  .sh_size = bytes / 24 * 24,
                                  .sh_link = 2,
                                  .sh_info = 1,
                                  .sh_entsize = 24};
    elf.section[2] = (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_offset = PAGE, .sh_size = PAGE};
    file_write(path, &elf, sizeof elf);
    if (truncate(path, (off_t)(2 * PAGE + bytes)) < 0)
        abort();
}

static void test_huge(void)
{
    static const uint64_t sizes[] = {UINT64_C(1) << 40, UINT64_C(3) << 30};

    for (size_t i = 0; i < 2; i++) {
        struct log_files *files = host->files_new(state, 64);
        uint64_t before = ms_now();
        struct stat st;

        huge_write(path_of("huge"), sizes[i]);
        struct mapped mapped = file_map(files, path_of("huge"));
        char *name = name_of(files, mapped.maps, 1, (uintptr_t)mapped.code + 64);
        check(!name && host->files_count(files) == 1 && ms_now() - before < 9000,
              "a program of %llu bytes is not read", (unsigned long long)sizes[i]);
        free(name);
        file_unmap(&mapped);
        host->files_free(files);
        if (stat(path_of("huge"), &st) == 0)
            unlink(path_of("huge"));
    }
}

/* ---- a helper that is kept busy, and what it is allowed ---- */

/* Many symbols that all cover everything, each a better one than the last. */
static void slow_write(const char *path)
{
    size_t n = 300000, len = 2 * PAGE + n * sizeof(Elf64_Sym);
    char *data = calloc(1, len);

    huge_write(path, n * sizeof(Elf64_Sym));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (!data || read(fd, data, 2 * PAGE) != 2 * PAGE)
        abort();
    close(fd);
    strcpy(data + PAGE + 1, "slow");
    Elf64_Sym *symbols = (void *)(data + 2 * PAGE);
    for (size_t i = 1; i < n; i++)
        symbols[i] = (Elf64_Sym){.st_name = 1,
                                 .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                                 .st_shndx = SHN_ABS,
                                 .st_value = i % PAGE + 1,
                                 .st_size = 4 * PAGE};
    file_write(path, data, len);
    free(data);
}

/* This process's child that is a helper, or 0. */
static pid_t helper_find(void)
{
    DIR *dir = opendir("/proc");
    pid_t found = 0;

    for (struct dirent *entry; dir && !found && (entry = readdir(dir));) {
        char path[300], text[600] = "";
        int fd, pid = atoi(entry->d_name);
        ssize_t len;

        snprintf(path, sizeof path, "/proc/%d/stat", pid);
        fd = pid > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        len = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
        if (fd >= 0)
            close(fd);
        text[len > 0 ? len : 0] = '\0';
        const char *rest = strrchr(text, ')');
        int parent = 0;
        char kind = 0;
        if (!rest || sscanf(rest, ") %c %d", &kind, &parent) != 2 || parent != getpid() ||
            kind == 'Z')
            continue;
        snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        len = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
        if (fd >= 0)
            close(fd);
        if (len > 6 && memmem(text, (size_t)len, "--symbol-helper", 15))
            found = pid;
    }
    if (dir)
        closedir(dir);
    return found;
}

static bool line_is(const char *status, const char *line)
{
    const char *found = strstr(status, line);

    return found && found[strlen(line)] == '\n';
}

static bool is_confined(pid_t pid)
{
    char path[64], status[8192] = "";
    size_t len = 0;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/status", pid);
    file = fopen(path, "re");
    if (file) {
        len = fread(status, 1, sizeof status - 1, file);
        fclose(file);
    }
    status[len] = '\0';
    return line_is(status, "\nSeccomp:\t2") && line_is(status, "\nNoNewPrivs:\t1") &&
           line_is(status, "\nUid:\t65534\t65534\t65534\t65534") &&
           line_is(status, "\nGid:\t65534\t65534\t65534\t65534") &&
           line_is(status, "\nGroups:\t ") && line_is(status, "\nCapEff:\t0000000000000000") &&
           line_is(status, "\nCapPrm:\t0000000000000000");
}

/* Its root is empty, and what it has open is its socket, nothing, and files to read. */
static bool has_only_its_files(pid_t pid)
{
    char path[64], link[300];
    unsigned entries = 0, others = 0;
    DIR *dir;

    snprintf(path, sizeof path, "/proc/%d/root/", pid);
    dir = opendir(path);
    for (const struct dirent *entry; dir && (entry = readdir(dir));)
        entries += entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    for (int fd = 0; fd < 64; fd++) {
        struct stat st;
        ssize_t len;

        snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
        len = readlink(path, link, sizeof link - 1);
        link[len > 0 ? len : 0] = '\0';
        if (len <= 0 || strcmp(link, "/dev/null") == 0)
            continue;
        others += fd == 0 ? strncmp(link, "socket:", 7) != 0
                          : lstat(path, &st) < 0 || (st.st_mode & 0222) != 0 ||
                                strncmp(link, "/dev", 4) == 0;
    }
    return dir && entries == 0 && others == 0;
}

/* Does this to the first helper, once that has given up its rights (early: at once). */
struct meeting {
    int signal;
    bool early; /* it has not yet heard what to do */
    _Atomic bool confined, alone, met, over;
};

static void *meet(void *arg)
{
    struct meeting *meeting = arg;

    while (!meeting->over && !meeting->met) {
        pid_t pid = helper_find();

        if (!pid || (!meeting->early && !is_confined(pid))) {
            usleep(1000);
            continue;
        }
        meeting->confined = !meeting->early;
        meeting->alone = has_only_its_files(pid);
        if (meeting->signal)
            kill(pid, meeting->signal);
        meeting->met = true;
    }
    return NULL;
}

/* Asks for a name in a good program and many in a slow one; the good one's file comes last. */
static bool busy_ask(struct meeting *meeting, unsigned *ms)
{
    struct log_files *files = host->files_new(state, 64);
    struct mapped mapped = file_map(files, path_of("slow"));
    struct target target = target_start(0, NULL, path_of("symbol_target"), NULL);
    struct mapping *maps = maps_take(files, target.pid);
    struct frame_query *queries = calloc(POINTS + 1, sizeof *queries);
    pthread_t thread;
    bool right;

    for (size_t i = 0; i < POINTS; i++)
        queries[i] = (struct frame_query){
            .map = mapped.map, .pid = 1, .address = (uintptr_t)mapped.code + 2 * i};
    queries[POINTS] = (struct frame_query){.map = map_of(maps, said(&target, "hidden_work")),
                                           .pid = (uint32_t)target.pid,
                                           .address = said(&target, "hidden_work")};
    if (pthread_create(&thread, NULL, meet, meeting) != 0)
        abort();
    uint64_t before = ms_now();
    names_ask(files, queries, POINTS + 1, LIMIT_MS);
    *ms = (unsigned)(ms_now() - before);
    meeting->over = true;
    pthread_join(thread, NULL);
    right = queries[POINTS].name && strcmp(queries[POINTS].name, "hidden_work") == 0;
    for (size_t i = 0; i <= POINTS; i++)
        free(queries[i].name);
    free(queries);
    target_end(&target);
    maps_free(maps);
    file_unmap(&mapped);
    host->files_free(files);
    return right;
}

static void test_busy(void)
{
    static const struct {
        int signal;
        bool early;
        const char *name;
    } cases[] = {{0, false, "is slow"},
                 {SIGKILL, false, "is killed"},
                 {SIGSTOP, false, "is stopped"},
                 {SIGKILL, true, "is killed before it read any"}};

    slow_write(path_of("slow"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct meeting meeting = {.signal = cases[i].signal, .early = cases[i].early};
        unsigned ms;
        bool right = busy_ask(&meeting, &ms);

        if (i == 0)
            check(meeting.confined && meeting.alone,
                  "a helper has no rights, an empty root and only its files");
        check(meeting.met && right && ms < LIMIT_MS + 1500,
              "a helper that %s costs the names of one file (%u ms)", cases[i].name, ms);
    }
}

/* ---- what stands where a perf-PID.map is looked for ---- */

static const char *trap; /* what own_trap() makes of it */
static char map_path[64];

static void trap_set(void)
{
    if (strcmp(trap, "link") == 0) {
        rename(map_path, "/tmp/elsewhere.map");
        if (symlink("elsewhere.map", map_path) < 0)
            abort();
    } else if (strcmp(trap, "pipe") == 0) {
        unlink(map_path);
        if (mkfifo(map_path, 0644) < 0)
            abort();
    } else if (strcmp(trap, "owner") == 0) {
        if (chown(map_path, 1234, 0) < 0)
            abort();
    } else if (strcmp(trap, "directory") == 0) {
        unlink(map_path);
        if (mkdir(map_path, 0755) < 0)
            abort();
    } else if (strcmp(trap, "size") == 0) {
        if (truncate(map_path, INT64_C(1) << 40) < 0)
            abort();
    }
}

static void test_traps(void)
{
    static const char *const traps[] = {"link", "pipe", "owner", "directory", "size"};

    for (size_t i = 0; i < sizeof traps / sizeof *traps; i++) {
        struct log_files *files = host->files_new(state, 64);
        struct target target = target_start(0, NULL, path_of("symbol_target"), "code");
        struct mapping *maps = maps_take(files, target.pid);
        uint64_t before = ms_now();

        trap = traps[i];
        snprintf(map_path, sizeof map_path, "/tmp/perf-%d.map", target.pid);
        bool named = name_is(files, maps, &target, "made", "LazyCompile:*made /x.js:1");
        trap_set();
        check(named && name_is(files, maps, &target, "made", NULL) && ms_now() - before < 5000,
              "a perf-PID.map is not read: %s", trap);
        unlink(map_path);
        rmdir(map_path);
        unlink("/tmp/elsewhere.map");
        target_end(&target);
        maps_free(maps);
        host->files_free(files);
    }
}

/* ---- a file system that does not answer ---- */

static int fuse_fd;

static bool fuse_below(void)
{
    char options[100];

    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other",
             fuse_fd);
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 && chdir(place) == 0 &&
           mount("hangs", "/tmp", "fuse", 0, options) == 0;
}

/* Takes one request after the first, which it answers, and keeps it. */
static void *fuse_keep(void *arg)
{
    static char request[1 << 20];
    struct {
        struct fuse_out_header head;
        struct fuse_init_out init;
    } reply = {.head = {.len = sizeof reply},
               .init = {.major = 7, .minor = 31, .max_write = 4096, .max_background = 4}};
    ssize_t len = read(fuse_fd, request, sizeof request);

    (void)arg;
    if (len < (ssize_t)sizeof(struct fuse_in_header))
        return NULL;
    reply.head.unique = ((struct fuse_in_header *)(void *)request)->unique;
    if (write(fuse_fd, &reply, sizeof reply) != sizeof reply)
        return NULL;
    for (;;)
        if (read(fuse_fd, request, sizeof request) <= 0)
            return NULL;
}

/* Now that nobody serves it, the helper that waited can end; the next one's start collects it. */
static void leftover_wait(void)
{
    for (unsigned i = 0; i < 500; i++) {
        siginfo_t info = {0};

        if (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT | WNOHANG) < 0 || info.si_pid != 0)
            break;
        usleep(10000);
    }
}

/* The target's own /tmp is such a one. It makes code: its perf-PID.map is looked for there. */
static void test_hanging(void)
{
    struct log_files *files = host->files_new(state, 64);
    struct target good = target_start(0, NULL, path_of("symbol_target"), NULL);
    pthread_t thread;

    fuse_fd = open("/dev/fuse", O_RDWR);
    if (fuse_fd < 0) {
        printf("# no FUSE here\n");
        return;
    }
    struct target target =
        target_start(CLONE_NEWNS, fuse_below, "symbol_target", "code-without-a-map");
    if (pthread_create(&thread, NULL, fuse_keep, NULL) != 0)
        abort();
    struct mapping *maps = maps_take(files, target.pid), *own = maps_take(files, good.pid);
    struct frame_query queries[2] = {{.map = map_of(maps, said(&target, "made")),
                                      .pid = (uint32_t)target.pid,
                                      .address = said(&target, "made")},
                                     {.map = map_of(own, said(&good, "hidden_work")),
                                      .pid = (uint32_t)good.pid,
                                      .address = said(&good, "hidden_work")}};
    uint64_t before = ms_now();
    names_ask(files, queries, 2, LIMIT_MS);
    check(queries[0].map && !queries[0].name && queries[1].name &&
              strcmp(queries[1].name, "hidden_work") == 0 && ms_now() - before < LIMIT_MS + 1500,
          "a file system that never answers costs the names it has (%u ms)",
          (unsigned)(ms_now() - before));
    free(queries[1].name);
    pthread_cancel(thread);
    pthread_join(thread, NULL);
    close(fuse_fd);
    target_end(&target);
    leftover_wait();
    check(name_is(files, own, &good, "qsort", "qsort"), "later the same user has names again");
    target_end(&good);
    maps_free(maps);
    maps_free(own);
    host->files_free(files);
}

void test_hostile(void)
{
    test_spoilt();
    test_huge();
    test_busy();
    test_traps();
    test_hanging();
}
