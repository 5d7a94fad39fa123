/*
 * The table of PAPI's presets with the events that may serve them, the nearest first.
 */
#include "backends/perf/names/papi.h"

#include "backends/perf/names/generic.h"
#include "backends/perf/names/pfm.h"
#include "backends/perf/names/spec_event.h"
#include "backends/perf/names/terms.h"

#include <errno.h>
#include <string.h>

static const struct papi table[] = {
    {"PAPI_tot_cyc", "cycles", "cycles"},
    {"PAPI_tot_ins", "instructions", "completed instructions"},
    {"PAPI_tot_iis", "UOPS_ISSUED:ANY INST_SPEC inst_spec", "issued instructions"},
    {"PAPI_br_ins", "branches", "branch instructions"},
    {"PAPI_br_cn",
     "BR_INST_RETIRED:CONDITIONAL BR_INST_RETIRED:COND RETIRED_CONDITIONAL_BRANCH_INSTRUCTIONS",
     "conditional branches"},
    {"PAPI_br_ucn", "", "unconditional branches"},
    {"PAPI_br_tkn", "BR_INST_RETIRED:NEAR_TAKEN RETIRED_TAKEN_BRANCH_INSTRUCTIONS",
     "taken conditional branches"},
    {"PAPI_br_ntk", "BR_INST_RETIRED:NOT_TAKEN BR_INST_RETIRED:COND_NTAKEN",
     "conditional branches not taken"},
    {"PAPI_br_prc", "", "correctly predicted conditional branches"},
    {"PAPI_br_msp", "branch-misses", "mispredicted branches"},
    {"PAPI_bru_idl", "", "cycles with an idle branch unit"},
    {"PAPI_btac_m", "", "misses of the branch target cache"},
    {"PAPI_ld_ins",
     "MEM_INST_RETIRED:ALL_LOADS MEM_UOPS_RETIRED:ALL_LOADS ld_retired LD_RETIRED "
     "LS_DISPATCH:LD_DISPATCH",
     "load instructions"},
    {"PAPI_sr_ins",
     "MEM_INST_RETIRED:ALL_STORES MEM_UOPS_RETIRED:ALL_STORES st_retired ST_RETIRED "
     "LS_DISPATCH:STORE_DISPATCH",
     "store instructions"},
    {"PAPI_lst_ins", "MEM_INST_RETIRED:ANY mem_access", "load and store instructions"},
    {"PAPI_lsu_idl", "", "cycles with an idle load-store unit"},
    {"PAPI_syc_ins", "", "synchronising instructions"},
    {"PAPI_csr_fal", "", "failed conditional stores"},
    {"PAPI_csr_suc", "", "successful conditional stores"},
    {"PAPI_csr_tot", "", "conditional stores"},
    {"PAPI_mem_rcy", "", "cycles stalled on memory reads"},
    {"PAPI_mem_wcy", "", "cycles stalled on memory writes"},
    {"PAPI_mem_scy", "CYCLE_ACTIVITY:STALLS_MEM_ANY", "cycles stalled on memory"},
    {"PAPI_l1_dca", "l1d_cache", "level 1 data cache accesses"},
    {"PAPI_l1_dch", "", "level 1 data cache hits"},
    {"PAPI_l1_dcm", "L1D:REPLACEMENT L1-dcache-load-misses l1d_cache_refill",
     "level 1 data cache misses"},
    {"PAPI_l1_dcr", "L1-dcache-loads", "level 1 data cache reads"},
    {"PAPI_l1_dcw", "L1-dcache-stores", "level 1 data cache writes"},
    {"PAPI_l1_ica", "l1i_cache L1-icache-loads", "level 1 instruction cache accesses"},
    {"PAPI_l1_ich", "", "level 1 instruction cache hits"},
    {"PAPI_l1_icm", "L1-icache-load-misses l1i_cache_refill", "level 1 instruction cache misses"},
    {"PAPI_l1_icr", "L1-icache-loads", "level 1 instruction cache reads"},
    {"PAPI_l1_icw", "", "level 1 instruction cache writes"},
    {"PAPI_l1_tca", "", "level 1 total cache accesses"},
    {"PAPI_l1_tch", "", "level 1 total cache hits"},
    {"PAPI_l1_tcm", "", "level 1 total cache misses"},
    {"PAPI_l1_tcr", "", "level 1 total cache reads"},
    {"PAPI_l1_tcw", "", "level 1 total cache writes"},
    {"PAPI_l1_ldm", "L1-dcache-load-misses", "level 1 cache load misses"},
    {"PAPI_l1_stm", "L1-dcache-store-misses", "level 1 cache store misses"},
    {"PAPI_l2_dca", "l2d_cache", "level 2 data cache accesses"},
    {"PAPI_l2_dch", "", "level 2 data cache hits"},
    {"PAPI_l2_dcm", "l2d_cache_refill", "level 2 data cache misses"},
    {"PAPI_l2_dcr", "L2_RQSTS:ALL_DEMAND_DATA_RD", "level 2 data cache reads"},
    {"PAPI_l2_dcw", "", "level 2 data cache writes"},
    {"PAPI_l2_ica", "L2_RQSTS:ALL_CODE_RD", "level 2 instruction cache accesses"},
    {"PAPI_l2_ich", "L2_RQSTS:CODE_RD_HIT", "level 2 instruction cache hits"},
    {"PAPI_l2_icm", "L2_RQSTS:CODE_RD_MISS", "level 2 instruction cache misses"},
    {"PAPI_l2_icr", "L2_RQSTS:ALL_CODE_RD", "level 2 instruction cache reads"},
    {"PAPI_l2_icw", "", "level 2 instruction cache writes"},
    {"PAPI_l2_tca", "L2_RQSTS:REFERENCES l2d_cache", "level 2 total cache accesses"},
    {"PAPI_l2_tch", "", "level 2 total cache hits"},
    {"PAPI_l2_tcm", "L2_RQSTS:MISS l2d_cache_refill", "level 2 total cache misses"},
    {"PAPI_l2_tcr", "", "level 2 total cache reads"},
    {"PAPI_l2_tcw", "", "level 2 total cache writes"},
    {"PAPI_l2_ldm", "L2_RQSTS:DEMAND_DATA_RD_MISS", "level 2 cache load misses"},
    {"PAPI_l2_stm", "", "level 2 cache store misses"},
    {"PAPI_l3_dca", "l3d_cache", "level 3 data cache accesses"},
    {"PAPI_l3_dch", "", "level 3 data cache hits"},
    {"PAPI_l3_dcm", "l3d_cache_refill", "level 3 data cache misses"},
    {"PAPI_l3_dcr", "LLC-loads", "level 3 data cache reads"},
    {"PAPI_l3_dcw", "LLC-stores", "level 3 data cache writes"},
    {"PAPI_l3_ica", "", "level 3 instruction cache accesses"},
    {"PAPI_l3_ich", "", "level 3 instruction cache hits"},
    {"PAPI_l3_icm", "", "level 3 instruction cache misses"},
    {"PAPI_l3_icr", "", "level 3 instruction cache reads"},
    {"PAPI_l3_icw", "", "level 3 instruction cache writes"},
    {"PAPI_l3_tca", "LONGEST_LAT_CACHE:REFERENCE cache-references", "level 3 total cache accesses"},
    {"PAPI_l3_tch", "", "level 3 total cache hits"},
    {"PAPI_l3_tcm", "LONGEST_LAT_CACHE:MISS cache-misses", "level 3 total cache misses"},
    {"PAPI_l3_tcr", "LLC-loads", "level 3 total cache reads"},
    {"PAPI_l3_tcw", "LLC-stores", "level 3 total cache writes"},
    {"PAPI_l3_ldm", "LLC-load-misses", "level 3 cache load misses"},
    {"PAPI_l3_stm", "LLC-store-misses", "level 3 cache store misses"},
    {"PAPI_ca_snp", "", "cache coherence: snoops"},
    {"PAPI_ca_shr", "", "cache coherence: exclusive accesses to shared lines"},
    {"PAPI_ca_cln", "", "cache coherence: exclusive accesses to clean lines"},
    {"PAPI_ca_inv", "", "cache coherence: invalidations"},
    {"PAPI_ca_itv", "", "cache coherence: interventions"},
    {"PAPI_prf_dm", "L1-dcache-prefetch-misses", "data prefetch misses"},
    {"PAPI_tlb_dm", "dTLB-load-misses l1d_tlb_refill", "data TLB misses"},
    {"PAPI_tlb_im", "iTLB-load-misses l1i_tlb_refill", "instruction TLB misses"},
    {"PAPI_tlb_sd", "", "TLB shootdowns"},
    {"PAPI_tlb_tl", "", "TLB misses, data and instruction"},
    {"PAPI_tlb_tm", "", "TLB misses, data and instruction"},
    {"PAPI_fp_ins", "RETIRED_SSE_AVX_FLOPS:ANY VFP_SPEC vfp_spec", "floating-point instructions"},
    {"PAPI_fp_ops", "RETIRED_SSE_AVX_FLOPS:ANY", "floating-point operations"},
    {"PAPI_fp_stal", "", "cycles with a stalled floating-point unit"},
    {"PAPI_fad_ins", "", "floating-point additions"},
    {"PAPI_fml_ins", "", "floating-point multiplications"},
    {"PAPI_fdv_ins", "", "floating-point divisions"},
    {"PAPI_fsq_ins", "", "floating-point square roots"},
    {"PAPI_fma_ins", "", "fused multiply-adds"},
    {"PAPI_fnv_ins", "", "floating-point inversions"},
    {"PAPI_fpu_idl", "", "cycles with an idle floating-point unit"},
    {"PAPI_fxu_idl", "", "cycles with an idle integer unit"},
    {"PAPI_int_ins", "dp_spec", "integer instructions"},
    {"PAPI_vec_ins", "ase_spec", "vector instructions"},
    {"PAPI_stl_icy", "stalled-cycles-frontend", "cycles in which no instruction is issued"},
    {"PAPI_stl_ccy", "UOPS_RETIRED:STALL_CYCLES", "cycles in which no instruction completes"},
    {"PAPI_ful_icy", "", "cycles with the maximum of instructions issued"},
    {"PAPI_ful_ccy", "", "cycles with the maximum of instructions completed"},
    {"PAPI_res_stl", "stalled-cycles-backend RESOURCE_STALLS:ANY",
     "cycles stalled on any resource"},
    {"PAPI_hw_int", "HW_INTERRUPTS:RECEIVED INTERRUPTS_TAKEN INTERRUPT_TAKEN exc_irq",
     "hardware interrupts"},
};

