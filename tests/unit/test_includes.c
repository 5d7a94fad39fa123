/*
 * Data and includes go one way: the rules of ARCHITECTURE.md, read from the sources themselves.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw */
#endif

#include "tests/unit/unit.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

SUITE(includes);

#ifndef SOURCE_ROOT
#define SOURCE_ROOT "."
#endif

#define LINES_MAX 20000

/* Lines of the sources; an include is its line without "#include", blanks and what follows. */
static struct line {
    char file[96]; /* from the root: core/buf.c */
    unsigned number;
    char text[160];
} * includes, *mentions;
static unsigned n_includes, n_mentions;
static int came_from = -1; /* the directory before sources_read() */

static bool matches(const char *text, const char *pattern)
{
    return fnmatch(pattern, text, 0) == 0;
}

static bool names_backend(const char *text)
{
    return strstr(text, "perf_backend") || strstr(text, "sim_backend") ||
           strstr(text, "linux_host");
}

static void line_keep(struct line *lines, unsigned *n, const char *file, unsigned number,
                      const char *text)
{
    struct line *line = &lines[*n];

    ck_assert_msg((*n)++ < LINES_MAX, "LINES_MAX is too small");
    line->number = number;
    snprintf(line->file, sizeof(line->file), "%s", file);
    snprintf(line->text, sizeof(line->text), "%s", text);
}

static void file_read(const char *file)
{
    FILE *stream = fopen(file, "re");
    char *text = NULL, name[160];
    size_t size = 0;

    ck_assert_msg(stream != NULL, "%s cannot be read", file);
    for (unsigned number = 1; getline(&text, &size, stream) > 0; number++) {
        if (sscanf(text, " # include %159[^ \n]", name) == 1)
            line_keep(includes, &n_includes, file, number, name);
        else if (names_backend(text))
            line_keep(mentions, &n_mentions, file, number, text);
    }
    free(text);
    fclose(stream);
}

static int entry_read(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)walk;
    if (type == FTW_F && matches(path, "*.[ch]"))
        file_read(path);
    return 0;
}

/* All includes below core, backends and fs. Stays in the root until sources_forget(). */
static void sources_read(void)
{
    const char *root = getenv("PMCFS_SOURCE");
    static const char *const parts[] = {"core", "backends", "fs"};

    includes = calloc(LINES_MAX, sizeof(*includes));
    mentions = calloc(LINES_MAX, sizeof(*mentions));
    n_includes = n_mentions = 0;
    ck_true(includes && mentions);
    came_from = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_msg(came_from >= 0 && chdir(root ? root : SOURCE_ROOT) == 0,
                  "set PMCFS_SOURCE to the source tree");
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        ck_assert_int_eq(nftw(parts[i], entry_read, 16, FTW_PHYS), 0);
    ck_assert_msg(n_includes > 30, "that is not the source tree");
}

static void sources_forget(void)
{
    ck_assert_int_eq(fchdir(came_from), 0);
    close(came_from);
    free(includes);
    free(mentions);
}

static void report(const struct line *line, const char *why, unsigned *wrong)
{
    fprintf(stderr, "%s:%u: %s: %s\n", line->file, line->number, line->text, why);
    (*wrong)++;
}

/* Who includes `what` must be one of `files`. */
static void check_only(const char *what, const char *files)
{
    unsigned wrong = 0;

    sources_read();
    for (unsigned i = 0; i < n_includes; i++)
        if (matches(includes[i].text, what) && !matches(includes[i].file, files))
            report(&includes[i], files, &wrong);
    sources_forget();
    ck_assert_uint_eq(wrong, 0);
}

TEST(only_fs_includes_fuse)
{
    check_only("*fuse*", "fs/*");
}

TEST(only_fs_includes_fs)
{
    check_only("\"fs/*", "fs/*");
}

TEST(only_perf_includes_perf_headers)
{
    check_only("*perf_event.h*", "backends/perf/*");
    check_only("*perfmon*", "backends/perf/*");
}

TEST(a_backend_is_included_only_by_itself)
{
    check_only("\"backends/perf/*", "backends/perf/*");
    check_only("\"backends/sim/*", "backends/sim/*");
    check_only("\"backends/linux/*", "backends/linux/*");
}

TEST(only_main_knows_them_by_name)
{
    unsigned wrong = 0;

    sources_read();
    for (unsigned i = 0; i < n_includes; i++)
        if (matches(includes[i].text, "\"backends/backends.h\"") &&
            !matches(includes[i].file, "fs/main.c") && !matches(includes[i].file, "backends/*"))
            report(&includes[i], "fs/main.c, and who defines it", &wrong);
    sources_forget();
    ck_assert_uint_eq(wrong, 0);
}

TEST(includes_are_from_the_root_and_exist)
{
    unsigned wrong = 0;

    sources_read();
    for (unsigned i = 0; i < n_includes; i++) {
        char path[160];

        if (sscanf(includes[i].text, "\"%159[^\"]", path) == 1 &&
            (!strchr(path, '/') || strstr(path, "..") || access(path, R_OK)))
            report(&includes[i], "no such file below the root", &wrong);
    }
    sources_forget();
    ck_assert_uint_eq(wrong, 0);
}

