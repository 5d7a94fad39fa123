/*
 * Finding tracefs and the numbers of tracepoints in it. An own mount without a place in the tree
 * comes first: it needs nobody's, and keeps nobody from unmounting theirs; what is in it is the
 * same.
 */
#include "backends/perf/tracepoint.h"

#include "backends/perf/why.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#define PLACE   "/sys/kernel/tracing"
#define LAYOUTS "ftrace" /* a system of the tracers' record layouts: no probe points */

struct tracefs {
    int events;      /* the directory "events", or -1 */
    char where[256]; /* the mount, or why there is none */
};

static int open_dir(int at, const char *path)
{
    return openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void try_usual_place(struct tracefs *tracefs, const char *root)
{
    char path[512];

    if ((size_t)snprintf(path, sizeof(path), "%s" PLACE "/events", root) >= sizeof(path))
        return;
    tracefs->events = open_dir(AT_FDCWD, path);
    if (tracefs->events >= 0)
        snprintf(tracefs->where, sizeof(tracefs->where), PLACE);
}

/* Under lockdown the kernel mounts it, and makes no files in it. */
static void say_empty(struct tracefs *tracefs)
{
    char text[LOCKDOWN_BYTES];
    const char *lockdown = why_lockdown(text);

    if (strcmp(lockdown, "confidentiality") == 0)
        snprintf(tracefs->where, sizeof(tracefs->where),
                 "tracefs is empty: the kernel is locked down (confidentiality)");
    else
        snprintf(tracefs->where, sizeof(tracefs->where),
                 "tracefs has no events: this kernel was built without tracepoints");
}

static bool try_own_mount(struct tracefs *tracefs)
{
    int error = 0, mount = -1;
    int fs = fsopen("tracefs", FSOPEN_CLOEXEC);

    if (fs >= 0 && fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
        mount =
            fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    if (mount >= 0)
        tracefs->events = open_dir(mount, "events");
    error = errno;
    if (mount >= 0)
        close(mount);
    if (fs >= 0)
        close(fs);
    if (tracefs->events >= 0)
        snprintf(tracefs->where, sizeof(tracefs->where), "yes, by a mount of pmcfs's own");
    else if (mount >= 0)
        say_empty(tracefs);
    else
        snprintf(tracefs->where, sizeof(tracefs->where),
                 "tracefs is not mounted, and a mount of pmcfs's own failed with %s: "
                 "mount -t tracefs tracefs " PLACE,
                 err_errno_name(error));
    return tracefs->events >= 0;
}

static void tracefs_find(struct tracefs *tracefs, const char *root)
{
    if (root[0])
        snprintf(tracefs->where, sizeof(tracefs->where), "there is no tracefs below %.200s", root);
    else if (try_own_mount(tracefs))
        return;
    try_usual_place(tracefs, root);
}

/* Looked for when it is needed first, and again until it is there. */
static int tracefs_events(struct backend_state *state, const char **where)
{
    static _Thread_local char said[sizeof(((struct tracefs *)0)->where)];
    struct pmus *pmus = state->pmus;
    int events = -1;

    snprintf(said, sizeof(said), "there was no memory to look for tracefs");
    pthread_mutex_lock(&pmus->lock);
    if (!pmus->tracefs) {
        pmus->tracefs = calloc(1, sizeof(*pmus->tracefs));
        if (pmus->tracefs)
            pmus->tracefs->events = -1;
    }
    if (pmus->tracefs) {
        if (pmus->tracefs->events < 0)
            tracefs_find(pmus->tracefs, pmus->root);
        events = pmus->tracefs->events;
        memcpy(said, pmus->tracefs->where, sizeof(said));
    }
    pthread_mutex_unlock(&pmus->lock);
    *where = said;
    return events;
}

const char *tracefs_where(struct backend_state *state, bool *found)
{
    const char *where;

    *found = tracefs_events(state, &where) >= 0;
    return where;
}

void tracefs_free(struct tracefs *tracefs)
{
    if (!tracefs)
        return;
    if (tracefs->events >= 0)
        close(tracefs->events);
    free(tracefs);
}

static int name_filter(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN);
}

/* Calls fn for each directory below at/path until it returns false. */
static void each_name(int at, const char *path, bool (*fn)(void *arg, const char *name), void *arg)
{
    struct dirent **names = NULL;
    int n = scandirat(at, path, &names, name_filter, alphasort);

    bool more = true;
    for (int i = 0; i < n; i++) {
        more = more && fn(arg, names[i]->d_name);
        free(names[i]);
    }
    free(names);
}

struct lookup {
    struct word wanted;
    char found[128];
};

static bool lookup_name(void *arg, const char *name)
{
    struct lookup *lookup = arg;

    if (!word_alike(lookup->wanted, name, true))
        return true;
    snprintf(lookup->found, sizeof(lookup->found), "%.127s", name);
    return false;
}

/* The directory below at/path of this name, or of one alike: its name in found. */
static bool find_name(int at, const char *path, struct word wanted, char found[128])
{
    struct lookup lookup = {.wanted = wanted};
    char full[300];

    found[0] = '\0';
    if (at < 0 || wanted.len == 0 || wanted.len >= sizeof(lookup.found) || wanted.p[0] == '.' ||
        memchr(wanted.p, '/', wanted.len))
        return false;
    snprintf(full, sizeof(full), "%s/%.*s", path, (int)wanted.len, wanted.p);
    if (faccessat(at, full, F_OK, 0) == 0)
        snprintf(lookup.found, sizeof(lookup.found), "%.*s", (int)wanted.len, wanted.p);
    else
        each_name(at, path, lookup_name, &lookup);
    memcpy(found, lookup.found, sizeof(lookup.found));
    return found[0] != '\0';
}

/* Is it SYSTEM:NAME… with a SYSTEM that tracefs has? */
static bool is_tracepoint(int events, struct word text)
{
    struct word rest, system = word_until(text, ':', &rest);
    char found[128];

    return rest.len > 0 && rest.p[0] != ':' && find_name(events, ".", system, found);
}

static bool near_name(void *arg, const char *name)
{
    near_offer(arg, name);
    return true;
}

struct near_system {
    struct near *near;
    int events;
    const char *system;
};

/* Judged by the name alone, offered with its system, which is what has to be written. */
static bool near_tracepoint(void *arg, const char *name)
{
    struct near_system *offer = arg;
    const struct word word = offer->near->word;
    char full[400], typed[400];
    struct near plain;

    snprintf(full, sizeof(full), "%s:%s", offer->system, name);
    near_offer(offer->near, full);
    near_init(&plain, word);
    near_offer(&plain, name);
    if (plain.n == 0)
        return true;
    int len = snprintf(typed, sizeof(typed), "%s:%.*s", offer->system, (int)word.len, word.p);
    offer->near->word = (struct word){typed, (size_t)len};
    near_offer(offer->near, full);
    offer->near->word = word;
    return true;
}

static bool near_in_system(void *arg, const char *system)
{
    struct near_system *offer = arg;

    offer->system = system;
    if (strcmp(system, LAYOUTS) != 0)
        each_name(offer->events, system, near_tracepoint, offer);
    return true;
}

void tracepoint_near(struct backend_state *state, struct near *near)
{
    const char *where;
    struct near_system offer = {.near = near, .events = tracefs_events(state, &where)};

    if (offer.events >= 0 && near->word.len < sizeof(near->best[0].name))
        each_name(offer.events, ".", near_in_system, &offer);
}

void tracepoint_near_systems(struct backend_state *state, struct near *near)
{
    const char *where;
    int events = tracefs_events(state, &where);

    if (events >= 0)
        each_name(events, ".", near_name, near);
}

static int read_id(int events, const char *system, const char *name, uint64_t *id)
{
    char path[300], text[32];

    snprintf(path, sizeof(path), "%s/%s/id", system, name);
    int fd = openat(events, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t got = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (got <= 0)
        return -EIO;
    text[got] = '\0';
    *id = strtoull(text, NULL, 10);
    return 0;
}

int tracepoint_number(struct backend_state *state, const char *system, const char *name,
                      uint64_t *number)
{
    const char *where;
    int events = tracefs_events(state, &where);

    return events < 0 ? -ENOENT : read_id(events, system, name, number);
}

int tracepoint_parse(struct spec *spec, struct word text, struct err *err)
{
    struct word rest, mods, system = word_until(text, ':', &rest);
    struct word name = word_until(rest, ':', &mods);
    char found_system[128], found_name[128];
    const char *where;
    struct near near;
    int events = tracefs_events(spec->state, &where);

    if (!is_tracepoint(events, text))
        return -ENOENT;
    spec->needs_kernel = true; /* also to be told that there is no such tracepoint */
    if (word_alike(system, LAYOUTS, true))
        return err_set(err, P09,
                       "\"" WORD_FMT "\" cannot be counted: the system " LAYOUTS
                       " holds the tracers' record layouts, not tracepoints",
                       WORD_ARG(text));
    if (!find_name(events, ".", system, found_system) ||
        !find_name(events, found_system, name, found_name)) {
        near_init(&near, name);
        each_name(events, found_system, near_tracepoint,
                  &(struct near_system){&near, events, found_system});
        return err_set(err, CS01,
                       "no tracepoint \"" WORD_FMT "\" in group \"" WORD_FMT "\" is defined%s",
                       WORD_ARG(name), WORD_ARG(system), near_text(&near));
    }
    int rc = spec_use(spec, pmus_kind(spec->state->pmus, PMU_TRACEPOINT), text, err);
    if (rc < 0)
        return rc;
    if (read_id(events, found_system, found_name, &spec->config[0]) < 0)
        return err_set(err, P09,
                       "tracepoint \"" WORD_FMT "\" has no number in tracefs: it cannot be "
                       "counted",
                       WORD_ARG(text));
    spec->split = SPLIT_KERNEL;
    snprintf(spec->resolved, sizeof(spec->resolved), "%s:%s", found_system, found_name);
    return spec_modifiers(spec, mods, text, err);
}

struct listing {
    struct catalog *out;
    int events;
    const char *system;
};

static bool list_one(void *arg, const char *name)
{
    struct listing *listing = arg;
    char full[300];

    snprintf(full, sizeof(full), "%s:%s", listing->system, name);
    catalog_add(listing->out, "tracepoint", full);
    return true;
}

static bool list_system(void *arg, const char *system)
{
    struct listing *listing = arg;

    listing->system = system;
    if (strcmp(system, LAYOUTS) != 0)
        each_name(listing->events, system, list_one, listing);
    return true;
}

void tracepoint_list(struct backend_state *state, struct catalog *out)
{
    const char *where;
    struct listing listing = {.out = out, .events = tracefs_events(state, &where)};

    if (listing.events >= 0)
        each_name(listing.events, ".", list_system, &listing);
}

/* ---- have they changed? ---- */

/* The first word of each line, or all of it; what cannot be read is the same as nothing. */
static uint64_t hash_file(int fd, bool words, uint64_t hash)
{
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    char *line = NULL;
    size_t size = 0;

    if (fd >= 0 && !file)
        close(fd);
    while (file && getline(&line, &size, file) > 0) {
        size_t len = words ? strcspn(line, " ") : strlen(line);
        for (size_t i = 0; i < len; i++)
            hash = (hash ^ (unsigned char)line[i]) * UINT64_C(0x100000001b3);
    }
    free(line);
    if (file)
        fclose(file);
    return hash;
}

/* They come and go with modules, and as somebody defines some. */
uint64_t tracepoint_look(struct backend_state *state)
{
    const char *where;
    int events = tracefs_events(state, &where);
    uint64_t hash = UINT64_C(0xcbf29ce484222325) + (events >= 0);

    if (events < 0)
        return hash;
    hash = hash_file(open("/proc/modules", O_RDONLY | O_CLOEXEC), true, hash);
    return hash_file(openat(events, "../dynamic_events", O_RDONLY | O_CLOEXEC), false, hash);
}
