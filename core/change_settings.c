/*
 * Settings by themselves: whether they may change now, and fit each other, the mode and the set.
 */
#include "core/plan.h"

#include <string.h>

bool takes_mode_back(const struct change *change)
{
    return change->pmc->settings.given & ~change->want.given & GIVEN(KEY_MODE);
}

static bool key_changes(const struct change *change, enum key key)
{
    if (key == KEY_EVENT)
        return change->new_set;
    return key != KEY_TARGET && (!settings_same(&change->want, &change->pmc->settings, key) ||
                                 (key == KEY_MODE && takes_mode_back(change)));
}

int check_open(struct change *change)
{
    const struct pmc *pmc = change->pmc;
    const struct state_row *state = &state_table[pmc->state];

    if (state->open)
        return 0;
    if (change->put && strcmp(change->file, "count") == 0)
        return err_set(&change->err, E06, "%s is %s: stop it before its count is written",
                       pmc->name, state->name);
    for (unsigned key = 0; key < KEYS; key++) {
        if (!(change->given & GIVEN(key)) || !key_changes(change, key))
            continue;
        if (key == KEY_LOG)
            return err_set(&change->err, P06,
                           "%s is %s: write \"close\" to ctl to end its log, which stops what "
                           "needs one, or \"stop\" before log is changed",
                           pmc->name, state->name);
        return err_set(&change->err, key == KEY_COUNT ? E07 : P06,
                       "%s is %s: write \"stop\" to ctl before %s is changed", pmc->name,
                       state->name, key_table[key].name);
    }
    return 0;
}

static enum err_id misplaced_id(const struct settings *want, unsigned key)
{
    if (key_table[key].place == PLACE_PROCESS)
        return X05;
    return key == KEY_CALLCHAIN && want->value[key] == CALLCHAIN_USER ? X04 : P07;
}

static int refuse_counts(struct change *change)
{
    const unsigned n = change->want.n_counts, events = change->set->n;
    const bool given = change->given & GIVEN(KEY_COUNT);

    return err_set(&change->err, P02, "count: %u value%s%s for %u event%s: write %u number%s%s", n,
                   n == 1 ? "" : "s", given ? "" : ", written before,", events,
                   events == 1 ? "" : "s", events, events == 1 ? "" : "s, separated by commas",
                   given ? "" : ", in one command to config with event=");
}

/* One initial value for each event. Those of an earlier set stay, as far as they go. */
static int check_counts(struct change *change)
{
    const struct pmc *pmc = change->pmc;
    struct settings *want = &change->want;
    bool put = change->put && strcmp(change->file, "count") == 0;

    if (!change->set || want->n_counts == change->set->n)
        return 0;
    if (change->given & GIVEN(KEY_COUNT)) /* the value it has is accepted */
        return !put && !change->new_set && settings_same(want, &pmc->settings, KEY_COUNT)
                   ? 0
                   : refuse_counts(change);
    if (!pmc->set && !settings_standard(want, KEY_COUNT))
        return refuse_counts(change);
    if (want->n_counts > change->set->n)
        want->n_counts = change->set->n;
    return 0;
}

static bool has_processes(const struct change *change, const struct mode_row *mode)
{
    bool any = pmc_live_links(change->pmc) > 0;

    for (unsigned i = 0; i < change->n_wanted; i++)
        any |= !change->wanted[i].word.remove;
    return any && !mode->system;
}

int check_places(struct change *change)
{
    const struct mode_row *mode = &mode_table[change->effective];
    const struct settings *want = &change->want;
    const bool processes = has_processes(change, mode);

    for (unsigned key = 0; key < KEYS; key++) {
        bool misplaced = (key_table[key].place == PLACE_SAMPLING && !mode->sampling) ||
                         (key_table[key].place == PLACE_PROCESS && mode->system) ||
                         (key_table[key].place == PLACE_CPUS && processes);
        struct buf value;
        char room[64];

        if (!misplaced || settings_standard(want, key))
            continue;
        buf_init(&value, room, sizeof room);
        settings_print(want, key, 0, &value);
        int rc = err_set(&change->err, misplaced_id(want, key), "%s=%s has no place in mode %s",
                         key_table[key].name, buf_text(&value), mode->name);
        buf_free(&value);
        return rc;
    }
    if (want->value[KEY_PERIOD] != UINT64_MAX && want->value[KEY_FREQ] != UINT64_MAX)
        return err_set(&change->err, P07,
                       "period and freq exclude each other: take one back with "
                       "\"period=off\" or \"freq=off\"");
    return check_counts(change);
}
