/*
 * Processes that executed a program which they may not be observed in. The kernel takes the events
 * off them and says that they ended, though they live: right behind the exec, before anything of
 * the new program is mapped, which is how such an end is told from others.
 */
#include "core/recording_state.h"

/* What they counted is given to nobody. */
void recording_mark_left(struct recording *recording, uint32_t pid)
{
    if (recording->exits)
        exits_leave(recording->exits, pid);
    if (recording->lives)
        exits_leave(recording->lives, pid);
    recording_unmark_left(recording, pid);
    atomic_store(&recording->left[recording->next_left++ % EXECS_MAX], pid);
}

void recording_unmark_left(struct recording *recording, uint32_t pid)
{
    for (unsigned i = 0; i < EXECS_MAX; i++)
        if (atomic_load(&recording->left[i]) == pid)
            atomic_store(&recording->left[i], 0);
}

bool recording_left(const struct recording *recording, pid_t pid)
{
    for (unsigned i = 0; i < EXECS_MAX; i++)
        if (atomic_load(&recording->left[i]) == (uint32_t)pid)
            return true;
    return false;
}
