/*
 * Numbers come to mean somebody else: start times of /proc against the times of records.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Did a process that has this start time (struct proc_stat) begin after time_ns (CLOCK_MONOTONIC)?
 * Then it is not who had its number at that time. In the same tick, 10 ms: no; nor do numbers come
 * round in one.
 */
bool born_after(uint64_t start, uint64_t time_ns);
