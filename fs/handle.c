/*
 * The table of open files that remember something: a hash of serials.
 */
#include "fs/handle.h"

#include "core/engine.h"

#include <assert.h>
#include <stdlib.h>

enum {
    FIRST_SIZE = 64
};

bool handles_init(struct handles *handles)
{
    *handles = (struct handles){.size = FIRST_SIZE};
    handles->buckets = calloc(handles->size, sizeof *handles->buckets);
    return handles->buckets != NULL;
}

void handles_free(struct handles *handles)
{
    for (size_t i = 0; handles->buckets && i < handles->size; i++) {
        struct handle *next;
        for (struct handle *h = handles->buckets[i]; h; h = next) {
            next = h->next;
            assert(h->refs == 1);
            handle_free(h);
        }
    }
    free(handles->buckets);
    *handles = (struct handles){0};
}

/* Serials come in order, so their low bits spread them perfectly. */
static struct handle **handle_bucket(const struct handles *handles, uint64_t fh)
{
    return &handles->buckets[fh & (handles->size - 1)];
}

struct handle *handle_find(const struct handles *handles, uint64_t fh)
{
    struct handle *h = *handle_bucket(handles, fh);

    while (h && h->fh != fh)
        h = h->next;
    return h;
}

/* Without memory the table stays as it is: longer chains, nothing worse. */
static void handles_grow(struct handles *handles)
{
    struct handles bigger = {.size = handles->size * 2};

    bigger.buckets = calloc(bigger.size, sizeof *bigger.buckets);
    if (!bigger.buckets)
        return;
    for (size_t i = 0; i < handles->size; i++) {
        struct handle *next;
        for (struct handle *h = handles->buckets[i]; h; h = next) {
            struct handle **bucket = handle_bucket(&bigger, h->fh);
            next = h->next;
            h->next = *bucket;
            *bucket = h;
        }
    }
    free(handles->buckets);
    handles->buckets = bigger.buckets;
    handles->size = bigger.size;
}

struct handle *handle_make(struct handles *handles, uint64_t fh)
{
    struct handle *h = calloc(1, sizeof *h);
    struct handle **bucket;

    if (!h)
        return NULL;
    if (handles->n >= handles->size)
        handles_grow(handles);
    bucket = handle_bucket(handles, fh);
    h->fh = fh;
    h->refs = 1;
    h->next = *bucket;
    *bucket = h;
    handles->n++;
    return h;
}

void handle_remove(struct handles *handles, struct handle *handle)
{
    struct handle **link = handle_bucket(handles, handle->fh);

    while (*link != handle)
        link = &(*link)->next;
    *link = handle->next;
    handle->next = NULL;
    handles->n--;
}

struct handle *handle_ref(struct handle *handle)
{
    handle->refs++;
    return handle;
}

bool handle_unref(struct handle *handle)
{
    return handle && --handle->refs == 0;
}

void handle_free(struct handle *handle)
{
    assert(!handle->poll);
    open_file_clear(&handle->open);
    free(handle->text);
    free(handle->last);
    free(handle);
}

void handles_each(struct handles *handles, void (*fn)(struct handle *handle, void *arg), void *arg)
{
    for (size_t i = 0; i < handles->size; i++)
        for (struct handle *h = handles->buckets[i]; h; h = h->next)
            fn(h, arg);
}
