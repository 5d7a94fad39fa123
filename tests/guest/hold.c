/*
 * Another user of the counters: pinned events on a CPU or a task, opened with perf_event_open.
 * hold cpu N | here N | task TID, then lines on its standard input, each answered with one line:
 *
 *   take N          open N events (the seventh counts cycles); prints how many are on the hardware
 *   look            prints "ON VALUE ENABLED RUNNING": events on the hardware, values of the first
 *   drop            close all events; prints the running time of the first in nanoseconds
 *   flash N MS AFTER [FILE]   wait AFTER milliseconds, take N, wait MS, drop; then read FILE
 *   quit            exit
 *
 * With "cpu" and "task" the program runs on CPU 0, with "here" on the given CPU, because calls from
 * one emulated CPU to another busy one take tens of milliseconds.
 */
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    EVENTS_MAX = 16,
    INST_RETIRED = 0x08,
    CPU_CYCLES = 0x11,
    GENERAL_ROWS = 6
};

struct numbers {
    uint64_t value, enabled_ns, running_ns;
};

static int cpu = -1, task = -1;
static int fds[EVENTS_MAX];
static unsigned n_fds;

static bool look(unsigned i, struct numbers *out)
{
    memset(out, 0, sizeof *out);
    return read(fds[i], out, sizeof *out) == sizeof *out;
}

static unsigned count_on(void)
{
    struct numbers numbers;
    unsigned on = 0;

    for (unsigned i = 0; i < n_fds; i++)
        on += look(i, &numbers);
    return on;
}

static void take(unsigned n)
{
    for (n_fds = 0; n_fds < n && n_fds < EVENTS_MAX; n_fds++) {
        struct perf_event_attr attr = {
            .size = sizeof attr,
            .type = PERF_TYPE_RAW,
            .config = n_fds < GENERAL_ROWS ? INST_RETIRED : CPU_CYCLES,
            .pinned = 1,
            .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
        };

        fds[n_fds] = (int)syscall(SYS_perf_event_open, &attr, task, cpu, -1, PERF_FLAG_FD_CLOEXEC);
        if (fds[n_fds] < 0) {
            perror("perf_event_open");
            exit(3);
        }
    }
}

static uint64_t drop(void)
{
    struct numbers first;

    look(0, &first);
    while (n_fds > 0)
        close(fds[--n_fds]);
    return first.running_ns;
}

static void pause_ms(unsigned ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    nanosleep(&time, NULL);
}

static void read_file(const char *path)
{
    char text[4096];
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || read(fd, text, sizeof text) < 0)
        perror(path);
    close(fd);
}

static void obey(const char *line)
{
    struct numbers first;
    char word[16] = "", path[64] = "";
    unsigned n = 0, ms = 0, after = 0;

    sscanf(line, "%15s %u %u %u %63s", word, &n, &ms, &after, path);
    if (strcmp(word, "take") == 0) {
        take(n);
        dprintf(1, "%u\n", count_on());
    } else if (strcmp(word, "look") == 0) {
        look(0, &first);
        dprintf(1, "%u %llu %llu %llu\n", count_on(), (unsigned long long)first.value,
                (unsigned long long)first.enabled_ns, (unsigned long long)first.running_ns);
    } else if (strcmp(word, "drop") == 0) {
        dprintf(1, "%llu\n", (unsigned long long)drop());
    } else if (strcmp(word, "flash") == 0) {
        uint64_t held_ns;

        pause_ms(after);
        take(n);
        pause_ms(ms);
        held_ns = drop();
        if (path[0])
            read_file(path);
        dprintf(1, "%llu\n", (unsigned long long)held_ns);
    } else {
        exit(2);
    }
}

int main(int argc, char **argv)
{
    cpu_set_t set;
    char line[100];

    if (argc != 3)
        return 2;
    *(strcmp(argv[1], "task") == 0 ? &task : &cpu) = atoi(argv[2]);
    CPU_ZERO(&set);
    CPU_SET(strcmp(argv[1], "here") == 0 ? (size_t)cpu : 0, &set);
    sched_setaffinity(0, sizeof set, &set);
    dprintf(1, "ready\n");
    while (fgets(line, sizeof line, stdin) && strcmp(line, "quit\n") != 0)
        obey(line);
    return 0;
}
