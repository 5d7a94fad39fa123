/*
 * The parts of an event as people write it. Words are pieces of the text.
 */
#pragma once

#include "core/base/err.h"
#include "core/base/event.h"
#include "core/base/scan.h"

enum qualifier {
    USR,
    OS,
    EDGE,
    INV,
    CMASK,
    QUALIFIERS
};

struct spelling {
    struct word class_name; /* len 0: none said */
    struct word name;
    unsigned value[QUALIFIERS]; /* :u is USR, :k is OS; 0: not said */
};

bool spelling_has_qualifier(struct word name); /* usr, cmask, … */
/* Edge, inv or cmask was said: it is a part of the event. */
bool spelling_is_part(const struct spelling *spelling);
/* 0; CS01 without a name, CS03 unknown modifier or qualifier, CS04 its value. */
int spelling_parse(struct spelling *spelling, const char *text, struct err *err);
