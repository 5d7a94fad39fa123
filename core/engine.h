/*
 * The engine: owns instances, PMCs, rows, tunables and statistics. Every function is called with
 * the engine's lock held (the lock is the caller's: core takes none) unless it says otherwise. What
 * waits, opens, closes or looks at /proc lets go of the lock meanwhile, through the seat:
 * core/slow.h.
 */
#pragma once

#include "core/backend.h"
#include "core/base/journal.h"
#include "core/call.h"
#include "core/files.h"
#include "core/pmc/tunable.h"
#include "core/slow.h"

#include <sys/types.h>

/* ---- life ---- */

/* Needs tunables already set from the configuration. NULL: no memory. */
struct engine *engine_new(const struct tunables *tunables);
/* For host and backend, which are opened after engine_new() and before engine_start(): tells what
 * *engine is at the moment. */
struct sink engine_sink(struct engine **engine);
int engine_start(struct engine *engine, const struct host *host, struct host_state *host_state,
                 const struct backend *backend, struct backend_state *backend_state,
                 struct err *err);
/* Frees every PMC and counter. No request may be under way. Host and backend are closed by the
 * caller. */
void engine_free(struct engine *engine);
/* An attach takes no longer than this, whatever attach_ms is; 0: no limit. */
void engine_set_limit(struct engine *engine, uint64_t limit_ns);
/* How calls let go of the lock; NULL, as at first: they keep it. `seat` outlives the engine. */
void engine_set_unlock(struct engine *engine, const struct unlock_ops *unlock);

/* ---- objects ---- */

struct instance *engine_root(struct engine *engine);
struct instance *engine_instance(struct engine *engine, uint64_t id); /* NULL: none */
/* Those below instances/, not the root. Next: in order of serials, the first with id > after. */
struct instance *engine_instance_next(struct engine *engine, uint64_t after);
size_t engine_instance_count(const struct engine *engine);

struct pmc *engine_pmc(struct engine *engine, uint64_t id); /* NULL: released */
/* In order of serials: the first PMC of the instance with id > after, or NULL (readdir). */
struct pmc *engine_pmc_next(struct instance *instance, uint64_t after);
struct pmc *engine_pmc_after(struct engine *engine, uint64_t after); /* of all instances */
/* By its permission bits and the group `readers`: its count and what belongs to that. */
bool engine_may_read(const struct pmc *pmc, const struct rights *rights);
size_t engine_pmc_count(const struct engine *engine);

/* Names that no PMC may have: the root's own files, metrics.*, counts, self. Set once by fs. */
void engine_reserve_names(struct engine *engine, bool (*reserved)(const char *name));

/* ---- the tree's operations; call->uid/gid/tid are the requester's ---- */

int engine_mkdir(struct call *call, const char *name, mode_t mode,
                 uint64_t *id);                        /* PMCALLOCATE's first half */
int engine_rmdir(struct call *call, const char *name); /* PMCRELEASE */
int engine_rename(struct call *call, const char *from, const char *to);
int engine_chmod(struct call *call, mode_t mode);          /* call->pmc */
int engine_chown(struct call *call, uid_t uid, gid_t gid); /* (uid_t)-1, (gid_t)-1: unchanged */
/* The same for instances; made and removed by the superuser (call->rights). */
int engine_mkinstance(struct call *call, const char *name, mode_t mode, uint64_t *id);
int engine_rminstance(struct call *call, const char *name);
int engine_chmod_instance(struct call *call, mode_t mode); /* call->instance */
int engine_chown_instance(struct call *call, uid_t uid, gid_t gid);

/* An open file is closed for the last time (lifetime=open). May queue effects and tasks. */
void engine_release(struct engine *engine, struct open_file *open);
void open_file_clear(struct open_file *open);
/* Freed, but what its record names stays. */
void open_file_leave(struct open_file *open);
/*
 * From now on something is remembered for call->open, opened in call->instance with these rights
 * (or NULL: nothing depends on them). It counts among the open files of call->payer, its memory is
 * charged, and so are the rights, which are the engine's then. 0; or P10, P11, E32, and it has no
 * rights. engine_release(), or open_file_forget() before all is loaded
 * anew, gives it back.
 */
int open_file_hold(struct call *call, struct rights *rights);
void open_file_forget(struct open_file *open);
/*
 * Charges the memory that call->open takes by now, and so many bytes of texts that are kept for its
 * reader in place of those before. 0; or P11: the user (or the instance) may have no more, and
 * nothing changed. Fewer bytes than before are never refused.
 */
