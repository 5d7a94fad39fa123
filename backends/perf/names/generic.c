/*
 * Generic events: the kernel's own names, hwpmc's aliases, and PAPI's presets. The table, and the
 * encoding of a generic name on this host: a number of the kernel's, or the first candidate of a
 * preset that opens.
 */
#include "backends/perf/names/spec.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

#define PREFIX "PAPI_"
/* The arguments after the description are aliases, or the candidates of a preset. */
#define HARDWARE(text, id, file, file2, about, ...)                                                \
    {                                                                                              \
        .name = text, .aliases = {"PERF_COUNT_HW_" #id, ##__VA_ARGS__},                            \
        .type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_##id, .split = SPLIT_ALWAYS,           \
        .raw_names = {file, file2}, .description = about                                           \
    }
#define SOFTWARE(text, id, how, why, about, ...)                                                   \
    {                                                                                              \
        .name = text, .aliases = {"PERF_COUNT_SW_" #id, ##__VA_ARGS__},                            \
        .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_##id, .split = how, .why_zero = why,   \
        .description = about                                                                       \
    }
#define CACHE(text, id, op, result, about, ...)                                                    \
    {                                                                                              \
        .name = text, .aliases = {__VA_ARGS__}, .type = PERF_TYPE_HW_CACHE, .split = SPLIT_ALWAYS, \
        .config = PERF_COUNT_HW_CACHE_##id | PERF_COUNT_HW_CACHE_OP_##op << 8 |                    \
                  PERF_COUNT_HW_CACHE_RESULT_##result << 16,                                       \
        .description = about                                                                       \
    }
/* The last arguments are aliases of the load misses. */
#define CACHE_READS(text, id, about, ...)                                                          \
    CACHE(text "-loads", id, READ, ACCESS, about ": loads"),                                       \
        CACHE(text "-load-misses", id, READ, MISS, about ": loads that missed", ##__VA_ARGS__)
#define CACHE_WRITES(text, id, about)                                                              \
    CACHE(text "-stores", id, WRITE, ACCESS, about ": stores"),                                    \
        CACHE(text "-store-misses", id, WRITE, MISS, about ": stores that missed")
#define CACHE_PREFETCHES(text, id, about)                                                          \
    CACHE(text "-prefetches", id, PREFETCH, ACCESS, about ": prefetches"),                         \
        CACHE(text "-prefetch-misses", id, PREFETCH, MISS, about ": prefetches that missed")
#define CACHE_ALL(text, id, about, ...)                                                            \
    CACHE_READS(text, id, about, ##__VA_ARGS__), CACHE_WRITES(text, id, about),                    \
        CACHE_PREFETCHES(text, id, about)
#define PRESET(suffix, about, ...)                                                                 \
    {                                                                                              \
        .name = PREFIX suffix, .aliases = {suffix}, .type = PERF_TYPE_MAX,                         \
        .candidates = {__VA_ARGS__}, .description = about                                          \
    }

/*
 * The kernel opens alignment-faults and emulation-faults on every processor but raises them only on
 * some: x86 hardware handles unaligned accesses itself, and emulated instructions are not counted.
 */
#if defined(__x86_64__) || defined(__i386__)
#define NEVER_HERE "on x86 the kernel never raises it, so it would always read 0"
#else
#define NEVER_HERE NULL
#endif
const struct generic generics[] = {
    HARDWARE("cycles", CPU_CYCLES, "cpu-cycles", NULL,
             "cycles of the core while it is not halted; their length follows the clock",
             "cpu-cycles", "unhalted-cycles"),
    HARDWARE("instructions", INSTRUCTIONS, "instructions", "inst_retired", "retired instructions"),
    HARDWARE("cache-references", CACHE_REFERENCES, "cache-references", NULL,
             "accesses to the cache, mostly to the last level"),
    HARDWARE("cache-misses", CACHE_MISSES, "cache-misses", NULL,
             "misses of the cache, mostly of the last level"),
    HARDWARE("branches", BRANCH_INSTRUCTIONS, "branch-instructions", "br_retired",
             "retired branch instructions", "branch-instructions"),
    HARDWARE("branch-misses", BRANCH_MISSES, "branch-misses", "br_mis_pred",
             "mispredicted branch instructions", "branch-mispredicts"),
    HARDWARE("bus-cycles", BUS_CYCLES, "bus-cycles", NULL, "cycles of the bus"),
    HARDWARE("ref-cycles", REF_CPU_CYCLES, "ref-cycles", NULL,
             "cycles while it is not halted, at a clock that does not change"),
    HARDWARE("stalled-cycles-frontend", STALLED_CYCLES_FRONTEND, "stalled-cycles-frontend",
             "stall_frontend", "cycles in which no instruction was issued", "idle-cycles-frontend"),
    HARDWARE("stalled-cycles-backend", STALLED_CYCLES_BACKEND, "stalled-cycles-backend",
             "stall_backend", "cycles in which nothing could be retired", "idle-cycles-backend"),

    SOFTWARE("cpu-clock", CPU_CLOCK, SPLIT_NEVER, NULL,
             "nanoseconds on the CPU, by a timer that raises interrupts"),
    SOFTWARE("task-clock", TASK_CLOCK, SPLIT_NEVER, NULL, "nanoseconds the task was running"),
    SOFTWARE("page-faults", PAGE_FAULTS, SPLIT_WITH_MODIFIER, NULL, "page faults", "faults"),
    SOFTWARE("minor-faults", PAGE_FAULTS_MIN, SPLIT_WITH_MODIFIER, NULL,
             "page faults that needed no disk", "page-faults-min"),
    SOFTWARE("major-faults", PAGE_FAULTS_MAJ, SPLIT_WITH_MODIFIER, NULL,
             "page faults that had to wait for a disk", "page-faults-maj"),
    SOFTWARE("context-switches", CONTEXT_SWITCHES, SPLIT_KERNEL, NULL, "context switches", "cs"),
    SOFTWARE("cpu-migrations", CPU_MIGRATIONS, SPLIT_KERNEL, NULL, "moves of a task to another CPU",
             "migrations"),
    SOFTWARE("cgroup-switches", CGROUP_SWITCHES, SPLIT_KERNEL, NULL,
             "context switches to a task of another cgroup"),
    SOFTWARE("alignment-faults", ALIGNMENT_FAULTS, SPLIT_WITH_MODIFIER, NEVER_HERE,
             "unaligned accesses that the kernel had to finish"),
    SOFTWARE("emulation-faults", EMULATION_FAULTS, SPLIT_WITH_MODIFIER, NEVER_HERE,
             "instructions that the kernel had to emulate"),

    CACHE_ALL("L1-dcache", L1D, "level 1 data cache", "dc-misses"),
    CACHE_READS("L1-icache", L1I, "level 1 instruction cache", "ic-misses"),
    CACHE_PREFETCHES("L1-icache", L1I, "level 1 instruction cache"),
    CACHE_ALL("LLC", LL, "last level cache"),
    CACHE_ALL("dTLB", DTLB, "data TLB"),
    CACHE_READS("iTLB", ITLB, "instruction TLB"),
    CACHE_READS("branch", BPU, "branch predictor"),
    CACHE_ALL("node", NODE, "local memory"),

    PRESET("tot_cyc", "cycles", "cycles"),
    PRESET("tot_ins", "completed instructions", "instructions"),
    PRESET("tot_iis", "issued instructions", "UOPS_ISSUED:ANY", "INST_SPEC"),
    PRESET("br_ins", "branch instructions", "branches"),
    PRESET("br_cn", "conditional branches", "BR_INST_RETIRED:CONDITIONAL", "BR_INST_RETIRED:COND",
           "RETIRED_CONDITIONAL_BRANCH_INSTRUCTIONS"),
    PRESET("br_tkn", "taken conditional branches", "BR_INST_RETIRED:NEAR_TAKEN",
           "RETIRED_TAKEN_BRANCH_INSTRUCTIONS"),
    PRESET("br_ntk", "conditional branches not taken", "BR_INST_RETIRED:NOT_TAKEN",
           "BR_INST_RETIRED:COND_NTAKEN"),
    PRESET("br_msp", "mispredicted branches", "branch-misses"),
    PRESET("ld_ins", "load instructions", "MEM_INST_RETIRED:ALL_LOADS",
           "MEM_UOPS_RETIRED:ALL_LOADS", "ld_retired", "LS_DISPATCH:LD_DISPATCH"),
    PRESET("sr_ins", "store instructions", "MEM_INST_RETIRED:ALL_STORES",
           "MEM_UOPS_RETIRED:ALL_STORES", "st_retired", "LS_DISPATCH:STORE_DISPATCH"),
    PRESET("lst_ins", "load and store instructions", "MEM_INST_RETIRED:ANY", "mem_access"),
    PRESET("mem_scy", "cycles stalled on memory", "CYCLE_ACTIVITY:STALLS_MEM_ANY"),
    PRESET("l1_dca", "level 1 data cache accesses", "l1d_cache"),
    PRESET("l1_dcm", "level 1 data cache misses", "L1D:REPLACEMENT", "L1-dcache-load-misses",
           "l1d_cache_refill"),
    PRESET("l1_dcr", "level 1 data cache reads", "L1-dcache-loads"),
    PRESET("l1_dcw", "level 1 data cache writes", "L1-dcache-stores"),
    PRESET("l1_ica", "level 1 instruction cache accesses", "l1i_cache", "L1-icache-loads"),
    PRESET("l1_icm", "level 1 instruction cache misses", "L1-icache-load-misses",
           "l1i_cache_refill"),
    PRESET("l1_icr", "level 1 instruction cache reads", "L1-icache-loads"),
    PRESET("l1_ldm", "level 1 cache load misses", "L1-dcache-load-misses"),
    PRESET("l1_stm", "level 1 cache store misses", "L1-dcache-store-misses"),
    PRESET("l2_dca", "level 2 data cache accesses", "l2d_cache"),
    PRESET("l2_dcm", "level 2 data cache misses", "l2d_cache_refill"),
    PRESET("l2_dcr", "level 2 data cache reads", "L2_RQSTS:ALL_DEMAND_DATA_RD"),
    PRESET("l2_ica", "level 2 instruction cache accesses", "L2_RQSTS:ALL_CODE_RD"),
    PRESET("l2_ich", "level 2 instruction cache hits", "L2_RQSTS:CODE_RD_HIT"),
    PRESET("l2_icm", "level 2 instruction cache misses", "L2_RQSTS:CODE_RD_MISS"),
    PRESET("l2_icr", "level 2 instruction cache reads", "L2_RQSTS:ALL_CODE_RD"),
    PRESET("l2_tca", "level 2 total cache accesses", "L2_RQSTS:REFERENCES", "l2d_cache"),
    PRESET("l2_tcm", "level 2 total cache misses", "L2_RQSTS:MISS", "l2d_cache_refill"),
    PRESET("l2_ldm", "level 2 cache load misses", "L2_RQSTS:DEMAND_DATA_RD_MISS"),
    PRESET("l3_dca", "level 3 data cache accesses", "l3d_cache"),
    PRESET("l3_dcm", "level 3 data cache misses", "l3d_cache_refill"),
    PRESET("l3_dcr", "level 3 data cache reads", "LLC-loads"),
    PRESET("l3_dcw", "level 3 data cache writes", "LLC-stores"),
    PRESET("l3_tca", "level 3 total cache accesses", "LONGEST_LAT_CACHE:REFERENCE",
           "cache-references"),
    PRESET("l3_tcm", "level 3 total cache misses", "LONGEST_LAT_CACHE:MISS", "cache-misses"),
    PRESET("l3_tcr", "level 3 total cache reads", "LLC-loads"),
    PRESET("l3_tcw", "level 3 total cache writes", "LLC-stores"),
    PRESET("l3_ldm", "level 3 cache load misses", "LLC-load-misses"),
    PRESET("l3_stm", "level 3 cache store misses", "LLC-store-misses"),
    PRESET("prf_dm", "data prefetch misses", "L1-dcache-prefetch-misses"),
    PRESET("tlb_dm", "data TLB misses", "dTLB-load-misses", "l1d_tlb_refill"),
    PRESET("tlb_im", "instruction TLB misses", "iTLB-load-misses", "l1i_tlb_refill"),
    PRESET("fp_ins", "floating-point instructions", "RETIRED_SSE_AVX_FLOPS:ANY", "VFP_SPEC"),
    PRESET("fp_ops", "floating-point operations", "RETIRED_SSE_AVX_FLOPS:ANY"),
    PRESET("int_ins", "integer instructions", "dp_spec"),
    PRESET("vec_ins", "vector instructions", "ase_spec"),
    PRESET("stl_icy", "cycles in which no instruction is issued", "stalled-cycles-frontend"),
    PRESET("stl_ccy", "cycles in which no instruction completes", "UOPS_RETIRED:STALL_CYCLES"),
    PRESET("res_stl", "cycles stalled on any resource", "stalled-cycles-backend",
           "RESOURCE_STALLS:ANY"),
    {.name = PREFIX "hw_int",
     .aliases = {"hw_int", "interrupts"},
     .type = PERF_TYPE_MAX,
     .candidates = {"HW_INTERRUPTS:RECEIVED", "INTERRUPTS_TAKEN", "INTERRUPT_TAKEN", "exc_irq"},
     .description = "hardware interrupts"},
    {.name = NULL},
};

/* Presets that no event of a processor is known to serve. */
static const char *const unserved[] = {
    "br_ucn",  "br_prc",  "bru_idl", "btac_m",  "lsu_idl", "syc_ins", "csr_fal", "csr_suc",
    "csr_tot", "mem_rcy", "mem_wcy", "l1_dch",  "l1_ich",  "l1_icw",  "l1_tca",  "l1_tch",
    "l1_tcm",  "l1_tcr",  "l1_tcw",  "l2_dch",  "l2_dcw",  "l2_icw",  "l2_tch",  "l2_tcr",
    "l2_tcw",  "l2_stm",  "l3_dch",  "l3_ica",  "l3_ich",  "l3_icm",  "l3_icr",  "l3_icw",
    "l3_tch",  "ca_snp",  "ca_shr",  "ca_cln",  "ca_inv",  "ca_itv",  "tlb_sd",  "tlb_tl",
    "tlb_tm",  "fp_stal", "fad_ins", "fml_ins", "fdv_ins", "fsq_ins", "fma_ins", "fnv_ins",
    "fpu_idl", "fxu_idl", "ful_icy", "ful_ccy", NULL};

static bool name_is_among(struct word name, const char *const *names)
{
    while (*names && !word_alike(name, *names, true))
        names++;
    return *names;
}

const struct generic *generic_find(struct word name)
{
    for (const struct generic *generic = generics; generic->name; generic++)
        if (word_alike(name, generic->name, true) || name_is_among(name, generic->aliases))
            return generic;
    return NULL;
}

const struct generic *generic_by_code(uint32_t type, uint64_t config)
{
    for (const struct generic *generic = generics; generic->name; generic++)
        if (generic->type == type && generic->config == config)
            return generic;
    return NULL;
}

const struct generic *generic_by_file(const char *file)
{
    for (const struct generic *generic = generics; generic->name; generic++)
        if (name_is_among(word_of(file), generic->raw_names))
            return generic;
    return NULL;
}

bool generic_is_hardware(const struct generic *generic)
{
    return generic->type == PERF_TYPE_HARDWARE || generic->type == PERF_TYPE_HW_CACHE;
}

void generic_offer_names(struct near *near)
{
    for (const struct generic *generic = generics; generic->name; generic++) {
        near_offer(near, generic->name);
        for (const char *const *name = generic->aliases; *name; name++)
            near_offer(near, *name);
    }
}

void generic_fill_event(struct spec *spec, const struct generic *generic)
{
    struct event *event = &spec->event;

    event->code[CODE_TYPE] = generic->type;
    event->code[CODE_CONFIG] = generic->config;
    if (spec->pmu->extended && spec->pmu->kind != PMU_CORES)
        event->code[CODE_CONFIG] |= (uint64_t)spec->pmu->type << 32;
    spec->split = generic->split;
    spec->raw_names = generic->raw_names;
    snprintf(event->generic, sizeof(event->generic), "%s", generic->name);
    if (generic->split == SPLIT_NEVER)
        snprintf(event->unit, sizeof(event->unit), "ns");
}

/* Parses one candidate and opens it. Returns true if it counts on this host. */
static bool candidate_counts(struct backend_state *state, const char *candidate, struct spec *spec)
{
    struct word text = word_of(candidate);
    const struct generic *generic = generic_find(text);

    *spec = (struct spec){.state = state, .event.scale = 1};
    int rc = generic ? generic_use(spec, generic, NULL) : terms_parse_bare(spec, &text, NULL);
    if (rc == -ENOENT)
        rc = pfm_parse(spec, &text, NULL);
    return rc == 0 && spec_try(spec) == 0;
}

void generic_narrow(struct spec *spec)
{
    const struct pmu *cores = spec->pmu;
    const struct pmus *pmus = spec->state->pmus;
    const struct generic *generic = generic_find(word_of(spec->event.generic));
    int rc = -ENOENT;

    for (unsigned i = 0; cores->kind == PMU_CORES && rc && i < pmus->n; i++) {
        if (!pmu_serves(cores, &pmus->list[i]))
            continue;
        spec_use(spec, &pmus->list[i], word_of(generic->name), NULL);
        generic_fill_event(spec, generic);
        snprintf(spec->resolved, sizeof spec->resolved, "%s/%s/", spec->pmu->name, generic->name);
        rc = spec_try(spec);
    }
}

int generic_use(struct spec *spec, const struct generic *generic, struct err *err)
{
    struct backend_state *state = spec->state;
    const struct word what = word_of(generic->name);
    const char *why = state->pmus->why_no_core;

    if (generic->type == PERF_TYPE_MAX) { /* a preset: the first candidate that counts */
        for (const char *const *name = generic->candidates; !why[0] && *name; name++)
            if (candidate_counts(state, *name, spec))
                return 0;
        return err_set(err, P09, "%s (%s) cannot be counted here: %s", generic->name,
                       generic->description,
                       why[0] ? why : "this processor has no single event with this meaning");
    }
    const bool hardware = generic_is_hardware(generic);
    struct pmu *cores = hardware ? pmus_first_of(state->pmus, PMU_CORES) : NULL;
    int rc =
        hardware && !cores
            ? spec_use_core(spec, what, err)
            : spec_use(spec, cores ? cores : pmus_first_of(state->pmus, PMU_SOFTWARE), what, err);
    if (rc == 0 && generic->why_zero)
        rc = spec_refuse(what, generic->why_zero, err);
    if (rc < 0)
        return rc;
    generic_fill_event(spec, generic);
    spec_append(spec, "%s", generic->name);
    rc = cores ? spec_try(spec) : 0;
    if (rc == -ENOENT || rc == -EINVAL || rc == -EOPNOTSUPP) /* a core PMU does not have it */
        generic_narrow(spec);
    return 0;
}

int generic_parse(struct spec *spec, struct word *text, struct err *err)
{
    const bool meant = prefix_remove(text, "generic/");
    const bool slash = meant && memchr(text->p, '/', text->len);
    struct word name = word_until(*text, slash ? '/' : ':', text), suffix = name;
    const struct generic *generic = generic_find(name);
    struct near near = {.word = name};

    if (generic)
        return generic_use(spec, generic, err);
    prefix_remove(&suffix, PREFIX);
    if (name_is_among(suffix, unserved))
        return spec_refuse(name,
                           "no single event of any processor is known to serve this preset of "
                           "PAPI's",
                           err);
    if (!meant)
        return -ENOENT;
    generic_offer_names(&near);
    return err_set(err, CS01,
                   "no generic event \"" WORD_FMT
                   "\"%s; all generic events of this host: ls events/generic",
                   WORD_ARG(name), near_text(&near));
}

void generic_add_all(struct backend_state *state, struct catalog *out)
{
    struct spec spec;

    for (const struct generic *generic = generics; generic->name; generic++)
        if (candidate_counts(state, generic->name, &spec))
            catalog_add(out, "generic", generic->name);
}
