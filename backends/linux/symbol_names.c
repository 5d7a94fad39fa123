/*
 * From addresses to requests for the helper: which held file may know each, as few helpers as
 * possible, and another one without the file over which the last one ended or hung.
 */
#include "backends/linux/symbol_names.h"
#include "backends/linux/symbol_ask.h"
#include "core/folded.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS_MAX  8
#define QUERIES_MAX (1u << 20) /* as many as a helper takes */
#define SHORTEST_NS 20000000   /* it is not worth starting a helper for less */

struct wanted {
    struct frame_query *query;
    uint32_t file, process; /* what is held, or SYMBOL_NONE */
    bool done;
};

struct asking {
    struct log_files *files;
    const struct frame_asker *asker;
    struct wanted *wanted;
    size_t n;
    bool retried;        /* a helper had ended over no file */
    uint32_t *module_of; /* by what is held, +1; 0: not in this round */
    uint32_t n_held;
    /* one round */
    struct symbol_module *modules;
    uint32_t *held; /* of each module */
    int *fds;
    struct symbol_query *queries;
    size_t *place; /* of each query in `wanted` */
    char **names;
    uint32_t n_modules, n_queries;
};

static int map_compare(const void *a, const void *b)
{
    const struct wanted *p = a, *q = b;
    uintptr_t pm = (uintptr_t)p->query->map, qm = (uintptr_t)q->query->map;

    if (pm != qm)
        return pm < qm ? -1 : 1;
    return p->query->pid < q->query->pid ? -1 : p->query->pid > q->query->pid;
}

/* As the helper wants them: by module, then by the other one. */
static int held_compare(const void *a, const void *b)
{
    const struct wanted *p = a, *q = b;

    if (p->file != q->file)
        return p->file < q->file ? -1 : 1;
    return p->process < q->process ? -1 : p->process > q->process;
}

static uint32_t process_of(const struct asking *asking, uint32_t pid)
{
    return symbol_files_of_process(asking->files, pid, asking->asker->uid,
                                   asking->asker->superuser);
}

/* What of the things held may know it. A child has its parent's code, and its parent's map of it.
 */
static void wanted_look(const struct asking *asking, struct wanted *wanted)
{
    struct log_files *files = asking->files;
    const struct record_map *map = wanted->query->map;

    wanted->file = symbol_files_of_map(files, map);
    wanted->process = SYMBOL_NONE;
    if (!folded_map_is_jit(map))
        return;
    wanted->process = process_of(asking, wanted->query->pid);
    if (wanted->process == SYMBOL_NONE)
        wanted->process = process_of(asking, map->pid);
}

static void wanted_collect(struct asking *asking, struct frame_query *queries, size_t n)
{
    size_t n_useful = 0;

    for (size_t i = 0; i < n; i++)
        if (queries[i].map)
            asking->wanted[asking->n++].query = &queries[i];
    qsort(asking->wanted, asking->n, sizeof *asking->wanted, map_compare);
    for (size_t i = 0; i < asking->n; i++) {
        struct wanted *wanted = &asking->wanted[i];

        if (i > 0 && map_compare(wanted, &wanted[-1]) == 0) {
            wanted->file = wanted[-1].file;
            wanted->process = wanted[-1].process;
        } else {
            wanted_look(asking, wanted);
        }
    }
    for (size_t i = 0; i < asking->n; i++)
        if (asking->wanted[i].file != SYMBOL_NONE || asking->wanted[i].process != SYMBOL_NONE)
            asking->wanted[n_useful++] = asking->wanted[i];
    asking->n = n_useful;
    qsort(asking->wanted, asking->n, sizeof *asking->wanted, held_compare);
}

static bool asking_init(struct asking *asking, struct log_files *files, size_t n)
{
    /* What comes to be held from now on does not matter here. */
    uint32_t n_held = linux_files_count(files);

    *asking = (struct asking){.files = files, .n_held = n_held};
    asking->wanted = calloc(n + 1, sizeof *asking->wanted);
    asking->queries = calloc(n + 1, sizeof *asking->queries);
    asking->place = calloc(n + 1, sizeof *asking->place);
    asking->names = calloc(n + 1, sizeof *asking->names);
    asking->module_of = calloc(n_held + 1, sizeof *asking->module_of);
    asking->modules = calloc(n_held + 1, sizeof *asking->modules);
    asking->held = calloc(n_held + 1, sizeof *asking->held);
    asking->fds = calloc(n_held + 1, sizeof *asking->fds);
    return asking->wanted && asking->queries && asking->place && asking->names &&
           asking->module_of && asking->modules && asking->held && asking->fds;
}

