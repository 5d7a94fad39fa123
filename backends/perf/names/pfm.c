/*
 * Encoding with libpfm4. It does not say which part of a name it disliked, so the name is taken
 * apart here and each part looked up in its tables; what is given to it is always right in form.
 */
#include "backends/perf/names/pfm.h"

#include "backends/perf/names/generic.h"
#include "backends/perf/names/qualifier.h"
#include "backends/perf/names/spec_event.h"
#include "backends/perf/probe/probe.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <perfmon/pfmlib_perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OS         PFM_OS_PERF_EVENT_EXT
#define NAME_BYTES 512

/*
 * Its tables are only read once it is initialised, and its calls keep nothing: no lock is needed.
 * Where that failed there are no PMUs in it.
 */
void pfm_prepare(void)
{
    pfm_initialize();
}

/* perf_raw is our own "raw" spelling; its parser trips over errno. */
static bool pmu_info(int index, pfm_pmu_info_t *info)
{
    memset(info, 0, sizeof(*info));
    info->size = sizeof(*info);
    return pfm_get_pmu_info((pfm_pmu_t)index, info) == PFM_SUCCESS &&
           strcmp(info->name, "perf_raw") != 0;
}

/* The next table behind number i (-1: the first), or -1. */
static int pmu_next(int i, pfm_pmu_info_t *info)
{
    while (++i < PFM_PMU_MAX)
        if (pmu_info(i, info))
            return i;
    return -1;
}

/* PMUs of this machine's hardware: not libpfm4's tables of the kernel's own names. */
static bool is_hardware(const pfm_pmu_info_t *pmu)
{
    return pmu->is_present && pmu->type != PFM_PMU_TYPE_OS_GENERIC;
}

static bool event_info(int index, pfm_event_info_t *info)
{
    memset(info, 0, sizeof(*info));
    info->size = sizeof(*info);
    return pfm_get_event_info(index, OS, info) == PFM_SUCCESS;
}

static bool attr_info(const pfm_event_info_t *event, int index, pfm_event_attr_info_t *info)
{
    memset(info, 0, sizeof(*info));
    info->size = sizeof(*info);
    return pfm_get_event_attr_info(event->idx, index, OS, info) == PFM_SUCCESS;
}

/* What may be written behind this event: its unit masks, and modifiers of the hardware but u, k, h.
 */
static bool attr_is_ours(const pfm_event_attr_info_t *attr)
{
    return attr->type == PFM_ATTR_UMASK ||
           (attr->ctrl == PFM_ATTR_CTRL_PMU && strcmp(attr->name, "u") != 0 &&
            strcmp(attr->name, "k") != 0 && strcmp(attr->name, "h") != 0);
}

/* Does text begin with a name alike, followed by one of ends? The length, or 0. */
static size_t begins_with(struct word text, const char *name, const char *ends)
{
    size_t len = strlen(name);

    if (text.len < len || !word_alike((struct word){text.p, len}, name, true))
        return 0;
    return text.len == len || strchr(ends, text.p[len]) ? len : 0;
}

/* "pmu::" before the event, if there is one. */
static struct word split_pmu(struct word text, struct word *body)
{
    const char *at = text.len > 0 ? memchr(text.p, ':', text.len - 1) : NULL;

    at = at && at[1] == ':' ? at : NULL;
    *body = at ? word_from(text, (size_t)(at - text.p) + 2) : text;
    return (struct word){text.p, at ? (size_t)(at - text.p) : 0};
}

struct found {
    pfm_pmu_info_t pmu;
    pfm_event_info_t event;
    size_t len; /* of the name in the text */
};

/* The event of this PMU with the longest name that body begins with. */
static void find_in(const pfm_pmu_info_t *pmu, struct word body, struct found *found)
{
    pfm_event_info_t event;

    for (int i = pmu->first_event; i != -1; i = pfm_get_event_next(i)) {
        size_t len = event_info(i, &event) ? begins_with(body, event.name, ":.") : 0;
        if (len > found->len)
            *found = (struct found){*pmu, event, len};
    }
}

static bool is_named(const pfm_pmu_info_t *pmu, struct word name)
{
    return name.len == 0 || word_alike(name, pmu->name, false);
}

/* Of the PMUs that are here. */
static bool find_event(struct word pmu_name, struct word body, struct found *found)
{
    pfm_pmu_info_t pmu;

    found->len = 0;
    for (int i = pmu_next(-1, &pmu); i >= 0; i = pmu_next(i, &pmu))
        if (pmu.is_present && is_named(&pmu, pmu_name))
            find_in(&pmu, body, found);
    return found->len > 0;
}

