/*
 * The host functions for records: names and mappings of processes, kernel mappings, and PIDs of a
 * namespace that are kept after their processes exit.
 */
#include "core/log/record.h"
#include "tests/host_test.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t time_ns; /* of the inventory */
static struct buf found;

static void take(void *arg, const struct record *record)
{
    (void)arg;
    buf_add(&found, record, record->size);
}

static const struct intake intake = {.put = take};

static void inventory_of(pid_t pid, uint64_t when_ns)
{
    time_ns = when_ns;
    buf_clear(&found);
    host->inventory(state, pid, false, time_ns, &intake);
}

static void inventory_now(pid_t pid)
{
    inventory_of(pid, host->now_ns(state));
}

/* ---- records of an inventory ---- */

static const struct record *next(const struct record *record)
{
    const char *p = record ? (const char *)record + record->size : found.data;
    return p < found.data + found.len ? (const struct record *)p : NULL;
}

static const struct record_comm *comm_of(pid_t pid, pid_t tid)
{
    for (const struct record *r = next(NULL); r; r = next(r)) {
        const struct record_comm *comm = (const struct record_comm *)r;
        if (r->type == RECORD_COMM && comm->pid == (uint32_t)pid && comm->tid == (uint32_t)tid)
            return comm;
    }
    return NULL;
}

/* Returns the first mapping of process pid with this path (NULL: any) in `found`, or NULL. */
static const struct record_map *map_of(pid_t pid, const char *path)
{
    for (const struct record *r = next(NULL); r; r = next(r)) {
        const struct record_map *map = (const struct record_map *)r;
        if (r->type == RECORD_MAP && map->pid == (uint32_t)pid &&
            (!path || strcmp(map->path, path) == 0))
            return map;
    }
    return NULL;
}

static bool all_well_formed(uint32_t misc)
{
    size_t left = found.len;
    for (const struct record *r = next(NULL); r; r = next(r)) {
        if (!record_is_valid(r, left) || record_time(r) != time_ns || (r->misc & misc) != misc)
            return false;
        left -= r->size;
    }
    return left == 0;
}

/* ---- a process with strange mappings ---- */

enum strange {
    PLAIN,
    DELETED,
    NEWLINE,
    STRANGE
};

static char strange_dir[] = "/tmp/pmcfs-host-XXXXXX";
static const char *const strange_name[STRANGE] = {"two words", "unlinked", "line\nbreak"};
static void **strange_at; /* in shared memory: the addresses in the child */

static void strange_path(enum strange which, char path[256])
{
    snprintf(path, 256, "%s/%s", strange_dir, strange_name[which]);
}

static int strange_child(void *arg)
{
    char path[256];
    (void)arg;
    prctl(PR_SET_NAME, "a) R b\n");
    for (unsigned i = 0; i < STRANGE; i++) {
        strange_path(i, path);
        int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0700);
        if (ftruncate(fd, 8192) < 0)
            return 1;
        strange_at[i] = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 4096);
        close(fd);
    }
    strange_at[STRANGE] =
        mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    strange_path(DELETED, path);
    unlink(path);
    return threaded((void *)1);
}

static bool strange_is(pid_t pid, enum strange which, const char *suffix)
{
    char path[300];
    struct stat st;
    strange_path(which, path);
    const bool there = stat(path, &st) == 0;
    strcat(path, suffix);
    const struct record_map *map = map_of(pid, path);
    return map && map->start == (uint64_t)(uintptr_t)strange_at[which] && map->length == 4096 &&
           map->offset == 4096 && map->protection == (PROT_READ | PROT_EXEC) &&
           map->flags == MAP_PRIVATE && (!there || map->inode == st.st_ino);
}

