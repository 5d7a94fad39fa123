#include "fs/requests/message.h"

#include <fuse_log.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>

static atomic_bool in_background;

static char *kept;
static size_t kept_size;

void messages_keep(char *to, size_t size)
{
    kept = to;
    kept_size = size;
}

static void line_log(int priority, const char *text)
{
    if (kept && priority <= LOG_ERR)
        snprintf(kept, kept_size, "%s", text);
    if (!in_background) {
        fprintf(stderr, "pmcfs: %s\n", text);
        return;
    }
    openlog("pmcfs", LOG_PID, LOG_DAEMON);
    syslog(priority, "%s", text);
    closelog();
}

void message_log(int priority, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    line_log(priority, text);
}

void messages_to_syslog(void)
{
    in_background = true;
}

__attribute__((format(printf, 2, 0))) static void fuse_log_line(enum fuse_log_level level,
                                                                const char *format, va_list args)
{
    char text[1024];

    if (level >= FUSE_LOG_DEBUG)
        return;
    vsnprintf(text, sizeof text, format, args);
    size_t len = strlen(text);
    if (len > 0 && text[len - 1] == '\n')
        text[len - 1] = '\0';
    line_log((int)level, text);
}

void messages_from_fuse(void)
{
    fuse_set_log_func(fuse_log_line);
}
