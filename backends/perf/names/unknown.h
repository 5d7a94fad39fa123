/*
 * What to say of a spelling that is no parser's.
 */
#pragma once

#include "backends/perf/names/spec.h"

/* Says which part of it is wrong, with near misses. CS01, X06, P09. */
int unknown_event(struct spec *spec, struct word text, struct err *err);
