/*
 * The log of a PMC: its creation and size, notes before it exists, and the recording.
 */
#include "core/pmc/pmc.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOG_SIZE_MIN 4096

unsigned recorded_for(enum mode mode, const struct settings *settings)
{
    if (mode_table[mode].sampling)
        return RECORDED_SAMPLES;
    return (settings->word[KEY_LOG_CSW] ? RECORDED_SWITCHES : 0) |
           (settings->word[KEY_LOG_EXIT] ? RECORDED_EXITS : 0);
}

uint64_t log_size_max(const struct engine *engine)
{
    uint64_t size = tunable_u64(&engine->tunables, TUNABLE_NBUFFERS) *
                    tunable_u64(&engine->tunables, TUNABLE_LOGBUFFERSIZE) * 1024;

    return size > LOG_SIZE_MIN ? size : LOG_SIZE_MIN;
}

uint64_t log_size(const struct engine *engine, const struct settings *settings)
{
    const uint64_t asked = settings_number(settings, KEY_LOGSIZE);

    return asked == UINT64_MAX ? log_size_max(engine) : asked; /* "default" is UINT64_MAX */
}

/* ---- notes before the log exists ---- */

/*
 * A counting PMC has a few records that are rarely read. They are stored as a text, which is a
 * field of the journal record, until there are more of them or a reader opens the log.
 */
#define NOTES_BYTES 256
#define NOTE_OUT    "%x,%" PRIx64 ",%x,%x,%s%x,%" PRIx64 ",%zx,"
#define NOTE_IN     "%x,%" SCNx64 ",%x,%x,%x,%" SCNx64 ",%zx,%n"

/* Reads the next note and returns the text after it. If the text is not valid, sets type to 0 and
 * returns the end of the text. */
static const char *note_next(const struct pmc *pmc, const char *at, struct note *note)
{
    unsigned type;
    int used = 0;

    *note = (struct note){.n = 0};
    if (sscanf(at, NOTE_IN, &type, &note->time, &note->pid, &note->tid, &note->cpu, &note->id,
               &note->text_len, &used) < 7 ||
        used == 0 || note->text_len > strlen(at + used))
        return at + strlen(at);
    note->type = RECORD_ALLOCATE + type;
    note->time += pmc->created_monotonic_ns;
    note->text = at + used;
    return note->text + note->text_len;
}

/* Adds the records to the notes. Returns false, without a change, if the records need a log, or on
 * ENOMEM. */
static bool notes_add(struct pmc *pmc, const struct buf *records)
{
    char room[NOTES_BYTES], *notes;
    struct buf text = buf_in(room, sizeof room);
    bool fine = !pmc->log;

    buf_str(&text, pmc->notes ? pmc->notes : "");
    for (size_t at = 0; fine && at < records->len;) {
        const struct record_note *note = (const struct record_note *)(records->data + at);
        const bool has_cpu = note->cpu != UINT32_MAX; /* else "-1", which reads back as the same */

        at += note->head.size;
        fine = record_is_note(&note->head) && !note->n && !note->head.misc &&
               !memchr(note_text(note), '\0', note->text_len);
        if (!fine)
            break;
        buf_printf(&text, NOTE_OUT, note->head.type - RECORD_ALLOCATE,
                   note->time - pmc->created_monotonic_ns, note->pid, note->tid, has_cpu ? "" : "-",
                   has_cpu ? note->cpu : 1, note->id, (size_t)note->text_len);
        buf_add(&text, note_text(note), note->text_len);
        fine = text.len < NOTES_BYTES;
    }
    notes = fine ? strdup(buf_text(&text)) : NULL;
    buf_free(&text);
    if (!notes)
        return false;
    free(pmc->notes);
    pmc->notes = notes;
    pmc_touch(pmc);
    return true;
}

bool pmc_has_log(const struct pmc *pmc)
{
    return pmc->log || pmc->notes;
}

bool pmc_ensure_log(struct pmc *pmc)
{
    struct buf records = {0};
    struct note note;

    if (pmc->log)
        return true;
    pmc->log = log_new(log_size(pmc->engine, &pmc->settings));
    if (!pmc->log)
        return false;
    log_set_charge(pmc->log, user_charge_log, pmc->user);
    pmc_touch(pmc);
    if (!pmc->notes)
        return true;
    for (const char *at = pmc->notes; *at;) {
        at = note_next(pmc, at, &note);
        if (note.type)
            record_add_note(&records, &note);
    }
    log_put_all_once(pmc->log, 0, NULL, records.data, records.len);
    buf_free(&records);
    free(pmc->notes);
    pmc->notes = NULL;
    return true;
}

