/*
 * Hardware breakpoints as events: mem:0xADDRESS[/LENGTH][:rwx], counting accesses to a place in
 * memory.
 */
#pragma once

#include "backends/perf/names/spec.h"

/* -ENOENT: no "mem:". CS01 (no address), CS03 (access or modifier), CS04 (length). */
int breakpoint_parse(struct spec *spec, struct word text, struct err *err);
