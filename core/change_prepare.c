/*
 * Stage one of a change, without the lock: names are resolved, processes and cgroups found, and the
 * kernel asked whether the opener may observe them.
 */
#include "core/plan.h"

#include "core/access.h"
#include "core/metric.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    REASONS_BYTES = 80 /* of the reasons for passing targets over; then their words must do */
};

static int resolve_names(struct change *change)
{
    const struct backend *backend = change->engine->backend;

    change->set = set_new(change->n_names);
    if (!change->set)
        return err_set(&change->err, E32, "no memory");
    for (unsigned i = 0; i < change->n_names; i++) {
        struct event *event = &change->set->event[i];
        int rc =
            backend->resolve(change->engine->backend_state, change->names[i], event, &change->err);

        if (rc && event->needs_kernel && !change->may_kernel)
            return change_refuse_kernel(change, change->names[i], "");
        if (rc && change->err.id == CS01 && metric_needs(change->names[i]))
            return err_set(&change->err, P09,
                           "\"%s\" cannot be counted here: this machine has no such event",
                           change->names[i]);
        if (rc)
            return rc;
    }
    return 0;
}

/* What a refusal of the system would tell is for those who have the rights to the event. */
static int verify_events(struct change *change)
{
    const struct backend *backend = change->engine->backend;
    int rc = change_rights(change);

    for (unsigned i = 0; !rc && backend->verify && i < change->set->n; i++)
        rc = backend->verify(change->engine->backend_state, &change->set->event[i], &change->err);
    return rc;
}

void change_pass_over(struct change *change, struct word word)
{
    struct err before = change->note;
    bool brief = word.len > 0 && strlen(before.text) >= REASONS_BYTES;

    if (before.id == ERR_NONE)
        change->note = change->err;
    else if (!brief)
        err_set(&change->note, before.id, "%s; %s", before.text, change->err.text);
    else
        err_set(&change->note, before.id, "%s%s" WORD_FMT, before.text,
                change->brief ? " " : "; passed over too: ", WORD_ARG(word));
    change->brief = brief;
    change->err = (struct err){.id = ERR_NONE};
}

/* A privileged program can be made to write "self" into a descriptor of somebody else's. */
static int explain_self(struct change *change)
{
    struct err said = change->err;

    return err_set(&change->err, E40,
                   "%s (self is who opened the file and has these rights; any other writer is "
                   "asked about like any process)",
                   said.text);
}

static int find_process(struct change *change, struct wanted *wanted)
{
    struct engine *engine = change->engine;
    const struct host *host = engine->host;
    const struct target_word *word = &wanted->word;
    int rc = host->process_open(engine->host_state, change->tid, word->self ? 0 : word->number,
                                word->kind == TARGET_THREAD, &wanted->process, &change->err);
    if (rc == 0)
        rc = change_book_found(change, word->remove);
    if (rc)
        return rc;
    wanted->pid = host->process_pid(wanted->process);
    wanted->tid = host->process_tid(wanted->process);
    if (word->remove)
        return 0;
    if (change->superuser)
        return 0;
    if (!change->may_foreign &&
        !(word->self && change->rights && change->uid == change->rights->uid))
        return err_set(&change->err, E40,
                       WORD_FMT ": unprivileged_proc_debug is 0: only the superuser "
                                "observes other processes, everybody else only self",
                       WORD_ARG(word->word));
    rc = host->may_observe(engine->host_state, change->rights, wanted->process, &change->err);
    return rc == -EPERM && word->self ? explain_self(change) : rc;
}

/* A name as it reads back: \040 is a blank. */
static void unescape(char *text)
{
    char *to = text;

    for (const char *from = text; *from; to++) {
        unsigned value = 0;
        int digits = 0;

        while (from[0] == '\\' && digits < 3 && from[1 + digits] >= '0' && from[1 + digits] <= '7')
            value = 8 * value + (unsigned)(from[1 + digits++] - '0');
        bool escape = digits == 3 && value > 0 && value < 256;
        *to = escape ? (char)value : *from;
        from += escape ? 4 : 1;
    }
    *to = '\0';
}

