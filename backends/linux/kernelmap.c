/*
 * Where the kernel's text and its modules lie, if that may be known, as perf tells it in its files:
 * with the name of the symbol at its beginning, by which a reader sees how far it was moved.
 */
#include "backends/linux/inventory.h"
#include "core/backend.h"
#include "core/record.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#define KERNEL      UINT32_MAX /* pid of what belongs to no process */
#define MODULES_MAX 4096

struct module {
    char name[64];
    uint64_t start, length;
    char *path; /* below /lib/modules/RELEASE, or NULL */
};

static void map_add(struct buf *out, uint64_t time_ns, uint64_t start, uint64_t length,
                    uint64_t offset, const char *path)
{
    const struct map_facts map = {
        .pid = KERNEL, .tid = 0, .start = start, .length = length, .offset = offset, .path = path};
    record_add_map(out, time_ns, &map, RECORD_FOUND | RECORD_KERNEL);
}

/* ---- the text ---- */

struct text {
    uint64_t text, stext, etext;
};

static void text_take(struct text *found, const char *name, uint64_t address)
{
    if (strcmp(name, "_text") == 0)
        found->text = address;
    else if (strcmp(name, "_stext") == 0)
        found->stext = address;
    else if (strcmp(name, "_etext") == 0)
        found->etext = address;
}

/* "ADDRESS TYPE NAME": one of a hundred thousand, so without sscanf(). */
static const char *symbol_read(const char *line, uint64_t *address)
{
    char *end;

    *address = strtoull(line, &end, 16);
    return end != line && end[0] == ' ' && end[1] && end[2] == ' ' ? end + 3 : NULL;
}

/* The list is in order of address: the end is the last that is needed. Where addresses are hidden
 * all are 0; elsewhere some that are no addresses are. */
static void text_find(struct text *found)
{
    bool hidden = false;
    FILE *file = fopen("/proc/kallsyms", "re");
    char *line = NULL;
    size_t size = 0;
    while (file && !found->etext && !hidden && getline(&line, &size, file) > 0) {
        uint64_t address;
        const char *name = symbol_read(line, &address);
        if (!name || name[0] != '_')
            continue;
        line[strcspn(line, "\t\n")] = '\0';
        hidden = address == 0 && (strcmp(name, "_text") == 0 || strcmp(name, "_stext") == 0);
        text_take(found, name, address);
    }
    free(line);
    if (file)
        fclose(file);
}

/* It stays where it is while the system runs: once found it is known. */
static void text_known(struct text *out)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct text known;
    pthread_mutex_lock(&lock);
    if (!known.etext) {
        known = (struct text){0};
        text_find(&known);
    }
    *out = known;
    pthread_mutex_unlock(&lock);
}

static void text_put(struct buf *out, uint64_t time_ns)
{
    struct text found;
    text_known(&found);
    const uint64_t start = found.text ? found.text : found.stext;
    if (!start || found.etext <= start)
        return;
    map_add(out, time_ns, start, found.etext - start, start,
            found.text ? "[kernel.kallsyms]_text" : "[kernel.kallsyms]_stext");
}

/* ---- modules ---- */

/* NAME SIZE USERS DEPENDENTS STATE ADDRESS …; how many there are. */
static size_t modules_read(struct module **out)
{
    FILE *file = fopen("/proc/modules", "re");
    char *line = NULL;
    size_t size = 0, n = 0;
    *out = NULL;
    while (file && n < MODULES_MAX && getline(&line, &size, file) > 0) {
        struct module module = {.path = NULL};
        if (sscanf(line, "%63s %" SCNu64 " %*s %*s %*s %" SCNx64, module.name, &module.length,
                   &module.start) != 3 ||
            module.start == 0)
            continue;
        if ((n & (n - 1)) == 0) {
            struct module *more = realloc(*out, (n ? 2 * n : 1) * sizeof **out);
            if (!more)
                break;
            *out = more;
        }
        (*out)[n++] = module;
    }
    free(line);
    if (file)
        fclose(file);
    return n;
}

/* Is it the file of the module: "kernel/fs/over-lay.ko.xz" of over_lay? */
static bool path_is_of(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    const char *p = slash ? slash + 1 : path;
    for (; *p && *name; p++, name++)
        if (*p != *name && !(*p == '-' && *name == '_'))
            return false;
    return *name == '\0' && strncmp(p, ".ko", 3) == 0;
}

/* modules.dep has the file of each module first on its line. */
static void modules_locate(struct module *modules, size_t n)
{
    struct utsname system;
    char path[128], *line = NULL;
    size_t size = 0;
    if (n == 0 || uname(&system) < 0)
        return;
    snprintf(path, sizeof path, "/lib/modules/%s/modules.dep", system.release);
    FILE *file = fopen(path, "re");
    while (file && getline(&line, &size, file) > 0) {
        line[strcspn(line, ":\n")] = '\0';
        for (size_t i = 0; i < n; i++) {
            if (modules[i].path || !path_is_of(line, modules[i].name))
                continue;
            if (line[0] == '/')
                modules[i].path = strdup(line);
            else if (asprintf(&modules[i].path, "/lib/modules/%s/%s", system.release, line) < 0)
                modules[i].path = NULL;
        }
    }
    free(line);
    if (file)
        fclose(file);
}

static void modules_put(struct buf *out, uint64_t time_ns)
{
    struct module *modules;
    size_t n = modules_read(&modules);
    modules_locate(modules, n);
    for (size_t i = 0; i < n; i++) {
        char name[sizeof modules[i].name + 2];
        snprintf(name, sizeof name, "[%s]", modules[i].name);
        map_add(out, time_ns, modules[i].start, modules[i].length, 0,
                modules[i].path ? modules[i].path : name);
        free(modules[i].path);
    }
    free(modules);
}

void linux_kernel_maps(struct host_state *state, uint64_t time_ns, const struct intake *intake)
{
    struct buf out;
    (void)state;
    buf_init(&out, NULL, 0);
    text_put(&out, time_ns);
    modules_put(&out, time_ns);
    inventory_hand(&out, intake);
    buf_free(&out);
}
