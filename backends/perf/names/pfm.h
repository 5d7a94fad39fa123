/*
 * libpfm4: names of the processor's own events.
 */
#pragma once

#include "backends/perf/names/spec.h"

#include "core/base/catalog.h"

/* Reads its tables: before any thread, and 20 ms where debugfs is mounted. LIBPFM_* must be out of
 * the environment. */
void pfm_prepare(void);
/*
 * -ENOENT with nothing said: no event of that name on this processor. Else CS03 (unit mask,
 * modifier), CS04 (its value), P09.
 */
int pfm_parse(struct spec *spec, struct word text, struct err *err);
/* Does another processor have this event, or a PMU of this name? */
bool pfm_elsewhere(struct word text);
/* Is there a table of this name? Offers all of them where there is not. */
bool pfm_has_pmu(struct word name, struct near *near);
/* The PMUs' events that encode and open. */
void pfm_list(struct backend_state *state, struct catalog *out);
/* "pmu::EVENT", or with the first unit mask that completes it, of an event in class_name by its
 * exact name; false: none. */
bool pfm_spelling(struct backend_state *state, const char *class_name, const char *event,
                  char *text, size_t size);
/* The description, one line; then the lines "umask NAME text", "attr NAME type text". */
void pfm_describe(const char *spelling, struct buf *description, struct buf *attributes);
