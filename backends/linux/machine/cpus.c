/*
 * The machine's CPUs: which exist and which are online, as they come and go. The kernel announces
 * changes on a netlink socket; where that cannot be had, the list is read every two seconds.
 */
#include "backends/linux/machine/cpus.h"

#include <errno.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define READ_INTERVAL_S 2
#define MESSAGES_MAX    64 /* for one call from the loop; the rest makes another */

struct host_cpus {
    struct cpus possible;  /* fixed */
    pthread_mutex_t mutex; /* a leaf: protects online */
    struct cpus online;
    int fd; /* netlink socket or timer, watched; -1 without a loop */
    bool netlink;
};

/* false: the file is absent or not a list (the kernel wrote nonsense, or there is no memory). */
static bool list_read(const char *name, struct cpus *out)
{
    char path[64];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/%s", name);
    char *text = proc_text(path);
    bool read = text && cpus_parse(out, (struct word){text, strcspn(text, "\n")}) == 0;
    free(text);
    return read;
}

static int socket_open(void)
{
    struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = 1}; /* the kernel's own */
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static int timer_open(void)
{
    struct itimerspec every = {.it_interval = {READ_INTERVAL_S, 0},
                               .it_value = {READ_INTERVAL_S, 0}};
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (fd >= 0)
        timerfd_settime(fd, 0, &every, NULL);
    return fd;
}

/* "offline@/devices/system/cpu/cpu1": whatever the list says by now, this one has been away. */
static void news_note(const char *text, struct cpus *went)
{
    unsigned cpu;
    char rest;
    if (sscanf(text, "offline@/devices/system/cpu/cpu%5u%c", &cpu, &rest) == 1)
        cpus_add(went, cpu);
}

/* Empties the descriptor; true if CPUs may have changed. */
static bool news_read(const struct host_cpus *cpus, struct cpus *went)
{
    char text[4096];
    bool news = !cpus->netlink;
    for (int i = 0; i < MESSAGES_MAX; i++) {
        ssize_t n = read(cpus->fd, text, sizeof text - 1);
        if (n < 0 && errno == ENOBUFS)
            news = true; /* messages were dropped: look */
        else if (n < 0 && errno != EINTR)
            break;
        else if (n >= 0) {
            text[n] = '\0'; /* "online@/devices/system/cpu/cpu1" NUL, then variables */
            news = news || strstr(text, "@/devices/system/cpu/cpu");
            news_note(text, went);
        }
    }
    return news;
}

/* The new list, with *before the one until now. */
static bool online_swap(struct host_cpus *cpus, struct cpus *before)
{
    struct cpus now;
    cpus_init(&now);
    if (!list_read("online", &now)) {
        cpus_free(&now);
        return false;
    }
    pthread_mutex_lock(&cpus->mutex);
    *before = cpus->online;
    cpus->online = now;
    pthread_mutex_unlock(&cpus->mutex);
    return true;
}

/* On the main thread, with the engine's lock: sysfs answers from memory. */
static void host_cpus_news(void *arg, uint64_t tag)
{
    (void)tag;
    struct host_state *state = arg;
    struct host_cpus *cpus = state->cpus;
    struct cpus before, went;
    cpus_init(&went);
    if (!news_read(cpus, &went) || !online_swap(cpus, &before)) {
        cpus_free(&went);
        return;
    }
    for (unsigned c = 0; c < CPUS_MAX; c++) {
        bool online = cpus_has(&cpus->online, c); /* only this thread ever changes it */
        bool away = online && cpus_has(&before, c) && cpus_has(&went, c); /* and back already */
        if (away)
            state->sink->cpu(state->sink->ctx, c, false);
        if (away || online != cpus_has(&before, c))
            state->sink->cpu(state->sink->ctx, c, online);
    }
    cpus_free(&before);
    cpus_free(&went);
}

static int host_cpus_watch(struct host_state *state, struct err *err)
{
    struct host_cpus *cpus = state->cpus;
    if (!state->loop)
        return 0;
    cpus->fd = socket_open();
    cpus->netlink = cpus->fd >= 0;
    if (cpus->fd < 0)
        cpus->fd = timer_open();
    if (cpus->fd < 0)
        return err_set(err, P14, "CPU hotplug cannot be followed: %s", err_errno_name(errno));
    int rc = state->loop->watch(state->loop->ctx, cpus->fd, EPOLLIN, host_cpus_news, state, 0);
    if (rc < 0) {
        close(cpus->fd);
        cpus->fd = -1;
        return err_set(err, P14, "CPU hotplug cannot be followed: %s", err_errno_name(rc));
    }
    return 0;
}

int host_cpus_open(struct host_state *state, struct err *err)
{
    struct host_cpus *cpus = calloc(1, sizeof *cpus);
    if (!cpus)
        return err_set(err, E32, "no memory for the list of CPUs");
    cpus->fd = -1;
    cpus_init(&cpus->possible);
    cpus_init(&cpus->online);
    pthread_mutex_init(&cpus->mutex, NULL);
    state->cpus = cpus;
    if (!list_read("possible", &cpus->possible)) {
        host_cpus_close(state);
        return err_set(err, P14,
                       "/sys/devices/system/cpu/possible cannot be read: is /sys mounted?");
    }
    /* A kernel without hotplug has no list of those online. */
    bool listed = list_read("online", &cpus->online) || cpus_copy(&cpus->online, &cpus->possible);
    int rc =
        listed ? host_cpus_watch(state, err) : err_set(err, E32, "no memory for the list of CPUs");
    if (rc < 0)
        host_cpus_close(state);
    return rc;
}

void host_cpus_close(struct host_state *state)
{
    struct host_cpus *cpus = state->cpus;
    if (cpus->fd >= 0) {
        state->loop->unwatch(state->loop->ctx, cpus->fd);
        close(cpus->fd);
    }
    cpus_free(&cpus->possible);
    cpus_free(&cpus->online);
    pthread_mutex_destroy(&cpus->mutex);
    free(cpus);
    state->cpus = NULL;
}

void host_cpus_possible(struct host_state *state, struct cpus *out)
{
    cpus_copy(out, &state->cpus->possible);
}

void host_cpus_online(struct host_state *state, struct cpus *out)
{
    pthread_mutex_lock(&state->cpus->mutex);
    cpus_copy(out, &state->cpus->online);
    pthread_mutex_unlock(&state->cpus->mutex);
}
