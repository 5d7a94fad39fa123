/*
 * Reload: no request is admitted, those under way are waited for, then the engine is printed, freed
 * and read again; so is what open files remember. Parked requests simply run again.
 */
#include "fs/program/reload.h"

#include "fs/requests/request.h"
#include "fs/requests/say.h"

#include <stdlib.h>
#include <string.h>
#include <syslog.h>

struct printed {
    struct fs *fs;
    struct buf text; /* a line per handle: "fh line", its rights on the next */
    bool failed;
};

/* The engine's tasks and effects are part of its state only until they are done. No request is
 * under way, so that the lock can be kept. */
static void engine_empty(struct fs *fs)
{
    struct call call = {.engine = fs->tree.engine,
                        .instance = engine_root(fs->tree.engine),
                        .now_ns = fs->host->now_ns(fs->host_state)};

    engine_set_seat(fs->tree.engine, NULL);
    while (engine_task(&call))
        ;
    fs_drain(fs);
}

static void handle_print(const struct handle *handle, struct printed *printed)
{
    buf_u64(&printed->text, handle->fh);
    buf_char(&printed->text, '\n');
    open_file_print(&handle->open, &printed->text);
    if (printed->text.len == 0 || printed->text.data[printed->text.len - 1] != '\n')
        buf_char(&printed->text, '\n');
}

/* The descriptors that the rights name stay open: the printed line names them again. */
static void handle_forget(struct handle *handle, struct engine *engine)
{
    open_file_forget(engine, &handle->open);
    if (handle->open.rights)
        rights_forget(handle->open.rights);
    handle->open.rights = NULL;
    open_file_clear(&handle->open);
    memset(&handle->open, 0, sizeof handle->open);
}

static bool handles_scan(struct fs *fs, char *text)
{
    char *save = NULL;

    for (char *fh = strtok_r(text, "\n", &save); fh; fh = strtok_r(NULL, "\n", &save)) {
        struct handle *handle = handle_find(fs->handles, strtoull(fh, NULL, 10));
        char *line = strtok_r(NULL, "\n", &save);
        if (!handle || !line || !open_file_scan(&handle->open, line, fs->tree.engine))
            return false;
    }
    return true;
}

static bool engine_replace(struct fs *fs, const struct buf *state, const struct tunables *tunables,
                           struct err *err)
{
    fs->tree.engine = engine_new(tunables);
    if (!fs->tree.engine) {
        err_set(err, E32, "no memory");
        return false;
    }
    engine_reserve_names(fs->tree.engine, file_reserved);
    engine_set_readers(fs->tree.engine, fs->tree.readers);
    if (engine_start(fs->tree.engine, fs->host, fs->host_state, fs->backend, fs->backend_state,
                     err) ||
        engine_load(fs->tree.engine, state->data, state->len, err))
        return false;
    engine_probe(fs->tree.engine);
    engine_set_seat(fs->tree.engine, &fs_seat);
    return true;
}

static void reload_die(const struct err *err)
{
    say(LOG_CRIT, "the state cannot be loaded: %s", err->text);
    abort();
}

void fs_reload(struct fs *fs)
{
    struct printed handles = {.fs = fs};
    struct tunables tunables;
    struct handle *handle;
    struct err err = {0};
    struct buf state;

    buf_init(&state, NULL, 0);
    buf_init(&handles.text, NULL, 0);
    pthread_mutex_lock(&fs->lock);
    fs->reloading = true;
    while (fs->away > 0)
        pthread_cond_wait(&fs->changed, &fs->lock);
    engine_empty(fs);

    tunables = *engine_tunables(fs->tree.engine);
    for (handle = fs->handles; handle; handle = handle->hh.next)
        handle_print(handle, &handles);
    open_files_settle(fs->tree.engine);
    engine_save(fs->tree.engine, &state);
    for (handle = fs->handles; handle; handle = handle->hh.next)
        handle_forget(handle, fs->tree.engine);
    engine_forget(fs->tree.engine);
    if (!engine_replace(fs, &state, &tunables, &err))
        reload_die(&err);
    if (state.failed || handles.text.failed || !handles_scan(fs, (char *)buf_text(&handles.text))) {
        err_set(&err, P14, "an open file's line cannot be read back");
        reload_die(&err);
    }
    open_files_settle(fs->tree.engine);
    engine_stat_add(fs->tree.engine, STAT_RELOADS, 1);
    poll_tell(&fs->park);
    park_expire(&fs->park, UINT64_MAX);

    fs->reloading = false;
    pthread_cond_broadcast(&fs->changed);
    pthread_mutex_unlock(&fs->lock);
    buf_free(&state);
    buf_free(&handles.text);
}
