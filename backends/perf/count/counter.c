/*
 * Counters: creation, output to the recorder's rings, start, stop, and freeing. attach.c opens the
 * groups, read.c reads them.
 */
#include "backends/perf/count/counter.h"

#include "backends/perf/probe/open.h"
#include "backends/perf/record/sampling.h"
#include "backends/proc.h"
#include "core/base/clock.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    ROUNDS_MAX = 4
};

struct counter *counter_new(struct backend_state *state, const struct plan *plan)
{
    struct counter *counter = calloc(1, sizeof *counter);

    if (!counter || shape_make(&counter->shape, state, plan)) {
        free(counter);
        return NULL;
    }
    counter->state = state;
    counter->target.kind = plan->target.kind;
    counter->target.pid = plan->target.pid;
    counter->target.tid = plan->target.tid;
    counter->tag = plan->tag;
    counter->descendants = plan->descendants && plan->target.kind == TARGET_PROCESS;
    counter->at_exec = plan->at_exec;
    counter->multiplex = plan->multiplex;
    counter->sampling = plan->recorder && plan->sampling;
    counter->recorder = plan->recorder;
    __atomic_add_fetch(&state->n_counters, 1, __ATOMIC_RELAXED);
    return counter;
}

bool counter_make_groups(struct counter *counter, unsigned n_groups)
{
    const bool hardware = counter->shape.hardware;
    const size_t bytes = (size_t)n_groups * counter->shape.stride * sizeof(int);

    counter->groups = malloc(bytes + 1); /* + 1: malloc(0) may return NULL */
    if (hardware)
        counter->last = calloc(n_groups + 1, counter_last_bytes(counter));
    if (!counter->groups || (hardware && !counter->last))
        return false;
    memset(counter->groups, -1, bytes);
    counter->n_groups = n_groups;
    return true;
}

int counter_watch_exit(struct counter *counter, bool late)
{
    const struct shape *shape = &counter->shape;

    if (!shape->exit_watch || !counter->n_groups)
        return 0;
    return guard_new(counter->state, counter_fds(counter, 0) + FD_EXIT_WATCH(shape->members),
                     shape->stride, counter->n_groups, false, counter->tag, late,
                     &counter->exit_watch);
}

/* ---- output ---- */

/* Returns how many members of a group, from the first on, write records: all if the set samples,
 * else only the internal events. */
static unsigned writing_members(const struct origin *origin, const struct shape *shape)
{
    return origin->samples ? shape->members : shape->n_extras;
}

int group_begin_output(const struct origin *origin, const struct shape *shape, const int *group,
                       bool adopted, uint64_t *root)
{
    const unsigned cpu = (unsigned)GROUP_CPU(group);
    const struct ring *ring = recorder_ring(origin->recorder, cpu);
    /* An adopted ring that was always mapped still has its redirections. Each redirection takes the
     * kernel 20 ms (it waits for all CPUs), so none is repeated. */
    const bool redirected = adopted && ring && ring->outlived;
    int rc = 0;

    for (unsigned i = 0; i < writing_members(origin, shape) && !rc; i++) {
        const bool event = origin->samples || shape->extras[i] == EXTRA_DUMMY;
        const bool end = !event && shape->extras[i] == EXTRA_END;
        struct event_id id = {
            .origin = origin,
            .cpu = cpu,
            .kind = event ? ID_EVENT
                    : end ? ID_END
                          : ID_SWITCH,
            .plan_event = origin->samples && i >= shape->n_extras
                              ? (uint8_t)shape_plan_event(shape, i - shape->n_extras)
                              : 0,
            .has_period = shape->attr[i].sample_type & PERF_SAMPLE_PERIOD,
            .parts = (uint8_t)sampling_parts(&shape->attr[i]),
        };

        if (shape_is_clock(shape, i))
            continue;
        if (ioctl(GROUP_FDS(group)[i], PERF_EVENT_IOC_ID, &id.kernel_id))
            return -errno;
        if (!*root)
            *root = id.kernel_id;
        id.root = *root;
        rc = recorder_add_id(origin->recorder, &id);
        if (!rc && !redirected)
            rc = recorder_redirect(origin->recorder, GROUP_FDS(group)[i], cpu);
    }
    return rc;
}

