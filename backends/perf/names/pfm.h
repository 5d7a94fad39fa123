/*
 * libpfm4: names of the processor's own events. Initialised when a name is first looked for there,
 * since that takes 20 ms where debugfs is mounted. All calls are made under one mutex.
 */
#pragma once

#include "backends/perf/names/spec.h"

#include "core/base/catalog.h"

/* Takes LIBPFM_* out of the environment, which would bend the tables. Before any thread. */
void pfm_prepare(void);
/*
 * -ENOENT with nothing said: no event of that name on this processor. Else CS03 (unit mask,
 * modifier), CS04 (its value), P09.
 */
int pfm_parse(struct spec *spec, struct word text, struct err *err);
/* Does another processor have this event, or a PMU of this name? */
bool pfm_elsewhere(struct word text);
void pfm_near(struct near *near);
/* Is there a table of this name? Offers all of them where there is not. */
bool pfm_has_pmu(struct word name, struct near *near);
/* The PMUs' events that encode and open. */
void pfm_list(struct backend_state *state, struct catalog *out);
/* "pmu::EVENT" of an event in class_name by its exact name; false: none. */
bool pfm_spelling(struct backend_state *state, const char *class_name, const char *event,
                  char *text, size_t size);
/* The description, one line; then the lines "umask NAME text", "attr NAME type text". */
void pfm_describe(const char *spelling, struct buf *description, struct buf *attributes);
