/*
 * Users of a mount whose worker is killed repeatedly. Reports each failed call, each wrong byte and
 * each effect that happened twice.
 *
 *     kills MOUNT SUPERVISOR KILLS MIN_US MAX_US [SIGNAL]
 *
 * KILLS is a number, or a duration as "30s"; between two kills MIN_US to MAX_US pass. With SIGNAL 0
 * nothing is killed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef MANY
#define MANY 1000
#endif

static const char *mount;
static pid_t supervisor;
static atomic_bool ending;
static atomic_uint failures;
static atomic_ulong calls, made;

__attribute__((format(printf, 1, 2))) static void failed(const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (failures++ < 40)
        fprintf(stderr, "FAILED: %s\n", text);
}

static uint64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

__attribute__((format(printf, 2, 3))) static const char *path(char *to, const char *format, ...)
{
    char name[256];
    va_list args;

    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    snprintf(to, 512, "%s/%s", mount, name);
    return to;
}

static int opened(const char *name, int flags)
{
    char at[512];
    int fd = open(path(at, "%s", name), flags | O_CLOEXEC);

    calls++;
    if (fd < 0)
        failed("open %s: %s", name, strerror(errno));
    return fd;
}

/* Writes text to a file of a PMC. Reports a failure and returns false; ESRCH is not reported if
 * `gone` is set, because then the target may have exited. */
static bool put_of(const char *name, const char *text, bool gone)
{
    int fd = opened(name, O_WRONLY);
    const size_t len = strlen(text);
    bool fine = fd >= 0 && write(fd, text, len) == (ssize_t)len;

    calls++;
    if (fd >= 0 && !fine && !(gone && errno == ESRCH))
        failed("write \"%s\" to %s: %s", text, name, strerror(errno));
    if (fd >= 0)
        close(fd);
    return fine;
}

static bool put(const char *name, const char *text)
{
    return put_of(name, text, false);
}

static ssize_t get(const char *name, char *to, size_t size)
{
    int fd = opened(name, O_RDONLY);
    size_t len = 0;
    ssize_t n = -1;

    while (fd >= 0 && (n = read(fd, to + len, size - 1 - len)) > 0)
        len += (size_t)n;
    calls++;
    if (fd >= 0 && n < 0)
        failed("read %s: %s", name, strerror(errno));
    to[len] = '\0';
    if (fd >= 0)
        close(fd);
    return n < 0 ? -1 : (ssize_t)len;
}

static uint64_t number(const char *name, const char *text)
{
    char *end;
    uint64_t value = strtoull(text, &end, 10);

    if (end == text || strcmp(end, "\n") != 0)
        failed("%s gives \"%s\"", name, text);
    return value;
}

/* ---- the users ---- */

static void *reads_count(void *arg)
{
    char text[256];
    uint64_t last = 0, value;

    (void)arg;
    while (!ending) {
        if (get("run/count", text, sizeof text) < 0)
            continue;
        value = number("count", text);
        if (value < last)
            failed("count went back from %lu to %lu", (unsigned long)last, (unsigned long)value);
        last = value;
    }
    return NULL;
}

/* The first read after a write returns the replaced value. */
static void *exchanges(void *arg)
{
    const int fd = opened("exchanged/count", O_RDWR);
    char text[64];

    (void)arg;
    for (uint64_t i = 1; fd >= 0 && !ending; i++) {
        const int len = snprintf(text, sizeof text, "%lu\n", (unsigned long)i);
        ssize_t n = pwrite(fd, text, (size_t)len, 0);

        if (n == len)
            n = pread(fd, text, sizeof text - 1, 0);
        text[n > 0 ? n : 0] = '\0';
        calls += 2;
        if (number("exchanged/count", text) != i - 1)
            failed("write %lu replaced %s", (unsigned long)i, text);
    }
    close(fd);
    return NULL;
}

static void *reads_status(void *arg)
{
    char text[8192];

    (void)arg;
    while (!ending)
        if (get("fixed/status", text, sizeof text) >= 0 && strncmp(text, "name fixed\n", 11) != 0)
            failed("status begins \"%.20s\"", text);
    return NULL;
}

