/*
 * A load to be sampled: one process per usable CPU, pinned, that calls functions in each other for
 * some seconds. Prints the rounds that all made together, and the CPU time they took in ms: fewer
 * rounds, more disturbance. With -t it runs a command and writes to FILE the CPU time in ms that it
 * took with all its children, exactly. With -f it prints what a page fault takes at best, in ns:
 * a sampler of each adds what a sample costs, without any timer.
 *
 * usage: burn SECONDS
 *        burn -t FILE COMMAND ARGUMENT…
 *        burn -f
 */
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DEPTH 16

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static volatile unsigned sink;

static __attribute__((noinline, noipa)) unsigned hot(unsigned depth, unsigned x)
{
    if (depth > 0) {
        x = hot(depth - 1, x + 1);
        __asm__ volatile("" : "+r"(x)); /* or the compiler makes a loop of it */
        return x;
    }
    for (unsigned i = 0; i < 2000; i++)
        sink = x = x * 1664525 + 1013904223;
    return x;
}

static uint64_t burn(uint64_t until_ns)
{
    uint64_t rounds = 0;

    while (now_ns() < until_ns) {
        sink = hot(DEPTH, sink);
        rounds++;
    }
    return rounds;
}

/* Of all children that were waited for. */
static double children_ms(void)
{
    struct rusage usage;

    getrusage(RUSAGE_CHILDREN, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
}

/* 127: it could not be run. */
static int timed(const char *path, char **command)
{
    pid_t pid = fork();
    int status = 0;
    FILE *file;

    if (pid == 0) {
        execvp(command[0], command);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !(file = fopen(path, "w")))
        return 1;
    fprintf(file, "%.3f\n", children_ms());
    fclose(file);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int load(double seconds, const cpu_set_t *allowed)
{
    uint64_t *rounds = mmap(NULL, CPU_SETSIZE * sizeof *rounds, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t until_ns = now_ns() + (uint64_t)(seconds * 1e9), total = 0;

    if (rounds == MAP_FAILED)
        return 1;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        cpu_set_t one;

        if (!CPU_ISSET(cpu, allowed) || fork() != 0)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
        rounds[cpu] = burn(until_ns);
        _exit(0);
    }
    while (wait(NULL) > 0)
        ;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        total += rounds[cpu];
    printf("%llu %.3f\n", (unsigned long long)total, children_ms());
    return 0;
}

static int faults(void)
{
    enum {
        TRIES = 15,
        ROUNDS = 100,
        PAGES = 256
    };
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory =
        mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t best_ns = UINT64_MAX;

    if (memory == MAP_FAILED || madvise(memory, PAGES * page, MADV_NOHUGEPAGE))
        return 1;
    for (unsigned try = 0; try < TRIES; try++) {
        uint64_t start_ns = now_ns(), ns;

        for (unsigned round = 0; round < ROUNDS; round++) {
            for (unsigned i = 0; i < PAGES; i++)
                *(volatile char *)(memory + i * page) = 1;
            madvise(memory, PAGES * page, MADV_DONTNEED);
        }
        ns = now_ns() - start_ns;
        best_ns = ns < best_ns ? ns : best_ns;
    }
    printf("%llu\n", (unsigned long long)(best_ns / ROUNDS / PAGES));
    return 0;
}

int main(int argc, char **argv)
{
    double seconds = argc == 2 ? atof(argv[1]) : 0;
    cpu_set_t allowed;

    if (argc > 3 && strcmp(argv[1], "-t") == 0)
        return timed(argv[2], argv + 3);
    if (argc == 2 && strcmp(argv[1], "-f") == 0)
        return faults();
    if (seconds > 0 && sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        return load(seconds, &allowed);
    fputs("usage: burn SECONDS\n       burn -t FILE COMMAND ARGUMENT...\n       burn -f\n", stderr);
    return 2;
}
