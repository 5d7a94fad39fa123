/*
 * The table of reasons: the first matching row has the sentence. Placeholders: %e the event, %t the
 * target, %c the name of the errno, %k the kernel release, %b obstacles (obstacles_print()).
 */
#include "backends/perf/probe/probe.h"

#include "backends/perf/probe/open.h"
#include "backends/perf/probe/pmu.h"

#include "core/base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#define INITIAL_USER_NS "user:[4026531837]" /* fixed in the kernel */

int why_paranoid(void)
{
    char text[16];

    return file_read(AT_FDCWD, "/proc/sys/kernel/perf_event_paranoid", text, sizeof text) > 0
               ? atoi(text)
               : 2;
}

static bool is_filtered(void)
{
    return prctl(PR_GET_SECCOMP) == 2;
}

/* Prints the reasons why the kernel may forbid perf_event_open(2) to pmcfs: CAP_PERFMON in the
 * initial user namespace, seccomp, and the lockdown (the word in brackets of "none [integrity]
 * confidentiality"). */
static void obstacles_print(struct buf *out)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct has[2] = {{0}};
    char space[64] = "", text[64];
    const char *sep = "", *lockdown;

    if ((readlink("/proc/self/ns/user", space, sizeof space - 1) > 0 &&
         strcmp(space, INITIAL_USER_NS) != 0) ||
        syscall(SYS_capget, &head, has) != 0 ||
        !((has[CAP_TO_INDEX(CAP_PERFMON)].effective & CAP_TO_MASK(CAP_PERFMON)) ||
          (has[CAP_TO_INDEX(CAP_SYS_ADMIN)].effective & CAP_TO_MASK(CAP_SYS_ADMIN)))) {
        buf_printf(out, "pmcfs lacks CAP_PERFMON, and kernel.perf_event_paranoid is %d",
                   why_paranoid());
        sep = "; ";
    }
    if (is_filtered()) {
        buf_printf(out, "%sa seccomp filter of its container or service restricts pmcfs", sep);
        sep = "; ";
    }
    file_read(AT_FDCWD, "/sys/kernel/security/lockdown", text, sizeof text);
    lockdown = strchr(text, '[');
    if (lockdown && strchr(lockdown, ']') && strncmp(lockdown, "[none]", 6) != 0)
        buf_printf(out, "%sthe kernel is locked down (%.*s)", sep, (int)strcspn(lockdown + 1, "]"),
                   lockdown + 1);
    else if (!*sep)
        buf_str(out,
                "pmcfs has CAP_PERFMON, so a security module (SELinux, AppArmor) must forbid it");
}

/* Facts of a refusal, which the rows match. */
enum fact {
    ON_TASK = 1 << 0,
    ON_CPU = 1 << 1,
    ON_CGROUP = 1 << 2,
    CHECK = 1 << 3, /* without a target: a check on an idle thread, or the event of a ring */
    MEMBER = 1 << 4,
    PROCESSOR = 1 << 5,
    SOFTWARE = 1 << 6,
    TRACEPOINT = 1 << 7,
    BREAKPOINT = 1 << 8,
    DEVICE = 1 << 9, /* the type is the number of a PMU in sysfs, usually not of a core PMU */
    IN_KERNEL = 1 << 10,
    AT_CODE = 1 << 11,
    USER_ONLY = 1 << 12,
    EXCLUDING = 1 << 13,
    SAMPLING = 1 << 14,
    FREQUENCY = 1 << 15,
    FILTERED = 1 << 16,
    NEEDS_ROW = 1 << 17
};