bool pfm_has_pmu(struct word name, struct near *near)
{
    pfm_pmu_info_t pmu;
    bool found = false;

    for (int i = pmu_next(-1, &pmu); i >= 0; i = pmu_next(i, &pmu)) {
        found |= word_alike(name, pmu.name, false);
        near_offer(near, pmu.name);
    }
    return found;
}

static int refuse_modifier(const struct found *found, struct word part, struct err *err)
{
    pfm_event_attr_info_t attr;
    struct word value, name = word_until(part, '=', &value);
    struct near near;

    int rc = spec_part_elsewhere(name, err);

    if (rc != -ENOENT)
        return rc;
    near_init(&near, name);
    for (int i = 0; i < found->event.nattrs; i++)
        if (attr_info(&found->event, i, &attr) && attr_is_ours(&attr))
            near_offer(&near, attr.name);
    return err_set(err, CS03, "%s has no unit mask or modifier \"" WORD_FMT "\"%s",
                   found->event.name, WORD_ARG(name), near_text(&near));
}

/* The unit mask or modifier with the longest name that text begins with; the length, or 0. */
static size_t find_attr(const struct found *found, struct word text, pfm_event_attr_info_t *best)
{
    pfm_event_attr_info_t attr;
    size_t longest = 0;

    for (int i = 0; i < found->event.nattrs; i++) {
        size_t len = attr_info(&found->event, i, &attr) && attr_is_ours(&attr)
                         ? begins_with(text, attr.name, ":.=")
                         : 0;
        if (len > longest) {
            longest = len;
            *best = attr;
        }
    }
    return longest;
}

/* What may stand behind its '='; value NULL: there is none. */
static const char *attr_takes(const pfm_event_attr_info_t *attr, const struct word *value)
{
    uint64_t number;

    if (attr->type == PFM_ATTR_UMASK)
        return value ? "no value" : NULL;
    if (attr->type == PFM_ATTR_MOD_INTEGER)
        return value && word_u64(*value, true, 0, UINT32_MAX, &number) ? NULL : "a number";
    return !value || word_u64(*value, true, 0, 1, &number) ? NULL : "0 or 1";
}

/* One unit mask or modifier at the start of *rest: appended to name, taken off rest. */
static int take_attr(const struct found *found, struct word *rest, char name[NAME_BYTES],
                     struct err *err)
{
    const size_t used = strlen(name);
    struct word value = {"", 0};
    pfm_event_attr_info_t attr;
    size_t len = find_attr(found, *rest, &attr);

    if (len == 0)
        return refuse_modifier(found, word_part(*rest, ":."), err);
    *rest = word_from(*rest, len);
    const bool has_value = rest->len > 0 && rest->p[0] == '=';
    if (has_value) {
        value = word_part(word_from(*rest, 1), ":.");
        *rest = word_from(*rest, 1 + value.len);
    }
    const char *takes = attr_takes(&attr, has_value ? &value : NULL);
    if (takes)
        return err_set(err, CS04, "\"%s=" WORD_FMT "\": %s takes %s", attr.name, WORD_ARG(value),
                       attr.name, takes);
    int more = snprintf(name + used, NAME_BYTES - used, ":%s%s%.*s", attr.name,
                        has_value ? "=" : "", (int)value.len, value.p);
    return used + (size_t)more < NAME_BYTES
               ? 0
               : err_set(err, CS03, "too many unit masks behind %s", found->event.name);
}

/* All that stands behind the event's name, which begins with ':' or '.'. */
static int take_parts(struct spec *spec, const struct found *found, struct word rest,
                      char name[NAME_BYTES], struct err *err)
{
    int rc = 0;

    while (rc == 0 && rest.len > 0) {
        rest = word_from(rest, 1);
        struct word part = word_part(rest, ":.");
        if (part.len == 0)
            return err_set(err, CS03, "nothing stands behind the last ':' of \"%s:\"", name);
        bool precise = qualifier_precise(part, &spec->precise); /* libpfm4 has it, too */
        if (precise || spec_is_modifier(part)) {
            rc = precise ? 0 : spec_modifiers(spec, part, part, err);
            rest = word_from(rest, part.len);
        } else {
            rc = take_attr(found, &rest, name, err);
        }
    }
    return rc;
}

