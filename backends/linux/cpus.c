/*
 * The existing and the online CPUs, for whose changes the kernel sends messages on a netlink
 * socket, and the name of the processor.
 */
#include "backends/linux/linux.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define MESSAGES_MAX 64 /* per call from the loop; the rest causes another call */

/* Reads a list of CPUs. Returns false if the file cannot be read (errno) or is not a valid list
 * (errno 0). */
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

/*
 * Opens the socket, with a filter for "online@" and "offline@", because the kernel also sends
 * messages about mounts and devices. If it refuses the filter, all messages are received. Returns a
 * descriptor or -errno.
 */
static int socket_open(void)
{
    struct sockaddr_nl address = {.nl_family = AF_NETLINK,
                                  .nl_groups = 1}; /* messages of the kernel */
    struct sock_filter steps[] = {BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 0),
                                  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 'o' << 8 | 'n', 1, 0),
                                  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 'o' << 8 | 'f', 0, 1),
                                  BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
                                  BPF_STMT(BPF_RET | BPF_K, 0)};
    const struct sock_fprog program = {.len = sizeof steps / sizeof *steps, .filter = steps};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    const int rc = -errno;
    close(fd);
    return rc;
}

/* Reads up to MESSAGES_MAX messages. Returns true if CPUs may have changed. Adds each CPU that went
 * offline to *went_offline, even if it is online again. */
static bool uevents_read(const struct host_cpus *cpus, struct cpus *went_offline)
{
    char text[4096], rest;
    bool changed = false;
    unsigned cpu;

    for (int i = 0; i < MESSAGES_MAX; i++) {
        ssize_t n = read(cpus->fd, text, sizeof text - 1);
        if (n < 0 && errno == ENOBUFS)
            changed = true; /* messages were dropped: assume a change */
        else if (n < 0 && errno != EINTR)
            break;
        else if (n >= 0) {
            text[n] = '\0'; /* "online@/devices/system/cpu/cpu1" NUL, then variables */
            changed = changed || strstr(text, "@/devices/system/cpu/cpu");
            if (sscanf(text, "offline@/devices/system/cpu/cpu%5u%c", &cpu, &rest) == 1)
                cpus_add(went_offline, cpu);
        }
    }
    return changed;
}

/* Reads messages and reports the CPUs that went online or offline. Called on the main thread with
 * the engine's lock; reads of sysfs do not block. */
static void host_cpus_take_events(void *arg, uint64_t tag)
{
    (void)tag;
    struct host_state *state = arg;
    struct host_cpus *cpus = &state->cpus;
    struct cpus now = {0}, went_offline = {0};
    const bool changed = uevents_read(cpus, &went_offline) && list_read("online", &now);
    for (unsigned c = 0; changed && c < CPUS_MAX; c++) {
        const bool online = cpus_has(&now, c);
        const bool before = atomic_exchange(&cpus->online[c], online);
        const bool was_away =
            online && before && cpus_has(&went_offline, c); /* offline and online again */
        if (was_away)
            state->sink->cpu_changed(state->sink->ctx, c, false);
        if (was_away || online != before)
            state->sink->cpu_changed(state->sink->ctx, c, online);
    }
    cpus_free(&now);
    cpus_free(&went_offline);
}

static int list_refused(const char *name, struct err *err)
{
    const int rc = err_shortage(err, -errno);

    return rc ? rc
              : err_set(err, P14, "cannot read /sys/devices/system/cpu/%s: is /sys mounted?", name);
}

int host_cpus_open(struct host_state *state, struct err *err)
{
    struct host_cpus *cpus = &state->cpus;
    const struct loop *loop = state->loop;
    struct cpus online = {0};
    cpus->fd = -1;
    if (!list_read("possible", &cpus->possible))
        return list_refused("possible", err);
    /* A kernel without CPU hotplug has no list of online CPUs. */
    const bool listed = list_read("online", &online);
    int rc = !listed && errno && errno != ENOENT ? list_refused("online", err) : 0;
    for (unsigned c = 0; c < CPUS_MAX; c++)
        cpus->online[c] = cpus_has(listed ? &online : &cpus->possible, c);
    cpus_free(&online);
    if (rc == 0 && loop) {
        rc = cpus->fd = socket_open();
        if (rc >= 0)
            rc = loop->watch(loop->ctx, cpus->fd, EPOLLIN, host_cpus_take_events, state, 0);
        if (rc < 0) {
            fd_close(cpus->fd);
            cpus->fd = -1;
            if (!err_shortage(err, rc))
                err_set(err, P14,
                        "cannot receive CPU hotplug events: %s (allow AF_NETLINK sockets)",
                        err_errno_name(rc));
        }
    }
    if (rc < 0)
        host_cpus_close(state);
    return rc < 0 ? rc : 0;
}

void host_cpus_close(struct host_state *state)
{
    if (state->cpus.fd >= 0) {
        state->loop->unwatch(state->loop->ctx, state->cpus.fd);
        close(state->cpus.fd);
    }
    cpus_free(&state->cpus.possible);
}

void linux_cpus_possible(struct host_state *state, struct cpus *out)
{
    cpus_copy(out, &state->cpus.possible);
}

void linux_cpus_online(struct host_state *state, struct cpus *out)
{
    cpus_free(out);
    for (unsigned c = CPUS_MAX; c-- > 0;) /* downward, so that memory is allocated once */
        if (state->cpus.online[c])
            cpus_add(out, c);
}

