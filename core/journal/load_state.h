/*
 * Between load.c, which takes the records, and load_pmc.c and load_file.c, which read the lines of
 * some.
 */
#pragma once

#include "core/base/scan.h"
#include "core/journal/fields.h"
#include "core/journal/state.h"
#include "core/pmc/pmc.h"

struct loading {
    struct engine *engine;
    uint64_t id;      /* of the record */
    struct scan line; /* the present line, behind its name */

    struct pmc *pmc;          /* of a record of one */
    struct pmc_rest expected; /* of it */
    unsigned events, links, members;

    struct proc *proc;      /* of a record of one */
    struct open_file *open; /* of a record of one */

    struct log_sets *sets; /* that were read so far; owned */
    uint64_t set;          /* the number of the last one, and its events */
    struct log_event sampled[SET_MAX];
    unsigned n_sampled;
};

/* A line of this name; those that are not in the table are passed over. */
struct load_line {
    const char *name;
    bool (*load)(struct loading *load);
};
/* Every line of a text. False: one does not fit, which load->line is of. */
bool load_lines(struct loading *load, const struct load_line *lines, const char *text, size_t len);

/* 0 and 1 are the root's; a node's number has room for 52 bits. */
bool load_id_sound(uint64_t id);
bool load_class(const struct loading *load, unsigned *class_index);
/* The rest of a line, NUL-terminated until the next one is read. */
const char *load_rest(const struct loading *load);

bool load_sampled(struct loading *load); /* a line of what ids in a log mean */
/* A reference to what was read of those; NULL: nothing. False: no memory. */
bool load_sets_end(struct loading *load, struct log_sets **sets);

/* The log of this block: the same one for all that have it. NULL: it is none, or no memory. A
 * reference; the charge is the caller's to set. *fresh: nobody had it before. */
struct log *load_log(struct engine *engine, uint64_t block, bool *fresh);

bool load_pmc(struct loading *load, const char *text, size_t len);
