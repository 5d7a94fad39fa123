/*
 * Makes exact system calls that a shell cannot make. Prints "ok" with exit status 0, or the name of
 * the errno with exit status 1.
 *
 *   io write FILE TEXT…    open for writing, one write(2) for each TEXT (escapes: \n \t \0 \\)
 *   io fd N TEXT…          the same on an inherited descriptor
 *   io open FILE MODE      r, w, rw, append
 *   io fill FILE BYTES C   one write of BYTES times the character C
 *   io rename FROM TO      rename(2), without the checks of mv(1)
 *   io read FILE [nonblock]  reads to its end or an error
 *   io --upgrade PID       requests an upgrade of the supervisor PID to this program, whose --check
 *                          obeys the variable IO_CHECK: "hang", "noise", or an exit status
 *   io flood FILE N        N threads open, read and close it continuously. Prints "fast" when they
 *                          run; after a line of input "ok", unless an open or read failed or a
 *                          text did not end with a newline
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int outcome(long rc)
{
    int code = errno;

    puts(rc >= 0 ? "ok" : strerrorname_np(code));
    return rc >= 0 ? 0 : 1;
}

/* Replaces escapes in place. Returns the length, because the text may contain NULs. */
static size_t unescape(char *text)
{
    char *to = text;

    for (const char *from = text; *from; from++) {
        if (*from != '\\' || !from[1]) {
            *to++ = *from;
            continue;
        }
        from++;
        *to++ = (char)(*from == 'n' ? '\n' : *from == 't' ? '\t' : *from == '0' ? '\0' : *from);
    }
    return (size_t)(to - text);
}

static int write_texts(int fd, char **texts)
{
    for (; *texts; texts++) {
        size_t len = unescape(*texts);
        ssize_t n = write(fd, *texts, len);

        if (n < 0)
            return outcome(-1);
        if ((size_t)n != len) {
            printf("short write: %zd of %zu\n", n, len);
            return 1;
        }
    }
    return outcome(0);
}

static int write_fill(int fd, size_t bytes, int c)
{
    char *text = malloc(bytes + 1);
    ssize_t n;

    if (!text)
        return 2;
    memset(text, c, bytes);
    n = write(fd, text, bytes);
    free(text);
    return outcome(n);
}

static int read_all(const char *file, int flags)
{
    char text[65536];
    int fd = open(file, O_RDONLY | O_CLOEXEC | flags);
    ssize_t n = fd < 0 ? -1 : 1;

    while (n > 0)
        n = read(fd, text, sizeof(text));
    return outcome(n);
}

static atomic_bool short_read;

static void *flood_run(void *file)
{
    char text[65536];
    int fd;

    while ((fd = open(file, O_RDONLY | O_CLOEXEC)) >= 0) {
        ssize_t n = read(fd, text, sizeof(text));

        if (n <= 0 || text[n - 1] != '\n')
            short_read = true;
        close(fd);
    }
    short_read = true;
    return NULL;
}

static int flood(char *file, unsigned long n)
{
    pthread_attr_t attr;
    pthread_t thread;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 256 << 10);
    while (n-- > 0)
        if (pthread_create(&thread, &attr, flood_run, file) != 0)
            return 2;
    puts("fast");
    fflush(stdout);
    getchar();
    if (!short_read)
        puts("ok");
    fflush(stdout);
    _exit(short_read);
}

static int open_mode(const char *file, const char *mode)
{
    static const struct {
        const char *word;
        int flags;
    } modes[] = {
        {"r", O_RDONLY},
        {"w", O_WRONLY},
        {"rw", O_RDWR},
        {"append", O_WRONLY | O_APPEND},
    };

    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
        if (strcmp(mode, modes[i].word) == 0)
            return outcome(open(file, modes[i].flags | O_CLOEXEC));
    return 2;
}

static int upgrade(pid_t supervisor)
{
    if (kill(supervisor, SIGUSR1) == 0)
        pause();
    return 1;
}

static int upgrade_check(const char *how)
{
    if (strcmp(how, "hang") == 0)
        pause();
    while (strcmp(how, "noise") == 0)
        for (int c = 1; c < 256; c++) /* until the limit of file sizes that the upgrade sets */
            if (c != '\n')
                fputc(c, stderr);
    return atoi(how);
}

int main(int argc, char **argv)
{
    int fd;

    if (argc >= 3 && strcmp(argv[1], "--upgrade") == 0)
        return upgrade(atoi(argv[2]));
    if (argc >= 3 && strcmp(argv[1], "--check") == 0 && getenv("IO_CHECK"))
        return upgrade_check(getenv("IO_CHECK"));
    if (argc >= 3 && strcmp(argv[1], "read") == 0)
        return read_all(argv[2], argc > 3 ? O_NONBLOCK : 0);
    if (argc < 4)
        return 2;
    if (strcmp(argv[1], "fd") == 0)
        return write_texts(atoi(argv[2]), argv + 3);
    if (strcmp(argv[1], "open") == 0)
        return open_mode(argv[2], argv[3]);
    if (strcmp(argv[1], "rename") == 0)
        return outcome(rename(argv[2], argv[3]));
    if (strcmp(argv[1], "flood") == 0)
        return flood(argv[2], strtoul(argv[3], NULL, 10));
    fd = open(argv[2], O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return outcome(-1);
    if (strcmp(argv[1], "write") == 0)
        return write_texts(fd, argv + 3);
    if (strcmp(argv[1], "fill") == 0 && argc == 5)
        return write_fill(fd, strtoul(argv[3], NULL, 10), argv[4][0]);
    return 2;
}
