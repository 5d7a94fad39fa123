/*
 * The table of tunables; parsing and printing of values.
 */
#include "core/pmc/tunable.h"

#define AT_ONCE       "at once"
#define NEW_PMCS      "PMCs created later"
#define NEW_TARGETS   "targets attached later"
#define MANY          1000000000 /* limit for counts of objects; more is a typing error */
#define LOG_BYTES_MAX (UINT64_C(32) << 20)

#pragma GCC diagnostic ignored "-Wmissing-field-initializers" /* few numbers have a unit */
/* Indexed by enum tunable. The first six are hwpmc's; only callchaindepth's default differs. */
static const struct tunable_row rows[TUNABLE_COUNT] = {
    [TUNABLE_CALLCHAINDEPTH] =
        {"callchaindepth", TUNABLE_NUMBER, true, true, 127, 1, 512,
         "maximum number of frames in a call chain, and the default of depth=; "
         "at most kernel.perf_event_max_stack",
         NEW_TARGETS},
    [TUNABLE_LOGBUFFERSIZE] =
        {"logbuffersize", TUNABLE_NUMBER, true, false, 256, 1, 16384,
         "size of one log buffer in KiB",
         "the default of logsize=, and its maximum for ordinary users, are nbuffers x "
         "logbuffersize, at most 32 MiB",
         "KiB"},
    [TUNABLE_MINCOUNT] =
        {"mincount", TUNABLE_NUMBER, false, false, 1000, 1, INT64_MAX,
         "minimum of period= for hardware and clock events; a smaller period is raised to it",
         "periods set later", "events"},
    [TUNABLE_NBUFFERS] =
        {"nbuffers", TUNABLE_NUMBER, true, false, 32, 1, MANY, "number of log buffers of a PMC",
         "the default of logsize=, and its maximum for ordinary users, are nbuffers x "
         "logbuffersize, at most 32 MiB"},
    [TUNABLE_UNPRIVILEGED_PROC_DEBUG] =
        {"unprivileged_proc_debug", TUNABLE_BOOL, false, false, 1, 0, 1,
         "ordinary users may attach to processes that they may observe; 0: only to `self`",
         NEW_TARGETS},
    [TUNABLE_UNPRIVILEGED_SYSPMCS] = {"unprivileged_syspmcs", TUNABLE_BOOL, false, false, 0, 0, 1,
                                      "ordinary users may count CPUs and cgroups (system scope)",
                                      NEW_TARGETS},
    [TUNABLE_UNPRIVILEGED_KERNEL] = {"unprivileged_kernel", TUNABLE_BOOL, false, false, 0, 0, 1,
                                     "ordinary users may count and sample in kernel mode",
                                     NEW_TARGETS},
    [TUNABLE_STRICT_ROWS] = {"strict_rows", TUNABLE_BOOL, false, false, 0, 0, 1,
                             "an owner may have only one PMC on a row, as in hwpmc",
                             "rows reserved later"},
    [TUNABLE_ROOTMODE] =
        {"rootmode", TUNABLE_MODE, false, false, 01777, 0, 01777,
         "permissions of the root directory; they decide which users may create PMCs", AT_ONCE},
    [TUNABLE_DIRMODE] = {"dirmode", TUNABLE_MODE, false, false, 0700, 0, 0777,
                         "permissions that mkdir may give to a PMC (a mask)", NEW_PMCS},
    [TUNABLE_READERS] =
        {"readers", TUNABLE_GROUP, false, false, 0, 0, 0,
         "group that may read count, detail, status, counts and metrics.prom of every PMC",
         AT_ONCE},
    [TUNABLE_MAX_PMCS] = {"max_pmcs", TUNABLE_NUMBER, false, false, 100000, 1, 10000000,
                          "maximum number of PMCs", NEW_PMCS},
    [TUNABLE_MAX_PMCS_PER_USER] = {"max_pmcs_per_user", TUNABLE_NUMBER, false, false, 256, 0,
                                   10000000,
                                   "maximum number of PMCs of one user, except the superuser",
                                   NEW_PMCS},
    [TUNABLE_MAX_EVENTS_PER_PROCESS] =
        {"max_events_per_process", TUNABLE_NUMBER, false, false, 64, 0, MANY,
         "maximum number of events on one process with its threads, inherited events included, "
         "of all users together; the superuser may attach more",
         NEW_TARGETS},
    [TUNABLE_MAX_FDS_PER_USER] =
        {"max_fds_per_user", TUNABLE_NUMBER, false, false, 65536, 0, MANY,
         "maximum number of file descriptors that pmcfs holds for one user, except the superuser: "
         "events × threads, or events × CPUs, and open files from another user namespace",
         NEW_TARGETS},
    [TUNABLE_MAX_LOG_PER_USER] =
        {"max_log_per_user", TUNABLE_NUMBER, false, false, 256 << 20, 0, INT64_MAX,
         "maximum bytes of the logs of all PMCs of one user. Open files may use 16 MiB more. At "
         "most a quarter of the memory that the cgroups of pmcfs allow at start",
         AT_ONCE, "bytes"},
    [TUNABLE_MAX_WAITING_PER_USER] = {"max_waiting_per_user", TUNABLE_NUMBER, false, false, 1000, 1,
                                      MANY, "maximum number of waiting reads and polls of one user",
                                      "reads and polls that wait later"},
    [TUNABLE_MAX_COVERED_PER_PMC] =
        {"max_covered_per_pmc", TUNABLE_NUMBER, false, false, 10000, 1, MANY,
         "maximum number of processes at and below one target, including processes left out",
         NEW_TARGETS},
    [TUNABLE_ATTACH_MS] = {"attach_ms", TUNABLE_NUMBER, false, false, 5000, 10, 60000,
                           "milliseconds after which attaching fails", NEW_TARGETS, "milliseconds"},
    [TUNABLE_NOTIFY_MS] = {"notify_ms", TUNABLE_NUMBER, false, false, 20, 1, 60000,
                           "milliseconds between two checks of a count that is polled", AT_ONCE,
                           "milliseconds"},
    [TUNABLE_THREADS] =
        {"threads", TUNABLE_NUMBER, true, false, 4, 1, 64,
         "number of threads that serve requests; at least half of it while slow requests run",
         "the next mount"},
};

