/*
 * Resolves the spelling of an event: chooses the parser, applies modifiers and qualifiers, adds the
 * rights that the event needs, and checks whether the kernel can open it.
 */
#include "backends/perf/names/spec.h"

#include "backends/perf/names/names.h"
#include "backends/perf/probe/probe.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Parsers of the ways to write an event, tried in this order. */
static int (*const parsers[])(struct spec *spec, struct word *text, struct err *err) = {
    generic_parse,    /* cycles, page-faults, PERF_COUNT_HW_CPU_CYCLES, generic/tot_ins */
    breakpoint_parse, /* mem:0x1234:rw */
    terms_parse,      /* msr/tsc/ */
    raw_parse,        /* r01c2 */
    tracepoint_parse, /* sched:sched_switch */
    terms_parse_bare, /* event files of the kernel; tsc */
    pfm_parse,        /* INST_RETIRED:ANY_P */
    unknown_event,    /* always refuses, with the reason */
};

/* Refuses modifiers of a mode that the event cannot count separately. */
static int check_split(const struct spec *spec, struct word text, struct err *err)
{
    bool user = spec->event.user == MODIFIER_ON, kernel = spec->event.kernel == MODIFIER_ON;

    if (user == kernel)
        return 0;
    if (spec->split == SPLIT_KERNEL && user)
        return err_set(err, CS03,
                       "\"" WORD_FMT
                       "\" happens in the kernel, so it would always read 0 in user mode: write %s",
                       WORD_ARG(text), spec->resolved);
    if (spec->split == SPLIT_NEVER)
        return err_set(
            err, CS03,
            "\"" WORD_FMT "\" cannot be counted for user or kernel mode alone%s: write %s%s",
            WORD_ARG(text),
            spec->pmu->kind == PMU_SOFTWARE ? " (perf counts both, whatever the modifier)" : "",
            spec->resolved,
            spec->event.sampling ? " (sampling can be limited with user=off or kernel=off)" : "");
    return 0;
}

/* Refuses precise samples of a level that the PMU does not have; replaces P by the highest. */
static int check_precise(struct spec *spec, struct err *err)
{
    uint64_t *precise = &spec->event.code[CODE_PRECISE];

    if (!*precise)
        return 0;
    if (!spec->pmu->max_precise)
        generic_narrow(spec);
    const unsigned most = spec->pmu->max_precise;
    if (!most)
        return err_set(err, P09,
                       "\"%s\" has no precise samples here, because %s has none (see "
                       "caps/max_precise): leave out p",
                       spec->resolved, spec->pmu->name);
    if (*precise == PRECISE_MOST)
        *precise = most < PRECISE_MAX ? most : PRECISE_MAX;
    if (*precise > most)
        return err_set(err, P09,
                       "\"%s\" has no precise samples of level %u here: %s has levels up to %u "
                       "(see caps/max_precise)",
                       spec->resolved, (unsigned)*precise, spec->pmu->name, most);
    spec_append(spec, ",precise=%u", (unsigned)*precise);
    return 0;
}

static int check_form(struct word whole, struct word head, struct err *err)
{
    const struct word shown = head.len > 0 && head.p[head.len - 1] == ':' ? head : whole;
    const char last = shown.len > 0 ? shown.p[shown.len - 1] : 0;

    if (head.len == 0 || head.p[0] == ':')
        return err_set(err, CS01, "the event has no name: write it before ':' or ','");
    if (whole.len >= SPELLING_MAX)
        return err_set(err, CS01, "an event has at most %d characters, and this one has %zu",
                       SPELLING_MAX - 1, whole.len);
    if (word_part(whole, "*?[").len < whole.len)
        return err_set(err, CS01,
                       "\"" WORD_FMT "\" is a pattern, and patterns are not supported: write the "
                       "name of each event (see events/)",
                       WORD_ARG(whole));
    if (last == ':' || last == ',')
        return err_set(err, CS03,
                       "'%c' at the end of \"" WORD_FMT "\" needs a word after it, or leave it out",
                       last, WORD_ARG(shown));
    return 0;
}

