/*
 * The table of settings; parsing, comparing and printing of values.
 */
#include "core/pmc/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct mode_row mode_table[MODE_COUNT] = {
    [PROCESS_COUNTING] = {"process-counting", "TC", false, false,
                          "count while a target runs, on any CPU"},
    [PROCESS_SAMPLING] = {"process-sampling", "TS", false, true,
                          "sample while a target runs, on any CPU"},
    [SYSTEM_COUNTING] = {"system-counting", "SC", true, false,
                         "count on CPUs, whatever process runs there"},
    [SYSTEM_SAMPLING] = {"system-sampling", "SS", true, true,
                         "sample CPUs, whatever process runs there"},
};

#pragma GCC diagnostic ignored                                                                     \
    "-Wmissing-field-initializers" /* only numbers use the last members */
const struct key_row key_table[KEYS] = {
    [KEY_EVENT] =
        {"event", "see EVENTS", "", MODES_ANY, true,
         "the event, or the first event of a set. Repeat the key for a set of several events",
         "PMCALLOCATE, PMIOSETUP, cpc_set_add_request"},
    [KEY_MODE] =
        {"mode", "process-counting, process-sampling, system-counting, system-sampling",
         "see MODES", MODES_ANY, true,
         "whether to count or sample, for processes or for CPUs. Until you write a mode, pmcfs "
         "chooses it from the event, the targets, period and freq",
         "PMC_MODE_*"},
    [KEY_AUTOSTART] = {"autostart", "on, off", "on", MODES_ANY, false,
                       "start an allocated or exited PMC when a target is attached", "",
                       VALUE_SWITCH, 1},
    [KEY_START] = {"start", "now, exec", "now", MODES_PROCESS, true,
                   "start counting at once, or at each target's next exec", "pctx_create",
                   VALUE_WORDS, 0},
    [KEY_COUNT] = {"count", "N, N,M,… for a set", "0", MODES_ANY, false,
                   "value from which counting starts, one per event",
                   "SETCOUNT, cpc_request_preset"},
    [KEY_FILTER] = {"filter", "EXPR, off", "off", MODES_ANY, true,
                    "count and sample a tracepoint only if this expression is true for its fields, "
                    "such as prev_pid==0&&next_pid>10. Write a blank as \\040",
                    "", VALUE_TEXT},
    [KEY_PERIOD] = {"period", "N events, off", "off", MODES_SAMPLING, true,
                    "take a sample every N events. For hardware and clock events the minimum is "
                    "the tunable mincount; for clock events of ordinary users it is 100000",
                    "SETCOUNT", VALUE_OFF_NUMBER, 0, 1, INT64_MAX, "off", "events"},
    [KEY_FREQ] = {"freq", "N per second, off",
                  "997 for clock and hardware events, else every event is sampled", MODES_SAMPLING,
                  true,
                  "take about N samples per second, within the system's limit. Clock events of "
                  "ordinary users are limited to 10000 per second",
                  "", VALUE_OFF_NUMBER, 0, 1, 1000000000, "off", "samples per second",
                  "1 kHz is 1000"},
    [KEY_USER] = {"user", "on, off", "on", MODES_ANY, true, "count in user mode",
                  "PMCF_USR, CPC_COUNT_USER", VALUE_SWITCH, 1},
    [KEY_KERNEL] = {"kernel", "on, off", "on for users who may count the kernel, else off",
                    MODES_ANY, true, "count in kernel mode", "PMCF_OS, CPC_COUNT_SYSTEM",
                    VALUE_SWITCH, 0},
    [KEY_CALLCHAIN] = {"callchain", "off, on, user, kernel, dwarf", "off", MODES_SAMPLING, true,
                       "record the call chain of each sample, by frame pointers. dwarf also copies "
                       "the registers and part of the stack",
                       "PMC_F_CALLCHAIN, PMC_F_USERCALLCHAIN", VALUE_WORDS, 0},
    [KEY_DEPTH] = {"depth", "N, default", "callchaindepth", MODES_ANY, true,
                   "maximum number of frames in a call chain, at most the tunable callchaindepth. "
                   "status shows the number in use",
                   "", VALUE_OFF_NUMBER, 0, 1, 512, "default", "frames"},
    [KEY_STACK] = {"stack", "bytes, default", "8192", MODES_ANY, true,
                   "bytes of the stack to copy with each sample if callchain=dwarf", "",
                   VALUE_OFF_NUMBER, 0, 8, STACK_MAX, "default", "bytes", "8 KiB is 8192"},
    [KEY_RAW] = {"raw", "on, off", "off", MODES_SAMPLING, true,
                 "record the fields of tracepoints in their samples. Only for the superuser", "",
                 VALUE_SWITCH, 0},
    [KEY_OFFCPU] = {"offcpu", "on, off", "off", MODES_SAMPLING, true,
                    "give each sample of context-switches the time until its thread runs again as "
                    "its weight",
                    "", VALUE_SWITCH, 0},
    [KEY_DESCENDANTS] = {"descendants", "on, off", "off", MODES_PROCESS, true,
                         "also count the children of the targets, existing and future",
                         "PMC_F_DESCENDANTS", VALUE_SWITCH, 0},
    [KEY_LOG_CSW] = {"log-csw", "on, off", "off", MODES_PROCESS, true,
                     "log a count each time a thread leaves a CPU. Only in process-counting mode",
                     "PMC_F_LOG_PROCCSW", VALUE_SWITCH, 0},
    [KEY_LOG_EXIT] = {"log-exit", "on, off", "off", MODES_PROCESS, true,
                      "log the count of each process when it exits. Only in process-counting mode",
                      "PMC_F_LOG_PROCEXIT", VALUE_SWITCH, 0},
    [KEY_KGMON] = {"kgmon", "off", "off", MODES_ANY, false,
                   "always off, because hwpmc defines the flag without implementing it",
                   "PMC_F_KGMON", VALUE_WORDS, 0},
    [KEY_FORCE] = {"force", "off", "off", MODES_ANY, false,
                   "always off, because hwpmc defines the flag without implementing it",
                   "PMC_F_FORCE", VALUE_WORDS, 0},
    [KEY_MULTIPLEX] = {"multiplex", "on, off", "off", MODES_ANY, true,
                       "reserve no row, and share the hardware counters by time with other PMCs",
                       "", VALUE_SWITCH, 0},
    [KEY_ROW] = {"row", "N, any", "any", MODES_ANY, true, "reserve this row", "pmc_num, picN",
                 VALUE_OFF_NUMBER, 0, 0, 63, "any", "a row (see info/rows)"},
    [KEY_INTERVAL] = {"interval", "milliseconds, off", "off", MODES_ANY, false,
                      "time between two lines of the series file", "cpustat, cputrack",
                      VALUE_OFF_NUMBER, 0, 1, 86400000, "off", "milliseconds", "1 s is 1000"},
    [KEY_LOG] = {"log", "on, off", "on", MODES_ANY, false,
                 "keep a log of samples and other records", "CONFIGURELOG", VALUE_SWITCH, 1},
    [KEY_LOGSIZE] =
        {"logsize", "bytes, default", "nbuffers × logbuffersize", MODES_ANY, false,
         "maximum size of the log in bytes. Users can write at most the default, and the superuser "
         "at most the tunable max_log_per_user",
         "nbuffers × logbuffersize", VALUE_OFF_NUMBER, 0, 4096, UINT64_C(1) << 40, "default",
         "bytes", "1 MiB is 1048576"},
    [KEY_NOTIFY] = {"notify", "N, off", "off", MODES_ANY, false,
                    "poll(2) on count reports POLLPRI once N more events were counted",
                    "CPC_OVF_NOTIFY_EMT", VALUE_OFF_NUMBER, 0, 1, INT64_MAX, "off", "events"},
    [KEY_METRICS] = {"metrics", "sum, cpu", "sum", MODES_CPUS, false,
                     "lines in metrics.prom: one for the PMC, or one for each CPU that it counts",
                     "", VALUE_WORDS, METRICS_SUM},
    [KEY_LIFETIME] = {"lifetime", "mount, owner, open", "mount", MODES_ANY, false,
                      "when pmcfs releases the PMC: at unmount, when the process that wrote this "
                      "exits, or when the file that it was written to is closed. You can always "
                      "release it with rmdir",
                      "owner process", VALUE_WORDS, LIFETIME_MOUNT},
    [KEY_REATTACH] = {"reattach", "on, off", "off", MODES_ANY, false,
                      "wait for the targets cgroup:/PATH that do not exist or were removed, and "
                      "attach to them when they are created",
                      "", VALUE_SWITCH, 0},
    [KEY_REALTIME] = {"realtime", "on, off", "off", MODES_ANY, false,
                      "add the column realtime to series: the wall-clock time of each line", "",
                      VALUE_SWITCH, 0},
    [KEY_TARGET] = {"target", "see TARGETS", "", MODES_ANY, false,
                    "attach to a target. Repeat the key to attach to several targets",
                    "PMCATTACH, cpc_bind_*"},
};

