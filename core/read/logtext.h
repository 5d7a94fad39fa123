/*
 * Parts of a line in `samples`, shared by logtext.c (samples) and logtext_notes.c (other records).
 */
#pragma once

#include "core/base/buf.h"
#include "core/log/record.h"

#define TEXT_MAX 32768 /* bytes shown of one text that a program or caller supplied */

/* A PID or TID; UINT32_MAX is the kernel, printed as -1. */
void put_pid(struct buf *out, uint32_t pid);
/* Text of a program or a caller as one escaped word. Longer text is cut after TEXT_MAX bytes, with
 * "…" at the end. */
void put_text(struct buf *out, const char *text, size_t len);
/* The events of a set, separated by blanks in text and printed with commas. "-" if there are none.
 */
void put_events(struct buf *out, const char *text, size_t len);
/* The line of a record that is not a sample; nothing for a type without a line (logtext_notes.c).
 */
void put_line(struct buf *out, const struct record *record);