void pmc_log_records(struct pmc *pmc, const struct buf *records)
{
    if (!pmc->settings.word[KEY_LOG] || !records->len || records->failed)
        return;
    if (!notes_add(pmc, records) && pmc_ensure_log(pmc))
        log_put_all_once(pmc->log, pmc->engine->request, NULL, records->data, records->len);
}

/* A CPU that went online has a buffer too, and the journal record must contain its descriptor. */
void pmc_charge_recording(struct pmc *pmc)
{
    struct recorder_facts facts = {0};
    unsigned fds = pmc->recording ? recording_fds(pmc->recording) : 0;

    if (pmc->recording)
        pmc->engine->backend->recorder_facts(recording_recorder(pmc->recording), &facts);
    if (fds != pmc->recorded.fds)
        pmc_touch(pmc);
    pmc_charge_fds(pmc, (long)fds - (long)pmc->recorded.fds);
    user_charge_unchecked(pmc->user, USED_BYTES, (int64_t)(facts.bytes - pmc->recorded.bytes));
    pmc->recorded.fds = fds;
    pmc->recorded.bytes = facts.bytes;
}

struct recording *pmc_set_recording(struct pmc *pmc, struct recording *recording)
{
    struct recording *before = pmc->recording;

    pmc_touch(pmc);
    pmc->recording = recording;
    pmc_charge_recording(pmc);
    return before;
}

void pmc_update_drain_list(struct pmc *pmc)
{
    struct engine *engine = pmc->engine;
    bool follows = pmc->recording && !pmc_released(pmc) && state_table[pmc->state].started;

    if (follows == (pmc->drain.entry.le_prev != NULL))
        return;
    if (!follows) {
        LIST_REMOVE(pmc, drain.entry);
        pmc->drain.entry.le_prev = NULL;
        return;
    }
    if (LIST_EMPTY(&engine->recording_pmcs))
        engine->drain_due_ns = engine->host->now_ns(engine->host_state) + DRAIN_NS;
    LIST_INSERT_HEAD(&engine->recording_pmcs, pmc, drain.entry);
}

/* Notes have no losses. */
void pmc_log_losses(const struct pmc *pmc, struct log_stats *out)
{
    *out = (struct log_stats){0};
    if (pmc->log)
        log_stats(pmc->log, out);
}

void pmc_log_stats(const struct pmc *pmc, struct log_stats *out)
{
    struct note note;

    pmc_log_losses(pmc, out);
    for (const char *at = pmc->notes; at && *at; out->records++) {
        at = note_next(pmc, at, &note);
        out->bytes += sizeof(struct record_note) + record_padded(note.text_len);
    }
}

static uint64_t throttle_count(const struct pmc *pmc)
{
    struct log_stats stats;

    pmc_log_losses(pmc, &stats);
    return stats.throttled;
}

bool pmc_was_throttled(const struct pmc *pmc)
{
    return throttle_count(pmc) != pmc->throttled;
}

void pmc_clear_missed(struct pmc *pmc)
{
    pmc_touch(pmc);
    pmc->missed = false;
    pmc->throttled = throttle_count(pmc);
}

void log_stats_add(struct log_stats *to, const struct log_stats *from)
{
    to->records += from->records;
    to->lost += from->lost;
    to->kernel_lost += from->kernel_lost;
    to->throttled += from->throttled;
    to->hidden += from->hidden;
    to->refused += from->refused;
}

struct recording_plan pmc_recording_plan(const struct pmc *pmc, unsigned n, unsigned recorded)
{
    const struct engine *engine = pmc->engine;

    return (struct recording_plan){
        .host = engine->host,
        .host_state = engine->host_state,
        .backend = engine->backend,
        .backend_state = engine->backend_state,
        .log = pmc->log,
        .recorder = {.tag = pmc->id, .fds_left = ULONG_MAX, .fds_quota = ULONG_MAX},
        .n = n,
        .samples = recorded & RECORDED_SAMPLES,
        .switches = recorded & RECORDED_SWITCHES,
        .exits = recorded & RECORDED_EXITS,
    };
}