void settings_init(struct settings *settings)
{
    *settings = (struct settings){.mode = PROCESS_COUNTING};
    for (unsigned i = 0; i < KEYS; i++)
        settings->word[i] = key_table[i].word;
}

void settings_clear(struct settings *settings)
{
    free(settings->counts);
    free(settings->numbers);
    free(settings->filter);
    settings_init(settings);
}

/* Copies the values. Returns NULL if there are none, or on ENOMEM. */
static uint64_t *numbers_copy(const uint64_t *from, size_t n)
{
    uint64_t *copy = from ? malloc(n * sizeof *copy) : NULL;

    return copy ? memcpy(copy, from, n * sizeof *copy) : NULL;
}

bool settings_copy(struct settings *to, const struct settings *from)
{
    *to = *from;
    to->counts = numbers_copy(from->counts, from->n_counts);
    to->numbers = numbers_copy(from->numbers, KEYS);
    to->filter = from->filter ? strdup(from->filter) : NULL;
    if ((to->counts || !from->counts) && (to->numbers || !from->numbers) &&
        (to->filter || !from->filter))
        return true;
    settings_clear(to);
    return false;
}

enum key key_find(struct word word)
{
    for (unsigned i = 0; i < KEYS; i++)
        if (word_alike(word, key_table[i].name, false))
            return (enum key)i;
    return KEYS;
}

