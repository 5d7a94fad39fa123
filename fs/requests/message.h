/*
 * Messages to the administrator: stderr until the program is in the background, then syslog.
 */
#pragma once

#include <stddef.h>

/* Logs one line. priority: LOG_ERR, LOG_WARNING, LOG_NOTICE, LOG_INFO, LOG_DEBUG of <syslog.h>.
 * Keeps no descriptor open. */
void message_log(int priority, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Logs to syslog from now on. */
void messages_to_syslog(void);
/* Copies each later message of LOG_ERR or above to `to` as well, over the last one; NULL stops
 * that. Call while there is one thread. */
void messages_keep(char *to, size_t size);
/* Logs libfuse's messages as message_log() does, except debug messages. */
void messages_from_fuse(void);
