/*
 * The configuration file, opened.
 */
#pragma once

#include <stdio.h>

/* Never waits: what is no regular file is refused, be it a pipe, a device or a directory, and
 * what is too long to be one. NULL: *why says why, and errno, if the system does. */
FILE *conf_open(const char *path, const char **why);