static void value_reset(struct tunables *tunables, enum tunable which)
{
    struct tunable_value *value = &tunables->value[which];

    value->number = rows[which].value;
    if (value->number > value->max)
        value->number = value->max;
    value->text[0] = '\0';
}

void tunables_init(struct tunables *tunables)
{
    memset(tunables, 0, sizeof(*tunables));
    for (enum tunable which = 0; which < TUNABLE_COUNT; which++) {
        tunables->value[which].max = rows[which].max;
        value_reset(tunables, which);
    }
}

int tunable_find(struct word name)
{
    for (int which = 0; which < TUNABLE_COUNT; which++)
        if (word_alike(name, rows[which].name, false))
            return which;
    return -1;
}

const struct tunable_row *tunable_row(enum tunable which)
{
    return &rows[which];
}

void tunable_limit(struct tunables *tunables, enum tunable which, uint64_t max)
{
    struct tunable_value *value = &tunables->value[which];

    if (max < rows[which].min)
        max = rows[which].min;
    value->max = max < rows[which].max ? max : rows[which].max;
    if (value->number > value->max)
        value->number = value->max;
}

static bool mode_read(struct word word, uint64_t max, uint64_t *number)
{
    uint64_t bits = 0;

    if (!word.len || word.len > 8)
        return false;
    for (size_t i = 0; i < word.len; i++) {
        if (word.p[i] < '0' || word.p[i] > '7')
            return false;
        bits = bits << 3 | (uint64_t)(word.p[i] - '0');
    }
    *number = bits;
    return !(bits & ~max);
}

static bool group_read(struct word word, char *text, size_t size)
{
    size_t len = word_is(word, "-") ? 0 : word.len;
    size_t step;

    if (len >= size)
        return false;
    for (size_t i = 0; i < len; i += step) {
        step = utf8_printable(word.p + i, len - i);
        if (!step || strchr(" :,", word.p[i]))
            return false;
    }
    if (len)
        memcpy(text, word.p, len);
    text[len] = '\0';
    return true;
}

