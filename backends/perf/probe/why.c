/*
 * The table of reasons: the first row that fits gives the sentence. Holes in it: %e the event, %t
 * the target, %p the present value of perf_event_paranoid, %c the errno's name, %k the kernel's
 * release, %b what may forbid it (why_barriers).
 */
#include "backends/perf/probe/why.h"

#include "backends/perf/probe/code.h"

#include "core/base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static bool file_read(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

int why_paranoid(void)
{
    char text[16];

    return file_read("/proc/sys/kernel/perf_event_paranoid", text, sizeof text) ? atoi(text) : 2;
}

/* A number behind "NAME:" in what the kernel says of this thread; 0 when it does not say it. */
static uint64_t status_number(const char *name, int base)
{
    char text[4096], *at;

    if (!file_read("/proc/thread-self/status", text, sizeof text))
        return 0;
    at = strstr(text, name);
    return at ? strtoull(at + strlen(name), NULL, base) : 0;
}

/* Capabilities count in the initial user namespace only: its map covers every number. */
static bool is_initial_user_ns(void)
{
    char text[64];
    unsigned long first, outside, n;

    return !file_read("/proc/self/uid_map", text, sizeof text) ||
           (sscanf(text, "%lu %lu %lu", &first, &outside, &n) == 3 && first == outside &&
            n == UINT32_MAX);
}

static bool may_observe(void)
{
    const uint64_t either = UINT64_C(1) << CAP_PERFMON | UINT64_C(1) << CAP_SYS_ADMIN;

    return (status_number("\nCapEff:", 16) & either) && is_initial_user_ns();
}

static bool is_filtered(void)
{
    return status_number("\nSeccomp:", 10) == 2;
}

const char *why_lockdown(char text[LOCKDOWN_BYTES])
{
    char *open = NULL, *end = NULL;

    if (file_read("/sys/kernel/security/lockdown", text, LOCKDOWN_BYTES)) {
        open = strchr(text, '[');
        end = open ? strchr(open, ']') : NULL;
    }
    if (!end)
        return "";
    *end = '\0';
    return open + 1;
}

void why_barriers(struct buf *out)
{
    char text[LOCKDOWN_BYTES];
    const char *lockdown = why_lockdown(text);
    bool capable = may_observe(), filtered = is_filtered(), locked = strlen(lockdown) > 4;

    if (!capable)
        buf_printf(out, "pmcfs lacks CAP_PERFMON, and kernel.perf_event_paranoid is %d",
                   why_paranoid());
    if (filtered)
        buf_printf(out, "%sa seccomp filter is on pmcfs (a container's or a service's)",
                   capable ? "" : "; ");
    if (locked)
        buf_printf(out, "%sthe kernel is locked down (%s)", capable && !filtered ? "" : "; ",
                   lockdown);
    if (capable && !filtered && !locked)
        buf_printf(out, "pmcfs has CAP_PERFMON, so a security module forbids it");
}

void why_users(struct buf *out)
{
    char text[8];

    if (file_read("/proc/sys/kernel/nmi_watchdog", text, sizeof text) && text[0] == '1')
        buf_str(out, "the kernel's NMI watchdog is one (kernel.nmi_watchdog is 1)");
    else
        buf_str(out, "another user of perf, a driver or a virtual machine");
}

static bool is_any(const struct why *why)
{
    (void)why;
    return true;
}

static bool is_task(const struct why *why)
{
    return why->target &&
           (why->target->kind == TARGET_PROCESS || why->target->kind == TARGET_THREAD);
}

static bool is_cpu(const struct why *why)
{
    return why->target && why->target->kind == TARGET_CPU;
}

static bool is_cgroup(const struct why *why)
{
    return why->target && why->target->kind == TARGET_CGROUP;
}

static bool is_paranoid_3(const struct why *why)
{
    (void)why;
    return why_paranoid() >= 3 && !may_observe();
}

static bool is_system_wide(const struct why *why)
{
    return (is_cpu(why) || is_cgroup(why)) && why_paranoid() >= 1 && !may_observe();
}

static bool is_kernel_mode(const struct why *why)
{
    return !why->attr->exclude_kernel && why_paranoid() >= 2 && !may_observe();
}

static bool is_tracepoint(const struct why *why)
{
    return why->attr->type == PERF_TYPE_TRACEPOINT;
}

static bool is_breakpoint(const struct why *why)
{
    return why->attr->type == PERF_TYPE_BREAKPOINT;
}

static bool is_breakpoint_in_kernel(const struct why *why)
{
    return is_breakpoint(why) && why->attr->bp_addr >= USER_END;
}

static bool is_breakpoint_hidden(const struct why *why)
{
    return is_breakpoint_in_kernel(why) && why->attr->exclude_kernel;
}

static bool is_breakpoint_code(const struct why *why)
{
    return is_breakpoint_in_kernel(why) && why->attr->bp_type == HW_BREAKPOINT_X;
}

