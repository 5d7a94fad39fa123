/*
 * Reload: no request is admitted, those under way are waited for, then all is forgotten and made
 * again of the journal; so is what open files remember. Parked requests simply run again.
 */
#include "fs/program/reload.h"

#include "fs/requests/request.h"
#include "fs/requests/say.h"

#include <stdlib.h>
#include <syslog.h>

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

/* The descriptors that the rights name stay open: the record names them again. */
static void handle_forget(struct handle *handle)
{
    const uint64_t kept = handle->open.kept_bytes;

    open_file_leave(&handle->open);
    handle->open.kept_bytes = kept; /* its text is the handle's still */
}


static bool file_load(void *arg, const struct journal_record *record)
{
    struct fs *fs = arg;

    return handle_load(&fs->handles, record, fs->tree.engine);
}

bool fs_load(struct fs *fs, const struct tunables *tunables, struct err *err)
{
    struct journal *journal = fs->kept.journal;

    fs->tree.engine = engine_new(tunables);
    if (!fs->tree.engine) {
        err_set(err, E32, "no memory");
        return false;
    }
    engine_reserve_names(fs->tree.engine, file_reserved);
    engine_set_readers(fs->tree.engine, fs->tree.readers);
    if (engine_start(fs->tree.engine, fs->host, fs->host_state, fs->backend, fs->backend_state,
                     err) ||
        engine_load(fs->tree.engine, journal, err))
        return false;
    engine_probe(fs->tree.engine);
    engine_set_seat(fs->tree.engine, &fs_seat);
    if (!journal_each(journal, JOURNAL_OPEN_FILE, file_load, fs)) {
        err_set(err, P14, "an open file's record cannot be read");
        return false;
    }
    engine_keep(fs->tree.engine, journal);
    engine_loaded(fs->tree.engine);
    return true;
}

static void reload_die(const struct err *err)
{
    say(LOG_CRIT, "the state cannot be loaded: %s", err->text);
    abort();
}

void fs_reload(struct fs *fs)
{
    struct tunables tunables;
    struct handle *handle;
    struct err err = {0};

    pthread_mutex_lock(&fs->lock);
    fs->reloading = true;
    while (fs->away > 0)
        pthread_cond_wait(&fs->changed, &fs->lock);
    engine_empty(fs);

    tunables = *engine_tunables(fs->tree.engine);
    engine_settle(fs->tree.engine);
    fs_record(fs);
    if (!engine_check(fs->tree.engine, &err))
        reload_die(&err);
    for (handle = fs->handles; handle; handle = handle->hh.next)
        handle_forget(handle);
    engine_forget(fs->tree.engine);
    if (!fs_load(fs, &tunables, &err))
        reload_die(&err);
    engine_stat_add(fs->tree.engine, STAT_RELOADS, 1);
    poll_tell(&fs->park);
    park_expire(&fs->park, UINT64_MAX);

    fs->reloading = false;
    pthread_cond_broadcast(&fs->changed);
    fs_unlock(fs);
    if (fs->backend->settle)
        fs->backend->settle(fs->backend_state);
}