TEST(only_main_names_a_backend)
{
    unsigned wrong = 0;

    sources_read();
    for (unsigned i = 0; i < n_mentions; i++)
        if (!matches(mentions[i].file, "fs/main.c") && !matches(mentions[i].file, "backends/*"))
            report(&mentions[i], "fs/main.c, and who defines it", &wrong);
    sources_forget();
    ck_assert_uint_eq(wrong, 0);
}

/*
 * DESIGN.md section 1, its levels times ten; where one level's files build on each other, the order
 * is in the last digit. A file includes only what is lower, and its own header.
 */
static const struct {
    const char *name; /* without .c and .h, unless these are apart */
    int level;
} levels[] = {
    {"utf8", 0},
    {"hash", 0},
    {"vec", 0},
    {"err", 1},
    {"buf", 2},
    {"scan", 3},
    {"ids", 2},
    {"cpus", 4},
    {"event", 10},
    {"match", 10},
    {"record", 10},
    {"catalog", 10},
    {"tunable", 11},
    {"host", 12},
    {"rights", 13},
    {"backend", 13},
    {"call", 13},
    {"files", 14},
    {"engine.h", 15},
    {"row.h", 20},
    {"row_state", 21},
    {"row", 22},
    {"row_choose", 22},
    {"row_arrange", 22},
    {"losses", 18},
    {"log.h", 20},
    {"settings", 21},
    {"log_sets", 18},
    {"hash", 0},
    {"vec", 0},
    {"maps", 15},
    {"tasks", 16},
    {"spaces", 18},
    {"log_parts", 19},
    {"log.c", 21},
    {"log_read", 21},
    {"log_save", 21},
    {"hex", 5},
    {"ring", 10},
    {"form", 19},
    {"exits", 20},
    {"record_table", 18},
    {"pen", 18},
    {"logtext_notes", 60},
    {"samples", 61},
    {"recording.h", 22},
    {"recording_state", 23},
    {"recording.c", 24},
    {"recording_pids", 24},
    {"recording_put", 24},
    {"rests", 59},
    {"reader.h", 59},
    {"reader_state", 60},
    {"reader.c", 61},
    {"reader_save", 61},
    {"parts", 30},
    {"target", 31},
    {"instance.h", 31},
    {"instance_save", 64},
    {"info_rows", 71},
    {"pmc", 40},
    {"pmc_log", 41},
    {"instance.c", 41},
    {"access", 50},
    {"metric", 14},
    {"count", 50},
    {"change.h", 51},
    {"plan", 52},
    {"change_check", 53},
    {"change_find", 53},
    {"change_open", 53},
    {"change_plan", 53},
    {"change_quota", 53},
    {"change_swap", 53},
    {"change_links", 53},
    {"change_targets", 53},
    {"change_rows", 53},
    {"change_record", 53},
    {"change_sampling", 53},
    {"drain", 59},
    {"change_parse", 53},
    {"change_command", 53},
    {"change.c", 53},
    {"foreign", 60},
    {"deaths", 60},
    {"poll", 60},
    {"bound", 60},
    {"series", 60},
    {"logtext", 60},
    {"perfdata", 60},
    {"stacks", 59},
    {"folded", 60},
    {"show", 61},
    {"admin.h", 14},
    {"admin.c", 61},
    {"info", 61},
    {"metrics", 61},
    {"fields", 63},
    {"open_file", 64},
    {"save", 65},
    {"load_state", 64},
    {"load", 65},
    {"load_pmc", 65},
    {"engine", 70},
    {"queue", 71},
    {"sinks", 71},
    {"admin_instance", 71},
    {"instances.h", 70},
    {"instances.c", 71},
    {"tree", 71},
};

static int level_of(const char *file)
{
    const char *name = strchr(file, '/') + 1;
    size_t stem = strcspn(name, ".");

    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        size_t len = strlen(levels[i].name);

        if ((len == stem || len == stem + 2) && strncmp(levels[i].name, name, len) == 0)
            return levels[i].level;
    }
    return -1;
}

static const char *include_wrong(const char *file, const char *included)
{
    size_t stem = strcspn(file, ".");

    if (strncmp(included, "core/", 5) != 0)
        return "core includes only core";
    if (level_of(file) < 0 || level_of(included) < 0)
        return "add it to the table of levels in tests/unit/test_includes.c";
    if (strncmp(file, included, stem + 1) == 0)
        return NULL;
    return level_of(included) < level_of(file) ? NULL : "core includes only what is lower";
}

TEST(core_includes_only_lower_levels_of_core)
{
    unsigned wrong = 0;

    sources_read();
    for (unsigned i = 0; i < n_includes; i++) {
        char path[160];
        const char *why;

        if (matches(includes[i].file, "core/*") &&
            sscanf(includes[i].text, "\"%159[^\"]", path) == 1 &&
            (why = include_wrong(includes[i].file, path)))
            report(&includes[i], why, &wrong);
    }
    sources_forget();
    ck_assert_uint_eq(wrong, 0);
}
