/*
 * Parses the text of a command: settings, event names, target words.
 */
#include "core/change/plan.h"
#include "core/pmc/metric.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTE_ORDER_MARK "\xef\xbb\xbf" /* some editors write it at the start of UTF-8 text */

/*
 * Refuses words that users write by mistake, with the word to write instead, and bytes that no
 * event name contains, before backends pass names to parsers and files.
 */
static int check_event_name(struct word word, struct err *err)
{
    const char *instead = foreign_word_hint(word, FOREIGN_EVENT), *metric = metric_named(word);
    uint64_t number;

    if (instead)
        return err_set(err, CS01, "\"" WORD_FMT "\": %s", WORD_ARG(word), instead);
    if (word_u64(word, false, 0, UINT64_MAX, &number))
        return err_set(err, CS01,
                       "\"" WORD_FMT "\" is a number: write a PID to target, or the code of a raw "
                       "event as rN with hexadecimal N",
                       WORD_ARG(word));
    if (metric)
        return err_set(err, CS01, "\"" WORD_FMT "\" is a metric: write metric/%s", WORD_ARG(word),
                       metric);
    for (size_t i = 0; i < word.len; i++) {
        unsigned char c = (unsigned char)word.p[i];

        if (c <= ' ' || c >= 0x7f || strchr("\"'`\\", c))
            return err_set(err, CS01,
                           "no event \"" WORD_FMT "\": write its name without quotes and "
                           "backslashes, in printable ASCII characters",
                           WORD_ARG(word));
    }
    return 0;
}

/*
 * The first names that are written through an open file start a set, later ones join it, because
 * bash writes line by line. With O_APPEND the first names join the present set. If names join, this
 * adds those of the present set to `desired` first. The PMC is busy, so its set does not change.
 */
static int start_or_join_set(struct change *change)
{
    const struct pmc *pmc = change->pmc;
    const struct call *call = change->call;
    const uint64_t started_set = call->open ? call->open->started_set : 0;
    struct desired *desired = &change->desired;

    if (!call->append && !started_set)
        return 0;
    if (!call->append && started_set != pmc->sets_started)
        return err_set(&change->err, P19,
                       "another writer has replaced the events of %s since your first write: "
                       "reopen the file, or write all events with one write(2)",
                       change->name);
    desired->extends_set = true;
    for (; desired->n_names < pmc_events(pmc); desired->n_names++)
        if (!(desired->names[desired->n_names] = strdup(pmc->set->event[desired->n_names].written)))
            return err_nomem(&change->err);
    if (pmc->metrics && !(desired->metrics = strdup(pmc->metrics)))
        return err_nomem(&change->err);
    return 0;
}

static int add_name(struct change *change, struct word word)
{
    struct desired *desired = &change->desired;
    int rc = 0;

    if (desired->n_names == SET_MAX)
        rc = err_set(&change->err, P28, "a set has at most %d events: use a second PMC", SET_MAX);
    if (rc == 0)
        rc = check_event_name(word, &change->err);
    if (rc)
        return rc;
    if (!(desired->names[desired->n_names] = word_dup(word)))
        return err_nomem(&change->err);
    desired->n_names++;
    return 0;
}

/* Adds an event of a metric, unless it is already in the list. */
static int add_needed(void *arg, const char *name, struct err *err)
{
    struct change *change = arg;

    (void)err; /* unused: change->err is set */
    for (unsigned i = 0; i < change->desired.n_names; i++)
        if (strcmp(change->desired.names[i], name) == 0)
            return 0;
    return add_name(change, word_of(name));
}

/* Adds a metric word, unless it is already in the list. */
static int add_metric(struct change *change, struct word word)
{
    char **metrics = &change->desired.metrics, *more;
    const char *text = *metrics ? *metrics : "";
    struct scan scan = scan_of(word_of(text));
    struct word present;
    unsigned n = 0;

    for (; scan_word(&scan, &present); n++)
        if (present.len == word.len && memcmp(present.p, word.p, word.len) == 0)
            return 0;
    if (n == SET_MAX)
        return err_set(&change->err, P28, "a PMC has at most %d metrics: use a second PMC",
                       SET_MAX);
    if (asprintf(&more, "%s%s" WORD_FMT, text, n ? " " : "", WORD_ARG(word)) < 0)
        return err_nomem(&change->err);
    free(*metrics);
    *metrics = more;
    return 0;
}

