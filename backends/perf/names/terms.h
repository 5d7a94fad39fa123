/*
 * The spellings that use the machine's own format files: pmu/term=value,…/mods, a kernel event
 * file's bare name, and raw numbers (rNNN).
 */
#pragma once

#include "backends/perf/names/spec.h"

/* -ENOENT: it has no '/'. X06 PMU, CS01 event, CS03 term or modifier, CS04 value, P09. */
int terms_parse(struct spec *spec, struct word text, struct err *err);
/* The kernel's event file of this name on a core PMU, or msr (tsc); -ENOENT and nothing said: there
 * is none. */
int terms_parse_bare(struct spec *spec, struct word text, struct err *err);
/* Puts the code of a kernel event file into spec->config, replacing what was there. */
bool terms_put_event(struct spec *spec, const struct pmu_event *event);
/* -ENOENT: it is no rNNN. CS04. */
int raw_parse(struct spec *spec, struct word text, struct err *err);
