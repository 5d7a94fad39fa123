#include "fs/requests/handle.h"

#include "core/engine.h"

#include <assert.h>
#include <stdlib.h>

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

void handle_remove(struct handle **handles, struct handle *handle)
{
    HASH_DEL(*handles, handle);
}

struct handle *handle_ref(struct handle *handle)
{
    handle->refs++;
    return handle;
}

void handle_unref(struct handle *handle)
{
    if (!handle || --handle->refs > 0)
        return;
    assert(!handle->poll);
    open_file_clear(&handle->open);
    free(handle->text);
    free(handle->last);
    free(handle);
}

void handle_touch(struct kept *kept, struct handle *handle)
{
    if (handle->touched)
        return;
    handle->touched = true;
    handle->next_touched = kept->touched;
    kept->touched = handle;
}

void handle_drop(struct kept *kept, struct handle *handle)
{
    for (struct handle **at = &kept->touched; *at; at = &(*at)->next_touched) {
        if (*at == handle) {
            *at = handle->next_touched;
            break;
        }
    }
    handle->touched = true; /* and not again */
    if (handle->recorded)
        journal_drop(kept->journal, JOURNAL_OPEN_FILE, handle->fh);
}

void handles_record(struct kept *kept)
{
    struct handle *handle;
    struct buf text;
    char room[2048];

    while ((handle = kept->touched)) {
        kept->touched = handle->next_touched;
        handle->touched = false;
        buf_init(&text, room, sizeof room);
        open_file_print(&handle->open, &text);
        if (!text.failed)
            handle->recorded |=
                journal_put(kept->journal, JOURNAL_OPEN_FILE, handle->fh, text.data, text.len);
        handle->swapped = handle->open.swapped;
        handle->seen = handle->open.has_seen;
        buf_free(&text);
    }
}
