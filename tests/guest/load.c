/*
 * A program for counting that executes exact numbers of instructions. It reads commands from
 * standard input and answers each with one line, so that a test knows all events between two reads.
 *
 *   work N      the main thread executes N instructions
 *   threads K   K more threads, idle
 *   each N      every other thread executes N
 *   child N     a child executes N and exits
 *   stay        start a child that stays; prints its PID
 *   bear N      the child that stays executes N
 *   begin N     like bear N, without waiting
 *   finish      wait for begin
 *   spin        start a thread that executes until halt
 *   halt        stop it; prints its instructions
 *   cpu N       run only on this CPU
 *   exec        run this program again
 *   run FILE    exec FILE instead
 *   quit        exit
 *
 * Answers are "ok" or a number. Arguments "cpu N" are executed first.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    THREADS_MAX = 64,
    STEP = 100000
};

/* The main thread and all workers meet here before and after the work of a command `each`. */
static pthread_barrier_t gate;
static unsigned n_workers;
static uint64_t ordered;
static pthread_t spinner;
static volatile bool spinning;
static uint64_t spun;
static int child_orders[2], child_answers[2];

/* Executes n instructions in rounds of two; if n is odd, one less. */
static void execute(uint64_t n)
{
    uint64_t rounds = n / 2;

    if (!rounds)
        return;
#if defined __aarch64__
    __asm__ volatile("1: subs %0, %0, #1\n b.ne 1b" : "+r"(rounds) : : "cc");
#elif defined __x86_64__ || defined __i386__
    __asm__ volatile("1: dec %0\n jnz 1b" : "+r"(rounds) : : "cc");
#else
#error "a loop of two instructions is missing here for this processor"
#endif
}

static void *work(void *arg)
{
    for (;;) {
        pthread_barrier_wait(&gate);
        execute(ordered);
        pthread_barrier_wait(&gate);
    }
    return arg;
}

static void start_threads(unsigned n)
{
    pthread_t thread;

    pthread_barrier_init(&gate, NULL, n + 1);
    for (n_workers = 0; n_workers < n; n_workers++)
        if (pthread_create(&thread, NULL, work, NULL))
            exit(4);
}

static void order_threads(uint64_t n)
{
    ordered = n;
    pthread_barrier_wait(&gate);
    pthread_barrier_wait(&gate);
}

static void run_child(uint64_t n)
{
    pid_t pid = fork();

    if (pid == 0) {
        execute(n);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

static pid_t start_stayer(void)
{
    uint64_t n;
    pid_t pid;

    if (pipe(child_orders) || pipe(child_answers) || (pid = fork()) < 0)
        exit(5);
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (read(child_orders[0], &n, sizeof n) == sizeof n) {
        execute(n);
        if (write(child_answers[1], &n, sizeof n) != sizeof n)
            break;
    }
    _exit(0);
}

static void stayer_begin(uint64_t n)
{
    if (write(child_orders[1], &n, sizeof n) != sizeof n)
        exit(5);
}

static void stayer_finish(void)
{
    uint64_t n;

    if (read(child_answers[0], &n, sizeof n) != sizeof n)
        exit(5);
}

static void *spin(void *arg)
{
    while (spinning) {
        execute(STEP);
        spun += STEP;
    }
    return arg;
}

static void spin_start(void)
{
    spun = 0;
    spinning = true;
    if (pthread_create(&spinner, NULL, spin, NULL))
        exit(4);
}

static uint64_t spin_stop(void)
{
    spinning = false;
    pthread_join(spinner, NULL);
    return spun;
}

static void stay_on_cpu(unsigned cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set))
        exit(6);
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

static void answer(long long n)
{
    if (n < 0)
        dprintf(1, "ok\n");
    else
        dprintf(1, "%lld\n", n);
}

static bool obey_child(const char *word, uint64_t n)
{
    if (strcmp(word, "child") == 0)
        run_child(n);
    else if (strcmp(word, "bear") == 0)
        stayer_begin(n), stayer_finish();
    else if (strcmp(word, "begin") == 0)
        stayer_begin(n);
    else if (strcmp(word, "finish") == 0)
        stayer_finish();
    else
        return false;
    return true;
}

static void obey(const char *line)
{
    char word[32] = "", file[256] = "";
    unsigned long long n = 0;
    long long result = -1;

    sscanf(line, "%31s %llu", word, &n);
    if (strcmp(word, "work") == 0)
        execute(n);
    else if (strcmp(word, "threads") == 0)
        start_threads((unsigned)n);
    else if (strcmp(word, "each") == 0)
        order_threads(n);
    else if (strcmp(word, "stay") == 0)
        result = start_stayer();
    else if (strcmp(word, "spin") == 0)
        spin_start();
    else if (strcmp(word, "halt") == 0)
        result = (long long)spin_stop();
    else if (strcmp(word, "cpu") == 0)
        stay_on_cpu((unsigned)n);
    else if (strcmp(word, "exec") == 0)
        execl("/proc/self/exe", "load", (char *)NULL);
    else if (strcmp(word, "run") == 0 && sscanf(line, "run %255s", file) == 1)
        execl(file, file, (char *)NULL);
    else if (!obey_child(word, n))
        exit(2);
    answer(result);
}

int main(int argc, char **argv)
{
    char line[300];

    if (argc == 3 && strcmp(argv[1], "cpu") == 0)
        stay_on_cpu((unsigned)atoi(argv[2]));
    dprintf(1, "ready\n");
    while (read_line(line, sizeof line) && strcmp(line, "quit") != 0)
        obey(line);
    return 0;
}
