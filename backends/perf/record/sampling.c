/*
 * Attributes of events that write records. All events that write into one ring have the same clock,
 * and the same fields in the same order as struct record_sample and struct record_tail.
 */
#include "backends/perf/record/sampling.h"

#include "backends/perf/names/names.h"
#include "backends/perf/probe/open.h"

#include "backends/proc.h"
#include "core/log/record.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdatomic.h>
#include <time.h>

#define SAMPLE_FIELDS                                                                              \
    (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU)

void sampling_clock(struct perf_event_attr *attr)
{
    attr->use_clockid = 1;
    attr->clockid = CLOCK_MONOTONIC;
}

/* Sets the fields that all events with a ring buffer share. */
static void record_attr(struct perf_event_attr *attr)
{
    attr->sample_type |= SAMPLE_FIELDS;
    attr->sample_id_all = 1;
    sampling_clock(attr);
    attr->watermark = 1;
}

void sampling_dummy_attr(struct perf_event_attr *attr)
{
    *attr = (struct perf_event_attr){
        .size = sizeof *attr,
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_DUMMY,
        .exclude_kernel = 1,
        .exclude_hv = 1,
        .disabled = 1,
    };
}

void sampling_ring_attr(struct perf_event_attr *attr, uint64_t bytes)
{
    sampling_dummy_attr(attr);
    record_attr(attr);
    attr->wakeup_watermark = bytes / 2 > UINT32_MAX ? UINT32_MAX : (uint32_t)(bytes / 2);
}

static bool attr_is_clock(const struct perf_event_attr *attr)
{
    return attr->type == PERF_TYPE_SOFTWARE &&
           (attr->config == PERF_COUNT_SW_CPU_CLOCK || attr->config == PERF_COUNT_SW_TASK_CLOCK);
}

bool sampling_shares_id(const struct perf_event_attr *attr)
{
    return attr->type == PERF_TYPE_SOFTWARE && !attr_is_clock(attr);
}

/* All registers except the segment registers of x86, as in perf. */
#if defined __x86_64__
#define REGISTERS UINT64_C(0xff0fff)
#elif defined __aarch64__
#define REGISTERS ((UINT64_C(1) << 33) - 1)
#else
#define REGISTERS UINT64_C(0)
#endif

static void stack_attr(uint32_t bytes, struct perf_event_attr *attr)
{
    attr->sample_type |= PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
    attr->sample_regs_user = REGISTERS;
    attr->sample_stack_user = bytes;
}

/* Sets *answer to 1 if the kernel opens such an event, or to -1 if it refuses. Leaves *answer as it
 * is after a shortage of memory or descriptors, or a signal. */
static void attr_try(const struct perf_event_attr *attr, atomic_int *answer)
{
    int fd = event_open(attr, 0, -1, -1, 0);

    if (!is_shortage(fd) && fd != -EINTR)
        *answer = fd >= 0 ? 1 : -1;
    event_close(&fd);
}

uint64_t sampling_registers(void)
{
    static atomic_int answer;
    struct perf_event_attr attr;

    if (REGISTERS && !answer) {
        sampling_dummy_attr(&attr);
        stack_attr(8, &attr);
        attr_try(&attr, &answer);
    }
    return answer > 0 ? REGISTERS : 0;
}

void sampling_attr(const struct plan *plan, struct perf_event_attr *attr)
{
    record_attr(attr);
    attr->freq = plan->freq != 0;
    if (plan->freq)
        attr->sample_freq = plan->freq;
    else
        attr->sample_period = plan->period;
    /* With PERF_SAMPLE_PERIOD the kernel ignores the period of a software event, and samples every
     * occurrence, except with a frequency and for clock events, which use a timer. So software
     * events, tracepoints, breakpoints and probes do not get it; other PMUs do not need it. */
    if (attr->freq || attr_is_clock(attr) || attr->type == PERF_TYPE_HARDWARE ||
        attr->type == PERF_TYPE_HW_CACHE || attr->type == PERF_TYPE_RAW)
        attr->sample_type |= PERF_SAMPLE_PERIOD;
    if (attr_is_clock(attr)) {
        attr->exclude_user = plan->skip_user;
        attr->exclude_kernel = plan->skip_kernel;
    }
    if (plan->raw && attr->type == PERF_TYPE_TRACEPOINT)
        attr->sample_type |= PERF_SAMPLE_RAW;
    if (!plan->chain_user && !plan->chain_kernel)
        return;
    attr->sample_type |= PERF_SAMPLE_CALLCHAIN;
    attr->exclude_callchain_user = !plan->chain_user;
    attr->exclude_callchain_kernel = !plan->chain_kernel;
    attr->sample_max_stack =
        (uint16_t)(plan->max_frames > UINT16_MAX ? UINT16_MAX : plan->max_frames);
    if (plan->stack_bytes)
        stack_attr(plan->stack_bytes, attr);
}

