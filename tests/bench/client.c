/*
 * The measuring side of the benchmark. Rounds go round-robin over all files named, so that a ratio
 * between two of them comes from the same moments of the same machine.
 *
 * client [-c cpu] [-r rounds] [-n operations] [-t threads] WHAT ARGUMENT...
 *   pread FILE...           p50 and p99 in nanoseconds of a pread of a held file; one line a FILE
 *   open FILE...            the same of open, read and close
 *   list DIR...             the same of reading a whole directory, and the number of its names
 *   parallel FILE...        reads a second of `threads` readers together
 *   requests STATS FILE     requests per pread, and per open+read+close, by the counter in STATS
 *   make ROOT N PID...      makes N PMCs m00000... that count the page faults of the PIDs in turn
 *   ready COMMAND...        nanoseconds from exec of COMMAND to its end; its exit status
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FILES_MAX 8

static unsigned rounds = 100, operations = 200, threads = 4;
static int cpu = -1;

struct subject {
    const char *path;
    int fd;
    uint64_t *sample_ns;
    size_t n_samples;
    uint64_t result; /* names of a directory, reads a second */
};

static void die(const char *what)
{
    fprintf(stderr, "client: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- the operations ---- */

static void do_pread(struct subject *subject)
{
    char text[128];

    if (pread(subject->fd, text, sizeof(text), 0) <= 0)
        die(subject->path);
}

static void do_open(struct subject *subject)
{
    char text[128];
    int fd = open(subject->path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || read(fd, text, sizeof(text)) <= 0)
        die(subject->path);
    close(fd);
}

static void do_list(struct subject *subject)
{
    DIR *dir = opendir(subject->path);

    if (!dir)
        die(subject->path);
    subject->result = 0;
    while (readdir(dir))
        subject->result++;
    closedir(dir);
}

/* ---- latency ---- */

static int compare_ns(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void subject_open(struct subject *subject, const char *path)
{
    *subject = (struct subject){.path = path};
    subject->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (subject->fd < 0)
        die(path);
    subject->sample_ns = calloc((size_t)rounds * operations, sizeof(uint64_t));
    if (!subject->sample_ns)
        die("memory");
}

static void subject_round(struct subject *subject, void (*op)(struct subject *), bool keep)
{
    for (unsigned i = 0; i < operations; i++) {
        uint64_t start_ns = now_ns();

        op(subject);
        if (keep)
            subject->sample_ns[subject->n_samples++] = now_ns() - start_ns;
    }
}

static void subject_print(struct subject *subject)
{
    const size_t n = subject->n_samples;

    qsort(subject->sample_ns, n, sizeof(uint64_t), compare_ns);
    printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", subject->sample_ns[n / 2],
           subject->sample_ns[n * 99 / 100], subject->result);
    free(subject->sample_ns);
    close(subject->fd);
}

/*
 * Where client and server threads end up decides more than anything they do, and they tend to stay
 * there. So each turn begins on another CPU, the same for all files of a round, and goes free
 * again.
 */
static void hop(unsigned round)
{
    cpu_set_t all, one;

    if (cpu >= 0 || sched_getaffinity(0, sizeof(all), &all) != 0)
        return;
    for (unsigned i = 0, left = round % (unsigned)CPU_COUNT(&all);; i++) {
        if (!CPU_ISSET(i, &all) || left-- > 0)
            continue;
        CPU_ZERO(&one);
        CPU_SET(i, &one);
        sched_setaffinity(0, sizeof(one), &one);
        break;
    }
    sched_setaffinity(0, sizeof(all), &all);
}

static int measure(int n, char **paths, void (*op)(struct subject *))
{
    struct subject subject[FILES_MAX];

    if (n < 1 || n > FILES_MAX)
        return 2;
    for (int i = 0; i < n; i++)
        subject_open(&subject[i], paths[i]);
    for (unsigned round = 0; round <= rounds; round++) /* the first one warms up */
        for (int i = 0; i < n; i++) {
            hop(round / (unsigned)n);
            subject_round(&subject[((unsigned)i + round) % (unsigned)n], op, round > 0);
        }
    for (int i = 0; i < n; i++)
        subject_print(&subject[i]);
    return 0;
}

static int measure_pread(int n, char **args)
{
    return measure(n, args, do_pread);
}

static int measure_open(int n, char **args)
{
    return measure(n, args, do_open);
}

static int measure_list(int n, char **args)
{
    return measure(n, args, do_list);
}

/* ---- throughput ---- */

static void *reader(void *arg)
{
    struct subject own = *(const struct subject *)arg;

    own.fd = open(own.path, O_RDONLY | O_CLOEXEC);
    if (own.fd < 0)
        die(own.path);
    subject_round(&own, do_pread, false);
    close(own.fd);
    return NULL;
}

static uint64_t parallel_ns(struct subject *subject)
{
    pthread_t *thread = calloc(threads, sizeof(*thread));
    uint64_t start_ns = now_ns();

    if (!thread)
        die("memory");
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&thread[i], NULL, reader, subject) != 0)
            die("thread");
    for (unsigned i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    free(thread);
    return now_ns() - start_ns;
}

static int measure_parallel(int n, char **paths)
{
    uint64_t total_ns[FILES_MAX] = {0};

    if (n < 1 || n > FILES_MAX)
        return 2;
    for (unsigned round = 0; round < rounds; round++)
        for (int i = 0; i < n; i++)
            total_ns[i] += parallel_ns(&(struct subject){.path = paths[i]});
    for (int i = 0; i < n; i++)
        printf("%.0f\n", (double)rounds * operations * threads * 1e9 / (double)total_ns[i]);
    return 0;
}

/* ---- requests per operation ---- */

/* STATS is either one number, or "name value" lines of which the one named requests counts. */
static uint64_t requests_now(const char *stats)
{
    char text[16384];
    const char *p = text;
    int fd = open(stats, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (n <= 0)
        die(stats);
    text[n] = '\0';
    close(fd);
    if (text[0] < '0' || text[0] > '9') {
        p = strncmp(text, "requests ", 9) == 0 ? text : strstr(text, "\nrequests ");
        if (!p) {
            errno = ENODATA;
            die(stats);
        }
        p += strcspn(p, "0123456789");
    }
    return strtoull(p, NULL, 10);
}

static void requests_of(const char *stats, struct subject *subject, void (*op)(struct subject *))
{
    uint64_t idle, before;

    op(subject); /* names and attributes are cached from here on */
    before = requests_now(stats);
    idle = requests_now(stats) - before; /* what looking at STATS costs */
    before = requests_now(stats);
    subject_round(subject, op, false);
    printf("%.3f\n", (double)(requests_now(stats) - before - idle) / operations);
}

static int measure_requests(int n, char **args)
{
    struct subject subject;

    if (n != 2)
        return 2;
    subject_open(&subject, args[1]);
    requests_of(args[0], &subject, do_pread);
    requests_of(args[0], &subject, do_open);
    free(subject.sample_ns);
    close(subject.fd);
    return 0;
}

/* ---- setting up, and being ready ---- */

static int make_pmcs(int n, char **args)
{
    const int n_pids = n - 2;
    char path[4096], text[128];
    unsigned long wanted;

    if (n_pids < 1)
        return 2;
    wanted = strtoul(args[1], NULL, 10);
    for (unsigned long i = 0; i < wanted; i++) {
        int fd, len;

        snprintf(path, sizeof(path), "%s/m%05lu", args[0], i);
        if (mkdir(path, 0755) != 0)
            die(path);
        snprintf(path, sizeof(path), "%s/m%05lu/config", args[0], i);
        len = snprintf(text, sizeof(text), "event=page-faults target=%s\n",
                       args[2 + i % (unsigned long)n_pids]);
        fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, text, (size_t)len) != len)
            die(path);
        close(fd);
    }
    return 0;
}