int open_file_keep(struct call *call, uint64_t bytes);
/*
 * Charges the memory of a request that waits to the user that pays for it, before it waits. Returns
 * 0, and the user (a reference), to which engine_uncharge_wait() gives the bytes back; or P11, E32.
 */
int engine_charge_wait(struct call *call, uint64_t bytes, struct user **user);
void engine_uncharge_wait(struct user *user, uint64_t bytes);
/* The text of its record. */
void open_file_print(struct open_file *open, struct buf *out);
/* The PMCs must have been loaded. */
bool open_file_load(struct open_file *open, const char *text, size_t len, struct engine *engine);
/* It is charged as it was before. False: no memory. */
bool open_file_again(struct engine *engine, struct open_file *open);

/*
 * Count the operation (info/stats syscalls, syscall_errors) and, when it failed, keep its line for
 * `info/last_error`. record: false for failing reads other than EIO, and for what is asked of
 * attributes. command: something was written; `error` is of that (and of EIO), worked or not.
 */
void engine_finished(struct call *call, int rc, bool record, bool command);

/* ---- what the engine wants done after the lock is dropped ---- */

bool engine_next_effect(struct engine *engine, struct effect *effect); /* takes the oldest */
/* Has the engine a task of its own to do (a target died …)? It may turn out that it has to wait. */
bool engine_has_task(const struct engine *engine);
/* Does the next one, from beginning to end. call: only engine and instance are set. False: none. */
bool engine_task(struct call *call);
/* When engine_tick() wants to be called (CLOCK_MONOTONIC ns); UINT64_MAX: never. */
uint64_t engine_deadline(const struct engine *engine);
void engine_tick(struct engine *engine, uint64_t now_ns);
/* A process sleeps in poll on this PMC (until further notice): notice changes within notify_ms. */
void engine_polled(struct engine *engine, uint64_t pmc_id, bool polled);

/* ---- state for a later worker ---- */

/* Changes from now on are put into the journal, which is the caller's; NULL: nothing is. */
void engine_keep(struct engine *engine, struct journal *journal);
/* Before the lock is dropped: what changed is put. True: all was put anew; so is what the caller
 * puts. */
bool engine_put(struct engine *engine);
/* Behind that it is published, with what the caller put (fine: all of that fitted); always when a
 * request's answer is to be true with it. False: something did not fit, and what was true before
 * stays so until all is put anew. */
bool engine_publish(struct engine *engine, bool fine, bool answered);
/* What is done until the lock is dropped is done for the request of this number. */
void engine_request(struct engine *engine, uint64_t number);
/* There is something to be put. */
bool engine_has_news(const struct engine *engine);
/* Is every object what its record says? The sentence tells of the first that is not. */
bool engine_check(struct engine *engine, struct err *err);
/* Records that the kernel has told so far are put into the logs and the journal. */
void engine_settle(struct engine *engine);
/* Like engine_free(), but what the journal names stays. */
void engine_forget(struct engine *engine);
/* Into a fresh engine after engine_start(). 0 or -EINVAL with a sentence naming the record. */
int engine_load(struct engine *engine, const struct journal *journal, struct err *err);
/* Behind the last open_file_load() and engine_keep(). */
void engine_loaded(struct engine *engine);
void engine_loaded_free(struct engine *engine);
/* Looks for slots that others hold. When the program starts, and after engine_load(). */
void engine_probe(struct engine *engine);

/* ---- statistics fs counts ---- */

void engine_stat_add(struct engine *engine, enum statistic which, int64_t n);
void engine_stat_set(struct engine *engine, enum statistic which, uint64_t n);

const struct tunables *engine_tunables(const struct engine *engine);
/* The gid of the tunable `readers`, or -1. */
void engine_set_readers(struct engine *engine, gid_t gid);
/* SIGHUP: take the run-time tunables of `fresh`. */
void engine_retune(struct engine *engine, const struct tunables *fresh);
/* The catalogue of events/, or NULL while it is not loaded: then engine_catalog_load() makes it. */
const struct catalog *engine_catalog(struct engine *engine);
/* Makes it if it is not there. anew: it is compared with the machine. Never CALL_WAIT. */
int engine_catalog_load(struct call *call, bool anew);
/* CPUs that exist, and rows per class, for the directory admin/cpuN/ROW. Row numbers run through
 * all classes with rows, in the order of info/classes. */
const struct cpus *engine_cpus(const struct engine *engine);
unsigned engine_rows(const struct engine *engine);
/* Does the class of that row have it on this CPU? */
bool engine_row_is_on(const struct engine *engine, unsigned cpu, unsigned number);