static void test_strange(void)
{
    notes[THREAD] = notes[THREAD_READY] = 0;
    strange_at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!mkdtemp(strange_dir))
        return;
    pid_t pid = spawn(0, strange_child, NULL);
    note_wait(THREAD_READY);
    inventory_now(pid);
    check(all_well_formed(RECORD_FOUND), "an inventory is well-formed records of its time");
    const struct record_comm *comm = comm_of(pid, pid);
    check(comm && strcmp(comm->name, "a) R b\n") == 0 && comm_of(pid, notes[THREAD]),
          "each thread's name, brackets and newline in it");
    check(strange_is(pid, PLAIN, "") && strange_is(pid, DELETED, " (deleted)") &&
              strange_is(pid, NEWLINE, ""),
          "paths as the kernel's own records have them");
    const struct record_map *map = map_of(pid, "//anon");
    check(map && map->start == (uint64_t)(uintptr_t)strange_at[STRANGE] && map->length == 8192 &&
              map->offset == map->start && map_of(pid, "[vdso]"),
          "mappings that are no file");
    bool executable = true;
    for (const struct record *r = next(NULL); r; r = next(r))
        executable &=
            r->type != RECORD_MAP || (((const struct record_map *)r)->protection & PROT_EXEC) != 0;
    check(executable, "executable mappings alone");
    make_zombie(pid);
    inventory_now(pid);
    check(found.len == 0, "a zombie has nothing");
    waitpid(pid, NULL, 0);
    inventory_now(pid);
    check(found.len == 0, "a process that is gone has nothing");
    for (unsigned i = 0; i < STRANGE; i++) {
        char path[256];
        strange_path(i, path);
        unlink(path);
    }
    rmdir(strange_dir);
    munmap(strange_at, 4096);
}

/* Allows one more descriptor in each round, until the inventory is complete. */
static void test_few_descriptors(void)
{
    const struct record *first = NULL;
    unsigned n = 3, n_silent = 0;
    for (; n < 1000 && !(first && first->type != RECORD_DROP); n++) {
        descriptors_limit(n);
        inventory_now(getpid());
        descriptors_limit(0);
        first = next(NULL);
        n_silent += !first;
    }
    check(n_silent == 0 && map_of(getpid(), "[vdso]"),
          "without descriptors an inventory reports that a process is missing");
}

static void test_headless(void)
{
    pid_t pid = threaded_start(false);
    inventory_now(pid);
    check(!comm_of(pid, pid) && comm_of(pid, notes[THREAD]) && map_of(pid, "[vdso]"),
          "a process with a dead first thread has the other's name and its maps");
    reap(pid);
}

static void test_everybody(void)
{
    inventory_now(0);
    check(all_well_formed(RECORD_FOUND) && comm_of(1, 1) && comm_of(getpid(), getpid()) &&
              map_of(getpid(), "[vdso]"),
          "every process is found");
    char *cmdline = proc_text("/proc/2/cmdline"), *comm = proc_text("/proc/2/comm");
    if (cmdline && comm && cmdline[0] == '\0' && strcmp(comm, "kthreadd\n") == 0)
        check(comm_of(2, 2) && !map_of(2, NULL), "a thread of the kernel has a name, but no maps");
    free(cmdline);
    free(comm);
}

/* Forks, maps and exits during the inventory. */
static int restless(void *arg)
{
    (void)arg;
    for (;;) {
        pid_t pid = spawn(0, sleeper, NULL);
        void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        reap(pid);
        munmap(p, 4096);
    }
    return 0;
}

static void test_restless(void)
{
    pid_t pid = spawn(0, restless, NULL);
    bool good = true;
    for (unsigned i = 0; i < 20; i++) {
        inventory_now(0);
        good &= all_well_formed(RECORD_FOUND) && comm_of(pid, pid);
    }
    check(good, "processes and mappings that vanish during an inventory do no harm");
    reap(pid);
}

static void test_born_later(void)
{
    const uint64_t before_ns = host->now_ns(state);
    nap_ms(40);
    pid_t pid = spawn(0, sleeper, NULL);
    inventory_of(pid, before_ns);
    check(found.len == 0, "a process born after that time is another");
    inventory_now(pid);
    check(comm_of(pid, pid), "and is there now");
    reap(pid);
}

/* An inventory whose time limit has passed. (Not more than 4 s ago: the host may have just booted.)
 */
static void test_late(void)
{
    inventory_of(0, host->now_ns(state) - 4000000000);
    const struct record_note *note = (const struct record_note *)next(NULL);
    check(all_well_formed(0) && note && note->head.type == RECORD_DROP && !next(&note->head) &&
              note->n == 2 && note->value[0] > 1 && note->value[1] == 0,
          "an inventory ends in time, and reports how many processes it left out");
}