/* Adds an event, or the events of a metric and its word. */
static int add_event(struct change *change, struct word word)
{
    int rc = change->desired.command_keys & KEY_BIT(KEY_EVENT) ? 0 : start_or_join_set(change);

    change->desired.command_keys |= KEY_BIT(KEY_EVENT);
    if (rc || !metric_is(word))
        return rc ? rc : add_name(change, word);
    rc = check_event_name(word, &change->err);
    if (rc == 0)
        rc = metric_events(word, add_needed, change, &change->err);
    return rc ? rc : add_metric(change, word);
}

/* ---- commas ---- */

static const char *find_char(const char *from, const char *end, char c)
{
    return from < end ? memchr(from, c, (size_t)(end - from)) : NULL;
}

/* Returns the place after the terms of a spelling such as cpu/event=0xc0,umask=1/, which contain
 * commas, or `begin` if the spelling has no terms. */
static const char *skip_terms(const char *begin, const char *end)
{
    const char *slash = find_char(begin, end, '/'), *comma = find_char(begin, end, ',');
    const char *second = slash ? find_char(slash + 1, end, '/') : NULL;
    const struct word pmu = {begin, slash ? (size_t)(slash - begin) : 0};

    if (!second || (comma && comma < slash))
        return begin;
    if (word_alike(pmu, "generic", false) || word_alike(pmu, "metric", false) ||
        find_char(begin, slash, ':')) /* a single slash: generic/cycles, mem:0x1234/4 */
        return begin;
    return second + 1;
}

/* Returns true for key=value of a setting; events are not written like this. */
static bool is_setting(struct word word)
{
    struct word key, value;

    return word_split(word, &key, &value) && key_find(key) != KEYS;
}

/* Returns true if the word from begin to the next comma belongs to the event before it: it is a
 * qualifier, is empty, or is a key=value that is not a setting (a misspelt qualifier). */
static bool continues_event(const struct change *change, const char *begin, const char *end)
{
    const char *comma = find_char(begin, end, ',');
    struct word word = {begin, (size_t)((comma ? comma : end) - begin)};
    const char *equals = find_char(begin, begin + word.len, '=');

    if (change->engine->backend->is_qualifier(word_part(word, "=")))
        return true;
    return word.len == 0 || (equals && !find_char(begin, equals, '/') && !is_setting(word));
}

/* Returns the first event of the list. A comma followed by a qualifier is a part of the event; any
 * other comma separates two events. */
static struct word first_event(const struct change *change, struct word text)
{
    const char *end = text.p + text.len;
    const char *comma = find_char(skip_terms(text.p, end), end, ',');

    while (comma && continues_event(change, comma + 1, end))
        comma = find_char(comma + 1, end, ',');
    return comma ? (struct word){text.p, (size_t)(comma - text.p)} : text;
}

/* Adds the events between commas; a comma at the end is skipped. `modifier` is that of a set in
 * braces (":u", or empty) and is inserted in each event, before its qualifiers. */
static int add_names(struct change *change, struct word text, struct word modifier)
{
    const char *end = text.p + text.len - (text.len > 1 && text.p[text.len - 1] == ',');
    char room[256];
    int rc = 0;

    text.len = (size_t)(end - text.p);
    do {
        struct word name = first_event(change, text);
        const char *comma =
            find_char(skip_terms(name.p, name.p + name.len), name.p + name.len, ',');

        text.p = name.p + name.len + 1;
        text.len = text.p < end ? (size_t)(end - text.p) : 0;
        if (is_setting(name))
            return err_set(&change->err, CS01,
                           "\"" WORD_FMT "\" is a setting, not an event: write it to config",
                           WORD_ARG(name));
        if (modifier.len == 0) {
            rc = add_event(change, name);
            continue;
        }
        const size_t name_len = comma ? (size_t)(comma - name.p) : name.len;
        struct buf spelling = buf_in(room, sizeof room);
        buf_add(&spelling, name.p, name_len);
        buf_add(&spelling, modifier.p, modifier.len);
        buf_add(&spelling, name.p + name_len, name.len - name_len);
        rc = spelling.failed ? err_nomem(&change->err)
                             : add_event(change, (struct word){buf_text(&spelling), spelling.len});
        buf_free(&spelling);
    } while (rc == 0 && text.len > 0);
    return rc;
}

