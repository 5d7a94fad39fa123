/*
 * Table of the kernel's generic events.
 */
#include "backends/perf/names/generic.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

#define CONSTANT "PERF_COUNT_"
#define HARDWARE(text, names, id, files, about)                                                    \
    {                                                                                              \
        .name = text, .others = names " PERF_COUNT_HW_" #id, .type = PERF_TYPE_HARDWARE,           \
        .config = PERF_COUNT_HW_##id, .split = SPLIT_ALWAYS, .raw_names = files,                   \
        .description = about                                                                       \
    }
#define SOFTWARE(text, names, id, how, hide, about)                                                \
    {                                                                                              \
        .name = text, .others = names " PERF_COUNT_SW_" #id, .type = PERF_TYPE_SOFTWARE,           \
        .config = PERF_COUNT_SW_##id, .split = how, .hidden = hide, .description = about           \
    }
#define CACHE(text, names, id, op, result, about)                                                  \
    {                                                                                              \
        .name = text, .others = names, .type = PERF_TYPE_HW_CACHE, .split = SPLIT_ALWAYS,          \
        .config = PERF_COUNT_HW_CACHE_##id | PERF_COUNT_HW_CACHE_OP_##op << 8 |                    \
                  PERF_COUNT_HW_CACHE_RESULT_##result << 16,                                       \
        .description = about                                                                       \
    }
#define CACHE_READS(text, miss_names, id, about)                                                   \
    CACHE(text "-loads", "", id, READ, ACCESS, about ": loads"),                                   \
        CACHE(text "-load-misses", miss_names, id, READ, MISS, about ": loads that missed")
#define CACHE_WRITES(text, id, about)                                                              \
    CACHE(text "-stores", "", id, WRITE, ACCESS, about ": stores"),                                \
        CACHE(text "-store-misses", "", id, WRITE, MISS, about ": stores that missed")
#define CACHE_PREFETCHES(text, id, about)                                                          \
    CACHE(text "-prefetches", "", id, PREFETCH, ACCESS, about ": prefetches"),                     \
        CACHE(text "-prefetch-misses", "", id, PREFETCH, MISS, about ": prefetches that missed")
#define CACHE_ALL(text, miss_names, id, about)                                                     \
    CACHE_READS(text, miss_names, id, about), CACHE_WRITES(text, id, about),                       \
        CACHE_PREFETCHES(text, id, about)

/*
 * The kernel opens these on any processor, but what raises them is in the code of some alone: on
 * x86 unaligned accesses are the hardware's, and what the kernel emulates it does not count.
 */
#if defined(__x86_64__) || defined(__i386__)
#define NEVER_HERE "on x86 the kernel never raises it, so it would always read 0"
#else
#define NEVER_HERE NULL
#endif
#define TRAP(text, id, about)                                                                      \
    {                                                                                              \
        .name = text, .others = "PERF_COUNT_SW_" #id, .type = PERF_TYPE_SOFTWARE,                  \
        .config = PERF_COUNT_SW_##id, .split = SPLIT_ASKED, .never = NEVER_HERE,                   \
        .description = about                                                                       \
    }

static const struct generic table[] = {
    HARDWARE("cycles", "cpu-cycles unhalted-cycles", CPU_CYCLES, "cpu-cycles",
             "cycles of the core while it is not halted; their length follows the clock"),
    HARDWARE("instructions", "", INSTRUCTIONS, "instructions inst_retired", "retired instructions"),
    HARDWARE("cache-references", "", CACHE_REFERENCES, "cache-references",
             "accesses to the cache, mostly to the last level"),
    HARDWARE("cache-misses", "", CACHE_MISSES, "cache-misses",
             "misses of the cache, mostly of the last level"),
    HARDWARE("branches", "branch-instructions", BRANCH_INSTRUCTIONS,
             "branch-instructions br_retired", "retired branch instructions"),
    HARDWARE("branch-misses", "branch-mispredicts", BRANCH_MISSES, "branch-misses br_mis_pred",
             "mispredicted branch instructions"),
    HARDWARE("bus-cycles", "", BUS_CYCLES, "bus-cycles", "cycles of the bus"),
    HARDWARE("ref-cycles", "", REF_CPU_CYCLES, "ref-cycles",
             "cycles while it is not halted, at a clock that does not change"),
    HARDWARE("stalled-cycles-frontend", "idle-cycles-frontend", STALLED_CYCLES_FRONTEND,
             "stalled-cycles-frontend stall_frontend", "cycles in which no instruction was issued"),
    HARDWARE("stalled-cycles-backend", "idle-cycles-backend", STALLED_CYCLES_BACKEND,
             "stalled-cycles-backend stall_backend", "cycles in which nothing could be retired"),

    SOFTWARE("cpu-clock", "", CPU_CLOCK, SPLIT_NEVER, false,
             "nanoseconds on the CPU, by a timer that raises interrupts"),
    SOFTWARE("task-clock", "", TASK_CLOCK, SPLIT_NEVER, false, "nanoseconds the task was running"),
    SOFTWARE("page-faults", "faults", PAGE_FAULTS, SPLIT_ASKED, false, "page faults"),
    SOFTWARE("minor-faults", "page-faults-min", PAGE_FAULTS_MIN, SPLIT_ASKED, false,
             "page faults that needed no disk"),
    SOFTWARE("major-faults", "page-faults-maj", PAGE_FAULTS_MAJ, SPLIT_ASKED, false,
             "page faults that had to wait for a disk"),
    SOFTWARE("context-switches", "cs", CONTEXT_SWITCHES, SPLIT_KERNEL, false, "context switches"),
    SOFTWARE("cpu-migrations", "migrations", CPU_MIGRATIONS, SPLIT_KERNEL, false,
             "moves of a task to another CPU"),
    SOFTWARE("cgroup-switches", "", CGROUP_SWITCHES, SPLIT_KERNEL, false,
             "context switches to a task of another cgroup"),
    TRAP("alignment-faults", ALIGNMENT_FAULTS, "unaligned accesses that the kernel had to finish"),
    TRAP("emulation-faults", EMULATION_FAULTS, "instructions that the kernel had to emulate"),
    SOFTWARE("dummy", "", DUMMY, SPLIT_NEVER, true, "never counts anything"),
    SOFTWARE("bpf-output", "", BPF_OUTPUT, SPLIT_NEVER, true, "what a BPF program puts out"),

    CACHE_ALL("L1-dcache", "dc-misses", L1D, "level 1 data cache"),
    CACHE_READS("L1-icache", "ic-misses", L1I, "level 1 instruction cache"),
    CACHE_PREFETCHES("L1-icache", L1I, "level 1 instruction cache"),
    CACHE_ALL("LLC", "", LL, "last level cache"),
    CACHE_ALL("dTLB", "", DTLB, "data TLB"),
    CACHE_READS("iTLB", "", ITLB, "instruction TLB"),
    CACHE_READS("branch", "", BPU, "branch predictor"),
    CACHE_ALL("node", "", NODE, "local memory"),
};

