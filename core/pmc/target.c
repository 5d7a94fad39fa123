/*
 * Words of `target`, watched processes, and links with their tallies.
 */
#include "core/pmc/target.h"

#include "core/pmc/pmc.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PID_LIMIT ((uint64_t)INT32_MAX) /* largest pid_t */

/* ---- words ---- */

static int cpus_word(struct target_word *out, struct word list, struct err *err)
{
    int rc = cpus_parse(&out->cpus, list);

    out->kind = TARGET_CPU;
    if (rc == -ERANGE)
        return err_set(err, E21, "\"" WORD_FMT "\": CPU numbers are below %u", WORD_ARG(out->word),
                       CPUS_MAX);
    if (rc == -ENOMEM)
        return err_nomem(err);
    if (rc != 0 || cpus_count(&out->cpus) == 0)
        return err_set(err, E27,
                       "\"" WORD_FMT "\" is not a valid list of CPUs: write cpu0, cpu0-3,6 or all",
                       WORD_ARG(out->word));
    return 0;
}

struct word target_next(struct word *list)
{
    struct word word = *list, whole = word;

    word_cut(&word, "-");
    const bool cpus = word_cut(&word, "cpu");

    *list = (struct word){whole.p + whole.len, 0};
    if (!cpus && word_cut(&word, "cgroup:"))
        return whole; /* a path may contain commas */
    for (size_t i = 0; i < whole.len; i++) {
        if (whole.p[i] != ',')
            continue;
        word = word_from(whole, i + 1);
        if (cpus && (word.len == 0 || (word.p[0] >= '0' && word.p[0] <= '9')))
            continue; /* cpu0,2-3 */
        *list = word;
        return (struct word){whole.p, i};
    }
    return whole;
}

int target_parse(struct target_word *out, struct word word, struct err *err)
{
    *out = (struct target_word){.word = word, .kind = TARGET_PROCESS};
    out->remove = word.len > 1 && word_cut(&word, "-");
    if (word_cut(&word, "cpu"))
        return cpus_word(out, word, err);
    if (word_is(word, "all")) {
        out->kind = TARGET_CPU;
        out->all = true;
        return 0;
    }
    if (word_cut(&word, "cgroup:")) {
        out->kind = TARGET_CGROUP;
        out->path = word.p;
        out->path_len = word.len;
        if (word.len == 0 || word.p[0] != '/' || word.len > 4000)
            return err_set(err, E27,
                           "\"" WORD_FMT
                           "\": write cgroup:/PATH, with the path that /proc/PID/cgroup shows",
                           WORD_ARG(out->word));
        return 0;
    }
    if (word_cut(&word, "tid:"))
        out->kind = TARGET_THREAD;
    else
        word_cut(&word, "pid:"); /* as `detail` prints a process */
    out->self = word_is(word, "self");
    if (out->self || word_u64(word, false, 1, PID_LIMIT, &out->number))
        return 0;
    if (word_is(word, "0"))
        return err_set(err, E27,
                       "\"" WORD_FMT "\": no process has the number 0, and a stopped service has "
                       "MainPID 0: start it, or write cgroup:/PATH with reattach=on",
                       WORD_ARG(out->word));
    return err_set(err, E27,
                   "\"" WORD_FMT
                   "\" is not a valid target: write a PID, self, tid:TID, cpu0-3, all or "
                   "cgroup:/PATH (or - and one of these, to detach it)",
                   WORD_ARG(out->word));
}

/* ---- tallies ---- */

struct tally *tally_new(unsigned n)
{
    return calloc(1, TALLY_SIZE(n));
}

void tally_set(struct tally *tally, const struct reading *reading, unsigned n)
{
    tally->covered_ns = reading->covered_ns;
    tally->enabled_ns = reading->enabled_ns;
    tally->running_ns = reading->running_ns;
    tally->never_ran = reading->never_ran;
    tally->off_hardware = reading->off_hardware;
    tally->descendant_lost = reading->descendant_lost;
    memcpy(tally->value, reading->value, n * sizeof tally->value[0]);
    memcpy(tally->value + n, reading->estimate, n * sizeof tally->value[0]);
}