#define N_TABLE    (sizeof(table) / sizeof(table[0]))
#define GENERIC    "generic/"
#define PREFIX     "PAPI_"
#define INTERRUPTS "interrupts" /* hwpmc's alias */

static bool has_prefix(struct word text, const char *prefix)
{
    size_t len = strlen(prefix);

    return text.len >= len && word_alike((struct word){text.p, len}, prefix, false);
}

/* The name alone, and the modifiers behind it. */
static struct word name_of(struct word text, struct word *mods)
{
    if (has_prefix(text, GENERIC)) {
        text.p += strlen(GENERIC);
        text.len -= strlen(GENERIC);
        if (memchr(text.p, '/', text.len))
            return word_until(text, '/', mods);
    }
    return word_until(text, ':', mods);
}

const struct papi *papi_find(const char *name)
{
    for (size_t i = 0; i < N_TABLE; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

static const struct papi *papi_alike(struct word name)
{
    if (word_alike(name, INTERRUPTS, false))
        return papi_find("PAPI_hw_int");
    for (size_t i = 0; i < N_TABLE; i++)
        if (word_alike(name, table[i].name, true) ||
            word_alike(name, table[i].name + strlen(PREFIX), true))
            return &table[i];
    return NULL;
}

void papi_near(struct near *near)
{
    size_t skip = has_prefix(near->word, PREFIX) ? 0 : strlen(PREFIX);

    near_offer(near, INTERRUPTS);
    for (size_t i = 0; i < N_TABLE; i++)
        near_offer(near, table[i].name + skip);
}

static int unknown_name(struct word name, struct err *err)
{
    struct near near;

    if (name.len == 0)
        return err_set(err, CS01,
                       "no name behind \"generic/\": generic/instructions; events/generic lists "
                       "what this machine has");
    near_init(&near, name);
    papi_near(&near);
    generic_near(&near);
    return err_set(err, CS01, "no generic event \"" WORD_FMT "\"%s", WORD_ARG(name),
                   near_text(&near));
}

/* Parses one candidate and opens it; true when it counts here. */
static bool serves(struct backend_state *state, struct word candidate, struct spec *spec)
{
    struct event event = {.written = NULL};
    int rc;

    *spec = (struct spec){.state = state, .scale = 1};
    rc = generic_parse_text(spec, candidate, NULL);
    if (rc == -ENOENT)
        rc = terms_parse_bare(spec, candidate, NULL);
    if (rc == -ENOENT)
        rc = pfm_parse(spec, candidate, NULL);
    return rc == 0 && spec_try(spec, &event) == 0;
}

static bool choose(struct backend_state *state, const struct papi *papi, struct spec *spec)
{
    struct scan scan;
    struct word candidate;

    scan_init(&scan, papi->candidates, strlen(papi->candidates));
    while (scan_word(&scan, &candidate))
        if (serves(state, candidate, spec))
            return true;
    return false;
}

static int preset_parse(struct spec *spec, struct word text, struct err *err)
{
    struct word mods, name = name_of(text, &mods);
    const struct generic *generic = has_prefix(text, GENERIC) ? generic_find(name) : NULL;
    const struct papi *papi = papi_alike(name);
    struct backend_state *state = spec->state;

    if (generic)
        return generic_parse(spec, generic, mods, err);
    if (!papi)
        return unknown_name(name, err);
    if (state->pmus->no_core[0])
        return err_set(err, P09, "%s (%s) cannot be counted here: %s", papi->name,
                       papi->description, state->pmus->no_core);
    if (!choose(state, papi, spec))
        return err_set(err, P09,
                       "%s (%s) cannot be counted here: no single event of this processor is "
                       "known to serve it",
                       papi->name, papi->description);
    return spec_modifiers(spec, mods, name, err);
}

int papi_parse(struct spec *spec, struct word text, struct err *err)
{
    struct word mods;
    const bool meant = has_prefix(text, GENERIC) || has_prefix(text, PREFIX) ||
                       word_alike(name_of(text, &mods), INTERRUPTS, false);

    return meant ? preset_parse(spec, text, err) : -ENOENT;
}

int papi_parse_bare(struct spec *spec, struct word text, struct err *err)
{
    struct word mods;

    return papi_alike(name_of(text, &mods)) ? preset_parse(spec, text, err) : -ENOENT;
}

static bool counts(struct backend_state *state, const char *text)
{
    struct spec spec;

    return serves(state, (struct word){text, strlen(text)}, &spec);
}

void papi_list(struct backend_state *state, struct catalog *out)
{
    const struct generic *generic;
    struct spec spec;

    for (unsigned i = 0; (generic = generic_at(i)); i++)
        if (!generic->hidden && counts(state, generic->name))
            catalog_add(out, "generic", generic->name);
    for (size_t i = 0; pmus_core(state->pmus) && i < N_TABLE; i++)
        if (choose(state, &table[i], &spec))
            catalog_add(out, "generic", table[i].name);
}
