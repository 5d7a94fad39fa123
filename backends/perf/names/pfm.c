/*
 * libpfm4: names of the processor's own events. Its parser does not report which part of a name is
 * wrong, so the name is split here and each part is looked up in its tables. The text passed to its
 * parser is always well-formed.
 */
#include "backends/perf/names/names.h"
#include "backends/perf/names/spec.h"

#include "backends/perf/probe/probe.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <perfmon/pfmlib_perf_event.h>
#include <stdio.h>
#include <string.h>

#define OS PFM_OS_PERF_EVENT_EXT

enum {
    NAME_BYTES = RESOLVED_MAX
};

/*
 * After initialisation libpfm4's tables are only read and its calls keep no state, so no lock is
 * needed. If initialisation fails, libpfm4 has no PMUs.
 */
void pfm_prepare(void)
{
    pfm_initialize();
}

/* Returns the index of the next PMU after i (-1: the first), or -1. Skips perf_raw: raw_parse()
 * reads raw codes, and libpfm4's own parser depends on errno. */
static int pmu_next(int i, pfm_pmu_info_t *info)
{
    while (++i < PFM_PMU_MAX) {
        *info = (pfm_pmu_info_t){.size = sizeof(*info)};
        if (pfm_get_pmu_info((pfm_pmu_t)i, info) == PFM_SUCCESS &&
            strcmp(info->name, "perf_raw") != 0)
            return i;
    }
    return -1;
}

/* Like pmu_next(), but skips PMUs of other hosts and libpfm4's tables of the kernel's names. */
static int hardware_next(int i, pfm_pmu_info_t *info)
{
    do
        i = pmu_next(i, info);
    while (i >= 0 && (!info->is_present || info->type == PFM_PMU_TYPE_OS_GENERIC));
    return i;
}

static bool event_info(int index, pfm_event_info_t *info)
{
    *info = (pfm_event_info_t){.size = sizeof(*info)};
    return pfm_get_event_info(index, OS, info) == PFM_SUCCESS;
}

/* Returns the next attribute after i (-1: the first) that may be written: unit masks and hardware
 * modifiers except u, k, h. Returns -1 after the last. */
static int attr_next(const pfm_event_info_t *event, int i, pfm_event_attr_info_t *info)
{
    while (++i < event->nattrs) {
        *info = (pfm_event_attr_info_t){.size = sizeof(*info)};
        if (pfm_get_event_attr_info(event->idx, i, OS, info) == PFM_SUCCESS &&
            (info->type == PFM_ATTR_UMASK || (info->ctrl == PFM_ATTR_CTRL_PMU &&
                                              !(strchr("ukh", info->name[0]) && !info->name[1]))))
            return i;
    }
    return -1;
}

/* Returns the length of name if text starts with it and the end or one of `stops` follows, or 0. */
static size_t begins_with(struct word text, const char *name, const char *stops)
{
    struct word rest = text;

    return prefix_remove(&rest, name) && (rest.len == 0 || strchr(stops, rest.p[0]))
               ? text.len - rest.len
               : 0;
}

/* Splits "pmu::event"; the PMU name is empty if there is none. */
static struct word split_pmu(struct word text, struct word *body)
{
    struct word rest, name = word_until(text, ':', &rest);
    const bool has_pmu = rest.len > 0 && rest.p[0] == ':';

    *body = has_pmu ? word_from(rest, 1) : text;
    return has_pmu ? name : (struct word){text.p, 0};
}

struct found {
    const char *pmu;
    pfm_event_info_t event;
    size_t len; /* length of the name in the text; 0: not found */
};

/* Replaces *found by the event of this PMU with the longest name that is a prefix of body, if the
 * name is longer than found->len. */
static void find_in(const pfm_pmu_info_t *pmu, struct word body, struct found *found)
{
    pfm_event_info_t event;

    for (int i = pmu->first_event; i != -1; i = pfm_get_event_next(i)) {
        size_t len = event_info(i, &event) ? begins_with(body, event.name, ":.") : 0;
        if (len > found->len)
            *found = (struct found){pmu->name, event, len};
    }
}

