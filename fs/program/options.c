/*
 * The program's options: the command line and -o; conf.c reads the configuration file. A bad value
 * of a tunable never prevents the mount: it is reported and the default is used.
 */
#include "fs/program/options.h"

#include "fs/requests/caller.h"
#include "fs/requests/message.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <syslog.h>
#include <unistd.h>

/*
 * Options of mount(8) and the flags of mount(2) that they set and clear. nosuid, nodev and noexec
 * are always set and cannot be cleared.
 */
#define ATIME (MS_NOATIME | MS_RELATIME | MS_STRICTATIME)
static const struct {
    const char *name;
    unsigned long set, clear;
} mount_flag_words[] = {
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
static const char *const mount_ignored[] = {
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

void option_complain(struct options *options, const char *where, const char *sentence)
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

const char *option_near(struct near *near, struct word key)
{
    *near = (struct near){.word = key};
    for (int i = 0; i < TUNABLE_COUNT; i++)
        near_offer(near, tunable_row((enum tunable)i)->name);
    near_offer(near, "backend");
    return near_text(near);
}

/* Replaces *to by a copy of the text. Sets no_memory on ENOMEM. Always returns true. */
static bool options_replace(struct options *options, char **to, const char *text, size_t len)
{
    free(*to);
    *to = strndup(text, len);
    options->no_memory |= !*to;
    return true;
}

bool option_apply(struct options *options, const char *where, struct word key, struct word value)
{
    char sentence[160];
    struct err err = {0};
    gid_t gid;

    if (word_is(key, "backend")) {
        if (word_is(value, "perf") || word_is(value, "sim"))
            return options_replace(options, &options->backend, value.p, value.len);
        err_set(&err, P27, "no backend \"" WORD_FMT "\": write perf or sim", WORD_ARG(value));
        option_complain(options, where, err.text);
        /* An error for a mount, too: another backend would count something else. */
        return options->is_unknown_backend = true;
    }
    if (key.len > 4 && strncmp(key.p, "sim_", 4) == 0) {
        buf_printf(&options->backend_options, "%s%.*s=%.*s",
                   options->backend_options.len ? " " : "", (int)key.len, key.p, (int)value.len,
                   value.p);
        return true;
    }
    int which = tunable_find(key);
    if (which < 0)
        return false;
    if (tunable_set(&options->tunables, (enum tunable)which, value, true, &err) < 0) {
        option_complain(options, where, err.text);
    } else if (which == TUNABLE_LOGBUFFERSIZE || which == TUNABLE_NBUFFERS) {
        options->log_at.where = where;
        options->log_at.line = options->at.line;
    } else if (which == TUNABLE_READERS && (!options->resume_fd || options->check) &&
               group_find(tunable_text(&options->tunables, TUNABLE_READERS), &gid) == -ENOENT) {
        /* Use no group if this one does not exist. In an upgrade --check has reported it. */
        snprintf(sentence, sizeof sentence, "readers: there is no group \"%s\"; using none",
                 tunable_text(&options->tunables, TUNABLE_READERS));
        option_complain(options, where, sentence);
        tunable_set(&options->tunables, TUNABLE_READERS, (struct word){"-", 1}, true, NULL);
    }
    return true;
}

/* ---- -o ---- */

static bool mount_word(struct options *options, struct word key, struct word value)
{
    /* The kernel also needs quotes around a value with a comma. */
    const char *quote = memchr(value.p, ',', value.len) && value.p[0] != '"' ? "\"" : "";

    for (size_t i = 0; i < sizeof mount_labels / sizeof mount_labels[0]; i++)
        if (value.len && word_is(key, mount_labels[i])) {
            buf_printf(&options->labels, ",%s=%s%.*s%s", mount_labels[i], quote, (int)value.len,
                       value.p, quote);
            return true;
        }
    if (word_is(key, "fsname"))
        return options_replace(options, &options->source, value.p, value.len);
    if (word_is(key, "single"))
        return options->single = true;
    if (key.len >= 2 && (strncmp(key.p, "x-", 2) == 0 || strncmp(key.p, "X-", 2) == 0))
        return true;
    for (size_t i = 0; i < sizeof mount_flag_words / sizeof mount_flag_words[0]; i++)
        if (word_is(key, mount_flag_words[i].name)) {
            options->mount_flags &= ~mount_flag_words[i].clear;
            options->mount_flags |= mount_flag_words[i].set;
            return true;
        }
    for (size_t i = 0; i < sizeof mount_ignored / sizeof mount_ignored[0]; i++)
        if (word_is(key, mount_ignored[i]))
            return true;
    return false;
}

/* Applies the words of -o, which end at a comma that is neither written "\," nor within ="…".
 * Returns 0, or after a message an exit status. ENOMEM only sets no_memory. */
static int mount_options_apply(struct options *options)
{
    const char *text = buf_text(&options->mount_options);
    struct near near;
    struct buf word = {0};
    int rc = 0;

    while (*text && rc == 0 && !options->no_memory) {
        bool quoted = false;

        buf_clear(&word);
        for (; *text && (quoted || *text != ','); text++) {
            if (*text == '"')
                quoted = !quoted && word.len && word.data[word.len - 1] == '=';
            if (text[0] == '\\' && text[1])
                text++;
            buf_char(&word, *text);
        }
        text += *text == ',';
        options->no_memory |= word.failed;
        if (word.failed)
            break;

        struct word key = word_of(buf_text(&word)), value = {"", 0};
        word_split(key, &key, &value);
        if (strcmp(buf_text(&word), "remount") == 0) {
            message_log(LOG_ERR,
                        "a mount of pmcfs cannot be remounted: unmount it and mount it again, or "
                        "write to its admin/tunables");
            rc = EXIT_LOGGED;
        } else if (!mount_word(options, key, value) && !option_apply(options, "-o", key, value)) {
            message_log(LOG_ERR, "-o %s: unknown option%s", buf_text(&word),
                        option_near(&near, key));
            rc = EXIT_USAGE;
        }
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
    options->foreground |= c == 'f';
    options->check |= c == 'C';
    options->upgrade |= c == 'U';
    options->version |= c == 'V';
    options->help |= c == 'h';
    switch (c) {
    case 'o':
        buf_printf(&options->mount_options, "%s%s", options->mount_options.len ? "," : "", optarg);
        return 0;
    case 'c':
        options->conf_given = options_replace(options, &options->conf, optarg, strlen(optarg));
        return 0;
    case 'T':
        options->print_tables = optarg;
        return 0;
    case 'R':
        options->resume_fd = atoi(optarg);
        options->resume_argument = optarg;
        return 0;
    case ':':
        return usage("a value is missing after ", argv[optind - 1]);
    case '?':
        return usage("no such option: ", optind <= argc ? argv[optind - 1] : "");
    default: /* also s, v and n of mount(8): sloppy, verbose, no mtab */
        return 0;
    }
}

/* Reads [SOURCE] MOUNTPOINT and makes the mountpoint absolute, because the daemon changes to /. */
static int places_read(struct options *options, int n, char **places)
{
    bool wanted = !options->check && !options->help && !options->version && !options->print_tables;

    if (n > (options->upgrade ? 1 : 2))
        return usage("unexpected argument: ", places[n - 1]);
    if (options->upgrade && options->mount_options.len)
        return usage("--upgrade keeps the options of the mount: remove -o ",
                     buf_text(&options->mount_options));
    if (n == 0)
        return wanted ? usage("give a mount point, such as /pmc", "") : 0;
    options_replace(options, &options->source, n == 2 ? places[0] : "pmcfs",
                    n == 2 ? strlen(places[0]) : 5);
    if (strncmp(places[n - 1], "/dev/fd/", 8) == 0 || options->resume_fd)
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

/* Reads the configuration, then -o. Returns 0, or after a message an exit status; also on ENOMEM,
 * because half of the settings could give access to others. */
static int settings_read(struct options *options)
{
    struct err err = {0};
    int rc = conf_read(options);

    rc = rc ? rc : mount_options_apply(options);
    if (rc)
        return rc;
    if (options->no_memory || options->mount_options.failed || options->backend_options.failed ||
        options->labels.failed) {
        message_log(LOG_ERR, "no memory for the options and the configuration");
        return EXIT_LOGGED;
    }
    if (tunables_limit_log_size(&options->tunables, &err) < 0) {
        options->at.line = options->log_at.line; /* the later one of logbuffersize and nbuffers */
        option_complain(options, options->log_at.where, err.text);
        options->at.line = 0;
    }
    return 0;
}

int options_read(struct options *options, const struct host *host, int argc, char **argv)
{
    char *here, *path = NULL;
    int c, rc = 0;

    *options = (struct options){0};
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
    if (!options->conf_given)
        options_replace(options, &options->conf, CONF_DEFAULT, strlen(CONF_DEFAULT));
    /* An absolute path, because the daemon changes to /. Symbolic links are not resolved, so that
     * SIGHUP follows a changed link. */
    if (options->conf && options->conf[0] != '/') {
        here = getcwd(NULL, 0);
        if (here && asprintf(&path, "%s/%s", here, options->conf) > 0) {
            free(options->conf);
            options->conf = path;
        } else {
            options->no_memory |= errno == ENOMEM;
        }
        free(here);
    }
    rc = settings_read(options);
    return rc == 0 && options->is_unknown_backend ? EXIT_USAGE : rc;
}

bool options_reread(struct options *options, struct tunables *tunables)
{
    struct tunables before = options->tunables;

    tunables_init(&options->tunables);
    for (int i = 0; i < TUNABLE_COUNT; i++)
        tunable_limit(&options->tunables, (enum tunable)i, before.value[i].max);
    buf_clear(&options->backend_options);
    buf_clear(&options->labels);
    options->no_memory = false;
    bool done = settings_read(options) == 0;
    if (!done)
        options->tunables = before;
    *tunables = options->tunables;
    return done;
}

void options_free(struct options *options)
{
    conf_free(options);
    buf_free(&options->mount_options);
    buf_free(&options->backend_options);
    buf_free(&options->labels);
    free(options->conf);
    free(options->source);
    free(options->mountpoint);
    free(options->backend);
}
