/*
 * Sections of the configuration become PMCs and instances.
 */
#include "fs/program/boot.h"

#include "core/engine.h"
#include "fs/requests/request.h"

#include <string.h>
#include <unistd.h>

struct creation {
    struct section *section;
    struct rights *rights; /* owned until open_file_start_charge() takes them */
    uid_t uid;             /* (uid_t)-1: not written */
    gid_t gid;
    int rc;
    struct err err;
};

/* Sets owner and mode of the new object. Called after the superuser has written its settings. */
static int attributes_set(struct call *call, const struct creation *creation)
{
    const struct section *section = creation->section;
    const bool instance = section->kind == SECTION_INSTANCE;
    int rc = 0;

    if (section->owner)
        rc = (instance ? engine_chown_instance : engine_chown)(call, creation->uid, creation->gid);
    if (rc == 0 && section->mode >= 0)
        rc = (instance ? engine_chmod_instance : engine_chmod)(call, (mode_t)section->mode);
    return rc;
}

static int pmc_create(struct call *call, const struct creation *creation)
{
    struct section *section = creation->section;
    uint64_t id;
    int rc = engine_mkdir(call, section->name, 0755, &id);

    if (rc)
        return rc;
    call->pmc = ids_find(&call->engine->pmcs, id);
    call->file = "config";
    call->text = buf_text(&section->config);
    call->len = section->config.len;
    rc = call->len ? store_command(call) : CALL_DONE;
    call->pmc = ids_find(&call->engine->pmcs, id); /* the command may have dropped the lock */
    if (rc == CALL_DONE && call->pmc)
        rc = attributes_set(call, creation);
    if (rc == CALL_WAIT)
        rc = err_set(&call->err, P37, "another process writes to the new PMC");
    if (rc < 0 && call->pmc) {
        const struct err err = call->err;

        engine_rmdir(call, call->pmc->name);
        call->err = err;
    }
    return rc;
}

static int instance_create(struct call *call, const struct creation *creation)
{
    const struct section *section = creation->section;
    uint64_t id;
    int rc = engine_mkinstance(call, section->name, 0755, &id);

    if (rc)
        return rc;
    for (unsigned i = 0; rc == 0 && i < LIMITS; i++) {
        if (!section->limit[i])
            continue;
        call->object = id;
        call->file = limit_table[i].name;
        call->text = section->limit[i];
        call->len = strlen(section->limit[i]);
        rc = store_limit(call);
    }
    struct instance *root = call->instance;
    call->instance = engine_instance(call->engine, id);
    if (rc == 0)
        rc = attributes_set(call, creation);
    call->instance = root;
    if (rc < 0) {
        const struct err err = call->err;

        engine_rminstance(call, section->name);
        call->err = err;
    }
    return rc;
}

/* Creates the object of a section unless it exists; creation->rc has the result. Called by
 * fs_run_task() with the lock, which slow parts drop. Always returns true. */
static bool section_create(struct call *call, void *arg)
{
    struct creation *creation = arg;
    const struct section *section = creation->section;
    struct open_file open = {.cut = false};

    if (section->kind == SECTION_PMC ? (void *)instance_find(call->instance, section->name)
                                     : (void *)instance_by_name(call->engine, section->name))
        return true;
    call->tid = gettid();
    call->open = &open;
    creation->rc = open_file_start_charge(call, creation->rights);
    if (creation->rc == 0) {
        creation->rights = NULL;
        creation->rc =
            (section->kind == SECTION_PMC ? pmc_create : instance_create)(call, creation);
        open_file_release(call->engine, &open);
    }
    open_file_clear(&open);
    call->open = NULL;
    call->rights = NULL;
    creation->err = call->err;
    return true;
}

void sections_create(struct fs *fs, sections_t *sections)
{
    for (size_t i = 0; i < sections->n && !fs->stopping; i++) {
        struct section *section = &sections->items[i];
        struct creation creation = {.section = section};

        if (section->refused || section->kind == SECTION_PMCFS || section->kind == SECTION_UNKNOWN)
            continue;
        if (section->owner)
            creation.rc = owner_find(section->owner, &creation.uid, &creation.gid, &creation.err);
        if (creation.rc == 0 &&
            (fs->host->caller_rights(fs->host_state, gettid(), 0, 0, &creation.rights) < 0 ||
             fs->host->caller_rights_rest(fs->host_state, gettid(), creation.rights) < 0))
            creation.rc = err_nomem(&creation.err);
        if (creation.rc == 0) {
            creation.rights->superuser = true; /* this process's rights */
            fs_lock(fs);
            if (!fs_run_task(fs, section_create, &creation)) {
                fs_unlock(fs);
                creation.rc = err_nomem(&creation.err);
            }
        }
        rights_free(creation.rights);
        if (creation.rc < 0)
            section_refuse(section, section->line, &creation.err);
    }
    fs_lock(fs);
    fs->attributes_stale = true;
    fs_wake(fs);
    fs_unlock(fs);
}