int key_unknown(struct word word, struct err *err)
{
    const char *instead = foreign_word_hint(word, FOREIGN_SETTING);
    struct near near = {.word = word};

    if (instead)
        return err_set(err, E24, "no setting \"" WORD_FMT "\": %s", WORD_ARG(word), instead);
    for (unsigned i = 0; i < KEYS; i++)
        near_offer(&near, key_table[i].name);
    return err_set(err, E24, "no setting \"" WORD_FMT "\"%s: cat config shows all settings",
                   WORD_ARG(word), near_text(&near));
}

/* Parses initial values, one for each event: "5" or "5,6,7". */
static int counts_set(struct settings *settings, struct word value, struct err *err)
{
    uint64_t counts[SET_MAX];
    unsigned n = 0;

    for (const char *p = value.p, *end = value.p + value.len;; p++) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        struct word item = {p, (size_t)((comma ? comma : end) - p)};

        if (n == SET_MAX || !word_u64(item, true, 0, UINT64_MAX, &counts[n]))
            return err_set(err, P02,
                           "count=" WORD_FMT ": \"" WORD_FMT
                           "\" is not a valid count: write a number from 0 to 2^64-1 for each "
                           "event, with commas between",
                           WORD_ARG(value), WORD_ARG(item));
        n++;
        if (!comma)
            break;
        p = comma;
    }
    uint64_t *copy = numbers_copy(counts, n);
    if (!copy)
        return err_nomem(err);
    free(settings->counts);
    settings->counts = copy;
    settings->n_counts = n;
    return 0;
}