/* Parses a value. Returns false if the tunable does not take it. */
static bool value_read(const struct tunable_row *row, struct word word, struct tunable_value *value)
{
    bool on;

    switch (row->type) {
    case TUNABLE_NUMBER:
        return word_u64(word, false, row->min, value->max, &value->number);
    case TUNABLE_BOOL:
        if (!word_bool(word, &on))
            return false;
        value->number = on;
        return true;
    case TUNABLE_MODE:
        return mode_read(word, value->max, &value->number);
    case TUNABLE_GROUP:
        return group_read(word, value->text, sizeof(value->text));
    }
    return false;
}

int tunable_set(struct tunables *tunables, enum tunable which, struct word word, bool at_start,
                struct err *err)
{
    const struct tunable_row *row = &rows[which];
    struct tunable_value value = tunables->value[which];
    char storage[160];
    struct buf note = buf_in(storage, sizeof storage);

    if (value_read(row, word, &value)) {
        if (row->at_start && !at_start)
            return err_set(
                err, P32,
                "%s is fixed at start: set it in pmcfs.conf or as a mount option, and mount again",
                row->name);
        tunable_put(tunables, which, &value);
        return 0;
    }
    tunable_range_print(tunables, which, &note);
    if (row->unit)
        buf_printf(&note, " (%s)", row->unit);
    if (at_start) {
        value_reset(tunables, which);
        if (row->bad_is_max)
            tunables->value[which].number = tunables->value[which].max;
        buf_str(&note, "; using ");
        tunable_print(tunables, which, &note);
    }
    int result = err_set(err, P27, "%s cannot be \"" WORD_FMT "\": write %s", row->name,
                         WORD_ARG(word), buf_text(&note));
    buf_free(&note);
    return result;
}

int tunables_limit_log_size(struct tunables *tunables, struct err *err)
{
    uint64_t kib = tunable_u64(tunables, TUNABLE_LOGBUFFERSIZE);
    uint64_t n = tunable_u64(tunables, TUNABLE_NBUFFERS);

    if ((kib << 10) * n <= LOG_BYTES_MAX)
        return 0;
    value_reset(tunables, TUNABLE_LOGBUFFERSIZE);
    value_reset(tunables, TUNABLE_NBUFFERS);
    return err_set(err, P27,
                   "logbuffersize=%llu (KiB) times nbuffers=%llu is more than 32 MiB; "
                   "using %llu and %llu",
                   (unsigned long long)kib, (unsigned long long)n,
                   (unsigned long long)tunable_u64(tunables, TUNABLE_LOGBUFFERSIZE),
                   (unsigned long long)tunable_u64(tunables, TUNABLE_NBUFFERS));
}

void tunable_print(const struct tunables *tunables, enum tunable which, struct buf *out)
{
    const struct tunable_value *value = &tunables->value[which];

    switch (rows[which].type) {
    case TUNABLE_NUMBER:
    case TUNABLE_BOOL:
        buf_u64(out, value->number);
        break;
    case TUNABLE_MODE:
        buf_printf(out, "%04o", (unsigned)value->number);
        break;
    case TUNABLE_GROUP:
        buf_str(out, value->text[0] ? value->text : "-");
        break;
    }
}

void tunable_range_print(const struct tunables *tunables, enum tunable which, struct buf *out)
{
    const struct tunable_value *value = &tunables->value[which];

    switch (rows[which].type) {
    case TUNABLE_NUMBER:
        buf_u64(out, rows[which].min);
        buf_str(out, " to ");
        buf_u64(out, value->max);
        if (which == TUNABLE_CALLCHAINDEPTH && value->max < rows[which].max)
            buf_str(out, " (kernel.perf_event_max_stack)");
        break;
    case TUNABLE_BOOL:
        buf_str(out, "0 or 1");
        break;
    case TUNABLE_MODE:
        buf_printf(out, "an octal mode within %04o", (unsigned)value->max);
        break;
    case TUNABLE_GROUP:
        buf_str(out, "a group's name or number, or -");
        break;
    }
}
