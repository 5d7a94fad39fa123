/*
 * Loading of records: the state while a record is read part by part, and the kinds of records.
 */
#pragma once

#include "core/engine.h"
#include "core/journal/fields.h"

#define LOAD_LINKS_MAX (1u << 20)

struct loading {
    struct engine *engine;
    uint64_t id;             /* id of the record and of its object */
    const struct part *part; /* current part; NULL: unknown, skipped */
    void *object;            /* of the current part */
    bool begun;

    struct named { /* arguments for creating an instance or a PMC */
        uint64_t instance;
        char *name;
        uint32_t uid, payer;
        uint64_t owner; /* process of lifetime=owner; 0: none */
    } named;
    struct instance *instance;
    struct pmc *pmc;
    bool sealed;  /* the events are complete; for the engine: it was read */
    uint64_t log; /* block of the log; 0: none */
    struct link *link;
    struct proc *proc;
    struct last_error error;

    struct open_file *open;
    struct rights *rights;
    struct place {    /* position of a reader */
        uint64_t log; /* block of the log; 0: none yet */
        struct log_mark mark;
    } place;
    struct sampled {
        bool first; /* first event of a set */
        struct log_event event;
    } sampled[SET_MAX];
    unsigned n_sampled;
    struct log_sets *sets; /* sets read before */
};

struct kind {
    const struct part *const *parts; /* in order; ends with NULL */
    void (*print)(struct engine *engine, uint64_t id,
                  struct buf *out);                /* prints nothing if the object is gone */
    bool (*done)(struct loading *load, bool fine); /* called after the last part, or NULL */
};
extern const struct kind kind_engine, kind_process, kind_instance, kind_rights, kind_pmc,
    kind_error;

/* Loads all parts of a text. Returns false if it is invalid. */
bool load_text(struct loading *load, const struct kind *kind, const char *text, size_t len);

/* Notes the serial of a loaded object, so that new objects get later ones. Returns false if it is
 * not valid: 0 and 1 belong to the root, and node ids hold 52 bits. */
static inline bool load_serial(struct engine *engine, uint64_t id)
{
    if (id <= 1 || id >= UINT64_C(1) << 52)
        return false;
    if (engine->next_serial <= id)
        engine->next_serial = id + 1;
    return true;
}
/* Takes a reference to the log of this block, which is shared by all its users. *out is NULL if the
 * block no longer has a log. Returns false on ENOMEM. */
bool load_log(struct engine *engine, uint64_t block, struct log **out);

/* Prints the text of an object's record, or nothing if the object is gone. */
void object_print(struct engine *engine, enum journal_kind kind, uint64_t id, struct buf *out);

/* ---- parts_*.c: parts that several kinds of records use ---- */

extern const struct part part_event, part_sampled, part_claim, part_link, part_counter;
void sampled_print(struct engine *engine, const struct log_sets *sets, struct buf *out);
/* Takes a reference to the sets that were read (NULL: none). Returns false on ENOMEM. */
bool load_sets_end(struct loading *load, struct log_sets **sets);
bool claim_take(struct loading *load,
                bool fine); /* books the rows of the PMC's claim; on failure it has none */
bool tally_io(struct io *io, struct tally *tally, unsigned n);
void link_put(struct engine *engine, struct link *link, struct buf *out);
bool rights_id_io(struct io *io,
                  struct rights **rights); /* rights are stored by the id of their record */