static bool is_tracepoint_denied(const struct why *why)
{
    return is_tracepoint(why) && !may_observe();
}

static bool is_breakpoint_denied(const struct why *why)
{
    return is_breakpoint(why) && !may_observe();
}

static bool is_seccomp(const struct why *why)
{
    (void)why;
    return is_filtered();
}

static bool is_software(const struct why *why)
{
    return why->attr->type == PERF_TYPE_SOFTWARE;
}

static bool is_processor(const struct why *why)
{
    return why->attr->type == PERF_TYPE_HARDWARE || why->attr->type == PERF_TYPE_HW_CACHE ||
           why->attr->type == PERF_TYPE_RAW;
}

static bool is_member(const struct why *why)
{
    return why->member;
}

static bool is_breakpoint_check(const struct why *why)
{
    return is_breakpoint(why) && !why->target;
}

static bool is_check(const struct why *why)
{
    return !why->target;
}

static bool is_member_on_target(const struct why *why)
{
    return why->member && why->target;
}

static bool is_sampling(const struct why *why)
{
    return why->attr->sample_period;
}

/* Of a PMU that is not the processor's. */
static bool is_sampling_device(const struct why *why)
{
    return is_sampling(why) && why->attr->type >= PERF_TYPE_MAX;
}

static bool is_frequency(const struct why *why)
{
    return why->attr->freq;
}

static bool is_excluding(const struct why *why)
{
    return why->attr->exclude_user || why->attr->exclude_kernel || why->attr->exclude_guest;
}

static const struct why_row {
    int code;
    bool (*fits)(const struct why *why);
    enum err_id id;
    const char *sentence;
} why_table[] = {
    {ESRCH, is_task, X09, "%t is exiting"},
    {ENODEV, is_cpu, E37, "%t is offline"},
    {EINVAL, is_member_on_target, E05,
     "%t has not enough counters to count \"%e\" together with the events before it"},
    {EINVAL, is_member, CS08,
     "\"%e\" cannot be counted together with the events before it: one class has not that many "
     "counters, or they belong to two hardware classes; write fewer, or two PMCs"},
    {EACCES, is_paranoid_3, P14,
     "the kernel lets nobody without CAP_PERFMON (or CAP_SYS_ADMIN) count \"%e\": "
     "kernel.perf_event_paranoid is %p; give pmcfs that capability, or set it to 2"},
    {EPERM, is_paranoid_3, P14,
     "the kernel lets nobody without CAP_PERFMON (or CAP_SYS_ADMIN) count \"%e\": "
     "kernel.perf_event_paranoid is %p; give pmcfs that capability, or set it to 2"},
    {EACCES, is_system_wide, P14,
     "pmcfs may not count \"%e\" on %t: kernel.perf_event_paranoid is %p and pmcfs lacks "
     "CAP_PERFMON"},
    {EACCES, is_kernel_mode, P14,
     "pmcfs may not count \"%e\" in kernel mode: kernel.perf_event_paranoid is %p and pmcfs lacks "
     "CAP_PERFMON"},
    {EPERM, is_tracepoint_denied, P14,
     "the tracepoint \"%e\" needs CAP_PERFMON, which pmcfs lacks (kernel.perf_event_paranoid is "
     "%p)"},
    {EPERM, is_breakpoint_denied, P14,
     "a breakpoint at a kernel address (\"%e\") needs CAP_PERFMON, which pmcfs lacks (%c)"},
    {EACCES, is_task, P14, "the kernel does not let pmcfs observe %t: %b"},
    {EPERM, is_any, P14, "the kernel forbids perf_event_open for \"%e\": %b"},
    {EACCES, is_any, P14, "the kernel forbids perf_event_open for \"%e\": %b"},
    {ENOENT, is_cgroup, P09,
     "perf does not know the cgroup hierarchy of %t: the v1 controller perf_event is mounted "
     "instead"},
    {ENOENT, is_processor, P09,
     "this machine has no counter for \"%e\": no PMU (a virtual machine?), or not one that knows "
     "it"},
    {ENOENT, is_tracepoint, P09,
     "the tracepoint \"%e\" is no longer there: its module was unloaded"},
    {ENOENT, is_software, P09, "this kernel (%k) is too old for \"%e\": it does not know it"},
    {ENOENT, is_any, P09, "the kernel does not know the event \"%e\" (its PMU is gone)"},
    {ENXIO, is_any, P09, "the hardware behind \"%e\" is absent here"},
    {ENODEV, is_any, P09, "the driver behind \"%e\" is gone"},
    {EOPNOTSUPP, is_sampling, P09,
     "the PMU raises no interrupt for \"%e\", or a virtual machine holds it: it cannot be sampled; "
     "without period and freq it may be counted"},
    {EOPNOTSUPP, is_any, P09,
     "the PMU cannot count \"%e\" in this way: it lacks the ability, or a virtual machine holds "
     "it"},
    {EINVAL, is_cpu, E37,
     "%t cannot count \"%e\": no such CPU, or the event does not belong to it"},
    {EINVAL, is_sampling_device, P09,
     "the PMU of \"%e\" cannot be sampled; without period and freq it may be counted"},
    {EINVAL, is_frequency, P09,
     "\"%e\" cannot be sampled at that frequency: it is above the kernel's present limit "
     "(kernel.perf_event_max_sample_rate), which sinks under load"},
    {EINVAL, is_processor, P09,
     "the PMU refuses the encoding of \"%e\": reserved bits, or a combination that it does not "
     "have"},
    {EINVAL, is_breakpoint_hidden, P09,
     "the breakpoint \"%e\" is at a kernel address, where only kernel mode comes: kernel=on"},
    {EINVAL, is_breakpoint_code, P09,
     "this kernel lets no breakpoint stop at its code at \"%e\": it has no kprobes, or they may "
     "not "
     "stop there either"},
    {EINVAL, is_breakpoint, P09,
     "the processor refuses the breakpoint \"%e\": address not aligned, or a length or kind of "
     "access it does not have (x86 has no reads without writes: rw)"},
    {EINVAL, is_excluding, P09,
     "the PMU cannot tell user from kernel mode for \"%e\", or has no per-process counting"},
    {EINVAL, is_check, P09,
     "the PMU refuses the encoding of \"%e\": it has no such event, or not with these bits"},
    {EINVAL, is_any, P09, "the kernel refuses the encoding of \"%e\" for %t"},
    {ENOSPC, is_breakpoint_check, E19,
     "the processor has not enough breakpoint registers for \"%e\" and the events before it"},
    {ENOSPC, is_breakpoint, E05, "all breakpoint registers of %t are in use"},
    {ENOSPC, is_check, E19, "no counter is left for \"%e\""},
    {ENOSPC, is_any, E05, "no counter is left for \"%e\" on %t"},
    {EBUSY, is_check, P09, "another user of perf, a driver or the kernel holds the PMU of \"%e\""},
    {EBUSY, is_any, E05, "another user holds the PMU of \"%e\" exclusively"},
    {EMFILE, is_any, P10,
     "no descriptor was left while opening \"%e\": raise LimitNOFILE of pmcfs"},
    {ENFILE, is_any, P10, "the whole machine has no descriptor left (fs.file-max)"},
    {EOVERFLOW, is_any, P09,
     "call chains of \"%e\" are to be deeper than kernel.perf_event_max_stack allows"},
    {ENOMEM, is_any, E32, "the kernel had no memory for \"%e\""},
    {E2BIG, is_member, CS08, "the set is larger than the kernel reads at once; leave out \"%e\""},
    {E2BIG, is_any, P09, "this kernel (%k) is too old for a setting of \"%e\""},
    {ENOSYS, is_seccomp, P14, "perf_event_open is hidden from pmcfs: %b"},
    {ENOSYS, is_any, P09, "this kernel was built without perf events"},
    {0, is_any, P14, "the kernel refused \"%e\" on %t unexpectedly: %c"},
};

