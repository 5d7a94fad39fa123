/*
 * Arbitrary bytes as the contents of a ring buffer: the samples made from it are well-formed, and
 * all well-formed records can be put into a table of tasks and a log and read again.
 */
#include "backends/perf/record/recorder.h"
#include "core/log/log.h"
#include "core/log/tasks.h"

#include "tests/fuzz/fuzz.h"

#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

enum {
    RING_BYTES = 4096
};

static struct tasks tasks;
static struct log *log_of;
static uint64_t n_put;

static void put(void *arg, const struct record *record)
{
    (void)arg;
    FUZZ_CHECK(record->size <= RECORD_MAX);
    if (!record_is_valid(record, record->size))
        return; /* the kernel never writes this */
    tasks_apply(&tasks, record);
    spaces_bound(&tasks, 6000);
    log_put_once(log_of, 0, record);
    n_put++;
}

static void put_sample(void *arg, const struct sample *sample)
{
    static uint64_t record[RECORD_MAX / sizeof(uint64_t)];

    FUZZ_CHECK(SAMPLE_SHORT + sample->rest_len <= RECORD_MAX);
    sample_write(sample, (void *)record);
    FUZZ_CHECK(record_is_valid((const void *)record, SAMPLE_SHORT + sample->rest_len));
    put(arg, (const void *)record);
}

static void read_all(void)
{
    struct log_cursor *cursor = log_open(log_of);
    struct buf out = {0};

    while (log_ready(cursor) && log_read(cursor, &out, 4096))
        ;
    for (size_t at = 0; at < out.len; at += ((const struct record *)(out.data + at))->size)
        FUZZ_CHECK(record_is_valid((const void *)(out.data + at), out.len - at));
    buf_free(&out);
    log_close(cursor);
}

/* The first bytes select the counters, whose ids in the records are 0 to 2. */
static void take(const uint8_t *data, size_t size)
{
    static uint64_t bytes[RING_BYTES / 8], scratch[(RECORD_SPACE + 7) / 8];
    struct perf_event_mmap_page page = {.data_head = size};
    struct ring ring = {.page = &page, .data = (char *)bytes, .size = RING_BYTES};
    struct recorder recorder = {.rings = &ring, .n_rings = 1, .scratch = (char *)scratch};
    struct origin origin = {.recorder = &recorder,
                            .set_number = 1,
                            .period = data[0] % 2,
                            .n = 1 + data[1] % 3,
                            .order = {0, 1, 2},
                            .samples = data[0] & 2,
                            .chains = data[0] & 4,
                            .shares_one = data[0] & 8,
                            .shared_parts = data[0] & 32 ? RECORD_STACK : 0,
                            .descendants = true,
                            .threads = data[0] & 16};

    memcpy(bytes, data, size);
    recorder.origins = &origin;
    for (unsigned i = 0; i < 3; i++)
        recorder_add_id(
            &recorder, &(struct event_id){.kernel_id = i,
                                          .origin = &origin,
                                          .kind = (uint8_t)i,
                                          .parts = (uint8_t)(data[1] & (RECORD_RAW | RECORD_STACK)),
                                          .has_period = data[1] & 8});
    recorder_pass(&recorder, UINT64_MAX, &(struct intake){.put = put, .sample = put_sample});
    recorder_drop_ids(&recorder, &origin);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 16 || size > RING_BYTES)
        return 0;
    tasks_init(&tasks);
    log_of = log_new(4096);
    take(data, size);
    read_all();
    log_unref(log_of);
    tasks_free(&tasks);
    return 0;
}
