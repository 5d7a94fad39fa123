/*
 * Any bytes as records: what is found well-formed can be read to its end, amounts to address spaces
 * that can be asked and printed, and goes through a log whose readers account for every one. Each
 * six bytes of the input make a record, some with a byte changed; a log saved and changed is loaded
 * or refused.
 */
#include "core/base/arena.h"
#include "core/log/log.h"
#include "core/log/record.h"
#include "core/log/spaces.h"

#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#define SPACES_BYTES 6000

struct reader {
    struct log_cursor *cursor;
    uint64_t received, dropped;
};

static int64_t charged;

/* Everything is granted but now and then. */
static bool granted(void *arg, int64_t bytes)
{
    unsigned *calls = arg;

    if (bytes > 0 && ++*calls % 5 == 0)
        return false;
    charged += bytes;
    return true;
}

/* Every byte that its lengths promise is there. */
static volatile uint64_t bytes_read; /* so that the reads are not left out */

static void read_record(const struct record *record)
{
    uint64_t seen = record_time(record);

    if (record_is_note(record)) {
        const struct record_note *note = (const struct record_note *)record;

        for (unsigned i = 0; i < note->n; i++)
            seen += note->value[i];
        for (unsigned i = 0; i < note->text_len; i++)
            seen += (unsigned char)note_text(note)[i];
    } else if (record->type == RECORD_SAMPLE && record->size > SAMPLE_SHORT) {
        const struct record_sample *sample = (const struct record_sample *)record;

        for (uint64_t i = 0; i < sample->n_frames; i++)
            seen += sample->frame[i];
    } else if (record_tail(record)) {
        seen += record_tail(record)->id;
    }
    if (record->type == RECORD_COMM)
        seen += strlen(((const struct record_comm *)record)->name);
    if (record->type == RECORD_MAP)
        seen += strlen(((const struct record_map *)record)->path);
    bytes_read += seen;
}

static void make_record(const uint8_t *data, struct buf *out)
{
    uint32_t pid = data[1] % 8 == 7 ? UINT32_MAX : data[1] % 8, tid = data[2] % 16;
    const struct map_facts map = {.pid = pid,
                                  .tid = tid,
                                  .start = data[5] % 8 ? data[3] : UINT64_MAX - data[3],
                                  .length = data[4] % 16,
                                  .path = "/a/path"};
    const uint64_t frames[4] = {data[3], data[4]};

    switch (data[0] % 9) {
    case 0:
        record_add_map(out, data[4], &map, 0);
        break;
    case 1:
        record_add_comm(out, data[4], pid, tid, data[3] % 2 ? "name" : "another name", 0);
        break;
    case 2:
        record_add_comm(out, data[4], pid, pid, "executed", RECORD_EXECUTED);
        break;
    case 3:
        record_add_task(out, RECORD_FORK, data[4], pid, data[3] % 8, tid, data[5] % 8);
        break;
    case 4:
    case 5:
        record_add_task(out, RECORD_EXIT, data[4], pid, 1, tid, 1);
        break;
    case 6:
        record_add_sample(out, &(struct record_sample){.time = data[3]}, 0, frames, data[5] % 5);
        break;
    case 7:
        record_add_lost(out, data[4], 0, data[3]);
        break;
    default:
        record_add_note(out, &(struct note){.type = RECORD_ALLOCATE + data[3] % 14,
                                            .pid = pid,
                                            .tid = tid,
                                            .n = data[4] % 5,
                                            .value = frames,
                                            .text = "any text",
                                            .text_len = data[5] % 9});
    }
}

static struct tasks *table_new(void)
{
    struct tasks *tasks = calloc(1, sizeof(*tasks));

    tasks_init(tasks);
    return tasks;
}

static void table_free(struct tasks *tasks)
{
    tasks_free(tasks);
    free(tasks);
}

/* The same again from what is printed. */
static void check_spaces(const struct tasks *spaces)
{
    struct tasks *again = table_new();
    struct buf first, second;
    size_t n = 0, printed;

    buf_init(&first, NULL, 0);
    buf_init(&second, NULL, 0);
    printed = spaces_print(spaces, 1, &first);
    for (size_t at = 0; at < first.len; n++) {
        const struct record *record = (const struct record *)(first.data + at);

        FUZZ_CHECK(record_fits(record, first.len - at));
        tasks_take(again, record);
        at += record->size;
    }
    FUZZ_CHECK(n == printed);
    FUZZ_CHECK(spaces_print(again, 1, &second) == printed);
    FUZZ_CHECK(first.len == second.len &&
               (!first.len || !memcmp(first.data, second.data, first.len)));
    table_free(again);
    buf_free(&first);
    buf_free(&second);
}