int spec_parse(struct backend_state *state, const char *text, struct spec *spec, struct err *err)
{
    struct word qualifiers, whole = {text, strlen(text)};
    struct word head = qualifiers_split(whole, &qualifiers), masks = qualifiers_masks(qualifiers);
    char name[2 * SPELLING_MAX];

    *spec = (struct spec){.state = state, .event.scale = 1};
    int rc = check_form(whole, head, err);
    if (rc < 0)
        return rc;
    int len = snprintf(name, sizeof(name), "%.*s%s%.*s", (int)head.len, head.p,
                       masks.len > 0 ? ":" : "", (int)masks.len, masks.p);
    for (int i = (int)head.len; i < len; i++)
        if (name[i] == '+')
            name[i] = ':';
    struct word spelling = {name, (size_t)len}, rest;
    /* libpfm4 writes the kernel's names and tracepoints as perf::NAME, raw codes as perf_raw::. */
    if (!prefix_remove(&spelling, "perf_raw::"))
        prefix_remove(&spelling, "perf::");
    rc = -ENOENT;
    for (size_t i = 0; rc == -ENOENT; i++) {
        rest = spelling;
        rc = parsers[i](spec, &rest, err);
    }
    if (rc == 0)
        rc = spec_modifiers(spec, rest, spelling, err);
    if (rc == 0)
        rc = qualifiers_apply(spec, qualifiers, err);
    if (rc == 0)
        rc = check_precise(spec, err);
    return rc < 0 ? rc : check_split(spec, head, err);
}

bool prefix_remove(struct word *text, const char *prefix)
{
    size_t len = strlen(prefix);

    if (text->len < len || !word_alike((struct word){text->p, len}, prefix, true))
        return false;
    *text = word_from(*text, len);
    return true;
}

void spec_append(struct spec *spec, const char *format, ...)
{
    size_t used = strlen(spec->resolved);
    va_list args;

    va_start(args, format);
    vsnprintf(spec->resolved + used, sizeof(spec->resolved) - used, format, args);
    va_end(args);
}

int spec_refuse(struct word what, const char *why, struct err *err)
{
    return err_set(err, P09, "\"" WORD_FMT "\" cannot be counted here: %s", WORD_ARG(what), why);
}

int spec_use(struct spec *spec, struct pmu *pmu, struct word what, struct err *err)
{
    if (!pmu || pmu->why[0])
        return spec_refuse(what, pmu ? pmu->why : "the kernel does not have this PMU", err);
    spec->pmu = pmu;
    spec->split = pmu->kind == PMU_TRACEPOINT    ? SPLIT_KERNEL
                  : pmu->capabilities & CAP_USER ? SPLIT_ALWAYS
                                                 : SPLIT_NEVER;
    spec->event.class_index = pmu->class_index;
    spec->event.scope = !(pmu->flags & CODE_CPU_ONLY) ? EVENT_PROCESS | EVENT_CPU
                        : pmu->package                ? EVENT_CPU | EVENT_PACKAGE
                                                      : EVENT_CPU;
    spec->event.sampling = pmu->capabilities & CAP_INTERRUPT;
    spec->event.code[CODE_TYPE] = pmu->type;
    spec->event.code[CODE_FLAGS] = pmu->flags;
    return 0;
}

int spec_use_core(struct spec *spec, struct word what, struct err *err)
{
    struct pmu *core = pmus_first_core(spec->state->pmus);

    return core ? spec_use(spec, core, what, err)
                : spec_refuse(what, spec->state->pmus->why_no_core, err);
}

/* Terms and modifiers of perf, libpfm4 and PAPI that are settings or targets of pmcfs, or that it
 * does not offer. */
