/*
 * How `pmcfs --upgrade MOUNTPOINT` finds the process that holds a mount, by a lock that it holds,
 * and how a program takes the place of that process; or, where it cannot begin, gives it back.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct options;

#define UPGRADE_WORDS 8 /* of the program's command line, with the NULL at its end */

/* Taken for the life of this process: the descriptor, or -1 after having said why not. */
int upgrade_offer(const char *mountpoint);
/* What the asking process executes, itself and no path: a descriptor. -1: `why` says why not. */
int upgrade_program(pid_t asker, char *why, size_t size);
/* Does that program start, know what stands in argv, and can it go on with what is in hand? It is
 * asked to --check that, in a process of its own. False: `why` says what is wrong. */
bool upgrade_tried(int program, int hand_fd, char **argv, char *why, size_t size);
/* Says it, and tells the asker by the file of the lock. */
void upgrade_refuse(int lock_fd, const char *why);
/* Tells the asker that this program serves in the place of the other. */
void upgrade_done(int lock_fd);
/*
 * That program in place of this one, with all descriptors but that of the lock. The worker is
 * stopped, not ended, so that what it has mapped stays until the next supervisor has mapped it,
 * too; it goes on when that fails. Returns where it could not be executed: the errno; ECHILD: the
 * worker ended just then.
 */
int upgrade_execute(int program, pid_t worker, int lock_fd, char **argv);
/* In the program that was executed so, before it has taken anything over: the one before it is
 * executed again, and told why. Returns where that is not possible. */
void upgrade_back(const struct options *options, char **argv, const char *why);
/* In the one before it: why. NULL: nothing was tried. */
const char *upgrade_failed(const struct options *options);
/* The exit status. */
int upgrade_ask(const char *mountpoint);
