/*
 * The program's options: command line, configuration file (inih) and -o. A bad value of a tunable
 * never prevents the mount: it is reported and the default is used.
 */
#include "fs/program/options.h"

#include "fs/requests/caller.h"
#include "fs/requests/message.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <ini.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#define CONF_BYTES_MAX (1 << 20)

/*
 * Options of mount(8) and the flags of mount(2) that they set and clear. nosuid, nodev and noexec
 * are always set and cannot be cleared.
 */
#define ATIME (MS_NOATIME | MS_RELATIME | MS_STRICTATIME)
static const struct {
    const char *name;
    unsigned long set, clear;
} mount_words[] = {
    {"rw", 0, MS_RDONLY},
    {"ro", MS_RDONLY, 0},
    {"atime", MS_RELATIME, ATIME},
    {"noatime", MS_NOATIME, ATIME},
    {"diratime", 0, MS_NODIRATIME},
    {"nodiratime", MS_NODIRATIME, 0},
    {"relatime", MS_RELATIME, ATIME},
    {"strictatime", MS_STRICTATIME, ATIME},
    {"nosymfollow", MS_NOSYMFOLLOW, 0},
    {"symfollow", 0, MS_NOSYMFOLLOW},
};

/* Options of mount(8) that are accepted and have no effect. */
static const char *const mount_idle[] = {
    "_netdev",    "allow_other",   "async",      "auto",       "comment", "default_permissions",
    "defaults",   "dev",           "dirsync",    "exec",       "group",   "iversion",
    "lazytime",   "loud",          "mand",       "noauto",     "nodev",   "noexec",
    "nofail",     "nogroup",       "noiversion", "nolazytime", "nomand",  "noowner",
    "norelatime", "nostrictatime", "nosuid",     "nouser",     "nousers", "owner",
    "silent",     "subtype",       "suid",       "sync",       "user",    "users",
};

/* Options with a value that are passed to SELinux. */
static const char *const mount_labels[] = {"context", "fscontext", "defcontext", "rootcontext"};

/* ---- one key of the file or of -o ---- */

static void complain(struct options *options, const char *where, const char *sentence)
{
    /* --check omits the value that a mount would use instead. */
    const char *instead = options->check ? strstr(sentence, "; using ") : NULL;
    int len = (int)(instead ? (size_t)(instead - sentence) : strlen(sentence));

    options->complaints++;
    if (options->at.line > 0)
        message_log(LOG_WARNING, "%s:%u: %.*s", where, options->at.line, len, sentence);
    else
        message_log(LOG_WARNING, "%s: %.*s", where, len, sentence);
}

static const char *unknown_near(struct near *near, struct word key)
{
    near_init(near, key);
    for (int i = 0; i < TUNABLE_COUNT; i++)
        near_offer(near, tunable_row((enum tunable)i)->name);
    near_offer(near, "backend");
    return near_text(near);
}

bool options_replace(struct options *options, char **to, const char *text, size_t len)
{
    free(*to);
    *to = strndup(text, len);
    options->no_memory |= !*to;
    return true;
}

/* Replaces a group that does not exist by none. Skipped in an upgrade: --check did it before. */
static void readers_check(struct options *options, const char *where)
{
    char sentence[160];
    gid_t gid;

    if ((options->resume && !options->check) ||
        group_find(tunable_text(&options->tunables, TUNABLE_READERS), &gid) != -ENOENT)
        return;
    snprintf(sentence, sizeof sentence, "readers: there is no group \"%s\"; using none",
             tunable_text(&options->tunables, TUNABLE_READERS));
    complain(options, where, sentence);
    tunable_set(&options->tunables, TUNABLE_READERS, (struct word){"-", 1}, true, NULL);
}

/* A bad backend is an error: another backend would count something else. */
static void backend_set(struct options *options, const char *where, struct word value)
{
    struct err err = {0};

    if (word_is(value, "perf") || word_is(value, "sim")) {
        options_replace(options, &options->backend, value.p, value.len);
        return;
    }
    err_set(&err, P27, "no backend \"" WORD_FMT "\": write perf or sim", WORD_ARG(value));
    complain(options, where, err.text);
    options->no_backend = true;
}

