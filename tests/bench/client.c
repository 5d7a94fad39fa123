/*
 * The measuring program of the benchmark. An alternative is one operation on one object. Each round
 * runs all alternatives in turn, starting with another one each time, so that the ratio of two
 * alternatives is measured under the same conditions.
 *
 * client [-r rounds] [-n operations] OPERATION:ARGUMENT...
 *     prints a line "round NS..." for each round with the median of each alternative, then "p99
 * NS..." over all rounds and "size N...", the names or bytes of an operation
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ALTERNATIVES_MAX 8

static unsigned rounds = 100, operations = 200;

struct operation;

struct alternative {
    const struct operation *operation;
    char path[4096]; /* the rest of the argument after its numbers */
    unsigned long number[2];
    int fd;
    int *event;      /* descriptors of events */
    unsigned serial; /* for unused names */
    uint64_t size;
    uint64_t *sample_ns; /* of each operation in all rounds after the first */
    size_t n_samples;
};

struct operation {
    const char *name;
    const char *help;
    unsigned n_numbers; /* numbers before the path */
    void (*begin)(struct alternative *);
    uint64_t (*run)(struct alternative *); /* runs the operation and returns its nanoseconds */
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

/* ---- reading ---- */

static void held_begin(struct alternative *alt)
{
    alt->fd = open(alt->path, O_RDONLY | O_CLOEXEC);
    if (alt->fd < 0)
        die(alt->path);
}

static uint64_t pread_run(struct alternative *alt)
{
    uint64_t start_ns = now_ns();
    char text[128];

    if (pread(alt->fd, text, sizeof(text), 0) <= 0)
        die(alt->path);
    return now_ns() - start_ns;
}

static uint64_t open_run(struct alternative *alt)
{
    uint64_t start_ns = now_ns();
    char text[128];
    int fd = open(alt->path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || read(fd, text, sizeof(text)) <= 0)
        die(alt->path);
    close(fd);
    return now_ns() - start_ns;
}

/* Reads to the end, closes, and returns the number of bytes. */
static uint64_t read_all(int fd, const char *path)
{
    static char text[131072];
    uint64_t size = 0;
    ssize_t n;

    if (fd < 0)
        die(path);
    while ((n = read(fd, text, sizeof(text))) > 0)
        size += (uint64_t)n;
    if (n < 0)
        die(path);
    close(fd);
    return size;
}

static uint64_t file_run(struct alternative *alt)
{
    uint64_t start_ns = now_ns();

    alt->size = read_all(open(alt->path, O_RDONLY | O_CLOEXEC), alt->path);
    return now_ns() - start_ns;
}

/* Reads a file number[1] times, after number[0] ms each. Only the processor time of this program is
 * of interest. */
static uint64_t every_run(struct alternative *alt)
{
    uint64_t start_ns = now_ns();

    for (unsigned long i = 0; i < alt->number[1]; i++) {
        usleep((useconds_t)alt->number[0] * 1000);
        file_run(alt);
    }
    return now_ns() - start_ns;
}

static uint64_t list_run(struct alternative *alt)
{
    uint64_t start_ns = now_ns();
    DIR *dir = opendir(alt->path);

    if (!dir)
        die(alt->path);
    alt->size = 0;
    while (readdir(dir))
        alt->size++;
    closedir(dir);
    return now_ns() - start_ns;
}

static void *reader(void *arg)
{
    struct alternative *alt = arg;
    char text[128];
    int fd = open(alt->path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        die(alt->path);
    for (unsigned long i = 0; i < alt->number[1]; i++)
        if (pread(fd, text, sizeof(text), 0) <= 0)
            die(alt->path);
    close(fd);
    return NULL;
}

static uint64_t readers_run(struct alternative *alt)
{
    const unsigned long n = alt->number[0];
    pthread_t *thread = calloc(n, sizeof(*thread));
    uint64_t start_ns = now_ns();

    if (!thread)
        die("memory");
    for (unsigned long i = 0; i < n; i++)
        if (pthread_create(&thread[i], NULL, reader, alt) != 0)
            die("thread");
    for (unsigned long i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
    free(thread);
    return now_ns() - start_ns;
}

/* Fetches a page of an exporter. */
static uint64_t http_run(struct alternative *alt)
{
    static const char request[] =
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((uint16_t)alt->number[0])};
    uint64_t start_ns = now_ns();
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0 ||
        write(fd, request, sizeof(request) - 1) != sizeof(request) - 1)
        die("http");
    alt->size = read_all(fd, "http");
    return now_ns() - start_ns;
}

/* ---- the kernel's counters without a file system ---- */

static int event_open(unsigned long pid, bool disabled)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof(attr),
        .config = PERF_COUNT_SW_PAGE_FAULTS,
        .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
        .disabled = disabled,
        .inherit = 1,
    };
    int fd = (int)syscall(SYS_perf_event_open, &attr, (pid_t)pid, -1, -1, PERF_FLAG_FD_CLOEXEC);

    if (fd < 0)
        die("perf_event_open");
    return fd;
}