/* ---- the name of the processor ---- */

struct part {
    unsigned implementer, part;
    const char *name;
};

static const struct part parts[] = {
    {0x41, 0xd03, "ARM Cortex-A53"},
    {0x41, 0xd04, "ARM Cortex-A35"},
    {0x41, 0xd05, "ARM Cortex-A55"},
    {0x41, 0xd06, "ARM Cortex-A65"},
    {0x41, 0xd07, "ARM Cortex-A57"},
    {0x41, 0xd08, "ARM Cortex-A72"},
    {0x41, 0xd09, "ARM Cortex-A73"},
    {0x41, 0xd0a, "ARM Cortex-A75"},
    {0x41, 0xd0b, "ARM Cortex-A76"},
    {0x41, 0xd0c, "ARM Neoverse-N1"},
    {0x41, 0xd0d, "ARM Cortex-A77"},
    {0x41, 0xd0e, "ARM Cortex-A76AE"},
    {0x41, 0xd40, "ARM Neoverse-V1"},
    {0x41, 0xd41, "ARM Cortex-A78"},
    {0x41, 0xd44, "ARM Cortex-X1"},
    {0x41, 0xd46, "ARM Cortex-A510"},
    {0x41, 0xd47, "ARM Cortex-A710"},
    {0x41, 0xd48, "ARM Cortex-X2"},
    {0x41, 0xd49, "ARM Neoverse-N2"},
    {0x41, 0xd4a, "ARM Neoverse-E1"},
    {0x41, 0xd4d, "ARM Cortex-A715"},
    {0x41, 0xd4e, "ARM Cortex-X3"},
    {0x41, 0xd4f, "ARM Neoverse-V2"},
    {0x41, 0xd80, "ARM Cortex-A520"},
    {0x41, 0xd81, "ARM Cortex-A720"},
    {0x41, 0xd82, "ARM Cortex-X4"},
    {0x41, 0xd84, "ARM Neoverse-V3"},
    {0x41, 0xd8e, "ARM Neoverse-N3"},
    {0x43, 0x0a1, "Cavium ThunderX"},
    {0x43, 0x0af, "Cavium ThunderX2"},
    {0x46, 0x001, "Fujitsu A64FX"},
    {0x48, 0xd01, "HiSilicon Kunpeng 920"},
    {0x50, 0x000, "APM X-Gene"},
    {0x51, 0xc00, "Qualcomm Falkor"},
    {0x51, 0x800, "Qualcomm Kryo 2 Gold"},
    {0x51, 0x801, "Qualcomm Kryo 2 Silver"},
    {0x61, 0x022, "Apple Icestorm (M1)"},
    {0x61, 0x023, "Apple Firestorm (M1)"},
    {0xc0, 0xac3, "Ampere-1"},
    {0xc0, 0xac4, "Ampere-1A"},
};

static bool field_print(const char *text, struct buf *out)
{
    /* x86 and s390; MIPS; LoongArch; PowerPC; RISC-V */
    static const char *const keys[] = {"model name", "cpu model", "Model Name", "cpu", "uarch"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *p = proc_field(text, keys[i]);
        size_t len = p ? strcspn(p, "\n") : 0;
        while (len > 0 && p[len - 1] == ' ')
            len--;
        if (len > 0) {
            buf_add(out, p, len);
            return true;
        }
    }
    return false;
}

static unsigned field_number(const char *text, const char *key)
{
    const char *p = proc_field(text, key);
    return p ? (unsigned)strtoul(p, NULL, 0) : 0;
}

/* Prints one name for each kind of core, in the order of their CPUs. */
static bool parts_print(const char *text, struct buf *out)
{
    unsigned seen[8];
    unsigned n = 0;
    for (const char *p = text; (p = proc_field(p, "CPU implementer"));) {
        unsigned implementer = (unsigned)strtoul(p, NULL, 0);
        unsigned part = field_number(p, "CPU part");
        unsigned midr = implementer << 24 | field_number(p, "CPU variant") << 20 | 0xf << 16 |
                        part << 4 | field_number(p, "CPU revision");
        bool known = false;
        for (unsigned i = 0; i < n; i++)
            known = known || seen[i] == midr;
        if (known || n == sizeof seen / sizeof *seen)
            continue;
        if (n > 0)
            buf_str(out, ", ");
        seen[n++] = midr;
        const char *name = NULL;
        for (size_t i = 0; i < sizeof parts / sizeof *parts && !name; i++)
            if (parts[i].implementer == implementer && parts[i].part == part)
                name = parts[i].name;
        if (name)
            buf_str(out, name);
        else
            buf_printf(out, "arm64 implementer 0x%02x part 0x%03x", implementer, part);
        buf_printf(out, " (MIDR 0x%08x)", midr);
    }
    return n > 0;
}

/* Uses /proc/cpuinfo, arm64's implementer and part numbers, or the name of the board. */
void linux_cpu_name(struct host_state *state, struct buf *out)
{
    (void)state;
    char *text = proc_text("/proc/cpuinfo");
    bool named = text && (field_print(text, out) || parts_print(text, out));
    free(text);
    if (named)
        return;
    text = proc_text("/sys/firmware/devicetree/base/model");
    if (text && *text)
        buf_str(out, text);
    else
        buf_str(out, "unknown processor");
    free(text);
}