/* Applies backend=…, sim_…=… or a tunable. Returns false if there is no such key. */
static bool key_set(struct options *options, const char *where, struct word key, struct word value)
{
    struct err err = {0};
    int which;

    if (word_is(key, "backend")) {
        backend_set(options, where, value);
        return true;
    }
    if (key.len > 4 && strncmp(key.p, "sim_", 4) == 0) {
        buf_printf(&options->backend_words, "%s%.*s=%.*s", options->backend_words.len ? " " : "",
                   (int)key.len, key.p, (int)value.len, value.p);
        return true;
    }
    which = tunable_find(key);
    if (which < 0)
        return false;
    if (tunable_set(&options->tunables, (enum tunable)which, value, true, &err) < 0)
        complain(options, where, err.text);
    else if (which == TUNABLE_READERS)
        readers_check(options, where);
    else if (which == TUNABLE_LOGBUFFERSIZE || which == TUNABLE_NBUFFERS) {
        options->log_at.where = where;
        options->log_at.line = options->at.line;
    }
    return true;
}

/* ---- the configuration file ---- */

/*
 * Opens the configuration file without blocking. Only regular files of at most 1 MiB are accepted.
 * On failure returns NULL and sets *why to the reason; errno is 0 if the system did not refuse it.
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
 * Counts lines and keeps names of sections, because inih passes no line numbers to its handler and
 * cuts names after 49 bytes: a header is replaced by the number of its section.
 */
struct conf_stream {
    struct options *options;
    FILE *file;
    char *line; /* owned */
    size_t size;
};

static void conf_header(struct options *options, struct word title)
{
    char sentence[512];
    struct section *section;
    struct err err = {0};
    const int rc = section_add(&options->sections, options->at.file, options->at.line, title, &err);

    if (rc == -ENOMEM) {
        options->no_memory = true;
        return;
    }
    section = &options->sections.items[options->sections.n - 1];
    options->complaints += section->refused;
    if (section->refused)
        section_refuse(section, options->at.line, &err);
    if (section->kind != SECTION_UNKNOWN)
        return;
    snprintf(sentence, sizeof sentence,
             "no such section [%s]: there are [pmcfs], [pmc NAME] and [instance NAME]",
             text_shown(section->title));
    complain(options, options->at.file, sentence);
}

static char *conf_line(char *text, int size, void *arg)
{
    struct conf_stream *stream = arg;
    struct options *options = stream->options;
    char sentence[128], *start, *end;
    ssize_t len;

    errno = 0;
    len = getline(&stream->line, &stream->size, stream->file);
    if (len < 0) { /* without memory, ferror(3) does not report it */
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
        conf_header(options, (struct word){start + 1, (size_t)(end - start - 1)});
        snprintf(text, (size_t)size, "[%zu]\n", options->sections.n - 1);
    } else if (len >= size) {
        snprintf(sentence, sizeof sentence,
                 "a line cannot be longer than %d bytes: write the key again, or continue it on "
                 "the next line after a blank",
                 size - 2);
        complain(options, options->at.file, sentence);
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
        if (key_set(options, options->at.file, word_of(name), word_of(value)))
            return 1;
        snprintf(sentence, sizeof sentence, "no key \"%s\"%s", name,
                 unknown_near(&near, word_of(name)));
        complain(options, options->at.file, sentence);
    } else if (section->kind != SECTION_UNKNOWN) {
        const int rc = section_key(section, word_of(name), word_of(value), &err);

        options->no_memory |= rc == -ENOMEM;
        options->complaints += rc < 0;
        if (rc < 0)
            section_refuse(section, options->at.line, &err);
    }
    return 1;
}

/* Reads the file. inih returns the first malformed line at the end. Returns false on a read error.
 */
static bool conf_parse(struct options *options, FILE *file)
{
    struct conf_stream stream = {options, file, NULL, 0};
    int wrong;

    options->at.line = 0;
    wrong = ini_parse_stream(conf_line, &stream, conf_key, options);
    free(stream.line);
    options->at.line = wrong > 0 ? (unsigned)wrong : 0;
    if (wrong > 0)
        complain(options, options->at.file,
                 "neither a setting nor a section: write key = value, or [pmc NAME]");
    options->at.line = 0;
    return wrong >= 0 && !ferror(file);
}