int change_refuse_system(struct change *change)
{
    return err_set(&change->err, X07,
                   change->inside
                       ? "whole CPUs and cgroups are not counted through this instance: its "
                         "administrator would have to set its system_scope to 1"
                       : "system scope, CPUs and cgroups, needs CAP_PERFMON, or the tunable "
                         "unprivileged_syspmcs=1");
}

static int find_cgroup(struct change *change, struct wanted *wanted)
{
    struct engine *engine = change->engine;
    const struct target_word *word = &wanted->word;
    char *path;

    if (!change->may_system) /* to take one back, too: whether it exists would be told */
        return change_refuse_system(change);
    path = strndup(word->path, word->path_len);
    if (!path)
        return err_set(&change->err, E32, "no memory");
    unescape(path);
    int rc = engine->host->cgroup_open(engine->host_state, change->tid, path, &wanted->cgroup_fd,
                                       &wanted->cgroup, &change->err);
    free(path);
    return rc;
}

/* -PID of nobody: was it a target? The PMC is busy: its links stay. */
static bool has_exited(const struct change *change, const struct target_word *word)
{
    const struct links *links = change->pmc->links;

    for (unsigned i = 0; i < links->n; i++) {
        struct link *link = links->link[i];

        if (link->kind == word->kind &&
            (uint64_t)(link->tid ? link->tid : link->pid) == word->number &&
            (link->ended || !link_target_alive(link)))
            return true;
    }
    return false;
}

static int find_targets(struct change *change)
{
    unsigned found = 0, passed = 0;

    for (unsigned i = 0; i < change->n_wanted; i++) {
        struct wanted *wanted = &change->wanted[i];
        int rc = change_goes_on(change);

        if (rc)
            return rc;
        if (wanted->word.kind == TARGET_CGROUP)
            rc = find_cgroup(change, wanted);
        else if (wanted->word.kind != TARGET_CPU)
            rc = find_process(change, wanted);
        if (rc == -ESRCH && !wanted->word.remove && change->n_wanted > 1) {
            wanted->passed = true;
            change_pass_over(change, wanted->word.word);
            passed++;
            continue;
        }
        if (rc == -ESRCH && wanted->word.remove && !wanted->word.self) {
            wanted->exited = has_exited(change, &wanted->word);
            rc = 0; /* the check says what it was */
        }
        if (rc)
            return rc;
        found++;
    }
    if (found == 0 && passed > 0) {
        change->err = change->note;
        return -ESRCH;
    }
    return 0;
}

static void names_free(char **names, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        free(names[i]);
    free(names);
}

