/*
 * What is known while a record is read, part by part, and the kinds of records.
 */
#pragma once

#include "core/engine.h"
#include "core/journal/fields.h"

#define LOAD_LINKS_MAX (1u << 20)

struct loading {
    struct engine *engine;
    uint64_t id;             /* of the record, and of its object */
    const struct part *part; /* the present one; NULL: not known here, it is passed over */
    void *object;            /* of that */
    bool begun;

    struct named { /* what an instance or a PMC is made with */
        uint64_t instance;
        char *name;
        uint32_t uid, payer;
        uint64_t owner; /* the process, 0: none */
    } named;
    struct instance *instance;
    struct pmc *pmc;
    bool sealed;  /* its events are complete; of the engine: it was read */
    uint64_t log; /* its block, 0: none */
    struct link *link;
    struct proc *proc;
    struct last_error error;

    struct open_file *open;
    struct rights *rights;
    struct place {          /* of a reader */
        uint64_t log;       /* a block, 0: it has none yet */
        struct log_mark mark;
    } place;
    struct sampled {
        bool first; /* of a set */
        struct log_event event;
    } sampled[SET_MAX];
    unsigned n_sampled;
    struct log_sets *sets; /* of those before */
};

struct kind {
    const struct part *const *parts; /* the first one stands first; NULL at the end */
    void (*print)(struct engine *engine, uint64_t id, struct buf *out); /* nothing: it is gone */
    bool (*done)(struct loading *load, bool fine); /* behind the last part; or NULL */
};
extern const struct kind kind_engine, kind_process, kind_instance, kind_rights, kind_pmc,
    kind_error;

/* Every part of a text, and the end. False: it does not fit. */
bool load_text(struct loading *load, const struct kind *kind, const char *text, size_t len);

/* An object's serial: what is made from now on gets a later one. 0 and 1 are the root's; a node's
 * number has room for 52 bits. False: it is none. */
static inline bool load_serial(struct engine *engine, uint64_t id)
{
    if (id <= 1 || id >= UINT64_C(1) << 52)
        return false;
    if (engine->next_serial <= id)
        engine->next_serial = id + 1;
    return true;
}
/* The log of this block: the same one for all that have it; a reference. NULL: it is none, any more.
 * False: no memory. */
bool load_log(struct engine *engine, uint64_t block, struct log **out);

/* The text of an object's record; nothing when it is not there any more. */
void object_print(struct engine *engine, enum journal_kind kind, uint64_t id, struct buf *out);

/* ---- parts.c files: what is printed and read in several ---- */

extern const struct part part_event, part_sampled, part_claim, part_link, part_counter;
void sampled_print(struct engine *engine, const struct log_sets *sets, struct buf *out);
/* A reference to what was read of those; NULL: nothing. False: no memory. */
bool load_sets_end(struct loading *load, struct log_sets **sets);
bool claim_take(struct loading *load, bool fine); /* the PMC's holds its rows; or it has none */
bool tally_io(struct io *io, struct tally *tally, unsigned n);
void link_put(struct engine *engine, struct link *link, struct buf *out);
bool rights_id_io(struct io *io, struct rights **rights); /* by the id of their record */
