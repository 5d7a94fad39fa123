/*
 * Address spaces, built from COMM, MAP, FORK and EXIT records.
 */
#include "core/log/tasks.h"

#include "tests/unit/memory.h"
#include "tests/unit/unit.h"

#define KERNEL UINT32_MAX

static struct tasks *spaces;
static struct buf records;
static uint64_t max_bytes;

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

static void before(void)
{
    records = (struct buf){0};
    spaces = table_new();
    max_bytes = 64 << 20;
}

static void after(void)
{
    table_free(spaces);
    buf_free(&records);
}

SUITE_SETUP(spaces, before, after);

/* Passes the record in `records` to the table, and overwrites it: no pointer to it may remain. */
static void take(void)
{
    tasks_apply(spaces, (const struct record *)records.data);
    spaces_bound(spaces, max_bytes);
    memset(records.data, 0xee, records.len);
    buf_clear(&records);
}

static void name(uint32_t pid, uint32_t tid, const char *text)
{
    record_add_comm(&records, 1, pid, tid, text, 0);
    take();
}

static void exec(uint32_t pid, const char *text)
{
    record_add_comm(&records, 1, pid, pid, text, RECORD_EXECUTED);
    take();
}

static void map(uint32_t pid, uint64_t start, uint64_t length, const char *path)
{
    record_add_map(
        &records, 1,
        &(struct map_facts){.pid = pid, .tid = pid, .start = start, .length = length, .path = path},
        RECORD_USERMODE);
    take();
}

static void fork_of(uint32_t parent, uint32_t child)
{
    record_add_task(&records, RECORD_FORK, 1, child, parent, child, parent);
    take();
}

static void thread_of(uint32_t pid, uint32_t tid)
{
    record_add_task(&records, RECORD_FORK, 1, pid, pid, tid, pid);
    take();
}

static void exit_of(uint32_t pid, uint32_t tid)
{
    record_add_task(&records, RECORD_EXIT, 1, pid, 1, tid, 1);
    take();
}

static const char *path_at(uint32_t pid, uint64_t address)
{
    const struct record_map *found = tasks_overlap(spaces, pid, address, address + 1);

    return found ? found->path : "-";
}

/* Returns the printed state as words: "name 10 10 sh; map 10 10 4096 /bin/sh". */
static const char *printed(void)
{
    static struct buf text;
    struct buf all = {0};
    size_t n, seen = 0;

    buf_free(&text);
    n = spaces_print(spaces, 44, &all);
    for (size_t at = 0; at < all.len; seen++) {
        const struct record *record = (const struct record *)(all.data + at);
        const struct record_tail *tail = record_tail(record);

        ck_true(record_is_valid(record, all.len - at) && record->misc & RECORD_FOUND);
        ck_assert_uint_eq(record_time(record), 44);
        buf_printf(&text, "%s%s %d %d ", at ? "; " : "",
                   record->type == RECORD_COMM ? "name" : "map", (int)tail->pid, (int)tail->tid);
        if (record->type == RECORD_COMM)
            buf_str(&text, ((const struct record_comm *)record)->name);
        else
            buf_printf(&text, "%u %s", (unsigned)((const struct record_map *)record)->start,
                       ((const struct record_map *)record)->path);
        at += record->size;
    }
    ck_assert_uint_eq(n, seen);
    buf_free(&all);
    return buf_text(&text);
}

TEST(finds_the_mapping_that_holds_an_address)
{
    map(10, 0x3000, 0x1000, "/b");
    map(10, 0x1000, 0x1000, "/a");
    ck_assert_str_eq(path_at(10, 0xfff), "-");
    ck_assert_str_eq(path_at(10, 0x1000), "/a");
    ck_assert_str_eq(path_at(10, 0x1fff), "/a");
    ck_assert_str_eq(path_at(10, 0x2000), "-");
    ck_assert_str_eq(path_at(10, 0x3fff), "/b");
    ck_assert_str_eq(path_at(10, 0x4000), "-");
    ck_assert_str_eq(path_at(11, 0x1000), "-");
}

TEST(a_new_mapping_replaces_overlapping_mappings)
{
    map(10, 0x1000, 0x1000, "/a");
    map(10, 0x2000, 0x1000, "/b");
    map(10, 0x3000, 0x1000, "/c");
    map(10, 0x1800, 0x1000, "/new");
    ck_assert_str_eq(printed(), "map 10 10 6144 /new; map 10 10 12288 /c");
    ck_assert_str_eq(path_at(10, 0x1000), "-");
}

