/*
 * The journal alone: its contents after a death at any moment.
 */
#include "core/base/journal.h"
#include "tests/unit/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static struct journal *journal;
static struct buf printed;

static void before(void)
{
    journal = journal_new();
    printed = (struct buf){0};
}

static void after(void)
{
    journal_free(journal);
    buf_free(&printed);
}

SUITE_SETUP(journal, before, after);

static bool print(void *arg, const struct journal_record *record)
{
    (void)arg;
    buf_printf(&printed, "%" PRIu32 "/%" PRIu64 "=%.*s ", record->kind, record->id,
               (int)journal_text_len(record), record->text);
    return true;
}

/* Returns the records that another process reads. */
static const char *found(void)
{
    struct journal *other = journal_open(dup(journal_fd(journal)));

    ck_assert_ptr_nonnull(other);
    buf_clear(&printed);
    ck_true(journal_each(other, 0, print, NULL));
    journal_free(other);
    return buf_text(&printed);
}

static void put(uint32_t kind, uint64_t id, const char *text)
{
    ck_true(journal_put(journal, kind, id, text, strlen(text)));
}

TEST(unpublished_records_do_not_exist)
{
    put(4, 1, "one");
    ck_assert_str_eq(found(), "");
    journal_publish(journal);
    ck_assert_str_eq(found(), "4/1=one ");
    put(4, 1, "two");
    put(4, 2, "other");
    ck_assert_str_eq(found(), "4/1=one ");
    journal_publish(journal);
    ck_assert_str_eq(found(), "4/1=two 4/2=other ");
}

TEST(the_last_record_of_an_object_counts_and_a_dropped_object_has_none)
{
    put(4, 1, "a");
    put(4, 1, "b");
    put(3, 1, "c");
    journal_publish(journal);
    ck_assert_str_eq(found(), "4/1=b 3/1=c ");
    journal_drop(journal, 4, 1);
    journal_publish(journal);
    ck_assert_str_eq(found(), "3/1=c ");
}

TEST(a_tail_that_is_torn_anywhere_changes_nothing)
{
    char text[200];
    struct journal *other = journal_open(dup(journal_fd(journal)));

    put(4, 1, "one");
    journal_publish(journal);
    memset(text, 0xff, sizeof text);
    for (size_t len = 1; len < sizeof text; len++) {
        ck_true(journal_put(journal, 4, 1, text, len)); /* the process dies before publishing */
        ck_assert_str_eq(found(), "4/1=one ");
    }
    journal_free(other);
}

TEST(records_survive_the_change_to_the_other_half)
{
    char text[1000] = {0};
    uint64_t most = 0;

    put(4, 7, "kept");
    journal_publish(journal);
    for (unsigned i = 0; i < 5000; i++) {
        snprintf(text, sizeof text, "%0999u", i);
        put(4, 1 + i % 3, text);
        journal_publish(journal);
        most = journal_used(journal) > most ? journal_used(journal) : most;
    }
    ck_assert_uint_lt(most, 300 << 10);
    found();
    ck_assert_ptr_nonnull(strstr(buf_text(&printed), "4/7=kept "));
    ck_assert_ptr_nonnull(strstr(buf_text(&printed), "4999 "));
    ck_assert_ptr_nonnull(strstr(buf_text(&printed), "4997 "));
}

TEST(large_unneeded_records_are_freed_at_once)
{
    static char text[1 << 20];

    put(4, 1, "kept");
    for (unsigned i = 2; i < 6; i++)
        ck_true(journal_put(journal, 7, i, text, sizeof text));
    journal_publish(journal);
    for (unsigned i = 2; i < 6; i++) {
        journal_note_obsolete(journal, sizeof text);
        ck_true(journal_drop(journal, 7, i));
        journal_publish(journal);
    }
    ck_assert_uint_lt(journal_used(journal), sizeof text);
    ck_assert_str_eq(found(), "4/1=kept ");
}

TEST(a_full_snapshot_replaces_all_records)
{
    put(4, 1, "one");
    put(4, 2, "gone");
    journal_publish(journal);
    put(4, 3, "forgotten");
    journal_start_snapshot(journal);
    put(4, 1, "half");
    journal_start_snapshot(journal); /* as after a record that did not fit */
    put(4, 1, "two");
    ck_assert_str_eq(found(), "4/1=one 4/2=gone ");
    journal_publish(journal);
    ck_assert_str_eq(found(), "4/1=two ");
    put(4, 2, "again");
    journal_publish(journal);
    ck_assert_str_eq(found(), "4/1=two 4/2=again ");
}

TEST(a_file_that_is_not_a_journal_is_refused)
{
    uint64_t wrong = UINT64_MAX;
    int fd = dup(journal_fd(journal)), null = memfd_create("none", 0);

    ck_assert_ptr_null(journal_open(null));
    ck_assert_int_eq(pwrite(fd, &wrong, sizeof wrong, 8), sizeof wrong);
    ck_assert_ptr_null(journal_open(fd));
    ck_assert_int_eq(pwrite(fd, &wrong, sizeof wrong, 0), sizeof wrong);
    ck_assert_ptr_null(journal_open(fd));
    close(fd);
    close(null);
}
