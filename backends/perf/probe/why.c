/*
 * The table of reasons: the first matching row has the sentence. Placeholders: %e the event, %t the
 * target, %c the name of the errno, %k the kernel release, %b the possible obstacles (barriers()).
 */
#include "backends/perf/probe/why.h"

#include "backends/perf/probe/open.h"
#include "backends/perf/probe/pmu.h"

#include "core/base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdio.h>
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

/* Returns true if pmcfs has CAP_PERFMON in the initial user namespace. */
static bool may_observe(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct has[2] = {{0}};
    char space[64] = "";

    if (readlink("/proc/self/ns/user", space, sizeof space - 1) > 0 &&
        strcmp(space, INITIAL_USER_NS) != 0)
        return false;
    return syscall(SYS_capget, &head, has) == 0 &&
           ((has[CAP_TO_INDEX(CAP_PERFMON)].effective & CAP_TO_MASK(CAP_PERFMON)) ||
            (has[CAP_TO_INDEX(CAP_SYS_ADMIN)].effective & CAP_TO_MASK(CAP_SYS_ADMIN)));
}

static bool is_filtered(void)
{
    return prctl(PR_GET_SECCOMP) == 2;
}

/* Returns the word in brackets of "none [integrity] confidentiality", or "" if it cannot be read.
 */
static const char *lockdown_level(char *text, size_t size)
{
    int got = file_read(AT_FDCWD, "/sys/kernel/security/lockdown", text, size);
    char *open = got > 0 ? strchr(text, '[') : NULL;
    char *end = open ? strchr(open, ']') : NULL;

    if (!end)
        return "";
    *end = '\0';
    return open + 1;
}

/* Prints the reasons why the kernel may forbid perf_event_open(2) to pmcfs. */
static void barriers(struct buf *out)
{
    char text[64];
    const char *lockdown = lockdown_level(text, sizeof text), *sep = "";

    if (!may_observe()) {
        buf_printf(out, "pmcfs lacks CAP_PERFMON, and kernel.perf_event_paranoid is %d",
                   why_paranoid());
        sep = "; ";
    }
    if (is_filtered()) {
        buf_printf(out, "%sa seccomp filter is on pmcfs (a container's or a service's)", sep);
        sep = "; ";
    }
    if (*lockdown && strcmp(lockdown, "none") != 0)
        buf_printf(out, "%sthe kernel is locked down (%s)", sep, lockdown);
    else if (!*sep)
        buf_str(out, "pmcfs has CAP_PERFMON, so a security module forbids it");
}

