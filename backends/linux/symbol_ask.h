/*
 * The daemon's end of a helper: started, asked, listened to for so long, ended.
 */
#pragma once

#include "backends/linux/linux.h"
#include "backends/linux/symbol.h"

/* Helpers that did not end when they were killed (a file system kept them). */
struct symbol_leftovers;
struct symbol_leftovers *symbol_leftovers_new(void); /* NULL: no memory */
void symbol_leftovers_free(struct symbol_leftovers *leftovers);

struct symbol_job {
    const struct frame_asker *asker; /* how long he waits is given with each ask */
    struct symbol_request size;
    const struct symbol_module *modules;
    const int *fds;
    const struct symbol_query *queries;
    char **names;     /* answered: on the heap, NULL for none */
    uint32_t n_heard; /* of the queries, in order: answered */
    uint32_t blamed;  /* the module over which it ended or hung, or SYMBOL_NONE */
};

/* 0: all is answered. -EIO: the helper ended or hung, see n_heard and blamed. Else -errno: there
 * was no helper. */
int symbol_ask(struct host_state *state, struct symbol_job *job, uint64_t deadline_ns);
