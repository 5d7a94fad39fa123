/*
 * Names for addresses, with real processes: what is held, what the helper makes of it, and what a
 * hostile program can do to both. Needs root. The hostile part is in symbol_hostile.c.
 */
#include "core/folded.h"
#include "tests/symbol_test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

const struct host *const host = &linux_host;
struct host_state *state;
char place[] = "/tmp/pmcfs-symbol-XXXXXX";
static int n_failures;

bool check(bool good, const char *format, ...)
{
    va_list args;

    printf("%s", good ? "ok " : "not ok ");
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    n_failures += !good;
    return good;
}

const char *path_of(const char *format, ...)
{
    static char paths[4][512];
    static unsigned next;
    char *path = paths[next++ % 4];
    int len = snprintf(path, sizeof paths[0], "%s/", place);
    va_list args;

    va_start(args, format);
    vsnprintf(path + len, sizeof paths[0] - (size_t)len, format, args);
    va_end(args);
    return path;
}

__attribute__((format(printf, 1, 2))) static void run(const char *format, ...)
{
    char command[1200];
    va_list args;

    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    if (system(command) != 0)
        check(false, "to prepare: %s", command);
}

/* ---- a process and its mappings ---- */

static struct mapping *maps_read(pid_t pid)
{
    char path[64], line[1024];
    struct mapping *first = NULL;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        struct map_facts facts = {.pid = (uint32_t)pid, .tid = (uint32_t)pid, .protection = 5};
        uint64_t end;
        char perms[8];
        int at = 0;

        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %x:%x %" SCNu64 " %n",
                   &facts.start, &end, perms, &facts.offset, &facts.major, &facts.minor,
                   &facts.inode, &at) < 7 ||
            perms[2] != 'x')
            continue;
        facts.length = end - facts.start;
        facts.path = line + at;
        struct mapping *mapping = calloc(1, sizeof *mapping);
        mapping->next = first;
        buf_init(&mapping->bytes, NULL, 0);
        record_add_map(&mapping->bytes, host->now_ns(state), &facts, 0);
        mapping->record = (void *)mapping->bytes.data;
        first = mapping;
    }
    if (file)
        fclose(file);
    return first;
}

void maps_free(struct mapping *mapping)
{
    while (mapping) {
        struct mapping *next = mapping->next;

        buf_free(&mapping->bytes);
        free(mapping);
        mapping = next;
    }
}

const struct record_map *map_of(const struct mapping *mapping, uint64_t address)
{
    for (; mapping; mapping = mapping->next)
        if (address >= mapping->record->start &&
            address - mapping->record->start < mapping->record->length)
            return mapping->record;
    return NULL;
}

struct mapping *maps_take(struct log_files *files, pid_t pid)
{
    struct mapping *maps = maps_read(pid);

    for (struct mapping *mapping = maps; mapping; mapping = mapping->next)
        host->files_take(files, pid, (uint32_t)pid, mapping->record);
    return maps;
}

static void spoken_read(struct target *target, FILE *from)
{
    char line[256];

    while (fgets(line, sizeof line, from) && strcmp(line, "ready\n") != 0)
        if (target->n_said < SAID_MAX &&
            sscanf(line, "%31s %" SCNx64, target->said[target->n_said].name,
                   &target->said[target->n_said].address) == 2)
            target->n_said++;
}

