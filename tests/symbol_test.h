/*
 * What the tests of symbols share (tests/symbol*.c, one program).
 */
#pragma once

#include "backends/backends.h"
#include "core/record.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SAID_MAX 8

extern const struct host *const host;
extern struct host_state *state;
extern char place[]; /* a directory for files */

bool check(bool good, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A path below `place`; the last four are valid. */
const char *path_of(const char *format, ...) __attribute__((format(printf, 1, 2)));

struct mapping {
    struct mapping *next;
    struct buf bytes;
    const struct record_map *record; /* in bytes */
};
struct mapping *maps_take(struct log_files *files,
                          pid_t pid); /* reads them, and holds what it can */
void maps_free(struct mapping *mapping);
const struct record_map *map_of(const struct mapping *mapping, uint64_t address);

struct target {
    pid_t pid;
    int input;
    bool keeps_map; /* its perf-PID.map outlives it */
    unsigned n_said;
    struct {
        char name[32];
        uint64_t address;
    } said[SAID_MAX];
};
/* symbol_target.c, in new namespaces, after prepare() there. */
struct target target_start(unsigned long namespaces, bool (*prepare)(void), const char *program,
                           const char *argument);
void target_end(struct target *target);
uint64_t said(const struct target *target, const char *name);

void names_ask(struct log_files *files, struct frame_query *queries, size_t n, unsigned ms);
char *name_of(struct log_files *files, const struct mapping *maps, pid_t pid, uint64_t address);
bool name_is(struct log_files *files, const struct mapping *maps, const struct target *target,
             const char *what, const char *expected);

void test_hostile(void);
