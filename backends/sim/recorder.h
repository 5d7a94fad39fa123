/*
 * Samples of simulated counters. They are made as they are drained, from how much was counted since
 * the last time, evenly over that time; none is kept in between.
 */
#pragma once

#include "core/backend.h"

int sim_recorder_new(struct backend_state *state, const struct recorder_plan *plan,
                     struct recorder **out, struct err *err);
void sim_recorder_facts(const struct recorder *recorder, struct recorder_facts *out);
int sim_drain(struct recorder *recorder, bool all, const struct intake *intake);
void sim_recorder_print(const struct recorder *recorder, struct buf *out);
int sim_recorder_adopt(struct backend_state *state, const struct recorder_plan *plan,
                       const char *printed, struct recorder **out);
void sim_recorder_forget(struct recorder *recorder);   /* it goes on; */
void sim_recorders_close(struct backend_state *state); /* … so long */
void sim_recorder_free(struct recorder *recorder);
void sim_sample_limits(struct backend_state *state, struct sample_limits *out);
