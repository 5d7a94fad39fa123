/*
 * samples.folded: stacks as lines, with names from the fake host.
 */
#include "core/folded.h"
#include "core/stacks.h"

#include "tests/unit/fake_host.h"
#include "tests/unit/memory.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define PID    100u
#define KERNEL UINT64_C(0xffffffff81000000)

static struct host_state state;
static struct log *book;
static struct buf text;
static uint64_t now;

static void before(void)
{
    fake_init(&state, NULL);
    book = log_new(1 << 22);
    buf_init(&text, NULL, 0);
    now = 1;
}

static void after(void)
{
    log_unref(book);
    buf_free(&text);
    fake_clear(&state);
}

SUITE_SETUP(folded, before, after);

/* ---- what stands in the log ---- */

static void put(struct buf *records)
{
    ck_true(!records->failed && records->len > 0);
    ck_assert_int_eq(log_put_all(book, records->data, records->len), 0);
    buf_free(records);
    now++;
}

static void comm(uint32_t pid, const char *name, unsigned misc)
{
    struct buf records;

    buf_init(&records, NULL, 0);
    record_add_comm(&records, now, pid, pid, name, misc);
    put(&records);
}

static void map(uint32_t pid, uint64_t start, uint64_t offset, const char *path)
{
    struct buf records;

    buf_init(&records, NULL, 0);
    record_add_map(&records, now,
                   &(struct map_facts){.pid = pid,
                                       .tid = pid,
                                       .start = start,
                                       .length = 0x1000,
                                       .offset = offset,
                                       .inode = *path == '/',
                                       .protection = 5,
                                       .path = path},
                   RECORD_USERMODE);
    put(&records);
}

static void sample(uint32_t pid, unsigned mode, uint64_t ip, const uint64_t *frames, size_t n)
{
    struct record_sample fixed = {.id = 1, .ip = ip, .pid = pid, .tid = pid, .time = now};
    struct buf records;

    fixed.period = 1;
    buf_init(&records, NULL, 0);
    record_add_sample(&records, &fixed, mode, frames, n);
    put(&records);
}