void tally_add(struct tally *to, const struct tally *from, unsigned n)
{
    to->covered_ns += from->covered_ns;
    to->enabled_ns += from->enabled_ns;
    to->running_ns += from->running_ns;
    to->never_ran |= from->never_ran;
    to->off_hardware |= from->off_hardware;
    for (unsigned i = 0; i < 2 * n; i++)
        to->value[i] += from->value[i];
}

void tally_subtract(struct tally *to, const struct tally *from, unsigned n)
{
    to->covered_ns -= from->covered_ns;
    to->enabled_ns -= from->enabled_ns;
    to->running_ns -= from->running_ns;
    for (unsigned i = 0; i < 2 * n; i++)
        to->value[i] -= from->value[i];
}

/* ---- links ---- */

struct link *link_new(const struct engine *engine, const struct set *set)
{
    const size_t bytes = TALLY_SIZE(set_values(engine, set));
    struct link *link = calloc(1, sizeof *link + 2 * bytes);

    if (!link)
        return NULL;
    link->base = (struct tally *)(link + 1);
    link->seen = (struct tally *)((char *)link->base + bytes);
    link->refs = 1;
    link->n_events = set ? set->n : 0;
    link->cgroup_fd = -1;
    return link;
}

void link_unref(struct link *link, struct work_queue *unused)
{
    assert(link->refs > 0);
    if (--link->refs > 0)
        return;
    link_leave_lists(link);
    rights_unref(link->rights);
    link->rights = NULL;
    work_add(unused, &link->work, WORK_LINK);
    if (link->proc) /* kept until here, because a long read checks whether the target is alive */
        proc_unref(link->proc, unused);
    link->proc = NULL;
}

void recording_leave(struct recording *recording, bool forgetting)
{
    (forgetting ? recording_forget : recording_unref)(recording);
}

void targets_destroy(const struct engine *engine, struct work_queue *unused)
{
    const struct backend *backend = engine->backend;
    const struct host *host = engine->host;
    enum work_kind kind;
    struct work *work;

    while ((work = work_take(unused, &kind))) {
        if (kind == WORK_LINK) {
            struct link *link = WORK_OBJECT(work, link, work);

            if (link->counter)
                (engine->forgetting ? backend->forget : backend->free)(link->counter);
            recording_leave(link->recording, engine->forgetting);
            if (link->cgroup_fd >= 0 && !engine->forgetting)
                close(link->cgroup_fd);
            if (link->watch)
                host->cgroup_unwatch(link->watch);
            free(link->cgroup);
            free(link);
        } else {
            struct proc *proc = WORK_OBJECT(work, proc, work);

            if (proc->guard)
                (engine->forgetting ? backend->guard_forget : backend->unguard)(proc->guard);
            (engine->forgetting ? host->process_forget : host->process_free)(proc->process);
            free(proc);
        }
    }
}

struct links *links_new(unsigned n)
{
    struct links *links = calloc(1, sizeof *links + n * sizeof links->link[0]);

    if (links)
        *links = (struct links){.refs = 1, .n = n};
    return links;
}

struct links *links_ref(struct links *links)
{
    links->refs++;
    return links;
}

void links_unref(struct links *links, struct work_queue *unused)
{
    if (!links || --links->refs > 0)
        return;
    for (unsigned i = 0; i < links->n; i++)
        if (links->link[i])
            link_unref(links->link[i], unused);
    free(links);
}

/* ---- watched processes ---- */

static struct proc *proc_find(struct engine *engine, const struct proc_key *key)
{
    struct proc *proc;

    HASH_FIND(hh, engine->proc_by_key, key, sizeof *key, proc);
    return proc;
}

static void key_of(const struct engine *engine, const struct process *process, struct proc_key *key)
{
    memset(key, 0, sizeof *key);
    key->key = engine->host->process_key(process);
    key->tid = engine->host->process_tid(process);
}