/* Reads the file of this path, which becomes the options'. Returns 0, or after a message an exit
 * status. */
static int conf_file_read(struct options *options, char *path, bool must_exist)
{
    const char *why;
    FILE *file;
    bool done;

    if (!path || vec_push(&options->files, path)) {
        free(path);
        options->no_memory = true;
        return 0;
    }
    options->at.file = path;
    errno = 0;
    file = conf_open(path, &why);
    if (!file && errno == ENOENT && !must_exist)
        return 0;
    done = file && conf_parse(options, file);
    if (!done)
        message_log(LOG_ERR, "cannot read the configuration \"%s\": %s", path,
                    file ? strerror(EIO) : why);
    if (file)
        fclose(file);
    return done ? 0 : EXIT_LOGGED;
}

static int is_conf(const struct dirent *entry)
{
    const char *end = strrchr(entry->d_name, '.');

    return entry->d_name[0] != '.' && end && strcmp(end, ".conf") == 0;
}

static void conf_forget(struct options *options)
{
    sections_clear(&options->sections);
    while (options->files.n)
        free(options->files.items[--options->files.n]);
    free(options->files.items);
    options->files.items = NULL;
    options->files.cap = 0;
}

/* Reads the file, and the files *.conf of the directory FILE.d in the order of their names. */
static int conf_read(struct options *options)
{
    struct dirent **entries = NULL;
    char *directory = NULL, *path;
    int rc, n;

    conf_forget(options);
    if (!options->conf)
        return 0;
    rc = conf_file_read(options, strdup(options->conf), options->conf_given);
    if (rc || asprintf(&directory, "%s.d", options->conf) < 0)
        return rc ? rc : conf_file_read(options, NULL, false);
    n = scandir(directory, &entries, is_conf, alphasort);
    if (n < 0 && errno != ENOENT && errno != ENOTDIR) {
        message_log(LOG_ERR, "cannot read the configuration \"%s\": %s", directory,
                    strerror(errno));
        rc = EXIT_LOGGED;
    }
    for (int i = 0; i < n; i++) {
        if (rc == 0 && asprintf(&path, "%s/%s", directory, entries[i]->d_name) < 0)
            path = NULL;
        rc = rc ? rc : conf_file_read(options, path, true);
        free(entries[i]);
    }
    free(entries);
    free(directory);
    return rc;
}

/* ---- -o ---- */

/* Takes a SELinux option. The kernel, too, needs quotes around a value with a comma. */
static bool label_word(struct options *options, struct word key, struct word value)
{
    const char *quote = memchr(value.p, ',', value.len) && value.p[0] != '"' ? "\"" : "";

    for (size_t i = 0; i < sizeof mount_labels / sizeof mount_labels[0]; i++)
        if (value.len && word_is(key, mount_labels[i])) {
            buf_printf(&options->labels, ",%s=%s%.*s%s", mount_labels[i], quote, (int)value.len,
                       value.p, quote);
            return true;
        }
    return false;
}

static bool mount_word(struct options *options, struct word key, struct word value)
{
    if (label_word(options, key, value))
        return true;
    if (word_is(key, "fsname"))
        return options_replace(options, &options->source, value.p, value.len);
    if (word_is(key, "single"))
        return options->single = true;
    if (key.len >= 2 && (strncmp(key.p, "x-", 2) == 0 || strncmp(key.p, "X-", 2) == 0))
        return true;
    for (size_t i = 0; i < sizeof mount_words / sizeof mount_words[0]; i++)
        if (word_is(key, mount_words[i].name)) {
            options->mount_flags &= ~mount_words[i].clear;
            options->mount_flags |= mount_words[i].set;
            return true;
        }
    for (size_t i = 0; i < sizeof mount_idle / sizeof mount_idle[0]; i++)
        if (word_is(key, mount_idle[i]))
            return true;
    return false;
}

