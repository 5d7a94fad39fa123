/*
 * hwpmc's qualifiers behind a spelling: ,usr ,os ,edge ,inv ,any ,cmask=N ,umask=N ,rsp=N ,precise.
 */
#pragma once

#include "backends/perf/names/spec.h"

/* Splits text at the first comma that is no separator of terms. */
struct word qualifiers_split(struct word text, struct word *qualifiers);
/* "precise" or "precise=LEVEL"; false: something else, or no such level. */
bool qualifier_precise(struct word word, uint64_t *level);
/* The unit masks of umask=a+b, rsp=a+b, which belong to the name; empty: none. */
struct word qualifiers_masks(struct word text);
/* Onto a parsed spec, all but those. CS03 unknown or out of place, CS04 value, E35 the class lacks
 * it. */
int qualifiers_apply(struct spec *spec, struct word text, struct err *err);
