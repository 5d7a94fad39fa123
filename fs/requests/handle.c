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