static void asking_free(struct asking *asking)
{
    free(asking->wanted);
    free(asking->queries);
    free(asking->place);
    free(asking->names);
    free(asking->module_of);
    free(asking->modules);
    free(asking->held);
    free(asking->fds);
}

/* The number of this thing as a module of the round, or SYMBOL_NONE. */
static uint32_t module_add(struct asking *asking, uint32_t held)
{
    int fd;

    if (held == SYMBOL_NONE || held >= asking->n_held)
        return SYMBOL_NONE;
    if (asking->module_of[held])
        return asking->module_of[held] - 1;
    fd = symbol_files_pick(asking->files, held, &asking->modules[asking->n_modules]);
    if (fd < 0)
        return SYMBOL_NONE;
    asking->fds[asking->n_modules] = fd;
    asking->held[asking->n_modules] = held;
    asking->module_of[held] = ++asking->n_modules;
    return asking->n_modules - 1;
}

static void round_begin(struct asking *asking)
{
    asking->n_modules = asking->n_queries = 0;
    memset(asking->module_of, 0, asking->n_held * sizeof *asking->module_of);
    for (size_t i = 0; i < asking->n && asking->n_queries < QUERIES_MAX; i++) {
        struct wanted *wanted = &asking->wanted[i];
        const struct record_map *map = wanted->query->map;
        uint32_t first, second;

        if (wanted->done)
            continue;
        first = module_add(asking, wanted->file);
        second = module_add(asking, wanted->process);
        if (first == SYMBOL_NONE) {
            first = second;
            second = SYMBOL_NONE;
        }
        wanted->done = first == SYMBOL_NONE;
        if (wanted->done)
            continue;
        asking->queries[asking->n_queries] =
            (struct symbol_query){.module = first,
                                  .other = second,
                                  .address = wanted->query->address,
                                  .offset = wanted->query->address - map->start + map->offset};
        asking->place[asking->n_queries++] = i;
    }
}

/* False: no use to go on. */
static bool round_end(struct asking *asking, const struct symbol_job *job, int rc)
{
    for (uint32_t i = 0; i < asking->n_modules; i++)
        close(asking->fds[i]);
    for (uint32_t i = 0; i < job->n_heard; i++) {
        asking->wanted[asking->place[i]].done = true;
        asking->wanted[asking->place[i]].query->name = asking->names[i];
    }
    if (rc == 0)
        return asking->n_queries == QUERIES_MAX;
    if (rc != -EIO || frame_asker_is_gone(job->asker))
        return false;
    if (job->blamed == SYMBOL_NONE) {
        bool retry = !asking->retried;

        asking->retried = true;
        return retry;
    }
    symbol_files_blame(asking->files, asking->held[job->blamed]);
    for (uint32_t i = job->n_heard; i < asking->n_queries; i++)
        if (asking->queries[i].module == job->blamed || asking->queries[i].other == job->blamed)
            asking->wanted[asking->place[i]].done = true;
    return true;
}

/* Each helper gets half of the time that is left: one that hangs leaves some for the next. */
static bool round_run(struct host_state *state, struct asking *asking)
{
    const uint64_t now = clock_now_ns(), deadline_ns = asking->asker->deadline_ns;
    struct symbol_job job = {.asker = asking->asker,
                             .modules = asking->modules,
                             .fds = asking->fds,
                             .queries = asking->queries,
                             .names = asking->names};
    int rc;

    if (now >= deadline_ns || deadline_ns - now < SHORTEST_NS)
        return false;
    round_begin(asking);
    if (asking->n_queries == 0)
        return false;
    job.size = (struct symbol_request){asking->n_modules, asking->n_queries};
    rc = symbol_ask(state, &job, now + (deadline_ns - now) / 2);
    return round_end(asking, &job, rc);
}

void linux_names(struct host_state *state, struct log_files *files, const struct frame_asker *asker,
                 struct frame_query *queries, size_t n)
{
    struct asking asking;

    if (asker->superuser)
        symbol_kernel(queries, n);
    if (!files)
        return;
    if (asking_init(&asking, files, n)) {
        asking.asker = asker;
        wanted_collect(&asking, queries, n);
        for (unsigned i = 0; i < ROUNDS_MAX; i++)
            if (!round_run(state, &asking))
                break;
    }
    asking_free(&asking);
}
