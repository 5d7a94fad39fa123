/*
 * All options: command line, inih and -o. A bad value never prevents the mount: a message, and the
 * default.
 */
#include "fs/program/options.h"

#include "fs/program/command_line.h"
#include "fs/program/conf.h"
#include "fs/requests/readers.h"
#include "fs/requests/say.h"

#include <errno.h>
#include <ini.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <syslog.h>
#include <unistd.h>

/*
 * mount(8)'s own options: flags for mount(2) to be set and to be cleared. Those always set cannot
 * be taken back.
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

/* Those that change nothing here. */
static const char *const mount_idle[] = {
    "_netdev",    "allow_other",   "async",      "auto",       "comment", "default_permissions",
    "defaults",   "dev",           "dirsync",    "exec",       "group",   "iversion",
    "lazytime",   "loud",          "mand",       "noauto",     "nodev",   "noexec",
    "nofail",     "nogroup",       "noiversion", "nolazytime", "nomand",  "noowner",
    "norelatime", "nostrictatime", "nosuid",     "nouser",     "nousers", "owner",
    "silent",     "subtype",       "suid",       "sync",       "user",    "users",
};

/* Those that the kernel's SELinux takes, with a value. */
static const char *const mount_labels[] = {"context", "fscontext", "defcontext", "rootcontext"};

/* ---- one key, wherever it stands ---- */

static void complain(struct options *options, const char *where, const char *sentence)
{
    /* --check uses nothing, and does not say what a mount would use instead. */
    const char *instead = options->check ? strstr(sentence, "; using ") : NULL;
    int len = (int)(instead ? (size_t)(instead - sentence) : strlen(sentence));

    options->complaints++;
    if (options->at.line > 0)
        say(LOG_WARNING, "%s:%u: %.*s", where, options->at.line, len, sentence);
    else
        say(LOG_WARNING, "%s: %.*s", where, len, sentence);
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

/* A group that does not exist is none. A program that takes over was tried, and has no time. */
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

/* Unlike a tunable's, a bad value has no default to stand in: it would count something else. */
static void backend_set(struct options *options, const char *where, struct word value)
{
    struct err err = {0};

    if (word_is(value, "perf") || word_is(value, "sim")) {
        options_replace(options, &options->backend, value.p, value.len);
        return;
    }
    err_set(&err, P27, "there is no backend \"" WORD_FMT "\": there are perf and sim",
            WORD_ARG(value));
    complain(options, where, err.text);
    options->no_backend = true;
}

/* backend=…, sim_…=…, a tunable. False: no such key. */
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

/* inih does not say where it is. */
struct conf_stream {
    struct options *options;
    FILE *file;
};

static char *conf_line(char *text, int size, void *arg)
{
    struct conf_stream *stream = arg;

    stream->options->at.line++;
    return fgets(text, size, stream->file);
}

static int conf_key(void *user, const char *section, const char *name, const char *value)
{
    struct options *options = user;
    struct word key = {name, strlen(name)};
    struct near near;
    char sentence[512];

    if (section[0] != '\0' && strcmp(section, "pmcfs") != 0) {
        if (strncmp(section, options->at.section, sizeof options->at.section - 1) == 0)
            return 1; /* one complaint for all its keys */
        snprintf(options->at.section, sizeof options->at.section, "%s", section);
        snprintf(sentence, sizeof sentence, "no such section [%s]: there is [pmcfs] only", section);
        complain(options, options->conf, sentence);
    } else if (!key_set(options, options->conf, key, (struct word){value, strlen(value)})) {
        snprintf(sentence, sizeof sentence, "no such key \"%s\"%s", name, unknown_near(&near, key));
        complain(options, options->conf, sentence);
    }
    return 1;
}

/* Of lines that are nothing, inih tells the first at the end. False: not all could be read. */
static bool conf_parse(struct options *options, FILE *file)
{
    struct conf_stream stream = {options, file};

    memset(&options->at, 0, sizeof options->at);
    const int wrong = ini_parse_stream(conf_line, &stream, conf_key, options);
    options->at.line = wrong > 0 ? (unsigned)wrong : 0;
    if (wrong > 0)
        complain(options, options->conf, "neither \"key = value\" nor a [section]");
    options->at.line = 0;
    return wrong >= 0 && !ferror(file);
}

static int conf_read(struct options *options)
{
    const char *why;
    FILE *file;
    bool done;

    if (!options->conf)
        return 0;
    errno = 0;
    file = conf_open(options->conf, &why);
    if (!file && errno == ENOENT && !options->conf_given)
        return 0;
    done = file && conf_parse(options, file);
    if (!done)
        say(LOG_ERR, "cannot read the configuration \"%s\": %s", options->conf,
            file ? strerror(EIO) : why);
    if (file)
        fclose(file);
    return done ? 0 : EXIT_FAILURE_SAID;
}

/* ---- -o ---- */

/* A value with a comma is between quotes for the kernel, too. */
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
        say(LOG_ERR,
            "a mount of pmcfs cannot be remounted: unmount it and mount it again, or write "
            "to its admin/tunables");
        return EXIT_FAILURE_SAID;
    }
    word_split(word, &key, &value);
    if (mount_word(options, key, value) || key_set(options, "-o", key, value))
        return 0;
    say(LOG_ERR, "-o %s: no such option%s", text, unknown_near(&near, key));
    return EXIT_USAGE;
}

/* One word, up to a comma that stands neither as "\," nor in ="…": gives its end. */
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

/* ---- all together ---- */

/* Absolute, for the background; links stay: an administrator that sets them anew sends SIGHUP. */
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
    options->at.line = options->log_at.line; /* the one of the two that was read last */
    complain(options, options->log_at.where, err.text);
    options->at.line = 0;
}

/* All of it, or nothing: a part would count something else, or let others read. */
static int settings_read(struct options *options)
{
    int rc = conf_read(options);

    rc = rc ? rc : words_apply(options);
    if (rc || (!options->no_memory && !options->words.failed && !options->backend_words.failed &&
               !options->labels.failed))
        return rc;
    say(LOG_ERR, "no memory for the options and the configuration");
    return EXIT_FAILURE_SAID;
}

int options_read(struct options *options, const struct host *host, int argc, char **argv)
{
    int rc;

    *options = (struct options){0};
    buf_init(&options->words, NULL, 0);
    buf_init(&options->backend_words, NULL, 0);
    buf_init(&options->labels, NULL, 0);
    tunables_init(&options->tunables);
    tunable_limit(&options->tunables, TUNABLE_CALLCHAINDEPTH, host->callchain_max());
    tunable_limit(&options->tunables, TUNABLE_MAX_LOG_PER_USER, host->memory_max() / 4);
    rc = command_line_read(options, argc, argv);
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
    buf_free(&options->words);
    buf_free(&options->backend_words);
    buf_free(&options->labels);
    free(options->conf);
    free(options->source);
    free(options->mountpoint);
    free(options->backend);
}