/* Finds the word with this index in "now, exec". Returns false if there are fewer words. */
static bool word_at(const char *words, uint64_t index, struct word *word)
{
    for (; *words; words += strspn(words, ", "), index--) {
        *word = (struct word){words, strcspn(words, ",")};
        if (index == 0)
            return true;
        words += word->len;
    }
    return false;
}

static bool word_index(enum key key, struct word value, uint8_t *index)
{
    struct word word;

    for (uint8_t i = 0; word_at(key_table[key].values, i, &word); i++) {
        char name[32];

        snprintf(name, sizeof name, "%.*s", (int)word.len, word.p);
        if (word_alike(value, name, false)) {
            *index = i;
            return true;
        }
    }
    return false;
}

/* Refuses a value with a sentence that lists valid ones. */
static int value_refused(enum key key, struct word value, struct err *err)
{
    const struct key_row *row = &key_table[key];

    if (row->form == VALUE_OFF_NUMBER)
        return err_set(err, P02,
                       "%s=" WORD_FMT ": give %s as a plain number, %llu to %llu%s%s%s, or \"%s\"",
                       row->name, WORD_ARG(value), row->unit, (unsigned long long)row->min,
                       (unsigned long long)row->max, row->example ? " (" : "",
                       row->example ? row->example : "", row->example ? ")" : "", row->off);
    return err_set(err, P02, "%s=" WORD_FMT ": write %s%s", row->name, WORD_ARG(value),
                   strchr(row->values, ',') ? "one of " : "", row->values);
}

int key_empty(enum key key, struct err *err)
{
    static const char *const example[KEYS] = {
        [KEY_EVENT] = "an event, such as event=page-faults (all events: ls events)",
        [KEY_TARGET] = "a PID, self, tid:TID, cpu0-3, all or cgroup:/PATH",
        [KEY_MODE] = "process-counting, process-sampling, system-counting or system-sampling",
        [KEY_COUNT] = "a number for each event, such as count=0 or count=0,100",
        [KEY_FILTER] = "an expression, such as filter=prev_pid==0, or off",
    };

    if (!example[key])
        return value_refused(key, (struct word){"", 0}, err);
    return err_set(err, P02, "%s= has no value: write %s", key_table[key].name, example[key]);
}

static int number_set(struct settings *settings, enum key key, struct word value, struct err *err)
{
    const struct key_row *row = &key_table[key];
    uint64_t number = UINT64_MAX;

    if (!word_alike(value, row->off, false) && !word_u64(value, true, row->min, row->max, &number))
        return value_refused(key, value, err);
    if (!settings->numbers && number != UINT64_MAX) {
        settings->numbers = malloc(KEYS * sizeof number);
        if (!settings->numbers)
            return err_nomem(err);
        memset(settings->numbers, 0xff, KEYS * sizeof number);
    }
    if (settings->numbers)
        settings->numbers[key] = number;
    return 0;
}

static int filter_set(struct settings *settings, struct word value, struct err *err)
{
    char *text = NULL;

    if (value.len > FILTER_MAX)
        return err_set(err, P02, "filter= has %zu bytes, and at most %d are possible: shorten it",
                       value.len, FILTER_MAX);
    if (!word_alike(value, "off", false)) {
        text = word_dup(value);
        if (!text)
            return err_nomem(err);
        text_unescape(text);
    }
    free(settings->filter);
    settings->filter = text;
    return 0;
}

static int mode_set(struct settings *settings, struct word value, struct err *err)
{
    char room[160];
    struct buf modes = buf_in(room, sizeof room);

    for (unsigned i = 0; i < MODE_COUNT; i++)
        if (word_alike(value, mode_table[i].name, false) ||
            word_alike(value, mode_table[i].short_name, false)) {
            settings->mode = (enum mode)i;
            return 0;
        }
    for (unsigned i = 0; i < MODE_COUNT; i++)
        buf_printf(&modes, "%s%s (%s)", i ? ", " : "", mode_table[i].name,
                   mode_table[i].short_name);
    int rc =
        err_set(err, E20, "no mode \"" WORD_FMT "\": write %s", WORD_ARG(value), buf_text(&modes));
    buf_free(&modes);
    return rc;
}