unsigned sampling_parts(const struct perf_event_attr *attr)
{
    return (attr->sample_type & PERF_SAMPLE_RAW ? RECORD_RAW : 0) |
           (attr->sample_type & PERF_SAMPLE_STACK_USER ? RECORD_STACK : 0);
}

void sampling_sideband(struct perf_event_attr *attr)
{
    record_attr(attr);
    attr->mmap = 1;
    attr->mmap2 = 1;
    attr->comm = 1;
    attr->comm_exec = 1;
    attr->task = 1;
}

/* ---- values at context switches and exits ---- */

static void steps_attr(struct perf_event_attr *attr)
{
    record_attr(attr);
    attr->sample_type |= PERF_SAMPLE_READ;
    attr->sample_period = 1;
    attr->read_format =
        PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
}

unsigned sampling_extras(struct backend_state *state, const struct plan *plan,
                         uint8_t extra[EXTRAS_MAX])
{
    static atomic_int values_inherit;
    struct perf_event_attr attr;
    uint64_t number;

    if (!plan->recorder || plan->sampling)
        return 0;
    extra[0] = EXTRA_DUMMY;
    if (!plan->values_at_switch && !plan->values_at_exit)
        return 1;
    if (!values_inherit) {
        sampling_dummy_attr(&attr);
        attr.config = PERF_COUNT_SW_CONTEXT_SWITCHES;
        attr.exclude_kernel = attr.exclude_hv = 0;
        attr.inherit = 1;
        steps_attr(&attr);
        attr_try(&attr, &values_inherit);
    }
    if (values_inherit <= 0) /* before 6.12: no PERF_SAMPLE_READ in samples of inherited events */
        return 1;
    /* EXTRA_END is not enough: it has only the values of the CPU on which the thread exits. */
    extra[0] = EXTRA_SWITCH;
    extra[1] = EXTRA_END;
    return tracepoint_number(state, "sched", "sched_process_exit", &number) ? 1 : 2;
}

void sampling_extra_attr(struct backend_state *state, enum extra extra,
                         struct perf_event_attr *attr)
{
    uint64_t number = 0;

    sampling_dummy_attr(attr);
    if (extra == EXTRA_DUMMY) {
        record_attr(attr);
        return;
    }
    attr->exclude_kernel = attr->exclude_hv = 0;
    if (extra == EXTRA_CLOCK) {
        attr->config = PERF_COUNT_SW_CPU_CLOCK;
        return;
    }
    steps_attr(attr);
    attr->config = PERF_COUNT_SW_CONTEXT_SWITCHES;
    /* Prefer tracepoints: their samples never have the id of another event. */
    if (!tracepoint_number(state, "sched",
                           extra == EXTRA_END ? "sched_process_exit" : "sched_switch", &number)) {
        attr->type = PERF_TYPE_TRACEPOINT;
        attr->config = number;
    }
}

/* ---- limits ---- */

void perf_sample_limits(struct backend_state *state, struct sample_limits *out)
{
    (void)state;
    out->max_freq = proc_number("/proc/sys/kernel/perf_event_max_sample_rate", UINT64_MAX);
    out->max_frames = (unsigned)proc_number("/proc/sys/kernel/perf_event_max_stack", 127);
    out->registers = sampling_registers();
    out->off_cpu = true;
}
