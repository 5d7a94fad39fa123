/*
 * The engine: owns instances, PMCs, rows, tunables and statistics (struct engine is in state.h).
 * The caller holds the engine's lock for every function, unless noted; core does not take it.
 * Functions that wait, open, close or read /proc drop the lock for that time (lock_drop()).
 */
#pragma once

#include "core/backend.h"
#include "core/base/journal.h"
#include "core/call.h"
#include "core/pmc/tunable.h"
#include "core/state.h"

#include <sys/types.h>

/* ---- start and stop ---- */

/* Creates an engine with these tunables. Returns NULL on ENOMEM. */
struct engine *engine_new(const struct tunables *tunables);
/* Returns the sink for host and backend, which are opened after engine_new() and before
 * engine_start(). An event goes to the engine that *engine points to when it occurs. */
struct sink engine_sink(struct engine **engine);
/* Gives the engine its host and backend, and creates the rows of all CPUs. Returns 0 or E32. */
int engine_start(struct engine *engine, const struct host *host, struct host_state *host_state,
                 const struct backend *backend, struct backend_state *backend_state,
                 struct err *err);
/* Frees the engine with all PMCs and counters. No request may be running. The caller closes host
 * and backend. */
void engine_free(struct engine *engine);

/* ---- objects ---- */

/* Returns the instance with this id (0: the root), or NULL. */
struct instance *engine_instance(struct engine *engine, uint64_t id);

/* Returns the name and the id of the first PMC of the instance with id > after, or NULL. The name
 * is valid until PMCs are created, removed or renamed. */
const char *engine_pmc_next(struct instance *instance, uint64_t after, uint64_t *id);

/* ---- operations of the tree; call->uid, gid and tid are the requester's ---- */

int engine_mkdir(struct call *call, const char *name, mode_t mode,
                 uint64_t *id);                        /* mkdir: creates a PMC without an event */
int engine_rmdir(struct call *call, const char *name); /* releases a PMC (PMCRELEASE) */
int engine_rename(struct call *call, const char *from, const char *to);
int engine_chmod(struct call *call, mode_t mode);          /* call->pmc */
int engine_chown(struct call *call, uid_t uid, gid_t gid); /* (uid_t)-1, (gid_t)-1: unchanged */
/* Operations on instances. Only the superuser creates and removes them. */
int engine_mkinstance(struct call *call, const char *name, mode_t mode, uint64_t *id);
int engine_rminstance(struct call *call, const char *name);
int engine_chmod_instance(struct call *call, mode_t mode); /* call->instance */
int engine_chown_instance(struct call *call, uid_t uid, gid_t gid);

/* Called when the file is closed: removes the PMC that it holds (lifetime=open), and ends the
 * charge. open_file_clear() then frees the state. */
void open_file_release(struct engine *engine, struct open_file *open);
void open_file_clear(struct open_file *open);
/* Frees the state but keeps the objects that its journal record refers to. */
void open_file_forget(struct open_file *open);
/*
 * Charges the memory of call->open to call->payer. Shares `rights` (may be NULL), charges them too,
 * and sets them in call and call->open. Returns 0, or P10, P11 or E32; on error the caller keeps
 * `rights`. The charge ends with open_file_release(), or with open_file_forget() before a reload.
 */
int open_file_start_charge(struct call *call, struct rights *rights);
void open_file_end_charge(struct open_file *open); /* drops `payer` too */
/*
 * Charges the present memory of call->open and this number of bytes for texts that fs keeps for the
 * reader, instead of the earlier charge. Returns 0, or P11 without a change if a quota is exceeded.
 * A lower charge is never refused.
 */
int open_file_charge_texts(struct call *call, uint64_t bytes);
/*
 * Charges memory that a request uses while it waits or runs. `what` is the subject of the sentence
 * of P11. Returns 0 and the charged user (a reference) for engine_uncharge_request(), or P11 or
 * E32.
 */
