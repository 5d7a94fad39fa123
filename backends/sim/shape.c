/*
 * The machine's shape from the words of the mount options.
 */
#include "backends/sim/shape.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

/* Said by the words, before anything is built from it. */
struct draft {
    struct shape *shape;
    struct word offline;
    struct word classes[SHAPE_CLASSES - 1];
    unsigned n_classes;
};

static int refuse(struct err *err, const char *key, struct word value, const char *wanted)
{
    return err_set(err, P02, "%s=" WORD_FMT ": %s", key, WORD_ARG(value), wanted);
}

/* ---- single words ---- */

static int cpus_set(struct draft *draft, struct word value, struct err *err)
{
    struct cpus *cpus = &draft->shape->possible;
    uint64_t n;

    if (word_u64(value, false, 0, UINT64_MAX, &n)) {
        if (n < 1 || n > CPUS_MAX)
            return refuse(err, "sim_cpus", value, "a number of CPUs is 1-8192");
        cpus_free(cpus);
        for (unsigned cpu = 0; cpu < n; cpu++)
            if (!cpus_add(cpus, cpu))
                return err_nomem(err);
        return 0;
    }
    if (cpus_parse(cpus, value) != 0 || cpus_count(cpus) == 0)
        return refuse(err, "sim_cpus", value, "a number (4) or a list of CPUs (0-1,3)");
    return 0;
}

static int offline_set(struct draft *draft, struct word value, struct err *err)
{
    (void)err;
    draft->offline = value;
    return 0;
}

static int class_set(struct draft *draft, struct word value, struct err *err)
{
    if (draft->n_classes == SHAPE_CLASSES - 1)
        return refuse(err, "sim_class", value, "at most 7 classes");
    draft->classes[draft->n_classes++] = value;
    return 0;
}

/* Options that are a number, and where it goes. */
static const struct number {
    const char *key;
    size_t place; /* in struct shape */
    uint64_t min, max;
    const char *wanted;
} numbers[] = {
    {"sim_rows", offsetof(struct shape, rows), 1, SHAPE_ROWS - 1, "a number of rows is 1-63"},
    {"sim_fixed", offsetof(struct shape, fixed), 0, 1, "1 or 0"},
    {"sim_lose_after_ms", offsetof(struct shape, lose_after_ms), 0, 1000000000,
     "milliseconds, 0 for never"},
    {"sim_throttle", offsetof(struct shape, throttle), 0, 1000000000,
     "samples in 10 ms, 0 for no limit"},
    {"sim_max_freq", offsetof(struct shape, max_freq), 1, 1000000000,
     "samples per second, 1-1000000000"},
};

static const struct option {
    const char *key;
    int (*set)(struct draft *draft, struct word value, struct err *err);
} options_table[] = {
    {"sim_cpus", cpus_set}, {"sim_offline", offline_set}, {"sim_class", class_set}};

static int number_set(struct shape *shape, const struct number *number, struct word value,
                      struct err *err)
{
    uint64_t *to = (uint64_t *)((char *)shape + number->place);

    return word_u64(value, false, number->min, number->max, to)
               ? 0
               : refuse(err, number->key, value, number->wanted);
}

/* Words that do not begin with "sim" are another backend's. */
static int option_read(struct draft *draft, struct word word, struct err *err)
{
    struct word key, value;
    struct near near;

    if (word.len < 3 || memcmp(word.p, "sim", 3) != 0)
        return 0;
    if (!word_split(word, &key, &value))
        return err_set(err, P01, "\"" WORD_FMT "\": options are key=value, as sim_cpus=4",
                       WORD_ARG(word));
    near_init(&near, key);
    for (size_t i = 0; i < sizeof options_table / sizeof options_table[0]; i++) {
        if (word_alike(key, options_table[i].key, false))
            return options_table[i].set(draft, value, err);
        near_offer(&near, options_table[i].key);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (word_alike(key, numbers[i].key, false))
            return number_set(draft->shape, &numbers[i], value, err);
        near_offer(&near, numbers[i].key);
    }
    return err_set(err, E24, "no option \"" WORD_FMT "\" of the simulated PMU%s", WORD_ARG(key),
                   near_text(&near));
}

/* ---- classes ---- */

static bool name_legal(const struct shape *shape, struct word name)
{
    if (name.len == 0 || name.len >= SHAPE_NAME || word_alike(name, "software", true) ||
        word_alike(name, "generic", true))
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_", name.p[i]) ==
            NULL)
            return false;
    for (unsigned i = 0; i < shape->n_classes; i++)
        if (word_alike(name, shape->names[i], true))
            return false;
    return true;
}

