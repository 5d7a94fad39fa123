/*
 * A counter as one line of text, and back: "perf KIND FLAGS raced left_out on begun covered
 * groups…". The descriptors stay open under their numbers; rings and watches are made again.
 */
#include "backends/perf/counter.h"
#include "backends/perf/follow.h"
#include "backends/perf/output.h"
#include "backends/perf/track.h"
#include "backends/perf/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t *last_words(const struct counter *counter, unsigned group, size_t *n)
{
    *n = sizeof(struct group_last) / sizeof(uint64_t) + counter->members;
    return counter->last ? (uint64_t *)(void *)counter->last + group * *n : NULL;
}

/* " TID CPU FD,FD,… [LAST,LAST,…]" */
static void group_print(const struct counter *counter, unsigned group, struct buf *out)
{
    size_t n_last;
    const uint64_t *last = last_words(counter, group, &n_last);

    buf_printf(out, " %d %d", counter->tasks[group].tid, counter->tasks[group].cpu);
    for (unsigned i = 0; i < counter->stride; i++)
        buf_printf(out, "%c%d", i ? ',' : ' ', counter_fds(counter, group)[i]);
    for (size_t i = 0; last && i < n_last; i++) {
        buf_char(out, i ? ',' : ' ');
        buf_u64(out, __atomic_load_n(&last[i], __ATOMIC_RELAXED));
    }
    if (counter->skew) {
        const struct skew *skew = &counter->skew[group];

        buf_printf(out, " %" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, skew->enabled_ns,
                   skew->running_ns, skew->kept_enabled_ns, skew->kept_running_ns);
    }
}

struct pids {
    pid_t *list;
    size_t n, size;
};

static void add_pid(void *arg, pid_t pid)
{
    struct pids *pids = arg;

    if (pids->n < pids->size)
        pids->list[pids->n++] = pid;
}

/*
 * What the covered processes execute, to be compared with what they execute when they are adopted.
 * Before the last look at the records: an exec that was over when the image was noted has left its.
 */
static void note_images(const struct counter *counter)
{
    struct counter_facts facts;
    struct pids pids = {.n = 0};

    perf_facts_of(counter, &facts);
    pids.size = facts.covered;
    pids.list = calloc(pids.size + 1, sizeof *pids.list);
    if (!pids.list || !counter->listening) {
        free(pids.list);
        return;
    }
    perf_processes(counter, add_pid, &pids);
    for (size_t i = 0; i < pids.n; i++) {
        uint64_t image = counter_image(pids.list[i]);

        sideband_lock(counter->state->sideband);
        covered_image(counter->covered, pids.list[i], image);
        sideband_unlock(counter->state->sideband);
    }
    free(pids.list);
}

void perf_print(const struct counter *counter, struct buf *out)
{
    buf_printf(out, "perf %u %u %u %u %u %u ", counter->n, counter->n_groups, counter->raced,
               counter->left_out, __atomic_load_n(&counter->on, __ATOMIC_RELAXED), counter->begun);
    if (counter->covered)
        note_images(counter);
    if (!counter->covered) {
        buf_str(out, "-");
    } else if (counter->listening) {
        sideband_drain(counter->state->sideband);
        sideband_lock(counter->state->sideband);
        covered_print(counter->covered, out);
        sideband_unlock(counter->state->sideband);
    } else {
        covered_print(counter->covered, out);
    }
    for (unsigned i = 0; i < counter->n_groups; i++)
        group_print(counter, i, out);
    buf_str(out, " follow ");
    follow_print(counter->follow, out);
}

/* The next number of the text; false when there is none. ' ' and ',' separate. */
static bool next_number(const char **text, uint64_t *value)
{
    char *end;

    while (**text == ' ' || **text == ',')
        ++*text;
    errno = 0;
    *value = **text == '-' ? (uint64_t)strtoll(*text, &end, 10) : strtoull(*text, &end, 10);
    if (end == *text || errno)
        return false;
    *text = end;
    return true;
}

static bool group_scan(struct counter *counter, unsigned group, const char **text)
{
    size_t n_last;
    uint64_t *last = last_words(counter, group, &n_last);
    uint64_t value;

    if (!next_number(text, &value))
        return false;
    counter->tasks[group].tid = (pid_t)value;
    if (!next_number(text, &value))
        return false;
    counter->tasks[group].cpu = (int)value;
    for (unsigned i = 0; i < counter->stride; i++) {
        if (!next_number(text, &value))
            return false;
        counter_fds(counter, group)[i] = (int)value;
    }
    for (size_t i = 0; last && i < n_last; i++)
        if (!next_number(text, &last[i]))
            return false;
    if (!counter->skew)
        return true;
    struct skew *skew = &counter->skew[group];
    return next_number(text, &skew->enabled_ns) && next_number(text, &skew->running_ns) &&
           next_number(text, &skew->kept_enabled_ns) && next_number(text, &skew->kept_running_ns);
}