static int word_apply(struct options *options, const char *text)
{
    struct word word = {text, strlen(text)}, key = word, value = {"", 0};
    struct near near;

    if (strcmp(text, "remount") == 0) {
        message_log(LOG_ERR,
                    "a mount of pmcfs cannot be remounted: unmount it and mount it again, or write "
                    "to its admin/tunables");
        return EXIT_LOGGED;
    }
    word_split(word, &key, &value);
    if (mount_word(options, key, value) || key_set(options, "-o", key, value))
        return 0;
    message_log(LOG_ERR, "-o %s: unknown option%s", text, unknown_near(&near, key));
    return EXIT_USAGE;
}

/* Copies one word, up to a comma that is neither written "\," nor within ="…". Returns its end. */
static const char *word_take(const char *text, struct buf *word)
{
    bool quoted = false;

    buf_clear(word);
    for (; *text && (quoted || *text != ','); text++) {
        if (*text == '"')
            quoted = !quoted && word->len && word->data[word->len - 1] == '=';
        if (text[0] == '\\' && text[1])
            text++;
        buf_char(word, *text);
    }
    return *text ? text + 1 : text;
}

static int words_apply(struct options *options)
{
    const char *text = buf_text(&options->words);
    struct buf word;
    int rc = 0;

    buf_init(&word, NULL, 0);
    while (*text && rc == 0 && !options->no_memory) {
        text = word_take(text, &word);
        options->no_memory |= word.failed;
        rc = word.failed ? 0 : word_apply(options, buf_text(&word));
    }
    buf_free(&word);
    return rc;
}

/* ---- the command line ---- */