static int measure_ready(int n, char **args)
{
    uint64_t start_ns = now_ns();
    pid_t pid;
    int status;

    if (n < 1)
        return 2;
    pid = vfork();
    if (pid == 0) {
        execvp(args[0], args);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        die(args[0]);
    printf("%" PRIu64 "\n", now_ns() - start_ns);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static const struct {
    const char *name;
    int (*run)(int n, char **args);
} commands[] = {
    {"pread", measure_pread},       {"open", measure_open},         {"list", measure_list},
    {"parallel", measure_parallel}, {"requests", measure_requests}, {"make", make_pmcs},
    {"ready", measure_ready},
};

static void pin(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0)
        die("pinning to a CPU");
}

int main(int argc, char **argv)
{
    int opt;

    while ((opt = getopt(argc, argv, "+c:r:n:t:")) != -1) {
        switch (opt) {
        case 'c':
            cpu = atoi(optarg);
            break;
        case 'r':
            rounds = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'n':
            operations = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 't':
            threads = (unsigned)strtoul(optarg, NULL, 10);
            break;
        default:
            return 2;
        }
    }
    if (rounds == 0 || operations == 0 || threads == 0) {
        fprintf(stderr, "client: rounds, operations and threads are at least 1\n");
        return 2;
    }
    if (cpu >= 0)
        pin();
    for (size_t i = 0; optind < argc && i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(commands[i].name, argv[optind]) == 0)
            return commands[i].run(argc - optind - 1, argv + optind + 1);
    fprintf(stderr, "client: pread, open, list, parallel, requests, make or ready\n");
    return 2;
}
