/*
 * A program for profiles: it spends nearly all of its time in one function, called through two
 * others.
 *
 *   hot KIND [MS]    prints "ready", waits for a line, is busy, prints "done", waits for end of
 * input. KIND: own (busy in its code), child (a child "hotchild" is busy and exits before "done"),
 * made (busy in generated code, named in perf-PID.map)
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile uint64_t sink;

static uint64_t cpu_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

__attribute__((noinline)) static void hot_inner(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        sink = sink * 3 + i;
}

__attribute__((noinline)) static void hot_outer(unsigned long ms)
{
    while (cpu_ms() < ms)
        hot_inner(1000000);
    sink++; /* keeps the call above from being a tail call */
}

/* Generated code that counts its argument down to 0. */
#if defined(__x86_64__)
static const unsigned char countdown[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0xff,
                                          0xcf, 0x75, 0xfb, 0x5d, 0xc3};
#elif defined(__aarch64__)
static const uint32_t countdown[] = {0xf1000400, 0x54ffffe1, 0xd65f03c0};
#else
static const unsigned char countdown[1];
#endif

static void made_run(unsigned long ms)
{
    char path[64];
    void *code =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void (*run)(uint64_t n);
    FILE *map;

    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    map = fopen(path, "w");
    if (code == MAP_FAILED || !map || sizeof countdown == 1)
        exit(77);
    memcpy(code, countdown, sizeof countdown);
    __builtin___clear_cache(code, (char *)code + sizeof countdown);
    fprintf(map, "%lx %x made;by a=program\n", (unsigned long)(uintptr_t)code,
            (unsigned)sizeof countdown);
    fclose(map);
    memcpy(&run, &code, sizeof run);
    while (cpu_ms() < ms)
        run(1000000);
}

static void child_run(unsigned long ms)
{
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_NAME, "hotchild");
        hot_outer(ms);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

static void say(const char *word)
{
    puts(word);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "own";
    unsigned long ms = argc > 2 ? strtoul(argv[2], NULL, 10) : 300;
    char line[64];

    say("ready");
    if (!fgets(line, sizeof line, stdin))
        return 1;
    if (strcmp(kind, "made") == 0)
        made_run(ms);
    else if (strcmp(kind, "child") == 0)
        child_run(ms);
    else
        hot_outer(ms);
    say("done");
    while (fgets(line, sizeof line, stdin))
        ;
    return 0;
}
