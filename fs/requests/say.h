/*
 * Messages to the administrator: stderr until the program is in the background, then syslog.
 */
#pragma once

#include <stddef.h>

/* No descriptor is kept for the next time. priority: LOG_ERR, LOG_WARNING, LOG_NOTICE, LOG_INFO,
 * LOG_DEBUG of <syslog.h>. */
void say(int priority, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* From now on to syslog. */
void say_to_syslog(void);
/* Until it is called again the last error is there, too. NULL: nowhere. No thread is beside it. */
void say_keep(char *to, size_t size);
/* What libfuse has to say goes the same way. */
void say_for_fuse(void);
