/*
 * What all files of admin/ check when they are written.
 */
#pragma once

#include "core/base/scan.h"
#include "core/call.h"

/* 0, or E39: "only the superuser … administers WHAT". */
int admin_may(struct call *call, const char *what);