bool pfm_elsewhere(struct word text)
{
    struct word body, pmu_name = split_pmu(text, &body);
    struct spec spec = {.pmu = NULL};
    pfm_pmu_info_t pmu;

    for (int i = pmu_next(-1, &pmu); i >= 0; i = pmu_next(i, &pmu)) {
        struct found found = {.len = 0};
        char parts[NAME_BYTES] = "";
        if (!pmu.is_present && is_named(&pmu, pmu_name))
            find_in(&pmu, body, &found);
        /* A:B may as well be a tracepoint: not every word stands behind an event. */
        if (found.len && take_parts(&spec, &found, word_from(body, found.len), parts, NULL) == 0)
            return true;
    }
    return false;
}

static int encode(const char *name, struct perf_event_attr *attr)
{
    pfm_perf_encode_arg_t arg = {.attr = attr, .size = sizeof(arg)};

    memset(attr, 0, sizeof(*attr));
    attr->size = sizeof(*attr); /* without it config2 would be lost */
    errno = 0;
    return pfm_get_os_event_encoding(name, PFM_PLM3, OS, &arg);
}

static void list_umasks(const struct found *found, struct buf *out)
{
    pfm_event_attr_info_t attr;
    int n = 0;

    for (int i = 0; i < found->event.nattrs; i++)
        if (attr_info(&found->event, i, &attr) && attr.type == PFM_ATTR_UMASK && n++ < 12)
            buf_printf(out, "%s%s", n > 1 ? ", " : "", attr.name);
    if (n > 12)
        buf_printf(out, " and %d more", n - 12);
}

static int refuse_encoding(const struct found *found, const char *name, int rc, struct err *err)
{
    struct buf masks;

    switch (rc) {
    case PFM_ERR_UMASK:
        buf_init(&masks, NULL, 0);
        list_umasks(found, &masks);
        err_set(err, CS03, "%s needs a unit mask, or those of \"%s\" do not go together: %s",
                found->event.name, name, buf_text(&masks));
        buf_free(&masks);
        return -EINVAL;
    case PFM_ERR_ATTR_VAL:
    case PFM_ERR_TOOSMALL:
        return err_set(err, CS04, "a value in \"%s\" is out of range", name);
    default:
        return err_set(err, CS03, "libpfm4 refuses \"%s\": %s", name, pfm_strerror(rc));
    }
}

/* The kernel's PMU for what libpfm4 encoded. */
static int use_encoding(struct spec *spec, const struct perf_event_attr *attr, const char *name,
                        struct err *err)
{
    struct word what = {name, strlen(name)};
    const struct generic *generic = generic_by_code(attr->type, attr->config);
    struct pmu *pmu = pmus_by_type(spec->state->pmus, attr->type);
    int rc;

    if (generic)
        return generic_use(spec, generic, (struct word){"", 0}, err);
    if (attr->type == PERF_TYPE_RAW || attr->type == PERF_TYPE_HW_CACHE || !pmu)
        rc = spec_use_core(spec, what, err);
    else
        rc = spec_use(spec, pmu, what, err);
    const char *lacks = rc == 0 && spec->pmu->kind == PMU_CORE && attr->type != PERF_TYPE_HW_CACHE
                            ? probe_lacks(spec->pmu, attr->config)
                            : NULL;
    if (lacks)
        return err_set(err, P09, "\"%s\" cannot be counted here: %s", name, lacks);
    if (rc < 0)
        return rc;
    spec->type = attr->type;
    spec->config[0] = attr->config;
    spec->config[1] = attr->config1;
    spec->config[2] = attr->config2;
    if (attr->type == PERF_TYPE_TRACEPOINT) { /* it reads debugfs by itself */
        spec->split = SPLIT_KERNEL;
        spec->needs_kernel = true;
    }
    snprintf(spec->resolved, sizeof(spec->resolved), "%s", name);
    return 0;
}

int pfm_parse(struct spec *spec, struct word text, struct err *err)
{
    struct word body, pmu_name = split_pmu(text, &body);
    struct perf_event_attr attr;
    struct found found;
    char name[NAME_BYTES];

    if (!find_event(pmu_name, body, &found))
        return -ENOENT;
    snprintf(name, sizeof(name), "%s::%s", found.pmu.name, found.event.name);
    int rc = take_parts(spec, &found, word_from(body, found.len), name, err);
    if (rc < 0)
        return rc;
    rc = encode(name, &attr);
    return rc == PFM_SUCCESS ? use_encoding(spec, &attr, name, err)
                             : refuse_encoding(&found, name, rc, err);
}

