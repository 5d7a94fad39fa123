/*
 * Facts for people: lines "name text" of info/backend, and a table of vendors' documents.
 */
#include "backends/perf/names/reference.h"

#include "backends/perf/probe/pmu.h"
#include "backends/perf/probe/tracefs.h"
#include "backends/perf/probe/why.h"

#include <perfmon/pfmlib.h>
#include <string.h>
#include <sys/utsname.h>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

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
                       pmu->interrupt ? "with overflow interrupts"
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
    bool found;
    const char *where = tracefs_where(state, &found);

    if (uname(&name) == 0)
        buf_printf(out, "kernel %s %s\n", name.release, name.machine);
    buf_printf(out, "perf_event_paranoid %d\n", why_paranoid());
    print_cores(state->pmus, out);
    print_watchdog(state->pmus, out);
    buf_printf(out, "tracefs %s%s\n", found ? "" : "no: ", where);
    /* That of the interface: the library does not tell its own. */
    buf_printf(out, "libpfm4 interface %d.%d\n", PFM_MAJ_VERSION(pfm_get_version()),
               PFM_MIN_VERSION(pfm_get_version()));
}

/* On x86, by the processor's CPUID name. */
static const struct {
    const char *vendor, *documents;
} references[] = {
    {"GenuineIntel",
     "Intel 64 and IA-32 Architectures Software Developer's Manual, Volume 3, chapters Performance "
     "Monitoring and Performance Monitoring Events\nhttps://perfmon-events.intel.com/\n"},
    {"AuthenticAMD",
     "AMD Processor Programming Reference (PPR) of this family and model, section Performance "
     "Monitor Counters (before family 17h: BIOS and Kernel Developer's Guide)\n"
     "AMD64 Architecture Programmer's Manual, Volume 2, chapter Debug and Performance Resources\n"},
};

static void vendor_name(char name[13])
{
    memset(name, 0, 13);
#if defined(__x86_64__) || defined(__i386__)
    unsigned a, b, c, d;

    if (__get_cpuid(0, &a, &b, &c, &d)) {
        memcpy(name, &b, 4);
        memcpy(name + 4, &d, 4);
        memcpy(name + 8, &c, 4);
    }
#endif
}

void perf_cpuref(struct backend_state *state, struct buf *out)
{
    const struct pmu *core = pmus_core(state->pmus);
    char name[13];

    vendor_name(name);
    for (size_t i = 0; i < sizeof(references) / sizeof(references[0]); i++)
        if (strcmp(references[i].vendor, name) == 0)
            buf_str(out, references[i].documents);
    if (core && strncmp(core->name, "armv", 4) == 0)
        buf_str(out, "the Technical Reference Manual of this Arm core, chapter Performance "
                     "Monitoring Unit\nArm Architecture Reference Manual for A-profile (DDI 0487), "
                     "chapter The Performance Monitors Extension\n");
    if (!core)
        buf_str(out, "none of these events can be counted here: see info/backend\n");
    buf_str(out, "software events and tracepoints: perf_event_open(2), perf-list(1)\n");
}
