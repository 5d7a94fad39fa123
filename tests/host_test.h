/*
 * For the tests of the Linux host (tests/host*.c, one program): results, children, and the host.
 */
#pragma once

#include "backends/backends.h"
#include "backends/linux/linux.h"
#include "core/backend.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

extern const struct host *const host;
extern struct host_state *state;
extern const struct sink sink;
extern struct err err;

/* Numbers reported by children; each test uses different ones. */
enum note_index {
    THREAD,
    THREAD_READY,
    INNER_PLAIN,
    INNER_NESTED,
    NESTED_READY,
    INNER_READY,
    USERNS_READY,
    GROUP_READY
};
extern _Atomic pid_t *notes;

/* Prints "ok NAME" or "not ok NAME". A child exits with failures(). */
bool check(bool good, const char *name);
int failures(void);
void failures_add(int n);

bool text_write(const char *path, const char *text);
void nap_ms(unsigned ms);
void note_wait(enum note_index note);

/* Limits the number of the next descriptor; 0 restores the limit. */
void descriptors_limit(unsigned n);

/* fork() with namespaces; the child runs fn, exits with what it returns, and dies with its parent.
 */
pid_t spawn(unsigned long flags, int (*fn)(void *), void *arg);
/* Like spawn(), for a test in new namespaces: waits, and adds its failures. */
void spawn_test(unsigned long flags, int (*fn)(void *));
int sleeper(void *arg);      /* sleeps for ever */
void reap(pid_t pid);        /* kill and wait */
void make_zombie(pid_t pid); /* kill, and wait until it is a zombie */
/* A process with a second thread, whose TID is notes[THREAD]; the first thread exits unless
 * leader_stays is set. threaded() is for spawn(); threaded_start() returns the PID. */
int threaded(void *leader_stays);
pid_t threaded_start(bool leader_stays);

/* Calls process_open() with a PID (or a TID, if `thread`) as thread tid writes it. Returns the
 * error id, or ERR_NONE; *out is NULL, or a process to be freed. named_id() frees it itself. */
enum err_id named(pid_t tid, uint64_t number, bool thread, struct process **out);
enum err_id named_id(pid_t tid, uint64_t number, bool thread);
/* Returns true if `number`, written by thread `tid`, names the living process `pid` and its thread
 * `task` (0: the whole process). */
bool means(pid_t tid, uint64_t number, bool thread, pid_t pid, pid_t task);

/* host_observe.c: processes of all kinds, used as openers and as targets. */
struct actor;
void actors_start(void);
void actors_stop(void);
const struct rights *actor_rights(const char *name);

void test_numbers(void);
void test_pid_namespaces(void);
void test_reuse(void);
void test_rights(void);
void test_six_rows(void);
void test_all_pairs(void);
void test_hidden(void);
void test_restored(void);
void test_threads(void);
void test_helper_hangs(void);
void test_groups(void);
void test_exiting(void);
void test_keys(void);
void test_records(void);