static void target_words(struct buf *out, const struct target_ref *target)
{
    if (!target)
        buf_str(out, "an idle thread");
    else if (target->kind == TARGET_CPU)
        buf_printf(out, "cpu%u", target->cpu);
    else if (target->kind == TARGET_CGROUP)
        buf_str(out, "the cgroup");
    else if (target->kind == TARGET_THREAD)
        buf_printf(out, "thread %d", target_said(target));
    else
        buf_printf(out, "process %d", target_said(target));
}

static void release_words(struct buf *out)
{
    struct utsname name;

    buf_str(out, uname(&name) == 0 ? name.release : "of an unknown release");
}

static void why_print(struct buf *out, const char *sentence, const struct why *why)
{
    for (const char *p = sentence; *p; p++) {
        if (*p != '%') {
            buf_char(out, *p);
            continue;
        }
        switch (*++p) {
        case 'e':
            buf_str(out, why->event);
            break;
        case 't':
            target_words(out, why->target);
            break;
        case 'p':
            buf_i64(out, why_paranoid());
            break;
        case 'c':
            buf_str(out, err_errno_name(why->code));
            break;
        case 'k':
            release_words(out);
            break;
        case 'b':
            why_barriers(out);
            break;
        default:
            break;
        }
    }
}

int why_refused(struct err *err, const struct why *why)
{
    const struct why_row *row = why_table;
    char storage[512];
    struct buf text;
    int rc;

    while (row->code && (row->code != why->code || !row->fits(why)))
        row++;
    buf_init(&text, storage, sizeof storage);
    why_print(&text, row->sentence, why);
    rc = err_set(err, row->id, "%s", buf_text(&text));
    buf_free(&text);
    return rc;
}
