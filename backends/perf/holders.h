/*
 * Who, besides pmcfs, has perf events open.
 */
#pragma once

#include "core/buf.h"

/*
 * Appends "NAME PID N (EVENTS)" of the first few processes, separated by commas; how many. Looks at
 * every descriptor of the machine: for when something was refused, and not for everybody's eyes.
 */
unsigned holders_print(struct buf *out);