int engine_charge_request(struct call *call, uint64_t bytes, const char *what, struct user **user);
/* Sets P11: the user's quota leaves less than `bytes` for `what`. Returns -EDQUOT. */
int engine_refuse_memory(struct call *call, const struct user *user, uint64_t bytes,
                         const char *what);
void engine_uncharge_request(struct user *user, uint64_t bytes);
/* Prints the engine's parts of the open file's journal record, for open_file_load(). */
void open_file_print(struct open_file *open, struct buf *out);
/* Loads an open file after all PMCs and charges it. Returns false if the text is invalid, or on
 * ENOMEM. */
bool open_file_load(struct open_file *open, const char *text, size_t len, struct engine *engine);
/* Charges a loaded open file without checking the quota. Returns false on ENOMEM. */
bool open_file_recharge(struct engine *engine, struct open_file *open);

/*
 * Counts an operation (info/stats: syscalls, syscall_errors) and stores the line of a failure for
 * `info/last_error`. where: path in the instance, "web/count" or "web: mkdir"; NULL: stores no
 * line, for a success, and for failed reads and requests of attributes except EIO and EDQUOT.
 * command: a write; the PMC's `error` shows its result, and EIO of reads. Saves the totals at most
 * once a second.
 */
void engine_note_result(struct call *call, int rc, const char *where, bool command);

/* ---- deferred work: core/work.h ---- */

/* Return the next PMC whose requests and pollers must be woken, and the next name that the kernel
 * must forget, or false. engine_next_name() frees an instance whose name it has copied. */
bool engine_next_wake(struct engine *engine, uint64_t *pmc_id);
bool engine_next_name(struct engine *engine, struct gone_name *gone);
bool engine_has_name(const struct engine *engine); /* true if engine_next_name() has one */
/* Returns true if engine_task() has work: changes, drains, backend.drain_sideband(), snapshots for
 * pollers, CPUs that went online or offline, unused links. */
bool engine_has_task(const struct engine *engine);
/* Runs the next background task. call: only engine and instance are set. Returns false if no task
 * could run. */
bool engine_task(struct call *call);
/* Returns when engine_tick() must be called (CLOCK_MONOTONIC ns); UINT64_MAX: never. */
uint64_t engine_deadline(const struct engine *engine);
void engine_tick(struct engine *engine, uint64_t now_ns); /* queues the work that is due */
/* Notes whether processes sleep in poll on the PMC. If so, the engine takes a snapshot of it every
 * notify_ms to detect changes. */
void engine_set_polled(struct engine *engine, uint64_t pmc_id, bool polled);

/* ---- state for a later worker ---- */

/* Writes changes to this journal from now on; the caller owns it. NULL: none. */
void engine_set_journal(struct engine *engine, struct journal *journal);
/* Writes the records of changed objects before the lock is dropped. Returns true for a full
 * snapshot: the caller then writes all of its records too. */
bool engine_write_records(struct engine *engine);
/* Publishes the records after engine_write_records(). fine: the caller's records fitted. answered:
 * publish even without changes, to validate an answer. Returns false if a record did not fit: the
 * last publication stays valid until the next full snapshot. */
bool engine_publish(struct engine *engine, bool fine, bool answered);
/* Returns true if there are records to write. */
bool engine_has_unwritten(const struct engine *engine);
/* Compares the records of processes, rights and PMCs with the objects. Returns false with a
 * sentence about the first difference. */
bool engine_check(struct engine *engine, struct err *err);
/* Called before a reload (debug builds): drains all recorders into the logs, and notes lost events
 * that only this engine can detect. */
void engine_prepare_reload(struct engine *engine);
/* Frees the engine but keeps the objects that the journal refers to. */
void engine_forget(struct engine *engine);
/* Loads the journal into a new engine after engine_start(). Returns 0, or -EINVAL with a sentence
 * that names the record or reports ENOMEM. */
int engine_load(struct engine *engine, const struct journal *journal, struct err *err);
/* Completes the load after the last open_file_load() and engine_set_journal(). */
void engine_finish_load(struct engine *engine);
void engine_free_loaded_logs(struct engine *engine); /* drops references to the loaded logs */
/* Probes for slots that others hold, at the start and after engine_load(). */
void engine_probe(struct engine *engine);