static int word_set(struct settings *settings, enum key key, struct word value, struct err *err)
{
    bool on = false, is_switch = word_bool(value, &on);

    if ((key == KEY_KGMON || key == KEY_FORCE) && on)
        return err_set(err, P09,
                       "%s=on is not supported: hwpmc has the flag, but it has no effect there "
                       "either: write %s=off",
                       key_table[key].name, key_table[key].name);
    if (key_table[key].form == VALUE_WORDS) {
        const struct word plain = on ? (struct word){"on", 2} : (struct word){"off", 3};
        uint8_t *index = &settings->word[key];

        return word_index(key, value, index) || (is_switch && word_index(key, plain, index))
                   ? 0
                   : value_refused(key, value, err);
    }
    if (!is_switch)
        return value_refused(key, value, err);
    settings->word[key] = on;
    return 0;
}

int settings_set(struct settings *settings, enum key key, struct word value, struct err *err)
{
    int rc = key == KEY_MODE                           ? mode_set(settings, value, err)
             : key == KEY_COUNT                        ? counts_set(settings, value, err)
             : key == KEY_FILTER                       ? filter_set(settings, value, err)
             : key_table[key].form == VALUE_OFF_NUMBER ? number_set(settings, key, value, err)
                                                       : word_set(settings, key, value, err);

    if (rc == 0)
        settings->written_keys |= KEY_BIT(key);
    return rc;
}

bool settings_skip_kernel(const struct settings *settings)
{
    return (settings->written_keys & KEY_BIT(KEY_KERNEL)) && !settings->word[KEY_KERNEL];
}

bool settings_same(const struct settings *a, const struct settings *b, enum key key)
{
    if (key == KEY_MODE)
        return a->mode == b->mode;
    if (key == KEY_FILTER)
        return a->filter == b->filter ||
               (a->filter && b->filter && strcmp(a->filter, b->filter) == 0);
    if (key != KEY_COUNT)
        return a->word[key] == b->word[key] && settings_number(a, key) == settings_number(b, key);
    for (unsigned i = 0; i < a->n_counts || i < b->n_counts; i++)
        if ((i < a->n_counts ? a->counts[i] : 0) != (i < b->n_counts ? b->counts[i] : 0))
            return false;
    return true;
}

bool settings_standard(const struct settings *settings, enum key key)
{
    struct settings standard;

    settings_init(&standard);
    return settings_same(settings, &standard, key);
}

void settings_print(const struct settings *settings, enum key key, unsigned n_events,
                    struct buf *out)
{
    const struct key_row *row = &key_table[key];
    uint64_t value = settings_number(settings, key);
    struct word word;

    if (key == KEY_MODE) {
        buf_str(out, mode_table[settings->mode].name);
    } else if (key == KEY_COUNT) {
        unsigned n = settings->n_counts > n_events ? settings->n_counts : n_events;
        for (unsigned i = 0; i == 0 || i < n; i++) {
            if (i)
                buf_char(out, ',');
            buf_u64(out, i < settings->n_counts ? settings->counts[i] : 0);
        }
    } else if (row->form == VALUE_TEXT) {
        const char *text = settings->filter ? settings->filter : "off";

        buf_value(out, text, strlen(text));
    } else if (row->form == VALUE_SWITCH) {
        buf_str(out, settings->word[key] ? "on" : "off");
    } else if (row->form == VALUE_WORDS) {
        if (word_at(row->values, settings->word[key], &word))
            buf_add(out, word.p, word.len);
    } else if (value == UINT64_MAX) {
        buf_str(out, row->off);
    } else {
        buf_u64(out, value);
    }
}