static unsigned facts_of(const struct why *why)
{
    const struct perf_event_attr *attr = why->attr;
    const struct target_ref *target = why->target;
    const bool breakpoint = attr->type == PERF_TYPE_BREAKPOINT;
    const struct {
        enum fact fact;
        bool holds;
    } all[] = {
        {ON_TASK, target && target_is_task(target)},
        {ON_CPU, target && target->kind == TARGET_CPU},
        {ON_CGROUP, target && target->kind == TARGET_CGROUP},
        {CHECK, !target},
        {MEMBER, why->member},
        {PROCESSOR, attr->type == PERF_TYPE_HARDWARE || attr->type == PERF_TYPE_HW_CACHE ||
                        attr->type == PERF_TYPE_RAW},
        {SOFTWARE, attr->type == PERF_TYPE_SOFTWARE},
        {TRACEPOINT, attr->type == PERF_TYPE_TRACEPOINT},
        {BREAKPOINT, breakpoint},
        {DEVICE, attr->type >= PERF_TYPE_MAX},
        {IN_KERNEL, breakpoint && attr->bp_addr >= USER_END},
        {AT_CODE, breakpoint && attr->bp_type == HW_BREAKPOINT_X},
        {USER_ONLY, attr->exclude_kernel},
        {EXCLUDING, attr->exclude_user || attr->exclude_kernel || attr->exclude_guest},
        {SAMPLING, attr->sample_period},
        {FREQUENCY, attr->freq},
        {FILTERED, is_filtered()},
        {NEEDS_ROW, why->needs_row},
    };
    unsigned facts = 0;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        facts |= all[i].holds ? all[i].fact : 0;
    return facts;
}

static const struct why_row {
    int code;
    unsigned facts; /* all must hold */
    enum err_id id;
    const char *sentence;
} why_table[] = {
    {ESRCH, ON_TASK, X09, "%t is exiting"},
    {ENODEV, ON_CPU, E37, "%t is offline"},
    {EINVAL, MEMBER | NEEDS_ROW, E19,
     "the processor does not have enough counters to count \"%e\" together with the events before "
     "it: use fewer events, or two PMCs"},
    {EINVAL, MEMBER | CHECK, CS08,
     "\"%e\" cannot be counted together with the events before it (not enough counters, or two "
     "hardware classes): use fewer events, or two PMCs"},
    {EINVAL, MEMBER, E05,
     "%t does not have enough counters to count \"%e\" together with the events before it: use "
     "fewer events, or multiplex=on"},
    {EACCES, ON_TASK, P14, "the kernel does not let pmcfs observe %t: %b"},
    {EACCES, 0, P14, "the kernel forbids perf_event_open for \"%e\": %b"},
    {ENOENT, ON_CGROUP, P09,
     "perf cannot use %t, because the cgroup v1 controller perf_event is mounted: boot with cgroup "
     "v2 only"},
    {ENOENT, PROCESSOR, P09, "this processor has no hardware counter for \"%e\""},
    {ENOENT, TRACEPOINT, P09,
     "the tracepoint \"%e\" no longer exists, because its kernel module was unloaded: load it "
     "again"},
    {ENOENT, SOFTWARE, P09, "this kernel (%k) does not have \"%e\": it is too old"},
    {ENOENT, 0, P09, "the PMU of \"%e\" no longer exists: see info/classes"},
    {ENXIO, 0, P09, "this host does not have the hardware that counts \"%e\""},
    {ENODEV, 0, P09, "the driver of \"%e\" was unloaded: mount pmcfs again"},
    {EOPNOTSUPP, SAMPLING, P09,
     "\"%e\" cannot be sampled, because the PMU raises no interrupt for it (or a virtual machine "
     "holds the PMU): count it, without period and freq"},
    {EOPNOTSUPP, 0, P09,
     "the PMU cannot count \"%e\" with these settings (try user=on, kernel=on and no modifiers), "
     "or a virtual machine holds the PMU"},
    {EINVAL, ON_CPU, E37,
     "%t cannot count \"%e\": the CPU does not exist, or the event belongs to other CPUs"},
    {EINVAL, SAMPLING | DEVICE, P09,
     "the PMU of \"%e\" cannot be sampled: count it, without period and freq"},
    {EINVAL, FREQUENCY, P09,
     "\"%e\" cannot be sampled at this freq: the kernel now allows at most "
     "kernel.perf_event_max_sample_rate per second, which falls under load: write a lower freq"},
    {EINVAL, PROCESSOR, P09,
     "the PMU refuses the encoding of \"%e\": it has reserved bits, or a combination that the PMU "
     "does not have"},
    {EINVAL, IN_KERNEL | USER_ONLY, P09,
     "the breakpoint \"%e\" is at a kernel address, which only kernel mode uses: write kernel=on"},
    {EINVAL, IN_KERNEL | AT_CODE, P09,
     "this kernel does not allow a breakpoint on its code at \"%e\": it has no kprobes, or forbids "
     "them there"},
    {EINVAL, BREAKPOINT, P09,
     "the processor refuses the breakpoint \"%e\": the address is not aligned, or it lacks this "
     "length or access (x86 needs rw for reads)"},
    {EINVAL, EXCLUDING, P09,
     "the PMU cannot count \"%e\" for user or kernel mode alone (write user=on and kernel=on), "
     "or not for a process (write cpuN to target)"},
    {EINVAL, CHECK, P09,
     "the PMU refuses the encoding of \"%e\": it does not have this event, or these bits of it"},
    {EINVAL, 0, P09, "the kernel refuses the encoding of \"%e\" for %t"},
    {ENOSPC, CHECK, E19,
     "the processor does not have enough breakpoint registers or counters for \"%e\" and the "
     "events before it: use fewer events"},
    {ENOSPC, 0, E05,
     "no breakpoint register or counter is left for \"%e\" on %t: release other PMCs"},
    {EBUSY, CHECK, P09,
     "another user of perf, a driver or the kernel (NMI watchdog?) holds the PMU of \"%e\": "
     "stop it, or try again later"},
    {EBUSY, 0, E05, "another user holds the PMU of \"%e\" exclusively: try again later"},
    {EMFILE, 0, P10,
     "no file descriptor was left to open \"%e\": raise LimitNOFILE= of pmcfs.service"},
    {ENFILE, 0, P10, "the host has no file descriptor left: raise fs.file-max"},
    {EOVERFLOW, 0, P09,
     "depth is larger than kernel.perf_event_max_stack allows for \"%e\": write a smaller depth"},
    {ENOMEM, 0, E32, "the kernel had no memory for \"%e\": try again later, or release PMCs"},
    {E2BIG, MEMBER, CS08,
     "the set has more events than the kernel reads at once: leave out \"%e\""},
    {E2BIG, 0, P09, "this kernel (%k) is too old for a setting of \"%e\""},
    {ENOSYS, FILTERED, P14, "perf_event_open is disabled for pmcfs: %b"},
    {ENOSYS, 0, P09, "this kernel was built without perf events"},
    {0, 0, P14, "the kernel refused \"%e\" on %t: %c"},
};