/* ---- statistics and settings ---- */

/* SIGHUP: takes over the tunables that can change at run time. */
void engine_retune(struct engine *engine, const struct tunables *fresh);
/* Returns the catalog of events/, or NULL before engine_catalog_load(). */
const struct catalog *engine_catalog(struct engine *engine);
/* Loads the catalog if it is not loaded. refresh: also checks for new events. Never returns
 * CALL_WAIT. */
int engine_catalog_load(struct call *call, bool refresh);
/* Returns the number of rows of all classes, for admin/cpuN/ROW. Rows are numbered through all
 * classes with rows, in the order of info/classes. */
unsigned engine_n_rows(const struct engine *engine); /* of all classes */
/* Returns true if the row exists on this CPU. */
bool engine_cpu_has_row(const struct engine *engine, unsigned cpu, unsigned number);

/*
 * ---- the files of the tree, which fs/tree/files.c lists ----
 *
 * show_* append the complete text to call->out, store_* execute one command, stream_* append text
 * for one read. Errors are in call->err. Types: core/call.h.
 */

/* Upper bounds of the length of texts that may be longer than a page. */
uint64_t bound_pmc(const struct call *call);
uint64_t bound_log(const struct call *call); /* samples, samples.perf, samples.folded */
uint64_t bound_series(const struct call *call);
uint64_t bound_counts(const struct call *call); /* counts, metrics.prom */
uint64_t bound_rows(const struct call *call);
uint64_t bound_classes(const struct call *call); /* texts with a line for each class or CPU */
uint64_t bound_event(const struct call *call);

/* files of a PMC (call->pmc) */
int show_config(struct call *call);
int show_event(struct call *call);
int show_mode(struct call *call);
int show_target(struct call *call);
int show_ctl(struct call *call);
int show_count(struct call *call);
int show_detail(struct call *call);
int show_metrics(struct call *call);
int show_status(struct call *call);
int show_error(struct call *call);
int stream_series(struct call *call);
/* The streams of the log are called also after the release of the PMC, with call->pmc NULL. */
int stream_samples(struct call *call);
int stream_samples_perf(struct call *call);
bool filler_lines(struct call *call); /* series, samples */
bool filler_samples_perf(struct call *call);
void begin_samples(struct call *call);
void begin_samples_perf(struct call *call);
void begin_state(struct call *call); /* ctl, status, target */
int show_samples_folded(struct call *call);
int store_command(struct call *call); /* all commands that change a PMC */
int store_samples(struct call *call); /* hwpmc's PMC_OP_WRITELOG */
unsigned poll_count(struct call *call);
unsigned poll_state(struct call *call); /* ctl, status, target */
unsigned poll_series(struct call *call);
unsigned poll_samples(struct call *call); /* samples, samples.perf */

/* files of an instance */
int show_counts(struct call *call);
int show_metrics_prom(struct call *call);
int show_info_version(struct call *call);
int show_info_backend(struct call *call);
int show_info_cpu(struct call *call);
int show_info_cpuref(struct call *call);
int show_info_cpus(struct call *call);
int show_info_npmc(struct call *call);
int show_info_classes(struct call *call);
int show_info_rows(struct call *call);
int show_info_stats(struct call *call);
int show_info_tsc(struct call *call);
int show_info_last_error(struct call *call);

/* events/CLASS/EVENT: call->object is the catalog id of the event */
int show_catalog_event(struct call *call);

int show_probe(struct call *call); /* admin/probe */
int store_probe(struct call *call);
/* admin: call->object is the tunable, or cpu << 16 | row */
int show_tunable(struct call *call);
int store_tunable(struct call *call);
int show_slot(struct call *call);
int store_slot(struct call *call);
/* admin/instances/NAME: call->object is the instance's id, call->file the name of the limit */
int show_limit(struct call *call);
int store_limit(struct call *call);
int show_instance_ctl(struct call *call);
int store_instance_ctl(struct call *call);
