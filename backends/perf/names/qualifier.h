/*
 * hwpmc's qualifiers behind a spelling: ,usr ,os ,edge ,inv ,any ,cmask=N ,umask=N ,rsp=N ,precise.
 */
#pragma once

#include "backends/perf/names/spec.h"

enum qualifier_field {
    QUALIFIER_EDGE,
    QUALIFIER_INV,
    QUALIFIER_ANY,
    QUALIFIER_CMASK,
    QUALIFIER_UMASK,
    QUALIFIER_RSP,
    QUALIFIER_FIELDS
};

struct qualifiers {
    bool usr, os;
    unsigned precise; /* level, or 0 */
    bool has[QUALIFIER_FIELDS];
    uint64_t value[QUALIFIER_FIELDS];
    struct word umasks; /* umask=a+b, rsp=a+b: unit masks by name */
};

/* Splits text at the first comma that is no separator of terms. */
struct word qualifiers_split(struct word text, struct word *qualifiers);
bool qualifier_is(struct word name);
/* CS03 unknown or out of place, CS04 value. */
int qualifiers_parse(struct word text, struct qualifiers *out, struct err *err);
/* "precise" or "precise=LEVEL"; false: something else, or no such level. */
bool qualifier_precise(struct word word, unsigned *level);
/* Onto a parsed spec. E35: the class lacks it. */
int qualifiers_apply(struct spec *spec, const struct qualifiers *qualifiers, struct err *err);
