/*
 * The table of open files and their journal records.
 */
#include "fs/requests/handle.h"

#include "core/engine.h"
#include "core/journal/load.h"
#include "core/users/users.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct handle *handle_find(struct handle *handles, uint64_t fh)
{
    struct handle *handle;

    HASH_FIND(hh, handles, &fh, sizeof fh, handle);
    return handle;
}

struct handle *handle_make(struct handle **handles, uint64_t fh)
{
    struct handle *handle = calloc(1, sizeof *handle);

    if (!handle)
        return NULL;
    handle->fh = fh;
    handle->refs = 1;
    HASH_ADD(hh, *handles, fh, sizeof handle->fh, handle);
    if (hash_has(handle))
        return handle;
    free(handle);
    return NULL;
}

struct handle *handle_ref(struct handle *handle)
{
    handle->refs++;
    return handle;
}

void handle_unref(struct unpublished *unpublished, struct handle *handle)
{
    if (!handle || --handle->refs > 0)
        return;
    assert(!handle->poller.sleeps);
    rights_unref(handle->open.rights); /* their record is deleted with the file's */
    handle->open.rights = NULL;
    work_add(&unpublished->unused, &handle->work, WORK_HANDLE);
}

/* ---- texts ---- */

/* A text whose memory is freed after the next publication. */
struct unused_text {
    struct work work;
    struct kept_text text;
};

/* Frees the text after the next publication; on ENOMEM only the next worker frees it. */
void text_drop(struct unpublished *unpublished, struct kept_text *text)
{
    struct unused_text *unused = text->block ? calloc(1, sizeof *unused) : NULL;

    if (unused) {
        unused->text = *text;
        work_add(&unpublished->unused, &unused->work, WORK_TEXT);
    }
    *text = (struct kept_text){0};
}

static void text_free(const struct kept_text *text)
{
    if (text->block)
        arena_free_warm(text->block, text->len);
}

void handles_free(struct work_queue *unused)
{
    enum work_kind kind;
    struct work *work;

    while ((work = work_take(unused, &kind))) {
        if (kind == WORK_TEXT) {
            text_free(&WORK_OBJECT(work, unused_text, work)->text);
            free(WORK_OBJECT(work, unused_text, work));
            continue;
        }
        struct handle *handle = WORK_OBJECT(work, handle, work);

        open_file_clear(&handle->open);
        text_free(&handle->position.text);
        text_free(&handle->position.last);
        free(handle);
    }
}

bool text_set(struct unpublished *unpublished, struct kept_text *text, const char *from, size_t len)
{
    text_drop(unpublished, text);
    if (!len)
        return false;
    text->block = arena_alloc(len);
    if (!text->block)
        return false;
    text->len = len;
    memcpy(arena_at(text->block, len), from, len);
    return true;
}

/* ---- records ---- */

static const struct field given_fields[] = {
    SPAN(struct text_position, has_text, by_uring),
    SPAN(struct text_position, base, poll_number),
};
/* The last part of an open file's record: a struct text_position, which the engine skips. */
static const struct part part_given = PART(given, NULL, NULL);

/* Reads the lines after the part's name, and modifies them. Keeps the memory of the texts. */
static bool position_scan(char *lines, struct text_position *position)
{
    struct io io = {.text = NULL};
    bool fine = true;

    *position = (struct text_position){.has_text = false};
    while (fine && (io.text = strsep(&lines, "\n"))) {
        const char *name = strsep(&io.text, "=");

        fine = !io.text || part_scan(&part_given, &io, position, name);
    }
    arena_keep(position->text.block, position->text.len);
    arena_keep(position->last.block, position->last.len);
    if (position->text.block &&
        (!text_of(&position->text) || position->bytes_read > position->text.len ||
         position->text.len != position->len))
        return false;
    return fine && (!position->last.block || text_of(&position->last));
}

bool handle_load(struct handle **handles, const struct journal_record *record,
                 struct engine *engine)
{
    const size_t len = journal_text_len(record);
    struct handle *handle = handle_find(*handles, record->id);
    char *text = strndup(record->text, len);
    char *given = text ? strstr(text, "\ngiven\n") : NULL;

    if (!handle)
        handle = handle_make(handles, record->id);
    bool fine =
        text && handle && given && position_scan(given + strlen("\ngiven\n"), &handle->position);
    free(text);
    if (!fine)
        return false;
    handle->recorded = true;
    handle->recorded_position = handle->position;
    handle->open.kept_bytes = handle->position.text.len + handle->position.last.len;
    if (!open_file_load(&handle->open, record->text, len, engine))
        return false;
    handle->recorded_old_count = handle->open.old_count != NULL;
    handle->recorded_seen = handle->open.has_seen;
    return true;
}

void handle_touch(struct unpublished *unpublished, struct handle *handle)
{
    if (handle->touched)
        return;
    handle->touched = true;
    handle->next_touched = unpublished->touched;
    unpublished->touched = handle;
}

void handle_drop(struct handle **handles, struct unpublished *unpublished, struct handle *handle)
{
    HASH_DEL(*handles, handle);
    for (struct handle **at = &unpublished->touched; *at; at = &(*at)->next_touched) {
        if (*at == handle) {
            *at = handle->next_touched;
            break;
        }
    }
    handle->touched = true; /* so that handle_touch() does not add it again */
    if (handle->recorded && !journal_drop(unpublished->journal, JOURNAL_OPEN_FILE, handle->fh))
        unpublished->failed = true;
    handle_unref(unpublished, handle);
}

bool handles_record(struct unpublished *unpublished, struct handle *all)
{
    struct handle *handle;
    char room[2048];
    bool fine = !unpublished->failed;

    unpublished->failed = false;
    for (handle = all; handle; handle = handle->hh.next)
        handle_touch(unpublished, handle);
    while ((handle = unpublished->touched)) {
        unpublished->touched = handle->next_touched;
        handle->touched = false;
        struct buf text = buf_in(room, sizeof room);
        open_file_print(&handle->open, &text);
        part_print(&part_given, NULL, &handle->position, &text);
        fine =
            fine && !text.failed &&
            journal_put(unpublished->journal, JOURNAL_OPEN_FILE, handle->fh, text.data, text.len);
        handle->recorded = true;
        handle->recorded_old_count = handle->open.old_count != NULL;
        handle->recorded_seen = handle->open.has_seen;
        handle->recorded_position = handle->position;
        buf_free(&text);
    }
    return fine;
}
