/*
 * The target of the tests of attach. Its workers are threads or processes that get commands through
 * their slot, and count their page faults (getrusage).
 */
#include "tests/attach_test.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    WORKERS_MAX = 700,
    STACK_BYTES = 65536
};

struct slot {
    sem_t go;
    char what; /* w: work, x: exit, c: create a thread */
    bool live, process;
    pid_t tid;
    long faults; /* page faults of the worker */
    char *pages;
};

struct shared {
    sem_t done;
    struct slot slot[WORKERS_MAX];
    unsigned n;     /* number of workers */
    unsigned ready; /* workers that have touched all pages needed outside of work */
};
static struct shared *shared;

static long own_faults(void)
{
    struct rusage use;

    getrusage(RUSAGE_THREAD, &use);
    return use.ru_minflt + use.ru_majflt;
}

/* Page faults of all threads, including exited ones. */
static long process_faults(void)
{
    struct rusage use;

    getrusage(RUSAGE_SELF, &use);
    return use.ru_minflt + use.ru_majflt;
}

static void work(struct slot *slot)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = slot->pages;
    long before = own_faults();

    for (size_t i = 0; i < PAGES; i++)
        *(volatile char *)(pages + i * page) = 1;
    slot->faults += own_faults() - before;
}

/* Frees the pages of a finished work, so that the next one faults again. */
static void unwork(struct slot *slot)
{
    madvise(slot->pages, PAGES * (size_t)sysconf(_SC_PAGESIZE), MADV_DONTNEED);
}

static void worker_make(bool process);

static void *worker(void *arg)
{
    struct slot *slot = arg;

    slot->tid = (pid_t)syscall(SYS_gettid);
    work(slot);
    unwork(slot);
    slot->faults = 0;
    sem_post(&slot->go);
    sem_wait(&slot->go);
    __atomic_fetch_add(&shared->ready, 1, __ATOMIC_SEQ_CST);
    for (;;) {
        sem_wait(&slot->go);
        if (slot->what == 'w')
            work(slot), unwork(slot);
        else if (slot->what == 'c')
            worker_make(false);
        else
            break;
        sem_post(&shared->done);
    }
    slot->live = false;
    sem_post(&shared->done);
    return NULL;
}

static void worker_make(bool process)
{
    unsigned at = __atomic_fetch_add(&shared->n, 1, __ATOMIC_SEQ_CST);
    struct slot *slot = &shared->slot[at % WORKERS_MAX];
    pthread_attr_t attr;
    pthread_t thread;

    sem_init(&slot->go, 1, 0);
    slot->process = process;
    slot->pages = mmap(NULL, PAGES * (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    slot->live = true;
    if (process) {
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            worker(slot);
            _exit(0);
        }
        return;
    }
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attr, worker, slot))
        _exit(3);
    pthread_attr_destroy(&attr);
}

/* Sends a command to the live workers (or the first `most`), waits, and returns their page faults.
 */
static long command(char what, unsigned most)
{
    unsigned sent = 0, n = shared->n;
    long faults = 0;

    for (unsigned i = 0; i < n && sent < most; i++) {
        if (!shared->slot[i].live)
            continue;
        shared->slot[i].what = what;
        sem_post(&shared->slot[i].go);
        sent++;
    }
    while (sent-- > 0)
        sem_wait(&shared->done);
    for (unsigned i = 0; i < n; i++) {
        faults += shared->slot[i].faults;
        shared->slot[i].faults = 0;
    }
    return faults;
}

static void settle(void)
{
    for (int i = 0; i < 60000 && __atomic_load_n(&shared->ready, __ATOMIC_SEQ_CST) <
                                     __atomic_load_n(&shared->n, __ATOMIC_SEQ_CST);
         i++)
        usleep(1000);
    usleep(2000);
}

/* Touches every page of the program and its libraries, because the pages first touched while
 * counting would depend on the linker. */
static void program_populate(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[4096], mode[8];
    unsigned long from, to;

    while (maps && fgets(line, sizeof line, maps))
        if (strchr(line, '/') && sscanf(line, "%lx-%lx %7s", &from, &to, mode) == 3)
            madvise((void *)from, to - from,
                    mode[1] == 'w' ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
    if (maps)
        fclose(maps);
}

int target_main(void)
{
    struct slot self = {.live = false};
    char line[64];
    unsigned n, us;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(300);
    program_populate();
    self.pages = mmap(NULL, PAGES * (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(shared, 0, sizeof *shared);
    sem_init(&shared->done, 1, 0);
    work(&self), unwork(&self);
    printf("0\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        long faults = 0;

        n = us = 0;
        if (sscanf(line + 1, "%u %u", &n, &us) < 0)
            n = 0;
        switch (line[0]) {
        case 't':
        case 'f': /* create n threads (t) or processes (f) */
            while (n-- > 0)
                worker_make(line[0] == 'f');
            settle();
            break;
        case 's':
        case 'p': /* answer, then create n threads (s) or processes (p), one every `us` us */
            printf("0\n");
            fflush(stdout);
            while (n-- > 0) {
                struct timespec a, b;

                clock_gettime(CLOCK_MONOTONIC, &a);
                worker_make(line[0] == 'p');
                do
                    clock_gettime(CLOCK_MONOTONIC, &b);
                while ((b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec < us * 1000L);
            }
            settle();
            break;
        case 'w': /* all workers work */
            self.faults = 0;
            faults = command('w', WORKERS_MAX);
            work(&self), unwork(&self);
            faults += self.faults;
            break;
        case 'x':
        case 'c': /* n workers exit (x), or create a thread each (c) */
            faults = process_faults();
            command(line[0], n);
            settle();
            faults = process_faults() - faults;
            break;
        default:
            break;
        }
        printf("%ld\n", faults);
        fflush(stdout);
    }
    return 0;
}

long ask(struct target *target, const char *format, ...)
{
    char line[64] = "";
    va_list args;

    va_start(args, format);
    vfprintf(target->to, format, args);
    va_end(args);
    fflush(target->to);
    return fgets(line, sizeof line, target->from) ? atol(line) : -1;
}

struct target target_begin(void)
{
    return target_start("attach");
}
