/*
 * Requests that can take long hear of interrupts: those that are parked end at once, those with a
 * slow work are told, and may look (call.interrupted).
 */
#pragma once

struct request;

/* Before the first time it is parked or given to the pool. With the lock, which it lets go of
 * meanwhile: libfuse may call back at once, holding its own. */
void interrupt_hear_between(struct request *rq);

/* Around a slow work: with the lock; then without it; with the lock. */
void interrupt_slow_begin(struct request *rq);
void interrupt_slow_hear(struct request *rq);
void interrupt_slow_end(struct request *rq);
