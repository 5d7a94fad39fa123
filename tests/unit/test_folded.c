/*
 * samples.folded: stacks as lines.
 */
#include "core/read/folded.h"

#include "tests/unit/memory.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define PID    100u
#define KERNEL UINT64_C(0xffffffff81000000)

static struct log *book;
static struct buf text;
static uint64_t now;

static void before(void)
{
    book = log_new(1 << 22);
    text = (struct buf){0};
    now = 1;
}

static void after(void)
{
    log_unref(book);
    buf_free(&text);
}

SUITE_SETUP(folded, before, after);

/* ---- records of the log ---- */

static void put(struct buf *records)
{
    ck_true(!records->failed && records->len > 0);
    ck_assert_int_eq(log_put_all_once(book, 0, NULL, records->data, records->len), 0);
    buf_free(records);
    now++;
}

static void comm(uint32_t pid, const char *name, unsigned misc)
{
    struct buf records = {0};

    record_add_comm(&records, now, pid, pid, name, misc);
    put(&records);
}

static void map(uint32_t pid, uint64_t start, uint64_t offset, const char *path, unsigned misc)
{
    struct buf records = {0};

    record_add_map(&records, now,
                   &(struct map_facts){.pid = pid,
                                       .tid = pid,
                                       .start = start,
                                       .length = 0x1000,
                                       .offset = offset,
                                       .inode = *path == '/',
                                       .protection = 5,
                                       .path = path},
                   RECORD_USERMODE | misc);
    put(&records);
}

static void sample(uint32_t pid, unsigned mode, uint64_t ip, const uint64_t *frames, size_t n)
{
    struct record_sample fixed = {.id = 1, .ip = ip, .pid = pid, .tid = pid, .time = now};
    struct buf records = {0};

    fixed.period = 1;
    record_add_sample(&records, &fixed, mode, frames, n);
    put(&records);
}

