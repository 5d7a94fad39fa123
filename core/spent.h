/*
 * CPU time that processes took for this thread, which started them and waited: it is charged to
 * whose work the thread does, as its own is.
 */
#pragma once

#include <stdint.h>
#include <sys/resource.h>

/* What wait4(2) said of one. */
void spent_add(const struct rusage *usage);
/* In all. */
uint64_t spent_ns(void);