/* Adds the events of a list, or of a set in braces as perf writes it: {A,B} or {A,B}:u. */
static int add_set(struct change *change, struct word list)
{
    struct word inside, modifier;

    if (list.len == 0 || list.p[0] != '{')
        return add_names(change, list, (struct word){list.p, 0});
    list.len -= list.p[list.len - 1] == ',';
    inside = word_until(word_from(list, 1), '}', &modifier);
    if (inside.len + 1 == list.len)
        return err_set(&change->err, CS01, "\"" WORD_FMT "\" has no closing brace: write {A,B}",
                       WORD_ARG(list));
    if (modifier.len > 0 && (modifier.p[0] != ':' || word_part(modifier, ",{}").len < modifier.len))
        return err_set(&change->err, CS01,
                       "\"" WORD_FMT "\" is more than one set: a PMC counts one set, so write "
                       "{A,B} alone and the other events to another PMC",
                       WORD_ARG(list));
    return add_names(change, inside, modifier);
}

/* Adds the events of a word and of the next words that continue the list: after a blank next to a
 * comma or brace, and up to the closing brace. The list stops before a setting of `config`. Moves
 * *scan after the last word. */
static int add_list(struct change *change, struct scan *scan, struct word word)
{
    struct scan next;
    char room[1024];
    struct buf list = buf_in(room, sizeof room);

    for (;;) {
        buf_add(&list, word.p, word.len);
        *scan = next = (struct scan){word.p + word.len, scan->end};
        if (list.failed || !scan_setting(&next, &word) || is_setting(word))
            break;
        if (strchr(",{", list.data[list.len - 1]) || strchr(",}", word.p[0]))
            continue;
        if (list.data[0] != '{' || memchr(list.data, '}', list.len))
            break;
        buf_char(&list, ',');
    }
    int rc = list.failed ? err_nomem(&change->err)
                         : add_set(change, (struct word){buf_text(&list), list.len});
    buf_free(&list);
    return rc;
}

/* Adds the targets of a word, which are separated by commas. */
static int add_targets(struct change *change, struct word list)
{
    struct wanted wanted = {.cgroup_fd = -1};
    int rc = 0;

    while (rc == 0 && list.len > 0) {
        const struct word word = target_next(&list);

        if (word.len == 0)
            continue;
        if (vec_push(&change->desired.targets, wanted))
            return err_nomem(&change->err);
        rc = target_parse(&change->desired.targets.items[change->desired.targets.n - 1].word, word,
                          &change->err);
    }
    change->desired.command_keys |= KEY_BIT(KEY_TARGET);
    return rc;
}

static int parse_config(struct change *change, struct scan *scan)
{
    struct word word, name, value;
    int rc = 0;

    change->desired.accepts_attached = true;
    while (rc == 0 && scan_setting(scan, &word)) {
        if (!word_split(word, &name, &value))
            return err_set(
                &change->err, P01,
                "\"" WORD_FMT "\": settings are written key=value without blanks, for example "
                "event=page-faults%s",
                WORD_ARG(word),
                change->desired.command_keys & KEY_BIT(KEY_FILTER)
                    ? "; filter= must not contain blanks, write \\040 for a blank in a text"
                    : "");
        enum key key = key_find(name);
        if (key == KEYS)
            return key_unknown(name, &change->err);
        if (value.len == 0)
            return key_empty(key, &change->err);
        if (key == KEY_EVENT)
            rc = add_list(change, scan, value);
        else if (key == KEY_TARGET)
            rc = add_targets(change, value);
        else
            rc = settings_set(&change->desired.settings, key, value, &change->err);
        change->desired.command_keys |= KEY_BIT(key);
    }
    return rc;
}

