/*
 * Sections of the configuration become PMCs and instances. The engine's own parsers check keys and
 * values; only `owner` and `mode-bits` are read here.
 */
#include "fs/program/boot.h"

#include "core/base/scan.h"
#include "core/engine.h"
#include "core/pmc/pmc.h"
#include "core/pmc/settings.h"
#include "core/pmc/target.h"
#include "fs/requests/caller.h"
#include "fs/requests/message.h"
#include "fs/requests/request.h"
#include "fs/tree/files.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#define USER_BYTES_MAX (1 << 20)

/* ---- sections as they are read ---- */

static int header_check(const sections_t *sections, const struct section *section, struct err *err)
{
    int rc = 0;

    if (section->kind != SECTION_PMC && section->kind != SECTION_INSTANCE)
        return 0;
    rc = name_check(section->name, err);
    if (rc == 0 && section->kind == SECTION_PMC && file_reserved(section->name))
        rc = err_set(err, P23, "%s is a name that pmcfs uses: choose another name", section->name);
    for (size_t i = 0; rc == 0 && i < sections->n; i++) {
        const struct section *other = &sections->items[i];

        if (other->kind == section->kind && strcmp(other->name, section->name) == 0)
            rc = err_set(err, P23,
                         "the section of this name in %s:%u is used: remove one of the two, or "
                         "choose another name",
                         other->file, other->line);
    }
    return rc;
}

int section_add(sections_t *sections, const char *file, unsigned line, struct word title,
                struct err *err)
{
    struct section section = {.file = file, .line = line, .mode = -1, .title = word_dup(title)};
    int rc;

    if (!section.title || vec_room(sections, 1)) {
        free(section.title);
        return err_nomem(err);
    }
    if (strcmp(section.title, "pmcfs") == 0)
        section.kind = SECTION_PMCFS;
    else if (strncmp(section.title, "pmc ", 4) == 0)
        section.kind = SECTION_PMC;
    else if (strncmp(section.title, "instance ", 9) == 0)
        section.kind = SECTION_INSTANCE;
    else
        section.kind = SECTION_UNKNOWN;
    section.name = section.title + strcspn(section.title, " ");
    section.name += strspn(section.name, " ");
    rc = header_check(sections, &section, err);
    section.refused = rc < 0;
    buf_init(&section.config, NULL, 0);
    sections->items[sections->n++] = section;
    return rc;
}

void sections_clear(sections_t *sections)
{
    for (size_t i = 0; i < sections->n; i++) {
        struct section *section = &sections->items[i];

        free(section->title);
        free(section->owner);
        buf_free(&section->config);
        for (unsigned limit = 0; limit < LIMITS; limit++)
            free(section->limit[limit]);
    }
    free(sections->items);
    *sections = (sections_t){.n = 0};
}

void section_refuse(struct section *section, unsigned line, const struct err *err)
{
    section->refused = true;
    message_log(LOG_WARNING, "%s:%u: [%s] %s %s: %s", section->file, line,
                text_shown(section->title), err_errno_name(err_table[err->id].code),
                err_table[err->id].id, err->text);
}

/* ---- keys ---- */

static int account_find(struct word name, struct passwd *entry, char **memory)
{
    struct passwd *found = NULL;
    char *text = word_dup(name);
    uint64_t number;
    int rc = text ? ERANGE : ENOMEM;
    const bool is_number = word_u64(name, false, 0, UINT32_MAX - 1, &number);

    for (size_t size = 4096; rc == ERANGE && size <= USER_BYTES_MAX; size *= 4) {
        free(*memory);
        *memory = malloc(size);
        if (!*memory)
            rc = ENOMEM;
        else if (is_number)
            rc = getpwuid_r((uid_t)number, entry, *memory, size, &found);
        else
            rc = getpwnam_r(text, entry, *memory, size, &found);
    }
    free(text);
    return rc == ENOMEM ? -ENOMEM : found ? 0 : -ENOENT;
}

/* Reads USER, USER:, USER:GROUP or :GROUP, as chown(1) does. Returns 0 or -errno with a sentence.
 */
