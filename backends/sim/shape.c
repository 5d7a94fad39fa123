/*
 * The machine's shape from the words of the mount options.
 */
#include "backends/sim/shape.h"

#include <ctype.h>
#include <string.h>

enum option {
    CPUS,
    OFFLINE,
    ROWS,
    FIXED,
    LOSE,
    CLASS
};

static const struct {
    const char *key, *wanted;
    uint64_t min, max; /* of a number */
} allowed[] = {
    [CPUS] = {"sim_cpus", "1-8192 CPUs: a number (4) or a list of CPUs (0-1,3)", 1, CPUS_MAX},
    [OFFLINE] = {"sim_offline", "a list of CPUs that are among sim_cpus (0-1,3), but not all", 0,
                 0},
    [ROWS] = {"sim_rows", "a number of rows is 1-63", 1, SHAPE_ROWS - 1},
    [FIXED] = {"sim_fixed", "1 or 0", 0, 1},
    [LOSE] = {"sim_lose_after_ms", "milliseconds, 0 for never", 0, 1000000000},
    [CLASS] = {"sim_class",
               "NAME:ROWS:WIDTH[:CPUS], each name once, of letters, digits and _, and "
               "neither software nor generic; 1-63 rows of 1-64 bits; its CPUs are a "
               "list of some of sim_cpus; at most 7",
               0, 0},
};

/* The values as written; empty if an option was not given. */
struct given {
    struct word value[CLASS];
    struct word classes[SHAPE_CLASSES - 1];
    unsigned n_classes;
};

static int refuse(struct err *err, enum option option, struct word value)
{
    return err_set(err, P02, "%s=" WORD_FMT ": %s", allowed[option].key, WORD_ARG(value),
                   allowed[option].wanted);
}

/* ---- reading the words ---- */

/* Reads one option. Skips words of other backends. */
static int option_read(struct given *given, struct word word, struct err *err)
{
    struct word key, value;
    struct near near;

    if (word.len < 3 || memcmp(word.p, "sim", 3) != 0)
        return 0;
    if (!word_split(word, &key, &value) || value.len == 0)
        return err_set(err, P01,
                       "\"" WORD_FMT "\": options are written key=value, for example sim_cpus=4",
                       WORD_ARG(word));
    near_init(&near, key);
    for (unsigned i = 0; i <= CLASS; i++) {
        near_offer(&near, allowed[i].key);
        if (!word_alike(key, allowed[i].key, false))
            continue;
        if (i == CLASS && given->n_classes == SHAPE_CLASSES - 1)
            return refuse(err, CLASS, value);
        *(i == CLASS ? &given->classes[given->n_classes++] : &given->value[i]) = value;
        return 0;
    }
    return err_set(err, E24, "no option \"" WORD_FMT "\" of the simulated PMU%s", WORD_ARG(key),
                   near_text(&near));
}

static int number_read(const struct given *given, enum option option, uint64_t *to, struct err *err)
{
    const struct word value = given->value[option];

    return value.len == 0 || word_u64(value, false, allowed[option].min, allowed[option].max, to)
               ? 0
               : refuse(err, option, value);
}

/* ---- CPUs ---- */

static bool cpus_within(const struct cpus *part, const struct cpus *whole)
{
    for (int c = cpus_next(part, 0); c >= 0; c = cpus_next(part, c + 1))
        if (!cpus_has(whole, (unsigned)c))
            return false;
    return cpus_count(part) > 0;
}

/* Reads a number of CPUs ("5" is five) or a list ("5-5" is one). */
static int possible_make(struct shape *shape, const struct given *given, struct err *err)
{
    const struct word value = given->value[CPUS];
    uint64_t n = value.len > 0 ? 0 : 4;

    if (n == 0 && !word_u64(value, false, 0, UINT64_MAX, &n))
        return cpus_parse(&shape->possible, value) == 0 ? 0 : refuse(err, CPUS, value);
    if (n < allowed[CPUS].min || n > allowed[CPUS].max)
        return refuse(err, CPUS, value);
    for (unsigned cpu = 0; cpu < n; cpu++)
        if (!cpus_add(&shape->possible, cpu))
            return err_nomem(err);
    return 0;
}

static int online_make(struct shape *shape, const struct given *given, struct err *err)
{
    const struct word value = given->value[OFFLINE];
    struct cpus gone;

    if (!cpus_copy(&shape->online, &shape->possible))
        return err_nomem(err);
    if (value.len == 0)
        return 0;
    cpus_init(&gone);
    bool ok = cpus_parse(&gone, value) == 0 && cpus_within(&gone, &shape->possible);
    for (int c = cpus_next(&gone, 0); c >= 0; c = cpus_next(&gone, c + 1))
        cpus_remove(&shape->online, (unsigned)c);
    cpus_free(&gone);
    return ok && cpus_count(&shape->online) > 0 ? 0 : refuse(err, OFFLINE, value);
}

