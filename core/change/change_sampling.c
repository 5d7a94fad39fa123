/*
 * Sampling: the parameters within the limits, and the requirements of the log: a recording, an id
 * of the set, log=on.
 */
#include "core/change/plan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TYPE_SOFTWARE    1      /* PERF_TYPE_SOFTWARE */
#define TYPE_TRACEPOINT  2      /* PERF_TYPE_TRACEPOINT */
#define CONTEXT_SWITCHES 3      /* PERF_COUNT_SW_CONTEXT_SWITCHES */
#define FREQ_STANDARD    997    /* prime, so that it does not follow periodic work */
#define CLOCK_MIN_NS     100000 /* least period of clock events for ordinary users */
#define CLOCK_MAX_HZ     (1000000000 / CLOCK_MIN_NS)
#define SETS_ABOVE_QUOTA 16 /* the first sets of a PMC are charged even above the quota */
#define SET_LOOK_BACK    8  /* last sets that are searched for an equal one */

/* ---- checks ---- */

/* Refuses a new logsize above the tunables' limit; for the superuser above the quota of the paying
 * user, if that is larger. */
static int check_logsize(struct change *change)
{
    const uint64_t asked = settings_number(&change->desired.settings, KEY_LOGSIZE);
    const uint64_t quota = user_limit(change->payer, USED_BYTES);
    uint64_t max = log_size_max(change->engine);

    if (change->requester.superuser && quota > max)
        max = quota;
    if (!(change->desired.command_keys & KEY_BIT(KEY_LOGSIZE)) || asked == UINT64_MAX ||
        asked <= max ||
        settings_same(&change->desired.settings, &change->pmc->settings, KEY_LOGSIZE))
        return 0;
    return err_set(&change->err, P02, "logsize=%" PRIu64 ": give at most %" PRIu64 " bytes: %s",
                   asked, max,
                   max == quota ? user_limit_shown(change->payer, USED_BYTES)
                                : "the tunables nbuffers × logbuffersize");
}

static bool wants_stack(const struct change *change)
{
    return change->desired.settings.word[KEY_CALLCHAIN] == CALLCHAIN_DWARF;
}

/* Checks offcpu=on: each switch must have a sample. */
static int check_off_cpu(struct change *change)
{
    const struct settings *settings = &change->desired.settings;
    const struct set *set = change->desired.set;
    const struct event *event = set ? &set->event[0] : NULL;
    const uint64_t period = settings_number(settings, KEY_PERIOD);

    if (!settings->word[KEY_OFFCPU])
        return 0;
    if (!change->recording.limits.off_cpu)
        return err_set(
            &change->err, P09,
            "offcpu=on: the backend %s does not record when threads run again: write offcpu=off",
            change->engine->backend->name);
    if (!mode_table[settings->mode].system && (period == UINT64_MAX || period == 1) &&
        settings_number(settings, KEY_FREQ) == UINT64_MAX &&
        (!event ||
         (set->n == 1 && event->code[0] == TYPE_SOFTWARE && event->code[1] == CONTEXT_SWITCHES)))
        return 0;
    return err_set(&change->err, P07,
                   "offcpu=on: it needs context-switches as the only event, processes as targets, "
                   "and a sample of each switch (period=1)");
}