/* Reads README in small pieces, which must be one text. */
static void *reads_readme(void *arg)
{
    static char whole[65536];
    ssize_t size = get("README", whole, sizeof whole);
    char piece[700];

    (void)arg;
    while (!ending) {
        int fd = opened("README", O_RDONLY);
        ssize_t n, at = 0;

        while (fd >= 0 && (n = read(fd, piece, sizeof piece)) > 0 && ++calls) {
            if (at + n > size || memcmp(whole + at, piece, (size_t)n) != 0)
                failed("README is another at %zd", at);
            at += n;
        }
        if (fd >= 0 && at != size)
            failed("README ended at %zd of %zd", at, size);
        if (fd >= 0)
            close(fd);
    }
    return NULL;
}

static void *reads_held(void *arg)
{
    int fd = opened("fixed/count", O_RDONLY);
    char text[64];

    (void)arg;
    while (!ending) {
        ssize_t n = pread(fd, text, sizeof text, 0);

        calls++;
        if (n != 7 || memcmp(text, "123456\n", 7) != 0)
            failed("pread: %zd %s %.7s", n, n < 0 ? strerror(errno) : "", n > 0 ? text : "");
        usleep(200);
    }
    close(fd);
    return NULL;
}

static void *makes(void *arg)
{
    char at[512], to[512], text[256];

    (void)arg;
    for (unsigned i = 0; !ending; i++) {
        calls += 3;
        if (mkdir(path(at, "made%u", i), 0700) < 0)
            failed("mkdir made%u: %s", i, strerror(errno));
        snprintf(text, sizeof text, "event=page-faults count=7 target=%d\n", getpid());
        snprintf(to, sizeof to, "made%u/config", i);
        put(to, text);
        snprintf(to, sizeof to, "made%u/ctl", i);
        put(to, "stop");
        put(to, "start");
        snprintf(to, sizeof to, "made%u/count", i);
        if (get(to, text, sizeof text) > 0 && number(to, text) < 7)
            failed("%s gives %s", to, text);
        if (rename(path(at, "made%u", i), path(to, "moved%u", i)) < 0)
            failed("rename made%u: %s", i, strerror(errno));
        if (rmdir(path(at, "moved%u", i)) < 0)
            failed("rmdir moved%u: %s", i, strerror(errno));
        made++;
    }
    return NULL;
}

/* Starts a process that waits until *gate is closed, and then forks three children; all of them
 * execute a program and exit. */
static pid_t family_start(int *gate)
{
    static const char text[] = "read _; for i in 1 2 3; do (/bin/true; :) & done; wait; "
                               "exec /bin/true";
    char *argv[] = {(char *)"sh", (char *)"-c", (char *)text, NULL};
    posix_spawn_file_actions_t actions;
    int ends[2];
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) < 0)
        exit(2);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[0], 0);
    if (posix_spawn(&pid, "/bin/sh", &actions, NULL, argv, environ) != 0)
        exit(2);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[0]);
    *gate = ends[1];
    return pid;
}

/*
 * Attaches the PMC to a new family (family_start()), `before` its gate is closed or right after it,
 * and waits until all have exited. Then the log has an end, and is not empty.
 */
static void follow(const char *name, bool before)
{
    static char text[1 << 20];
    char file[300], number_text[32];
    int gate;
    const pid_t pid = family_start(&gate);

    if (!before)
        close(gate);
    snprintf(file, sizeof file, "%s/target", name);
    snprintf(number_text, sizeof number_text, "%d\n", pid);
    const bool attached = put_of(file, number_text, !before);
    if (before)
        close(gate);
    waitpid(pid, NULL, 0);
    snprintf(file, sizeof file, "%s/samples", name);
    if (attached && get(file, text, sizeof text) <= 0)
        failed("%s is empty", file);
    snprintf(file, sizeof file, "%s/count", name);
    if (get(file, text, sizeof text) > 0 && number(file, text) == 0 && before)
        failed("%s is 0", file);
}

static void *follows(void *arg)
{
    char at[512], name[64], file[80];

    (void)arg;
    for (unsigned i = 0; !ending; i++) {
        snprintf(name, sizeof name, "family%u", i);
        calls += 2;
        if (mkdir(path(at, "%s", name), 0700) < 0)
            failed("mkdir %s: %s", name, strerror(errno));
        snprintf(file, sizeof file, "%s/config", name);
        put(file, "event=page-faults descendants=on log-exit=on log-csw=on\n");
        follow(name, i % 2);
        if (rmdir(at) < 0)
            failed("rmdir %s: %s", name, strerror(errno));
        made++;
    }
    return NULL;
}

