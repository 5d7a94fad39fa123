/*
 * The tables of what the journal keeps of each object.
 */
#include "core/journal/fields.h"

#include "core/pmc/pmc.h"
#include "core/read/reader_state.h"
#include "core/show/series.h"

#include <stddef.h>

/* Its kind follows from its type: an enum is an unsigned. */
#define KIND_OF(value)                                                                             \
    _Generic((value), bool: FIELD_BOOL, unsigned: FIELD_U32, int: FIELD_I32, uint64_t: FIELD_U64,  \
             double: FIELD_DOUBLE, char *: FIELD_TEXT)
#define MEMBER(type, member) ((const type *)0)->member
#define BELOW(type, member, limit)                                                                 \
    {                                                                                              \
#member, offsetof(type, member), KIND_OF(MEMBER(type, member)), 1, limit                   \
    }
#define FIELD(type, member) BELOW(type, member, 0)
#define ARRAY(type, member)                                                                        \
    {                                                                                              \
#member, offsetof(type, member), KIND_OF(MEMBER(type, member)[0]),                         \
            sizeof MEMBER(type, member) / sizeof MEMBER(type, member)[0], 0                        \
    }
#define CHARS(type, member)                                                                        \
    {                                                                                              \
#member, offsetof(type, member), FIELD_CHARS, sizeof MEMBER(type, member), 0               \
    }
#define SAVED(text, list)                                                                          \
    {                                                                                              \
        text, list, sizeof list / sizeof list[0]                                                   \
    }

static const struct field pmc_fields[] = {
    FIELD(struct pmc, id),
    FIELD(struct pmc, uid),
    FIELD(struct pmc, payer),
    FIELD(struct pmc, gid),
    FIELD(struct pmc, mode),
    FIELD(struct pmc, maker),
    FIELD(struct pmc, maker_key),
    FIELD(struct pmc, created_ns),
    FIELD(struct pmc, changed_ns),
    FIELD(struct pmc, made_ns),
    FIELD(struct pmc, made_tsc),
    BELOW(struct pmc, state, PMC_STATES),
    BELOW(struct pmc, effective, MODE_COUNT),
    FIELD(struct pmc, kernel),
    FIELD(struct pmc, had_target),
    FIELD(struct pmc, epoch),
    FIELD(struct pmc, resets),
    FIELD(struct pmc, change),
    FIELD(struct pmc, first_start_ns),
    FIELD(struct pmc, started_ns),
    FIELD(struct pmc, ran_ns),
    FIELD(struct pmc, metrics),
    FIELD(struct pmc, wants_all),
    FIELD(struct pmc, held_by),
    FIELD(struct pmc, left_out),
    FIELD(struct pmc, raced),
    FIELD(struct pmc, missed),
    FIELD(struct pmc, throttled),
    FIELD(struct pmc, error),
    FIELD(struct pmc, began),
    FIELD(struct pmc, set_number),
    FIELD(struct pmc, sampling.period),
    FIELD(struct pmc, sampling.freq),
    FIELD(struct pmc, sampling.asked),
    FIELD(struct pmc, sampling.slowed),
    FIELD(struct pmc, sampling.chain_user),
    FIELD(struct pmc, sampling.chain_kernel),
    FIELD(struct pmc, sampling.depth),
    FIELD(struct pmc, sampling.depth_asked),
    BELOW(struct pmc, recorded, 2 * RECORDED_EXITS),
    FIELD(struct pmc, recorded_kernel),
};
const struct saved saved_pmc = SAVED("pmc", pmc_fields);

#define LINKS_MAX (1u << 20)

static const struct field pmc_rest_fields[] = {
    FIELD(struct pmc_rest, instance),
    FIELD(struct pmc_rest, name),
    FIELD(struct pmc_rest, owner),
    BELOW(struct pmc_rest, events, SET_MAX + 1),
    BELOW(struct pmc_rest, links, LINKS_MAX),
    FIELD(struct pmc_rest, log),
    FIELD(struct pmc_rest, sets_bytes),
};
const struct saved saved_pmc_rest = SAVED("", pmc_rest_fields);

static const struct field event_fields[] = {
    FIELD(struct event, written),
    FIELD(struct event, resolved),
    CHARS(struct event, generic),
    CHARS(struct event, unit),
    FIELD(struct event, scale),
    FIELD(struct event, rows),
    BELOW(struct event, rows_needed, 3),
    FIELD(struct event, scope),
    FIELD(struct event, sampling),
    FIELD(struct event, whole),
    FIELD(struct event, needs_kernel),
    FIELD(struct event, needs_superuser),
    BELOW(struct event, user, SAID_ON + 1),
    BELOW(struct event, kernel, SAID_ON + 1),
    ARRAY(struct event, code),
};
const struct saved saved_event = SAVED("event", event_fields);

static const struct field tally_fields[] = {
    FIELD(struct tally, covered_ns),
    FIELD(struct tally, enabled_ns),
    FIELD(struct tally, running_ns),
    FIELD(struct tally, never_ran),
};
const struct saved saved_tally = SAVED("base", tally_fields);

static const struct field claim_fields[] = {
    FIELD(struct claim, instance),
    FIELD(struct claim, system),
    BELOW(struct claim, n, SET_MAX + 1),
};
const struct saved saved_claim = SAVED("claim", claim_fields);

static const struct field member_fields[] = {
    FIELD(struct claim_member, fits),
    FIELD(struct claim_member, needed),
    FIELD(struct claim_member, asked),
    FIELD(struct claim_member, got),
};
const struct saved saved_member = SAVED("member", member_fields);

