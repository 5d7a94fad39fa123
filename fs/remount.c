/*
 * mount(8) hands back all options of a mount, or of its line in fstab, and one more: "remount".
 * Flags of the mount are changed; settings of pmcfs must be what they are, since the daemon is
 * another.
 */
#include "fs/remount.h"

#include "fs/mount.h"
#include "fs/say.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <syslog.h>
#include <unistd.h>

enum {
    EXIT_FAILURE_SAID = 1,
    EXIT_USAGE = 2
};

/* The first line of a file of the mounted tree. */
static bool line_read(const struct options *options, const char *file, char *line, size_t size)
{
    char name[4096 + 64];
    ssize_t n;
    int fd;

    snprintf(name, sizeof name, "%s/%s", options->mountpoint, file);
    fd = open(name, O_RDONLY | O_CLOEXEC);
    n = fd >= 0 ? read(fd, line, size - 1) : -1;
    if (fd >= 0)
        close(fd);
    line[n > 0 ? n : 0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    return n >= 0;
}

/* A tunable's value as its file shows it: "700" is "0700". */
static bool tunable_same(const struct options *options, enum tunable which, struct word value,
                         const char *now)
{
    struct tunables tunables = options->tunables;
    struct buf text;
    char room[160];
    bool same;

    if (tunable_set(&tunables, which, value, true, NULL) < 0)
        return false;
    buf_init(&text, room, sizeof room);
    tunable_print(&tunables, which, &text);
    same = strcmp(buf_text(&text), now) == 0;
    buf_free(&text);
    return same;
}

/* -o KEY=VALUE that is none of mount(8)'s. */
static int own_check(const struct options *options, const char *text)
{
    struct word word = {text, strlen(text)}, key = word, value = {"", 0};
    char file[64] = "info/backend", now[160];
    bool same;
    int which;

    word_split(word, &key, &value);
    which = tunable_find(key);
    if (which >= 0)
        snprintf(file, sizeof file, "admin/tunables/%s", tunable_row((enum tunable)which)->name);
    else if (!word_is(key, "backend") && !(key.len > 4 && strncmp(key.p, "sim_", 4) == 0)) {
        say(LOG_ERR, "-o %s: no such option", text);
        return EXIT_USAGE;
    }
    if (!line_read(options, file, now, sizeof now)) {
        say(LOG_ERR, "cannot remount \"%s\": cannot read its %s: %s", options->mountpoint, file,
            strerror(errno));
        return EXIT_FAILURE_SAID;
    }
    same = which >= 0 ? tunable_same(options, (enum tunable)which, value, now)
                      : word_is(key, "backend") && word_is(value, now);
    if (same)
        return 0;
    if (which >= 0 && !tunable_row((enum tunable)which)->at_start)
        say(LOG_ERR,
            "-o %s: a remount does not change pmcfs's own options (%.*s is \"%s\" now): write to "
            "%s/%s instead",
            text, (int)key.len, key.p, now, options->mountpoint, file);
    else
        say(LOG_ERR,
            "-o %s: a remount does not change pmcfs's own options, and this one is fixed at start: "
            "unmount \"%s\" and mount it again",
            text, options->mountpoint);
    return EXIT_FAILURE_SAID;
}

/* What is not said is the default, as for any file system. */
static unsigned long flags_of(const struct options *options)
{
    unsigned long flags = options->mount_flags;

    if (!(flags & (MS_NOATIME | MS_STRICTATIME)))
        flags |= MS_RELATIME;
    return MS_REMOUNT | MS_NOSUID | MS_NODEV | MS_NOEXEC | flags;
}

int remount(const struct options *options)
{
    const char *path = options->mountpoint;
    int rc = 0;

    if (!mount_is_pmcfs(path)) {
        say(LOG_ERR, "cannot remount \"%s\": no pmcfs is mounted there", path);
        return EXIT_FAILURE_SAID;
    }
    for (struct option_word *word = options->words; word && rc == 0; word = word->next)
        if (!word->of_mount)
            rc = own_check(options, word->text);
    if (rc != 0)
        return rc;
    if (mount(NULL, path, NULL, flags_of(options), NULL) == 0)
        return 0;
    say(LOG_ERR, "cannot remount \"%s\": %s", path,
        errno == EPERM ? "only the superuser can (CAP_SYS_ADMIN)" : strerror(errno));
    return EXIT_FAILURE_SAID;
}
