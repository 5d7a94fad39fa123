/*
 * The Linux implementation of core/host.h: checks at the start, clocks, limits, and the table of
 * functions.
 */
#include "backends/linux/linux.h"
#include "backends/backends.h"
#include "core/backend.h"
#include "core/base/clock.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__) || defined(__i386__)
#include <x86intrin.h>
#endif

#define MEASURE_MIN_NS 1000000 /* a shorter interval is not exact enough for tsc_hz() */

/* ---- clocks ---- */

static uint64_t host_now_ns(struct host_state *state)
{
    (void)state;
    return monotonic_ns();
}

static uint64_t host_realtime_ns(struct host_state *state)
{
    (void)state;
    return clock_ns(CLOCK_REALTIME);
}

static uint64_t host_tsc(struct host_state *state)
{
    uint64_t value = 0;
    (void)state;
#if defined(__x86_64__) || defined(__i386__)
    value = __rdtsc();
#elif defined(__aarch64__)
    __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(value) : : "memory");
#endif
    return value;
}

static uint64_t host_tsc_hz(struct host_state *state)
{
    const uint64_t ns = monotonic_ns() - state->began_ns;
    if (state->began_tsc == 0 || ns < MEASURE_MIN_NS)
        return 0;
    return (uint64_t)((double)(host_tsc(state) - state->began_tsc) * 1e9 / (double)ns);
}

/* ---- start and end ---- */

/* Checks that /proc shows the daemon's PID namespace. */
static int proc_check(pid_t self, struct err *err)
{
    char link[32];
    ssize_t n = readlink("/proc/self", link, sizeof link - 1);
    if (n < 0)
        return err_set(err, P14,
                       "/proc is not mounted, and pmcfs needs it to find processes: mount it");
    link[n] = '\0';
    if (strtol(link, NULL, 10) != self)
        return err_set(err, P14,
                       "/proc belongs to another PID namespace (pmcfs is %s there and %d here): "
                       "mount a new /proc in this one",
                       link, self);
    return 0;
}

static int host_open(const struct loop *loop, const struct sink *sink, struct host_state **out,
                     struct err *err)
{
    struct host_state *state = calloc(1, sizeof *state);
    if (!state)
        return err_set(err, E32, "no memory for the list of processes: free memory on this host");
    *state = (struct host_state){.loop = loop, .sink = sink, .self = getpid()};
    state->began_tsc = host_tsc(state);
    state->began_ns = monotonic_ns();
    int rc = proc_check(state->self, err);
    const int cgroup = ns_identify(state->self, "cgroup", &state->cgroupns);
    if (rc == 0 &&
        (ns_identify(state->self, "pid", &state->pidns) < 0 ||
         ns_identify(state->self, "user", &state->userns) < 0 || (cgroup < 0 && cgroup != -ENOENT)))
        rc = err_set(err, P14,
                     "cannot read /proc/%d/ns, which is needed to distinguish containers: "
                     "mount /proc without restrictions",
                     state->self);
    if (rc == 0)
        rc = host_cpus_open(state, err);
    if (rc < 0) {
        free(state);
        return rc;
    }
    host_cgroups_open(state);
    state->pidns_fd = ns_open(state->self, "pid");
    state->userns_fd = ns_open(state->self, "user");
    *out = state;
    return 0;
}

static void host_close(struct host_state *state)
{
    host_cgroups_close(state);
    host_cpus_close(state);
    fd_close(state->pidns_fd);
    fd_close(state->userns_fd);
    free(state);
}

/* ---- limits ---- */

static uint64_t host_callchain_max(void)
{
    return proc_number("/proc/sys/kernel/perf_event_max_stack", UINT64_MAX);
}

/* Returns the lowest limit of a control group and its parents; UINT64_MAX: none. Shortens the
 * path. */
static uint64_t group_memory_max(const char *root, char *group, const char *file)
{
    uint64_t least = UINT64_MAX;
    char path[PATH_MAX];

    for (char *end = group + strlen(group); end; end = strrchr(group, '/')) {
        *end = '\0';
        snprintf(path, sizeof path, "%s%s/%s", root, group, file);
        char *text = proc_text(path);
        uint64_t max = text && *text != 'm' ? strtoull(text, NULL, 10) : UINT64_MAX;
        least = max < least ? max : least;
        free(text);
    }
    return least;
}

static uint64_t host_memory_max(void)
{
    char *text = proc_text("/proc/self/cgroup"), *save = NULL;
    uint64_t max = UINT64_MAX;

    for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line;
         line = strtok_r(NULL, "\n", &save)) {
        char *v1 = strstr(line, ":memory:");
        if (v1)
            max = group_memory_max("/sys/fs/cgroup/memory", v1 + 8, "memory.limit_in_bytes");
        else if (strncmp(line, "0::", 3) == 0 && max == UINT64_MAX)
            max = group_memory_max("/sys/fs/cgroup", line + 3, "memory.max");
    }
    free(text);
    return max;
}

const struct host linux_host = {
    .name = "linux",
    .open = host_open,
    .close = host_close,
    .now_ns = host_now_ns,
    .realtime_ns = host_realtime_ns,
    .tsc = host_tsc,
    .tsc_hz = host_tsc_hz,
    .cpu_name = linux_cpu_name,
    .cpus_possible = linux_cpus_possible,
    .cpus_online = linux_cpus_online,
    .caller_rights = linux_caller_rights,
    .caller_rights_rest = linux_caller_rights_rest,
    .caller_opener = linux_caller_opener,
    .process_open = linux_process_open,
    .process_first = linux_process_first,
    .process_free = linux_process_free,
    .process_pid = linux_process_pid,
    .process_tid = linux_process_tid,
    .process_key = linux_process_key,
    .process_alive = linux_process_alive,
    .process_name = linux_process_name,
    .may_observe = linux_process_may_observe,
    .may_observe_pid = linux_process_may_observe_pid,
    .process_headless = linux_process_headless,
    .process_watch = linux_process_watch,
    .process_unwatch = linux_process_unwatch,
    .pid_seen_by = linux_pid_seen_by,
    .caller_pid = linux_caller_pid,
    .pid_key = linux_pid_key,
    .caller_key = linux_caller_key,
    .callchain_max = host_callchain_max,
    .memory_max = host_memory_max,
    .inventory = linux_inventory,
    .kernel_maps = linux_kernel_maps,
    .view_open = linux_view_open,
    .view_free = linux_view_free,
    .view_pid = linux_view_pid,
    .view_forget_pid = linux_view_forget_pid,
    .view_print = linux_view_print,
    .view_adopt = linux_view_adopt,
    .view_forget = linux_view_forget,
    .cgroup_open = linux_cgroup_open,
    .cgroup_root = linux_cgroup_root,
    .cgroup_reopen_root = linux_cgroup_reopen_root,
    .cgroup_watch = linux_cgroup_watch,
    .cgroup_unwatch = linux_cgroup_unwatch,
    .cgroup_key = linux_cgroup_key,
    .cgroup_alive = linux_cgroup_alive,
    .process_print = linux_process_print,
    .process_adopt = linux_process_adopt,
    .process_forget = linux_process_forget,
};
