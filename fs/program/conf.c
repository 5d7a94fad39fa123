/*
 * The configuration file: [pmcfs] has options, and each other section becomes a PMC or an instance.
 * The engine's own parsers check keys and values; only `owner` and `mode-bits` are read here.
 */
#include "core/pmc/pmc.h"
#include "core/pmc/settings.h"
#include "core/pmc/target.h"
#include "fs/program/options.h"
#include "fs/requests/caller.h"
#include "fs/requests/message.h"
#include "fs/tree/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#define CONF_BYTES_MAX (1 << 20)
#define USER_BYTES_MAX (1 << 20)

/* ---- sections as they are read ---- */

void section_refuse(struct section *section, unsigned line, const struct err *err)
{
    section->refused = true;
    message_log(LOG_WARNING, "%s:%u: [%s] %s %s: %s", section->file, line,
                text_shown(section->title), err_errno_name(err_table[err->id].code),
                err_table[err->id].id, err->text);
}

/* Adds the section with this header. Refuses it if its name is not valid or is used, and complains
 * if its kind is unknown. On ENOMEM adds nothing and sets no_memory. */
static void section_add(struct options *options, struct word title)
{
    sections_t *sections = &options->sections;
    struct section section = {
        .file = options->at.file, .line = options->at.line, .mode = -1, .title = word_dup(title)};
    char sentence[512];
    struct err err = {0};
    int rc = 0;

    if (!section.title || vec_room(sections, 1)) {
        free(section.title);
        options->no_memory = true;
        return;
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
    bool named = section.kind == SECTION_PMC || section.kind == SECTION_INSTANCE;
    if (named)
        rc = name_check(section.name, &err);
    if (rc == 0 && section.kind == SECTION_PMC && file_reserved(section.name))
        rc = err_set(&err, P23, "%s is a name that pmcfs uses: choose another name", section.name);
    for (size_t i = 0; named && rc == 0 && i < sections->n; i++) {
        const struct section *other = &sections->items[i];

        if (other->kind == section.kind && strcmp(other->name, section.name) == 0)
            rc = err_set(&err, P23,
                         "the section of this name in %s:%u is used: remove one of the two, or "
                         "choose another name",
                         other->file, other->line);
    }
    if (rc < 0)
        section_refuse(&section, section.line, &err);
    options->complaints += section.refused;
    sections->items[sections->n++] = section;
    if (section.kind == SECTION_UNKNOWN) {
        snprintf(sentence, sizeof sentence,
                 "no such section [%s]: there are [pmcfs], [pmc NAME] and [instance NAME]",
                 text_shown(section.title));
        option_complain(options, section.file, sentence);
    }
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
    return is_shortage(-rc) ? -ENOMEM : found ? 0 : -ENOENT;
}

int owner_find(const char *text, uid_t *uid, gid_t *gid, struct err *err)
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

/* Checks a value of a setting without the host. Events need the host and are not checked. */
static int value_check(enum key key, struct word value, struct err *err)
{
    struct target_word target = {.word = value};
    struct settings settings;
    int rc;

    if (key == KEY_EVENT)
        return 0;
    if (key == KEY_TARGET) {
        for (rc = 0; rc == 0 && value.len > 0; cpus_free(&target.cpus)) {
            if ((target.word = target_next(&value)).len > 0)
                rc = target_parse(&target, target.word, err);
            if (rc == 0 && target.self)
                rc = err_set(err, P07,
                             "target=" WORD_FMT ": no process writes a section: "
                             "write a PID, cpu0, all or cgroup:/PATH",
                             WORD_ARG(target.word));
        }
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

/* Copies a list of events without the blanks next to commas and braces. Other blanks in braces
 * become commas. */
static void events_join(struct buf *out, struct word value)
{
    for (size_t i = 0, next; i < value.len; i = next) {
        const char last = out->len ? out->data[out->len - 1] : ',';

        for (next = i; next < value.len && (value.p[next] == ' ' || value.p[next] == '\t'); next++)
            ;
        if (next > i && next < value.len && !strchr(",{", last) && !strchr(",}", value.p[next]))
            buf_char(out, out->data[0] == '{' && !memchr(out->data, '}', out->len) ? ',' : ' ');
        if (next < value.len)
            buf_char(out, value.p[next++]);
    }
}

/* Adds "KEY=VALUE" to the command. Events and targets are separated by blanks as well as commas. */
static int setting_add(struct section *section, struct word name, struct word value,
                       struct err *err)
{
    const enum key key = key_find(name);
    struct buf line = {0}, events = {0};
    struct word word;
    int rc = 0;

    if (key == KEYS)
        return key_unknown(name, err);
    if (key == KEY_EVENT) {
        events_join(&events, value);
        value = (struct word){events.data, events.len};
    }
    if (key == KEY_EVENT || key == KEY_TARGET) {
        struct scan scan = scan_of(value);

        while (rc == 0 && scan_word(&scan, &word)) {
            while (word.len > 1 && word.p[word.len - 1] == ',') /* of a list with blanks */
                word.len--;
            rc = value_check(key, word, err);
            buf_printf(&line, "%s=%.*s\n", key_table[key].name, (int)word.len, word.p);
        }
    } else if (value.len > 0) {
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

/* Takes one key of a PMC or an instance. Returns 0, or -errno with a sentence. */
static int section_key(struct section *section, struct word key, struct word value, struct err *err)
{
    struct near near = {.word = key};
    uint64_t number;
    uid_t uid;
    gid_t gid;

    if (word_alike(key, "mode-bits", false)) {
        char *text = word_dup(value), *end = text;
        const unsigned long bits = text && value.len ? strtoul(text, &end, 8) : 0;
        const bool fine = text && end != text && *end == '\0' && value.p[0] != '-' && bits <= 0777;

        free(text);
        if (!fine)
            return err_set(err, P02,
                           "mode-bits=" WORD_FMT ": must be octal permission bits, 0 to 0777",
                           WORD_ARG(value));
        section->mode = (int)bits;
        return 0;
    }
    if (word_alike(key, "owner", false)) {
        free(section->owner);
        section->owner = word_dup(value);
        return section->owner ? owner_find(section->owner, &uid, &gid, err) : err_nomem(err);
    }
    if (section->kind == SECTION_PMC)
        return setting_add(section, key, value, err);
    for (unsigned i = 0; i < LIMITS; i++) {
        near_offer(&near, limit_table[i].name);
        if (!word_alike(key, limit_table[i].name, false))
            continue;
        const int rc = limit_read((enum limit)i, value, &number, err);
        free(section->limit[i]);
        section->limit[i] = word_dup(value);
        return rc || section->limit[i] ? rc : err_nomem(err);
    }
    return err_set(err, E24, "an instance has no limit \"" WORD_FMT "\"%s", WORD_ARG(key),
                   near_text(&near));
}

/* ---- the configuration file ---- */

/*
 * Opens the configuration file without blocking. Only regular files of at most 1 MiB are accepted.
 * On failure returns NULL and sets *why to the reason; errno is unchanged if no call failed.
 */
static FILE *conf_open(const char *path, const char **why)
{
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;
    FILE *file;

    *why = NULL;
    if (fd < 0 || fstat(fd, &st) < 0)
        *why = strerror(errno);
    else if (S_ISDIR(st.st_mode))
        *why = "it is a directory";
    else if (!S_ISREG(st.st_mode))
        *why = "it is not a regular file";
    else if (st.st_size > CONF_BYTES_MAX)
        *why = "it is longer than 1 MiB";
    file = *why ? NULL : fdopen(fd, "r");
    if (!file && !*why)
        *why = strerror(errno);
    if (!file && fd >= 0)
        close(fd);
    return file;
}

/*
 * The file that conf_line() reads for inih. Because inih passes no line numbers to its handler and
 * cuts names of sections after 49 bytes, conf_line() counts lines, adds the sections, and replaces
 * each header by the number of its section.
 */
struct conf_stream {
    struct options *options;
    FILE *file;
    char *line; /* owned */
    size_t size;
};

static char *conf_line(char *text, int size, void *arg)
{
    struct conf_stream *stream = arg;
    struct options *options = stream->options;
    char sentence[128], *start, *end;

    errno = 0;
    ssize_t len = getline(&stream->line, &stream->size, stream->file);
    if (len < 0) { /* getline(3) without memory, which ferror(3) does not report */
        options->no_memory |= errno == ENOMEM;
        return NULL;
    }
    options->at.line++;
    start = stream->line;
    if (options->at.line == 1 && strncmp(start, "\xef\xbb\xbf", 3) == 0)
        start += 3;
    start += strspn(start, " \t");
    end = *start == '[' ? strchr(start, ']') : NULL;
    if (end) {
        section_add(options, (struct word){start + 1, (size_t)(end - start - 1)});
        snprintf(text, (size_t)size, "[%zu]\n", options->sections.n - 1);
    } else if (len >= size) {
        snprintf(sentence, sizeof sentence,
                 "a line cannot be longer than %d bytes: write the key again, or continue it on "
                 "the next line after a blank",
                 size - 2);
        option_complain(options, options->at.file, sentence);
        snprintf(text, (size_t)size, "\n");
    } else {
        memcpy(text, stream->line, (size_t)len + 1);
    }
    return text;
}

static int conf_key(void *user, const char *number, const char *name, const char *value)
{
    struct options *options = user;
    struct section *section =
        *number && options->sections.n ? &options->sections.items[strtoul(number, NULL, 10)] : NULL;
    struct near near;
    struct err err = {0};
    char sentence[512];

    if (!section || section->kind == SECTION_PMCFS) {
        if (option_apply(options, options->at.file, word_of(name), word_of(value)))
            return 1;
        snprintf(sentence, sizeof sentence, "no key \"%s\"%s", name,
                 option_near(&near, word_of(name)));
        option_complain(options, options->at.file, sentence);
    } else if (section->kind != SECTION_UNKNOWN) {
        const int rc = section_key(section, word_of(name), word_of(value), &err);

        options->no_memory |= rc == -ENOMEM;
        options->complaints += rc < 0;
        if (rc < 0)
            section_refuse(section, options->at.line, &err);
    }
    return 1;
}

/* Reads one file and adds its path to options->files, which owns it. A missing file is an error
 * only if must_exist. Returns 0, or after a message an exit status. ENOMEM, or path NULL: sets
 * no_memory and returns 0. */
static int conf_file_read(struct options *options, char *path, bool must_exist)
{
    struct conf_stream stream = {options, NULL, NULL, 0};
    const char *why;
    int wrong;

    if (!path || vec_push(&options->files, path)) {
        free(path);
        options->no_memory = true;
        return 0;
    }
    options->at.file = path;
    errno = 0;
    stream.file = conf_open(path, &why);
    if (!stream.file && errno == ENOENT && !must_exist)
        return 0;
    if (stream.file) {
        options->at.line = 0;
        wrong = ini_parse_stream(conf_line, &stream, conf_key, options);
        free(stream.line);
        options->at.line = wrong > 0 ? (unsigned)wrong : 0;
        if (wrong > 0) /* inih returns the first malformed line at the end */
            option_complain(options, path,
                            "neither a setting nor a section: write key = value, or [pmc NAME]");
        options->at.line = 0;
        if (wrong < 0 || ferror(stream.file))
            why = strerror(EIO);
        fclose(stream.file);
    }
    if (why)
        message_log(LOG_ERR, "cannot read the configuration \"%s\": %s", path, why);
    return why ? EXIT_LOGGED : 0;
}

void conf_free(struct options *options)
{
    sections_t *sections = &options->sections;

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
    while (options->files.n)
        free(options->files.items[--options->files.n]);
    free(options->files.items);
    options->files.items = NULL;
    options->files.cap = 0;
}

/* Files of the directory are read in the order of their names. */
int conf_read(struct options *options)
{
    struct dirent **entries = NULL;
    char *directory = NULL, *path;

    conf_free(options);
    if (!options->conf)
        return 0;
    int rc = conf_file_read(options, strdup(options->conf), options->conf_given);
    if (rc || asprintf(&directory, "%s.d", options->conf) < 0)
        return rc ? rc : conf_file_read(options, NULL, false);
    int n = scandir(directory, &entries, NULL, alphasort);
    if (n < 0 && errno != ENOENT && errno != ENOTDIR) {
        message_log(LOG_ERR, "cannot read the configuration \"%s\": %s", directory,
                    strerror(errno));
        rc = EXIT_LOGGED;
    }
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name, *end = strrchr(name, '.');

        if (rc == 0 && name[0] != '.' && end && strcmp(end, ".conf") == 0) {
            if (asprintf(&path, "%s/%s", directory, name) < 0)
                path = NULL;
            rc = conf_file_read(options, path, true);
        }
        free(entries[i]);
    }
    free(entries);
    free(directory);
    return rc;
}