static const struct field link_fields[] = {
    FIELD(struct link, id),
    BELOW(struct link, kind, TARGET_CGROUP + 1),
    FIELD(struct link, pid),
    FIELD(struct link, tid),
    BELOW(struct link, cpu, CPUS_MAX),
    FIELD(struct link, offline),
    FIELD(struct link, cgroup_fd),
    FIELD(struct link, cgroup_key),
    FIELD(struct link, cgroup),
    FIELD(struct link, ended),
    FIELD(struct link, gone),
    FIELD(struct link, moved),
    FIELD(struct link, armed),
    FIELD(struct link, dropped),
    FIELD(struct link, below),
    FIELD(struct link, asked),
    FIELD(struct link, missed),
    FIELD(struct link, shown_pid),
    FIELD(struct link, shown_tid),
    FIELD(struct link, gap_ns),
    FIELD(struct link, gone_since_ns),
    FIELD(struct link, facts.threads),
    FIELD(struct link, facts.descriptors),
    FIELD(struct link, facts.raced),
    FIELD(struct link, facts.left_out),
    FIELD(struct link, facts.covered),
};
const struct saved saved_link = SAVED("link", link_fields);

static const struct field held_fields[] = {
    FIELD(struct held, proc),
    FIELD(struct held, rights),
};
const struct saved saved_held = SAVED("", held_fields);

static const struct field proc_fields[] = {
    FIELD(struct proc, id),
    FIELD(struct proc, dead),
    FIELD(struct proc, guarded),
    FIELD(struct proc, left),
};
const struct saved saved_proc = SAVED("process", proc_fields);

#define WORK_FIELDS(type)                                                                          \
    FIELD(type, work.operations), FIELD(type, work.failed), FIELD(type, work.attaches),            \
    FIELD(type, work.raced), FIELD(type, work.drained), FIELD(type, work.released.records),        \
    FIELD(type, work.released.lost), FIELD(type, work.released.kernel_lost),                       \
    FIELD(type, work.released.throttled), FIELD(type, work.released.hidden),                       \
    FIELD(type, work.released.refused)

static const struct field counts_fields[] = {
    WORK_FIELDS(struct engine),
    FIELD(struct engine, next_instance),
    FIELD(struct engine, kept_serial),
    ARRAY(struct engine, stats),
};
const struct saved saved_counts = SAVED("engine", counts_fields);

static const struct field instance_fields[] = {
    FIELD(struct instance, id),
    FIELD(struct instance, name),
    FIELD(struct instance, uid),
    FIELD(struct instance, gid),
    FIELD(struct instance, mode),
    FIELD(struct instance, changed_ns),
    ARRAY(struct instance, limit),
    WORK_FIELDS(struct instance),
};
const struct saved saved_instance = SAVED("instance", instance_fields);

static const struct field error_fields[] = {
    FIELD(struct last_error, uid),
    FIELD(struct last_error, when),
    FIELD(struct last_error, line),
};
const struct saved saved_error = SAVED("error", error_fields);

static const struct field open_file_fields[] = {
    FIELD(struct open_file, refused),     FIELD(struct open_file, began),
    FIELD(struct open_file, swapped),     FIELD(struct open_file, swap),
    FIELD(struct open_file, holds),       FIELD(struct open_file, payer_uid),
    FIELD(struct open_file, instance),    FIELD(struct open_file, has_seen),
    FIELD(struct open_file, seen_change), FIELD(struct open_file, seen_count),
    FIELD(struct open_file, seen_resets),
};
const struct saved saved_open_file = SAVED("file", open_file_fields);

static const struct field sampled_fields[] = {
    FIELD(struct log_event, name),   FIELD(struct log_event, resolved),
    FIELD(struct log_event, period), FIELD(struct log_event, freq),
    FIELD(struct log_event, chains), FIELD(struct log_event, type),
    FIELD(struct log_event, config),
};
const struct saved saved_sampled = SAVED("sampled", sampled_fields);

static const struct field reader_fields[] = {
    FIELD(struct log_reader, pmc),
    FIELD(struct log_reader, uid),
    FIELD(struct log_reader, headed),
    FIELD(struct log_reader, closed),
    FIELD(struct log_reader, told_sets),
    FIELD(struct log_reader, facts.class),
    FIELD(struct log_reader, facts.event),
    FIELD(struct log_reader, facts.monotonic_ns),
    FIELD(struct log_reader, facts.realtime_ns),
    FIELD(struct log_reader, facts.tsc),
};
const struct saved saved_reader = SAVED("reader", reader_fields);

static const struct field series_fields[] = {
    FIELD(struct series_cursor, begun),      FIELD(struct series_cursor, ended),
    FIELD(struct series_cursor, pmc_start),  FIELD(struct series_cursor, resets),
    FIELD(struct series_cursor, due_ns),     FIELD(struct series_cursor, enabled_ns),
    FIELD(struct series_cursor, elapsed_ns), BELOW(struct series_cursor, n, SET_MAX + 1),
    ARRAY(struct series_cursor, last),
};
const struct saved saved_series = SAVED("series", series_fields);

static const struct field reader_place_fields[] = {
    FIELD(struct reader_place, form),
    FIELD(struct reader_place, log),
    FIELD(struct reader_place, mark.next),
    FIELD(struct reader_place, mark.begun),
};
const struct saved saved_reader_place = SAVED("", reader_place_fields);
