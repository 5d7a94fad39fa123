/*
 * samples.folded: counted stacks of the samples in a log, as lines "comm;frame;frame N", root
 * first. N is the number of samples, or the sum in ns of the weights of samples that have one. A
 * frame is [path+0xoffset] in a file, [PID:0xaddress] in code without a file, or
 * [kernel+0xaddress]. Readers convert frames to function names with a tool (pmc-names).
 */
#pragma once

#include "core/log/log.h"
#include "core/log/record.h"
#include "core/log/tasks.h"

/*
 * Prints the samples that are in the log now as sorted lines. A last line "[too-many-stacks] N"
 * counts samples beyond the memory limits, so that without weights the counts add up to all
 * samples. Slow: call it without the engine's lock. charge(arg, bytes) is called for each MiB of
 * memory in use, and returns false if a quota refuses it; the caller returns the charges. Returns
 * 0, -ENOMEM, or -EDQUOT after a refusal.
 */
int folded_text(struct log *log, struct buf *out, bool (*charge)(void *arg, uint64_t bytes),
                void *arg);

/* Prints "comm;frame;frame" for a sample. spaces: mappings and names at its time. */
void folded_line(struct buf *out, const struct tasks *spaces, const struct record_sample *sample);
