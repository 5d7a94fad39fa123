/*
 * How `pmcfs --upgrade MOUNTPOINT` finds the process that holds a mount: by a lock that it holds.
 */
#pragma once

/* Taken for the life of this process: the descriptor, or -1 after having said why not. */
int upgrade_offer(const char *mountpoint);
/* The exit status. */
int upgrade_ask(const char *mountpoint);