#define CHAIN(pid, mode, ...)                                                                      \
    sample(pid, mode, 0x1, (const uint64_t[]){__VA_ARGS__},                                        \
           sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static uint64_t quota, charged; /* bytes */

static bool charge(void *arg, uint64_t bytes)
{
    ck_assert_ptr_eq(arg, &charged);
    if (bytes > quota - charged)
        return false;
    charged += bytes;
    return true;
}

static int fold_within(uint64_t bytes)
{
    buf_clear(&text);
    quota = bytes;
    charged = 0;
    return folded_text(book, &text, charge, &charged);
}

static void fold(void)
{
    ck_assert_int_eq(fold_within(UINT64_MAX), 0);
}

static void program(void)
{
    comm(PID, "prog", 0);
    map(PID, 0x10000, 0x3000, "/usr/bin/prog", 0);
}

TEST(a_chain_is_printed_root_first)
{
    program();
    CHAIN(PID, RECORD_USERMODE, FRAME_USER, 0x10100, 0x10200, 0x10300);
    fold();
    ck_buf(&text, "prog;[/usr/bin/prog+0x3300];[/usr/bin/prog+0x3200];[/usr/bin/prog+0x3100] 1\n");
}

TEST(equal_stacks_are_counted_and_lines_are_in_order)
{
    program();
    for (unsigned i = 0; i < 3; i++) {
        sample(PID, RECORD_USERMODE, 0x10100, NULL, 0);
        CHAIN(PID, RECORD_USERMODE, FRAME_USER, 0x10100, 0x10300);
    }
    comm(PID + 1, "another", 0);
    sample(PID + 1, RECORD_USERMODE, 0x5, NULL, 0);
    fold();
    ck_buf(&text, "another;[101:0x5] 1\nprog;[/usr/bin/prog+0x3100] 3\n"
                  "prog;[/usr/bin/prog+0x3300];[/usr/bin/prog+0x3100] 3\n");
}

TEST(code_of_the_kernel_in_a_process_has_its_name)
{
    program();
    map(PID, 0x40000, 0, "[vdso]", 0);
    sample(PID, RECORD_USERMODE, 0x40004, NULL, 0);
    fold();
    ck_buf(&text, "prog;[vdso+0x4] 1\n");
}

TEST(an_empty_chain_is_the_address_of_the_sample)
{
    program();
    sample(PID, RECORD_USERMODE, 0x10100, (const uint64_t[]){FRAME_USER}, 1);
    fold();
    ck_buf(&text, "prog;[/usr/bin/prog+0x3100] 1\n");
}

TEST(a_sample_is_resolved_with_the_mappings_of_its_moment)
{
    program();
    sample(PID, RECORD_USERMODE, 0x10ab0, NULL, 0);
    comm(PID, "next", RECORD_EXECUTED);
    sample(PID, RECORD_USERMODE, 0x10ab0, NULL, 0);
    map(PID, 0x10000, 0, "/usr/bin/next", 0);
    sample(PID, RECORD_USERMODE, 0x10ab0, NULL, 0);
    fold();
    ck_buf(&text,
           "next;[/usr/bin/next+0xab0] 1\nnext;[100:0x10ab0] 1\nprog;[/usr/bin/prog+0x3ab0] 1\n");
}

TEST(a_process_without_a_name_has_its_pid)
{
    sample(4711, RECORD_USERMODE, 0x10, NULL, 0);
    sample(0, RECORD_USERMODE, 0x10, NULL, 0);
    fold();
    ck_buf(&text, ":4711;[4711:0x10] 1\n[unknown];[0:0x10] 1\n");
}

static void task(enum record_type type, uint32_t pid, uint32_t parent)
{
    struct buf records = {0};

    record_add_task(&records, type, now, pid, parent, pid, parent);
    put(&records);
}

TEST(a_process_keeps_its_name_until_its_last_sample)
{
    comm(PID, "prog", 0);
    task(RECORD_EXIT, PID, 1);
    for (uint32_t pid = PID + 1; pid <= PID + 500; pid++) {
        task(RECORD_FORK, pid, 1);
        task(RECORD_EXIT, pid, 1);
    }
    sample(PID, RECORD_KERNEL, KERNEL, NULL, 0);
    task(RECORD_FORK, PID, 1);
    sample(PID, RECORD_KERNEL, KERNEL, NULL, 0);
    fold();
    ck_buf(&text, ":100;[kernel+0xffffffff81000000] 1\nprog;[kernel+0xffffffff81000000] 1\n");
}

TEST(a_process_that_the_inventory_found_before_its_fork_keeps_its_name)
{
    comm(PID, "found", RECORD_FOUND);
    map(PID, 0x10000, 0, "/usr/bin/found", RECORD_FOUND);
    task(RECORD_FORK, PID, 4711);
    sample(PID, RECORD_USERMODE, 0x10010, NULL, 0);
    task(RECORD_FORK, PID, 4711); /* its exit was lost */
    sample(PID, RECORD_USERMODE, 0x10020, NULL, 0);
    fold();
    ck_buf(&text, ":100;[100:0x10020] 1\nfound;[/usr/bin/found+0x10] 1\n");
}

TEST(a_process_that_the_inventory_found_before_its_fork_starts_with_the_name_of_its_parent)
{
    comm(4711, "parent", RECORD_FOUND);
    comm(PID, "found", RECORD_FOUND);
    task(RECORD_FORK, PID, 4711);
    sample(PID, RECORD_USERMODE, 0x10, NULL, 0);
    comm(PID, "found", RECORD_EXECUTED);
    sample(PID, RECORD_USERMODE, 0x10, NULL, 0);
    fold();
    ck_buf(&text, "found;[100:0x10] 1\nparent;[100:0x10] 1\n");
}

TEST(processes_of_one_name_share_their_lines)
{
    program();
    comm(PID + 1, "prog", 0);
    map(PID + 1, 0x70000, 0x3000, "/usr/bin/prog", 0);
    sample(PID, RECORD_USERMODE, 0x10ab0, NULL, 0);
    sample(PID + 1, RECORD_USERMODE, 0x70ab0, NULL, 0);
    fold();
    ck_buf(&text, "prog;[/usr/bin/prog+0x3ab0] 2\n");
}

/* Returns the sum of all counts in the text. */
static uint64_t counts(void)
{
    uint64_t sum = 0;

    for (char *line = strtok((char *)(uintptr_t)buf_text(&text), "\n"); line;
         line = strtok(NULL, "\n"))
        sum += strtoull(strrchr(line, ' ') + 1, NULL, 10);
    return sum;
}

TEST(too_many_stacks_are_counted_in_a_separate_line)
{
    const unsigned n = 200000;
    struct buf records = {0};

    log_set_max(book, UINT64_C(1) << 28);
    program();
    for (unsigned i = 0; i < n; i++) {
        struct record_sample fixed = {
            .ip = 0x10000 + i % 4096, .pid = PID, .tid = PID, .time = now};
        const uint64_t frames[] = {FRAME_USER, 0x10000 + i % 500, 0x10000 + i / 500 % 500};

        record_add_sample(&records, &fixed, RECORD_USERMODE, frames, 3);
    }
    put(&records);
    fold();
    ck_true(strstr(buf_text(&text), "\n[too-many-stacks] "));
    ck_assert_uint_eq(counts(), n);
}

TEST(memory_is_charged_in_steps_up_to_the_quota)
{
    const uint64_t mib = UINT64_C(1) << 20;
    struct buf records = {0};
    uint64_t all;

    program();
    sample(PID, RECORD_USERMODE, 0x10100, NULL, 0);
    ck_assert_int_eq(fold_within(0), 0);
    ck_assert_uint_eq(charged, 0);

    log_set_max(book, UINT64_C(1) << 28);
    for (unsigned i = 0; i < 20000; i++) {
        struct record_sample fixed = {.ip = 1, .pid = PID, .tid = PID, .time = now};
        const uint64_t frames[] = {FRAME_USER, 0x10000 + i % 2000, 0x10000 + i / 2000};

        record_add_sample(&records, &fixed, RECORD_USERMODE, frames, 3);
    }
    put(&records);
    fold();
    all = charged;
    /* 20,000 stacks of 53 to 58 bytes, and the text. */
    ck_assert_uint_ge(all, 4 * mib);
    ck_assert_uint_le(all, 8 * mib);
    ck_assert_uint_eq(all % mib, 0);
    ck_assert_int_eq(fold_within(all), 0);
    ck_assert_uint_eq(counts(), 20001);
    for (uint64_t less = 0; less < all; less += mib) {
        ck_assert_int_eq(fold_within(less), -EDQUOT);
        ck_assert_uint_eq(charged, less);
    }
}

TEST(running_out_of_memory_is_reported_and_leaks_nothing)
{
    bool ended = true;

    program();
    map(UINT32_MAX, KERNEL, KERNEL, "[kernel.kallsyms]_text", 0);
    for (unsigned i = 0; i < 40; i++)
        CHAIN(PID, RECORD_KERNEL, FRAME_KERNEL, KERNEL + i, FRAME_USER, 0x10100 + i, 0x10200);
    for (unsigned n = 1; ended; n++) {
        buf_free(&text);
        memory_fail_at(n);
        int rc = fold_within(UINT64_MAX);
        ended = memory_failed();
        memory_fail_at(0);
        ck_true(rc == -ENOMEM || rc == 0);
        if (rc == 0)
            ck_assert_uint_eq(counts(), 40);
    }
}
