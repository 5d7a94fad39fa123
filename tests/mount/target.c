/*
 * A program for counting. It executes the commands on its standard input and answers each with one
 * line, so that a test knows all events between two reads of a counter.
 *
 *   faults N      the main thread touches N fresh pages       threads N   N more threads, idle
 *   each N        every other thread touches N fresh pages    end N       N of these threads exit
 *   spin MS       the main thread uses MS ms of CPU time      spineach MS every other thread does
 *   child N       a child touches N pages and exits           children K N   K children at once
 *   stay N        a child touches N pages and stays           bear        that child touches N more
 *   sleep N       the main thread sleeps N times (switches)   exec        run this program again
 *   usage         page faults of this process so far (getrusage)
 *   disturb CPU MS  enables and disables an event on the CPU for this time
 *   run FILE      exec FILE instead                           quit        exit
 * Answers are "ok" or a number. It also exits at the end of its standard input.
 */
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 1024

enum order {
    ORDER_NONE,
    ORDER_FAULTS,
    ORDER_SPIN,
    ORDER_END
};

struct worker {
    pthread_t thread;
    enum order order;
    unsigned long arg;
    bool alive;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t given = PTHREAD_COND_INITIALIZER;
static pthread_cond_t done = PTHREAD_COND_INITIALIZER;
static struct worker workers[THREADS_MAX];
static unsigned n_workers;
static pid_t stayed;
static int stayed_pipe[2];

/* Touches fresh pages, without huge pages, which would merge many faults into one. */
static void touch_pages(unsigned long pages)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *p =
        mmap(NULL, pages * page + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        exit(3);
    madvise(p, pages * page + page, MADV_NOHUGEPAGE);
    for (unsigned long i = 0; i < pages; i++)
        ((volatile char *)p)[i * page] = 1;
    munmap(p, pages * page + page);
}

static void spin_ms(unsigned long ms)
{
    struct timespec now;
    unsigned long long start;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    start = (unsigned long long)now.tv_sec * 1000000000ULL + (unsigned long long)now.tv_nsec;
    do {
        for (volatile int i = 0; i < 10000; i++)
            ;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while ((unsigned long long)now.tv_sec * 1000000000ULL + (unsigned long long)now.tv_nsec <
             start + ms * 1000000ULL);
}

static void *work(void *arg)
{
    struct worker *w = arg;

    pthread_mutex_lock(&lock);
    while (w->order != ORDER_END) {
        enum order order = w->order;
        unsigned long n = w->arg;

        if (order == ORDER_NONE) {
            pthread_cond_wait(&given, &lock);
            continue;
        }
        pthread_mutex_unlock(&lock);
        if (order == ORDER_FAULTS)
            touch_pages(n);
        else
            spin_ms(n);
        pthread_mutex_lock(&lock);
        w->order = ORDER_NONE;
        pthread_cond_broadcast(&done);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void order_all(enum order order, unsigned long arg)
{
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < n_workers; i++) {
        workers[i].arg = arg;
        workers[i].order = workers[i].alive ? order : ORDER_NONE;
    }
    pthread_cond_broadcast(&given);
    for (unsigned i = 0; i < n_workers; i++)
        while (workers[i].order != ORDER_NONE)
            pthread_cond_wait(&done, &lock);
    pthread_mutex_unlock(&lock);
}

static void start_threads(unsigned long n)
{
    for (; n && n_workers < THREADS_MAX; n--, n_workers++) {
        workers[n_workers].alive = true;
        if (pthread_create(&workers[n_workers].thread, NULL, work, &workers[n_workers]) != 0)
            exit(4);
    }
}

static void end_threads(unsigned long n)
{
    for (unsigned i = 0; i < n_workers && n; i++) {
        if (!workers[i].alive)
            continue;
        pthread_mutex_lock(&lock);
        workers[i].order = ORDER_END;
        pthread_cond_broadcast(&given);
        pthread_mutex_unlock(&lock);
        pthread_join(workers[i].thread, NULL);
        workers[i].alive = false;
        workers[i].order = ORDER_NONE;
        n--;
    }
}

static void run_children(unsigned long k, unsigned long pages)
{
    for (unsigned long i = 0; i < k; i++)
        if (fork() == 0) {
            touch_pages(pages);
            _exit(0);
        }
    while (k-- > 0)
        wait(NULL);
}

/* Starts a child that touches `pages` pages, and as many more for each byte that it receives.
 * Returns when it has touched the first ones. */
static void start_stayer(unsigned long pages)
{
    int back[2];
    char c = 0;

    if (pipe(stayed_pipe) != 0 || pipe(back) != 0)
        exit(5);
    stayed = fork();
    if (stayed == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(stayed_pipe[1]);
        do {
            touch_pages(pages);
            if (write(back[1], &c, 1) != 1)
                break;
        } while (read(stayed_pipe[0], &c, 1) == 1);
        _exit(0);
    }
    close(back[1]);
    stayed_pipe[0] = back[0];
    if (read(back[0], &c, 1) != 1)
        exit(5);
}

static void bear_stayer(void)
{
    char c = 0;

    if (write(stayed_pipe[1], &c, 1) != 1 || read(stayed_pipe[0], &c, 1) != 1)
        exit(5);
}

static long page_faults(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

static void disturb_cpu(unsigned long cpu, unsigned long ms)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
                                   .size = sizeof(attr),
                                   .config = PERF_COUNT_SW_PAGE_FAULTS,
                                   .sample_period = 1,
                                   .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TIME,
                                   .disabled = 1};
    struct timespec now;
    unsigned long long start;
    int fd = (int)syscall(SYS_perf_event_open, &attr, -1, (int)cpu, -1, 0);

    if (fd < 0)
        exit(6);
    clock_gettime(CLOCK_MONOTONIC, &now);
    start = (unsigned long long)now.tv_sec * 1000ULL + (unsigned long long)now.tv_nsec / 1000000;
    do {
        for (int i = 0; i < 100; i++) {
            ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
            ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((unsigned long long)now.tv_sec * 1000ULL + (unsigned long long)now.tv_nsec / 1000000 <
             start + ms);
    close(fd);
}

/* Reads byte by byte: stdio would read ahead input of the program after exec. */
static bool read_line(char *line, size_t size)
{
    size_t n = 0;

    while (n + 1 < size && read(0, line + n, 1) == 1 && line[n] != '\n')
        n++;
    line[n] = '\0';
    return n > 0;
}

static void obey(const char *line)
{
    char word[32] = "", file[256] = "";
    unsigned long a = 0, b = 0;
    long answer = -1;

    sscanf(line, "%31s %lu %lu", word, &a, &b);
    if (strcmp(word, "faults") == 0)
        touch_pages(a);
    else if (strcmp(word, "threads") == 0)
        start_threads(a);
    else if (strcmp(word, "each") == 0)
        order_all(ORDER_FAULTS, a);
    else if (strcmp(word, "end") == 0)
        end_threads(a);
    else if (strcmp(word, "spin") == 0)
        spin_ms(a);
    else if (strcmp(word, "spineach") == 0)
        order_all(ORDER_SPIN, a);
    else if (strcmp(word, "child") == 0)
        run_children(1, a);
    else if (strcmp(word, "children") == 0)
        run_children(a, b);
    else if (strcmp(word, "stay") == 0)
        start_stayer(a);
    else if (strcmp(word, "bear") == 0)
        bear_stayer();
    else if (strcmp(word, "disturb") == 0)
        disturb_cpu(a, b);
    else if (strcmp(word, "sleep") == 0)
        while (a-- > 0)
            usleep(1000);
    else if (strcmp(word, "exec") == 0)
        execl("/proc/self/exe", "target", (char *)NULL);
    else if (strcmp(word, "run") == 0 && sscanf(line, "run %255s", file) == 1)
        execl(file, file, (char *)NULL);
    else if (strcmp(word, "usage") == 0)
        answer = page_faults();
    if (answer >= 0)
        dprintf(1, "%ld\n", answer);
    else
        dprintf(1, "ok\n");
}

int main(void)
{
    char line[300];

    dprintf(1, "ready %d\n", (int)getpid());
    while (read_line(line, sizeof(line)) && strcmp(line, "quit") != 0)
        obey(line);
    return 0;
}