/* The event alone, or with the first of its unit masks that makes it complete: name says which. */
static bool encode_any(const pfm_pmu_info_t *pmu, const pfm_event_info_t *event,
                       char name[NAME_BYTES], struct perf_event_attr *attr)
{
    pfm_event_attr_info_t info;

    snprintf(name, NAME_BYTES, "%s::%s", pmu->name, event->name);
    int rc = encode(name, attr);
    for (int i = 0; rc == PFM_ERR_UMASK && i < event->nattrs; i++) {
        if (!attr_info(event, i, &info) || info.type != PFM_ATTR_UMASK)
            continue;
        snprintf(name, NAME_BYTES, "%s::%s:%s", pmu->name, event->name, info.name);
        rc = encode(name, attr) == PFM_SUCCESS ? PFM_SUCCESS : PFM_ERR_UMASK;
    }
    return rc == PFM_SUCCESS;
}

/* The class of an event, if it encodes and opens as `name`. */
static struct pmu *countable(struct backend_state *state, const pfm_pmu_info_t *info,
                             const pfm_event_info_t *event, char name[NAME_BYTES])
{
    struct spec spec = {.state = state, .scale = 1};
    struct event opened = {.written = NULL};
    struct perf_event_attr attr;

    if (!encode_any(info, event, name, &attr) ||
        use_encoding(&spec, &attr, event->name, NULL) < 0 || spec_try(&spec, &opened) < 0)
        return NULL;
    return spec.pmu;
}

/* The kernel's own file for an event comes first. */
static void list_pmu(struct backend_state *state, const pfm_pmu_info_t *pmu, struct catalog *out)
{
    char name[NAME_BYTES];
    pfm_event_info_t event;

    for (int e = pmu->first_event; e != -1; e = pfm_get_event_next(e)) {
        struct pmu *class = event_info(e, &event) ? countable(state, pmu, &event, name) : NULL;
        if (class && !strchr(event.name, '/') &&
            !pmu_event(class, (struct word){event.name, strlen(event.name)}))
            catalog_add(out, class->name, event.name);
    }
}

void pfm_list(struct backend_state *state, struct catalog *out)
{
    pfm_pmu_info_t pmu;

    for (int i = pmu_next(-1, &pmu); i >= 0; i = pmu_next(i, &pmu))
        if (is_hardware(&pmu))
            list_pmu(state, &pmu, out);
}

bool pfm_spelling(struct backend_state *state, const char *class_name, const char *event,
                  char *text, size_t size)
{
    struct word wanted = {event, strlen(event)};
    char name[NAME_BYTES];
    pfm_pmu_info_t pmu;

    for (int i = pmu_next(-1, &pmu); i >= 0; i = pmu_next(i, &pmu)) {
        struct found found = {.len = 0};
        if (is_hardware(&pmu))
            find_in(&pmu, wanted, &found);
        if (!found.len || strcmp(found.event.name, event) != 0)
            continue;
        struct pmu *class = countable(state, &pmu, &found.event, name);
        snprintf(text, size, "%s", name);
        if (class && strcmp(class->name, class_name) == 0)
            return true;
    }
    return false;
}

static void describe_attr(const pfm_event_attr_info_t *attr, struct buf *out)
{
    static const char *const types[] = {[PFM_ATTR_MOD_BOOL] = " boolean",
                                        [PFM_ATTR_MOD_INTEGER] = " integer",
                                        [PFM_ATTR_UMASK] = ""};

    buf_printf(out, "%s %s%s %s%s\n", attr->type == PFM_ATTR_UMASK ? "umask" : "attr", attr->name,
               types[attr->type], attr->desc, attr->is_dfl ? " (default)" : "");
}

void pfm_describe(const char *spelling, struct buf *description, struct buf *attributes)
{
    struct word body, text = {spelling, strlen(spelling)}, pmu_name = split_pmu(text, &body);
    pfm_event_attr_info_t attr;
    struct found found;

    if (find_event(pmu_name, body, &found)) {
        buf_str(description, found.event.desc);
        for (int i = 0; i < found.event.nattrs; i++)
            if (attr_info(&found.event, i, &attr) && attr_is_ours(&attr) &&
                attr.type <= PFM_ATTR_MOD_INTEGER)
                describe_attr(&attr, attributes);
    }
}