static void ask_spaces(const struct tasks *spaces, const uint8_t *data)
{
    const struct record_map *map = spaces_find(spaces, data[1] % 8, data[3]);

    FUZZ_CHECK(!map || (map->start <= data[3] && data[3] - map->start < map->length));
    map = tasks_overlap(spaces, data[1] % 8, data[3], data[3] + data[4] % 16u);
    FUZZ_CHECK(!map || map->start < data[3] + data[4] % 16u);
    spaces_name(spaces, data[1] % 8, data[2] % 16);
    FUZZ_CHECK(tasks_bytes(spaces) <= SPACES_BYTES);
}

/* Is it the log's own? Of these the input makes none. */
static bool tells_missed(const struct record *record)
{
    const struct record_note *note = (const struct record_note *)record;

    return record->type == RECORD_DROP && note->n == 1 && note->text_len == 3 &&
           memcmp(note_text(note), "log", 3) == 0;
}

static void reader_take(struct reader *reader, size_t max)
{
    struct buf out;
    size_t n, found = 0, seen = 0;

    buf_init(&out, NULL, 0);
    n = log_take(reader->cursor, &out, max);
    for (size_t at = 0; at < out.len; seen++) {
        const struct record *record = (const struct record *)(out.data + at);

        FUZZ_CHECK(record_fits(record, out.len - at));
        if (tells_missed(record))
            reader->dropped += ((const struct record_note *)record)->value[0];
        else if (record->misc & RECORD_FOUND)
            found++;
        else
            reader->received++;
        at += record->size;
    }
    FUZZ_CHECK(seen == n && found <= n);
    buf_free(&out);
}

static void reader_check(struct reader *reader, struct log *log)
{
    struct log_stats stats;

    while (log_ready(reader->cursor))
        reader_take(reader, 500);
    log_stats(log, &stats);
    FUZZ_CHECK(reader->received + reader->dropped == stats.records);
    log_close(reader->cursor);
}

/* As a later worker has it, with some bytes of what it is found by changed, and used. */
static void check_saved(struct log *log, const uint8_t *data, size_t size)
{
    struct reader reader = {0};
    char was[512], *head = arena_at(log_block(log), sizeof was);
    struct log *again;

    if (!head)
        return;
    log_forget(log);
    memcpy(was, head, sizeof was);
    for (size_t i = 0; i + 3 < size && i < 12; i += 3)
        if (data[i + 2] % 3 == 0)
            head[((size_t)data[i] << 8 | data[i + 1]) % sizeof was] = (char)data[i + 2];
    again = log_adopt(log_block(log));
    if (again) {
        reader.cursor = log_open(again);
        while (log_ready(reader.cursor))
            reader_take(&reader, 4000);
        log_close(reader.cursor);
        log_forget(again);
    }
    log_unref(again);
    memcpy(head, was, sizeof was);
}

static void put(struct log *log, struct tasks *spaces, const struct record *record, size_t room)
{
    if (!record_fits(record, room))
        return;
    read_record(record);
    tasks_take(spaces, record);
    spaces_bound(spaces, SPACES_BYTES);
    if (!(record->misc & RECORD_FOUND)) /* none, so that readers tell them apart */
        log_put_once(log, 0, record);
}

/* The bytes as they are, from every eighth. */
static void put_raw(struct log *log, struct tasks *spaces, const uint8_t *data, size_t size)
{
    uint64_t *copy = malloc(size + 8);

    for (size_t at = 0; at + 8 <= size; at += 8) {
        size_t room = size - at;

        memcpy(copy, data + at, room);
        put(log, spaces, (const struct record *)copy, room);
    }
    free(copy);
}

static void put_made(struct log *log, struct tasks *spaces, const uint8_t *data)
{
    struct buf record;
    uint64_t *copy;

    buf_init(&record, NULL, 0);
    make_record(data, &record);
    copy = malloc(record.len);
    memcpy(copy, record.data, record.len);
    if (data[5] % 4 == 0)
        ((uint8_t *)copy)[data[4] % record.len] ^= data[3];
    put(log, spaces, (const struct record *)copy, record.len);
    ask_spaces(spaces, data);
    free(copy);
    buf_free(&record);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned calls = 0;
    uint64_t max = size ? 600u << data[0] % 5 : 4096;
    struct log *log = log_new(max);
    struct tasks *spaces = table_new();
    struct reader early = {.cursor = log_open(log)}, late = {0};

    charged = 0;
    log_set_charge(log, granted, &calls);
    if (size <= 256)
        put_raw(log, spaces, data, size);
    for (size_t i = 0; i + 6 <= size; i++) {
        put_made(log, spaces, data + i);
        if (data[i] % 8 == 0)
            reader_take(&early, data[i + 1] * 4u);
    }
    check_spaces(spaces);
    late.cursor = log_open(log);
    reader_check(&early, log);
    reader_check(&late, log);
    check_saved(log, data, size);
    log_unref(log);
    table_free(spaces);
    FUZZ_CHECK(charged == 0);
    return 0;
}
