/*
 * The names and numbers of tracepoints, as they stand in tracefs.
 */
#include "backends/perf/names/tracepoint.h"

#include "backends/perf/probe/tracefs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LAYOUTS "ftrace" /* a system of the tracers' record layouts: no probe points */

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