TEST(reports_the_mappings_that_a_new_one_overlaps)
{
    map(10, 0x1000, 0x1000, "/a");
    map(10, 0x2000, 0x1000, "/b");
    ck_assert_str_eq(tasks_overlap(spaces, 10, 0x1fff, 0x5000)->path, "/a");
    ck_assert_str_eq(tasks_overlap(spaces, 10, 0x2000, 0x2001)->path, "/b");
    ck_assert_ptr_null(tasks_overlap(spaces, 10, 0x3000, 0x9000));
    ck_assert_ptr_null(tasks_overlap(spaces, 10, 0, 0x1000));
}

TEST(a_mapping_may_reach_the_last_address)
{
    map(KERNEL, UINT64_MAX - 0xfff, 0x2000, "[kernel]");
    ck_assert_str_eq(path_at(KERNEL, UINT64_MAX - 1), "[kernel]");
    map(KERNEL, 0x1000, 0, "[empty]");
    ck_assert_str_eq(path_at(KERNEL, 0x1000), "-");
}

TEST(the_kernel_has_its_mappings_too_and_they_come_first)
{
    map(10, 0x1000, 0x1000, "/a");
    map(KERNEL, 0xf000, 0x1000, "[kernel]");
    ck_assert_str_eq(path_at(KERNEL, 0xf800), "[kernel]");
    ck_assert_str_eq(printed(), "map -1 -1 61440 [kernel]; map 10 10 4096 /a");
}

TEST(a_fork_copies_mappings_and_name)
{
    name(10, 10, "sh");
    map(10, 0x1000, 0x1000, "/bin/sh");
    fork_of(10, 20);
    ck_assert_str_eq(printed(), "name 10 10 sh; map 10 10 4096 /bin/sh; "
                                "name 20 20 sh; map 20 20 4096 /bin/sh");
}

TEST(after_a_fork_parent_and_child_have_separate_mappings)
{
    map(10, 0x1000, 0x1000, "/a");
    fork_of(10, 20);
    map(20, 0x2000, 0x1000, "/child");
    map(10, 0x3000, 0x1000, "/parent");
    ck_assert_str_eq(path_at(10, 0x2000), "-");
    ck_assert_str_eq(path_at(20, 0x3000), "-");
    ck_assert_str_eq(path_at(10, 0x3000), "/parent");
    ck_assert_str_eq(path_at(20, 0x2000), "/child");
    exit_of(10, 10);
    ck_assert_str_eq(path_at(20, 0x1000), "/a");
}

TEST(a_child_of_an_unknown_process_is_unknown)
{
    fork_of(10, 20);
    ck_assert_str_eq(printed(), "");
}

TEST(a_reused_pid_starts_empty)
{
    name(10, 10, "sh");
    map(20, 0x1000, 0x1000, "/old");
    fork_of(10, 20);
    ck_assert_str_eq(printed(), "name 10 10 sh; name 20 20 sh");
}

TEST(an_exec_clears_the_mappings_and_the_other_threads)
{
    name(10, 10, "sh");
    name(10, 11, "helper");
    map(10, 0x1000, 0x1000, "/bin/sh");
    exec(10, "ls");
    ck_assert_str_eq(printed(), "name 10 10 ls");
    map(10, 0x5000, 0x1000, "/bin/ls");
    ck_assert_str_eq(printed(), "name 10 10 ls; map 10 10 20480 /bin/ls");
}

TEST(another_name_leaves_the_mappings)
{
    map(10, 0x1000, 0x1000, "/a");
    name(10, 10, "renamed");
    ck_assert_str_eq(printed(), "name 10 10 renamed; map 10 10 4096 /a");
}

TEST(threads_have_their_name_or_their_creators)
{
    name(10, 10, "main");
    thread_of(10, 11);
    thread_of(10, 12);
    name(10, 12, "worker");
    name(10, 10, "renamed");
    ck_assert_str_eq(spaces_name(spaces, 10, 10), "renamed");
    ck_assert_str_eq(spaces_name(spaces, 10, 11), "main");
    ck_assert_str_eq(spaces_name(spaces, 10, 12), "worker");
    ck_assert_str_eq(spaces_name(spaces, 10, 99), "renamed");
    ck_assert_ptr_null(spaces_name(spaces, 11, 11));
}

TEST(records_of_existing_processes_give_names)
{
    const struct note process = {
        .type = RECORD_PROCESS, .pid = 10, .cpu = UINT32_MAX, .text = "sh", .text_len = 2};
    const struct note thread = {.type = RECORD_THREAD,
                                .pid = 10,
                                .tid = 11,
                                .cpu = UINT32_MAX,
                                .text = "helper",
                                .text_len = 6};

    record_add_note(&records, &process);
    take();
    record_add_note(&records, &thread);
    take();
    ck_assert_str_eq(printed(), "name 10 10 sh; name 10 11 helper");
}