/* Adds a proc to the tables. On ENOMEM the tables lack the proc, so proc_get() creates another one
 * for the process. */
static void proc_index(struct proc *proc)
{
    struct proc *first;

    key_of(proc->engine, proc->process, &proc->key);
    if (!proc_find(proc->engine, &proc->key))
        HASH_ADD(hh, proc->engine->proc_by_key, key, sizeof proc->key, proc);
    proc->pid = proc->engine->host->process_pid(proc->process);
    HASH_FIND(of_pid, proc->engine->proc_by_pid, &proc->pid, sizeof proc->pid, first);
    if (first) {
        proc->peer = first->peer;
        first->peer = proc;
    } else {
        HASH_ADD(of_pid, proc->engine->proc_by_pid, pid, sizeof proc->pid, proc);
    }
}

/* Removes an exited or unused proc from the tables. */
static void proc_unindex(struct proc *proc)
{
    struct engine *engine = proc->engine;
    struct proc *first;

    if (hash_has(proc))
        HASH_DEL(engine->proc_by_key, proc);
    proc->hh.tbl = NULL;
    HASH_FIND(of_pid, engine->proc_by_pid, &proc->pid, sizeof proc->pid, first);
    while (first && first != proc && first->peer != proc)
        first = first->peer;
    if (first == proc) {
        if (proc->peer) /* first, so that the table is complete */
            HASH_ADD(of_pid, engine->proc_by_pid, pid, sizeof proc->pid, proc->peer);
        HASH_DELETE(of_pid, engine->proc_by_pid, proc);
    } else if (first) {
        first->peer = proc->peer;
    }
    proc->peer = NULL;
}

void proc_exited(struct proc *proc)
{
    struct link *link;

    proc->dead = true;
    proc_unindex(proc);
    engine_touch(proc->engine, JOURNAL_PROCESS, proc->id);
    LIST_FOREACH (link, &proc->links, of_proc)
        pmc_defer(link->pmc, WORK_CHANGE);
}

const struct proc *procs_of(const struct engine *engine, pid_t pid)
{
    const struct proc *first;

    HASH_FIND(of_pid, engine->proc_by_pid, &pid, sizeof pid, first);
    return first;
}

void proc_add_loaded(struct proc *proc)
{
    proc_index(proc);
    proc->watched = true;
    proc->guarded &= proc->guard != NULL; /* a killed change had not opened it yet */
    proc->engine->fds_used += proc->guard ? 2 : 1;
}

struct proc *proc_get(struct engine *engine, struct process *process, bool *taken)
{
    struct proc_key key;

    key_of(engine, process, &key);
    struct proc *proc = proc_find(engine, &key);
    *taken = false;
    if (proc)
        return proc;
    proc = calloc(1, sizeof *proc);
    if (!proc)
        return NULL;
    proc->engine = engine;
    proc->id = engine_serial(engine);
    proc->process = process;
    if (!ids_add(&engine->procs, proc->id, proc)) {
        free(proc);
        return NULL;
    }
    proc_index(proc);
    *taken = true;
    engine->fds_used++;
    return proc;
}

int proc_watch(struct proc *proc, struct err *err)
{
    const struct host *host = proc->engine->host;
    int rc = proc->watched ? 0 : host->process_watch(proc->process, proc->id);

    proc->watched = rc == 0 || rc == -ENOTSUP;
    if (proc->watched)
        return 0;
    return err_set(err, P14, "cannot watch process %d for its exit: %s: try again",
                   (int)host->process_pid(proc->process), err_errno_name(rc));
}

bool proc_lost_events(const struct proc *proc)
{
    const struct engine *engine = proc->engine;

    return proc->lost_before_reload ||
           (proc->guard && engine->backend->guard_lost_events(proc->guard));
}

void proc_ref(struct proc *proc)
{
    proc->refs++;
    engine_touch(proc->engine, JOURNAL_PROCESS, proc->id);
}