/* Returns true if the event counts nothing after the kernel has taken the last values of a thread,
 * which it does during the exit: software events except clocks, and events that count only in user
 * mode. */
static bool last_value_is_exact(const struct plan_event *event)
{
    const uint64_t *code = event->event->code, config = code[CODE_CONFIG];

    if (code[CODE_FLAGS] & CODE_NO_EXCLUDE)
        return false;
    if (code[CODE_TYPE] == PERF_TYPE_SOFTWARE)
        return config != PERF_COUNT_SW_CPU_CLOCK && config != PERF_COUNT_SW_TASK_CLOCK;
    return !event->kernel && code[CODE_TYPE] != PERF_TYPE_TRACEPOINT;
}

static struct origin *origin_make(struct counter *counter, const struct plan *plan)
{
    struct origin *origin = calloc(1, sizeof *origin);
    bool tasks = counter_is_of_task(counter);
    unsigned shares = 0;

    if (!origin)
        return NULL;
    origin->recorder = counter->recorder;
    origin->counter = counter;
    origin->set_number = plan->set_number;
    origin->period = plan->freq ? 0 : plan->period;
    origin->n = counter->shape.n;
    origin->n_extras = counter->shape.n_extras;
    for (unsigned i = 0; i < origin->n; i++)
        origin->order[i] = (uint8_t)shape_plan_event(&counter->shape, i);
    origin->descendants = !tasks || counter->descendants;
    origin->threads = !tasks || counter->target.kind == TARGET_PROCESS;
    origin->samples = counter->sampling;
    origin->weighed = plan->off_cpu;
    origin->chains = counter->sampling && (plan->chain_user || plan->chain_kernel);
    for (unsigned i = 0; counter->sampling && i < counter->shape.n; i++) {
        if (!sampling_shares_id(&counter->shape.attr[counter->shape.n_extras + i]))
            continue;
        shares++;
        origin->shared_parts =
            (uint8_t)sampling_parts(&counter->shape.attr[counter->shape.n_extras + i]);
        origin->shared_event = (uint8_t)shape_plan_event(&counter->shape, i);
    }
    origin->shares_one = shares == 1;
    origin->exact_last = true;
    for (unsigned i = 0; i < plan->n; i++)
        origin->exact_last &= last_value_is_exact(&plan->events[i]);
    return origin;
}

int output_begin(struct counter *counter, const struct plan *plan, bool adopted)
{
    struct recorder *recorder = counter->recorder;
    uint64_t root = 0;
    int rc = 0;

    if (!recorder)
        return 0;
    counter->origin = origin_make(counter, plan);
    if (!counter->origin)
        return -ENOMEM;
    pthread_mutex_lock(&recorder->lock);
    if (counter->sampling && recorder->largest_record < RECORD_USUAL + plan->stack_bytes)
        recorder->largest_record = RECORD_USUAL + plan->stack_bytes;
    counter->origin->next = recorder->origins;
    recorder->origins = counter->origin;
    for (unsigned i = 0; i < counter->n_groups && !rc; i++) {
        if (i % counter->shape.task_groups == 0)
            root = 0;
        rc = group_begin_output(counter->origin, &counter->shape, counter_group(counter, i),
                                adopted, &root);
    }
    pthread_mutex_unlock(&recorder->lock);
    return rc;
}

int output_track(struct counter *counter)
{
    if (counter->tracks || !counter->sampling || counter_is_of_task(counter))
        return 0;
    pthread_mutex_lock(&counter->state->setup);
    int rc = track_begin(counter->recorder, counter->origin->set_number);
    counter->tracks = !rc;
    pthread_mutex_unlock(&counter->state->setup);
    return rc;
}

/* Undoes output_track(). forget: does not disable the events, because a later worker uses them. */
static void output_untrack(struct counter *counter, bool forget)
{
    if (!counter->tracks)
        return;
    pthread_mutex_lock(&counter->state->setup);
    counter->tracks = false;
    if (forget)
        track_forget(counter->recorder);
    else
        track_end(counter->recorder);
    pthread_mutex_unlock(&counter->state->setup);
}

void output_redirect_cpu(const struct origin *origin, unsigned cpu)
{
    const struct counter *counter = origin->counter;

    for (unsigned i = 0; i < counter->n_groups; i++)
        if (GROUP_CPU(counter_group(counter, i)) == (int)cpu)
            for (unsigned k = 0; k < writing_members(origin, &counter->shape); k++)
                recorder_redirect(counter->recorder, counter_fds(counter, i)[k], cpu);
}