int check_sampling(struct change *change)
{
    const struct desired *desired = &change->desired;
    struct settings *settings = &change->desired.settings;
    int rc = check_logsize(change);

    if (rc || !mode_table[settings->mode].sampling)
        return rc;
    for (unsigned i = 0; desired->set && i < desired->set->n; i++)
        if (!desired->set->event[i].sampling)
            return err_set(&change->err, E36,
                           "\"%s\" cannot be sampled, because it raises no interrupt (\"sampling "
                           "no\" in its file in events/): count it, or sample cpu-clock",
                           desired->set->event[i].written);
    if (!settings->word[KEY_USER] &&
        (settings_skip_kernel(settings) || !change->requester.may_kernel))
        return err_set(&change->err, P07,
                       "user=off and kernel=off%s: %s would have no samples, so write user=on",
                       change->requester.may_kernel ? "" : " (you may not count kernel mode)",
                       change->pmc->name);
    if (wants_stack(change) && !change->recording.limits.registers)
        return err_set(&change->err, P09,
                       "callchain=dwarf: registers and stacks cannot be recorded (processor other "
                       "than x86-64 and arm64, kernel without CONFIG_HAVE_USER_STACK_DUMP, or "
                       "backend \"%s\"). Write callchain=on, which uses frame pointers",
                       change->engine->backend->name);
    /* tracepoint fields can contain data of other tasks, and the kernel requires CAP_PERFMON */
    if (settings->word[KEY_RAW] && !change->requester.superuser &&
        (desired->new_set || change->diff.reopen || change_attaches(change)))
        return err_set(
            &change->err, P18,
            "raw=on records fields of tracepoints, which can contain data of other users: it %s",
            change->requester.in_instance ? "is not possible in an instance"
                                          : "needs CAP_PERFMON, whatever the tunables say");
    rc = check_off_cpu(change);
    if (rc)
        return rc;
    if (((desired->command_keys & KEY_BIT(KEY_COUNT)) && !settings_standard(settings, KEY_COUNT)) ||
        (desired->sets_count && strcmp(change->file, "count") == 0))
        return err_set(&change->err, P31,
                       "%s samples, so its count cannot be set: write period=N for the number of "
                       "events between two samples",
                       change->pmc->name);
    settings->n_counts = 0; /* of an earlier counting mode */
    return 0;
}

/* ---- parameters ---- */

/*
 * Finds period or frequency. Hardware and clock events are frequent, and a small period would stop
 * the host: mincount applies, and the default is a rate. Other events (faults, switches,
 * tracepoints) can be sampled at each occurrence. Clock events are limited for users, because they
 * interrupt the CPU all the time: at 100 kHz it has no time for other work.
 */
static void find_rate(const struct change *change, struct sampling *sampling)
{
    uint64_t period = settings_number(&change->desired.settings, KEY_PERIOD),
             freq = settings_number(&change->desired.settings, KEY_FREQ);
    uint64_t min_period = tunable_u64(&change->engine->tunables, TUNABLE_MINCOUNT);
    uint64_t max_freq = change->recording.limits.max_freq;
    bool is_frequent = false, limits_clock = false;

    for (unsigned i = 0; i < change->desired.set->n; i++) {
        const struct event *event = &change->desired.set->event[i];
        const bool clock = strcmp(event->unit, "ns") == 0;

        is_frequent |= clock || change->engine->classes[event->class_index].hardware;
        limits_clock |= clock && !change->requester.superuser;
    }
    if (period != UINT64_MAX) {
        sampling->slowed = limits_clock && min_period <= CLOCK_MIN_NS && period < CLOCK_MIN_NS;
        min_period = sampling->slowed ? CLOCK_MIN_NS : min_period;
        sampling->period = is_frequent && period < min_period ? min_period : period;
        sampling->asked = sampling->period != period ? period : 0;
    } else if (freq != UINT64_MAX || is_frequent) {
        freq = freq != UINT64_MAX ? freq : FREQ_STANDARD;
        sampling->slowed = limits_clock && max_freq >= CLOCK_MAX_HZ && freq > CLOCK_MAX_HZ;
        max_freq = sampling->slowed ? CLOCK_MAX_HZ : max_freq;
        sampling->freq = freq < max_freq ? freq : max_freq;
        sampling->asked = sampling->freq != freq ? freq : 0;
    } else {
        sampling->period = 1;
    }
}

/* Finds all parameters. If counters stay open, the PMC's present parameters stay too. Readers of
 * the log get stacks and raw fields only if they have the rights `observer`. */
