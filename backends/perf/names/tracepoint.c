/*
 * Tracepoints: the kernel's static probe points, named SYSTEM:NAME; their numbers stand in tracefs.
 */
#include "backends/perf/names/sources.h"

#include "backends/perf/names/names.h"
#include "backends/perf/probe/tracefs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    NAME_BYTES = 128
};

/* A system of the tracers' record layouts: no probe points. */
#define LAYOUTS "ftrace"

static int is_name(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN);
}

/* Calls fn for each directory in that one below `events`, in order. */
static void each_name(int events, const char *path,
                      void (*fn)(void *arg, const char *path, const char *name), void *arg)
{
    struct dirent **names = NULL;
    int n = events < 0 ? 0 : scandirat(events, path, &names, is_name, alphasort);

    for (int i = 0; i < n; i++) {
        fn(arg, path, names[i]->d_name);
        free(names[i]);
    }
    free(names);
}

struct lookup {
    struct word wanted;
    char found[NAME_BYTES];
    struct near near;
};

/* One alike, but rather one that is the same. */
static void lookup_name(void *arg, const char *path, const char *name)
{
    struct lookup *lookup = arg;

    (void)path;
    near_offer(&lookup->near, name);
    if (word_is(lookup->wanted, name) ||
        (!lookup->found[0] && word_alike(lookup->wanted, name, true)))
        snprintf(lookup->found, sizeof(lookup->found), "%s", name);
}

static const char *lookup(struct lookup *lookup, int events, const char *path)
{
    near_init(&lookup->near, lookup->wanted);
    each_name(events, path, lookup_name, lookup);
    return lookup->found;
}

static int read_id(int events, const char *system, const char *name, uint64_t *id)
{
    char path[2 * NAME_BYTES + 8], text[32];

    snprintf(path, sizeof(path), "%s/%s/id", system, name);
    int got = file_read(events, path, text, sizeof(text));
    *id = got > 0 ? strtoull(text, NULL, 10) : 0;
    return got > 0 ? 0 : got < 0 ? got : -EIO;
}

int tracepoint_number(struct backend_state *state, const char *system, const char *name,
                      uint64_t *number)
{
    int events = tracefs_events(state);
    int rc = events < 0 ? events : read_id(events, system, name, number);

    if (events >= 0)
        close(events);
    return rc;
}

static int parse_in(struct spec *spec, struct word *text, int events, struct err *err)
{
    struct word rest, mods, whole = *text;
    struct lookup system = {.wanted = word_until(whole, ':', &rest)};
    struct lookup name = {.wanted = word_until(rest, ':', &mods)};

    if (name.wanted.len == 0 || !lookup(&system, events, ".")[0] ||
        strcmp(system.found, LAYOUTS) == 0)
        return -ENOENT;
    spec->event.needs_kernel = true; /* also to be told that there is no such tracepoint */
    if (!lookup(&name, events, system.found)[0])
        return err_set(err, CS01,
                       "no tracepoint \"" WORD_FMT "\" in group \"" WORD_FMT "\" is defined%s",
                       WORD_ARG(name.wanted), WORD_ARG(system.wanted), near_text(&name.near));
    int rc = spec_use(spec, pmus_kind(spec->state->pmus, PMU_TRACEPOINT), whole, err);
    if (rc < 0)
        return rc;
    if (read_id(events, system.found, name.found, &spec->event.code[CODE_CONFIG]) < 0)
        return spec_refuse(whole, "this tracepoint has no number in tracefs", err);
    spec_say(spec, "%s:%s", system.found, name.found);
    *text = mods;
    return 0;
}

int tracepoint_parse(struct spec *spec, struct word *text, struct err *err)
{
    int events = tracefs_events(spec->state);
    int rc = parse_in(spec, text, events, err);

    if (events >= 0)
        close(events);
    return rc;
}

struct listing {
    struct catalog *out;
    int events;
};

static void list_one(void *arg, const char *system, const char *name)
{
    struct listing *listing = arg;
    char full[2 * NAME_BYTES];

    snprintf(full, sizeof(full), "%s:%s", system, name);
    catalog_add(listing->out, "tracepoint", full);
}

static void list_system(void *arg, const char *path, const char *system)
{
    struct listing *listing = arg;

    (void)path;
    if (strcmp(system, LAYOUTS) != 0)
        each_name(listing->events, system, list_one, listing);
}

void tracepoint_list(struct backend_state *state, struct catalog *out)
{
    struct listing listing = {.out = out, .events = tracefs_events(state)};

    each_name(listing.events, ".", list_system, &listing);
    if (listing.events >= 0)
        close(listing.events);
}

/* The first word of each line, or all of it; what cannot be read is the same as nothing. */
static uint64_t hash_file(int fd, bool words, uint64_t hash)
{
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    char *line = NULL;
    size_t size = 0;

    while (file && getline(&line, &size, file) > 0) {
        size_t len = words ? strcspn(line, " ") : strlen(line);
        for (size_t i = 0; i < len; i++)
            hash = (hash ^ (unsigned char)line[i]) * UINT64_C(0x100000001b3);
    }
    free(line);
    if (file)
        fclose(file);
    else if (fd >= 0)
        close(fd);
    return hash;
}

/* They come and go with modules, and as users define some. */
uint64_t perf_look(struct backend_state *state)
{
    int events = tracefs_events(state);
    uint64_t hash = UINT64_C(0xcbf29ce484222325) + (events >= 0);

    if (events < 0)
        return hash;
    hash = hash_file(open("/proc/modules", O_RDONLY | O_CLOEXEC), true, hash);
    hash = hash_file(openat(events, "../dynamic_events", O_RDONLY | O_CLOEXEC), false, hash);
    close(events);
    return hash;
}
