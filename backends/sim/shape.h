/*
 * The shape of the simulated machine: its CPUs and the classes of its counters, from words:
 *
 *   sim_cpus=4                       CPUs 0-3; a list ("0-1,3", "5-5") gives sparse numbers
 *   sim_offline=LIST                 CPUs of sim_cpus that are always offline
 *   sim_rows=4                       rows of the one hardware class "sim"
 *   sim_class=NAME:ROWS:WIDTH[:LIST] other classes, repeatable, with their CPUs
 *   sim_fixed=1                      adds a last row to each class that counts only
 *                                    instructions
 *   sim_lose_after_ms=N              hardware counters are lost after N ms, until started again
 */
#pragma once

#include "core/backend.h"

#define SHAPE_CLASSES 8 /* "software" included, which is the last */
#define SHAPE_ROWS    64
#define SHAPE_NAME    32

struct shape {
    struct cpus possible, online;
    struct class_info classes[SHAPE_CLASSES];
    char names[SHAPE_CLASSES][SHAPE_NAME];
    unsigned row_events[SHAPE_CLASSES][SHAPE_ROWS];
    unsigned n_classes;
    uint64_t fixed;         /* rows of that kind in each class: 0 or 1 */
    uint64_t lose_after_ms; /* 0: never */
};

/* 0, or P02, E24 with a sentence; E32. On failure the shape is empty. options may be NULL. */
int sim_shape_parse(struct shape *shape, const char *options, struct err *err);
void sim_shape_free(struct shape *shape);
/* Rows of the class that count anything; the fixed row, or 0. */
uint64_t shape_general(const struct shape *shape, unsigned class_index);
uint64_t shape_fixed(const struct shape *shape, unsigned class_index);