static void find_sampling(struct change *change)
{
    const struct settings *settings = &change->desired.settings;
    const uint64_t depth = settings_number(settings, KEY_DEPTH),
                   stack = settings_number(settings, KEY_STACK);
    struct sampling *sampling = &change->recording.sampling;
    uint64_t chain = settings->word[KEY_CALLCHAIN],
             max_depth = tunable_u64(&change->engine->tunables, TUNABLE_CALLCHAINDEPTH);
    bool opens = change->desired.new_set || change->diff.reopen || !pmc_links_left(change->pmc);

    *sampling = change->pmc->sampling;
    if (change->cause != CAUSE_COMMAND || !opens)
        return;
    *sampling = (struct sampling){.period = 0};
    if (!change->desired.set || !(change->recording.kinds & RECORDED_SAMPLES))
        return;
    find_rate(change, sampling);
    sampling->raw = settings->word[KEY_RAW];
    if (sampling->raw || wants_stack(change))
        sampling->observer = rights_to_memory(change->requester.rights);
    if (chain == CALLCHAIN_OFF)
        return;
    sampling->chain_user = chain != CALLCHAIN_KERNEL;
    sampling->chain_kernel = chain != CALLCHAIN_USER && change->requester.may_kernel;
    if (max_depth > change->recording.limits.max_frames)
        max_depth = change->recording.limits.max_frames;
    /* "default" is the largest number */
    sampling->depth = (unsigned)(depth < max_depth ? depth : max_depth);
    sampling->depth_asked = depth != UINT64_MAX && depth > max_depth ? (unsigned)depth : 0;
    if (!wants_stack(change))
        return;
    sampling->stack = stack == UINT64_MAX ? STACK_STANDARD : (uint32_t)(stack + 7) & ~7u;
    sampling->registers = change->recording.limits.registers;
}

/* ---- the id of the set ---- */

static bool event_alike(const struct log_event *a, const struct log_event *b)
{
    return a && strcmp(a->name, b->name) == 0 && strcmp(a->resolved, b->resolved) == 0 &&
           a->period == b->period && a->freq == b->freq && a->chains == b->chains &&
           a->stack == b->stack && a->raw == b->raw &&
           memcmp(&a->observer, &b->observer, sizeof a->observer) == 0;
}

/* Returns the id of an equal set among the last SET_LOOK_BACK sets, or 0. */
static uint64_t set_number_find(struct log_sets *sets, const struct log_event *events, unsigned n)
{
    uint64_t last = log_sets_last(sets);

    for (uint64_t set = last; set > 0 && set + SET_LOOK_BACK > last; set--) {
        unsigned same = 0;

        while (same < n && log_sets_events(sets, set) == n &&
               event_alike(log_sets_event(sets, set, same), &events[same]))
            same++;
        if (same == n)
            return set;
    }
    return 0;
}

/* Creates an id for the set and sets recording.set_number. The set is kept as long as the PMC and
 * charged like its log. */
static int set_number_create(struct change *change, const struct log_event *events, unsigned n)
{
    struct pmc *pmc = change->pmc;
    int64_t bytes = 64;

    for (unsigned i = 0; i < n; i++)
        bytes += (int64_t)(sizeof events[i] + strlen(events[i].name) + strlen(events[i].resolved));
    if (log_sets_last(pmc->sets) < SETS_ABOVE_QUOTA)
        user_charge_unchecked(pmc->user, USED_BYTES, bytes);
    else if (!user_charge(pmc->user, USED_BYTES, bytes))
        return refuse_log(change, "one more set of events");
    pmc->sets_bytes += (uint64_t)bytes;
    change->recording.set_number = log_sets_add(pmc->sets, events, n);
    return change->recording.set_number ? 0 : err_nomem(&change->err);
}