static void events_begin(struct alternative *alt)
{
    alt->event = calloc(alt->number[0], sizeof(int));
    for (unsigned long i = 0; alt->event && i < alt->number[0]; i++)
        alt->event[i] = event_open(alt->number[1], false);
}

static uint64_t events_run(struct alternative *alt)
{
    uint64_t start_ns = now_ns(), value[3];

    for (unsigned long i = 0; i < alt->number[0]; i++)
        if (read(alt->event[i], value, sizeof(value)) < 0)
            die("read of an event");
    return now_ns() - start_ns;
}

/* Opens an event for each thread of a process. */
static uint64_t opens_run(struct alternative *alt)
{
    static int fd[65536];
    char path[64];
    uint64_t ns, start_ns = now_ns();
    struct dirent *entry;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%lu/task", alt->number[0]);
    dir = opendir(path);
    alt->size = 0;
    while (dir && (entry = readdir(dir)) && alt->size < 65536)
        if (entry->d_name[0] != '.')
            fd[alt->size++] = event_open(strtoul(entry->d_name, NULL, 10), false);
    closedir(dir);
    ns = now_ns() - start_ns;
    for (uint64_t i = 0; i < alt->size; i++)
        close(fd[i]);
    return ns;
}

/* ---- creating and removing ---- */

static void put(const char *dir, const char *file, const char *text)
{
    char path[4200];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", dir, file);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        die(path);
    close(fd);
}

static const char *fresh(struct alternative *alt)
{
    static char path[4200];

    snprintf(path, sizeof(path), "%s/x%u", alt->path, alt->serial++);
    return path;
}

/* Points of time of creating a PMC, writing two of its files, and removing it. */
enum moment {
    BEFORE,
    MADE,
    SET,
    ATTACHED,
    REMOVED,
    MOMENTS
};

static uint64_t life(struct alternative *alt, const char *set, const char *target, enum moment from,
                     enum moment to)
{
    const char *path = fresh(alt);
    uint64_t at_ns[MOMENTS];
    char text[128];

    at_ns[BEFORE] = now_ns();
    if (mkdir(path, 0755) != 0)
        die(path);
    at_ns[MADE] = now_ns();
    snprintf(text, sizeof(text), "event=page-faults target=%lu\n", alt->number[0]);
    if (set)
        put(path, set, *target ? "page-faults\n" : text);
    at_ns[SET] = now_ns();
    if (*target)
        put(path, target, strrchr(text, '=') + 1);
    at_ns[ATTACHED] = now_ns();
    if (rmdir(path) != 0)
        die(path);
    at_ns[REMOVED] = now_ns();
    return at_ns[to] - at_ns[from];
}