static void *lists(void *arg)
{
    char at[512];
    static bool seen[MANY];

    (void)arg;
    while (!ending) {
        DIR *dir = opendir(path(at, "instances/many"));
        unsigned n = 0, which;

        calls++;
        if (!dir) {
            failed("opendir: %s", strerror(errno));
            continue;
        }
        memset(seen, 0, sizeof seen);
        errno = 0;
        for (struct dirent *entry; (entry = readdir(dir));) {
            if (sscanf(entry->d_name, "m%u", &which) != 1 || strncmp(entry->d_name, "met", 3) == 0)
                continue;
            if (which >= MANY || seen[which])
                failed("readdir: %s twice", entry->d_name);
            else
                seen[which] = true;
            n++;
        }
        if (errno)
            failed("readdir: %s", strerror(errno));
        if (n != MANY)
            failed("readdir: %u of %u", n, MANY);
        closedir(dir);
        usleep(20000);
    }
    return NULL;
}

/* Stops and starts the PMC that polls() polls in another thread. */
static void *toggles(void *arg)
{
    (void)arg;
    while (!ending) {
        usleep(3000);
        put("toggled/ctl", "stop");
        usleep(3000);
        put("toggled/ctl", "start");
    }
    return NULL;
}

static void *polls(void *arg)
{
    int fd = opened("toggled/ctl", O_RDONLY);
    char text[64];

    (void)arg;
    while (!ending) {
        struct pollfd wait = {.fd = fd, .events = POLLPRI};
        int n = 0;

        for (unsigned i = 0; i < 120 && n == 0 && !ending; i++)
            n = poll(&wait, 1, 500);
        calls += 2;
        if (n == 0 && !ending)
            failed("a poller was not woken");
        else if (n < 0)
            failed("poll: %s", strerror(errno));
        if (pread(fd, text, sizeof text, 0) <= 0)
            failed("read ctl: %s", strerror(errno));
    }
    close(fd);
    return NULL;
}

static void *reads_series(void *arg)
{
    int fd = opened("run/series", O_RDONLY);
    FILE *file = fdopen(fd, "r");
    char line[512];
    double last = 0, at;

    (void)arg;
    while (!ending && fgets(line, sizeof line, file)) {
        calls++;
        if (line[0] == '#')
            continue;
        if (sscanf(line, "%lf", &at) != 1 || line[strlen(line) - 1] != '\n')
            failed("series: \"%s\"", line);
        else if (at <= last)
            failed("series: %f after %f", at, last);
        last = at;
    }
    if (!ending)
        failed("series ended: %s", strerror(errno));
    fclose(file);
    return NULL;
}

/* The number of the last remark that writes_log() wrote; reads_log() reads each remark once. */
static atomic_uint written;

static void *writes_log(void *arg)
{
    int fd = opened("logged/samples", O_WRONLY);
    char text[32];

    (void)arg;
    for (unsigned i = 1; !ending; i++) {
        snprintf(text, sizeof text, "n%u\n", i);
        calls++;
        if (write(fd, text, strlen(text)) < 0)
            failed("write to samples: %s", strerror(errno));
        written = i;
        usleep(500);
    }
    close(fd);
    return NULL;
}

static void *reads_log(void *arg)
{
    int fd = opened("logged/samples", O_RDONLY);
    FILE *file = fdopen(fd, "r");
    char line[1024];
    unsigned next = 1, n;

    (void)arg;
    while (fgets(line, sizeof line, file)) {
        const char *at = strstr(line, " user ");

        calls++;
        if (line[strlen(line) - 1] != '\n')
            failed("samples: half a line: \"%s\"", line);
        if (!at || !(at = strstr(at, "text=n")))
            continue;
        if (sscanf(at, "text=n%u", &n) != 1 || n != next)
            failed("samples: \"%s\" instead of n%u", line, next);
        next = n + 1;
    }
    if (ferror(file))
        failed("samples: %s", strerror(errno));
    if (next != written + 1)
        failed("samples ended before n%u of %u", next, written);
    fclose(file);
    return NULL;
}

/* ---- counts ---- */

static pid_t faulter;
static int faulter_in[2];