struct target target_start(unsigned long namespaces, bool (*prepare)(void), const char *program,
                           const char *argument)
{
    struct target target = {0};
    int in[2], out[2];

    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
        abort();
    fflush(stdout);
    target.pid = (pid_t)syscall(SYS_clone, namespaces | SIGCHLD, NULL, NULL, NULL, NULL);
    if (target.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(in[0], 0);
        dup2(out[1], 1);
        if (!prepare || prepare())
            execl(program, program, argument, NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    target.input = in[1];
    FILE *from = fdopen(out[0], "r");
    spoken_read(&target, from);
    fclose(from);
    return target;
}

static void map_remove(const struct target *target)
{
    char path[64];

    snprintf(path, sizeof path, "/tmp/perf-%d.map", target->pid);
    unlink(path);
}

void target_end(struct target *target)
{
    close(target->input);
    kill(target->pid, SIGKILL);
    waitpid(target->pid, NULL, 0);
    if (!target->keeps_map)
        map_remove(target);
}

uint64_t said(const struct target *target, const char *name)
{
    for (unsigned i = 0; i < target->n_said; i++)
        if (strcmp(target->said[i].name, name) == 0)
            return target->said[i].address;
    return 0;
}

/* ---- asking ---- */

void names_ask(struct log_files *files, struct frame_query *queries, size_t n, unsigned ms)
{
    const struct frame_asker asker = {.deadline_ns = host->now_ns(state) + (uint64_t)ms * 1000000};

    host->names(state, files, &asker, queries, n);
}

char *name_of(struct log_files *files, const struct mapping *maps, pid_t pid, uint64_t address)
{
    struct frame_query query = {
        .map = map_of(maps, address), .pid = (uint32_t)pid, .address = address};

    if (!query.map)
        return strdup("(no mapping)");
    names_ask(files, &query, 1, 10000);
    return query.name;
}

/* NULL: it must have no name. */
bool name_is(struct log_files *files, const struct mapping *maps, const struct target *target,
             const char *what, const char *expected)
{
    char *name = name_of(files, maps, target->pid, said(target, what));
    bool same = expected ? name && strcmp(name, expected) == 0 : !name;

    if (!same)
        printf("# %s is \"%s\"\n", what, name ? name : "");
    free(name);
    return same;
}

/* ---- tests ---- */

static void test_kinds(void)
{
    static const char *const kinds[] = {"symbol_target", "symbol_target_static"};

    for (size_t i = 0; i < 2; i++) {
        struct log_files *files = host->files_new(state, 64);
        struct target target = target_start(0, NULL, path_of("%s", kinds[i]), NULL);
        struct mapping *maps = maps_take(files, target.pid);

        check(name_is(files, maps, &target, "hidden_work", "hidden_work") &&
                  name_is(files, maps, &target, "shown_work", "shown_work"),
              "functions of %s", kinds[i]);
        check(name_is(files, maps, &target, "qsort", "qsort"), "the library's of %s", kinds[i]);
        target_end(&target);
        check(name_is(files, maps, &target, "hidden_work", "hidden_work"), "when %s has ended",
              kinds[i]);
        maps_free(maps);
        host->files_free(files);
    }
}

static void test_stripped(void)
{
    struct log_files *files = host->files_new(state, 64);
    run("strip -o %s %s", path_of("stripped"), path_of("symbol_target"));
    struct target target = target_start(0, NULL, path_of("stripped"), NULL);
    struct mapping *maps = maps_take(files, target.pid);

    check(name_is(files, maps, &target, "hidden_work", NULL) &&
              name_is(files, maps, &target, "qsort", "qsort"),
          "a stripped program has no names, its libraries have");
    target_end(&target);
    maps_free(maps);
    host->files_free(files);
}

static void test_deleted(void)
{
    struct log_files *files = host->files_new(state, 64);
    run("cp %s %s", path_of("symbol_target"), path_of("gone"));
    struct target target = target_start(0, NULL, path_of("gone"), NULL);

    unlink(path_of("gone"));
    struct mapping *maps = maps_take(files, target.pid);
    check(name_is(files, maps, &target, "hidden_work", "hidden_work"), "a deleted program");
    target_end(&target);
    maps_free(maps);
    host->files_free(files);
}

static bool container_make(void)
{
    char command[1200];

    snprintf(command, sizeof command, "cp %s %s", path_of("symbol_target"), path_of("box/inside"));
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("none", path_of("box"), "tmpfs", 0, NULL) == 0 && system(command) == 0;
}

static void test_namespace(void)
{
    struct log_files *files = host->files_new(state, 64);
    struct target target = target_start(CLONE_NEWNS, container_make, path_of("box/inside"), NULL);
    struct mapping *maps = maps_take(files, target.pid);

    check(access(path_of("box/inside"), F_OK) < 0 &&
              name_is(files, maps, &target, "hidden_work", "hidden_work"),
          "a program that only its mount namespace has");
    target_end(&target);
    maps_free(maps);
    host->files_free(files);
}

/* An overlay has other numbers than its files. */
static bool overlay_make(void)
{
    char options[1200];

    if (!container_make() || mkdir(path_of("box/lower"), 0755) ||
        mkdir(path_of("box/upper"), 0755) || mkdir(path_of("box/work"), 0755) ||
        mkdir(path_of("box/over"), 0755) ||
        rename(path_of("box/inside"), path_of("box/lower/inside")))
        return false;
    snprintf(options, sizeof options,
             "lowerdir=%s/box/lower,upperdir=%s/box/upper,workdir=%s/box/work", place, place,
             place);
    return mount("overlay", path_of("box/over"), "overlay", 0, options) == 0;
}

static void test_overlay(void)
{
    struct log_files *files = host->files_new(state, 64);
    struct target target =
        target_start(CLONE_NEWNS, overlay_make, path_of("box/over/inside"), NULL);
    struct mapping *maps = maps_take(files, target.pid);

    if (!target.n_said)
        printf("# no overlays on this kernel\n");
    else
        check(name_is(files, maps, &target, "hidden_work", "hidden_work"),
              "a program in an overlay");
    target_end(&target);
    maps_free(maps);
    host->files_free(files);
}

static void test_code(void)
{
    struct log_files *files = host->files_new(state, 64);
    struct target target = target_start(0, NULL, path_of("symbol_target"), "code");
    struct mapping *maps = maps_take(files, target.pid);

    check(name_is(files, maps, &target, "made", "LazyCompile:*made /x.js:1"),
          "the last line for an address of a perf-PID.map");
    check(name_is(files, maps, &target, "unmade", NULL), "what stands in no line has no name");
    target.keeps_map = true;
    target_end(&target);
    check(name_is(files, maps, &target, "made", "LazyCompile:*made /x.js:1"),
          "when the program has ended");
    target.keeps_map = false;
    map_remove(&target);
    maps_free(maps);
    host->files_free(files);
}

static bool own_tmp(void)
{
    /* The programs are below /tmp: from /proc/self/cwd. */
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 && chdir(place) == 0 &&
           mount("none", "/tmp", "tmpfs", 0, NULL) == 0;
}

static void test_code_inside(void)
{
    struct log_files *files = host->files_new(state, 64);
    struct target target =
        target_start(CLONE_NEWNS | CLONE_NEWPID, own_tmp, "symbol_target", "code");
    struct mapping *maps = maps_take(files, target.pid);

    check(name_is(files, maps, &target, "made", "LazyCompile:*made /x.js:1"),
          "the map of its own /tmp, by its number in its own PID namespace");
    target_end(&target);
    maps_free(maps);
    host->files_free(files);
}

static void test_limit(void)
{
    struct log_files *files = host->files_new(state, 1);
    struct target target = target_start(0, NULL, path_of("symbol_target"), "code");
    struct mapping *maps = maps_take(files, target.pid);

    check(host->files_count(files) == 1, "no more is held than allowed");
    maps_free(maps_take(files, target.pid));
    check(host->files_count(files) == 1, "nothing is held twice");
    target_end(&target);
    host->files_free(files);
    files = host->files_new(state, 64);
    for (struct mapping *mapping = maps; mapping; mapping = mapping->next)
        host->files_take(files, target.pid, (uint32_t)target.pid, mapping->record);
    check(host->files_count(files) == 0, "of a process that is gone nothing is held");
    maps_free(maps);
    host->files_free(files);
}

/* The file of a mapping must be the one the record speaks of. */
static void test_identity(void)
{
    struct log_files *files = host->files_new(state, 64);
    struct target target = target_start(0, NULL, path_of("symbol_target"), NULL);
    struct mapping *maps = maps_read(target.pid);

    for (struct mapping *mapping = maps; mapping; mapping = mapping->next) {
        struct record_map *record = (struct record_map *)mapping->bytes.data;

        record->inode += record->inode != 0;
        host->files_take(files, target.pid, (uint32_t)target.pid, record);
    }
    check(host->files_count(files) == 0, "a file with another inode than the record's is not held");
    target_end(&target);
    maps_free(maps);
    host->files_free(files);
}

/* The number was somebody else's when the record was made: of the process that has it now nothing
 * is held for that. */
static void test_number_used_again(void)
{
    struct target target = target_start(0, NULL, path_of("symbol_target"), "code");
    struct mapping *maps = maps_read(target.pid);
    unsigned held[2];

    for (unsigned now = 0; now < 2; now++) {
        struct log_files *files = host->files_new(state, 64);

        for (struct mapping *mapping = maps; mapping; mapping = mapping->next) {
            struct record *record = (struct record *)mapping->bytes.data;

            if (!folded_map_is_jit(mapping->record))
                continue;
            record_set_time(record, record_time(record) - (now ? 0 : 60000000000));
            host->files_take(files, target.pid, (uint32_t)target.pid, mapping->record);
            record_set_time(record, record_time(record) + (now ? 0 : 60000000000));
        }
        held[now] = host->files_count(files);
        host->files_free(files);
    }
    check(held[0] == 0 && held[1] == 1, "who has a record's number, but is younger, is not meant");
    target_end(&target);
    maps_free(maps);
}

/* What was held by one worker, in the hands of the next. */
static void test_adopted(void)
{
    struct log_files *files = host->files_new(state, 64), *none = NULL;
    struct target target = target_start(0, NULL, path_of("symbol_target"), "code");
    struct mapping *maps = maps_take(files, target.pid);
    unsigned n = host->files_count(files);
    struct buf text;

    buf_init(&text, NULL, 0);
    host->files_print(files, &text);
    host->files_keep(files);
    files = NULL;
    target.keeps_map = true;
    target_end(&target);
    check(host->files_adopt(state, buf_text(&text), &files) == 0 && host->files_count(files) == n &&
              name_is(files, maps, &target, "hidden_work", "hidden_work") &&
              name_is(files, maps, &target, "made", "LazyCompile:*made /x.js:1"),
          "printed and adopted");
    check(host->files_adopt(state, "", &none) < 0 && host->files_adopt(state, "4;x", &none) < 0 &&
              host->files_adopt(state, "4;0,999,0,0,0,0,0,0,0,0,0,0", &none) < 0,
          "nonsense is not adopted");
    map_remove(&target);
    buf_free(&text);
    maps_free(maps);
    host->files_free(files);
}

/* A record tells the range as it was mapped; parts of it may have been mapped anew since. */
static void test_split(void)
{
    struct log_files *files = host->files_new(state, 64);
    struct target target = target_start(0, NULL, path_of("symbol_target"), NULL);
    struct mapping *maps = maps_read(target.pid);

    for (struct mapping *mapping = maps; mapping; mapping = mapping->next) {
        struct record_map *record = (struct record_map *)mapping->bytes.data;

        record->length += 4096;
        host->files_take(files, target.pid, (uint32_t)target.pid, record);
    }
    check(name_is(files, maps, &target, "hidden_work", "hidden_work"),
          "a mapping whose range has changed since");
    target_end(&target);
    maps_free(maps);
    host->files_free(files);
}

/* An address of the kernel as /proc/kallsyms has it, and a name at the same address. */
static bool kernel_symbol(uint64_t *address, char name[128])
{
    char line[512], type;
    FILE *file = fopen("/proc/kallsyms", "re");
    bool found = false;

    while (file && !found && fgets(line, sizeof line, file))
        found = sscanf(line, "%" SCNx64 " %c %127s", address, &type, name) == 3 && *address &&
                strcmp(name, "schedule") == 0;
    if (file)
        fclose(file);
    return found;
}

/* Nobody waits: no helper is asked, no file is blamed. */
static void test_gone(void)
{
    atomic_bool gone = true;
    struct frame_asker asker = {.deadline_ns = host->now_ns(state) + 60000000000,
                                .interrupted = &gone};
    struct log_files *files = host->files_new(state, 64);
    struct target target = target_start(0, NULL, path_of("symbol_target"), NULL);
    struct mapping *maps = maps_take(files, target.pid);
    struct frame_query query = {.map = map_of(maps, said(&target, "hidden_work")),
                                .pid = (uint32_t)target.pid,
                                .address = said(&target, "hidden_work")};

    host->names(state, files, &asker, &query, 1);
    check(!query.name, "who waits no more gets no name");
    check(name_is(files, maps, &target, "hidden_work", "hidden_work"), "the next one does");
    target_end(&target);
    maps_free(maps);
    host->files_free(files);
}

static void kernel_ask(struct frame_query *query, bool superuser)
{
    const struct frame_asker asker = {.superuser = superuser,
                                      .deadline_ns = host->now_ns(state) + 1000000000};

    host->names(state, NULL, &asker, query, 1);
}

static void test_kernel(void)
{
    struct frame_query query = {0};
    char name[128];

    if (!kernel_symbol(&query.address, name)) {
        printf("# this kernel shows no addresses\n");
        return;
    }
    query.address += 9;
    kernel_ask(&query, false);
    check(!query.name, "no kernel symbols where they are not allowed");
    kernel_ask(&query, true);
    check(query.name && strcmp(query.name, name) == 0, "a kernel symbol");
    free(query.name);
    query = (struct frame_query){.address = 0x1000};
    kernel_ask(&query, true);
    check(!query.name, "what is no address of the kernel has no name there");
}

static unsigned fds_open(void)
{
    unsigned n = 0;
    DIR *dir = opendir("/proc/self/fd");

    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static void prepare(void)
{
    char self[400] = "/";

    if (readlink("/proc/self/exe", self, sizeof self - 1) > 0)
        *strrchr(self, '/') = '\0';
    if (!mkdtemp(place) || chmod(place, 0755) < 0 || mkdir(path_of("box"), 0755) < 0)
        abort();
    run("cp %s/symbol_target %s/symbol_target_static %s", self, self, place);
}

int main(int argc, char **argv)
{
    struct err err = {0};

    symbol_helper(argc, argv);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (geteuid() != 0) {
        printf("ok everything # SKIP needs root\n");
        return 0;
    }
    prepare();
    unsigned fds = fds_open();
    if (host->open(NULL, NULL, &state, &err) < 0) {
        printf("not ok open: %s\n", err.text);
        return 1;
    }
    test_kinds();
    test_stripped();
    test_deleted();
    test_namespace();
    test_overlay();
    test_code();
    test_code_inside();
    test_limit();
    test_identity();
    test_number_used_again();
    test_split();
    test_adopted();
    test_gone();
    test_kernel();
    test_hostile();
    host->close(state);
    check(fds_open() == fds, "no descriptor is left");
    check(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "no helper is left");
    run("rm -rf %s", place);
    return n_failures != 0;
}
