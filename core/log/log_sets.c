/*
 * Numbered sets of events, never changed once they are there: a reader may keep what it was given.
 */
#include "core/log/log_sets.h"

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