void proc_unref(struct proc *proc, struct work_queue *unused)
{
    struct engine *engine = proc->engine;

    assert(proc->refs > 0);
    if (--proc->refs > 0)
        return;
    assert(LIST_EMPTY(&proc->links) && LIST_EMPTY(&proc->owned) && LIST_EMPTY(&proc->held));
    engine->host->process_unwatch(proc->process);
    ids_remove(&engine->procs, proc->id);
    proc_unindex(proc);
    engine_touch(engine, JOURNAL_PROCESS, proc->id);
    engine->fds_used -= proc->guard ? 2 : 1;
    work_add(unused, &proc->work, WORK_PROC);
}

void link_set_proc(struct link *link, struct proc *proc)
{
    assert(!link->proc);
    proc_ref(proc);
    link->proc = proc;
    LIST_INSERT_HEAD(&proc->links, link, of_proc);
}

void link_leave_lists(struct link *link)
{
    if (link_spreads(link))
        LIST_REMOVE(link, of_spreading);
    link->of_spreading.le_prev = NULL;
    if (link->of_proc.le_prev)
        LIST_REMOVE(link, of_proc);
    link->of_proc.le_prev = NULL;
}

void link_spread(struct link *link)
{
    if (link->proc && link->rights && !link_spreads(link))
        LIST_INSERT_HEAD(&link->proc->engine->spreading, link, of_spreading);
}

/* ---- targets that have exited or lost their events ---- */

bool link_target_alive(void *arg)
{
    const struct link *link = arg;
    const struct host *host = link->pmc->engine->host;

    if (link->kind == TARGET_CGROUP)
        return host->cgroup_alive(link->cgroup_fd);
    return !link->proc || host->process_alive(link->proc->process);
}

/* Does not check whether a thread has exited, because that needs /proc. */
bool link_lost_events(const struct pmc *pmc, const struct link *link)
{
    return link->loss && link->state != LINK_ENDED && link->proc && !link->proc->dead &&
           (link->kind == TARGET_THREAD || pmc->engine->host->process_alive(link->proc->process));
}

bool link_moved(const struct pmc *pmc, const struct link *link)
{
    if (link->state == LINK_ENDED || link->kind < TARGET_CPU)
        return false;
    return (link->noted & NOTE_MOVED) ||
           (link->kind == TARGET_CPU &&
            (link->state == LINK_OFFLINE) == cpus_has(&pmc->engine->online, link->cpu));
}

void link_lost_descendant(struct link *link)
{
    if (link->loss || !link->pmc)
        return;
    pmc_touch(link->pmc);
    link->missed = true;
    link->loss = LOSS_DESCENDANT;
    link->noted &= ~(unsigned)NOTE_FAILED;
    link->n_losses++;
    pmc_defer(link->pmc, WORK_CHANGE);
}

bool link_dead(const struct pmc *pmc, const struct link *link)
{
    if (link->state == LINK_ENDED ||
        (link->kind == TARGET_CGROUP && pmc->settings.word[KEY_REATTACH]))
        return false; /* see pmc_schedule_reattach() */
    /* NOTE_GONE is also set for lost events, which have precedence. */
    if (link->noted & NOTE_GONE)
        return !link_lost_events(pmc, link);
    /* With descendants the children are still counted after the process has exited. */
    return link->proc && link->proc->dead && !pmc->settings.word[KEY_DESCENDANTS];
}

/* ---- text ---- */

void link_print(const struct link *link, pid_t shown, bool detail, struct buf *out)
{
    static const char *const prefix[][2] = {
        [TARGET_PROCESS] = {"", "pid:"},
        [TARGET_THREAD] = {"tid:", "tid:"},
        [TARGET_CPU] = {"cpu", "cpu:"},
        [TARGET_CGROUP] = {"cgroup:", "cgroup:"},
    };

    buf_str(out, prefix[link->kind][detail]);
    if (link->kind == TARGET_CGROUP)
        buf_word(out, link->cgroup, strlen(link->cgroup));
    else
        buf_i64(out, link->kind == TARGET_CPU ? (int64_t)link->cpu : shown);
}
