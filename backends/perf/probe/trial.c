/*
 * The idle thread of the backend, and groups that are opened to see whether they can be.
 */
#include "backends/perf/probe/trial.h"

#include "backends/perf/probe/open.h"
#include "backends/perf/probe/pmu.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

bool probe_thread(pthread_t *thread, void *(*run)(void *), void *arg)
{
    sigset_t all, old;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc == 0;
}

static void *parked_run(void *arg)
{
    struct parked *parked = arg;

    parked->tid = (pid_t)syscall(SYS_gettid);
    sem_post(&parked->ready);
    for (;;)
        pause();
    return NULL;
}

bool parked_start(struct parked *parked)
{
    sem_init(&parked->ready, 0, 0);
    if (!probe_thread(&parked->thread, parked_run, parked))
        return false;
    while (sem_wait(&parked->ready) < 0)
        ;
    return true;
}

void parked_stop(struct parked *parked)
{
    if (!parked->tid)
        return;
    pthread_cancel(parked->thread);
    pthread_join(parked->thread, NULL);
    sem_destroy(&parked->ready);
}

int trial_add(struct trial *trial, const struct perf_event_attr *attr)
{
    struct perf_event_attr copy = *attr;

    if (trial->n == TRIAL_MAX)
        return -ENOSPC;
    copy.disabled = trial->cpu >= 0 && trial->n == 0;
    int fd =
        pmus_note(event_open(&copy, trial->tid, trial->cpu, trial->n > 0 ? trial->fd[0] : -1, 0));
    if (fd < 0)
        return fd;
    trial->fd[trial->n++] = fd;
    return 0;
}

unsigned trial_fill(struct trial *trial, const struct perf_event_attr *attr, unsigned max)
{
    unsigned added = 0;

    while (added < max && trial_add(trial, attr) == 0)
        added++;
    return added;
}

void trial_clear(struct trial *trial)
{
    while (trial->n > 0)
        event_close(&trial->fd[--trial->n]);
}
