/*
 * The functions of the files in the tree, which fs/tree/files.c lists. All need the engine's lock.
 * show_* append the complete text to call->out, store_* execute one command, stream_* append text
 * for one read. Errors are in call->err. Types: core/call.h.
 */
#pragma once

#include "core/call.h"

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
int show_ratios(struct call *call);
int show_status(struct call *call);
int show_error(struct call *call);
int stream_series(struct call *call);
int stream_samples(struct call *call); /* also after the release, with call->pmc NULL */
int stream_samples_perf(struct call *call);
bool idle_lines(struct call *call); /* series, samples */
bool idle_samples_perf(struct call *call);
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
int show_metrics(struct call *call);
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

/* events/CLASS/EVENT: call->index is the catalog id of the event */
int show_catalog_event(struct call *call);

int show_probe(struct call *call); /* admin/probe */
int store_probe(struct call *call);
/* admin: call->index is the tunable, or cpu << 16 | row */
int show_tunable(struct call *call);
int store_tunable(struct call *call);
int show_slot(struct call *call);
int store_slot(struct call *call);
/* admin/instances/NAME: call->index is the instance's id, call->file the name of the limit */
int show_limit(struct call *call);
int store_limit(struct call *call);
int show_instance_ctl(struct call *call);
int store_instance_ctl(struct call *call);
