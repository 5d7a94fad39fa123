/*
 * How `pmcfs --upgrade MOUNTPOINT` finds the process that holds a mount: by a lock that it holds.
 */
#pragma once

#include <sys/types.h>

/* Taken for the life of this process: the descriptor, or -1 after having said why not. */
int upgrade_offer(const char *mountpoint);
/* What the asking process executes, itself and no path: a descriptor. -1: it is refused. */
int upgrade_program(pid_t asker);
/* The exit status. */
int upgrade_ask(const char *mountpoint);