static bool name_is_among(char *const *names, unsigned n, const char *name)
{
    for (unsigned i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* The names that are there come first; of a metric's, those that are there already stay as they are. */
static bool join_before(struct change *change)
{
    const struct pmc *pmc = change->pmc;
    const unsigned n = pmc_events(pmc);
    char **all = calloc(n + change->n_names, sizeof *all);
    unsigned end = n;

    for (unsigned i = 0; all && i < n; i++)
        if (!(all[i] = strdup(pmc->set->event[i].written))) {
            names_free(all, i);
            return false;
        }
    for (unsigned i = 0; all && i < change->n_names; i++) {
        if (change->metrics && name_is_among(all, n, change->names[i]))
            free(change->names[i]);
        else
            all[end++] = change->names[i];
    }
    if (!all)
        return false;
    free(change->names);
    change->names = all;
    change->n_names = end;
    return true;
}

static int join_metrics(struct change *change)
{
    const char *before = change->pmc->metrics, *now = change->metrics ? change->metrics : "";
    char *both = before ? strdup(before) : NULL;
    int rc = before && !both ? err_set(&change->err, E32, "no memory") : 0;
    struct word word;
    struct scan scan;

    if (change->n_names > SET_MAX)
        rc = err_set(&change->err, P28, "a set has at most %d events", SET_MAX);
    scan_init(&scan, now, strlen(now));
    while (rc == 0 && scan_word(&scan, &word))
        rc = change_add_metric(&both, word, &change->err);
    free(change->metrics);
    change->metrics = both;
    return rc;
}

/*
 * The first names written through an open file begin a set, later ones join it: bash writes line by
 * line. Opened to append, the first join what is there.
 */
static int join_names(struct change *change)
{
    const struct pmc *pmc = change->pmc; /* busy: its set stays */
    const uint64_t began = change->open ? change->open->began : 0;

    if (change->n_names == 0 || (!change->append && !began))
        return 0;
    if (!change->append && began != pmc->began)
        return err_set(&change->err, P19,
                       "another writer has begun a set of %s since the first event was written "
                       "here: open the file again, or write all events with one write(2)",
                       change->name);
    change->joins = true;
    return join_before(change) ? join_metrics(change) : err_set(&change->err, E32, "no memory");
}

static bool same_names(const struct change *change)
{
    const struct set *set = change->pmc->set;

    if (!set || set->n != change->n_names ||
        strcmp(change->pmc->metrics ? change->pmc->metrics : "",
               change->metrics ? change->metrics : "") != 0)
        return false;
    for (unsigned i = 0; i < set->n; i++)
        if (strcmp(set->event[i].written, change->names[i]) != 0)
            return false;
    return true;
}

/* What each member will count; may the opener count that; and do they fit together? */
static int plan_set(struct change *change)
{
    const struct backend *backend = change->engine->backend;
    bool asked = change->want.given & GIVEN(KEY_KERNEL);

    change->kernel = asked ? change->want.value[KEY_KERNEL] : change->may_kernel;
    change->plan = calloc(change->set->n, sizeof *change->plan);
    if (!change->plan)
        return err_set(&change->err, E32, "no memory");
    for (unsigned i = 0; i < change->set->n; i++)
        change->plan[i] = pmc_plan_event(&change->set->event[i], &change->want, change->kernel);
    int rc = verify_events(change);
    return rc ? rc
              : backend->check_set(change->engine->backend_state, change->plan, change->set->n,
                                   change->want.value[KEY_MULTIPLEX], &change->err);
}

/* May those who attached still observe what the process runs now? */
static void ask_dropped(struct change *change)
{
    const struct engine *engine = change->engine;
    const struct host *host = engine->host;

    for (unsigned i = 0; i < change->n_verdicts; i++) {
        struct verdict *verdict = &change->verdicts[i];

        if (verdict->below)
            continue; /* of a descendant the backend asks when it finds it */
        verdict->headless = host->process_headless && host->process_headless(verdict->process);
        verdict->refused =
            !verdict->headless && verdict->rights &&
            host->may_observe(engine->host_state, verdict->rights, verdict->process, NULL) != 0;
    }
}

/* Of whom PIDs are, and what the system allows: for what may come to be recorded. */
static int ask_recording(struct change *change)
{
    const struct engine *engine = change->engine;
    int rc = 0;

    change->limits = (struct sample_limits){.max_freq = UINT64_MAX, .max_frames = UINT_MAX};
    if (!recorded_for(change->want.mode, &change->want) &&
        !recorded_for(change->effective, &change->want) &&
        change->want.value[KEY_PERIOD] == UINT64_MAX && change->want.value[KEY_FREQ] == UINT64_MAX)
        return 0;
    if (engine->backend->sample_limits)
        engine->backend->sample_limits(engine->backend_state, &change->limits);
    if (change->cause == CAUSE_COMMAND && engine->host->view_open)
        rc = engine->host->view_open(engine->host_state, change->tid, &change->view);
    if (rc == 0 || rc == -ESRCH)
        return 0;
    return err_set(&change->err, P15,
                   "the PID namespace of the writer, whose numbers the log is to have, cannot be "
                   "seen: %s",
                   err_errno_name(rc));
}

void change_prepare(struct change *change)
{
    change->rc = ask_recording(change);
    if (change->cause == CAUSE_DROPPED)
        ask_dropped(change);
    if (change->rc == 0)
        change->rc = join_names(change);
    if (change->rc == 0 && change->n_names && !same_names(change)) {
        change->new_set = true;
        change->rc = resolve_names(change);
        if (change->rc == 0)
            change->rc = plan_set(change);
    }
    change->deadline_ns =
        change->engine->host->now_ns(change->engine->host_state) + change->attach_ns;
    if (change->rc == 0)
        change->rc = find_targets(change);
    if (change->rc == 0 && (change->given & GIVEN(KEY_LIFETIME)) &&
        change->want.value[KEY_LIFETIME] == LIFETIME_OWNER)
        change->rc = change->engine->host->process_open(change->engine->host_state, change->tid, 0,
                                                        false, &change->writer, &change->err);
}
