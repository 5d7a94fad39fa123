/*
 * Both sides of attack.sh: one user who measures, and another who makes as much trouble as his
 * limits allow, or the same trouble elsewhere (ROOT is then "-": the control). Everything ends by
 * itself.
 *
 *   attack victim SECONDS COUNT TARGET PID   a pread of COUNT each ms, now and then PID is attached
 *                                            and detached; a line "read NS" or "attach NS" for each
 *   attack threads N                         becomes a process with N idle threads; says "ready"
 *   attack WHAT SECONDS ROOT ARGUMENT        see the table at the end
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t until_ns;
static const char *root;
static bool control;

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static bool goes_on(void)
{
    return now_ns() < until_ns;
}

static void sleep_us(long us)
{
    nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000}, NULL);
}

static void die(const char *what)
{
    fprintf(stderr, "attack: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int file_write(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    long n = fd < 0 ? -1 : write(fd, text, strlen(text));

    if (fd >= 0)
        close(fd);
    return n < 0 ? -1 : 0;
}

/* Where the file NAME of this process's Nth PMC is; the PMC is made when it is new. */
static const char *file_of(char *path, size_t size, unsigned n, const char *name)
{
    snprintf(path, size, "%s/a%d.%u", root, (int)getpid(), n);
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        die(path);
    snprintf(path, size, "%s/a%d.%u/%s", root, (int)getpid(), n, name);
    return path;
}

static void pmc_make(unsigned n, const char *config)
{
    char path[4096];

    if (file_write(file_of(path, sizeof(path), n, "config"), config) < 0)
        die(config);
}

static void pmc_drop(unsigned n)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/a%d.%u", root, (int)getpid(), n);
    rmdir(path);
}

/* N processes run fn and end. */
static void together(unsigned n, void (*fn)(const char *argument), const char *argument)
{
    for (unsigned i = 0; i < n; i++)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            fn(argument);
            _exit(0);
        }
    while (wait(NULL) > 0)
        ;
}

static pthread_t thread_make(void *(*fn)(void *), void *arg)
{
    pthread_attr_t attr;
    pthread_t thread;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 65536);
    if ((errno = pthread_create(&thread, &attr, fn, arg)) != 0)
        die("thread");
    return thread;
}

/* ---- who measures ---- */

static int victim(char **args)
{
    int count = open(args[0], O_RDONLY), target = open(args[1], O_WRONLY);
    char text[64], back[64];

    if (count < 0 || target < 0)
        die(args[0]);
    snprintf(back, sizeof(back), "-%s", args[2]);
    for (unsigned i = 0; goes_on(); i++) {
        uint64_t start_ns = now_ns();

        if (pread(count, text, sizeof(text), 0) <= 0)
            die(args[0]);
        printf("read %llu\n", (unsigned long long)(now_ns() - start_ns));
        if (i % 32 == 0) {
            start_ns = now_ns();
            if (write(target, args[2], strlen(args[2])) < 0)
                die("attach");
            printf("attach %llu\n", (unsigned long long)(now_ns() - start_ns));
            if (write(target, back, strlen(back)) < 0)
                die("detach");
        }
        sleep_us(1000);
    }
    return 0;
}

/* ---- what is attached to ---- */

static void *idle(void *arg)
{
    for (;;)
        pause();
    return arg;
}

static int threads(unsigned n)
{
    while (n-- > 0)
        thread_make(idle, NULL);
    puts("ready");
    fflush(stdout);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pause();
    return 0;
}

/* ---- who makes trouble ---- */

/* What pmcfs does, done by the user himself: an event on each thread. */
static void events_of(const char *pid)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof(attr),
        .config = PERF_COUNT_SW_PAGE_FAULTS,
        .exclude_kernel = 1,
        .inherit = 1,
    };
    static int fds[8192];
    unsigned n = 0;

    for (int tid = atoi(pid); n < 8192 && n < 5000; tid++) {
        int fd = (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);

        if (fd < 0 && (errno == EMFILE || tid > atoi(pid) + 20000))
            break;
        if (fd >= 0)
            fds[n++] = fd;
    }
    while (n > 0)
        close(fds[--n]);
}

