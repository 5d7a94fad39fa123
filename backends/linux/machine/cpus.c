/*
 * The existing and the online CPUs. The kernel announces changes on a netlink socket.
 */
#include "backends/linux/machine/cpus.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define MESSAGES_MAX 64 /* for one call from the loop; the rest makes another */

/* Reads a list of CPUs. Returns false if the file is absent or not valid (errno 0). */
static bool list_read(const char *name, struct cpus *out)
{
    char path[64];
    errno = 0;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/%s", name);
    char *text = proc_text(path);
    bool read = text && cpus_parse(out, (struct word){text, strcspn(text, "\n")}) == 0;
    free(text);
    return read;
}

/* Filters the socket for "online@" and "offline@", because mounts and devices are announced too. If
 * the kernel refuses the filter, all messages are received. */
static void socket_narrow(int fd)
{
    struct sock_filter steps[] = {BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 0),
                                  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 'o' << 8 | 'n', 1, 0),
                                  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 'o' << 8 | 'f', 0, 1),
                                  BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
                                  BPF_STMT(BPF_RET | BPF_K, 0)};
    const struct sock_fprog program = {.len = sizeof steps / sizeof *steps, .filter = steps};

    setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

static int socket_open(void)
{
    struct sockaddr_nl address = {.nl_family = AF_NETLINK,
                                  .nl_groups = 1}; /* messages of the kernel */
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);
    if (fd < 0)
        return -errno;
    socket_narrow(fd);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    const int rc = -errno;
    close(fd);
    return rc;
}

/* Notes a CPU that was offline ("offline@/devices/system/cpu/cpu1"), even if it is online again. */
static void news_note(const char *text, struct cpus *went)
{
    unsigned cpu;
    char rest;
    if (sscanf(text, "offline@/devices/system/cpu/cpu%5u%c", &cpu, &rest) == 1)
        cpus_add(went, cpu);
}

/* Reads all messages. Returns true if CPUs may have changed. */
static bool news_read(const struct host_cpus *cpus, struct cpus *went)
{
    char text[4096];
    bool news = false;
    for (int i = 0; i < MESSAGES_MAX; i++) {
        ssize_t n = read(cpus->fd, text, sizeof text - 1);
        if (n < 0 && errno == ENOBUFS)
            news = true; /* messages were dropped: assume a change */
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

/* Called on the main thread with the engine's lock; reads of sysfs do not block. */
static void host_cpus_news(void *arg, uint64_t tag)
{
    (void)tag;
    struct host_state *state = arg;
    struct host_cpus *cpus = &state->cpus;
    struct cpus now, went;
    cpus_init(&now);
    cpus_init(&went);
    const bool news = news_read(cpus, &went) && list_read("online", &now);
    for (unsigned c = 0; news && c < CPUS_MAX; c++) {
        const bool online = cpus_has(&now, c);
        const bool before = atomic_exchange(&cpus->online[c], online);
        const bool away = online && before && cpus_has(&went, c); /* offline and online again */
        if (away)
            state->sink->cpu(state->sink->ctx, c, false);
        if (away || online != before)
            state->sink->cpu(state->sink->ctx, c, online);
    }
    cpus_free(&now);
    cpus_free(&went);
}

static int host_cpus_watch(struct host_state *state, struct err *err)
{
    struct host_cpus *cpus = &state->cpus;
    const struct loop *loop = state->loop;
    if (!loop)
        return 0;
    int rc = cpus->fd = socket_open();
    if (rc >= 0)
        rc = loop->watch(loop->ctx, cpus->fd, EPOLLIN, host_cpus_news, state, 0);
    if (rc >= 0)
        return 0;
    if (cpus->fd >= 0)
        close(cpus->fd);
    cpus->fd = -1;
    return err_set(err, P14, "cannot receive CPU hotplug events: %s", err_errno_name(rc));
}

static int list_refused(const char *name, struct err *err)
{
    return err_set(err, P14, "cannot read /sys/devices/system/cpu/%s: %s", name,
                   errno == ENOMEM || errno == EMFILE || errno == ENFILE ? err_errno_name(-errno)
                                                                         : "is /sys mounted?");
}

int host_cpus_open(struct host_state *state, struct err *err)
{
    struct host_cpus *cpus = &state->cpus;
    struct cpus online;
    cpus->fd = -1;
    if (!list_read("possible", &cpus->possible))
        return list_refused("possible", err);
    cpus_init(&online);
    /* A kernel without CPU hotplug has no list of online CPUs. */
    const bool listed = list_read("online", &online);
    int rc = !listed && errno && errno != ENOENT ? list_refused("online", err) : 0;
    for (unsigned c = 0; c < CPUS_MAX; c++)
        cpus->online[c] = cpus_has(listed ? &online : &cpus->possible, c);
    cpus_free(&online);
    if (rc == 0)
        rc = host_cpus_watch(state, err);
    if (rc < 0)
        host_cpus_close(state);
    return rc;
}

void host_cpus_close(struct host_state *state)
{
    if (state->cpus.fd >= 0) {
        state->loop->unwatch(state->loop->ctx, state->cpus.fd);
        close(state->cpus.fd);
    }
    cpus_free(&state->cpus.possible);
}

void host_cpus_possible(struct host_state *state, struct cpus *out)
{
    cpus_copy(out, &state->cpus.possible);
}

void host_cpus_online(struct host_state *state, struct cpus *out)
{
    cpus_free(out);
    for (unsigned c = CPUS_MAX; c-- > 0;) /* downward, so that memory is allocated once */
        if (state->cpus.online[c])
            cpus_add(out, c);
}