static int find_set_number(struct change *change)
{
    const struct sampling *sampling = &change->recording.sampling;
    const struct set *set = change->desired.set;
    struct pmc *pmc = change->pmc;
    struct log_event events[SET_MAX];
    unsigned n = 0, filled = 0;
    int rc = 0;

    change->recording.set_number = change->recording.kinds ? pmc->set_number : 0;
    if (!set || !change->recording.kinds ||
        (change->recording.set_number && !change->desired.new_set && !change->diff.reopen &&
         memcmp(sampling, &pmc->sampling, sizeof pmc->sampling) == 0))
        return 0;
    if (!pmc->sets)
        pmc->sets = log_sets_new();
    for (; n < set->n; n++) {
        const struct event *event = &set->event[n];
        struct buf resolved = {0};

        plan_event_print(&change->desired.events[n], &resolved);
        events[n] = (struct log_event){
            .name = event->written,
            .resolved = resolved.failed ? NULL : strdup(buf_text(&resolved)),
            .period = sampling->period,
            .freq = sampling->freq,
            .chains = sampling->chain_user || sampling->chain_kernel,
            .stack = sampling->stack,
            .registers = sampling->registers,
            .raw = sampling->raw && event->code[0] == TYPE_TRACEPOINT,
            .observer = sampling->observer,
            .type = (uint32_t)event->code[0],
            .config = event->code[1],
        };
        filled += events[n].resolved != NULL;
        buf_free(&resolved);
    }
    if (!pmc->sets || filled < n)
        rc = err_nomem(&change->err);
    else if (!(change->recording.set_number = set_number_find(pmc->sets, events, n)))
        rc = set_number_create(change, events, n);
    for (unsigned i = 0; i < n; i++)
        free(events[i].resolved);
    return rc;
}

/* ---- the recording ---- */

/* Refuses a target that would join a recording of kernel addresses that the requester may not see,
 * or of memory that users with other rights can see. */
static int check_joined_recording(struct change *change)
{
    const struct pmc *pmc = change->pmc;
    const struct change_recording *recording = &change->recording;
    const struct memory_right *observer = &recording->sampling.observer,
                              requester = rights_to_memory(change->requester.rights);

    if (change->cause != CAUSE_COMMAND || recording->creates || !change->diff.n_opens)
        return 0;
    if ((recording->kinds & RECORDED_SAMPLES) && pmc->recorded.kernel &&
        !change->requester.may_kernel)
        return err_set(&change->err, P18,
                       "%s records kernel addresses for its present targets, which needs "
                       "CAP_PERFMON (or the tunable unprivileged_kernel): detach them first",
                       pmc->name);
    if (observer->known &&
        (!memory_right_covers(&requester, observer) || !memory_right_covers(observer, &requester)))
        return err_set(&change->err, P18,
                       "%s records memory of its present targets, for uid %u with the rights that "
                       "attached them: detach them first",
                       pmc->name, (unsigned)observer->uid);
    return 0;
}

int plan_log(struct change *change)
{
    const struct settings *settings = &change->desired.settings;
    const struct difference *diff = &change->diff;
    struct change_recording *recording = &change->recording;
    const struct pmc *pmc = change->pmc;
    const bool by_command = change->cause == CAUSE_COMMAND;

    recording->kinds = recorded_for(settings->mode, settings);
    find_sampling(change);
    /* A new recording has the requester's rights and PIDs. Counters that join existing ones use
     * their recording. */
    recording->creates =
        recording->kinds && diff->n_opens &&
        (!pmc->recording || change->desired.new_set || pmc->recorded.kinds != recording->kinds ||
         (by_command && (diff->reopen || !pmc_links_left(pmc))));
    if (recording->kinds && !settings->word[KEY_LOG] && by_command &&
        (diff->start || diff->start_opened))
        return recording->kinds & RECORDED_SAMPLES
                   ? err_set(&change->err, E09,
                             "%s samples and has log=off: write log=on to config, or attach with "
                             "autostart=off",
                             pmc->name)
                   : err_set(&change->err, E08, "%s has %s=on and log=off: write log=on to config",
                             pmc->name, settings->word[KEY_LOG_CSW] ? "log-csw" : "log-exit");
    int rc = check_joined_recording(change);
    if (rc == 0)
        rc = find_set_number(change);
    if (rc)
        return rc;
    if (recording->kinds && (diff->n_opens || diff->start) && !pmc_ensure_log(change->pmc))
        return err_nomem(&change->err);
    if (recording->creates && !(recording->counted_before = calloc(SET_MAX, sizeof(uint64_t))))
        return err_nomem(&change->err);
    return 0;
}