static bool is_named(const pfm_pmu_info_t *pmu, struct word name)
{
    return name.len == 0 || word_alike(name, pmu->name, false);
}

/* Finds an event of a PMU of this host and removes the names of PMU and event from *text; the name
 * of the PMU also if it returns false. */
static bool find_event(struct word *text, struct found *found)
{
    struct word body, pmu_name = split_pmu(*text, &body);
    pfm_pmu_info_t pmu;

    found->len = 0;
    for (int i = -1; (i = pmu_next(i, &pmu)) >= 0;)
        if (pmu.is_present && is_named(&pmu, pmu_name))
            find_in(&pmu, body, found);
    *text = word_from(body, found->len);
    return found->len > 0;
}

bool pfm_has_pmu(struct word name, struct near *near)
{
    pfm_pmu_info_t pmu;
    bool found = false;

    for (int i = -1; (i = pmu_next(i, &pmu)) >= 0;) {
        found |= word_alike(name, pmu.name, false);
        near_offer(near, pmu.name);
    }
    return found;
}

static int refuse_modifier(const struct found *found, struct word part, struct err *err)
{
    struct word name = word_part(part, "=");
    int rc = spec_refuse_setting(name, err);
    pfm_event_attr_info_t attr;
    struct near near = {.word = name};

    if (rc != -ENOENT)
        return rc;
    for (int i = -1; (i = attr_next(&found->event, i, &attr)) >= 0;)
        near_offer(&near, attr.name);
    return err_set(err, CS03,
                   "%s has no unit mask or modifier \"" WORD_FMT "\"%s; see its file in events/",
                   found->event.name, WORD_ARG(name), near_text(&near));
}

/* Returns NULL if the attribute takes this value, otherwise the kind of value that it takes. */
static const char *attr_takes(const pfm_event_attr_info_t *attr, bool has_value, struct word value)
{
    uint64_t number;

    if (attr->type == PFM_ATTR_UMASK)
        return has_value ? "no value" : NULL;
    if (attr->type == PFM_ATTR_MOD_INTEGER)
        return has_value && word_u64(value, true, 0, UINT32_MAX, &number) ? NULL : "a number";
    return !has_value || word_u64(value, true, 0, 1, &number) ? NULL : "0 or 1";
}

/* Moves one unit mask or modifier, that with the longest name, from the start of *rest to the end
 * of name. */
static int take_attr(const struct found *found, struct word *rest, char name[NAME_BYTES],
                     struct err *err)
{
    const size_t used = strlen(name);
    pfm_event_attr_info_t info, attr;
    size_t taken = 0;

    for (int i = -1; (i = attr_next(&found->event, i, &info)) >= 0;) {
        size_t len = begins_with(*rest, info.name, ":.=");
        if (len > taken) {
            taken = len;
            attr = info;
        }
    }
    if (taken == 0)
        return refuse_modifier(found, word_part(*rest, ":."), err);
    struct word assigned = word_part(word_from(*rest, taken), ":."), value = word_from(assigned, 1);
    const char *takes = attr_takes(&attr, assigned.len > 0, value);
    if (takes)
        return err_set(err, CS04, "\"%s=" WORD_FMT "\": %s takes %s", attr.name, WORD_ARG(value),
                       attr.name, takes);
    snprintf(name + used, NAME_BYTES - used, ":%s%.*s", attr.name, (int)assigned.len, assigned.p);
    *rest = word_from(*rest, taken + assigned.len);
    return 0;
}