static const struct {
    const char *name, *instead;
} settings_elsewhere[] = {
    {"period", "write period=N to config"},
    {"freq", "write freq=N to config"},
    {"call-graph", "write callchain=on, user, kernel or dwarf to config"},
    {"max-stack", "write depth=N to config"},
    {"nr", "write depth=N to config"},
    {"stack-size", "write stack=BYTES to config"},
    {"inherit", "write descendants=on to config"},
    {"no-inherit", "leave it out, because descendants=off is the default"},
    {"filter", "write filter=EXPRESSION to config"},
    {"cpu", "write cpuN to target"},
    {"name", "a PMC has the name of its directory: use mkdir or mv"},
    {"percore", "write the CPUs of one core to target, for example cpu0,4"},
    {"time", "leave it out, because every sample contains its time"},
    {"overwrite", "leave it out, because the log discards old samples and counts them as lost"},
    {"no-overwrite", "leave it out, because samples are lost only if no reader reads them"},
    {"branch_type", "leave it out, because samples contain no branch stacks"},
    {"aux-output", "leave it out, because hardware traces are not recorded"},
    {"aux-action", "leave it out, because hardware traces are not recorded"},
    {"aux-sample-size", "leave it out, because hardware traces are not recorded"},
    {"metric-id", "leave it out, because only perf uses it"},
    {"pinned", "leave it out, because events are always pinned unless multiplex=on"},
    {"D", "leave it out, because events are always pinned unless multiplex=on"},
    {"W", "write multiplex=on to config"},
    {"S", "leave it out, because samples always contain the counts of their own PMC"},
    {"excl", "leave it out, because exclusive use of the PMU would block other users"},
    {"e", "leave it out, because exclusive use of the PMU would block other users"},
    {"b", "leave it out, because events are not counted by BPF programs"},
    {"I", "leave it out, and write PIDs instead of CPUs to target to exclude idle time"},
    {"R", "leave it out, because the retirement latency is not recorded"},
    {"X", "leave it out, because the events of a set always stay together"},
    {"hw_smpl", "leave it out, because it has no effect here"},
    {"mg", "leave it out, because guests are never counted"},
    {"G", "leave it out, because guests are never counted"},
    {"mh", "leave it out, because only the host is counted"},
    {"H", "leave it out, because only the host is counted"},
    {"h", "hypervisor mode is counted with kernel mode: leave it out"},
};

int spec_refuse_setting(struct word part, struct err *err)
{
    for (size_t i = 0; i < sizeof(settings_elsewhere) / sizeof(settings_elsewhere[0]); i++)
        if (word_is(part, settings_elsewhere[i].name))
            return err_set(err, CS03, "\"%s\" cannot be part of an event: %s",
                           settings_elsewhere[i].name, settings_elsewhere[i].instead);
    return -ENOENT;
}

bool is_modifier(struct word part)
{
    return strspn(part.p, "ukpP") >= part.len;
}

/* Applies one letter of a modifier part. */
static int take_letter(struct event *event, const char *letter, struct word part, struct word what,
                       struct err *err)
{
    uint64_t *precise = &event->code[CODE_PRECISE];

    switch (*letter) {
    case 'u':
    case 'U':
        event->user = MODIFIER_ON;
        return 0;
    case 'k':
    case 'K':
        event->kernel = MODIFIER_ON;
        return 0;
    case 'P':
        *precise = PRECISE_MOST;
        return 0;
    case 'p':
        if ((*precise)++ < PRECISE_MAX)
            return 0;
        return err_set(err, CS03,
                       "modifier \"" WORD_FMT "\" of \"" WORD_FMT
                       "\": the precise levels are p, pp, ppp and P (the highest of the PMU)",
                       WORD_ARG(part), WORD_ARG(what));
    default:
        break;
    }
    int rc = part.len <= 3 ? spec_refuse_setting((struct word){letter, 1}, err) : -ENOENT;
    return rc != -ENOENT
               ? rc
               : err_set(err, CS03,
                         "no modifier \"" WORD_FMT "\" (after \"" WORD_FMT
                         "\"): write u (user mode), k (kernel mode), uk (both), or p, pp, ppp, P "
                         "(precise samples)",
                         WORD_ARG(part), WORD_ARG(what));
}