#define CHAIN(pid, mode, ...)                                                                      \
    sample(pid, mode, 0x1, (const uint64_t[]){__VA_ARGS__},                                        \
           sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

/* The names of the tests: by address, so that a caller's is found before its call's end. */
static const char *name_of(const struct frame_query *query)
{
    switch (query->address) {
    case 0x10100:
        return "leaf";
    case 0x101ff:
        return "caller";
    case 0x102ff:
        return "main";
    case 0x10300:
        return "a b;c\n\\=";
    case 0x20010:
        return "made";
    case KERNEL + 0x10:
        return "do_work";
    case KERNEL + 0x1f:
        return "syscall";
    default:
        return NULL;
    }
}

static void fold(bool kernel_symbols)
{
    const struct frame_asker asker = {.superuser = kernel_symbols,
                                      .deadline_ns = fake_host.now_ns(&state) + 1000000000};

    buf_clear(&text);
    ck_assert_int_eq(folded_text(book, &fake_host, &state, NULL, &asker, &text), 0);
}

static void program(void)
{
    comm(PID, "prog", 0);
    map(PID, 0x10000, 0x3000, "/usr/bin/prog");
    state.name = name_of;
}

TEST(an_empty_log_is_an_empty_text)
{
    fold(true);
    ck_buf(&text, "");
}

TEST(a_sample_without_chain_is_its_name_and_one_frame)
{
    program();
    sample(PID, RECORD_USERMODE, 0x10100, NULL, 0);
    fold(false);
    ck_buf(&text, "prog;leaf 1\n");
}

TEST(a_chain_stands_root_first)
{
    program();
    CHAIN(PID, RECORD_USERMODE, FRAME_USER, 0x10100, 0x10200, 0x10300);
    fold(false);
    ck_buf(&text, "prog;main;caller;leaf 1\n");
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
    fold(false);
    ck_buf(&text, "another;[unknown] 1\nprog;leaf 3\nprog;main;leaf 3\n");
}

TEST(what_has_no_name_is_module_and_offset_in_the_file)
{
    program();
    sample(PID, RECORD_USERMODE, 0x10ab0, NULL, 0);
    fold(false);
    ck_buf(&text, "prog;[prog+0x3ab0] 1\n");
}

TEST(the_offset_of_a_caller_is_where_it_goes_on)
{
    program();
    CHAIN(PID, RECORD_USERMODE, FRAME_USER, 0x10ab0, 0x10bc0);
    fold(false);
    ck_buf(&text, "prog;[prog+0x3bc0];[prog+0x3ab0] 1\n");
}

TEST(addresses_without_mapping_are_one_unknown)
{
    program();
    CHAIN(PID, RECORD_USERMODE, FRAME_USER, 0x10100, 0x77777, 0x88888);
    CHAIN(PID, RECORD_USERMODE, FRAME_USER, 0x10100, 0x99999, 0xaaaaa);
    fold(false);
    ck_buf(&text, "prog;[unknown];[unknown];leaf 2\n");
}

TEST(modules_are_named_by_their_last_part)
{
    program();
    map(PID, 0x30000, 0, "/opt/a b;c/lib d;e.so (deleted)");
    map(PID, 0x40000, 0, "[vdso]");
    map(PID, 0x50000, 0x50000, "//anon");
    map(PID, 0x60000, 0, "[heap]");
    sample(PID, RECORD_USERMODE, 0x30004, NULL, 0);
    sample(PID, RECORD_USERMODE, 0x40004, NULL, 0);
    sample(PID, RECORD_USERMODE, 0x50004, NULL, 0);
    sample(PID, RECORD_USERMODE, 0x60004, NULL, 0);
    fold(false);
    ck_buf(&text, "prog;[anon+0x4] 1\nprog;[heap+0x4] 1\nprog;[lib\\040d\\073e.so+0x4] 1\n"
                  "prog;[vdso] 1\n");
}

TEST(what_a_program_made_is_marked)
{
    program();
    map(PID, 0x20000, 0, "//anon");
    sample(PID, RECORD_USERMODE, 0x20010, NULL, 0);
    fold(false);
    ck_buf(&text, "prog;made_[j] 1\n");
}

TEST(the_kernels_frames_are_marked_and_named_where_allowed)
{
    program();
    map(UINT32_MAX, KERNEL, KERNEL, "[kernel.kallsyms]_text");
    CHAIN(PID, RECORD_KERNEL, FRAME_KERNEL, KERNEL + 0x10, KERNEL + 0x20, FRAME_USER, 0x10100,
          0x10200);
    fold(true);
    ck_buf(&text, "prog;caller;leaf;syscall_[k];do_work_[k] 1\n");
    fold(false);
    ck_buf(&text, "prog;caller;leaf;[kernel.kallsyms+0x20]_[k];[kernel.kallsyms+0x10]_[k] 1\n");
}

TEST(a_kernel_address_without_chain_is_the_kernels)
{
    program();
    sample(PID, RECORD_KERNEL, KERNEL + 0x10, NULL, 0);
    fold(true);
    ck_buf(&text, "prog;do_work_[k] 1\n");
    fold(false);
    ck_buf(&text, "prog;[kernel+0xffffffff81000010]_[k] 1\n");
}

TEST(a_chain_of_nothing_is_the_address_of_the_sample)
{
    program();
    sample(PID, RECORD_USERMODE, 0x10100, (const uint64_t[]){FRAME_USER}, 1);
    fold(false);
    ck_buf(&text, "prog;leaf 1\n");
}

TEST(names_cannot_break_a_line)
{
    program();
    comm(PID, "a;b\nc d 7", 0);
    sample(PID, RECORD_USERMODE, 0x10300, NULL, 0);
    fold(false);
    ck_buf(&text, "a\\073b\\012c\\040d\\0407;a\\040b\\073c\\012\\134\\075 1\n");
}

TEST(a_sample_is_resolved_with_the_mappings_of_its_moment)
{
    program();
    sample(PID, RECORD_USERMODE, 0x10ab0, NULL, 0);
    comm(PID, "next", RECORD_EXECUTED);
    sample(PID, RECORD_USERMODE, 0x10ab0, NULL, 0);
    map(PID, 0x10000, 0, "/usr/bin/next");
    sample(PID, RECORD_USERMODE, 0x10ab0, NULL, 0);
    fold(false);
    ck_buf(&text, "next;[next+0xab0] 1\nnext;[unknown] 1\nprog;[prog+0x3ab0] 1\n");
}

TEST(a_process_nobody_named_has_its_number)
{
    sample(4711, RECORD_USERMODE, 0x10, NULL, 0);
    sample(0, RECORD_USERMODE, 0x10, NULL, 0);
    fold(false);
    ck_buf(&text, ":4711;[unknown] 1\n[unknown];[unknown] 1\n");
}

TEST(processes_of_one_name_share_their_lines)
{
    program();
    comm(PID + 1, "prog", 0);
    map(PID + 1, 0x70000, 0x3000, "/usr/bin/prog");
    sample(PID, RECORD_USERMODE, 0x10ab0, NULL, 0);
    sample(PID + 1, RECORD_USERMODE, 0x70ab0, NULL, 0);
    fold(false);
    ck_buf(&text, "prog;[prog+0x3ab0] 2\n");
}

TEST(every_address_is_asked_about_once)
{
    program();
    for (unsigned i = 0; i < 50; i++)
        CHAIN(PID, RECORD_USERMODE, FRAME_USER, 0x10100, 0x10200, 0x10300);
    fold(false);
    ck_assert_uint_eq(state.n_names, 3);
}

/* The sum of all counts in the text. */
static uint64_t counts(void)
{
    uint64_t sum = 0;

    for (char *line = strtok((char *)(uintptr_t)buf_text(&text), "\n"); line;
         line = strtok(NULL, "\n"))
        sum += strtoull(strrchr(line, ' ') + 1, NULL, 10);
    return sum;
}

TEST(too_many_stacks_are_counted_in_a_line_of_their_own)
{
    const unsigned n = 200000;
    struct buf records;

    log_set_max(book, UINT64_C(1) << 28);
    program();
    buf_init(&records, NULL, 0);
    for (unsigned i = 0; i < n; i++) {
        struct record_sample fixed = {
            .ip = 0x10000 + i % 4096, .pid = PID, .tid = PID, .time = now};
        const uint64_t frames[] = {FRAME_USER, 0x10000 + i % 500, 0x10000 + i / 500 % 500};

        record_add_sample(&records, &fixed, RECORD_USERMODE, frames, 3);
    }
    put(&records);
    fold(false);
    ck_true(strstr(buf_text(&text), "\n[too-many-stacks] "));
    ck_assert_uint_eq(counts(), n);
}

TEST(memory_that_ends_is_said_and_nothing_is_left)
{
    const struct frame_asker asker = {.superuser = true, .deadline_ns = 1};
    bool ended = true;

    program();
    map(UINT32_MAX, KERNEL, KERNEL, "[kernel.kallsyms]_text");
    for (unsigned i = 0; i < 40; i++)
        CHAIN(PID, RECORD_KERNEL, FRAME_KERNEL, KERNEL + i, FRAME_USER, 0x10100 + i, 0x10200);
    for (unsigned n = 1; ended; n++) {
        buf_free(&text);
        memory_end_at(n);
        int rc = folded_text(book, &fake_host, &state, NULL, &asker, &text);
        ended = memory_ended();
        memory_end_at(0);
        ck_true(rc == -ENOMEM || rc == 0);
        if (rc == 0)
            ck_assert_uint_eq(counts(), 40);
    }
}
