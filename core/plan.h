/*
 * Between the parts of a change (change.c, change_command.c, change_parse.c, change_prepare.c, and
 * of its second stage change_check.c, change_settings.c, change_links.c, change_targets.c,
 * change_rows.c, change_limits.c). Unless it says otherwise with the engine's lock, on a change
 * that is not applied yet. 0 or -errno with the sentence in change->err.
 */
#pragma once

#include "core/change.h"

int plan_no_memory(struct change *change);
/* Room for one more than n: the array grows when n is a power of two. NULL: no memory, nothing
 * changed. */
void *plan_room(void *array, unsigned n, size_t size);

static inline bool wanted_is_system(const struct wanted *wanted)
{
    return wanted->word.kind == TARGET_CPU || wanted->word.kind == TARGET_CGROUP;
}

/* change.c. NULL: no memory. */
struct change *change_new(struct pmc *pmc, enum cause cause);
void change_free(struct change *change);
/* The PMC is busy with it from now on: CALL_WORK. slow: for the pool. */
int change_begin(struct call *call, struct change *change, bool slow);
bool change_takes_long(const struct pmc *pmc); /* to read its counters, or to close them */

int change_parse(struct change *change, const char *text, size_t len, struct err *err);
void change_prepare(struct change *change); /* stage one, without the lock; sets change->rc */

/* change_links.c. NULL: no memory. */
struct replaced *plan_replace(struct change *change, struct link *link); /* it leaves the vector */
bool plan_leaves(const struct change *change, const struct link *link);
struct link *plan_fresh(struct change *change, enum target_kind kind); /* to be attached */
/* On what `old` is on, with the rights of who attached that, or else of who makes the change. */
struct link *plan_successor(struct change *change, const struct link *old, bool same_rights);
struct link *plan_remains(const struct link *old, unsigned n); /* what stays of a link that ended */
/* The proc's end is to be told; guards: also that it loses its events. A link or PMC holds it. */
bool plan_watch(struct change *change, struct proc *proc, bool guards); /* false: no memory */
int plan_reopen(struct change *change); /* every live link is opened anew */
int plan_uncovered(
    struct change *change);           /* what taken back targets leave to others is counted there */
int plan_kept(struct change *change); /* the links that stay; after all others are planned */
/* What was planned is forgotten: all links are to be stopped and read for the last time. False: no
 * memory. */
bool plan_last(struct change *change);
int plan_deaths(struct change *change);
int plan_cpus(struct change *change);
int plan_dropped(struct change *change);

/* change_targets.c */
int plan_targets(struct change *change);
int plan_want_cpus(struct change *change, const struct target_word *word);
int plan_lifetime(struct change *change);

/* change_rows.c: after the links are planned. */
int plan_rows(struct change *change);

/* change_settings.c: is there one that cannot change in this state; one that is out of place? */
int check_open(struct change *change);
int check_places(struct change *change);
/* Was a mode written once, and is it to follow again (mode=auto)? */
bool takes_mode_back(const struct change *change);

/* change_sampling.c. Events that can be sampled, the log's size; then, once it is known what
 * starts, how they are sampled, and what the log needs. */
int check_sampling(struct change *change);
int plan_log(struct change *change);

/* change_limits.c: how much may be opened; books what will be at least. After all is planned. */
void plan_limits(struct change *change);
