/*
 * What comes while the inventory is made: it is taken, so that the backend's buffers do not
 * overflow however many processes there are, and waits as it came until the inventory is told.
 */
#include "core/recording_state.h"

#define KEPT_BYTES (16 << 20)
#define KEPT_NS    20000000 /* between two looks at the counters */

static void keep(void *arg, const struct record *record)
{
    struct recording *recording = arg;
    const size_t begun = recording->kept.len;

    buf_add(&recording->kept, record, record->size);
    if (recording->kept.failed) {
        recording->kept.len = begun;
        recording->kept.failed = false;
        recording->dropped++;
    }
}

void recording_keep(struct recording *recording)
{
    const struct recording_plan *plan = &recording->plan;
    const struct intake intake = {.put = keep, .arg = recording};
    const uint64_t now_ns = plan->host->now_ns(plan->host_state);

    if (now_ns < recording->keep_ns || recording->kept.len >= KEPT_BYTES)
        return;
    recording->keep_ns = now_ns + KEPT_NS;
    plan->backend->drain(recording->recorder, false, &intake);
}

void recording_put_kept(struct recording *recording)
{
    for (size_t at = 0; at < recording->kept.len;) {
        const struct record *record = (const struct record *)(recording->kept.data + at);

        recording_put(recording, record);
        at += record->size;
    }
    buf_free(&recording->kept);
}