/* Has it lost its events while nobody listened? image is what it executed before; 0 not known. */
static bool dropped_unheard(const struct counter *counter, pid_t pid, uint64_t image)
{
    const uint64_t now = image && pid != counter->target.pid ? counter_image(pid) : 0;

    return now && now != image && counter_is_private(pid);
}

/*
 * A process that ended or executed a privileged program while nobody listened left no record. One
 * without threads was suspected.
 */
static void cover_prune(struct counter *counter, const char *text)
{
    char *end;

    while (*text == '?' || *text == '!')
        text++;
    for (long pid; (pid = strtol(text, &end, 10)) > 0 && *end == ':'; text = end + (*end == ',')) {
        long threads = strtol(end + 1, &end, 10);
        uint64_t image = *end == ':' ? strtoull(end + 1, &end, 10) : 0;
        char path[32];

        snprintf(path, sizeof path, "/proc/%ld", pid);
        bool gone = access(path, F_OK);
        bool dropped =
            threads ? dropped_unheard(counter, (pid_t)pid, image) : counter_lives((pid_t)pid);
        if (dropped)
            covered_drop(counter->covered);
        if (gone || dropped)
            covered_thread(counter->covered, (pid_t)pid, -(int)threads);
    }
}

static int covered_adopt(struct counter *counter, const char *text)
{
    struct sideband *sideband = counter->state->sideband;
    bool ok;

    counter->covered = covered_new(counter->target.pid);
    if (!counter->covered)
        return -ENOMEM;
    counter->listener =
        (struct side_listener){.take = covered_take, .arg = counter->covered, .watched = true};
    counter->listening = sideband && !sideband_listen(sideband, &counter->listener);
    if (counter->listening)
        sideband_lock(sideband);
    ok = covered_scan(counter->covered, text);
    cover_prune(counter, text);
    if (!counter->listening)
        covered_doubt(counter->covered);
    else
        sideband_unlock(sideband);
    return ok ? 0 : -EINVAL;
}

static int counter_scan(struct counter *counter, const char *text)
{
    uint64_t head[6];
    const char *covered;

    if (strncmp(text, "perf ", 5))
        return -EINVAL;
    text += 5;
    for (size_t i = 0; i < 6; i++)
        if (!next_number(&text, &head[i]))
            return -EINVAL;
    if (head[0] != counter->n || head[1] > 1u << 24 || head[1] % counter->spread || *text != ' ')
        return -EINVAL;
    if (!counter_make_groups(counter, (unsigned)head[1]))
        return -ENOMEM;
    counter->raced = head[2];
    counter->left_out = (unsigned)head[3];
    counter->on = head[4];
    counter->begun = head[5];
    covered = ++text;
    text += strcspn(text, " ");
    for (unsigned i = 0; i < counter->n_groups; i++)
        if (!group_scan(counter, i, &text))
            return -EINVAL;
    return counter->descendants ? covered_adopt(counter, covered) : 0;
}

/* They must be what the text says: open descriptors, each. */
static bool descriptors_are_open(const struct counter *counter)
{
    size_t n = (size_t)counter->n_groups * counter->stride;

    for (size_t i = 0; i < n; i++)
        if (counter->fds[i] >= 0 && fcntl(counter->fds[i], F_GETFD) < 0)
            return false;
    return true;
}

/* Without it steps end here; the count goes on. */
static struct follow *follow_adopted(struct counter *counter, const struct plan *plan,
                                     const char *printed)
{
    const char *text = strstr(printed, " follow ");

    return text ? follow_adopt(counter, plan, text + strlen(" follow ")) : NULL;
}

int perf_adopt(struct backend_state *state, const struct plan *plan, const char *printed,
               struct counter **out)
{
    struct counter *counter = NULL;
    struct shape shape;
    int rc = shape_make(&shape, state, plan, -1);

    *out = NULL;
    if (!rc)
        counter = counter_new(state, plan, &shape);
    if (!counter)
        rc = -ENOMEM;
    if (!rc)
        rc = counter_scan(counter, printed);
    if (!rc && !descriptors_are_open(counter))
        rc = -EBADF;
    if (!rc && shape.watch && counter->n_groups)
        counter->watch =
            watch_new(state, counter->fds + FD_WATCH(counter->members), counter->stride,
                      counter->n_groups, false, state->sink->gone, counter->tag, &rc);
    if (!rc)
        rc = output_begin(counter, plan);
    if (!rc && counter_is_on(counter))
        rc = track_begin(counter);
    if (!rc && follow_is_needed(counter, plan))
        follow_publish(counter, follow_adopted(counter, plan, printed));
    shape_free(&shape);
    if (rc && counter)
        perf_forget(counter);
    else
        *out = counter;
    return rc;
}