/* Facts of a refusal, which the rows match. */
enum fact {
    ON_TASK = 1 << 0,
    ON_CPU = 1 << 1,
    ON_CGROUP = 1 << 2,
    CHECK = 1 << 3, /* on an idle thread, before a target is attached */
    MEMBER = 1 << 4,
    PROCESSOR = 1 << 5,
    SOFTWARE = 1 << 6,
    TRACEPOINT = 1 << 7,
    BREAKPOINT = 1 << 8,
    DEVICE = 1 << 9, /* an event of another PMU than the processor's */
    IN_KERNEL = 1 << 10,
    AT_CODE = 1 << 11,
    USER_ONLY = 1 << 12,
    EXCLUDING = 1 << 13,
    SAMPLING = 1 << 14,
    FREQUENCY = 1 << 15,
    FILTERED = 1 << 16
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
        {ON_TASK, target && (target->kind == TARGET_PROCESS || target->kind == TARGET_THREAD)},
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
    {EINVAL, MEMBER | CHECK, CS08,
     "\"%e\" cannot be counted together with the events before it: one class has not that many "
     "counters, or they belong to two hardware classes; write fewer, or two PMCs"},
    {EINVAL, MEMBER, E05,
     "%t has not enough counters to count \"%e\" together with the events before it"},
    {EACCES, ON_TASK, P14, "the kernel does not let pmcfs observe %t: %b"},
    {EACCES, 0, P14, "the kernel forbids perf_event_open for \"%e\": %b"},
    {ENOENT, ON_CGROUP, P09,
     "perf does not know the cgroup hierarchy of %t: the v1 controller perf_event is mounted "
     "instead"},
    {ENOENT, PROCESSOR, P09,
     "this machine has no hardware counter for \"%e\": no PMU (the hypervisor of a virtual machine "
     "may give none), or not one that knows it"},
    {ENOENT, TRACEPOINT, P09, "the tracepoint \"%e\" is no longer there: its module was unloaded"},
    {ENOENT, SOFTWARE, P09, "this kernel (%k) is too old for \"%e\": it does not know it"},
    {ENOENT, 0, P09, "the kernel does not know the event \"%e\" (its PMU is gone)"},
    {ENXIO, 0, P09, "the hardware behind \"%e\" is absent here"},
    {ENODEV, 0, P09, "the driver behind \"%e\" is gone"},
    {EOPNOTSUPP, SAMPLING, P09,
     "the PMU raises no interrupt for \"%e\", or a virtual machine holds it: it cannot be sampled; "
     "without period and freq it may be counted"},
    {EOPNOTSUPP, 0, P09,
     "the PMU cannot count \"%e\" in this way: it lacks the ability, or a virtual machine holds "
     "it"},
    {EINVAL, ON_CPU, E37,
     "%t cannot count \"%e\": no such CPU, or the event does not belong to it"},
    {EINVAL, SAMPLING | DEVICE, P09,
     "the PMU of \"%e\" cannot be sampled; without period and freq it may be counted"},
    {EINVAL, FREQUENCY, P09,
     "\"%e\" cannot be sampled at that frequency: it is above the kernel's present limit "
     "(kernel.perf_event_max_sample_rate), which sinks under load"},
    {EINVAL, PROCESSOR, P09,
     "the PMU refuses the encoding of \"%e\": reserved bits, or a combination that it does not "
     "have"},
    {EINVAL, IN_KERNEL | USER_ONLY, P09,
     "the breakpoint \"%e\" is at a kernel address, where only kernel mode comes: kernel=on"},
    {EINVAL, IN_KERNEL | AT_CODE, P09,
     "this kernel lets no breakpoint stop at its code at \"%e\": it has no kprobes, or they may "
     "not stop there either"},
    {EINVAL, BREAKPOINT, P09,
     "the processor refuses the breakpoint \"%e\": address not aligned, or a length or kind of "
     "access it does not have (x86 has no reads without writes: rw)"},
    {EINVAL, EXCLUDING, P09,
     "the PMU cannot tell user from kernel mode for \"%e\", or has no per-process counting"},
    {EINVAL, CHECK, P09,
     "the PMU refuses the encoding of \"%e\": it has no such event, or not with these bits"},
    {EINVAL, 0, P09, "the kernel refuses the encoding of \"%e\" for %t"},
    {ENOSPC, CHECK, E19,
     "the processor has not enough breakpoint registers or counters for \"%e\" and the events "
     "before it"},
    {ENOSPC, 0, E05, "no breakpoint register or counter is left for \"%e\" on %t"},
    {EBUSY, CHECK, P09, "another user of perf, a driver or the kernel holds the PMU of \"%e\""},
    {EBUSY, 0, E05, "another user holds the PMU of \"%e\" exclusively"},
    {EMFILE, 0, P10, "no descriptor was left while opening \"%e\": raise LimitNOFILE of pmcfs"},
    {ENFILE, 0, P10, "the whole machine has no descriptor left (fs.file-max)"},
    {EOVERFLOW, 0, P09,
     "call chains of \"%e\" are to be deeper than kernel.perf_event_max_stack allows"},
    {ENOMEM, 0, E32, "the kernel had no memory for \"%e\""},
    {E2BIG, MEMBER, CS08, "the set is larger than the kernel reads at once; leave out \"%e\""},
    {E2BIG, 0, P09, "this kernel (%k) is too old for a setting of \"%e\""},
    {ENOSYS, FILTERED, P14, "perf_event_open is hidden from pmcfs: %b"},
    {ENOSYS, 0, P09, "this kernel was built without perf events"},
    {0, 0, P14, "the kernel refused \"%e\" on %t unexpectedly: %c"},
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

static void why_print(struct buf *out, const char *sentence, const struct why *why)
{
    struct utsname kernel;

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
        case 'c':
            buf_str(out, err_errno_name(why->code));
            break;
        case 'k':
            uname(&kernel);
            buf_str(out, kernel.release);
            break;
        case 'b':
            barriers(out);
            break;
        default:
            break;
        }
    }
}

int why_refused(struct err *err, const struct why *why)
{
    const struct why_row *row = why_table;
    const int code = why->code == EPERM ? EACCES : why->code; /* the kernel uses both */
    const unsigned facts = facts_of(why);
    char storage[512];
    struct buf text;
    int rc;

    while (row->code && (row->code != code || (row->facts & ~facts)))
        row++;
    buf_init(&text, storage, sizeof storage);
    why_print(&text, row->sentence, why);
    rc = err_set(err, row->id, "%s", buf_text(&text));
    buf_free(&text);
    return rc;
}