int spec_modifiers(struct spec *spec, struct word text, struct word what, struct err *err)
{
    struct word rest;
    int rc = 0;

    for (; rc == 0 && text.len > 0; text = rest) {
        struct word part = word_until(text, ':', &rest);
        for (size_t i = 0; rc == 0 && i < part.len; i++)
            rc = take_letter(&spec->event, &part.p[i], part, what, err);
    }
    if (rc == 0)
        spec_disable_other_mode(spec);
    return rc;
}

void spec_disable_other_mode(struct spec *spec)
{
    struct event *event = &spec->event;

    if (event->user == MODIFIER_ON && event->kernel != MODIFIER_ON)
        event->kernel = MODIFIER_OFF;
    if (event->kernel == MODIFIER_ON && event->user != MODIFIER_ON)
        event->user = MODIFIER_OFF;
}

/*
 * AnyThread also counts the other hardware thread of the core, which may run any user's task. The
 * kernel checks this bit of raw codes on every Intel processor, even if the PMU's format has no
 * such field.
 */
#if defined(__x86_64__) || defined(__i386__)
#define ANY_THREAD ((uint64_t)1 << 21)
#else
#define ANY_THREAD 0
#endif

/* Returns true if the kernel counts both modes whatever exclude bits are set, and therefore
 * requires the rights of perf_allow_kernel(). */
static bool needs_kernel(const struct spec *spec)
{
    switch (spec->pmu->kind) {
    case PMU_MSR: /* config 0 is the time stamp counter, which every program can read */
        return spec->event.code[CODE_CONFIG] != 0;
    case PMU_TRACEPOINT:
    case PMU_OTHER: /* drivers count both modes in one value */
        return true;
    default:
        return false;
    }
}

static bool any_thread(const struct spec *spec)
{
    const uint64_t *code = spec->event.code;
    const struct pmu_format *any = pmu_format(spec->pmu, word_of("any"));
    uint64_t bits[CONFIG_WORDS] = {ANY_THREAD};

    if (code[CODE_TYPE] == PERF_TYPE_HARDWARE || code[CODE_TYPE] == PERF_TYPE_HW_CACHE)
        return false;
    if (any)
        format_put(any, 1, bits);
    for (unsigned i = 0; i < CONFIG_WORDS; i++)
        if (code[CODE_CONFIG + i] & bits[i])
            return true;
    return false;
}

/* Sets event.counts_both_modes and the rights that the event needs. */
static void spec_set_rights(struct spec *spec)
{
    struct event *event = &spec->event;
    const bool one_mode = event->user != event->kernel;

    event->counts_both_modes =
        spec->split != SPLIT_ALWAYS && !(spec->split == SPLIT_WITH_MODIFIER && one_mode);
    event->needs_kernel |= needs_kernel(spec);
    /* These events also count other tasks (the kernel checks perf_allow_cpu()). */
    event->needs_superuser |=
        spec->pmu->kind == PMU_CORE ? any_thread(spec) : strcmp(spec->pmu->name, "thread_imc") == 0;
}

static void attr_of(const struct event *event, struct perf_event_attr *attr)
{
    bool kernel = event->counts_both_modes || event->needs_kernel || event->kernel == MODIFIER_ON;

    code_to_attr(event, event->user != MODIFIER_OFF, kernel, attr);
}

/* Returns the bit of pmu->accepted for a software event and its modes; 0 for other attributes. */
static uint64_t software_bit(const struct pmu *pmu, const struct perf_event_attr *attr)
{
    const struct perf_event_attr plain = {.size = sizeof plain,
                                          .type = PERF_TYPE_SOFTWARE,
                                          .config = attr->config & 15,
                                          .exclude_user = attr->exclude_user,
                                          .exclude_kernel = attr->exclude_kernel,
                                          .exclude_hv = attr->exclude_kernel};

    if (pmu->kind != PMU_SOFTWARE || memcmp(attr, &plain, sizeof plain) != 0)
        return 0;
    return (uint64_t)1 << (attr->config * 4 + attr->exclude_user * 2 + attr->exclude_kernel);
}