int why_refused(struct err *err, const struct why *why)
{
    const struct why_row *row = why_table;
    const int code = why->code == EPERM ? EACCES : why->code; /* the kernel uses both */
    const unsigned facts = facts_of(why);
    const struct target_ref *target = why->target;
    struct utsname kernel;
    char storage[512];
    struct buf text = buf_in(storage, sizeof storage);

    while (row->code && (row->code != code || (row->facts & ~facts)))
        row++;
    for (const char *p = row->sentence; *p; p++)
        if (*p != '%') {
            buf_char(&text, *p);
        } else if (*++p == 'e') {
            buf_str(&text, why->event);
        } else if (*p == 'c') {
            buf_str(&text, err_errno_name(why->code));
        } else if (*p == 'k') {
            uname(&kernel);
            buf_str(&text, kernel.release);
        } else if (*p == 'b') {
            obstacles_print(&text);
        } else if (*p == 't') {
            if (!target)
                buf_str(&text, "an idle thread");
            else if (target->kind == TARGET_CPU)
                buf_printf(&text, "cpu%u", target->cpu);
            else if (target->kind == TARGET_CGROUP)
                buf_str(&text, "the cgroup");
            else
                buf_printf(&text, "%s %d", target->kind == TARGET_THREAD ? "thread" : "process",
                           target_number(target));
        }
    int rc = err_set(err, row->id, "%s", buf_text(&text));
    buf_free(&text);
    return rc;
}
