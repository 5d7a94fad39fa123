/*
 * samples.folded: the samples that a log holds as stacks, counted: "comm;frame;frame N", root
 * first. A frame is [path+0xoffset] in a file, [PID:0xaddress] in code without a file,
 * [kernel+0xaddress] in the kernel: names are made from that by the reader's own tool (pmc-names).
 */
#pragma once

#include "core/log/log.h"
#include "core/log/record.h"
#include "core/log/tasks.h"

/*
 * The text for the samples that the log holds now, in order of its lines. Samples for which memory
 * had no room stand in a last line "[too-many-stacks] N", so that all counts add up to the samples
 * held. Takes its time: without a seat. 0 or -ENOMEM.
 */
int folded_text(struct log *log, struct buf *out);

/* "comm;frame;frame" of one sample, with the mappings and names of its moment. */
void folded_line(struct buf *out, const struct tasks *spaces, const struct record_sample *sample);