TEST(a_process_exits_with_its_last_thread)
{
    name(10, 10, "main");
    thread_of(10, 11);
    map(10, 0x1000, 0x1000, "/a");
    exit_of(10, 10);
    ck_assert_str_eq(printed(), "name 10 11 main; map 10 11 4096 /a");
    exit_of(10, 11);
    ck_assert_str_eq(printed(), "");
    ck_assert_uint_eq(tasks_bytes(spaces), 0);
}

TEST(a_printed_state_loads_as_the_same)
{
    struct tasks *again = table_new(), *first = spaces;
    struct buf all = {0}, text = {0};

    map(KERNEL, 0xf000, 0x1000, "[kernel]");
    name(10, 10, "main");
    thread_of(10, 11);
    map(10, 0x1000, 0x1000, "/a");
    exit_of(10, 10);
    spaces_print(spaces, 1, &all);
    for (size_t at = 0; at < all.len; at += ((const struct record *)(all.data + at))->size)
        tasks_apply(again, (const struct record *)(all.data + at));
    buf_str(&text, printed());
    spaces = again;
    ck_buf(&text, printed());
    exit_of(10, 11);
    ck_assert_str_eq(path_at(10, 0x1000), "-");
    table_free(first);
    buf_free(&all);
    buf_free(&text);
}

TEST(the_longest_unchanged_processes_are_dropped_first)
{
    max_bytes = 6000;
    map(KERNEL, 0xf000, 0x1000, "[kernel]");
    for (uint32_t pid = 1; pid <= 100; pid++) {
        name(pid, pid, "n");
        map(pid, 0x1000, 0x1000, "/a");
        ck_assert_uint_le(tasks_bytes(spaces), 6000);
    }
    ck_assert_str_eq(path_at(100, 0x1000), "/a");
    ck_assert_str_eq(path_at(1, 0x1000), "-");
    ck_assert_ptr_null(spaces_name(spaces, 1, 1));
    ck_assert_str_eq(path_at(KERNEL, 0xf000), "[kernel]");
}

TEST(the_last_process_keeps_its_name_when_mappings_are_too_much)
{
    for (unsigned order = 0; order < 2; order++) {
        table_free(spaces);
        spaces = table_new();
        max_bytes = 1000;
        name(10, 10, "a");
        for (unsigned i = 1; i <= 50; i++) {
            map(order ? 10 : KERNEL, 0x1000 * i, 0x1000, "/a");
            map(order ? KERNEL : 10, 0x1000 * i, 0x1000, "/a");
            ck_assert_uint_le(tasks_bytes(spaces), 1000);
        }
        ck_assert_str_eq(spaces_name(spaces, 10, 10), "a");
    }
}

TEST(a_process_with_new_records_is_kept)
{
    max_bytes = 6000;
    for (uint32_t pid = 1; pid <= 100; pid++) {
        name(pid, pid, "n");
        name(1, 1, "kept");
    }
    ck_assert_str_eq(spaces_name(spaces, 1, 1), "kept");
}

TEST(a_limit_of_0_drops_everything)
{
    name(10, 10, "a");
    name(10, 11, "b");
    map(10, 0x1000, 0x1000, "/a");
    map(10, 0x2000, 0x1000, "/b");
    max_bytes = 0;
    thread_of(99, 99);
    ck_assert_uint_eq(tasks_bytes(spaces), 0);
}

TEST(many_processes_are_found_again)
{
    for (uint32_t pid = 1; pid <= 3000; pid++)
        map(pid, 0x1000, 0x1000, "/a");
    for (uint32_t pid = 1; pid <= 3000; pid++)
        ck_assert_str_eq(path_at(pid, 0x1000), "/a");
    for (uint32_t pid = 1; pid <= 3000; pid += 2)
        exit_of(pid, pid);
    ck_assert_str_eq(path_at(1, 0x1000), "-");
    ck_assert_str_eq(path_at(3000, 0x1000), "/a");
}

TEST(a_mapping_without_memory_leaks_nothing_and_can_come_again)
{
    struct buf record = {0};

    record_add_map(&record, 1,
                   &(struct map_facts){.pid = 10, .tid = 10, .start = 1, .length = 1, .path = "/"},
                   0);
    for (unsigned n = 1; n <= 4; n++) {
        memory_fail_at(n);
        tasks_apply(spaces, (const struct record *)record.data);
        memory_fail_at(0);
        exit_of(10, 10);
        ck_assert_uint_eq(tasks_bytes(spaces), 0);
    }
    tasks_apply(spaces, (const struct record *)record.data);
    ck_assert_str_eq(path_at(10, 1), "/");
    buf_free(&record);
}