/*
 * Opens the event, disabled, on a thread of the daemon or on a CPU of the PMU; for PMU_CORES on
 * each core PMU. Clears CODE_EXCLUDE_GUEST if the kernel refuses exclude_guest. Returns 0, also
 * after -ENOSPC, or -errno. Opens a software event only the first time: the kernel keeps accepting
 * it, and changes its own code, with an interrupt on all CPUs, for the first event of a kind.
 */
static int event_try(const struct pmus *pmus, const struct pmu *class, struct event *event)
{
    uint64_t *flags = &event->code[CODE_FLAGS];
    struct perf_event_attr attr;
    int rc = 0;

    for (struct pmu *pmu = pmus->list; pmu < pmus->list + pmus->n && !rc; pmu++) {
        if (!pmu_serves(class, pmu))
            continue;
        const int cpu = *flags & CODE_CPU_ONLY ? cpus_next(&pmu->cpus, 0) : -1;

        attr_of(event, &attr);
        if (*flags & CODE_EVERY_CORE)
            attr_bind(&attr, pmu->type);
        const uint64_t bit = software_bit(pmu, &attr);
        if (pmu->accepted & bit)
            continue;
        rc = probe_try_open(&attr, cpu);
        if (rc == 0)
            pmu->accepted |= bit;
        if ((rc == -EINVAL || rc == -EOPNOTSUPP) && attr.exclude_guest) {
            attr.exclude_guest = 0;
            if (probe_try_open(&attr, cpu) == 0) {
                *flags &= ~(uint64_t)CODE_EXCLUDE_GUEST;
                rc = 0;
            }
        }
        /* All breakpoints are in use at the moment: the attach reports it if that is still so. */
        if (rc == -ENOSPC)
            rc = 0;
    }
    return rc;
}

int spec_try(struct spec *spec)
{
    spec_set_rights(spec);
    return event_try(spec->state->pmus, spec->pmu, &spec->event);
}

int perf_resolve(struct backend_state *state, const char *text, struct event *out, struct err *err)
{
    struct spec spec;
    int rc = spec_parse(state, text, &spec, err);

    *out = (struct event){.needs_kernel = spec.event.needs_kernel};
    if (rc < 0)
        return rc;
    spec_set_rights(&spec);
    *out = spec.event;
    out->written = strdup(text);
    out->resolved = strdup(spec.resolved);
    if (out->written && out->resolved)
        return 0;
    event_clear(out);
    return err_nomem(err);
}

int perf_verify(struct backend_state *state, struct event *event, struct err *err)
{
    struct pmu *pmu = pmus_of_class(state->pmus, event->class_index);
    struct perf_event_attr attr;
    struct err refusal;
    int rc = event_try(state->pmus, pmu, event);

#ifndef PERF_ATTR_SIZE_VER8
    if (event->code[CODE_CONFIG3])
        return err_set(
            err, P09,
            "\"%s\" needs config3, which this build of pmcfs does not support: build it with "
            "the headers of a newer kernel",
            event->resolved);
#endif
    if (!pmu_still_exists(state->pmus, pmu))
        return err_set(err, P09,
                       "\"%s\" cannot be counted here: the driver of %s was unloaded or loaded "
                       "again after pmcfs was mounted. Mount pmcfs again",
                       event->resolved, pmu->name);
    if (rc == -ENOENT && pmu->kind == PMU_CORE)
        return err_set(err, P09,
                       "\"%s\" cannot be counted here: PMU %s of this processor does not have it "
                       "(see events/)",
                       event->resolved, pmu->name);
    if (rc < 0) {
        attr_of(event, &attr);
        why_refused(&refusal, &(struct why){.code = -rc, .attr = &attr, .event = event->resolved});
        /* P14: the kernel refused pmcfs itself. Report P09 instead: the event cannot be counted on
         * this host. */
        return err_set(err, refusal.id == P14 ? P09 : refusal.id, "%s", refusal.text);
    }
    code_to_attr(event, true, false, &attr);
    if (pmu->kind == PMU_CORES)
        attr_bind(&attr, pmu->type);
    if (pmu->kind <= PMU_CORES)
        probe_rows(state->pmus, pmu, &attr, &event->rows, &event->rows_needed);
    return 0;
}