static int parse_words(struct change *change, struct scan *scan)
{
    const struct desired *desired = &change->desired;
    struct word word;
    int rc = 0;

    while (rc == 0 && scan_setting(scan, &word)) {
        const bool after_cgroup =
            desired->targets.n &&
            desired->targets.items[desired->targets.n - 1].word.kind == TARGET_CGROUP;

        if (strcmp(change->file, "event") == 0)
            rc = add_list(change, scan, word);
        else if (!word_is(word, "waiting") || !after_cgroup) /* target has "cgroup:/A waiting" */
            rc = add_targets(change, word);
    }
    /* A shell may write a file line by line. So accept a single comment, and a blank line after
     * another line. */
    if (rc == 0 && change->desired.n_names + change->desired.targets.n == 0 &&
        !find_char(change->call->text, scan->end, '#') &&
        !(change->call->open && change->call->open->has_commands))
        rc = err_set(&change->err, P05, "the text has only blanks: write a command");
    return rc;
}

/* Parses a verb. `start` and `restart` attach the requester if the PMC never had a target. */
static int parse_verb(struct change *change)
{
    const struct pmc *pmc = change->pmc;
    struct word word;
    int rc = scan_only(change->call->text, change->call->len, X17, &word, &change->err);

    if (rc)
        return rc;
    struct near near = {.word = word};
    for (unsigned i = 1; i < VERBS; i++) {
        if (word_alike(word, verb_table[i].name, false))
            change->desired.verb = (enum verb)i;
        near_offer(&near, verb_table[i].name);
    }
    if (!change->desired.verb) {
        const char *instead = foreign_word_hint(word, FOREIGN_VERB);

        if (instead)
            return err_set(&change->err, X17, "no command \"" WORD_FMT "\": %s", WORD_ARG(word),
                           instead);
        return err_set(&change->err, X17,
                       "no command \"" WORD_FMT "\"%s: write start, stop, reset, restart, flush, "
                       "close or detach",
                       WORD_ARG(word), near_text(&near));
    }
    if ((change->desired.verb != VERB_START && change->desired.verb != VERB_RESTART) || !pmc->set ||
        pmc->attached.any || mode_table[pmc->mode_in_use].system)
        return 0;
    return add_targets(change, (struct word){"self", 4});
}

/* Parses values for `count`: a line for each event, or separated by commas. */
static int parse_count(struct change *change)
{
    struct scan scan = scan_of((struct word){change->call->text, change->call->len});
    struct word word;
    char room[256];
    struct buf values = buf_in(room, sizeof room);
    int rc;

    change->desired.sets_count = true;
    change->desired.command_keys = KEY_BIT(KEY_COUNT);
    while (scan_word(&scan, &word)) {
        buf_str(&values, values.len ? "," : "");
        buf_add(&values, word.p, word.len);
    }
    if (values.failed)
        rc = err_nomem(&change->err);
    else if (values.len == 0)
        rc = err_set(
            &change->err, P02,
            "write one number for each event: 0 or 0,100, or the lines that reading count gives");
    else
        rc = settings_set(&change->desired.settings, KEY_COUNT,
                          (struct word){buf_text(&values), values.len}, &change->err);
    buf_free(&values);
    return rc;
}

int change_parse(struct change *change)
{
    const struct call *call = change->call;
    struct scan scan = scan_of((struct word){call->text, call->len});
    struct word word;
    int rc;

    if (call->len >= strlen(BYTE_ORDER_MARK) &&
        memcmp(scan.p, BYTE_ORDER_MARK, strlen(BYTE_ORDER_MARK)) == 0)
        scan.p += strlen(BYTE_ORDER_MARK);
    if (strcmp(change->file, "ctl") == 0)
        return parse_verb(change);
    if (strcmp(change->file, "count") == 0)
        return parse_count(change);
    if (strcmp(change->file, "mode") == 0) {
        change->desired.command_keys |= KEY_BIT(KEY_MODE);
        rc = scan_only(call->text, call->len, E20, &word, &change->err);
        return rc ? rc : settings_set(&change->desired.settings, KEY_MODE, word, &change->err);
    }
    rc = strcmp(change->file, "config") == 0 ? parse_config(change, &scan)
                                             : parse_words(change, &scan);
    change->call->empty = rc == 0 && !change->desired.command_keys;
    return rc;
}