static void test_kernel(void)
{
    buf_clear(&found);
    host->kernel_maps(state, time_ns, &intake);
    check(all_well_formed(RECORD_FOUND | RECORD_KERNEL), "the kernel's maps are well-formed");
    const struct record_map *map = map_of(-1, "[kernel.kallsyms]_text");
    check(map && map->tid == 0 && map->start == UINT64_C(1) << 63 && map->offset == 0,
          "the upper half of the addresses is the kernel's");
}

/* ---- views ---- */

static int view_init(void *arg)
{
    (void)arg;
    notes[INNER_PLAIN] = spawn(0, threaded, (void *)1);
    note_wait(THREAD_READY);
    notes[INNER_READY] = 1;
    return sleeper(NULL);
}

static void test_view_numbers(struct pid_view *view, pid_t init, pid_t plain, pid_t thread,
                              const char *name)
{
    check(host->view_pid(view, init) == 1 && host->view_pid(view, plain) == notes[INNER_PLAIN] &&
              host->view_pid(view, thread) == notes[THREAD] &&
              host->view_pid(view, getpid()) == 0 && host->view_pid(view, 0) == 0,
          name);
}

/* Returns whether a view stops answering for a living process after many lookups. */
static bool view_limits_lookups(struct pid_view *view, pid_t plain)
{
    for (unsigned round = 0; round < 20; round++) {
        host->view_forget_pid(view, plain);
        for (pid_t nobody = 1 << 23; nobody < (1 << 23) + 3000; nobody++)
            host->view_pid(view, nobody);
        if (host->view_pid(view, plain) == 0)
            return true;
    }
    return false;
}

static bool view_recovers(struct pid_view *view, pid_t plain)
{
    for (unsigned i = 0; i < 6000 && host->view_pid(view, plain) == 0; i++)
        nap_ms(10);
    return host->view_pid(view, plain) == notes[INNER_PLAIN];
}

static void test_views(void)
{
    struct pid_view *view, *same = NULL, *own, *adopted = NULL;
    struct buf out = {0};
    notes[THREAD_READY] = notes[INNER_READY] = 0;
    pid_t init = spawn(CLONE_NEWPID, view_init, NULL), plain, thread;
    note_wait(INNER_READY);
    check(host->view_open(state, getpid(), &own) == 0 && !own,
          "the daemon's own namespace needs no view");
    if (!check(host->view_open(state, init, &view) == 0 && view &&
                   host->view_open(state, init, &same) == 0 && same,
               "another namespace has a view"))
        return;
    pidns_to_host(state, init, notes[INNER_PLAIN], &plain);
    pidns_to_host(state, init, notes[THREAD], &thread);
    test_view_numbers(view, init, plain, thread, "numbers of processes and threads in a view");
    check(view_limits_lookups(same, plain), "the number of lookups at once is limited");
    check(view_recovers(same, plain), "the others later");
    test_view_numbers(same, init, plain, thread, "and then all are known");

    host->view_print(view, &out);
    host->view_forget(view);
    check(host->view_adopt(state, buf_text(&out), &adopted) == 0 &&
              host->view_pid(adopted, plain) == notes[INNER_PLAIN] &&
              host->view_adopt(state, "0 1 1 1", &view) == -EINVAL &&
              host->view_adopt(state, "nonsense", &view) == -EINVAL,
          "a view printed and adopted");
    buf_free(&out);

    reap(init);
    check(host->view_pid(adopted, plain) == notes[INNER_PLAIN] &&
              host->view_pid(same, thread) == notes[THREAD],
          "the dead keep their numbers");
    host->view_forget_pid(adopted, plain);
    check(host->view_pid(adopted, plain) == 0, "until they are forgotten");
    host->view_free(adopted);
    host->view_free(same);
    host->view_free(NULL);
}

void test_records(void)
{
    found = (struct buf){0};
    test_strange();
    test_few_descriptors();
    test_headless();
    test_everybody();
    test_restless();
    test_born_later();
    test_late();
    test_kernel();
    test_views();
    buf_free(&found);
}
