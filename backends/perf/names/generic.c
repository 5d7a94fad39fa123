/*
 * The table of generic events: the kernel's own, and PAPI's presets with the spellings that may
 * serve them, the nearest first.
 */
#include "backends/perf/names/generic.h"

#include <linux/perf_event.h>
#include <string.h>

#define PREFIX "PAPI_"
#define HARDWARE(text, names, id, files, about)                                                    \
    {                                                                                              \
        .name = text, .others = names " PERF_COUNT_HW_" #id, .type = PERF_TYPE_HARDWARE,           \
        .config = PERF_COUNT_HW_##id, .split = SPLIT_ALWAYS, .raw_names = files,                   \
        .description = about                                                                       \
    }
#define SOFTWARE(text, names, id, how, about)                                                      \
    {                                                                                              \
        .name = text, .others = names " PERF_COUNT_SW_" #id, .type = PERF_TYPE_SOFTWARE,           \
        .config = PERF_COUNT_SW_##id, .split = how, .description = about                           \
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

#define PRESET(suffix, spellings, about)                                                           \
    {                                                                                              \
        .name = PREFIX suffix, .others = suffix, .type = PERF_TYPE_MAX, .candidates = spellings,   \
        .description = about                                                                       \
    }

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

    SOFTWARE("cpu-clock", "", CPU_CLOCK, SPLIT_NEVER,
             "nanoseconds on the CPU, by a timer that raises interrupts"),
    SOFTWARE("task-clock", "", TASK_CLOCK, SPLIT_NEVER, "nanoseconds the task was running"),
    SOFTWARE("page-faults", "faults", PAGE_FAULTS, SPLIT_ASKED, "page faults"),
    SOFTWARE("minor-faults", "page-faults-min", PAGE_FAULTS_MIN, SPLIT_ASKED,
             "page faults that needed no disk"),
    SOFTWARE("major-faults", "page-faults-maj", PAGE_FAULTS_MAJ, SPLIT_ASKED,
             "page faults that had to wait for a disk"),
    SOFTWARE("context-switches", "cs", CONTEXT_SWITCHES, SPLIT_KERNEL, "context switches"),
    SOFTWARE("cpu-migrations", "migrations", CPU_MIGRATIONS, SPLIT_KERNEL,
             "moves of a task to another CPU"),
    SOFTWARE("cgroup-switches", "", CGROUP_SWITCHES, SPLIT_KERNEL,
             "context switches to a task of another cgroup"),
    TRAP("alignment-faults", ALIGNMENT_FAULTS, "unaligned accesses that the kernel had to finish"),
    TRAP("emulation-faults", EMULATION_FAULTS, "instructions that the kernel had to emulate"),

    CACHE_ALL("L1-dcache", "dc-misses", L1D, "level 1 data cache"),
    CACHE_READS("L1-icache", "ic-misses", L1I, "level 1 instruction cache"),
    CACHE_PREFETCHES("L1-icache", L1I, "level 1 instruction cache"),
    CACHE_ALL("LLC", "", LL, "last level cache"),
    CACHE_ALL("dTLB", "", DTLB, "data TLB"),
    CACHE_READS("iTLB", "", ITLB, "instruction TLB"),
    CACHE_READS("branch", "", BPU, "branch predictor"),
    CACHE_ALL("node", "", NODE, "local memory"),

    PRESET("tot_cyc", "cycles", "cycles"),
    PRESET("tot_ins", "instructions", "completed instructions"),
    PRESET("tot_iis", "UOPS_ISSUED:ANY INST_SPEC inst_spec", "issued instructions"),
    PRESET("br_ins", "branches", "branch instructions"),
    PRESET("br_cn",
           "BR_INST_RETIRED:CONDITIONAL BR_INST_RETIRED:COND "
           "RETIRED_CONDITIONAL_BRANCH_INSTRUCTIONS",
           "conditional branches"),
    PRESET("br_tkn", "BR_INST_RETIRED:NEAR_TAKEN RETIRED_TAKEN_BRANCH_INSTRUCTIONS",
           "taken conditional branches"),
    PRESET("br_ntk", "BR_INST_RETIRED:NOT_TAKEN BR_INST_RETIRED:COND_NTAKEN",
           "conditional branches not taken"),
    PRESET("br_msp", "branch-misses", "mispredicted branches"),
    PRESET("ld_ins",
           "MEM_INST_RETIRED:ALL_LOADS MEM_UOPS_RETIRED:ALL_LOADS ld_retired LD_RETIRED "
           "LS_DISPATCH:LD_DISPATCH",
           "load instructions"),
    PRESET("sr_ins",
           "MEM_INST_RETIRED:ALL_STORES MEM_UOPS_RETIRED:ALL_STORES st_retired ST_RETIRED "
           "LS_DISPATCH:STORE_DISPATCH",
           "store instructions"),
    PRESET("lst_ins", "MEM_INST_RETIRED:ANY mem_access", "load and store instructions"),
    PRESET("mem_scy", "CYCLE_ACTIVITY:STALLS_MEM_ANY", "cycles stalled on memory"),
    PRESET("l1_dca", "l1d_cache", "level 1 data cache accesses"),
    PRESET("l1_dcm", "L1D:REPLACEMENT L1-dcache-load-misses l1d_cache_refill",
           "level 1 data cache misses"),
    PRESET("l1_dcr", "L1-dcache-loads", "level 1 data cache reads"),
    PRESET("l1_dcw", "L1-dcache-stores", "level 1 data cache writes"),
    PRESET("l1_ica", "l1i_cache L1-icache-loads", "level 1 instruction cache accesses"),
    PRESET("l1_icm", "L1-icache-load-misses l1i_cache_refill", "level 1 instruction cache misses"),
    PRESET("l1_icr", "L1-icache-loads", "level 1 instruction cache reads"),
    PRESET("l1_ldm", "L1-dcache-load-misses", "level 1 cache load misses"),
    PRESET("l1_stm", "L1-dcache-store-misses", "level 1 cache store misses"),
    PRESET("l2_dca", "l2d_cache", "level 2 data cache accesses"),
    PRESET("l2_dcm", "l2d_cache_refill", "level 2 data cache misses"),
    PRESET("l2_dcr", "L2_RQSTS:ALL_DEMAND_DATA_RD", "level 2 data cache reads"),
    PRESET("l2_ica", "L2_RQSTS:ALL_CODE_RD", "level 2 instruction cache accesses"),
    PRESET("l2_ich", "L2_RQSTS:CODE_RD_HIT", "level 2 instruction cache hits"),
    PRESET("l2_icm", "L2_RQSTS:CODE_RD_MISS", "level 2 instruction cache misses"),
    PRESET("l2_icr", "L2_RQSTS:ALL_CODE_RD", "level 2 instruction cache reads"),
    PRESET("l2_tca", "L2_RQSTS:REFERENCES l2d_cache", "level 2 total cache accesses"),
    PRESET("l2_tcm", "L2_RQSTS:MISS l2d_cache_refill", "level 2 total cache misses"),
    PRESET("l2_ldm", "L2_RQSTS:DEMAND_DATA_RD_MISS", "level 2 cache load misses"),
    PRESET("l3_dca", "l3d_cache", "level 3 data cache accesses"),
    PRESET("l3_dcm", "l3d_cache_refill", "level 3 data cache misses"),
    PRESET("l3_dcr", "LLC-loads", "level 3 data cache reads"),
    PRESET("l3_dcw", "LLC-stores", "level 3 data cache writes"),
    PRESET("l3_tca", "LONGEST_LAT_CACHE:REFERENCE cache-references",
           "level 3 total cache accesses"),
    PRESET("l3_tcm", "LONGEST_LAT_CACHE:MISS cache-misses", "level 3 total cache misses"),
    PRESET("l3_tcr", "LLC-loads", "level 3 total cache reads"),
    PRESET("l3_tcw", "LLC-stores", "level 3 total cache writes"),
    PRESET("l3_ldm", "LLC-load-misses", "level 3 cache load misses"),
    PRESET("l3_stm", "LLC-store-misses", "level 3 cache store misses"),
    PRESET("prf_dm", "L1-dcache-prefetch-misses", "data prefetch misses"),
    PRESET("tlb_dm", "dTLB-load-misses l1d_tlb_refill", "data TLB misses"),
    PRESET("tlb_im", "iTLB-load-misses l1i_tlb_refill", "instruction TLB misses"),
    PRESET("fp_ins", "RETIRED_SSE_AVX_FLOPS:ANY VFP_SPEC vfp_spec", "floating-point instructions"),
    PRESET("fp_ops", "RETIRED_SSE_AVX_FLOPS:ANY", "floating-point operations"),
    PRESET("int_ins", "dp_spec", "integer instructions"),
    PRESET("vec_ins", "ase_spec", "vector instructions"),
    PRESET("stl_icy", "stalled-cycles-frontend", "cycles in which no instruction is issued"),
    PRESET("stl_ccy", "UOPS_RETIRED:STALL_CYCLES", "cycles in which no instruction completes"),
    PRESET("res_stl", "stalled-cycles-backend RESOURCE_STALLS:ANY",
           "cycles stalled on any resource"),
    {.name = PREFIX "hw_int",
     .others = "hw_int interrupts",
     .type = PERF_TYPE_MAX,
     .candidates = "HW_INTERRUPTS:RECEIVED INTERRUPTS_TAKEN INTERRUPT_TAKEN exc_irq",
     .description = "hardware interrupts"},
};

