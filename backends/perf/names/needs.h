/*
 * Which rights the kernel asks for an event beyond those to its target and mode. The kernel would
 * not refuse it to pmcfs, which has them all: core asks for the rights of its writer before it is opened.
 */
#pragma once

#include "backends/perf/names/spec.h"

/* It counts kernel mode whatever is asked for (perf_allow_kernel() of the kernel). */
bool needs_kernel(const struct spec *spec);
/* It tells more than what the target does (perf_allow_cpu(), perfmon_capable()). */
bool needs_superuser(const struct spec *spec);