static void attach_one(const char *pid)
{
    char path[4096], back[64];

    if (control) {
        while (goes_on())
            events_of(pid);
        return;
    }
    snprintf(back, sizeof(back), "-%s", pid);
    pmc_make(0, "event=page-faults");
    file_of(path, sizeof(path), 0, "target");
    while (goes_on()) {
        file_write(path, pid);
        file_write(path, back);
    }
    pmc_drop(0);
}

static void attach(const char *pid)
{
    together(16, attach_one, pid);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t woken = PTHREAD_COND_INITIALIZER;

static void *blocked(void *arg)
{
    char text[4096];
    int fd = control ? -1 : open(arg, O_RDONLY | O_CLOEXEC);

    while (goes_on()) {
        if (!control && read(fd, text, sizeof(text)) <= 0)
            sleep_us(10000);
        if (!control)
            continue;
        pthread_mutex_lock(&lock);
        pthread_cond_wait(&woken, &lock);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void readers(const char *argument)
{
    char path[4096] = "-";

    (void)argument;
    if (!control) {
        pmc_make(0, "event=cpu-clock period=1000000000 target=self");
        file_of(path, sizeof(path), 0, "samples");
    }
    for (unsigned i = 0; i < 1000; i++)
        thread_make(blocked, path);
    while (goes_on()) {
        sleep_us(50000);
        if (control)
            pthread_cond_broadcast(&woken);
        else
            file_write(path, "wake up");
    }
    if (!control)
        pmc_drop(0);
}

static void fork_one(const char *argument)
{
    (void)argument;
    while (goes_on()) {
        pid_t child = fork();

        if (child == 0) {
            pid_t grandchild = fork();
            if (grandchild > 0)
                waitpid(grandchild, NULL, 0);
            _exit(0);
        }
        if (child > 0)
            waitpid(child, NULL, 0);
    }
}

static void bomb(const char *argument)
{
    if (!control)
        pmc_make(0, "event=page-faults descendants=on log-exit=on target=self");
    together(64, fork_one, argument);
    if (!control)
        pmc_drop(0);
}

/* What pmcfs does, done by the user himself; of the sampled ones it has a ring. */
static void event_of(pid_t pid, bool sampled)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof(attr),
        .config = sampled ? PERF_COUNT_SW_CPU_CLOCK : PERF_COUNT_SW_PAGE_FAULTS,
        .sample_type = sampled ? PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN : 0,
        .freq = sampled,
        .sample_freq = sampled ? 99 : 0,
        .exclude_kernel = 1,
    };
    size_t size = 129 * (size_t)sysconf(_SC_PAGESIZE);
    int fd = (int)syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
    void *ring = fd >= 0 && sampled ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                                    : MAP_FAILED;

    if (ring != MAP_FAILED)
        munmap(ring, size);
    if (fd >= 0)
        close(fd);
}

static void exec_stuck(const char *program)
{
    char pid[32];
    pid_t stuck[16];

    for (unsigned i = 0; i < 16; i++)
        if ((stuck[i] = fork()) == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            execl(program, program, (char *)NULL);
            _exit(1);
        }
    sleep_us(100000);
    for (unsigned i = 0; !control && i < 16; i++)
        pmc_make(i, i % 2 ? "event=cpu-clock freq=99 callchain=on" : "event=page-faults");
    for (unsigned i = 0; goes_on(); i++) {
        char path[4096];

        snprintf(pid, sizeof(pid), "%d", (int)stuck[i % 16]);
        if (control)
            event_of(stuck[i % 16], i % 2);
        else if (file_write(file_of(path, sizeof(path), i % 16, "target"), pid) < 0)
            file_write(file_of(path, sizeof(path), i % 16, "ctl"), "detach");
    }
    for (unsigned i = 0; i < 16; i++) {
        kill(stuck[i], SIGKILL);
        if (!control)
            pmc_drop(i);
    }
}

static void *lookup_one(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    char path[4096];
    struct stat attr;

    while (goes_on()) {
        snprintf(path, sizeof(path), "%s/n%d", control ? "/dev/shm" : root, rand_r(&seed));
        stat(path, &attr);
    }
    return NULL;
}

static void lookups(const char *argument)
{
    pthread_t last = {0};

    (void)argument;
    for (uintptr_t i = 0; i < 64; i++)
        last = thread_make(lookup_one, (void *)i);
    pthread_join(last, NULL);
}

/* 10 MB at once, and as many bytes in commands as long as they may be. */
static void write_one(const char *argument)
{
    static const char *const files[] = {"config", "target", "event"};
    enum {
        ALL = 10 << 20,
        ONE = 128 << 10
    };
    char *text = malloc(ALL), path[4096];
    volatile unsigned n_written = 0;

    (void)argument;
    for (unsigned i = 0; i < ALL; i++)
        text[i] = i % 8 == 7 ? ' ' : (char)('1' + i % 8);
    for (unsigned i = ONE - 1; i < ALL; i += ONE)
        text[i] = '\n';
    for (unsigned i = 0; goes_on(); i++) {
        int fd;

        if (control)
            snprintf(path, sizeof(path), "/dev/shm/attack.%d", (int)getpid());
        else
            file_of(path, sizeof(path), 0, files[i % 3]);
        fd = open(path, O_WRONLY | O_CLOEXEC | (control ? O_CREAT : 0), 0600);
        n_written += pwrite(fd, text, ALL, 0) > 0; /* refused, as it has to be */
        for (unsigned n = 0; n < ALL / ONE && goes_on(); n++)
            n_written += pwrite(fd, text, ONE, 0) > 0;
        close(fd);
    }
    if (control)
        unlink(path);
    else
        pmc_drop(0);
}

static void writes(const char *argument)
{
    together(8, write_one, argument);
}

enum {
    PROCESSES = 4,
    EACH = 60 /* of 256 PMCs and 64 events on one process */
};

static void polls_some(const char *argument)
{
    struct pollfd polled[EACH];
    char path[4096], text[64];

    (void)argument;
    for (unsigned i = 0; i < EACH; i++) {
        if (!control)
            pmc_make(i, "event=page-faults notify=1 target=self");
        polled[i].fd = open(control ? "/proc/self/mounts" : file_of(path, sizeof(path), i, "count"),
                            O_RDONLY | O_CLOEXEC);
        polled[i].events = POLLPRI;
    }
    while (goes_on()) {
        free(memset(malloc(1 << 20), 1, 1 << 20)); /* faults */
        poll(polled, EACH, 1);
        for (unsigned i = 0; !control && i < EACH; i++)
            if (pread(polled[i].fd, text, sizeof(text), 0) < 0)
                break;
    }
    for (unsigned i = 0; !control && i < EACH; i++)
        pmc_drop(i);
}

static void polls(const char *argument)
{
    together(PROCESSES, polls_some, argument);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *word;
        void (*run)(const char *argument);
    } attacks[] = {
        {"attach", attach},   /* 16 at once, of the process ARGUMENT */
        {"readers", readers}, /* 1,000, blocked and woken together */
        {"bomb", bomb},       /* forks, under `descendants` and `log-exit` */
        {"exec", exec_stuck}, /* of the program ARGUMENT, which never can be read */
        {"lookups", lookups}, /* of names that are not there */
        {"writes", writes},   /* of 10 MB */
        {"polls", polls},     /* of the counts of nearly all PMCs that a user may have */
    };

    if (argc == 3 && strcmp(argv[1], "threads") == 0)
        return threads((unsigned)atoi(argv[2]));
    if (argc < 5)
        return 2;
    until_ns = now_ns() + (uint64_t)(atof(argv[2]) * 1e9);
    if (argc == 6 && strcmp(argv[1], "victim") == 0)
        return victim(argv + 3);
    root = argv[3];
    control = strcmp(root, "-") == 0;
    for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++)
        if (strcmp(argv[1], attacks[i].word) == 0) {
            attacks[i].run(argv[4]);
            return 0;
        }
    return 2;
}