static const struct option long_options[] = {
    {"foreground", no_argument, NULL, 'f'},
    {"options", required_argument, NULL, 'o'},
    {"config", required_argument, NULL, 'c'},
    {"check", no_argument, NULL, 'C'},
    {"print-tables", required_argument, NULL, 'T'},
    {"upgrade", no_argument, NULL, 'U'},
    {"resume", required_argument, NULL, 'R'}, /* internal: used by the supervisor in an upgrade */
    {"version", no_argument, NULL, 'V'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static int usage(const char *sentence, const char *word)
{
    message_log(LOG_ERR, "%s%s (see pmcfs --help)", sentence, word);
    return EXIT_USAGE;
}

static int flag_read(struct options *options, int c, int argc, char **argv)
{
    switch (c) {
    case 'f':
        options->foreground = true;
        return 0;
    case 'o':
        buf_printf(&options->words, "%s%s", options->words.len ? "," : "", optarg);
        return 0;
    case 'c':
        options->conf_given = options_replace(options, &options->conf, optarg, strlen(optarg));
        return 0;
    case 'C':
        options->check = true;
        return 0;
    case 'T':
        options->print_tables = optarg;
        return 0;
    case 'U':
        options->upgrade = true;
        return 0;
    case 'R':
        options->resume = atoi(optarg);
        options->resume_words = optarg;
        return 0;
    case 'V':
        options->version = true;
        return 0;
    case 'h':
        options->help = true;
        return 0;
    case 's':
    case 'v':
    case 'n':
        return 0; /* flags of mount(8): sloppy, verbose, no mtab */
    case ':':
        return usage("a value is missing after ", argv[optind - 1]);
    default:
        return usage("no such option: ", optind <= argc ? argv[optind - 1] : "");
    }
}

/* Reads [SOURCE] MOUNTPOINT and makes the mountpoint absolute, because the daemon changes to /. */
static int places_read(struct options *options, int n, char **places)
{
    bool wanted = !options->check && !options->help && !options->version && !options->print_tables;

    if (n > (options->upgrade ? 1 : 2))
        return usage("unexpected argument: ", places[n - 1]);
    if (options->upgrade && options->words.len)
        return usage("--upgrade keeps the options of the mount: remove -o ",
                     buf_text(&options->words));
    if (n == 0)
        return wanted ? usage("give a mount point, such as /pmc", "") : 0;
    options_replace(options, &options->source, n == 2 ? places[0] : "pmcfs",
                    n == 2 ? strlen(places[0]) : 5);
    if (strncmp(places[n - 1], "/dev/fd/", 8) == 0 || options->resume)
        options->mountpoint = strdup(places[n - 1]);
    else
        options->mountpoint = realpath(places[n - 1], NULL);
    if (!options->mountpoint && errno == ENOTCONN) /* left by a dead daemon; unmounted later */
        options->mountpoint = places[n - 1][0] == '/' ? strdup(places[n - 1]) : NULL;
    if (options->mountpoint || !wanted)
        return 0;
    message_log(LOG_ERR, "cannot %s \"%s\": %s", options->upgrade ? "upgrade" : "mount on",
                places[n - 1], strerror(errno));
    return EXIT_LOGGED;
}

/* ---- all options ---- */

/* Makes the path absolute, because the daemon changes to /. Symbolic links are not resolved, so
 * that SIGHUP follows a changed link. */
static void conf_resolve(struct options *options)
{
    char *here, *path = NULL;

    if (!options->conf && !options->conf_given)
        options_replace(options, &options->conf, CONF_DEFAULT, strlen(CONF_DEFAULT));
    if (!options->conf || options->conf[0] == '/')
        return;
    here = getcwd(NULL, 0);
    if (here && asprintf(&path, "%s/%s", here, options->conf) > 0) {
        free(options->conf);
        options->conf = path;
    } else {
        options->no_memory |= errno == ENOMEM;
    }
    free(here);
}

static void tunables_finish(struct options *options)
{
    struct err err = {0};

    if (tunables_settle(&options->tunables, &err) == 0)
        return;
    options->at.line = options->log_at.line; /* the later one of logbuffersize and nbuffers */
    complain(options, options->log_at.where, err.text);
    options->at.line = 0;
}

/* Reads file and -o. Fails on ENOMEM instead of using a part: it could give access to others. */
static int settings_read(struct options *options)
{
    int rc = conf_read(options);

    rc = rc ? rc : words_apply(options);
    if (rc || (!options->no_memory && !options->words.failed && !options->backend_words.failed &&
               !options->labels.failed))
        return rc;
    message_log(LOG_ERR, "no memory for the options and the configuration");
    return EXIT_LOGGED;
}

int options_read(struct options *options, const struct host *host, int argc, char **argv)
{
    int c, rc = 0;

    *options = (struct options){0};
    buf_init(&options->words, NULL, 0);
    buf_init(&options->backend_words, NULL, 0);
    buf_init(&options->labels, NULL, 0);
    tunables_init(&options->tunables);
    tunable_limit(&options->tunables, TUNABLE_CALLCHAINDEPTH, host->callchain_max());
    tunable_limit(&options->tunables, TUNABLE_MAX_LOG_PER_USER, host->memory_max() / 4);
    opterr = 0;
    while (rc == 0 && (c = getopt_long(argc, argv, ":fo:c:hVsvn", long_options, NULL)) != -1)
        rc = flag_read(options, c, argc, argv); /* keeps the words of -o for later */
    if (rc == 0)
        rc = places_read(options, argc - optind, argv + optind);
    if (rc != 0 || options->help || options->version || options->print_tables || options->upgrade)
        return rc;
    conf_resolve(options);
    rc = settings_read(options);
    if (rc == 0)
        tunables_finish(options);
    return rc == 0 && options->no_backend ? EXIT_USAGE : rc;
}

bool options_reread(struct options *options, struct tunables *tunables)
{
    struct tunables before = options->tunables;
    bool done;

    tunables_init(&options->tunables);
    for (int i = 0; i < TUNABLE_COUNT; i++)
        tunable_limit(&options->tunables, (enum tunable)i, before.value[i].max);
    buf_clear(&options->backend_words);
    buf_clear(&options->labels);
    options->no_memory = false;
    done = settings_read(options) == 0;
    if (done)
        tunables_finish(options);
    else
        options->tunables = before;
    *tunables = options->tunables;
    return done;
}

void options_free(struct options *options)
{
    conf_forget(options);
    buf_free(&options->words);
    buf_free(&options->backend_words);
    buf_free(&options->labels);
    free(options->conf);
    free(options->source);
    free(options->mountpoint);
    free(options->backend);
}