static void faults(void)
{
    const size_t size = 64 * 4096;
    char byte;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(faulter_in[1]);
    while (read(faulter_in[0], &byte, 1) == 1) {
        char *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        madvise(pages, size, MADV_NOHUGEPAGE);
        for (size_t at = 0; at < size; at += 4096)
            pages[at] = 1;
        munmap(pages, size);
    }
    _exit(0);
}

static void *makes_faults(void *arg)
{
    (void)arg;
    while (!ending) {
        if (write(faulter_in[1], "x", 1) != 1)
            break;
        usleep(1000);
    }
    return NULL;
}

static int control_open(pid_t pid)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE, .size = sizeof attr, .config = PERF_COUNT_SW_PAGE_FAULTS};

    return (int)syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* ---- kills ---- */

#define KILLS_KEPT 10000

/* Returns the worker, or 0 if there is none or more than one candidate. */
static pid_t worker(void)
{
    char name[64], text[256] = "";
    int pid = 0, more;
    FILE *file;

    snprintf(name, sizeof name, "/proc/%d/task/%d/children", supervisor, supervisor);
    file = fopen(name, "re");
    if (!file)
        return 0;
    if (!fgets(text, sizeof text, file))
        text[0] = '\0';
    fclose(file);
    return sscanf(text, "%d %d", &pid, &more) == 1 ? pid : 0;
}

static int later(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void report_kills(uint64_t *took, unsigned done)
{
    const unsigned n = done < KILLS_KEPT ? done : KILLS_KEPT;

    qsort(took, n, sizeof *took, later);
    if (n)
        printf("%u kills: to the next good read p50 %.1f ms, p99 %.1f ms, most %.1f ms\n", done,
               (double)took[n / 2] / 1e3, (double)took[n * 99 / 100] / 1e3,
               (double)took[n - 1] / 1e3);
}

static void kills(const char *how_many, unsigned min_us, unsigned max_us, int number)
{
    static uint64_t took[KILLS_KEPT]; /* us from each of the last kills to the next answered read */
    int fd = opened("fixed/count", O_RDONLY);
    char text[64], *end;
    const unsigned long n = strtoul(how_many, &end, 10);
    const uint64_t until = *end == 's' ? now_us() + n * 1000000 : UINT64_MAX;
    unsigned done = 0;

    srand(1);
    while (until == UINT64_MAX ? done < n : now_us() < until) {
        usleep(min_us + (unsigned)rand() % (max_us - min_us + 1));
        pid_t pid = number ? worker() : 0;
        if (pid <= 0 || kill(pid, number) < 0)
            continue;
        const uint64_t at = now_us();
        if (pread(fd, text, sizeof text, 0) != 7)
            failed("pread after a kill: %s", strerror(errno));
        took[done++ % KILLS_KEPT] = now_us() - at;
    }
    close(fd);
    report_kills(took, done);
}

static uint64_t count_of(const char *name)
{
    char text[256];

    return get(name, text, sizeof text) > 0 ? number(name, text) : 0;
}

static void prepare(void)
{
    char at[512], text[128];

    mkdir(path(at, "run"), 0755);
    mkdir(path(at, "fixed"), 0755);
    mkdir(path(at, "toggled"), 0755);
    mkdir(path(at, "logged"), 0755);
    mkdir(path(at, "sampled"), 0755);
    mkdir(path(at, "instances/many"), 0755);
    put("fixed/config", "event=page-faults count=123456\n");
    mkdir(path(at, "exchanged"), 0755);
    put("exchanged/config", "event=page-faults\n");
    put("run/config", "event=page-faults interval=20\n");
    put("toggled/config", "event=page-faults\n");
    put("logged/config", "event=page-faults log-exit=on\n");
    put("sampled/config", "event=page-faults period=1 logsize=4194304\n");
    put("admin/tunables/max_pmcs_per_user", "2000\n");
    for (unsigned i = 0; i < MANY; i++)
        if (mkdir(path(at, "instances/many/m%u", i), 0755) < 0)
            failed("mkdir m%u: %s", i, strerror(errno));
    if (pipe2(faulter_in, O_CLOEXEC) < 0 || (faulter = fork()) < 0)
        exit(2);
    if (faulter == 0)
        faults();
    snprintf(text, sizeof text, "%d\n", faulter);
    put("run/target", text);
    put("toggled/target", text);
    put("logged/target", text);
    put("sampled/target", text);
}

static void leave(void)
{
    static const char *const names[] = {"run",    "fixed",   "toggled",
                                        "logged", "sampled", "exchanged"};
    char at[512];

    for (unsigned i = 0; i < MANY; i++)
        if (rmdir(path(at, "instances/many/m%u", i)) < 0)
            failed("rmdir m%u: %s", i, strerror(errno));
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (rmdir(path(at, "%s", names[i])) < 0)
            failed("rmdir %s: %s", names[i], strerror(errno));
    if (rmdir(path(at, "instances/many")) < 0)
        failed("rmdir many: %s", strerror(errno));
}

/* Numbers of samples, of samples lost in drop records, and of lines older than the line before. */
static unsigned long samples, dropped, times;

static void *reads_samples(void *arg)
{
    int fd = opened("sampled/samples", O_RDONLY);
    FILE *file = fdopen(fd, "r");
    char line[1024], *at;
    double last = 0, time;

    (void)arg;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%lf", &time) == 1) {
            times += time < last;
            last = time;
        }
        samples += strstr(line, " sample ") != NULL;
        if (strstr(line, " drop ") && (at = strstr(line, "lost="))) {
            dropped += strtoul(at + 5, NULL, 10);
            printf("  %s", line);
        }
    }
    if (ferror(file))
        failed("sampled: %s", strerror(errno));
    fclose(file);
    return NULL;
}

