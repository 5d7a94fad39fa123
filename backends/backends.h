/*
 * The backends and the host. Only fs/program/main.c uses these names.
 */
#pragma once

#include "core/backend.h"
#include "core/host.h"

extern const struct backend perf_backend; /* backends/perf */
extern const struct backend sim_backend;  /* backends/sim */
extern const struct host linux_host;      /* backends/linux */
