/*
 * How `pmcfs --upgrade MOUNTPOINT` finds the process that holds a mount: by a lock that it holds.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define UPGRADE_WORDS 8 /* of the program's command line, with the NULL at its end */

/* Taken for the life of this process: the descriptor, or -1 after having said why not. */
int upgrade_offer(const char *mountpoint);
/* What the asking process executes, itself and no path: a descriptor. -1: it is refused. */
int upgrade_program(pid_t asker);
/* Does that program start, know what stands in argv, and can it go on with what is in hand? It is
 * asked to --check that, in a process of its own. False: `why` says what is wrong. */
bool upgrade_tried(int program, int hand_fd, char **argv, char *why, size_t size);
/* Says it, and tells the asker by the file of the lock. */
void upgrade_refuse(int lock_fd, const char *why);
/* As waitid(), for as long as a program may take to begin; false: it took longer, or there is no
 * such child. */
bool upgrade_wait(pid_t pid, siginfo_t *info, int options);
/* The exit status. */
int upgrade_ask(const char *mountpoint);
