/*
 * Numbered sets of events, never changed once they are there: a reader may keep what it was given.
 */
#include "core/log_sets.h"

#include "core/hex.h"
#include "core/scan.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define EVENTS_MAX 256 /* places of LOG_ID */

struct log_set {
    unsigned n;
    struct log_event event[];
};

struct log_sets {
    pthread_mutex_t mutex;
    unsigned refs;
    uint64_t n;
    struct log_set **set;
};

static void set_free(struct log_set *set)
{
    for (unsigned i = 0; i < set->n; i++) {
        free(set->event[i].name);
        free(set->event[i].resolved);
    }
    free(set);
}

struct log_sets *log_sets_new(void)
{
    struct log_sets *sets = calloc(1, sizeof(*sets));

    if (!sets)
        return NULL;
    pthread_mutex_init(&sets->mutex, NULL);
    sets->refs = 1;
    return sets;
}

struct log_sets *log_sets_ref(struct log_sets *sets)
{
    __atomic_add_fetch(&sets->refs, 1, __ATOMIC_RELAXED);
    return sets;
}

void log_sets_unref(struct log_sets *sets)
{
    if (!sets || __atomic_sub_fetch(&sets->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    for (uint64_t i = 0; i < sets->n; i++)
        set_free(sets->set[i]);
    free(sets->set);
    pthread_mutex_destroy(&sets->mutex);
    free(sets);
}

static bool event_dup(struct log_event *to, const struct log_event *from)
{
    *to = *from;
    to->name = strdup(from->name);
    to->resolved = strdup(from->resolved);
    return to->name && to->resolved;
}

/* NULL: no memory. */
static struct log_set *set_new(const struct log_event *events, unsigned n)
{
    struct log_set *set = calloc(1, sizeof(*set) + n * sizeof(set->event[0]));

    if (!set)
        return NULL;
    set->n = n;
    for (unsigned i = 0; i < n; i++)
        if (!event_dup(&set->event[i], &events[i])) {
            set_free(set);
            return NULL;
        }
    return set;
}

/* Takes the set over; its number, or 0: no memory. */
static uint64_t sets_append(struct log_sets *sets, struct log_set *set)
{
    struct log_set **grown;
    uint64_t number = 0;

    pthread_mutex_lock(&sets->mutex);
    grown = realloc(sets->set, (sets->n + 1) * sizeof(struct log_set *));
    if (grown) {
        sets->set = grown;
        grown[sets->n++] = set;
        number = sets->n;
    }
    pthread_mutex_unlock(&sets->mutex);
    if (!grown)
        set_free(set);
    return number;
}

uint64_t log_sets_add(struct log_sets *sets, const struct log_event *events, unsigned n)
{
    struct log_set *set = n <= EVENTS_MAX ? set_new(events, n) : NULL;

    return set ? sets_append(sets, set) : 0;
}

uint64_t log_sets_last(struct log_sets *sets)
{
    uint64_t n;

    pthread_mutex_lock(&sets->mutex);
    n = sets->n;
    pthread_mutex_unlock(&sets->mutex);
    return n;
}

static const struct log_set *set_of(struct log_sets *sets, uint64_t number)
{
    const struct log_set *set;

    pthread_mutex_lock(&sets->mutex);
    set = number > 0 && number <= sets->n ? sets->set[number - 1] : NULL;
    pthread_mutex_unlock(&sets->mutex);
    return set;
}

const struct log_event *log_sets_event(struct log_sets *sets, uint64_t number, unsigned place)
{
    const struct log_set *set = set_of(sets, number);

    return set && place < set->n ? &set->event[place] : NULL;
}

unsigned log_sets_events(struct log_sets *sets, uint64_t number)
{
    const struct log_set *set = set_of(sets, number);

    return set ? set->n : 0;
}

/*
 * One line of words: the number of sets; of each the number of its events; of each name and
 * resolved in hexadecimal, period, freq, chains, type, config.
 */
static void event_print(const struct log_event *event, struct buf *out)
{
    const uint64_t numbers[] = {event->period, event->freq, event->chains, event->type,
                                event->config};

    buf_char(out, ' ');
    hex_print(out, event->name, strlen(event->name));
    buf_char(out, ' ');
    hex_print(out, event->resolved, strlen(event->resolved));
    for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        buf_char(out, ' ');
        buf_u64(out, numbers[i]);
    }
}

void log_sets_print(struct log_sets *sets, struct buf *out)
{
    uint64_t n = log_sets_last(sets);

    buf_u64(out, n);
    for (uint64_t number = 1; number <= n; number++) {
        const struct log_set *set = set_of(sets, number);

        buf_char(out, ' ');
        buf_u64(out, set->n);
        for (unsigned i = 0; i < set->n; i++)
            event_print(&set->event[i], out);
    }
}

/* A string on the heap, or NULL. */
static char *scan_string(struct scan *scan)
{
    struct word word;
    size_t len;
    char *text;

    if (!scan_word(scan, &word) || !hex_len(word, &len))
        return NULL;
    text = calloc(1, len + 1);
    if (text && (!hex_scan(word, text) || strlen(text) != len)) {
        free(text);
        return NULL;
    }
    return text;
}

static bool event_scan(struct scan *scan, struct log_event *event)
{
    uint64_t chains, type;

    event->name = scan_string(scan);
    event->resolved = event->name ? scan_string(scan) : NULL;
    if (!event->resolved || !scan_u64(scan, UINT64_MAX, &event->period) ||
        !scan_u64(scan, UINT64_MAX, &event->freq) || !scan_u64(scan, 1, &chains) ||
        !scan_u64(scan, UINT32_MAX, &type) || !scan_u64(scan, UINT64_MAX, &event->config))
        return false;
    event->chains = chains;
    event->type = (uint32_t)type;
    return true;
}

static bool set_scan(struct log_sets *sets, struct scan *scan)
{
    uint64_t n;
    struct log_set *set;
    bool good;

    if (!scan_u64(scan, EVENTS_MAX, &n))
        return false;
    set = calloc(1, sizeof(*set) + n * sizeof(set->event[0]));
    good = set != NULL;
    while (good && set->n < n)
        good = event_scan(scan, &set->event[set->n++]);
    if (good)
        return sets_append(sets, set) > 0;
    if (set)
        set_free(set);
    return false;
}

struct log_sets *log_sets_scan(const char *text)
{
    struct log_sets *sets = log_sets_new();
    struct scan scan;
    uint64_t n = 0;

    scan_init(&scan, text, strlen(text));
    if (sets && scan_u64(&scan, UINT64_MAX, &n)) {
        while (n > 0 && set_scan(sets, &scan))
            n--;
        if (n == 0)
            return sets;
    }
    log_sets_unref(sets);
    return NULL;
}