static struct class_info *class_add(struct shape *shape, struct word name, unsigned rows,
                                    unsigned width)
{
    const unsigned index = shape->n_classes++;
    struct class_info *class = &shape->classes[index];

    memcpy(shape->names[index], name.p, name.len);
    *class = (struct class_info){.name = shape->names[index],
                                 .rows = rows,
                                 .width = width,
                                 .hardware = rows > 0,
                                 .capabilities =
                                     CAP_INTERRUPT | CAP_USER | CAP_SYSTEM | CAP_READ | CAP_WRITE,
                                 .row_events = rows > 0 ? shape->row_events[index] : NULL};
    if (rows > 0)
        class->capabilities |= CAP_EDGE | CAP_THRESHOLD | CAP_INVERT | CAP_QUALIFIER;
    cpus_init(&class->cpus);
    return class;
}

/* NAME:ROWS:WIDTH[:LIST] */
static int class_parse(struct shape *shape, struct word text, struct err *err)
{
    struct word rest;
    const struct word name = word_until(text, ':', &rest), rows = word_until(rest, ':', &rest);
    const struct word width = word_until(rest, ':', &rest);
    struct class_info *class;
    uint64_t n_rows, bits;
    struct cpus outside;

    if (!name_legal(shape, name))
        return refuse(err, "sim_class", text,
                      "NAME:ROWS:WIDTH[:CPUS], each name once, of letters, "
                      "digits and _, and neither software nor generic");
    if (!word_u64(rows, false, 1, SHAPE_ROWS - 1, &n_rows))
        return refuse(err, "sim_class", text, "a number of rows is 1-63");
    if (!word_u64(width, false, 1, 64, &bits))
        return refuse(err, "sim_class", text, "a width is 1-64 bits");
    class = class_add(shape, name, (unsigned)(n_rows + shape->fixed), (unsigned)bits);
    if (rest.len == 0)
        return 0;
    if (cpus_parse(&class->cpus, rest) != 0 || cpus_count(&class->cpus) == 0)
        return refuse(err, "sim_class", text, "CPUs are a list, as 0-1,3");
    cpus_init(&outside);
    if (!cpus_copy(&outside, &class->cpus))
        return err_nomem(err);
    cpus_keep(&outside, &shape->possible);
    bits = cpus_count(&outside);
    cpus_free(&outside);
    if (bits != cpus_count(&class->cpus))
        return refuse(err, "sim_class", text, "some of its CPUs are not among sim_cpus");
    return 0;
}

static int classes_make(struct draft *draft, struct err *err)
{
    static const struct word sim = {"sim", 3}, software = {"software", 8};
    struct shape *shape = draft->shape;

    if (draft->n_classes > 0 && shape->rows > 0)
        return err_set(err, P02,
                       "sim_rows is for the class \"sim\", which sim_class=" WORD_FMT
                       " replaces: give one of the two",
                       WORD_ARG(draft->classes[0]));
    if (draft->n_classes == 0)
        class_add(shape, sim, (unsigned)((shape->rows ? shape->rows : 4) + shape->fixed), 48);
    for (unsigned i = 0; i < draft->n_classes; i++) {
        int rc = class_parse(shape, draft->classes[i], err);

        if (rc != 0)
            return rc;
    }
    class_add(shape, software, 0, 64);
    return 0;
}

/* ---- the whole ---- */

static int online_make(struct draft *draft, struct err *err)
{
    struct shape *shape = draft->shape;
    struct cpus gone;
    int rc = 0;

    if (!cpus_copy(&shape->online, &shape->possible))
        return err_nomem(err);
    if (draft->offline.len == 0)
        return 0;
    cpus_init(&gone);
    if (cpus_parse(&gone, draft->offline) != 0)
        rc = refuse(err, "sim_offline", draft->offline, "a list of CPUs, as 0-1,3");
    for (int c = cpus_next(&gone, 0); rc == 0 && c >= 0; c = cpus_next(&gone, c + 1)) {
        if (!cpus_has(&shape->possible, (unsigned)c))
            rc = refuse(err, "sim_offline", draft->offline, "a CPU that is not among sim_cpus");
        cpus_remove(&shape->online, (unsigned)c);
    }
    cpus_free(&gone);
    if (rc == 0 && cpus_count(&shape->online) == 0)
        rc = refuse(err, "sim_offline", draft->offline, "one CPU has to stay");
    return rc;
}

int sim_shape_parse(struct shape *shape, const char *options, struct err *err)
{
    struct draft draft = {.shape = shape};
    static const struct word four = {"4", 1};
    struct scan scan;
    struct word word;
    int rc;

    *shape = (struct shape){.max_freq = 100000};
    cpus_init(&shape->possible);
    cpus_init(&shape->online);
    rc = cpus_set(&draft, four, err);
    scan_init(&scan, options == NULL ? "" : options, options == NULL ? 0 : strlen(options));
    while (rc == 0 && scan_word(&scan, &word))
        rc = option_read(&draft, word, err);
    if (rc == 0)
        rc = classes_make(&draft, err);
    if (rc == 0)
        rc = online_make(&draft, err);
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
