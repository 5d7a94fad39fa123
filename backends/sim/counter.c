/*
 * A simulated counter is arithmetic on the host's clock:
 *
 *   covered, enabled = time started, from the exec on (at_exec: 1 ms after the start), while alive
 *   running          = covered time before the loss (sim_lose_after_ms); multiplex: half
 *   value            = rate × running, 3/4 of it in user mode, the rest in kernel mode
 *
 * A death is noticed at the first update after it; the value does not change from then on.
 */
#include "backends/sim/sim.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define EXEC_AFTER_NS UINT64_C(1000000)

__extension__ typedef unsigned __int128 wide;

/* ---- time ---- */

static bool target_alive(const struct counter *counter)
{
    const struct target_ref *target = &counter->plan.target;

    return target->alive == NULL || target->alive(target->alive_arg);
}

void counter_update(struct counter *counter, uint64_t now)
{
    uint64_t from = counter->last_ns;

    if (!counter->on || counter->dead || now <= from)
        return;
    counter->last_ns = now;
    counter->dead = !target_alive(counter);
    if (counter->plan.at_exec && !counter->execed) {
        if (counter->dead || now < counter->exec_at_ns)
            return;
        counter->execed = true;
        from = from > counter->exec_at_ns ? from : counter->exec_at_ns;
    }
    counter->covered_ns += now - from;
    if (from < counter->lose_at_ns)
        counter->running_ns += (now < counter->lose_at_ns ? now : counter->lose_at_ns) - from;
}

int counter_start(struct counter *counter, struct err *err)
{
    const uint64_t lose_after = counter->state->pmu.lose_after_ms * 1000000;
    uint64_t now, begin;

    (void)err;
    pthread_mutex_lock(&counter->state->lock);
    now = begin = sim_now(counter->state);
    counter_update(counter, now);
    if (!counter->on) {
        counter->on = true;
        counter->dead = !target_alive(counter);
        counter->last_ns = now;
        counter->exec_at_ns = now + EXEC_AFTER_NS;
    }
    if (counter->plan.at_exec && !counter->execed)
        begin = counter->exec_at_ns;
    counter->lose_at_ns = UINT64_MAX;
    if (lose_after > 0 && counter->hardware && !counter->plan.multiplex)
        counter->lose_at_ns = begin + lose_after;
    pthread_mutex_unlock(&counter->state->lock);
    return 0;
}

int counter_stop(struct counter *counter)
{
    pthread_mutex_lock(&counter->state->lock);
    counter_update(counter, sim_now(counter->state));
    /* As in the kernel, a counter that waits for an exec is started by it even if it was stopped.
     */
    if (!counter->plan.at_exec || counter->execed)
        counter->on = false;
    pthread_mutex_unlock(&counter->state->lock);
    return 0;
}

/* ---- values ---- */

/* Returns the time on the hardware: with multiplex, half of the running time. */
static uint64_t counter_running_ns(const struct counter *counter)
{
    return counter->running_ns / (counter->hardware && counter->plan.multiplex ? 2 : 1);
}

static uint64_t tally_value(const struct tally *tally, uint64_t running_ns)
{
    const wide total = (wide)tally->rate * running_ns / 1000000 / tally->divisor;
    const wide kernel = total / 4;

    return (uint64_t)((tally->user ? total - kernel : 0) + (tally->kernel ? kernel : 0));
}

uint64_t counter_value(const struct counter *counter, unsigned event)
{
    return tally_value(&counter->tally[event], counter_running_ns(counter));
}

int counter_read(struct counter *counter, struct reading *out, bool patient)
{
    (void)patient; /* a simulated read never waits */
    pthread_mutex_lock(&counter->state->lock);
    const uint64_t now_ns = sim_now(counter->state);
    *out = (struct reading){0};
    counter_update(counter, now_ns);
    out->covered_ns = out->enabled_ns = out->running_ns = counter->covered_ns;
    if (counter->hardware)
        out->running_ns = counter_running_ns(counter);
    bool lost = now_ns >= counter->lose_at_ns;
    out->off_hardware = counter->on && !counter->dead && lost;
    pthread_mutex_unlock(&counter->state->lock);

    out->never_ran = out->enabled_ns > 0 && out->running_ns == 0;
    for (unsigned i = 0; i < counter->plan.n; i++) {
        out->value[i] = tally_value(&counter->tally[i], out->running_ns);
        if (out->running_ns > 0)
            out->estimate[i] = (uint64_t)((wide)out->value[i] * out->enabled_ns / out->running_ns);
    }
    return 0;
}

/* ---- life ---- */