/*
 * ---- start and stop ----
 *
 * ENABLE and DISABLE reach all inherited copies that exist. A copy that is being created at that
 * moment may have the old state; and as the kernel swaps equal contexts, that state can move to the
 * parent, and so to all later children. The kernel copies events to a child with the mutex of the
 * parent's context held, and opening any event on the parent waits for that mutex. So
 * counter_switch() switches, opens and closes a dummy event on every task, and switches again.
 */

/* Enables or disables all groups once. Starts the time_check event after its group and stops it
 * before, so that it never shows a loss that did not happen. Returns 0 or -EIO. */
static int groups_switch(const struct counter *counter, bool on)
{
    unsigned long request = on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE;
    int rc = 0;

    for (unsigned i = 0; i < counter->n_groups; i++) {
        const int *fds = counter_fds(counter, i);
        int time_check = fds[FD_TIME_CHECK(counter->shape.members)];

        if (!on && time_check >= 0)
            ioctl(time_check, request, 0);
        if (ioctl(fds[0], request, 0))
            rc = -EIO;
        for (unsigned k = counter->shape.n_grouped; k < counter->shape.members; k++)
            if (ioctl(fds[k], request, 0))
                rc = -EIO;
        if (on && time_check >= 0)
            ioctl(time_check, request, 0);
    }
    return rc;
}

static int by_number(const void *a, const void *b)
{
    return *(const pid_t *)a - *(const pid_t *)b;
}

static void tids_add(void *arg, pid_t id)
{
    struct tids *tids = arg;

    if (vec_push(&tids->list, id))
        tids->shortage = -ENOMEM;
}

void counter_tids(const struct counter *counter, struct tids *tids)
{
    struct tids pids = {.list = {.n = 0}};

    tids->list.n = 0;
    if (counter->target.kind == TARGET_THREAD)
        tids_add(tids, counter->target.tid);
    else
        perf_each_process(counter, tids_add, &pids);
    if (pids.shortage)
        tids->shortage = pids.shortage;
    for (size_t i = 0; i < pids.list.n; i++) {
        pid_t *threads;
        size_t n;
        int rc = proc_threads(pids.list.items[i], &threads, &n);

        for (size_t k = 0; !rc && k < n; k++)
            rc = vec_push(&tids->list, threads[k]);
        free(threads);
        if (is_shortage(rc)) /* other errors: the process is gone */
            tids->shortage = rc;
    }
    free(pids.list.items);
    if (tids->list.n)
        qsort(tids->list.items, tids->list.n, sizeof(pid_t), by_number);
}

/*
 * Waits until no task that is in `now` and not in `before` is copying events to a child in fork():
 * opening an event waits for that. Gives up at a task that is blocked in an exec. Returns 1; 0 if
 * all tasks in `now` are in `before`; or -ENOMEM, -EMFILE or -ENFILE.
 */
static int tids_wait_forks(const struct tids *now, const struct tids *before)
{
    struct perf_event_attr attr;
    bool any = false;
    int rc = 0;

    sampling_dummy_attr(&attr);
    for (size_t i = 0; i < now->list.n && !rc; i++) {
        const pid_t tid = now->list.items[i];

        if (before->list.n &&
            bsearch(&tid, before->list.items, before->list.n, sizeof tid, by_number))
            continue;
        event_extend_deadline();
        int fd = event_open(&attr, tid, -1, -1, 0);
        any = true;
        if (is_shortage(fd))
            rc = fd;
        if (fd == -ETIME) /* blocked in an exec, as others may be, too */
            break;
        event_close(&fd);
    }
    event_set_deadline(0);
    return rc ? rc : any;
}

/* Enables or disables all groups, also in children that are being created; gives up without an
 * error if new tasks still appear after ROUNDS_MAX rounds. Returns 0, -EIO, or (some threads or
 * children may have been missed) -ENOMEM, -EMFILE or -ENFILE. */
