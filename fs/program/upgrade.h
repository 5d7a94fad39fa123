/*
 * How `pmcfs --upgrade MOUNTPOINT` finds the process that holds a mount: by a lock that it holds.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/* Taken for the life of this process: the descriptor, or -1 after having said why not. */
int upgrade_offer(const char *mountpoint);
/* What the asking process executes, itself and no path: a descriptor. -1: it is refused. */
int upgrade_program(pid_t asker);
/* Does that program start, and know what stands in argv? It is asked to --check that, in a process
 * of its own. argv[1] is its to use. */
bool upgrade_tried(int program, char **argv);
/* As waitid(), for as long as a program may take to begin; false: it took longer, or there is no
 * such child. */
bool upgrade_wait(pid_t pid, siginfo_t *info, int options);
/* The exit status. */
int upgrade_ask(const char *mountpoint);
