/*
 * What the tests of the log share: a log of 64 KiB, numbered samples, memory up to a limit, and the
 * account of one reader.
 */
#pragma once

#include "core/log/log.h"

#include "tests/unit/unit.h"

#define MUCH 100000u /* samples: many times what the log holds */

/* Before each test a log, after it none: SUITE_SETUP(…, log_before, log_after). */
void log_before(void);
void log_after(void);

extern struct log *event_log;
extern struct buf made, taken;
extern uint64_t numbered; /* samples put: they have 1, 2, … as ip */

/* Memory granted up to a limit: a log_charge_fn. */
struct limit {
    int64_t used, max;
    unsigned asked;
};
extern struct limit limit; /* 1 MiB at the beginning of a test */
bool within(void *arg, int64_t bytes);

void log_anew(uint64_t max_bytes);
struct log_stats stats(void);

/* Records into `made`, and what is there into the log. */
void make_sample(void);
/* As a later worker gets it, once something was put. */
void log_again(void);
int put_made(void);
void put_samples(uint64_t n);
void put_drop(const char *where, uint64_t n);
void put_map(uint32_t pid, uint64_t start, const char *path);
int put_user(size_t len);

/* What one reader was given. */
struct seen {
    uint64_t samples, dropped, drops, found, others, last_ip, last_time;
    uint64_t drop_time, found_time; /* of the first drop, of the last thing found */
    unsigned wrong; /* out of order, or a record that cannot be: ck_…() is not for threads */
    char first_path[64];
    uint64_t told; /* records of losses elsewhere */
};
void see(struct seen *seen, const struct record *record);
/* One take; the number of records. */
size_t take(struct log_cursor *cursor, size_t max, struct seen *seen);
void take_all(struct log_cursor *cursor, struct seen *seen);
/* Everything that was ever put was received or told to be missing. */
void ck_whole(const struct seen *seen);