/* Takes all parts after the event's name; rest starts with ':' or '.'. */
static int take_parts(struct spec *spec, const struct found *found, struct word rest,
                      char name[NAME_BYTES], struct err *err)
{
    uint64_t *precise = &spec->event.code[CODE_PRECISE];
    int rc = 0;

    while (rc == 0 && rest.len > 0) {
        rest = word_from(rest, 1);
        struct word part = word_part(rest, ":.");
        if (part.len == 0)
            return err_set(
                err, CS03,
                "\"%s:\" ends with ':': write a unit mask or modifier after it, or leave it out",
                name);
        bool has_level = qualifier_precise(part, precise); /* also a libpfm4 modifier */
        if (has_level || is_modifier(part)) {
            rc = has_level ? 0 : spec_modifiers(spec, part, part, err);
            rest = word_from(rest, part.len);
        } else {
            rc = take_attr(found, &rest, name, err);
        }
    }
    return rc;
}

bool pfm_other_processor_has(struct word text)
{
    struct word body, pmu_name = split_pmu(text, &body);
    struct spec spec = {.pmu = NULL};
    pfm_pmu_info_t pmu;

    for (int i = -1; (i = pmu_next(i, &pmu)) >= 0;) {
        struct found found = {.len = 0};
        char parts[NAME_BYTES] = "";
        if (!pmu.is_present && is_named(&pmu, pmu_name))
            find_in(&pmu, body, &found);
        /* A:B may be a tracepoint: B must be a part of event A. */
        if (found.len && take_parts(&spec, &found, word_from(body, found.len), parts, NULL) == 0)
            return true;
    }
    return false;
}

static int encode(const char *name, struct perf_event_attr *attr)
{
    pfm_perf_encode_arg_t arg = {.attr = attr, .size = sizeof(arg)};

    *attr = (struct perf_event_attr){
        .size = sizeof(*attr)}; /* without the size libpfm4 does not set config2 */
    errno = 0;
    return pfm_get_os_event_encoding(name, PFM_PLM3, OS, &arg);
}

static int refuse_masks(const struct found *found, const char *name, struct err *err)
{
    pfm_event_attr_info_t attr;
    struct buf masks = {0};

    for (int i = -1; (i = attr_next(&found->event, i, &attr)) >= 0;)
        if (attr.type == PFM_ATTR_UMASK)
            buf_printf(&masks, "%s%s", masks.len ? ", " : "", attr.name);
    err_set(err, CS03, "%s needs a unit mask, or the unit masks of \"%s\" cannot be combined: %s",
            found->event.name, name, buf_text(&masks));
    buf_free(&masks);
    return -EINVAL;
}

/* Takes libpfm4's encoding as the code of the event, and finds the kernel's PMU for it. */
static int use_encoding(struct spec *spec, const struct perf_event_attr *attr, const char *name,
                        struct err *err)
{
    const struct generic *generic = generic_by_code(attr->type, attr->config);
    struct pmu *pmu = pmus_by_type(spec->state->pmus, attr->type);
    const bool cache = attr->type == PERF_TYPE_HW_CACHE;
    uint64_t *code = spec->event.code;

    if (generic)
        return generic_use(spec, generic, err);
    int rc = attr->type == PERF_TYPE_RAW || cache || !pmu ? spec_use_core(spec, word_of(name), err)
                                                          : spec_use(spec, pmu, word_of(name), err);
    if (rc < 0)
        return rc;
    const char *lacks =
        spec->pmu->kind == PMU_CORE && !cache ? probe_why_uncounted(spec->pmu, attr->config) : NULL;
    if (lacks)
        return spec_refuse(word_of(name), lacks, err);
    code[CODE_TYPE] = attr->type;
    code[CODE_CONFIG] = attr->config;
    code[CODE_CONFIG1] = attr->config1;
    code[CODE_CONFIG2] = attr->config2;
    spec_append(spec, "%s", name);
    return 0;
}