static int owner_find(const char *text, uid_t *uid, gid_t *gid, struct err *err)
{
    struct word rest, user = word_until(word_of(text), ':', &rest);
    const bool login_group = user.len && strchr(text, ':') && !rest.len;
    struct passwd entry;
    char *memory = NULL;
    uint64_t number;
    int rc = 0;

    *uid = (uid_t)-1;
    *gid = (gid_t)-1;
    if (!login_group && word_u64(user, false, 0, UINT32_MAX - 1, &number)) {
        *uid = (uid_t)number;
    } else if (user.len) {
        rc = account_find(user, &entry, &memory);
        if (rc == 0)
            *uid = entry.pw_uid;
        if (rc == 0 && login_group)
            *gid = entry.pw_gid;
    }
    free(memory);
    if (rc == -ENOENT)
        return err_set(err, P02, "owner=%s: there is no user \"" WORD_FMT "\"", text,
                       WORD_ARG(user));
    if (rc == 0 && rest.len)
        rc = group_find(rest.p, gid);
    if (rc == -ENOENT)
        return err_set(err, P02, "owner=%s: there is no group \"" WORD_FMT "\"", text,
                       WORD_ARG(rest));
    return rc ? err_nomem(err) : 0;
}

static int mode_read(struct word value, int *mode, struct err *err)
{
    char *text = word_dup(value), *end = text;
    const unsigned long bits = text && value.len ? strtoul(text, &end, 8) : 0;
    const bool fine = text && end != text && *end == '\0' && value.p[0] != '-' && bits <= 0777;

    free(text);
    if (!fine)
        return err_set(err, P02, "mode-bits=" WORD_FMT ": must be octal permission bits, 0 to 0777",
                       WORD_ARG(value));
    *mode = (int)bits;
    return 0;
}

/* Checks a value of a plain setting or a target without the host. Events need the host. */
static int value_check(enum key key, struct word value, struct err *err)
{
    struct target_word target = {.word = value};
    struct settings settings;
    int rc;

    if (key == KEY_EVENT)
        return 0;
    if (key == KEY_TARGET) {
        for (rc = 0; rc == 0 && value.len > 0; cpus_free(&target.cpus))
            if ((target.word = target_next(&value)).len > 0)
                rc = target_parse(&target, target.word, err);
        return rc;
    }
    settings_init(&settings);
    rc = settings_set(&settings, key, value, err);
    if (rc == 0 && key == KEY_LIFETIME && settings.word[key] != LIFETIME_MOUNT)
        rc = err_set(err, P07,
                     "lifetime=" WORD_FMT ": no process owns the PMC of a section; "
                     "it exists until rmdir",
                     WORD_ARG(value));
    settings_clear(&settings);
    return rc;
}

/* Copies a list of events without the blanks next to commas and inside of braces. */
static void events_join(struct buf *out, struct word value)
{
    for (size_t i = 0, next; i < value.len; i = next) {
        const char last = out->len ? out->data[out->len - 1] : ',';

        for (next = i; next < value.len && (value.p[next] == ' ' || value.p[next] == '\t'); next++)
            ;
        if (next > i && next < value.len && !strchr(",{", last) && !strchr(",}", value.p[next]))
            buf_char(out, ' ');
        if (next < value.len)
            buf_char(out, value.p[next++]);
    }
}

/* Adds "KEY=VALUE" to the command. Events and targets are separated by blanks as well as commas. */
static int setting_add(struct section *section, struct word name, struct word value,
                       struct err *err)
{
    const enum key key = key_find(name);
    struct buf line, events;
    struct scan scan;
    struct word word;
    int rc = 0;