static uint64_t make_run(struct alternative *alt)
{
    return life(alt, "config", "", BEFORE, REMOVED);
}

/* Runs make_run() on the floor file system, and opens, enables and closes an event for the process
 * number[0]. */
static uint64_t make_bare_run(struct alternative *alt)
{
    uint64_t start_ns = now_ns();
    int fd = event_open(alt->number[0], true);

    if (ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) != 0)
        die("enable");
    make_run(alt);
    close(fd);
    return now_ns() - start_ns;
}

static uint64_t attach_run(struct alternative *alt)
{
    return life(alt, "event", "target", SET, ATTACHED);
}

static uint64_t mkdir_run(struct alternative *alt)
{
    return life(alt, NULL, "", BEFORE, MADE);
}

static uint64_t rmdir_run(struct alternative *alt)
{
    return life(alt, NULL, "", ATTACHED, REMOVED);
}

/* Looks up a missing name, always another one, so that no cache answers. */
static uint64_t lookup_run(struct alternative *alt)
{
    const char *path = fresh(alt);
    uint64_t start_ns = now_ns();

    if (access(path, F_OK) == 0 || errno != ENOENT)
        die(path);
    return now_ns() - start_ns;
}

/* ---- commands ---- */

static void run_begin(struct alternative *alt)
{
    alt->fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
}