/* Presets that no event of a processor is known to serve. */
static const char unserved[] =
    "br_ucn br_prc bru_idl btac_m lsu_idl syc_ins csr_fal csr_suc csr_tot mem_rcy mem_wcy l1_dch "
    "l1_ich l1_icw l1_tca l1_tch l1_tcm l1_tcr l1_tcw l2_dch l2_dcw l2_icw l2_tch l2_tcr l2_tcw "
    "l2_stm l3_dch l3_ica l3_ich l3_icm l3_icr l3_icw l3_tch ca_snp ca_shr ca_cln ca_inv ca_itv "
    "tlb_sd tlb_tl tlb_tm fp_stal fad_ins fml_ins fdv_ins fsq_ins fma_ins fnv_ins fpu_idl "
    "fxu_idl ful_icy ful_ccy";

const struct generic *generic_at(unsigned index)
{
    return index < sizeof(table) / sizeof(table[0]) ? &table[index] : NULL;
}

/* Is name one of the blank-separated names? */
static bool among(struct word name, const char *names)
{
    char text[64];

    for (size_t len; name.len && *names; names += len + (names[len] == ' ')) {
        len = strcspn(names, " ");
        if (len == name.len && len < sizeof(text)) {
            memcpy(text, names, len);
            text[len] = '\0';
            if (word_alike(name, text, true))
                return true;
        }
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

bool generic_is_unserved(struct word name)
{
    spec_prefix(&name, PREFIX);
    return among(name, unserved);
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
    return generic->type == PERF_TYPE_HARDWARE || generic->type == PERF_TYPE_HW_CACHE;
}

void generic_near(struct near *near)
{
    const struct generic *generic;
    struct scan scan;
    struct word word;
    char text[64];

    for (unsigned i = 0; (generic = generic_at(i)); i++) {
        near_offer(near, generic->name);
        scan_init(&scan, generic->others, strlen(generic->others));
        while (scan_word(&scan, &word)) {
            memcpy(text, word.p, word.len);
            text[word.len] = '\0';
            near_offer(near, text);
        }
    }
}
