/*
 * For the tests of the log: a log of 64 KiB, numbered samples, a limit of memory, and the tally of
 * one reader.
 */
#pragma once

#include "core/log/log.h"

#include "tests/unit/unit.h"

#define MUCH 100000u /* samples, many times the capacity of the log */

/* Create and free the log of a test: SUITE_SETUP(…, log_before, log_after). */
void log_before(void);
void log_after(void);

extern struct log *event_log;
extern struct buf made, taken;
extern uint64_t numbered; /* number of samples put; their ip is 1, 2, … */

/* A log_charge_fn that grants memory up to a limit. */
struct limit {
    int64_t used, max;
    unsigned calls;
};
extern struct limit limit; /* 1 MiB at the start of a test */
bool within(void *arg, int64_t bytes);

void log_recreate(uint64_t max_bytes);
/* Reopens the log as a later worker does. */
void log_reopen(void);
struct log_stats stats(void);

/* Appends the next numbered sample to `made`. */
void make_sample(void);
/* Puts the records of `made` into the log, and clears `made`. Returns 0 or a negative errno. */
int put_made(void);
/* Put one or several records into the log. */
void put_samples(uint64_t n);
void put_drop(const char *where, uint64_t n);
void put_map(uint32_t pid, uint64_t start, const char *path);
int put_user(size_t len);

/* Counts of the records that one reader received. */
struct seen {
    uint64_t samples, dropped, drops, found, others, last_ip, last_time;
    uint64_t drop_time, found_time; /* of the first drop record; of the last RECORD_FOUND */
    unsigned wrong; /* records out of order or invalid (ck_…() cannot be used in threads) */
    char first_path[64];
    uint64_t elsewhere; /* number of drop records for losses outside the log */
};
void see(struct seen *seen, const struct record *record);
/* Takes about max bytes of records, at least one record, and returns the number of records. Asserts
 * that they are valid and in order. */
size_t take(struct log_cursor *cursor, size_t max, struct seen *seen);
void take_all(struct log_cursor *cursor, struct seen *seen);
/* Asserts that every record was received or reported as lost. */
void ck_complete(const struct seen *seen);
