/*
 * A load to be sampled: one process per online CPU, pinned, that calls functions in each other for
 * some seconds. Prints the rounds that all made together: fewer rounds, more disturbance.
 *
 * usage: burn SECONDS
 */
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
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
    if (depth > 0)
        return hot(depth - 1, x + 1) + 1;
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

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 0;
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    uint64_t total = 0;
    cpu_set_t allowed;

    if (seconds <= 0 || sched_getaffinity(0, sizeof allowed, &allowed)) {
        fprintf(stderr, "usage: burn SECONDS\n");
        return 2;
    }
    uint64_t *rounds = mmap(NULL, (size_t)cpus * sizeof *rounds, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t until_ns = now_ns() + (uint64_t)(seconds * 1e9);

    if (rounds == MAP_FAILED)
        return 1;
    for (long cpu = 0; cpu < cpus; cpu++) {
        if (!CPU_ISSET((size_t)cpu, &allowed) || fork() != 0)
            continue;
        cpu_set_t one;

        CPU_ZERO(&one);
        CPU_SET((size_t)cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
        rounds[cpu] = burn(until_ns);
        _exit(0);
    }
    while (wait(NULL) > 0)
        ;
    for (long cpu = 0; cpu < cpus; cpu++)
        total += rounds[cpu];
    printf("%llu\n", (unsigned long long)total);
    return 0;
}
