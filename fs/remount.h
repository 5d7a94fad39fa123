/*
 * `mount -o remount,…`: what can be changed of a mount that another pmcfs serves.
 */
#pragma once

#include "fs/options.h"

/* The exit status, after having said what is wrong, if anything is. */
int remount(const struct options *options);
