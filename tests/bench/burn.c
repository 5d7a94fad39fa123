/*
 * A load for sampling: one pinned process per usable CPU, which makes nested calls for some
 * seconds. Prints the sum of all rounds: the fewer, the more the load was slowed.
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
    if (depth > 0) {
        x = hot(depth - 1, x + 1);
        __asm__ volatile("" : "+r"(x)); /* keeps the compiler from making it a loop */
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
    printf("%llu\n", (unsigned long long)total);
    return 0;
}

int main(int argc, char **argv)
{
    double seconds = argc == 2 ? atof(argv[1]) : 0;
    cpu_set_t allowed;

    if (seconds > 0 && sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        return load(seconds, &allowed);
    fputs("usage: burn SECONDS\n", stderr);
    return 2;
}
