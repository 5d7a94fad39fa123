/*
 * The check of all writes to admin/.
 */
#pragma once

#include "core/base/scan.h"
#include "core/call.h"

/* Returns 0, or E39 if the requester is not the superuser. */
int admin_may(struct call *call, const char *what);
