/*
 * The program's arguments.
 */
#pragma once

#include "fs/program/options.h"

/* 0, or the exit status after having said what is wrong. What -o says is not read, but kept. */
int command_line_read(struct options *options, int argc, char **argv);
