/*
 * samples.folded: the samples that a log holds as stacks, counted: "comm;frame;frame N", root
 * first. A frame is a symbol, else [module+0xoffset] ([vdso] and [unknown] are without an offset);
 * those of the kernel end in _[k], those of code that a program made itself in _[j].
 */
#pragma once

#include "core/host.h"
#include "core/log.h"
#include "core/log_sets.h"
#include "core/record.h"

/*
 * The text for what the log holds now, in order of its lines; what was too much for memory stands
 * in a last line "[too-many-stacks] N", so that all counts add up to the samples held. System calls
 * and waiting (names): in a work. files NULL: none were held; they must live as
 * long as this runs, and may be added to meanwhile. 0 or -ENOMEM.
 */
int folded_text(struct log *log, const struct host *host, struct host_state *host_state,
                struct log_files *files, const struct frame_asker *asker, struct buf *out);

/* Is what is mapped here no file that others see? Then code in it was made by the program. */
bool folded_map_is_jit(const struct record_map *map);
