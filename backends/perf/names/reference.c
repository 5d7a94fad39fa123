/*
 * Facts for people: lines "name text" of info/backend, and a table of vendors' documents.
 */
#include "backends/perf/names/names.h"

#include "backends/perf/probe/pmu.h"
#include "backends/perf/probe/tracefs.h"
#include "backends/perf/probe/why.h"

#include <perfmon/pfmlib.h>
#include <string.h>
#include <sys/utsname.h>

static void print_cores(struct pmus *pmus, struct buf *out)
{
    if (pmus->no_core[0])
        buf_printf(out, "hardware_pmu no: %s\n", pmus->no_core);
    for (unsigned i = 0; i < pmus->n; i++) {
        struct pmu *pmu = &pmus->list[i];
        if (pmu->kind != PMU_CORE)
            continue;
        if (!pmu->why[0])
            buf_printf(out,
                       "hardware_pmu yes: %s, %u general and %u fixed counters of %u bits, %s\n",
                       pmu->name, pmu->general, pmu->fixed, pmu->width,
                       pmu->capabilities & CAP_INTERRUPT ? "with overflow interrupts"
                                                         : "without overflow interrupts: "
                                                           "nothing of it can be sampled");
        else if (!pmus->no_core[0])
            buf_printf(out, "hardware_pmu no: %s\n", pmu->why);
    }
}

static void print_watchdog(const struct pmus *pmus, struct buf *out)
{
    char text[16];

    if (pmus_read(pmus, text, sizeof(text), "/proc/sys/kernel/nmi_watchdog") <= 0)
        return;
    buf_printf(out, "nmi_watchdog %s\n",
               text[0] == '0'     ? "off"
               : pmus->no_core[0] ? "on"
                                  : "on: it holds one counter of every CPU");
}

void perf_facts(struct backend_state *state, struct buf *out)
{
    struct utsname name;
    struct buf where;

    if (uname(&name) == 0)
        buf_printf(out, "kernel %s %s\n", name.release, name.machine);
    buf_printf(out, "perf_event_paranoid %d\n", why_paranoid());
    print_cores(state->pmus, out);
    print_watchdog(state->pmus, out);
    buf_init(&where, NULL, 0);
    const bool found = tracefs_where(state, &where);
    buf_printf(out, "tracefs %s%s\n", found ? "" : "no: ", buf_text(&where));
    buf_free(&where);
    /* That of the interface: the library does not tell its own. */
    buf_printf(out, "libpfm4 interface %d.%d\n", PFM_MAJ_VERSION(pfm_get_version()),
               PFM_MIN_VERSION(pfm_get_version()));
}

static const char *x86_documents(void)
{
#if defined(__x86_64__) || defined(__i386__)
    if (__builtin_cpu_is("intel"))
        return "Intel 64 and IA-32 Architectures Software Developer's Manual, Volume 3, chapters "
               "Performance Monitoring and Performance Monitoring Events\n"
               "https://perfmon-events.intel.com/\n";
    if (__builtin_cpu_is("amd"))
        return "AMD Processor Programming Reference (PPR) of this family and model, section "
               "Performance Monitor Counters (before family 17h: BIOS and Kernel Developer's "
               "Guide)\nAMD64 Architecture Programmer's Manual, Volume 2, chapter Debug and "
               "Performance Resources\n";
#endif
    return "";
}

void perf_cpuref(struct backend_state *state, struct buf *out)
{
    const struct pmu *core = pmus_core(state->pmus);

    buf_str(out, x86_documents());
    if (core && strncmp(core->name, "armv", 4) == 0)
        buf_str(out, "the Technical Reference Manual of this Arm core, chapter Performance "
                     "Monitoring Unit\nArm Architecture Reference Manual for A-profile (DDI 0487), "
                     "chapter The Performance Monitors Extension\n");
    if (!core)
        buf_str(out, "none of these events can be counted here: see info/backend\n");
    buf_str(out, "software events and tracepoints: perf_event_open(2), perf-list(1)\n");
}
