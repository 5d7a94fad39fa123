/*
 * The format and event files of one PMU: the bits of a config word that a term fills, and the
 * events for which the kernel has a file, with their units.
 */
#include "backends/perf/probe/pmu.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEVICES "/sys/bus/event_source/devices"

int file_read(int dir, const char *path, char *text, size_t size)
{
    int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, size - 1);
    int error = errno;

    if (fd >= 0)
        close(fd);
    for (; got > 0 && (text[got - 1] == '\n' || text[got - 1] == '\0'); got--)
        ;
    text[got > 0 ? got : 0] = '\0';
    return got < 0 ? -error : (int)got;
}

int pmus_read(const struct pmus *pmus, char *text, size_t size, const char *path, ...)
{
    char full[512];
    va_list args;
    int used = snprintf(full, sizeof(full), "%s", pmus->root), more;

    text[0] = '\0';
    if (used < 0 || (size_t)used >= sizeof(full))
        return pmus_note(-ENAMETOOLONG);
    va_start(args, path);
    more = vsnprintf(full + used, sizeof(full) - (size_t)used, path, args);
    va_end(args);
    if (more < 0 || (size_t)(used + more) >= sizeof(full))
        return pmus_note(-ENAMETOOLONG);
    return pmus_note(file_read(AT_FDCWD, full, text, size));
}

/* Parses "config1:0-7,32-35". */
static bool format_scan(struct pmu_format *format, const char *text)
{
    char *end;

    if (strncmp(text, "config", 6) != 0)
        return false;
    text += 6;
    format->word = *text == ':' ? 0 : (unsigned)(*text++ - '0');
    if (format->word >= CONFIG_WORDS || *text != ':')
        return false;
    do {
        unsigned long low = strtoul(text + 1, &end, 10), high = low;
        if (end == text + 1 || format->n == FORMAT_RANGES)
            return false;
        if (*end == '-')
            high = strtoul(end + 1, &end, 10);
        if (high > 63 || low > high)
            return false;
        format->range[format->n].low = (uint8_t)low;
        format->range[format->n++].high = (uint8_t)high;
        text = end;
    } while (*text == ',');
    return *text == '\0';
}

unsigned format_bits(const struct pmu_format *format)
{
    unsigned bits = 0;

    for (unsigned i = 0; i < format->n; i++)
        bits += 1u + format->range[i].high - format->range[i].low;
    return bits;
}

bool format_put(const struct pmu_format *format, uint64_t value, uint64_t config[CONFIG_WORDS])
{
    unsigned bits = format_bits(format);

    if (bits < 64 && value >> bits != 0)
        return false;
    for (unsigned i = 0; i < format->n; i++) {
        unsigned low = format->range[i].low, width = 1u + format->range[i].high - low;
        uint64_t mask = width == 64 ? ~(uint64_t)0 : ((uint64_t)1 << width) - 1;
        config[format->word] &= ~(mask << low);
        config[format->word] |= (value & mask) << low;
        value = width == 64 ? 0 : value >> width;
    }
    return true;
}

static void load_format(const struct pmus *pmus, struct pmu *pmu, const char *name)
{
    struct pmu_format format = {.name = NULL};
    char text[256];

    if (pmus_read(pmus, text, sizeof(text), DEVICES "/%s/format/%s", pmu->name, name) <= 0 ||
        !format_scan(&format, text))
        return;
    char *copy = strdup(name);
    format.name = copy;
    if (!copy || vec_push(&pmu->formats, format)) {
        pmus_note(-ENOMEM);
        free(copy);
    }
}

static bool is_side_file(const char *name)
{
    static const char *const ends[] = {".unit", ".scale", ".snapshot", ".per-pkg"};
    const char *dot = strrchr(name, '.');

    for (size_t i = 0; dot && i < sizeof(ends) / sizeof(ends[0]); i++)
        if (strcmp(dot, ends[i]) == 0)
            return true;
    return false;
}

/* Reads a file that describes an event, such as "energy-pkg.unit". Returns its length. */
static int read_side(const struct pmus *pmus, const struct pmu *pmu, const char *name,
                     const char *what, char text[32])
{
    return pmus_read(pmus, text, 32, DEVICES "/%s/events/%s.%s", pmu->name, name, what);
}

static void load_event(const struct pmus *pmus, struct pmu *pmu, const char *name)
{
    struct pmu_event event = {.scale = 1};
    char terms[512], text[32];

    if (is_side_file(name) ||
        pmus_read(pmus, terms, sizeof(terms), DEVICES "/%s/events/%s", pmu->name, name) <= 0)
        return;
    event.name = strdup(name);
    event.terms = strdup(terms);
    if (read_side(pmus, pmu, name, "unit", text) > 0)
        snprintf(event.unit, sizeof(event.unit), "%.15s", text);
    if (read_side(pmus, pmu, name, "scale", text) > 0 && strtod(text, NULL) > 0)
        event.scale = strtod(text, NULL);
    event.snapshot = read_side(pmus, pmu, name, "snapshot", text) > 0 && text[0] == '1';
    if (event.name && event.terms && vec_push(&pmu->events, event) == 0)
        return;
    pmus_note(-ENOMEM);
    free(event.name);
    free(event.terms);
}

static void load_files(const struct pmus *pmus, struct pmu *pmu, const char *sub,
                       void (*load)(const struct pmus *, struct pmu *, const char *))
{
    char path[512];
    struct dirent *entry;

    snprintf(path, sizeof(path), "%s" DEVICES "/%s/%s", pmus->root, pmu->name, sub);
    DIR *dir = opendir(path);
    if (!dir)
        pmus_note(-errno);
    while (dir && (entry = readdir(dir)))
        if (entry->d_name[0] != '.')
            load(pmus, pmu, entry->d_name);
    if (dir)
        closedir(dir);
}

void pmu_load(const struct pmus *pmus, struct pmu *pmu)
{
    load_files(pmus, pmu, "format", load_format);
    load_files(pmus, pmu, "events", load_event);
}

/* The terms config=…, config1=…: a full config word. */
static const struct pmu_format config_words[CONFIG_WORDS] = {
    {"config", 0, 1, {{0, 63}}},
    {"config1", 1, 1, {{0, 63}}},
    {"config2", 2, 1, {{0, 63}}},
    {"config3", 3, 1, {{0, 63}}},
};

const struct pmu_format *pmu_format_word(const struct pmu *pmu, struct word name)
{
    for (unsigned i = 0; i < pmu->formats.n; i++)
        if (word_alike(name, pmu->formats.items[i].name, true))
            return &pmu->formats.items[i];
    for (unsigned i = 0; i < CONFIG_WORDS; i++)
        if (word_alike(name, config_words[i].name, true))
            return &config_words[i];
    return NULL;
}

const struct pmu_format *pmu_format(const struct pmu *pmu, const char *name)
{
    return pmu_format_word(pmu, word_of(name));
}

const struct pmu_event *pmu_event(const struct pmu *pmu, struct word name)
{
    for (unsigned i = 0; i < pmu->events.n; i++)
        if (word_alike(name, pmu->events.items[i].name, true))
            return &pmu->events.items[i];
    return NULL;
}