static unsigned plan_descriptors(const struct backend_state *state, const struct plan *plan)
{
    return plan->n * (plan->target.kind == TARGET_CGROUP ? cpus_count(&state->pmu.online) : 1);
}

int descriptors_check(unsigned need, unsigned long fds_left, unsigned long fds_quota,
                      const char *limit, const char *what, struct err *err)
{
    if (need > fds_left)
        return err_set(
            err, P10,
            "%sneeds %u file descriptors, and %lu are left: raise LimitNOFILE= of pmcfs.service",
            what, need, fds_left);
    if (need > fds_quota)
        return err_set(err, P11,
                       "%sneeds %u file descriptors, and the quota has %lu left (%s): detach "
                       "targets or use fewer events",
                       what, need, fds_quota, limit);
    return 0;
}

int counter_attach(struct backend_state *state, const struct plan *plan, struct counter **out,
                   struct err *err)
{
    const struct target_ref *target = &plan->target;

    /* The engine has checked scope and CPUs. */
    if (target->alive && !target->alive(target->alive_arg))
        return err_set(err, E44, "no process %d", (int)target_number(target));
    int rc = descriptors_check(plan_descriptors(state, plan), plan->fds_left, plan->fds_quota,
                               plan->fds_limit_name, "", err);
    if (rc != 0)
        return rc;
    struct counter *counter = *out = calloc(1, sizeof *counter);
    if (counter == NULL)
        return err_nomem(err);
    counter->state = state;
    counter->plan = *plan;
    counter->lose_at_ns = UINT64_MAX;
    for (unsigned i = 0; i < plan->n; i++) {
        const struct event *event = plan->events[i].event;
        const uint64_t divisor = event->code[SIM_DIVISOR];

        counter->hardware |= state->pmu.classes[event->class_index].hardware;
        counter->tally[i] =
            (struct tally){.rate = event->code[SIM_RATE],
                           .divisor = divisor > 0 ? divisor : 1,
                           .user = event->counts_both_modes || plan->events[i].user,
                           .kernel = event->counts_both_modes || plan->events[i].kernel};
    }
    pthread_mutex_lock(&state->lock);
    counter->number = ++state->last_number;
    LIST_INSERT_HEAD(&state->counters, counter, of_state);
    pthread_mutex_unlock(&state->lock);
    return 0;
}

void counter_free(struct counter *counter)
{
    if (counter == NULL)
        return;
    struct backend_state *state = counter->state;
    pthread_mutex_lock(&state->lock);
    LIST_REMOVE(counter, of_state);
    pthread_mutex_unlock(&state->lock);
    free(counter);
}

/* ---- facts and state ---- */

void counter_each_process(const struct counter *counter, void (*fn)(void *arg, pid_t pid),
                          void *arg)
{
    if (target_is_task(&counter->plan.target))
        fn(arg, counter->plan.target.pid);
}

unsigned counter_read_cost(const struct counter *counter)
{
    (void)counter;
    return 1;
}

void counter_facts(const struct counter *counter, struct counter_facts *out)
{
    const bool task = target_is_task(&counter->plan.target);

    *out = (struct counter_facts){.threads = task,
                                  .descriptors = plan_descriptors(counter->state, &counter->plan),
                                  .covered = task};
}

bool counter_covers(struct counter *counter, pid_t pid)
{
    pthread_mutex_lock(&counter->state->lock);
    bool dead = counter->dead;
    pthread_mutex_unlock(&counter->state->lock);
    return target_is_task(&counter->plan.target) && !dead && counter->plan.target.pid == pid;
}

/* ---- a later worker finds its counters by their numbers ---- */

void counter_print(const struct counter *counter, struct buf *out)
{
    buf_printf(out, "sim %" PRIu64, counter->number);
}

void counter_forget(struct counter *counter)
{
    pthread_mutex_lock(&counter->state->lock);
    counter->plan.target.alive = NULL;
    counter->forgotten = true;
    pthread_mutex_unlock(&counter->state->lock);
}

int counter_adopt(struct backend_state *state, const struct plan *plan, const char *printed,
                  struct counter **out)
{
    struct counter *counter;
    uint64_t number;

    if (sscanf(printed, "sim %" SCNu64, &number) != 1)
        return -EINVAL;
    pthread_mutex_lock(&state->lock);
    LIST_FOREACH (counter, &state->counters, of_state)
        if (counter->forgotten && counter->number == number && counter->plan.n == plan->n)
            break;
    if (counter) {
        counter->forgotten = false;
        counter->plan.target = plan->target;
        counter->plan.recorder = plan->recorder;
    }
    pthread_mutex_unlock(&state->lock);
    *out = counter;
    return counter ? 0 : -EINVAL;
}
