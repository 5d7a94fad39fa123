/*
 * pmcfs --upgrade MOUNTPOINT: replaces the program of a running mount. The command signals the
 * supervisor, which it finds because the supervisor holds a lock on a file in /run/pmcfs. The
 * supervisor tests the new program and executes it; a program that cannot start executes the old
 * one again.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct options;

#define UPGRADE_ARGS 8 /* length of the program's argv with its NULL */
/* Printed by --check with --resume, so that any other program that exits with 0 is refused. */
#define UPGRADE_READY "this version can continue the mount"

/* ---- in the supervisor ---- */

/* Creates the lock file and locks it until this process exits. Returns its descriptor, or -1 after
 * a message. */
int upgrade_lock(const char *mountpoint);
/* Opens the program that the requesting process executes (the file itself, not its path), if that
 * process has the rights to replace this one. Returns its descriptor, or -1 with a reason in `why`.
 */
int upgrade_open_program(pid_t requester, char *why, size_t size);
/* Runs the new program with --check and the arguments of the mount: does it start, accept the
 * options and understand the shared state? Returns false with the reason in `why`. */
bool upgrade_try(int program, int inflight_fd, char **argv, char *why, size_t size);
/* Logs the refusal and sends it to the requester through the lock file. */
void upgrade_refuse(int lock_fd, const char *why);
/* Reports success to the requester. */
void upgrade_done(int lock_fd);
/*
 * Executes the new program in this process with all descriptors except the lock's. Stops the worker
 * instead of killing it, so that its mappings stay until the new supervisor has mapped them too.
 * Returns only on failure, after continuing the worker: an errno, or ECHILD if the worker exited.
 */
int upgrade_execute(int program, pid_t worker, int lock_fd, char **argv);

/* ---- in the new program, and in the old one after a failed start ---- */

/* In the new program, before it has taken anything over: executes the old program again with the
 * reason of the failure. Returns if that is not possible. */
void upgrade_roll_back(const struct options *options, char **argv, const char *why);
/* Returns the reason why the new program failed, if this is the old program that was executed
 * again; otherwise NULL. */
const char *upgrade_failure(const struct options *options);

/* ---- in the command ---- */

/* Requests the upgrade and waits for the answer. Returns the exit status. */
int upgrade_request(const char *mountpoint);