static int counter_switch(struct counter *counter, bool on)
{
    struct tids now = {.list = {.n = 0}}, before = {.list = {.n = 0}};
    int rc = groups_switch(counter, on), has_new = 1;

    if (counter->target.kind != TARGET_PROCESS)
        return rc;
    /* A task that was created since may have the wrong state and create children itself. */
    for (int round = 0; round < ROUNDS_MAX && !rc && has_new > 0; round++) {
        const struct tids spare = before;

        before = now;
        now = spare;
        counter_tids(counter, &now);
        has_new = now.shortage ? now.shortage : tids_wait_forks(&now, &before);
        rc = has_new > 0 ? groups_switch(counter, on) : has_new;
    }
    free(now.list.items);
    free(before.list.items);
    return rc;
}

/* Ignores errors: perf_start() tries again and reports them. */
void perf_track(struct counter *counter)
{
    output_track(counter);
}

int perf_start(struct counter *counter, struct err *err)
{
    bool armed = counter_is_armed(counter), was_on = counter_is_on(counter);

    counter->was_started = true; /* after counter_is_armed(), which reads it */
    for (unsigned i = 0; counter->shape.hardware && i < counter->n_groups; i++)
        __atomic_store_n(&counter_last(counter, i)->off_hardware, false, __ATOMIC_RELAXED);
    /* Release: a reader that sees the new state also sees all fields that were set before it. */
    __atomic_store_n(&counter->on, true, __ATOMIC_RELEASE);
    int rc = output_track(counter);
    if (!rc && !armed)
        rc = counter_switch(counter, true);
    if (rc) {
        __atomic_store_n(&counter->on, was_on, __ATOMIC_RELEASE);
        if (!was_on)
            output_untrack(counter, false);
        if (is_shortage(rc))
            return err_shortage(err, rc);
        return err_set(err, P14,
                       "the kernel refused to start a counter of %u tasks or CPUs: write \"stop\", "
                       "then \"start\" to ctl",
                       counter->n_groups);
    }
    follow_switch(counter, true, armed);
    return 0;
}

int perf_stop(struct counter *counter)
{
    follow_switch(counter, false, false);
    __atomic_store_n(&counter->on, false, __ATOMIC_RELEASE);
    int rc = counter_switch(counter, false);
    output_untrack(counter, false);
    return rc; /* after an error the engine starts the counter again, or closes it */
}

void perf_each_process(const struct counter *counter, void (*fn)(void *arg, pid_t pid), void *arg)
{
    if (counter->covered)
        covered_each(counter->covered, fn, arg);
    else if (counter_is_of_task(counter))
        fn(arg, counter->target.pid);
}

bool perf_covers(struct counter *counter, pid_t pid)
{
    return counter_is_of_task(counter) &&
           (pid == counter->target.pid || (counter->covered && covered_has(counter->covered, pid)));
}

static void count_process(void *arg, pid_t pid)
{
    (void)pid;
    ++*(unsigned *)arg;
}

void perf_counter_facts(const struct counter *counter, struct counter_facts *out)
{
    const unsigned tasks = counter->n_groups / counter->shape.task_groups;
    unsigned covered = 0;

    perf_each_process(counter, count_process, &covered);
    *out = (struct counter_facts){
        .threads = counter_is_of_task(counter) ? tasks : 0,
        .descriptors = tasks * counter->shape.fds_per_task + follow_fds(counter),
        .raced = counter->raced,
        .left_out = counter->left_out,
        .covered = covered,
    };
}

/* Frees the counter. forget: keeps its descriptors, for a later worker. */
static void counter_release(struct counter *counter, bool forget)
{
    struct origin *origin = counter->origin;

    guard_free(counter->exit_watch); /* before its descriptors are closed */
    output_untrack(counter, forget);
    if (!forget)
        groups_close(&counter->shape, counter->groups, counter->n_groups);
    covered_free(counter->covered);
    if (origin) { /* its records that are in the rings stay there */
        pthread_mutex_lock(&origin->recorder->lock);
        follow_free(origin->follow);
        origin->follow = NULL;
        origin->counter = NULL;
        origin->closed_ns = monotonic_ns();
        pthread_mutex_unlock(&origin->recorder->lock);
    }
    __atomic_sub_fetch(&counter->state->n_counters, 1, __ATOMIC_RELAXED);
    shape_free(&counter->shape);
    free(counter->groups);
    free(counter->last);
    free(counter);
}

void perf_forget(struct counter *counter)
{
    counter_release(counter, true);
}

void perf_free(struct counter *counter)
{
    counter_release(counter, false);
}