const struct generic *generic_at(unsigned index)
{
    return index < sizeof(table) / sizeof(table[0]) ? &table[index] : NULL;
}

/* Is name one of the blank-separated names? */
static bool among(struct word name, const char *names)
{
    struct scan scan;
    struct word word;

    scan_init(&scan, names, strlen(names));
    while (scan_word(&scan, &word)) {
        char text[64];
        snprintf(text, sizeof(text), "%.*s", (int)word.len, word.p);
        if (word_alike(name, text, true))
            return true;
    }
    return false;
}

const struct generic *generic_find(struct word name)
{
    const struct generic *generic;

    for (unsigned i = 0; (generic = generic_at(i)); i++)
        if (word_alike(name, generic->name, true) || among(name, generic->others))
            return generic;
    return NULL;
}

const struct generic *generic_by_code(uint32_t type, uint64_t config)
{
    const struct generic *generic;

    for (unsigned i = 0; (generic = generic_at(i)); i++)
        if (generic->type == type && generic->config == config)
            return generic;
    return NULL;
}

const struct generic *generic_by_file(const char *file)
{
    const struct generic *generic;

    for (unsigned i = 0; (generic = generic_at(i)); i++)
        if (generic->raw_names && among((struct word){file, strlen(file)}, generic->raw_names))
            return generic;
    return NULL;
}

bool generic_is_hardware(const struct generic *generic)
{
    return generic->type != PERF_TYPE_SOFTWARE;
}

/* The constants' names only where the word looks like one. */
static void near_others(struct near *near, const char *names)
{
    bool constants =
        near->word.len > 4 && word_alike((struct word){near->word.p, 4}, "PERF", false);
    struct scan scan;
    struct word word;
    char text[64];

    scan_init(&scan, names, strlen(names));
    while (scan_word(&scan, &word)) {
        snprintf(text, sizeof(text), "%.*s", (int)word.len, word.p);
        if (constants || strncmp(text, CONSTANT, strlen(CONSTANT)) != 0)
            near_offer(near, text);
    }
}

void generic_near(struct near *near)
{
    const struct generic *generic;

    for (unsigned i = 0; (generic = generic_at(i)); i++) {
        near_offer(near, generic->name);
        near_others(near, generic->others);
    }
}

/* Where there are several kinds of cores the name says which: PMU/NAME/. */
void generic_put(struct spec *spec, const struct generic *generic)
{
    bool software = !generic_is_hardware(generic);

    spec->type = generic->type;
    spec->config[0] = generic->config;
    if (spec->pmu->extended)
        spec->config[0] |= (uint64_t)spec->pmu->type << 32;
    spec->split = generic->split;
    spec->generic = generic->name;
    spec->raw_name = generic->raw_names;
    if (software)
        spec->sampling = !generic->hidden;
    if (software && generic->split == SPLIT_NEVER && !generic->hidden)
        snprintf(spec->unit, sizeof(spec->unit), "ns");
    if (spec->pmu->extended)
        snprintf(spec->resolved, sizeof(spec->resolved), "%s/%s/", spec->pmu->name, generic->name);
    else
        snprintf(spec->resolved, sizeof(spec->resolved), "%s", generic->name);
}

int generic_parse(struct spec *spec, const struct generic *generic, struct word rest,
                  struct err *err)
{
    struct word what = {generic->name, strlen(generic->name)};
    int rc = generic_is_hardware(generic)
                 ? spec_use_core(spec, what, err)
                 : spec_use(spec, pmus_kind(spec->state->pmus, PMU_SOFTWARE), what, err);

    if (rc < 0)
        return rc;
    if (generic->never)
        return err_set(err, P09, "\"%s\" cannot be counted here: %s", generic->name,
                       generic->never);
    generic_put(spec, generic);
    return spec_modifiers(spec, rest, what, err);
}

int generic_parse_text(struct spec *spec, struct word text, struct err *err)
{
    struct word mods;
    const struct generic *generic = generic_find(word_until(text, ':', &mods));

    return generic ? generic_parse(spec, generic, mods, err) : -ENOENT;
}