static unsigned long status_number(const char *status, const char *key)
{
    const char *at = strstr(status, key);

    return at ? strtoul(at + strlen(key), NULL, 10) : 0;
}

static void sampled_check(uint64_t counted)
{
    char status[8192] = "";

    const bool read = get("sampled/status", status, sizeof status) >= 0;
    const unsigned long lost =
        status_number(status, "\nkernel_lost ") + status_number(status, "\nlog_lost ");

    printf("samples %lu, dropped %lu, lost %lu, counted %lu, back in time %lu\n", samples, dropped,
           lost, (unsigned long)counted, times);
    if (!read || times || samples > counted || samples + lost < counted ||
        samples + dropped < counted)
        failed("samples do not add up: %s", status);
}

int main(int argc, char **argv)
{
    void *(*const users[])(void *) = {reads_count,   reads_count,  reads_status, reads_readme,
                                      reads_held,    makes,        lists,        toggles,
                                      polls,         reads_series, writes_log,   reads_log,
                                      reads_samples, makes_faults, exchanges,    follows};
    pthread_t threads[sizeof users / sizeof *users];

    if (argc < 6)
        return 2;
    mount = argv[1];
    supervisor = atoi(argv[2]);
    prepare();
    int control = control_open(faulter);
    const uint64_t before = count_of("run/count");
    uint64_t control_count = 0;
    for (size_t i = 0; i < sizeof users / sizeof *users; i++)
        pthread_create(&threads[i], NULL, users[i], NULL);
    kills(argv[3], (unsigned)atoi(argv[4]), (unsigned)atoi(argv[5]),
          argc > 6 ? atoi(argv[6]) : SIGKILL);
    usleep(200000);
    ending = true;
    for (size_t i = 0; i < sizeof users / sizeof *users; i++) {
        if (users[i] == reads_log)
            put("logged/ctl", "stop");
        if (users[i] != reads_series && users[i] != reads_samples)
            pthread_join(threads[i], NULL);
    }
    close(faulter_in[1]);
    /* Bytes may be left in the pipe: both counts are read after the last fault of the faulter. */
    waitpid(faulter, NULL, 0);
    usleep(100000);
    const uint64_t counted = count_of("run/count");
    if (read(control, &control_count, sizeof control_count) != sizeof control_count)
        failed("control: %s", strerror(errno));
    printf("page faults: %lu, control %lu\n", (unsigned long)(counted - before),
           (unsigned long)control_count);
    if (counted - before != control_count)
        failed("counts differ");
    for (size_t i = 0; i < sizeof users / sizeof *users; i++)
        if (users[i] == reads_samples)
            pthread_join(threads[i], NULL);
    sampled_check(count_of("sampled/count"));
    leave();
    for (size_t i = 0; i < sizeof users / sizeof *users; i++)
        if (users[i] == reads_series)
            pthread_join(threads[i], NULL);
    printf("%lu calls, %lu directories made and removed, %u failures\n", (unsigned long)calls,
           (unsigned long)made, (unsigned)failures);
    return failures ? 1 : 0;
}