static uint64_t run_run(struct alternative *alt)
{
    char text[4096], *word[64] = {NULL}, *save;
    uint64_t start_ns;
    int status, n = 0;
    pid_t pid;

    memcpy(text, alt->path, sizeof(text));
    for (char *p = strtok_r(text, " ", &save); p && n < 63; p = strtok_r(NULL, " ", &save))
        word[n++] = p;
    start_ns = now_ns();
    pid = vfork();
    if (pid == 0) {
        dup2(alt->fd, STDOUT_FILENO);
        execvp(word[0], word);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        die(alt->path);
    return now_ns() - start_ns;
}

/* Returns the time from the start of a command to the first byte of its output. */
static uint64_t until_run(struct alternative *alt)
{
    uint64_t ns, start_ns = now_ns();
    FILE *out = popen(alt->path, "re");

    if (!out || fgetc(out) == EOF)
        die(alt->path);
    ns = now_ns() - start_ns;
    if (pclose(out) != 0)
        die(alt->path);
    return ns;
}

/* ---- rounds ---- */

static const struct operation all_operations[] = {
    {"pread", "FILE: of a file held open", 0, held_begin, pread_run},
    {"open", "FILE: open, read, close", 0, NULL, open_run},
    {"file", "FILE: open, read to its end, close", 0, NULL, file_run},
    {"every", "MS,READS,FILE: a file again after each MS", 2, NULL, every_run},
    {"list", "DIR: all names", 0, NULL, list_run},
    {"readers", "N,READS,FILE: preads of N threads", 2, NULL, readers_run},
    {"http", "PORT,: GET /metrics", 1, NULL, http_run},
    {"events", "N,PID,: read(2) of N events", 2, events_begin, events_run},
    {"opens", "PID,: an event for each thread", 1, NULL, opens_run},
    {"make", "PID,ROOT: mkdir, config, rmdir", 1, NULL, make_run},
    {"make-bare", "PID,ROOT: the same on floor, and an event", 1, NULL, make_bare_run},
    {"attach", "PID,ROOT: target of a new PMC", 1, NULL, attach_run},
    {"mkdir", "ROOT", 0, NULL, mkdir_run},
    {"rmdir", "ROOT", 0, NULL, rmdir_run},
    {"lookup", "ROOT: a name that is not there", 0, NULL, lookup_run},
    {"run", "COMMAND ARGUMENT...", 0, run_begin, run_run},
    {"until", "COMMAND: until its first output", 0, NULL, until_run},
};

static int misuse(void)
{
    fputs("usage: client [-r rounds] [-n operations] OPERATION:ARGUMENT...\n", stderr);
    for (size_t i = 0; i < sizeof(all_operations) / sizeof(all_operations[0]); i++)
        fprintf(stderr, "  %s:%s\n", all_operations[i].name, all_operations[i].help);
    return 2;
}

static bool alternative_parse(struct alternative *alt, const char *text)
{
    const char *colon = strchr(text, ':');
    char *end;

    *alt = (struct alternative){.fd = -1};
    for (size_t i = 0; colon && i < sizeof(all_operations) / sizeof(all_operations[0]); i++)
        if (strncmp(all_operations[i].name, text, (size_t)(colon - text)) == 0 &&
            all_operations[i].name[colon - text] == '\0')
            alt->operation = &all_operations[i];
    if (!alt->operation)
        return false;
    text = colon + 1;
    for (unsigned i = 0; i < alt->operation->n_numbers; i++) {
        alt->number[i] = strtoul(text, &end, 10);
        if (*end != ',')
            return false;
        text = end + 1;
    }
    snprintf(alt->path, sizeof(alt->path), "%s", text);
    alt->sample_ns = calloc((size_t)rounds * operations, sizeof(uint64_t));
    if (!alt->sample_ns)
        die("memory");
    return true;
}

static int compare_ns(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static uint64_t quantile(uint64_t *ns, size_t n, unsigned percent)
{
    qsort(ns, n, sizeof(*ns), compare_ns);
    return ns[(n * percent + 99) / 100 - 1];
}

/*
 * Moves to a CPU, another one for each value of `round`, and unpins the program again: the CPUs on
 * which client and server threads run have a large effect, and threads tend to stay there.
 */
static void hop(unsigned round)
{
    cpu_set_t all, one;

    if (sched_getaffinity(0, sizeof(all), &all) != 0)
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

static void one_turn(struct alternative *alt, bool keep)
{
    for (unsigned i = 0; i < operations; i++) {
        uint64_t ns = alt->operation->run(alt);

        if (keep)
            alt->sample_ns[alt->n_samples++] = ns;
    }
}

static void one_round(struct alternative *alts, unsigned n, unsigned round)
{
    for (unsigned i = 0; i < n; i++) {
        hop(round / n);
        one_turn(&alts[(i + round) % n], round > 0); /* the first round warms up */
    }
    for (unsigned i = 0; i < n && round > 0; i++)
        printf("%s%" PRIu64, i == 0 ? "round " : " ",
               quantile(alts[i].sample_ns + alts[i].n_samples - operations, operations, 50));
    if (round > 0)
        putchar('\n');
}

static int measure(int n, char **args)
{
    static struct alternative alts[ALTERNATIVES_MAX];

    if (n < 1 || n > ALTERNATIVES_MAX)
        return misuse();
    for (int i = 0; i < n; i++) {
        if (!alternative_parse(&alts[i], args[i]))
            return misuse();
        if (alts[i].operation->begin)
            alts[i].operation->begin(&alts[i]);
    }
    for (unsigned round = 0; round <= rounds; round++)
        one_round(alts, (unsigned)n, round);
    for (int i = 0; i < n; i++)
        printf("%s%" PRIu64, i == 0 ? "p99 " : " ",
               quantile(alts[i].sample_ns, alts[i].n_samples, 99));
    for (int i = 0; i < n; i++)
        printf("%s%" PRIu64, i == 0 ? "\nsize " : " ", alts[i].size);
    putchar('\n');
    return 0;
}

int main(int argc, char **argv)
{
    int opt;

    while ((opt = getopt(argc, argv, "+r:n:")) != -1) {
        if (opt == 'r')
            rounds = (unsigned)strtoul(optarg, NULL, 10);
        else if (opt == 'n')
            operations = (unsigned)strtoul(optarg, NULL, 10);
        else
            return misuse();
    }
    if (rounds == 0 || operations == 0)
        return misuse();
    return measure(argc - optind, argv + optind);
}