    if (key == KEYS)
        return key_unknown(name, err);
    buf_init(&line, NULL, 0);
    buf_init(&events, NULL, 0);
    if (key == KEY_EVENT) {
        events_join(&events, value);
        value = (struct word){events.data, events.len};
    }
    scan_init(&scan, value.p, value.len);
    while (key == KEY_EVENT || key == KEY_TARGET ? scan_word(&scan, &word) && rc == 0
                                                 : value.len > 0 && !line.len) {
        if (key == KEY_EVENT || key == KEY_TARGET) {
            while (word.len > 1 && word.p[word.len - 1] == ',') /* of a list with blanks */
                word.len--;
            rc = value_check(key, word, err);
            buf_printf(&line, "%s=%.*s\n", key_table[key].name, (int)word.len, word.p);
            continue;
        }
        rc = value_check(key, value, err);
        buf_printf(&line, "%s=", key_table[key].name);
        for (size_t i = 0; i < value.len; i++)
            if (value.p[i] == ' ' || value.p[i] == '\t')
                buf_str(&line, value.p[i] == ' ' ? "\\040" : "\\011");
            else
                buf_char(&line, value.p[i]);
        buf_char(&line, '\n');
    }
    if (rc == 0 && !line.len)
        rc = key_empty(key, err);
    buf_add(&section->config, line.data, line.len);
    if (line.failed || events.failed || section->config.failed)
        rc = err_nomem(err);
    buf_free(&line);
    buf_free(&events);
    return rc;
}

static int limit_add(struct section *section, struct word name, struct word value, struct err *err)
{
    struct near near;
    uint64_t number;
    int rc;

    near_init(&near, name);
    for (unsigned i = 0; i < LIMITS; i++) {
        near_offer(&near, limit_table[i].name);
        if (!word_alike(name, limit_table[i].name, false))
            continue;
        rc = limit_read((enum limit)i, value, &number, err);
        free(section->limit[i]);
        section->limit[i] = word_dup(value);
        return rc || section->limit[i] ? rc : err_nomem(err);
    }
    return err_set(err, E24, "an instance has no limit \"" WORD_FMT "\"%s", WORD_ARG(name),
                   near_text(&near));
}

int section_key(struct section *section, struct word key, struct word value, struct err *err)
{
    uid_t uid;
    gid_t gid;

    if (word_alike(key, "mode-bits", false))
        return mode_read(value, &section->mode, err);
    if (word_alike(key, "owner", false)) {
        free(section->owner);
        section->owner = word_dup(value);
        return section->owner ? owner_find(section->owner, &uid, &gid, err) : err_nomem(err);
    }
    return section->kind == SECTION_PMC ? setting_add(section, key, value, err)
                                        : limit_add(section, key, value, err);
}

/* ---- creation ---- */

struct creation {
    struct fs *fs;
    struct section *section;
    struct rights *rights; /* owned until open_file_hold() takes them */
    uid_t uid;             /* (uid_t)-1: not written */
    gid_t gid;
    int rc;
    struct err err;
};

/* Owner and mode, after the settings: the commands are those of the superuser. */
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
    if (rc == CALL_WAIT) /* another process writes to the new PMC */
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
        call->index = id;
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

/* With the lock, which slow parts drop. Never returns false: the request is used up. */
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
    creation->rc = open_file_hold(call, creation->rights);
    if (creation->rc == 0) {
        creation->rights = NULL;
        creation->rc =
            (section->kind == SECTION_PMC ? pmc_create : instance_create)(call, creation);
        engine_release(call->engine, &open);
    }
    open_file_clear(&open);
    call->open = NULL;
    call->rights = NULL;
    creation->err = call->err;
    return true;
}

/* Returns the rights of this process as those of the superuser. NULL on ENOMEM. */
static struct rights *rights_own(const struct fs *fs)
{
    struct rights *rights = NULL;

    if (fs->host->rights(fs->host_state, gettid(), 0, 0, &rights) < 0 ||
        fs->host->rights_read(fs->host_state, gettid(), rights) < 0) {
        rights_free(rights);
        return NULL;
    }
    rights->superuser = true;
    return rights;
}

void sections_create(struct fs *fs, sections_t *sections)
{
    for (size_t i = 0; i < sections->n && !fs->stopping; i++) {
        struct section *section = &sections->items[i];
        struct creation creation = {.fs = fs, .section = section};

        if (section->refused || section->kind == SECTION_PMCFS || section->kind == SECTION_UNKNOWN)
            continue;
        if (section->owner)
            creation.rc = owner_find(section->owner, &creation.uid, &creation.gid, &creation.err);
        if (creation.rc == 0 && !(creation.rights = rights_own(fs)))
            creation.rc = err_nomem(&creation.err);
        if (creation.rc == 0) {
            fs_lock(fs);
            if (!fs_run(fs, section_create, &creation)) {
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
    fs_drain(fs);
    fs_unlock(fs);
}
