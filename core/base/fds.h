/*
 * Descriptors that survive the worker that opened them, because workers share a descriptor table. A
 * new worker keeps descriptors that records refer to and closes the others.
 */
#pragma once

#include <stdbool.h>

/* Exempts a descriptor in this process and its children: fds_settle() does not close it. Returns
 * false on ENOMEM. */
bool fd_mine(int fd);
/* Marks all other open descriptors as an earlier worker's. fds_settle() closes those not kept.
 * Returns false on ENOMEM. */
bool fds_begin(void);
void fds_settle(void);
/* Keeps a descriptor that a record refers to. Returns false if it is not open. */
bool fd_keep(int fd);
