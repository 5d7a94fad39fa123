/*
 * Sections [pmc NAME] and [instance NAME] of the configuration: PMCs and instances that pmcfs
 * creates at mount and at SIGHUP, with the rights of the superuser.
 */
#pragma once

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/scan.h"
#include "core/base/vec.h"
#include "core/pmc/pmc.h"

#include <stdbool.h>
#include <sys/types.h>

struct fs;

struct section {
    enum section_kind {
        SECTION_PMCFS, /* options and tunables */
        SECTION_PMC,
        SECTION_INSTANCE,
        SECTION_UNKNOWN
    } kind;
    const char *file;    /* not owned: one of options->files */
    unsigned line;       /* of its header */
    char *title;         /* "pmc web"; owned */
    const char *name;    /* "web", part of title */
    struct buf config;   /* of a PMC: lines KEY=VALUE, one command for its file config */
    char *limit[LIMITS]; /* of an instance: values as written, or NULL; owned */
    char *owner;         /* as written, or NULL; owned */
    int mode;            /* permission bits; -1: not written */
    bool refused;        /* was reported; is not created */
};
typedef VEC(struct section) sections_t;

/* Marks the section as refused and logs the reason, with this line of its file. */
void section_refuse(struct section *section, unsigned line, const struct err *err);
/* Reads USER, USER:, USER:GROUP or :GROUP, as chown(1) does. *uid or *gid is -1 if it is not given.
 * Returns 0 or -errno with a sentence. May block. */
int owner_find(const char *text, uid_t *uid, gid_t *gid, struct err *err);
/*
 * Creates the PMCs and instances that do not exist. A refused one is logged and removed again; the
 * next rereading of the configuration retries it. Takes the lock. May block: looks up users and
 * groups.
 */
void sections_create(struct fs *fs, sections_t *sections);