/* ---- classes ---- */

static bool name_legal(const struct shape *shape, struct word name)
{
    if (name.len == 0 || name.len >= SHAPE_NAME || word_alike(name, "software", true) ||
        word_alike(name, "generic", true))
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (!isalnum((unsigned char)name.p[i]) && name.p[i] != '_')
            return false;
    for (unsigned i = 0; i < shape->n_classes; i++)
        if (word_alike(name, shape->names[i], true))
            return false;
    return true;
}

static struct class_info *class_add(struct shape *shape, struct word name, uint64_t rows,
                                    uint64_t width)
{
    const unsigned index = shape->n_classes++;
    struct class_info *class = &shape->classes[index];

    memcpy(shape->names[index], name.p, name.len);
    *class = (struct class_info){.name = shape->names[index],
                                 .rows = (unsigned)rows,
                                 .width = (unsigned)width,
                                 .hardware = rows > 0,
                                 .capabilities =
                                     CAP_INTERRUPT | CAP_USER | CAP_SYSTEM | CAP_READ | CAP_WRITE,
                                 .row_events = rows > 0 ? shape->row_events[index] : NULL};
    if (rows > 0)
        class->capabilities |= CAP_EDGE | CAP_THRESHOLD | CAP_INVERT | CAP_QUALIFIER;
    cpus_init(&class->cpus);
    return class;
}

/* Parses NAME:ROWS:WIDTH[:LIST]. */
static int class_parse(struct shape *shape, struct word text, struct err *err)
{
    struct word rest;
    const struct word name = word_until(text, ':', &rest), rows = word_until(rest, ':', &rest);
    const struct word width = word_until(rest, ':', &rest);
    struct class_info *class;
    uint64_t n_rows, bits;

    if (!name_legal(shape, name) || !word_u64(rows, false, 1, SHAPE_ROWS - 1, &n_rows) ||
        !word_u64(width, false, 1, 64, &bits))
        return refuse(err, CLASS, text);
    class = class_add(shape, name, n_rows + shape->fixed, bits);
    return rest.len == 0 || (cpus_parse(&class->cpus, rest) == 0 &&
                             cpus_within(&class->cpus, &shape->possible))
               ? 0
               : refuse(err, CLASS, text);
}

static int classes_make(struct shape *shape, const struct given *given, struct err *err)
{
    uint64_t rows = 4;
    int rc = number_read(given, ROWS, &rows, err);

    if (rc == 0 && given->n_classes > 0 && given->value[ROWS].len > 0)
        rc = err_set(err, P02, "sim_rows and sim_class cannot both be set: give one of the two");
    if (rc == 0 && given->n_classes == 0)
        class_add(shape, word_of("sim"), rows + shape->fixed, 48);
    for (unsigned i = 0; rc == 0 && i < given->n_classes; i++)
        rc = class_parse(shape, given->classes[i], err);
    class_add(shape, word_of("software"), 0, 64);
    return rc;
}

/* ---- all options ---- */

int sim_shape_parse(struct shape *shape, const char *options, struct err *err)
{
    struct given given = {.n_classes = 0};
    struct scan scan;
    struct word word;
    int rc = 0;

    *shape = (struct shape){.n_classes = 0};
    scan_init(&scan, options == NULL ? "" : options, options == NULL ? 0 : strlen(options));
    while (rc == 0 && scan_word(&scan, &word))
        rc = option_read(&given, word, err);
    if (rc == 0)
        rc = number_read(&given, FIXED, &shape->fixed, err);
    if (rc == 0)
        rc = number_read(&given, LOSE, &shape->lose_after_ms, err);
    if (rc == 0)
        rc = possible_make(shape, &given, err);
    if (rc == 0)
        rc = online_make(shape, &given, err);
    if (rc == 0)
        rc = classes_make(shape, &given, err);
    if (rc != 0)
        sim_shape_free(shape);
    return rc;
}

void sim_shape_free(struct shape *shape)
{
    for (unsigned i = 0; i < shape->n_classes; i++)
        cpus_free(&shape->classes[i].cpus);
    shape->n_classes = 0;
    cpus_free(&shape->possible);
    cpus_free(&shape->online);
}

uint64_t shape_fixed(const struct shape *shape, unsigned class_index)
{
    const unsigned rows = shape->classes[class_index].rows;

    return shape->fixed && rows > 0 ? UINT64_C(1) << (rows - 1) : 0;
}

uint64_t shape_general(const struct shape *shape, unsigned class_index)
{
    const unsigned rows = shape->classes[class_index].rows;

    return rows == 0 ? 0 : UINT64_MAX >> (SHAPE_ROWS - rows) & ~shape_fixed(shape, class_index);
}
