/*
 * A list of numbered event sets, newest first. Sets are immutable, so the engine can add one while
 * readers search the list, and a reader can keep pointers to events.
 */
#include "core/log/log_sets.h"

#include <stdlib.h>
#include <string.h>

#define EVENTS_MAX 256 /* LOG_ID has 8 bits for the index */

struct log_set {
    struct log_set *before;
    uint64_t number;
    unsigned n;
    struct log_event event[];
};

struct log_sets {
    unsigned refs;
    struct log_set *last; /* stored with release, loaded with acquire */
};

/* The initial user namespace's superuser may read everything. Other readers may not read memory
 * that a superuser observed; they need the same user, group and user namespace as the observer, and
 * at least its capabilities. */
bool memory_right_covers(const struct memory_right *reader, const struct memory_right *observer)
{
    if (!reader->known || !observer->known)
        return false;
    if (reader->superuser && !reader->userns)
        return true;
    return !observer->superuser && reader->uid == observer->uid && reader->gid == observer->gid &&
           reader->userns == observer->userns && !(observer->capabilities & ~reader->capabilities);
}

static void set_free(struct log_set *set)
{
    for (unsigned i = 0; i < set->n; i++) {
        free(set->event[i].name);
        free(set->event[i].resolved);
        free(set->event[i].word);
        free(set->event[i].format);
    }
    free(set);
}

struct log_sets *log_sets_new(void)
{
    struct log_sets *sets = calloc(1, sizeof(*sets));

    if (sets)
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
    for (struct log_set *set = sets->last, *before; set; set = before) {
        before = set->before;
        set_free(set);
    }
    free(sets);
}

uint64_t log_sets_add(struct log_sets *sets, const struct log_event *events, unsigned n)
{
    struct log_set *set =
        n <= EVENTS_MAX ? calloc(1, sizeof(*set) + n * sizeof(set->event[0])) : NULL;

    if (!set)
        return 0;
    set->n = n;
    for (unsigned i = 0; i < n; i++) {
        struct log_event *event = &set->event[i];
        struct buf word = {0};

        *event = events[i];
        event->format = NULL;
        event->name = strdup(events[i].name);
        event->resolved = strdup(events[i].resolved);
        buf_word(&word, events[i].name, strlen(events[i].name));
        event->word = word.failed ? NULL : strdup(buf_text(&word));
        event->word_len = word.len;
        buf_free(&word);
        if (!event->name || !event->resolved || !event->word) {
            set_free(set);
            return 0;
        }
    }
    set->before = sets->last;
    set->number = log_sets_last(sets) + 1;
    __atomic_store_n(&sets->last, set, __ATOMIC_RELEASE);
    return set->number;
}

uint64_t log_sets_last(const struct log_sets *sets)
{
    const struct log_set *last = __atomic_load_n(&sets->last, __ATOMIC_ACQUIRE);

    return last ? last->number : 0;
}

static const struct log_set *set_of(const struct log_sets *sets, uint64_t number)
{
    const struct log_set *set = __atomic_load_n(&sets->last, __ATOMIC_ACQUIRE);

    while (set && set->number != number)
        set = set->before;
    return set;
}

const struct log_event *log_sets_event(const struct log_sets *sets, uint64_t number, unsigned index)
{
    const struct log_set *set = set_of(sets, number);

    return set && index < set->n ? &set->event[index] : NULL;
}

unsigned log_sets_events(const struct log_sets *sets, uint64_t number)
{
    const struct log_set *set = set_of(sets, number);

    return set ? set->n : 0;
}

const char *log_event_format(const struct log_event *event)
{
    return __atomic_load_n(&event->format, __ATOMIC_ACQUIRE);
}

/* Writes the only field that may change: readers have pointers to const events. */
const char *log_event_keep_format(const struct log_event *event, char *format)
{
    char **place = &((struct log_event *)(uintptr_t)event)->format, *before = NULL;

    if (__atomic_compare_exchange_n(place, &before, format, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        return format;
    free(format);
    return before;
}
