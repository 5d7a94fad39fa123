/*
 * The parts of an event as people write it. Words are pieces of the text.
 */
#pragma once

#include "core/base/err.h"
#include "core/base/event.h"
#include "core/base/scan.h"

struct spelling {
    struct word class_name; /* len 0: none said */
    struct word name;
    enum event_said user, kernel;
    bool edge, invert;
    unsigned cmask; /* 0: none */
    bool qualified; /* edge, inv or cmask was said */
};

bool spelling_has_qualifier(struct word name); /* usr, cmask, … */
/* 0; CS01 without a name, CS03 unknown modifier or qualifier, CS04 its value. */
int spelling_parse(struct spelling *spelling, const char *text, struct err *err);
