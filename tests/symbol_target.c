/*
 * A program whose addresses have names, in all ways: says "NAME ADDRESS" a line, then "ready", and
 * waits for the end of its standard input. With an argument it also makes code itself, as
 * just-in-time compilers do; with "code" it tells in a perf-PID.map.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

__attribute__((noinline)) static int hidden_work(int n)
{
    int sum = 0;

    for (int i = 0; i < n; i++)
        sum += i ^ (sum << 1);
    return sum;
}

int shown_work(int n); /* for other files, if there were any */

__attribute__((noinline)) int shown_work(int n)
{
    return hidden_work(n) + hidden_work(n + 1);
}

static void say(const char *name, uintptr_t address)
{
    printf("%s %#lx\n", name, (unsigned long)address);
}

static void code_make(bool told)
{
    char path[64];
    char *code =
        mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FILE *map;

    if (code == MAP_FAILED)
        exit(3);
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    map = told ? fopen(path, "w") : NULL;
    if (map) {
        fprintf(map, "%lx 40 old name\nnonsense\n%lx 40 LazyCompile:*made /x.js:1\n",
                (unsigned long)code, (unsigned long)code);
        fclose(map);
    }
    say("made", (uintptr_t)code + 16);
    say("unmade", (uintptr_t)code + 4096);
}

int main(int argc, char **argv)
{
    char byte;

    say("hidden_work", (uintptr_t)hidden_work + 5);
    say("shown_work", (uintptr_t)shown_work + 1);
    say("qsort", (uintptr_t)qsort + 3);
    if (argc > 1)
        code_make(strcmp(argv[1], "code") == 0);
    printf("ready\n");
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        ;
    return shown_work(0);
}