int pfm_parse(struct spec *spec, struct word *text, struct err *err)
{
    struct perf_event_attr attr;
    struct found found;
    char name[NAME_BYTES];

    if (!find_event(text, &found))
        return -ENOENT;
    snprintf(name, sizeof(name), "%s::%s", found.pmu, found.event.name);
    int rc = take_parts(spec, &found, *text, name, err);
    if (rc < 0)
        return rc;
    *text = word_from(*text, text->len);
    rc = encode(name, &attr);
    switch (rc) {
    case PFM_SUCCESS:
        return use_encoding(spec, &attr, name, err);
    case PFM_ERR_UMASK:
        return refuse_masks(&found, name, err);
    case PFM_ERR_ATTR_VAL:
    case PFM_ERR_TOOSMALL:
        return err_set(err, CS04, "a value in \"%s\" is out of range: write a smaller one", name);
    default:
        return err_set(err, CS03, "libpfm4 refuses \"%s\": %s (see its file in events/)", name,
                       pfm_strerror(rc));
    }
}

/*
 * Returns the PMU of an event that can be encoded and opened, without a unit mask or with the first
 * one that completes it, or NULL. Writes the complete name to name.
 */
static struct pmu *find_counting_pmu(struct backend_state *state, const char *pmu,
                                     const pfm_event_info_t *event, char name[NAME_BYTES])
{
    struct spec spec = {.state = state, .event.scale = 1};
    struct perf_event_attr attr;
    pfm_event_attr_info_t info;

    snprintf(name, NAME_BYTES, "%s::%s", pmu, event->name);
    int rc = encode(name, &attr);
    for (int i = -1; rc == PFM_ERR_UMASK && (i = attr_next(event, i, &info)) >= 0;) {
        if (info.type != PFM_ATTR_UMASK)
            continue;
        snprintf(name, NAME_BYTES, "%s::%s:%s", pmu, event->name, info.name);
        rc = encode(name, &attr) == PFM_SUCCESS ? PFM_SUCCESS : PFM_ERR_UMASK;
    }
    return rc == PFM_SUCCESS && use_encoding(&spec, &attr, event->name, NULL) == 0 &&
                   spec_try(&spec) == 0
               ? spec.pmu
               : NULL;
}

/* Leaves out events with a kernel event file of the same name. */
void pfm_add_all(struct backend_state *state, struct catalog *out)
{
    char name[NAME_BYTES];
    pfm_event_info_t event;
    pfm_pmu_info_t pmu;

    for (int i = -1; (i = hardware_next(i, &pmu)) >= 0;)
        for (int e = pmu.first_event; e != -1; e = pfm_get_event_next(e)) {
            const struct pmu *class =
                event_info(e, &event) ? find_counting_pmu(state, pmu.name, &event, name) : NULL;

            if (class && !strchr(event.name, '/') && !pmu_event(class, word_of(event.name)))
                catalog_add(out, class->name, event.name);
        }
}

bool pfm_spelling(struct backend_state *state, const struct pmu *class, const char *event,
                  char name[SPELLING_MAX])
{
    char full[NAME_BYTES];
    pfm_pmu_info_t pmu;

    for (int i = -1; (i = hardware_next(i, &pmu)) >= 0;) {
        struct found found = {.len = 0};
        find_in(&pmu, word_of(event), &found);
        if (found.len && find_counting_pmu(state, pmu.name, &found.event, full) == class) {
            snprintf(name, SPELLING_MAX, "%.*s", SPELLING_MAX - 1, full);
            return true;
        }
    }
    return false;
}

void pfm_describe(const char *spelling, struct buf *description, struct buf *attributes)
{
    static const char *const types[] = {[PFM_ATTR_MOD_BOOL] = " boolean",
                                        [PFM_ATTR_MOD_INTEGER] = " integer",
                                        [PFM_ATTR_UMASK] = ""};
    struct word text = word_of(spelling);
    pfm_event_attr_info_t attr;
    struct found found;

    if (!find_event(&text, &found))
        return;
    buf_str(description, found.event.desc);
    for (int i = -1; (i = attr_next(&found.event, i, &attr)) >= 0;)
        if (attr.type <= PFM_ATTR_MOD_INTEGER)
            buf_printf(attributes, "%s %s%s %s%s\n", attr.type == PFM_ATTR_UMASK ? "umask" : "attr",
                       attr.name, types[attr.type], attr.desc, attr.is_dfl ? " (default)" : "");
}
