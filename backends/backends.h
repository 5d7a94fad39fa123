/*
 * What is under the engine, by name: only the program's start (fs/program/main.c) chooses.
 */
#pragma once

#include "core/backend.h"
#include "core/host.h"

extern const struct backend perf_backend; /* backends/perf */
extern const struct backend sim_backend;  /* backends/sim */
extern const struct host linux_host;      /* backends/linux */
