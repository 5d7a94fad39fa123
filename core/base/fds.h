/*
 * Descriptors that outlive the process which opened them: a later worker finds them in its table,
 * keeps those that records name, and closes the others.
 */
#pragma once

#include <stdbool.h>

/* This one is neither, in this process and those forked of it. False: no memory. */
bool fd_mine(int fd);
/* What else is open now is an earlier worker's, until fds_settle() closes what was not kept. */
bool fds_begin(void);
void fds_settle(void);
/* A record names it. False: it is not open. */
bool fd_keep(int fd);
